r"""PATE's data-dependent cost of one query as a monotone step function that one teacher moves by a few steps.

One number sums up a vote: ``z``, for which ``(n_classes - 1) Phi(z)`` is the union bound ``q`` on the probability
of missing the plurality. A teacher moves each gap of the sorted counts by at most two votes, so each term
``u = Phi(-gap / (sqrt(2) sigma))`` becomes at most ``Phi(Phi^{-1}(u) + sqrt(2) / sigma)``. That map is concave in
``u`` (and its inverse convex), so by Jensen's inequality ``z`` moves by at most ``sqrt(2) / sigma``, its *global*
sensitivity. (Papernot et al. 2018 use the same two extremes, their B_U and B_L.)

The cost is therefore tabulated on a grid of ``z``, ``reach`` points to one change of a teacher. Rounding ``z``
up is allowed because Theorem 6 takes any upper bound on ``q``. For the same reason the smallest bound of all
points at or above may be taken, which makes the cost monotone by construction. All that smooth sensitivity
needs is then a maximum over finitely many integers, for every shape of the bound.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri_exp

from dpensemble.accounting.published.bounds import gaussian_rdp

# Grid points to one change of a teacher: fewer for many teachers, whose tables would grow large.
_FINEST, _COARSEST, _GRID_BUDGET = 64, 4, 100_000
# Wider than every rounding error of z, so that one teacher never moves a position by m + 1.
_SLACK = 1e-6
_TOWARDS_ZERO = 1.0 - 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class CostTable:
    """One query's cost at every grid point, from the tie outwards, and how far one teacher can move it."""

    # Bounds in nats, non-increasing, and the most by which each differs from those within `reach`.
    cost: NDArray[np.float64]
    change: NDArray[np.float64]
    # Grid points that one teacher can move a query, and their distance in ``z``.
    reach: int
    width: float
    n_others: int

    def positions(self, log_error: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the grid point of each query: at its ``z`` or just on the tie's side of it. Private."""
        z = ndtri_exp(log_error - math.log(self.n_others))
        return np.clip(np.floor(-z * _TOWARDS_ZERO / self.width), 0, self.cost.size - 1).astype(np.int64)

    def spread(self, change: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the largest value that one teacher can move a query to."""
        from scipy.ndimage import maximum_filter1d  # noqa: PLC0415  takes long to import

        return maximum_filter1d(change, 2 * self.reach + 1, mode="nearest")


@lru_cache(maxsize=64)
def tabulate(
    sigma: float, n_classes: int, order: float, farthest: float, n_teachers: int, both_directions: bool
) -> CostTable:
    """Tabulate a query's bound from tie to clearest vote (Papernot et al. 2018, Thm. 6, Props. 7, 8 and 10). Public."""
    reach = min(_FINEST, max(_COARSEST, _GRID_BUDGET // n_teachers))
    width = math.sqrt(2) / sigma / reach * (1 + _SLACK)
    # No class can be farther behind the plurality than `farthest` votes.
    n_points = math.floor(farthest / (math.sqrt(2) * sigma) / width) + 2
    log_q = np.minimum(math.log(n_classes - 1) + log_ndtr(-width * np.arange(n_points)), math.log1p(-1 / n_classes))
    cost = np.minimum.accumulate(gaussian_rdp(log_q, sigma, np.array([order]))[:, 0])
    here = np.arange(n_points)
    if both_directions:
        # Every query is charged as if one teacher had already changed towards the tie.
        cost = cost[np.maximum(here - reach, 0)]
    outwards = cost - cost[np.minimum(here + reach, n_points - 1)]
    inwards = cost[np.maximum(here - reach, 0)] - cost
    return CostTable(cost, np.maximum(outwards, inwards), reach, width, n_classes - 1)
