r"""Cost of answers of a sparse noisy maximum: two gaps, and what a class of a single vote can reveal.

The law (`dpensemble.laws.sparse`) adds noise ``Z_c`` to the counts of the classes ``supp(n)`` that have votes. The law
releases the class of the largest noisy count if that count is at least ``T``, and otherwise nothing. With a small
chance ``w`` it releases the outcome of a law of no votes: every class of the support with chance ``f``, nothing with
the rest.

*A fixed set.* For a set ``S`` that does not depend on the votes let ``M_S(n)`` do the same with the classes of ``S``,
for every table of counts. Let one ballot move from class a to class b, both in ``S``. Given the larger of ``T`` and the
largest noisy count of the others, which no ballot for a or b changes, either a wins, or b, or neither. That is the
reduction of `dpensemble.accounting.worst_case.two_gaps`, with "nothing" among the others, so its pairs
dominate ``M_S(n), M_S(n')``, mixed with a law that leaves each of the three at least ``f``.

*The support.* Let ``S = supp(n) u supp(n')``. ``S`` has at most one class more than ``supp(n)``, b, and then ``n_b =
0``. ``S`` has at most one more than ``supp(n')``, a, and then ``n_a = 1``. With ``t0 = P(Z >= T)``, ``t1 = P(1 + Z >=
T)``:

- Given ``Z_b < T`` class b cannot win, and whether another wins no longer depends on b: ``M_S(n)`` given that event is
  ``M(n)``. So ``M(n)(o) <= M_S(n)(o) / (1 - t0)`` for every outcome. Mixing adds alike, but ``f`` more to "nothing".
- Without a in the race every other outcome is at least as likely: ``M(n')(o) >= M_S(n')(o)`` for ``o != a``.
- ``M(n)`` gives a with a chance of at most ``t1 + f``.

So up to a mass of ``t1 + 2 f`` the law on ``n`` is at most ``exp(eta)`` times that of ``M_S(n)``, ``eta = -log(1 -
t0)``, on outcomes other than a, where the law on ``n'`` is at least that of ``M_S(n')``. Both steps hold for each of
``Q`` answers given those before it. The masses add up, and so do the ``eta``. If ``Q`` answers of fixed sets have
``delta_S(epsilon)``, those of the sparse law are private with

    ``epsilon + Q eta``  and  ``exp(Q eta) (delta_S(epsilon) + exp(epsilon) Q rho) + Q (t1 + 2 f + rho)``,

where ``rho``, the number of voters and one times the error of a probability, bounds how far rounding moves a law in
total variation, on either side. (The project's own. Thresholds on what occurs go back to Korolova et al. 2009.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from dpensemble._checks import delta_of, integer_between
from dpensemble.accounting.worst_case.two_gaps import two_gap_pairs
from dpensemble.budget import Budget
from dpensemble.cost import Conversion, Cost, PrivacyCost
from dpensemble.cost.searching import last_fitting
from dpensemble.errors import AccountingError
from dpensemble.laws.sparse import FLOOR, MIXING, SPARSE_ERROR, SparseNoisyMax

_OUTCOMES = round(MIXING / FLOOR)
#: Classes with votes, one more for a neighbour, and "nothing" share the mixing.
MOST_VOTERS = _OUTCOMES - 1000
# Share of the remaining delta that pays for rounding on the other side.
_ROUNDING_SHARE = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class SparseCost(Cost):
    """Privacy loss of answers of sparse noisy maxima: fixed sets, plus an addition to epsilon and one to delta."""

    # No Renyi curve bounds these answers, since a class of a single vote can show itself.
    fixed: PrivacyCost
    eta: float
    lost: float
    rounding: float

    def __post_init__(self) -> None:
        if not all(0 <= value < np.inf for value in (self.eta, self.lost, self.rounding)):
            raise AccountingError("every number of a privacy cost must be finite and not negative.")

    def __add__(self, other: SparseCost) -> SparseCost:
        if not isinstance(other, SparseCost):
            return NotImplemented
        return SparseCost(
            self.fixed + other.fixed, self.eta + other.eta, self.lost + other.lost, self.rounding + other.rounding
        )

    def __mul__(self, count: int) -> SparseCost:
        count = integer_between("count", count, 0, 2**62)
        return SparseCost(self.fixed * count, count * self.eta, count * self.lost, count * self.rounding)

    __rmul__ = __mul__

    def epsilon(self, delta: float, conversion: str = Conversion.BEST) -> float:
        """Return the epsilon that holds at `delta`, rounded up. Infinite if the answers use up the delta."""
        if not (self.fixed.rdp.any() or self.eta or self.lost or self.rounding):
            return 0.0
        left = self._left(delta_of(delta))
        if left < 1e-300:
            return math.inf
        epsilon = self.fixed.epsilon(left, conversion)
        return epsilon + self.eta if self._pays_rounding(epsilon, left) else math.inf

    def fits(self, budget: Budget, conversion: str = Conversion.BEST) -> bool:
        """Return whether the answers fit a budget."""
        left, epsilon = self._left(budget.delta), budget.epsilon - self.eta
        if left < 1e-300 or epsilon < 1e-9:
            return False
        if self._pays_rounding(epsilon, left):
            return self.fixed.fits(Budget(epsilon=epsilon, delta=left), conversion)
        # At such a large epsilon, rounding weighs more than at the epsilon that is needed.
        return self.epsilon(budget.delta, conversion) <= budget.epsilon

    def most(self, budget: Budget, conversion: str = Conversion.BEST, limit: int | None = None) -> int:
        """Return how many of the same answers fit a budget, at most `limit`."""
        if not self.fits(budget, conversion):
            return 0
        ceiling = self.fixed.most(budget, conversion, limit)
        return last_fitting(lambda count: (self * count).fits(budget, conversion), 1, 2.0, ceiling) if ceiling else 0

    def _left(self, delta: float) -> float:
        """Return the delta that remains for the answers of fixed sets, or 0 if nothing remains."""
        left = (delta - self.lost) * math.exp(-self.eta) * (1 - 1e-12)
        return max(0.0, left) * (1 - _ROUNDING_SHARE)

    def _pays_rounding(self, epsilon: float, left: float) -> bool:
        spare = left / (1 - _ROUNDING_SHARE) * _ROUNDING_SHARE
        return math.exp(min(epsilon, 700.0)) * self.rounding <= spare


def sparse_cost(law: SparseNoisyMax, n_voters: int) -> SparseCost:
    """Return the cost of one answer of a `SparseNoisyMax` to at most 9,000 voters, one ballot a unit."""
    rounding = (integer_between("n_voters", n_voters, 1, MOST_VOTERS) + 1) * SPARSE_ERROR
    appears = math.exp(float(log_ndtr(-law.threshold / law.sigma))) * (1 + 1e-9)
    vanishes = math.exp(float(log_ndtr((1 - law.threshold) / law.sigma))) * (1 + 1e-9)
    fixed = PrivacyCost.of(two_gap_pairs("gaussian", 1 / law.sigma, _OUTCOMES, MIXING))
    return SparseCost(fixed, -math.log1p(-appears), vanishes + 2 * FLOOR + rounding, rounding)
