"""What an optimisation of gamma returns, and why it is private."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dpensemble.darrm.allowance import Allowance, Corner
from dpensemble.laws import RandomizedResponseMajority


class Constraints(StrEnum):
    """Which gammas compete, and so which placements of teachers are guarded against."""

    MONOTONE = "monotone"
    """Gammas that fall nowhere away from the tie; three corners suffice."""
    ALL = "all"
    """Every symmetric gamma; all 4 or 8 corners."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """Why a gamma is private: its worst case over every placement of teachers at corners.

    Parameters
    ----------
    constraints : Constraints
        Which placements were examined. All of them, by exhaustive evaluation, after the last change to gamma.
    n_placements : int
        How many those are.
    corners : tuple of ((float, float), int)
        The placement that binds: corners ``(p, p')`` and how many teachers sit there.
    load : float
        Its use of the allowance, in doubles: 1 would be all of it.
    rounding : float
        Bound on the error of every load; ``load + rounding <= 1``.
    shrunk_by : float
        Part of the solver's gamma that was given up to get there.
    """

    constraints: Constraints
    n_placements: int
    corners: tuple[tuple[Corner, int], ...]
    load: float
    rounding: float
    shrunk_by: float

    def __str__(self) -> str:
        """Return it as a sentence."""
        where = ", ".join(f"{count} at ({p:.6g}, {q:.6g})" for (p, q), count in self.corners)
        return (
            f"Private for all {self.n_placements:,} placements of teachers at the corners of their region "
            f"({self.constraints.value}); the worst ({where}) uses {self.load:.9f} of the allowance, known "
            f"within {self.rounding:.1e}; gamma was shrunk by {self.shrunk_by:.1e} to pass."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GammaSolution:
    """An optimised noise function, and what is known about it.

    Parameters
    ----------
    law : RandomizedResponseMajority
        The private majority; its ``gamma`` has K + 1 entries.
    allowance : Allowance
        Teachers and privacy that it was made for.
    objective : float
        ``sum over l > K / 2 of (Pr[L = l] - Pr[L = K - l]) gamma(l)`` under the prior.
    upper_bound : float
        The solver's bound on the objective of any gamma in competition.
    error : float
        Expected total-variation distance between the answer and the true majority.
    certificate : Certificate
        Why it is private.
    n_constraints, rounds : int
        Constraints generated, and solves.
    seconds : float
        Time taken.
    """

    law: RandomizedResponseMajority
    allowance: Allowance
    objective: float
    upper_bound: float
    error: float
    certificate: Certificate
    n_constraints: int
    rounds: int
    seconds: float

    @property
    def gamma(self) -> tuple[float, ...]:
        """The K + 1 entries of gamma."""
        return self.law.gamma
