"""Private majorities of teachers that are themselves private (DaRRM): optimised, certified and checked."""

from dpensemble.darrm.allowance import Allowance, Constraints
from dpensemble.darrm.gamma import (
    AlikeTeachers,
    Certificate,
    GammaSolution,
    IndependentTeachers,
    VotePrior,
    expected_error,
    optimise_gamma,
)

__all__ = [
    "AlikeTeachers",
    "Allowance",
    "Certificate",
    "Constraints",
    "GammaSolution",
    "IndependentTeachers",
    "VotePrior",
    "expected_error",
    "optimise_gamma",
]
