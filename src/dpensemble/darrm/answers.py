"""Answers of equal privacy: from a total over many queries to one answer, and each aggregator's law there.

The published composition is for comparing methods at equal total loss.

Three and more classes
----------------------
The optimised gamma is for two classes. With more classes, ``m`` of ``K`` ballots are drawn, each choice equally likely
and independent for every query. The class with most of these ballots is released, and ties are broken by chance. Each
ballot is ``epsilon``-private (delta 0) and has randomness of its own. A unit can change `touched` of them.

*Several teachers touched.* Given which ballots are drawn, at most ``h = min(m, touched)`` of them are a unit's, and any
function of them loses at most ``h epsilon`` (composition). The choice is independent of the records, and a mixture with
the same weights on both sides loses at most as much as its worst part.

*One touched* (a partition) by randomised ballots. Its ballot is drawn with the chance ``q = m / K``. For any event,
let ``A`` be its chance when that ballot is not drawn, and ``B, B'`` its chances when it is, for a true vote ``x`` or
``x'`` of the unit's teacher. Randomised response makes a ballot's laws for any two true votes ``epsilon``-close, so
that ``B <= exp(epsilon) B'``. A choice with the teacher becomes one without it by taking another teacher, at random, in
its place. Then one true vote differs, so that ``B <= exp(epsilon) A``, too. With ``b = min(A, B')`` and ``P' = (1 - q)
A + q B' >= b``,

    P - P' = q (B - B') <= q (exp(epsilon) b - B') <= q (exp(epsilon) - 1) b <= q (exp(epsilon) - 1) P',

so the answer loses at most ``log(1 + q (exp(epsilon) - 1))`` (as in B. Balle, G. Barthe and M. Gaboardi, "Privacy
amplification by subsampling", NeurIPS 2018, for sampling without replacement). Votes of private models are not close
to those of other models, so those of a partition are charged ``epsilon``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from math import e, expm1, inf, log, log1p, sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import delta_of, epsilon_of, integer_between, member, real_between
from dpensemble.cost import optimal_composition
from dpensemble.darrm.allowance import Allowance, ReducedPlacements
from dpensemble.darrm.gamma import AlikeTeachers, Constraints, certify, optimise_gamma
from dpensemble.laws import RandomizedResponseMajority, ReleaseLaw


def general_composition(epsilon: float, delta: float, times: int, slack: float) -> tuple[float, float]:
    """Return the privacy of `times` adaptive answers by the closed form of Kairouz, Oh and Viswanath.

    `dpensemble.cost.optimal_composition` gives the exact optimum. This form is the one of the paper's tables.
    `slack` is an additional delta. 0 gives simple composition. The form is Theorem 3.4 of "The composition theorem for
    differential privacy", quoted as Theorem 2.3 of "Optimized Tradeoffs for Private Prediction with Majority
    Ensembling".
    """
    epsilon, delta = epsilon_of(epsilon), real_between("delta", delta, 0, 1)
    times, slack = integer_between("times", times, 1), real_between("slack", slack, 0, 1)
    simple = times * epsilon
    # Rounded up, without the cancellation that would lose a tiny delta.
    log_kept = -inf if 1 in (delta, slack) else times * log1p(-delta) + log1p(-slack)
    total_delta = min(1.0, -expm1(log_kept) * (1 + 1e-12))
    # Beyond this simple composition is smaller, and the exponential would overflow.
    if slack == 0 or epsilon > 100:
        return simple, total_delta
    drift = simple * expm1(epsilon) / (expm1(epsilon) + 2)
    widths = (log(e + sqrt(times) * epsilon / slack), log(1 / slack))
    return min(simple, *(drift + epsilon * sqrt(2 * times * width) for width in widths)), total_delta


_ANY_AGREEMENT = AlikeTeachers()
_STEPS = 60


class MajorityAggregator(StrEnum):
    """Private majorities of teachers that are themselves private."""

    DARRM = "darrm"
    """The optimised gamma."""
    DSUB = "dsub"
    """Majority of 2 m - 1 teachers drawn at random."""
    SUB = "sub"
    """Majority of m teachers drawn at random."""
    RR = "rr"
    """One chance of releasing the majority, for all votes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerAllowance:
    """Largest pure epsilon of each of many answers within a total, by optimal composition and by the closed form.

    Holds for answers with fresh randomness each. See `docs/privacy.md`, "One model, many answers".
    """

    exact: float
    general: float

    @property
    def epsilon(self) -> float:
        """The larger of the two epsilons."""
        return max(self.exact, self.general)

    @property
    def composition(self) -> str:
        """Name of the composition that allows this epsilon."""
        return "optimal composition" if self.exact >= self.general else "general composition"


def answer_allowance(epsilon: float, delta: float, queries: int) -> AnswerAllowance:
    """Return how much each of many independent answers may reveal within a total.

    Answers are pure (their own delta is 0), so all of the total's delta is left for their composition.
    """
    epsilon, delta = epsilon_of(epsilon), delta_of(delta)
    queries = integer_between("queries", queries, 1)
    return AnswerAllowance(
        exact=_largest(lambda one: optimal_composition([(one, 0.0)] * queries, delta), epsilon, queries),
        general=_largest(lambda one: general_composition(one, 0.0, queries, delta)[0], epsilon, queries),
    )


def _largest(total: Callable[[float], float], epsilon: float, queries: int) -> float:
    """Return the largest epsilon of an answer whose total fits. Simple composition surely fits."""
    low = max(epsilon / queries * (1 - 1e-12), 1e-9)
    high = min(max(epsilon, 1.0) * 2, 1e12)
    if not total(low) <= epsilon:
        return low
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if total(middle) <= epsilon else (low, middle)
    return low


def majority_law(
    aggregator: MajorityAggregator | str,
    n_teachers: int,
    *,
    epsilon: float,
    Delta: float = 0.0,
    answer_epsilon: float,
    prior: object = _ANY_AGREEMENT,
) -> RandomizedResponseMajority:
    """Return an aggregator's law whose answer is ``answer_epsilon``-private, with delta 0.

    A published aggregator may reveal more than that (Sub and DSub of teachers with a Delta above 0, or of an `m`
    below 1). Then its gamma is multiplied by the largest number that makes it private. So RR is the largest constant
    that is private, which is larger than the published constant. Only DaRRM uses the prior.
    """
    aggregator = member("aggregator", aggregator, MajorityAggregator)
    # Rounded down, so that m times epsilon is never above what the answer may reveal.
    m = min(answer_epsilon / epsilon * (1 - 1e-15), float(n_teachers))
    allowance = Allowance(n_teachers=n_teachers, epsilon=epsilon, m=m, Delta=Delta)
    whole = max(int(m * (1 + 1e-12)), 1)
    if aggregator is MajorityAggregator.DARRM:
        return optimise_gamma(n_teachers, epsilon=epsilon, m=m, Delta=Delta, prior=prior).law
    if aggregator is MajorityAggregator.SUB:
        law = RandomizedResponseMajority.subsampling(n_teachers, whole)
    elif aggregator is MajorityAggregator.DSUB:
        law = RandomizedResponseMajority.double_subsampling(n_teachers, whole)
    else:
        law = RandomizedResponseMajority((1.0,) * (n_teachers + 1))
    return _private_version(law, allowance)


def _private_version(law: RandomizedResponseMajority, allowance: Allowance) -> RandomizedResponseMajority:
    """Multiply gamma by the largest number that makes it private. No law here falls anywhere away from the tie."""
    placements = ReducedPlacements(allowance)
    upper = allowance.upper(np.array(law.gamma))
    shrunk, _ = certify(upper, placements.worst(upper)[0].load, placements, Constraints.MONOTONE)
    return RandomizedResponseMajority(tuple(np.abs(allowance.signed(shrunk)).tolist()))


def wrong_answers(law: ReleaseLaw, n_teachers: int, agreement: float) -> float:
    """Return how often an answer is not the likelier class, for which each ballot votes with one probability."""
    from scipy.stats import binom  # noqa: PLC0415  takes long to import

    votes = np.arange(n_teachers + 1)
    counts = np.stack([n_teachers - votes, votes], axis=1)
    chances = binom.pmf(votes, n_teachers, real_between("agreement", agreement, 0, 1))
    return float(chances @ law.probabilities(counts)[:, 0])


_ROUND_UP = 1 + 1e-12


@dataclass(frozen=True, slots=True)
class Plurality(ReleaseLaw):
    """Release the class with the most ballots, ties by chance. For ballots that are private by themselves.

    A plurality adds no noise and protects nothing: its answer is as private as the ballots.
    """

    title: ClassVar[str] = "plurality of the ballots"
    symmetric: ClassVar[bool] = True

    def probabilities(self, counts: NDArray[Any]) -> NDArray[np.float64]:
        """Return the probability of each class, shape (n_queries, n_classes)."""
        best = counts == counts.max(axis=1, keepdims=True)
        chances: NDArray[np.float64] = best / best.sum(axis=1, keepdims=True)
        return chances


def plurality_epsilon(drawn: int, n_teachers: int, *, touched: int, epsilon: float, randomised: bool) -> float:
    """Return the privacy loss, rounded up, of one answer by the plurality of a few ballots, drawn at random.

    One unit can change `touched` teachers. Each ballot has pure privacy `epsilon`: a true vote with randomised
    response, or the vote of a private model.
    """
    drawn = integer_between("drawn", drawn, 1, integer_between("n_teachers", n_teachers, 1))
    if touched == 1 and randomised:
        return math.log1p(drawn / n_teachers * math.expm1(epsilon)) * _ROUND_UP if drawn < n_teachers else epsilon
    return min(drawn, touched) * epsilon


def most_drawn(n_teachers: int, allowed: float, cost: Callable[[int], float]) -> int | None:
    """Return the largest number of ballots whose plurality costs at most `allowed`, or None if not even one does."""
    fits = [drawn for drawn in range(1, n_teachers + 1) if cost(drawn) <= allowed]
    return max(fits, default=None)
