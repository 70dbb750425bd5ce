"""The public design of answers from votes that were collected outside this library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from hashlib import sha256
from typing import Any, Self

from dpensemble._checks import integer_between, real_between, shown
from dpensemble.accounting import Accounting, Group
from dpensemble.cost import Cost
from dpensemble.design.voting import Design
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.relations import Relation
from dpensemble.releases import Release, Voters

_MOST_CLASSES, _MOST_ANSWERS = 2**31 - 1, 10**9
# Most classes that settings name one by one.
_MOST_NAMED = 100


class Sampling(StrEnum):
    """How records come to be behind the votes."""

    FIXED = "fixed"
    FRESH = "fresh"


@dataclass(frozen=True, kw_only=True, eq=False)
class GivenVotes(Design):
    """A number of answers of one kind, drawn from given votes.

    Parameters
    ----------
    release : Release
        The release that answers.
    n_classes, n_voters : int
        Number of classes, and of ballots in each answer.
    votes : int, default=1
        Most ballots that one unit can change in an answer.
    relation : Relation
        Neighbouring relation.
    sampling : Sampling, default="fixed"
        Whether units stay with their voters, or are drawn again for every answer.
    rate : float, optional
        Probability that a unit is drawn, for fresh sampling.
    answers : int, optional
        Number of answers. By default as many as the budget allows.
    budget : Budget, optional
        The budget.
    labels : sequence, optional
        Names of the classes, or None if they are numbered.

    Raises
    ------
    InvalidParameterError
        If a setting is out of range or does not fit another.

    Examples
    --------
    >>> from dpensemble.laws import LaplaceNoisyMax
    >>> from dpensemble.releases import LabelByLaw
    >>> design = GivenVotes(release=LabelByLaw(LaplaceNoisyMax(3.0)), n_classes=2, n_voters=10,
    ...                     relation=Relation.REPLACE_ONE, budget=Budget(epsilon=3, delta=1e-5))
    >>> design.promised_answers
    6
    """

    name = "aggregator"
    accounting = Accounting.EXACT

    release: Release
    n_classes: int
    n_voters: int
    relation: Relation
    votes: int = 1
    sampling: Sampling = Sampling.FIXED
    rate: float | None = None
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
                "which records are drawn, and fixed sampling takes none."
            )
        if self.rate is not None:
            object.__setattr__(self, "rate", real_between("rate", self.rate, 1e-6, 1.0))
        self.release.check(self.voters)

    @property
    def voters(self) -> Voters:
        """Public facts of the votes, for the release."""
        return Voters(self.n_voters, self.n_classes, self.votes, self.relation, self.rate)

    @property
    def groups(self) -> tuple[Group, ...]:
        """All units, each of which can change its own ballots."""
        return self.one_group(self.budget, self.votes)

    @cached_property
    def cost(self) -> Cost:
        """The most that one answer can cost, over all votes."""
        return self.release.cost(self.voters)

    @cached_property
    def promised_answers(self) -> int:
        """Number of promised answers: the requested number, or all that the budget allows."""
        budget = self.groups[0].budget
        most = self.cost.most(budget, limit=_MOST_ANSWERS) if self.answers is None else self.answers
        if most < 1 or (self.answers is not None and not (self.cost * most).fits(budget)):
            needed = (self.cost * max(1, most)).epsilon(budget.delta)
            needs = f"epsilon {needed:.4g}" if math.isfinite(needed) else "more than this delta at any epsilon"
            raise BudgetError(
                f"{max(1, most):,} answers need {needs} at delta={budget.delta:g}, and epsilon={budget.epsilon:g} is "
                "allowed: ask for fewer answers, or use more noise or more voters."
            )
        return most

    @cached_property
    def spent(self) -> float:
        """Epsilon of all promised answers, even if fewer of them are taken."""
        budget = self.groups[0].budget
        return min(budget.epsilon, (self.cost * self.promised_answers).epsilon(budget.delta))

    def with_noise(self, noise: float) -> Self:
        """Return the same answers with other noise, in votes or, for a sum, in sensitivities."""
        return replace(self, release=self.release.with_noise(noise))

    @property
    def _named_classes(self) -> Any:
        """Names of the classes, or a hash of very many, since the outcomes' meaning must not change within a grant."""
        if self.labels is None or len(self.labels) <= _MOST_NAMED:
            return None if self.labels is None else [str(label) for label in self.labels]
        return f"sha256 {sha256(repr(list(self.labels)).encode()).hexdigest()}"

    def settings(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "method": self.name,
            "title": "answers from given votes",
            **self.release.settings(),
            "law_name": self.release.name,
            "noise_in_words": self.release.description,
            "n_classes": self.n_classes,
            "classes": self._named_classes,
            "n_voters": self.n_voters,
            "votes_per_unit": self.votes,
            "relation": self.relation.value,
            "sampling": self.sampling.value,
            "rate": self.rate,
            "clip": self.release.clip,
            "answers": self.promised_answers,
            "accounting": self.accounting.value,
        }
