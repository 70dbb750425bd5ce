"""Release laws: from one row of vote counts to the probability of each released outcome."""

from dpensemble.laws.base import ReleaseLaw
from dpensemble.laws.noisy_max import LaplaceNoisyMax
from dpensemble.laws.sampling import integer_weights, sample

__all__ = ["LaplaceNoisyMax", "ReleaseLaw", "integer_weights", "sample"]
