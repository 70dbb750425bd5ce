"""What leaves the private records: queries, their charge and their noise, in one place."""

from dpensemble.releases.noise import DiscreteNoise
from dpensemble.releases.queries import ReleasedSum, ReleasedTable, SumQuery
from dpensemble.releases.sums import SumPayer, SumReleaser

__all__ = ["DiscreteNoise", "ReleasedSum", "ReleasedTable", "SumPayer", "SumQuery", "SumReleaser"]
