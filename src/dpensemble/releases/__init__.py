"""Releases from the private records: each release, its charge and its noise, in one place."""

from dpensemble.releases.base import NamedVotes, Outcomes, Release, Voters
from dpensemble.releases.choice import RELEASES, release_of
from dpensemble.releases.labels import LabelByLaw, LabelBySoftVotes
from dpensemble.releases.mean import NoisyMean
from dpensemble.releases.noise import DiscreteNoise
from dpensemble.releases.queries import ReleasedSum, ReleasedTable, SumQuery
from dpensemble.releases.sparse import SparseLabel
from dpensemble.releases.sums import SumPayer, SumReleaser

__all__ = [
    "RELEASES",
    "DiscreteNoise",
    "LabelByLaw",
    "LabelBySoftVotes",
    "NamedVotes",
    "NoisyMean",
    "Outcomes",
    "Release",
    "ReleasedSum",
    "ReleasedTable",
    "SparseLabel",
    "SumPayer",
    "SumQuery",
    "SumReleaser",
    "Voters",
    "release_of",
]
