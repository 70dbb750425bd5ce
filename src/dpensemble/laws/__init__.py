"""Release laws: from one row of vote counts to the probability of each released outcome."""

from dpensemble.laws.base import ReleaseLaw
from dpensemble.laws.decisive import HockeyStickRule, RenyiRule, decisive_law
from dpensemble.laws.gates import AgainstStudent, ConfidentNoisyMax, GaussianGate, InteractiveNoisyMax
from dpensemble.laws.gaussian import GaussianNoisyMax
from dpensemble.laws.majority import RandomizedResponseMajority
from dpensemble.laws.noisy_max import LaplaceNoisyMax
from dpensemble.laws.optimal import OptimalVote
from dpensemble.laws.sampling import integer_weights, mixed_probabilities, sample
from dpensemble.laws.tables import RandomizedResponse, TableLaw

__all__ = [
    "AgainstStudent",
    "ConfidentNoisyMax",
    "GaussianGate",
    "GaussianNoisyMax",
    "HockeyStickRule",
    "InteractiveNoisyMax",
    "LaplaceNoisyMax",
    "OptimalVote",
    "RandomizedResponse",
    "RandomizedResponseMajority",
    "ReleaseLaw",
    "RenyiRule",
    "TableLaw",
    "decisive_law",
    "integer_weights",
    "mixed_probabilities",
    "sample",
]
