r"""Test whether public rows look like the private ones, from a released mean.

The released mean of private features weighs units equally. It is compared with the public mean that does the same: the
mean ``b`` of unit means ``u_1, ..., u_m``. Units are independent, and rows of one unit are not. So the difference of
both means has the covariance ``B (1/n + 1/m) + spread**2 I``, where ``B`` is the covariance of unit means, estimated
from public units, and ``n`` the number of private units. When each row is a unit, ``B`` is the covariance of rows.

``B`` has an error of its own when units are few. The statistic ``t = gap . V**-1 gap`` is then larger than its number
of features, ``p``. Leaving each unit out in turn shows by how much. Let ``q = (u - b) . V**-1 (u - b)``, and let ``h``
be the unit's leverage. A unit mean that took no part in ``V`` has the expected length ``q / (1 - h)``. That gives the
expected value ``e`` of the statistic. ``t / e`` is compared with an F distribution of ``p`` and ``f`` degrees of
freedom. Here ``f`` is the number of units less the sum of leverages, divided by a square: that of the part of ``e``
which comes from the estimated covariance. Without noise this is Hotelling's test (H. Hotelling, "The generalization of
Student's ratio", Annals of Mathematical Statistics 1931). With much noise it is the chi-square test.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from scipy import linalg, stats

from dpensemble._entries import Floats, dense
from dpensemble.moments.public_rows import PublicUnits

#: Chance of a false alarm, and how much worse than a sample public rows count: after an alarm, and if undecided.
_FALSE_ALARM, _DISTRUST, _CAUTION = 1e-3, 30.0, 10.0
# Public units are too few if the error of their covariance more than doubles the statistic, or leaves less freedom.
_MOST_EXCESS, _LEAST_FREEDOM = 2.0, 10.0
# An F distribution with more degrees of freedom is a chi-square distribution.
_MOST_FREEDOM = 1e8
_EACH_ROW = PublicUnits()


class Undecided(StrEnum):
    """Why the test cannot decide."""

    UNKNOWN_UNITS = "private records have units, and which public rows belong to one unit is unknown"
    FEW_UNITS = "public rows belong to too few units"
    FEW_ROWS = "public rows are too few"


_REMEDIES = {
    Undecided.UNKNOWN_UNITS: "give public_units= to fit, or a public table with the column of --unit",
    Undecided.FEW_UNITS: "use public rows of more units",
    Undecided.FEW_ROWS: "use more of them",
}


@dataclass(frozen=True, slots=True)
class Drift:
    """Distance of public rows from private ones, relative to chance, and the chance of such a distance. Public.

    There are three outcomes: an alarm, no alarm, or the test cannot decide. `undecided` is the reason for the third.
    Then `tail` is NaN. `statistic` is NaN, too, when it is unknown which public rows belong to one unit.
    """

    statistic: float
    tail: float
    undecided: Undecided | None = None

    @property
    def alarm(self) -> bool:
        """Whether public rows differ from private ones by more than chance does."""
        return self.undecided is None and self.tail < _FALSE_ALARM

    @property
    def trusted(self) -> bool:
        """Whether the test decided that public rows look like the private ones."""
        return self.undecided is None and not self.alarm

    @property
    def kappa(self) -> float:
        """How much worse than a sample of the same population public rows count."""
        if self.undecided is not None:
            return _CAUTION
        return _DISTRUST if self.alarm else 1.0

    @property
    def outcome(self) -> str:
        """Return the outcome in words."""
        if self.undecided is not None:
            return "cannot be decided"
        return "yes" if self.alarm else "no sign of it"

    def warning(self, *, replaced: bool = False) -> str:
        """Return what to report if there is an alarm, or if the test cannot decide.

        After an alarm, public rows may have been `replaced` by synthetic ones.
        """
        if self.undecided is not None:
            return (
                f"the test cannot decide whether public rows look like the private ones, because {self.undecided}; "
                f"public rows are trusted less, and {_REMEDIES[self.undecided]}."
            )
        chance = f"chance of such a difference: {max(self.tail, 1e-300):.1g}"
        return (
            f"public rows do not look like the private ones ({chance}), so "
            f"{'synthetic rows were drawn instead' if replaced else 'they are trusted less'} and the student is less "
            "accurate: use public rows of the same population."
        )


def drift(mean: Floats, spread: float, features: Any, n_units: float, units: PublicUnits = _EACH_ROW) -> Drift:
    """Compare a released mean of private features with public rows. This costs no privacy.

    Parameters
    ----------
    mean : ndarray of shape (n_features,)
        Noisy mean of private features, which weighs units equally.
    spread : float
        Standard deviation of the noise on each entry.
    features : ndarray or sparse matrix of shape (n_public, n_features)
        Features of public rows.
    n_units : float
        Number of private units, public or released.
    units : PublicUnits
        The unit of each public row. By default each public row and each private record is a unit of its own.
    """
    if units.private and not units.known:
        return Drift(math.nan, math.nan, Undecided.UNKNOWN_UNITS)
    few = Undecided.FEW_UNITS if units.known else Undecided.FEW_ROWS
    features = dense(features)
    means = units.means(features)
    count, size = means.shape
    if count < 2:
        return Drift(math.nan, math.nan, few)
    own = means.mean(axis=0)
    apart = means - own
    between = apart.T @ apart / (count - 1)
    # The factor of the covariance of unit means, and the covariance that is known beside it.
    factor, fixed = 1 / count, np.zeros_like(between)
    if units.private or not units.known:
        factor += 1 / n_units
    else:
        # Each private record is a unit of one record, so its features vary like those of one row of a public unit.
        fixed += units.covariance(features) / n_units
    fixed[np.diag_indices(size)] += spread**2
    covariance = factor * between + fixed
    # A feature counts as seen in one unit more, at its largest. A feature that was never seen may be as large as any.
    largest = np.abs(features).max(axis=0)
    largest[largest == 0] = largest.max()
    covariance[np.diag_indices(size)] += largest**2 / count * (1 / n_units + 1 / count)
    root = linalg.cholesky(covariance, lower=True)
    statistic = float(np.sum(linalg.solve_triangular(root, mean - own, lower=True) ** 2))
    lengths = np.sum(linalg.solve_triangular(root, apart.T, lower=True) ** 2, axis=0)
    leverages = np.minimum(factor * lengths * count / (count - 1) ** 2, 1 - 1e-12)
    estimated = factor * float(np.mean(lengths / (1 - leverages))) * count / (count - 1)
    expected = max(estimated + float(np.trace(linalg.cho_solve((root, True), fixed))), float(size))
    free_units = count - float(leverages.sum())
    if expected > _MOST_EXCESS * size or free_units < _LEAST_FREEDOM:
        return Drift(statistic, math.nan, few)
    freedom = min(free_units / max(estimated / expected, 1e-6) ** 2, _MOST_FREEDOM)
    # An F distribution has the mean freedom / (freedom - 2).
    return Drift(statistic, float(stats.f.sf(statistic / expected * freedom / (freedom - 2), size, freedom)))
