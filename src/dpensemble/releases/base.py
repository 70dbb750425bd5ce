"""The interface of everything that an aggregator draws to answer a query."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from dpensemble._arrays import Integers
from dpensemble._random import NoiseSource
from dpensemble.accounting import Change
from dpensemble.cost import Cost
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.relations import Relation


@dataclass(frozen=True, slots=True)
class Voters:
    """Public facts of given votes.

    Parameters
    ----------
    n_voters, n_classes : int
        Number of ballots in each answer, and of classes.
    votes : int
        Most ballots that one unit can change in an answer.
    relation : Relation
        Neighbouring relation.
    rate : float or None
        Probability that a unit is drawn for an answer, or None if units stay with their voters.
    """

    n_voters: int
    n_classes: int
    votes: int
    relation: Relation
    rate: float | None

    @property
    def change(self) -> Change:
        """What one unit can do to the votes of an answer."""
        return Change(ballots=self.n_voters, classes=self.n_classes, votes=self.votes)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NamedVotes:
    """Classes with votes in one query, and their votes. Private."""

    ids: Integers
    counts: Integers


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The drawn outcomes: the class that answers each query, -1 for no answer, and noisy means, if any."""

    numbers: list[int]
    means: list[list[float]] | None = None


class Release(ABC):
    """An answer to one query: the votes it takes, its worst-case cost over all votes, and how it is drawn.

    A subclass is a frozen dataclass. `dpensemble.releases.choice` maps each law to its release.

    Attributes
    ----------
    law : object
        The law of the noise.
    takes : tuple of str
        Kinds of votes: ``("ballots", "counts")`` or ``("log_probs",)``.
    clip : float or None
        How far below a voter's largest log-probability a class still counts, in nats, or None without a limit.
    """

    law: Any
    takes: ClassVar[tuple[str, ...]] = ("ballots", "counts")
    clip: float | None = None

    @property
    def name(self) -> str:
        """Short name of the law, or the name of its type."""
        return self.law.name or type(self.law).__name__

    @property
    def description(self) -> str:
        """The law and its noise, as reports print it."""
        words: str = self.law.words()
        return words

    def settings(self) -> dict[str, Any]:
        """Return the law as plain values."""
        settings: dict[str, Any] = self.law.settings()
        return settings

    @abstractmethod
    def check(self, voters: Voters) -> None:
        """Refuse voters for which the release has no cost."""

    @abstractmethod
    def cost(self, voters: Voters) -> Cost:
        """Return the most that one answer can cost."""

    @abstractmethod
    def analysis(self, voters: Voters) -> str:
        """Return the name and source of the analysis, for the guarantee."""

    def whole(self, log_probs: Any) -> Integers:  # noqa: ARG002
        """Return what each voter adds, in whole units, from log-probabilities (n_queries, n_voters, n_classes)."""
        raise DataError(f"law={self.name!r} takes {' or '.join(self.takes)}, not log-probabilities: pass those votes.")

    @abstractmethod
    def draw(self, votes: Any, voters: Voters, noise: NoiseSource) -> Outcomes:
        """Draw the answers to queries that were already charged.

        Parameters
        ----------
        votes : list of NamedVotes, or ndarray of int of shape (n_queries, n_classes)
            Ballots by class, or sums of `whole` over voters. Private.
        voters : Voters
            Public facts.
        noise : NoiseSource
            Secret bits.
        """

    @abstractmethod
    def with_noise(self, noise: float) -> Self:
        """Return the same release with other noise."""


def require_one_fixed_ballot(release: Release, voters: Voters) -> None:
    """Refuse fresh sampling, and units with several ballots."""
    if voters.rate is not None or voters.votes > 1:
        raise InvalidParameterError(
            f"law={release.name!r} requires sampling='fixed' and one ballot a unit (votes_per_unit=1)."
        )
