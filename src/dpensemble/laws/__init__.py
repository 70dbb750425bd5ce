"""Release laws, which map one row of vote counts to the probability of each released outcome."""

from dpensemble.laws.base import ByLaw, ReleaseLaw
from dpensemble.laws.choice import LAWS, LIBRARY_LAWS, LawChoice
from dpensemble.laws.decisive import HockeyStickRule, RenyiRule, decisive_law
from dpensemble.laws.majority import RandomizedResponseMajority
from dpensemble.laws.noisy_max import (
    ConfidentNoisyMax,
    ExponentialVote,
    GaussianNoisyMax,
    InteractiveNoisyMax,
    LaplaceNoisyMax,
)
from dpensemble.laws.optimal import OptimalVote
from dpensemble.laws.sampling import integer_weights, least_mixing_weight, mixed_probabilities, sample
from dpensemble.laws.sparse import SparseNoisyMax
from dpensemble.laws.tables import RandomizedResponse, TableLaw

__all__ = [
    "LAWS",
    "LIBRARY_LAWS",
    "ByLaw",
    "ConfidentNoisyMax",
    "ExponentialVote",
    "GaussianNoisyMax",
    "HockeyStickRule",
    "InteractiveNoisyMax",
    "LaplaceNoisyMax",
    "LawChoice",
    "OptimalVote",
    "RandomizedResponse",
    "RandomizedResponseMajority",
    "ReleaseLaw",
    "RenyiRule",
    "SparseNoisyMax",
    "TableLaw",
    "decisive_law",
    "integer_weights",
    "least_mixing_weight",
    "mixed_probabilities",
    "sample",
]
