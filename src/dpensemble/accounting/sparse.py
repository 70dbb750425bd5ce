r"""What answers of a sparse noisy maximum cost: two gaps, and what a class of a single vote can reveal.

The law (`dpensemble.laws.sparse`) adds noise ``Z_c`` to the counts of the classes ``supp(n)`` that have votes, releases
the largest noisy count's class if it is at least ``T``, and else nothing. With a small chance ``w`` it releases what a
law of no votes gives: every class of the support with chance ``f``, nothing with the rest.

*A fixed set.* For a set ``S`` that does not depend on the votes let ``M_S(n)`` do the same with the classes of ``S``,
whatever their counts. Let one ballot move from class a to class b, both in ``S``. Given the larger of ``T`` and the
largest noisy count of the others, which no ballot for a or b changes, either a wins, or b, or neither: that is the
reduction of `dpensemble.accounting.worst_case.two_gaps`, with "nothing" among the others, so the pairs found there
dominate ``M_S(n), M_S(n')``, mixed with a law that leaves each of the three at least ``f``.

*The support.* Let ``S = supp(n) u supp(n')``. It has at most one class more than ``supp(n)``, b, and then ``n_b = 0``;
and at most one more than ``supp(n')``, a, and then ``n_a = 1``. With ``t0 = P(Z >= T)``, ``t1 = P(1 + Z >= T)``:

- Given ``Z_b < T`` class b cannot win, and whether another wins no longer depends on it: ``M_S(n)`` given that event is
  ``M(n)``. So ``M(n)(o) <= M_S(n)(o) / (1 - t0)`` for every outcome; mixing adds alike, but ``f`` more to "nothing".
- Without a in the race every other outcome is at least as likely: ``M(n')(o) >= M_S(n')(o)`` for ``o != a``.
- ``M(n)`` gives a with a chance of at most ``t1 + f``.

So up to a mass of ``t1 + 2 f`` the law on ``n`` is at most ``exp(eta)`` times that of ``M_S(n)``, ``eta = -log(1 -
t0)``, on outcomes other than a, where the law on ``n'`` is at least that of ``M_S(n')``. Both steps hold for each of
``Q`` answers given those before it, the masses add up, and so do the ``eta``: if ``Q`` answers of fixed sets have
``delta_S(epsilon)``, those of the sparse law are private with

    ``epsilon + Q eta``  and  ``exp(Q eta) (delta_S(epsilon) + exp(epsilon) Q rho) + Q (t1 + 2 f + rho)``,

where ``rho``, the number of voters and one times the error of a probability, bounds how far rounding moves a law in
total variation, on either side. (The project's own; thresholds on what occurs go back to Korolova et al. 2009.)
"""

from __future__ import annotations

import math

from scipy.special import log_ndtr

from dpensemble._checks import integer_between
from dpensemble.accounting.repeated import MOST, RepeatedCost
from dpensemble.accounting.worst_case.two_gaps import two_gap_pairs
from dpensemble.budget import Budget
from dpensemble.cost import PrivacyCost
from dpensemble.cost.privacy_cost import largest_count, last_fitting
from dpensemble.laws.sparse import FLOOR, MIXING, SPARSE_ERROR, SparseNoisyMax

_OUTCOMES = round(MIXING / FLOOR)
#: Classes with votes, one more for a neighbour, and "nothing" share the mixing.
MOST_VOTERS = _OUTCOMES - 1000
# Share of what is left of delta that pays for rounding on the other side.
_ROUNDING_SHARE = 0.01


class SparseCost(RepeatedCost):
    """Cost of answers of a `SparseNoisyMax`, one ballot a unit.

    Parameters
    ----------
    law : SparseNoisyMax
        Noise and threshold.
    n_voters : int
        Number of ballots, at most 9,000.

    Examples
    --------
    >>> law = SparseNoisyMax(sigma=20.0, threshold=SparseNoisyMax.threshold_for(20.0, 1e-8))
    >>> cost = SparseCost(law, n_voters=100)
    >>> round(law.threshold, 1), round(cost.lost_each * 1e8, 2)
    (113.2, 1.0)
    """

    accounting = (
        "exact worst case of the released labels over all votes, and what a class of a single vote can reveal, "
        "by exact adaptive composition"
    )

    def __init__(self, law: SparseNoisyMax, n_voters: int) -> None:
        integer_between("n_voters", n_voters, 1, MOST_VOTERS)
        self._fixed = PrivacyCost.of(two_gap_pairs("gaussian", 1 / law.sigma, _OUTCOMES, MIXING))
        appears = math.exp(float(log_ndtr(-law.threshold / law.sigma))) * (1 + 1e-9)
        vanishes = math.exp(float(log_ndtr((1 - law.threshold) / law.sigma))) * (1 + 1e-9)
        self._eta, self._rounding = -math.log1p(-appears), (n_voters + 1) * SPARSE_ERROR
        self._lost = vanishes + 2 * FLOOR + self._rounding

    def _left(self, answers: int, delta: float) -> float:
        """Return the delta that is left to the answers of fixed sets; 0 if there is none."""
        left = (delta - answers * self._lost) * math.exp(-answers * self._eta) * (1 - 1e-12)
        return max(0.0, left) * (1 - _ROUNDING_SHARE)

    def _pays_rounding(self, answers: int, epsilon: float, left: float) -> bool:
        spare = left / (1 - _ROUNDING_SHARE) * _ROUNDING_SHARE
        return math.exp(min(epsilon, 700.0)) * answers * self._rounding <= spare

    def epsilon(self, answers: int, delta: float) -> float:
        """Return the epsilon of so many answers at a delta; infinite if they use up the delta."""
        if integer_between("answers", answers, 0) == 0:
            return 0.0
        left = self._left(answers, delta)
        if left < 1e-300:
            return math.inf
        found = (self._fixed * answers).epsilon(left)
        return found + answers * self._eta if self._pays_rounding(answers, found, left) else math.inf

    def fits(self, answers: int, budget: Budget) -> bool:
        """Tell whether so many answers fit a budget."""
        left, epsilon = self._left(answers, budget.delta), budget.epsilon - answers * self._eta
        if left < 1e-300 or epsilon < 1e-9:
            return False
        if self._pays_rounding(answers, epsilon, left):
            return (self._fixed * answers).fits(epsilon, left)
        # At so large an epsilon rounding weighs more than at the one that is needed.
        return self.epsilon(answers, budget.delta) <= budget.epsilon

    def most(self, budget: Budget) -> int:
        """Return how many answers fit a budget."""
        if not self.fits(1, budget):
            return 0
        ceiling = min(MOST, largest_count(self._fixed, budget.epsilon, budget.delta, most=MOST))
        return last_fitting(lambda count: self.fits(count, budget), 1, 2.0, ceiling) if ceiling else 0

    @property
    def lost_each(self) -> float:
        """What each answer takes from the delta, besides the answers of fixed sets; public."""
        return self._lost
