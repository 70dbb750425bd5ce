"""Labels that a law draws from ballots or from soft votes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dpensemble._arrays import Integers
from dpensemble._checks import real_between
from dpensemble._random import NoiseSource
from dpensemble.accounting import price
from dpensemble.accounting.subsampling import amplified, fresh_cost
from dpensemble.accounting.worst_case import bounded_range_cost
from dpensemble.cost import PrivacyCost
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import ExponentialVote, ReleaseLaw, sample
from dpensemble.laws.sampling import PROBABILITY_ERROR
from dpensemble.releases.base import Outcomes, Release, Voters

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
