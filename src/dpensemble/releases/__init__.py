"""Releases from the private records: each release, its charge and its noise, in one place."""

from dpensemble.releases.answers import (
    RELEASES,
    LabelByLaw,
    LabelBySoftVotes,
    NamedVotes,
    NoisyMean,
    Outcomes,
    Release,
    SparseLabel,
    Voters,
    release_of,
)
from dpensemble.releases.sums import (
    DiscreteNoise,
    ReleasedSum,
    ReleasedTable,
    SumPayer,
    SumQuery,
    SumReleaser,
    SumsMeter,
    weighted_groups,
)

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
    "SumsMeter",
    "Voters",
    "release_of",
    "weighted_groups",
]
