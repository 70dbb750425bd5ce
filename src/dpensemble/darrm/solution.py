"""The result of an optimisation of gamma, and the reason why gamma is private."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dpensemble.darrm.allowance import Allowance, Corner
from dpensemble.laws import RandomizedResponseMajority


class Constraints(StrEnum):
    """Which gammas compete, and therefore which placements of teachers gamma must withstand."""

    MONOTONE = "monotone"
    """Gammas that never fall away from the tie. Three corners suffice."""
    ALL = "all"
    """Every symmetric gamma. All 4 or 8 corners."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """Why a gamma is private: its worst case over every placement of teachers at corners.

    Parameters
    ----------
    constraints : Constraints
        Which placements were examined. All of them, by exhaustive evaluation, after the last change to gamma.
    n_placements : int
        Number of examined placements.
    corners : tuple of ((float, float), int)
        The binding placement: corners ``(p, p')`` and how many teachers sit there.
    load : float
        The placement's use of the allowance, in doubles. 1 would be all of it.
    rounding : float
        Bound on the error of every load. ``load + rounding <= 1``.
    shrunk_by : float
        Share by which the solver's gamma was reduced to get there.
    """

    constraints: Constraints
    n_placements: int
    corners: tuple[tuple[Corner, int], ...]
    load: float
    rounding: float
    shrunk_by: float

    def __str__(self) -> str:
        """Return the certificate as a sentence."""
        where = ", ".join(f"{count} at ({p:.6g}, {q:.6g})" for (p, q), count in self.corners)
        return (
            f"Private for all {self.n_placements:,} placements of teachers at the corners of their region "
            f"({self.constraints.value}); the worst ({where}) uses {self.load:.9f} of the allowance, known "
            f"within {self.rounding:.1e}; gamma was shrunk by {self.shrunk_by:.1e} to pass."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GammaSolution:
    """An optimised noise function, and its properties.

    Parameters
    ----------
    law : RandomizedResponseMajority
        The private majority. Its ``gamma`` has K + 1 entries.
    allowance : Allowance
        The teachers and the privacy of the answer.
    objective : float
        ``sum over l > K / 2 of (Pr[L = l] - Pr[L = K - l]) gamma(l)`` under the prior.
    upper_bound : float
        The solver's bound on the objective of any competing gamma.
    error : float
        Expected total-variation distance between the answer and the true majority.
    certificate : Certificate
        Why the law is private.
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
