"""Private majorities of teachers that are themselves private (DaRRM): optimised, certified and checked."""

from dpensemble.darrm.allowance import Allowance
from dpensemble.darrm.check import GammaCheck, check_gamma
from dpensemble.darrm.composition import general_composition
from dpensemble.darrm.optimise import expected_error, optimise_gamma
from dpensemble.darrm.priors import AlikeTeachers, IndependentTeachers, VotePrior
from dpensemble.darrm.solution import Certificate, Constraints, GammaSolution

__all__ = [
    "AlikeTeachers",
    "Allowance",
    "Certificate",
    "Constraints",
    "GammaCheck",
    "GammaSolution",
    "IndependentTeachers",
    "VotePrior",
    "check_gamma",
    "expected_error",
    "general_composition",
    "optimise_gamma",
]
