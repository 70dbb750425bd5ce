"""Private majorities of teachers that are themselves private (DaRRM): optimised, certified and checked."""

from dpensemble.darrm.allowance import Allowance
from dpensemble.darrm.answers import AnswerAllowance, MajorityAggregator, answer_allowance, majority_law, wrong_answers
from dpensemble.darrm.check import GammaCheck, check_gamma
from dpensemble.darrm.composition import general_composition
from dpensemble.darrm.optimise import expected_error, optimise_gamma
from dpensemble.darrm.plurality import Plurality, most_drawn, plurality_epsilon
from dpensemble.darrm.priors import AlikeTeachers, IndependentTeachers, VotePrior
from dpensemble.darrm.solution import Certificate, Constraints, GammaSolution

__all__ = [
    "AlikeTeachers",
    "Allowance",
    "AnswerAllowance",
    "Certificate",
    "Constraints",
    "GammaCheck",
    "GammaSolution",
    "IndependentTeachers",
    "MajorityAggregator",
    "Plurality",
    "VotePrior",
    "answer_allowance",
    "check_gamma",
    "expected_error",
    "general_composition",
    "majority_law",
    "most_drawn",
    "optimise_gamma",
    "plurality_epsilon",
    "wrong_answers",
]
