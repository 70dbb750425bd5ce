"""Answers to queries on votes: which release belongs to a law, what one answer costs at most, and how it is drawn.

`Release` is the interface. Its kinds are labels that a law draws from ballots or from soft votes, the noisy mean of the
voters' probabilities, and labels of very many classes, which are drawn from the classes with votes only.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import integer_between, real_between
from dpensemble._entries import Floats, Integers
from dpensemble._random import NoiseSource
from dpensemble._spending import Original
from dpensemble.accounting import Change, GaussianSum, price
from dpensemble.accounting.price import SparseCost, sparse_cost
from dpensemble.accounting.subsampling import amplified, fresh_cost
from dpensemble.accounting.worst_case import bounded_range_cost
from dpensemble.cost import Cost, GaussianCost, PrivacyCost, noise_variance
from dpensemble.errors import BudgetError, DataError, InvalidParameterError
from dpensemble.laws import ExponentialVote, LawChoice, ReleaseLaw, SparseNoisyMax, sample
from dpensemble.laws.sampling import PROBABILITY_ERROR
from dpensemble.relations import Relation
from dpensemble.releases.sums import SumQuery, SumReleaser


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

    A subclass is a frozen dataclass. `release_of` maps each law to its release.

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


def _require_one_fixed_ballot(release: Release, voters: Voters) -> None:
    """Refuse fresh sampling, and units with several ballots."""
    if voters.rate is not None or voters.votes > 1:
        raise InvalidParameterError(
            f"law={release.name!r} requires sampling='fixed' and one ballot a unit (votes_per_unit=1)."
        )


# Soft votes are whole numbers of this part of a vote, so that sums are exact.
_PARTS = 2**20


@dataclass(frozen=True)
class LabelByLaw(Release):
    """The label that a law draws from the ballots."""

    law: ReleaseLaw

    def check(self, voters: Voters) -> None:  # noqa: ARG002
        """Refuse laws whose answers depend on more than the votes."""
        if self.law.needs_student:
            raise InvalidParameterError(
                f"law={self.law.name!r} requires a student, which an Aggregator does not have: use 'gnmax'."
            )

    def cost(self, voters: Voters) -> PrivacyCost:
        """Return the most that one answer can cost."""
        if voters.rate is None:
            return price(self.law, voters.change).answered
        return fresh_cost(self.law, voters.change, voters.rate, voters.relation)

    def analysis(self, voters: Voters) -> str:
        """Return name and source of the analysis."""
        how = "exact worst case of the released labels over all votes"
        return how if voters.rate is None else f"{how} and all draws of records, with a fresh draw for every answer"

    def table(self, votes: Any, voters: Voters) -> NDArray[Any]:
        """Return votes by query and class."""
        counts = np.zeros((len(votes), voters.n_classes), dtype=np.int64)
        for row, vote in zip(counts, votes, strict=True):
            row[vote.ids] = vote.counts
        return counts

    def draw(self, votes: Any, voters: Voters, noise: NoiseSource) -> Outcomes:
        """Draw the answers to queries that were charged."""
        numbers = sample(self.law, self.table(votes, voters), noise)
        return Outcomes(np.where(numbers < voters.n_classes, numbers, -1).tolist())

    def with_noise(self, noise: float) -> Self:
        """Return the same release with other noise, in votes."""
        return replace(self, law=self.law.with_noise(noise))


@dataclass(frozen=True)
class LabelBySoftVotes(LabelByLaw):
    """The label that the exponential mechanism draws from soft votes: each voter gives each class from 0 to 1 vote.

    Parameters
    ----------
    law : ExponentialVote
        The law that draws.
    clip : float
        A class that lies further below a voter's largest log-probability, in nats, counts as this far. From 0.001 to
        1,000.
    """

    takes: ClassVar[tuple[str, ...]] = ("log_probs",)

    clip: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip", real_between("clip", self.clip, 1e-3, 1e3))
        # The cost below is that of this mechanism, and not of any subclass.
        if type(self.law) is not ExponentialVote:
            raise InvalidParameterError(
                f"clip={self.clip:g} requires log-probabilities under the exponential mechanism: use "
                "law=ExponentialVote(scale), or leave clip out."
            )

    def cost(self, voters: Voters) -> PrivacyCost:
        """Return the most that one answer can cost.

        Every vote may change by up to 1 at once, so losses lie in a range of twice that over the scale. The start of
        the range depends on the votes, and the price covers every start. The possible effect of rounding widens the
        range.
        """
        rounding = 2 * PROBABILITY_ERROR * voters.n_classes**2 / self.law.mixing_weight(voters.n_classes)
        one = bounded_range_cost(2 * voters.votes / self.law.noise, rounding)
        return one if voters.rate is None else amplified(one, voters.rate, voters.relation, two_values=False)

    def whole(self, log_probs: NDArray[np.float64]) -> Integers:
        """Return votes in parts. No voter has more than one vote for any class, whatever the rounding."""
        below = np.maximum(log_probs - log_probs.max(axis=-1, keepdims=True), -self.clip)
        return np.clip(np.floor((1 + below / self.clip) * _PARTS), 0, _PARTS).astype(np.int64)

    def table(self, votes: Any, voters: Voters) -> NDArray[Any]:  # noqa: ARG002
        """Return votes by query and class."""
        soft: NDArray[Any] = votes / _PARTS
        return soft


_UNIT = 2**34
_MOST_ENTRIES = 4096


@dataclass(frozen=True)
class _ProbabilitiesSum(SumQuery[Floats]):
    """The sum of the voters' probabilities.

    A voter's probabilities are not negative and have a length of at most 1, so those of two voters differ by ``|u -
    v|**2 <= |u|**2 + |v|**2 <= 2``. Under both relations a unit changes the answer of one voter.
    """

    description = "the mean of the voters' probabilities"
    unit = _UNIT
    replacing = math.isqrt(2 * _UNIT**2) + 1
    removing = replacing

    def read(self, sums: Floats, spread: float) -> Floats:  # noqa: ARG002
        """Return the means."""
        return sums


class PaidSums(Original, spends=("charge",)):
    """Pays once for sums that an `Aggregator` charged before. Counts entries of all sums together."""

    def __init__(self, noise: float, variance: int, entries: int) -> None:
        self._noise, self._variance, self._left = noise, variance, integer_between("entries", entries, 1)

    def sigma(self, share: float) -> float:  # noqa: ARG002
        """Return the noise that was charged for."""
        return self._noise

    def charge(self, sigma: float, *, variance: int, entries: int) -> None:
        """Refuse sums with less noise than was charged, or with more entries than were charged and not yet drawn."""
        if not (sigma >= self._noise and variance >= self._variance and 1 <= entries <= self._left):
            raise BudgetError(
                f"sums of {entries:,} entries with noise sigma={sigma:.6g} must match those that were charged before: "
                f"{self._left:,} entries with noise sigma={self._noise:.6g}."
            )
        self._left -= entries


@dataclass(frozen=True)
class NoisyMean(Release):
    """The noisy mean of the voters' probabilities, and its largest class."""

    takes: ClassVar[tuple[str, ...]] = ("log_probs",)

    law: GaussianSum

    @property
    def variance(self) -> int:
        """Variance of the noise on a sum, in squared whole units."""
        return noise_variance(self.law.sigma, _ProbabilitiesSum.replacing)

    def check(self, voters: Voters) -> None:
        """Refuse fresh sampling, units with several ballots, and very many classes."""
        _require_one_fixed_ballot(self, voters)
        integer_between("n_classes", voters.n_classes, 2, _MOST_ENTRIES)

    def cost(self, voters: Voters) -> GaussianCost:
        """Return the cost of one answer."""
        return GaussianCost.of_sum(self.law.sigma, variance=self.variance, entries=voters.n_classes)

    def analysis(self, voters: Voters) -> str:  # noqa: ARG002
        """Return the name and source of the analysis."""
        return (
            "exact trade-off of the Gaussian mechanism (Balle and Wang 2018, Theorem 8; Dong, Roth and Su 2022, "
            "Corollary 3.3); the noise drawn is a discrete Gaussian, whose difference is charged"
        )

    def whole(self, log_probs: Any) -> Integers:
        """Return probabilities in whole units, each voter's at most one unit long as a vector."""
        whole = np.floor(np.exp(np.minimum(log_probs, 0.0)) * _UNIT)
        # Lengths are enforced. A margin of 1e-9 pays for the rounding of root and product.
        lengths = np.sqrt(np.einsum("qvc,qvc->qv", whole, whole))
        factors = np.where(lengths <= _UNIT * (1 - 1e-9), 1.0, _UNIT * (1 - 2e-9) / np.maximum(lengths, 1.0))
        return np.floor(whole * factors[:, :, None]).astype(np.int64)

    def draw(self, votes: Integers, voters: Voters, noise: NoiseSource) -> Outcomes:
        """Draw the noise of sums that were already charged, one for each query."""
        payer = PaidSums(self.law.sigma, self.variance, votes.size)
        sums = SumReleaser(relation=voters.relation, meter=payer, noise=noise)
        means = sums.charge_and_draw(_ProbabilitiesSum(), votes, 1.0, weight=voters.n_voters)
        return Outcomes(means.argmax(axis=1).tolist(), means.tolist())

    def with_noise(self, noise: float) -> Self:
        """Return the same release with other noise, in sensitivities."""
        return replace(self, law=GaussianSum(noise))


@dataclass(frozen=True)
class SparseLabel(Release):
    """The label of a sparse noisy maximum, or no answer."""

    law: SparseNoisyMax

    def check(self, voters: Voters) -> None:
        """Refuse fresh sampling, and units with several ballots."""
        _require_one_fixed_ballot(self, voters)

    def cost(self, voters: Voters) -> SparseCost:
        """Return the most that one answer can cost."""
        return sparse_cost(self.law, voters.n_voters)

    def analysis(self, voters: Voters) -> str:  # noqa: ARG002
        """Return the name and source of the analysis."""
        return (
            "exact worst case of the released labels over all votes, and what a class of a single vote can reveal, by "
            "exact adaptive composition"
        )

    def draw(self, votes: list[NamedVotes], voters: Voters, noise: NoiseSource) -> Outcomes:  # noqa: ARG002
        """Draw the answers to queries that were charged."""
        places = [(one, self.law.sample(one.counts, noise)) for one in votes]
        return Outcomes([int(one.ids[place]) if place < len(one.ids) else -1 for one, place in places])

    def with_noise(self, noise: float) -> Self:
        """Return the same release with other noise, in votes."""
        return replace(self, law=replace(self.law, sigma=noise))


#: Laws with a release of their own. All other laws draw labels from ballots.
RELEASES: dict[Any, Any] = {SparseNoisyMax: SparseLabel, GaussianSum: NoisyMean}


def release_of(law: Any, n_voters: int, n_classes: int, *, clip: float | None = None) -> Release:
    """Return the release that answers by a law.

    Parameters
    ----------
    law : str, ReleaseLaw, SparseNoisyMax or GaussianSum
        A law, or its short name, which then has its usual noise for that many voters.
    n_voters, n_classes : int
        Number of voters and of classes.
    clip : float, optional
        For log-probabilities under the exponential mechanism: see `Release.clip`.
    """
    if type(law) not in RELEASES:
        law = LawChoice.of(law).law(integer_between("n_voters", n_voters, 1), n_classes)
    return RELEASES.get(type(law), LabelByLaw)(law) if clip is None else LabelBySoftVotes(law, clip)
