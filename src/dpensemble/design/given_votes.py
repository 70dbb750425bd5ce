"""Votes that somebody else took: what is public about answering with them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from hashlib import sha256
from typing import Any, Self

from dpensemble._checks import integer_between, real_between, shown
from dpensemble.accounting import Accounting, Change, Group, price
from dpensemble.accounting.fresh import amplified, fresh_cost
from dpensemble.accounting.gaussian_sum import GaussianSum
from dpensemble.accounting.sparse import sparse_cost
from dpensemble.accounting.worst_case.answers import bounded_range_cost
from dpensemble.budget import Budget
from dpensemble.cost import Cost, GaussianCost, PrivacyCost, noise_variance
from dpensemble.design.base import Design, one_group
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.laws import ExponentialVote, ReleaseLaw, SparseNoisyMax
from dpensemble.laws.sampling import PROBABILITY_ERROR
from dpensemble.relations import Relation

#: Whole units in a probability of 1, and the distance by which one voter's probabilities can move their sum.
SOFT_UNIT = 2**34
SOFT_SENSITIVITY = math.isqrt(2 * SOFT_UNIT**2) + 1
_MOST_ENTRIES, _MOST_CLASSES, _MOST_ANSWERS = 4096, 2**31 - 1, 10**9
# Classes that settings name one by one.
_MOST_NAMED = 100


class Sampling(StrEnum):
    """How records come to be behind the votes."""

    FIXED = "fixed"
    FRESH = "fresh"


@dataclass(frozen=True, kw_only=True, eq=False)
class GivenVotes(Design):
    """A number of answers, drawn by one law from votes that are handed in.

    Parameters
    ----------
    law : ReleaseLaw, SparseNoisyMax or GaussianSum
        What answers.
    n_classes, n_voters : int
        Number of classes, and of ballots in each answer.
    votes : int, default=1
        Most ballots that one unit can change in an answer.
    relation : Relation
        Neighbouring relation.
    sampling : Sampling, default="fixed"
        Whether units stay with their voters, or are drawn anew for every answer.
    rate : float, optional
        Probability that a unit is drawn, for fresh sampling.
    clip : float, optional
        Voters answer with log-probabilities; what lies further below a voter's largest, in nats, counts as that far.
    answers : int, optional
        Number of answers; by default as many as the budget allows.
    budget : Budget, optional
        What may be spent.
    labels : sequence, optional
        Names of the classes; None where they are numbered.

    Raises
    ------
    InvalidParameterError
        If a setting is out of range or does not go with another.

    Examples
    --------
    >>> from dpensemble.laws import LaplaceNoisyMax
    >>> design = GivenVotes(law=LaplaceNoisyMax(3.0), n_classes=2, n_voters=10, relation=Relation.REPLACE_ONE,
    ...                     budget=Budget(epsilon=3, delta=1e-5))
    >>> design.most_answers
    6
    """

    name = "aggregator"
    accounting = Accounting.EXACT

    law: ReleaseLaw | SparseNoisyMax | GaussianSum
    n_classes: int
    n_voters: int
    relation: Relation
    votes: int = 1
    sampling: Sampling = Sampling.FIXED
    rate: float | None = None
    clip: float | None = None
    answers: int | None = None
    budget: Budget | None = None
    labels: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        integer_between("n_classes", self.n_classes, 2, _MOST_CLASSES)
        integer_between("n_voters", self.n_voters, 1, 1_000_000)
        integer_between("votes_per_unit", self.votes, 1, self.n_voters)
        if self.answers is not None:
            integer_between("answers", self.answers, 1)
        if (self.rate is None) is (self.sampling is Sampling.FRESH):
            raise InvalidParameterError(
                f"rate={shown(self.rate)} with sampling={self.sampling.value!r}: fresh sampling needs the rate at "
                "which records are drawn, and fixed sampling has none."
            )
        if self.rate is not None:
            object.__setattr__(self, "rate", real_between("rate", self.rate, 1e-6, 1.0))
        self._check_law()

    def _check_law(self) -> None:
        if self.clip is not None:
            object.__setattr__(self, "clip", real_between("clip", self.clip, 1e-3, 1e3))
            if type(self.law) is not ExponentialVote:
                raise InvalidParameterError(
                    f"clip={self.clip:g} is for log-probabilities under the exponential mechanism; use "
                    "law=ExponentialVote(scale), or leave it out."
                )
        if isinstance(self.law, ReleaseLaw):
            if self.law.needs_student:
                raise InvalidParameterError(
                    f"law={self.law.name!r} needs a student, which votes that are handed in have not; use 'gnmax'."
                )
            return
        if not isinstance(self.law, SparseNoisyMax | GaussianSum):
            raise InvalidParameterError(
                f"law={shown(self.law)} is no law; give one of dpensemble.laws, such as GaussianNoisyMax(40)."
            )
        if self.sampling is Sampling.FRESH or self.votes > 1:
            raise InvalidParameterError(
                f"law={self.law.name!r} is for sampling='fixed' and one ballot a unit (votes_per_unit=1)."
            )
        if isinstance(self.law, GaussianSum):
            integer_between("n_classes", self.n_classes, 2, _MOST_ENTRIES)

    @property
    def soft(self) -> bool:
        """Whether voters answer with log-probabilities."""
        return self.clip is not None or isinstance(self.law, GaussianSum)

    @property
    def groups(self) -> tuple[Group, ...]:
        """All units, each of which can change its own ballots."""
        return one_group(self.budget, self.votes)

    @cached_property
    def cost(self) -> Cost:
        """Most that one answer can cost, whatever the votes are."""
        if isinstance(self.law, SparseNoisyMax):
            return sparse_cost(self.law, self.n_voters)
        if isinstance(self.law, GaussianSum):
            return GaussianCost.of_sum(self.law.sigma, variance=self.sum_variance, entries=self.n_classes)
        return self._one if self.rate is None else self._one_fresh

    @property
    def analysis(self) -> str:
        """Name and source of the analysis, for the guarantee."""
        if isinstance(self.law, GaussianSum):
            return (
                "exact trade-off of the Gaussian mechanism (Balle and Wang 2018, Theorem 8; Dong, Roth and Su 2022, "
                "Corollary 3.3); the noise drawn is a discrete Gaussian, whose difference is charged"
            )
        how = "exact worst case of the released labels over all votes"
        if isinstance(self.law, SparseNoisyMax):
            return f"{how}, and what a class of a single vote can reveal, by exact adaptive composition"
        return how if self.rate is None else f"{how} and all draws of records, anew for every answer"

    @property
    def sum_variance(self) -> int:
        """Variance of the noise on a sum of probabilities, in squared whole units."""
        assert isinstance(self.law, GaussianSum)  # noqa: S101
        return noise_variance(self.law.sigma, SOFT_SENSITIVITY)

    @property
    def _change(self) -> Change:
        return Change(ballots=self.n_voters, classes=self.n_classes, votes=self.votes)

    @property
    def _one(self) -> PrivacyCost:
        assert isinstance(self.law, ReleaseLaw)  # noqa: S101
        if self.clip is None:
            return price(self.law, self._change).answered
        # Every vote may change by up to 1 at once, so losses lie in a range of twice that over the scale, wherever it
        # starts; what rounding may add widens it.
        width = 2 * self.votes / self.law.scale  # type: ignore[attr-defined]
        rounding = 2 * PROBABILITY_ERROR * self.n_classes**2 / self.law.mixing_weight(self.n_classes)
        return bounded_range_cost(width, rounding)

    @property
    def _one_fresh(self) -> PrivacyCost:
        assert isinstance(self.law, ReleaseLaw)  # noqa: S101
        assert self.rate is not None  # noqa: S101
        if self.clip is None:
            return fresh_cost(self.law, self._change, self.rate, self.relation)
        return amplified(self._one, self.rate, self.relation, two_values=False)

    @cached_property
    def most_answers(self) -> int:
        """Number of answers that are promised: those asked for, or all that the budget allows."""
        budget = self.groups[0].budget
        most = self.cost.most(budget, limit=_MOST_ANSWERS) if self.answers is None else self.answers
        if most < 1 or (self.answers is not None and not (self.cost * most).fits(budget)):
            needed = (self.cost * max(1, most)).epsilon(budget.delta)
            told = f"epsilon {needed:.4g}" if math.isfinite(needed) else "more than this delta, whatever the epsilon"
            raise BudgetError(
                f"{max(1, most):,} answers need {told} at delta={budget.delta:g}, and epsilon={budget.epsilon:g} is "
                "allowed; ask for fewer answers, or use more noise or more voters."
            )
        return most

    @cached_property
    def spent(self) -> float:
        """Epsilon of all answers that are promised, however many of them are taken."""
        budget = self.groups[0].budget
        return min(budget.epsilon, (self.cost * self.most_answers).epsilon(budget.delta))

    def with_budget(self, budget: Budget) -> Self:
        """Return the same answers under another budget."""
        return replace(self, budget=budget)

    def with_noise(self, noise: float) -> Self:
        """Return the same answers with other noise, in votes or, for a sum, in sensitivities."""
        if isinstance(self.law, GaussianSum):
            return replace(self, law=GaussianSum(noise))
        if isinstance(self.law, SparseNoisyMax):
            return replace(self, law=replace(self.law, sigma=noise))
        return replace(self, law=self.law.with_noise(noise))

    @property
    def _named_classes(self) -> Any:
        """Names of the classes, or of very many a hash: what outcomes stand for must not change within a grant."""
        if self.labels is None or len(self.labels) <= _MOST_NAMED:
            return None if self.labels is None else [str(label) for label in self.labels]
        return f"sha256 {sha256(repr(list(self.labels)).encode()).hexdigest()}"

    def settings(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "method": self.name,
            "title": "answers from given votes",
            **self.law.settings(),
            "law_name": self.law.name or type(self.law).__name__,
            "noise_in_words": self.law.words(),
            "n_classes": self.n_classes,
            "classes": self._named_classes,
            "n_voters": self.n_voters,
            "votes_per_unit": self.votes,
            "relation": self.relation.value,
            "sampling": self.sampling.value,
            "rate": self.rate,
            "clip": self.clip,
            "answers": self.most_answers,
            "accounting": self.accounting.value,
        }
