"""Directions of public rows, along which `DiscriminantClassifier` measures all rows.

Rows are read in whole numbers, so that a row's point does not depend on the rows that are read together with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpensemble._arrays import Floats
from dpensemble.moments.whole import whole_features

#: Least variance in a direction, within classes.
LEAST_VARIANCE = 0.05
#: Largest standardised entry of a row, and largest entry of a factor in `exact_product`.
LARGEST = 2.0**6
# Whole units in 1 of rows and of matrices in `exact_product`.
_ROW, _MATRIX = 2.0**14, 2.0**16
# Directions at most, share of their mean variance that is added before scaling, and quantile of public lengths.
_MOST_DIRECTIONS, _RIDGE, _QUANTILE = 40, 0.02, 0.9


def exact_product(rows: Floats, matrix: Floats) -> Floats:
    """Return ``rows @ matrix`` by whole numbers, so that no row depends on the rows beside it.

    Sums are exact in any order while the length of a row times that of a column is below ``2**53`` whole units, by the
    inequality of Cauchy and Schwarz. Rows of ``n`` entries are at most ``2**20 sqrt(n)`` long, and columns of every
    matrix here at most ``2**21``, so that ``n`` may be up to ``2**24``.
    """
    whole = np.rint(np.clip(rows, -LARGEST, LARGEST) * _ROW)
    product: Floats = whole @ np.rint(np.clip(matrix, -LARGEST, LARGEST) * _MATRIX)
    return product / (_ROW * _MATRIX)


@dataclass(frozen=True, eq=False)
class PublicDirections:
    """Uncorrelated directions of public rows, scaled to variance 1.

    Parameters
    ----------
    centre, scale : ndarray of shape (n_columns,)
        Mean and standard deviation of public rows.
    directions : ndarray of shape (n_columns, n_directions)
        Columns map a standardised row to its point.
    radius : float
        Length to which longer points are cut.
    """

    centre: Floats
    scale: Floats
    directions: Floats
    radius: float

    @classmethod
    def of(cls, public: Floats) -> PublicDirections:
        """Return the directions of public rows, shape (n_public, n_columns)."""
        # Squares of larger entries overflow.
        public = np.clip(public, -1e100, 1e100)
        centre, scale = public.mean(axis=0), public.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        standard = np.clip((public - centre) / scale, -LARGEST, LARGEST)
        variances, vectors = np.linalg.eigh(standard.T @ standard / len(public))
        most = min(_MOST_DIRECTIONS, max(1, len(public) // 5))
        order = np.argsort(-variances)[:most]
        # One direction at least, also when public rows are all alike.
        chosen = [place for place in order if place == order[0] or variances[place] > 1e-3 * variances.max()]
        ridge = _RIDGE * variances[chosen].mean()
        directions = vectors[:, chosen] / np.sqrt(np.maximum(variances[chosen] + ridge, LEAST_VARIANCE**2))
        lengths = np.linalg.norm(exact_product(standard, directions), axis=1)
        return cls(centre, scale, directions, max(float(np.quantile(lengths, _QUANTILE)), 1e-3))

    def points(self, rows: Floats) -> Floats:
        """Return whole points of rows, none longer than `UNIT`, shape (n_rows, n_directions)."""
        # A warning about a private row would reveal something of the row.
        with np.errstate(over="ignore"):
            standard = np.clip((rows - self.centre) / self.scale, -LARGEST, LARGEST)
        points: Floats = whole_features(exact_product(standard, self.directions) / self.radius)
        return points
