"""Answers of equal privacy: from a total over many queries to one answer, and each aggregator's law there."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from dpensemble._checks import delta_of, epsilon_of, integer_between, member, real_between
from dpensemble.cost import optimal_composition
from dpensemble.darrm.allowance import Allowance
from dpensemble.darrm.composition import general_composition
from dpensemble.darrm.corners import ReducedPlacements
from dpensemble.darrm.optimise import certify, optimise_gamma
from dpensemble.darrm.priors import AlikeTeachers
from dpensemble.darrm.solution import Constraints
from dpensemble.laws import RandomizedResponseMajority, ReleaseLaw

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
