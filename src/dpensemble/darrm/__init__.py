"""Private majorities of teachers that are themselves private (DaRRM): optimised, certified and checked."""

from dpensemble.darrm.allowance import Allowance
from dpensemble.darrm.answers import MajorityAggregator
from dpensemble.darrm.optimise import expected_error, optimise_gamma
from dpensemble.darrm.priors import AlikeTeachers, IndependentTeachers, VotePrior
from dpensemble.darrm.solution import Certificate, Constraints, GammaSolution

__all__ = [
    "AlikeTeachers",
    "Allowance",
    "Certificate",
    "Constraints",
    "GammaSolution",
    "IndependentTeachers",
    "MajorityAggregator",
    "VotePrior",
    "expected_error",
    "optimise_gamma",
]
