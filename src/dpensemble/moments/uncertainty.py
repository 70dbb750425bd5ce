"""How certain the coefficients of a published model are, given the known noise of what was released."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dpensemble._arrays import Floats

Singles = NDArray[np.float32]

# Features above which the square matrix would make a published file large.
_MOST_FEATURES = 1000
# Precision, in units of the prior's, below which a direction keeps its coefficient at 0, for any released values.
_LEAST_PRECISION = 1e-4


@dataclass(frozen=True, eq=False)
class Information:
    """The precision of coefficients by what was released, and what the fit made of it. Public.

    Parameters
    ----------
    precision : ndarray of shape (n_features, n_features)
        Precision of one column of coefficients at the mean curvature of the classes, without the prior.
    deviations : ndarray of shape (n_features,)
        Prior standard deviations.
    curvatures : ndarray of shape (n_columns,)
        Factors of the precision for each column.
    factor : float
        Factor of the variances, which turns a column of coefficients into the logit that the model states.
    """

    precision: Floats
    deviations: Floats
    curvatures: Floats
    factor: float


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """How far the coefficients would move if noise and sample were drawn again, by their known size. Public.

    Coefficients are a ridge estimate: ``(J + D) b = J b*`` with the precision ``J`` of what was released, the precision
    ``D`` of the prior, and ``b*`` of covariance ``inv(J)``. So the covariance of ``b`` is ``inv(J + D) J inv(J + D)``
    (A. Hoerl and R. Kennard, "Ridge regression", Technometrics 1970). It holds the noise and the sample of people. It
    does not hold what the prior pulls towards 0: much noise makes contributions smaller than they would be without any.
    The prior scales are taken as they are.

    Parameters
    ----------
    basis : ndarray of shape (n_features, n_directions)
        Directions in which coefficients vary independently, each one prior standard deviation long.
    precisions : ndarray of shape (n_directions,)
        Precision by what was released along each direction, in units of the prior precision.
    curvatures : ndarray of shape (n_columns,)
        Factors of `precisions` for each column, squared.
    factor : ndarray of shape (1,)
        Factor of all variances.
    """

    basis: Singles
    precisions: Singles
    curvatures: Singles
    factor: Singles

    @classmethod
    def of(cls, information: Information) -> Uncertainty | None:
        """Return the uncertainty. Return None if there are too many features to publish the directions."""
        scales = information.deviations
        if len(scales) > _MOST_FEATURES:
            return None
        scaled = scales[:, None] * information.precision * scales
        precisions, directions = linalg.eigh((scaled + scaled.T) / 2, check_finite=False)
        precise = precisions > _LEAST_PRECISION
        basis, factor = scales[:, None] * directions[:, precise], np.array([information.factor])
        return cls(*(one.astype(np.float32) for one in (basis, precisions[precise], information.curvatures**2, factor)))

    def deviations(self, along: Floats) -> Floats:
        """Return standard deviations of sums of coefficients, shape (..., n_columns).

        `along` are the sums' weights times the basis, shape (..., n_directions).
        """
        precisions = self.curvatures.astype(np.float64) * self.precisions[:, None]
        variances = self.factor * (along**2 @ (precisions / (1 + precisions) ** 2))
        deviations: Floats = np.sqrt(variances)
        return deviations
