"""Labels of very many classes, from the classes with votes only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from dpensemble._random import NoiseSource
from dpensemble.accounting.price import SparseCost, sparse_cost
from dpensemble.laws import SparseNoisyMax
from dpensemble.releases.base import NamedVotes, Outcomes, Release, Voters, require_one_fixed_ballot


@dataclass(frozen=True)
class SparseLabel(Release):
    """The label of a sparse noisy maximum, or no answer."""

    law: SparseNoisyMax

    def check(self, voters: Voters) -> None:
        """Refuse fresh sampling, and units with several ballots."""
        require_one_fixed_ballot(self, voters)

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
