"""The best private majority of private teachers, by a linear program that adds constraints as needed."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from dpensemble._arrays import Floats
from dpensemble._checks import integer_between, member, real_between
from dpensemble.darrm.allowance import Allowance
from dpensemble.darrm.corners import FullPlacements, Placement, Placements, ReducedPlacements
from dpensemble.darrm.priors import AlikeTeachers, prior_of
from dpensemble.darrm.solution import Certificate, Constraints, GammaSolution
from dpensemble.darrm.solver import GammaProgram
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import RandomizedResponseMajority

_ROWS_A_ROUND = 8
_ANY_AGREEMENT = AlikeTeachers()


def optimise_gamma(
    n_teachers: int,
    *,
    epsilon: float,
    m: float,
    Delta: float = 0.0,
    delta: float = 0.0,
    prior: Any = _ANY_AGREEMENT,
    constraints: Constraints | str = Constraints.MONOTONE,
    tolerance: float = 1e-9,
    most_rounds: int = 1000,
) -> GammaSolution:
    """Return the private majority of private teachers with the least error.

    Each teacher is ``(epsilon, Delta)``-private. The answer is ``(m epsilon, delta)``-private. A fair coin answers a
    tie of an even number of teachers.

    Parameters
    ----------
    n_teachers : int
        ``K``, from 1 to 2,001.
    epsilon, Delta : float
        Privacy of each teacher.
    m, delta : float
        Privacy of the answer: epsilon in units of a teacher's, above 0 and up to ``K``, and delta. Releasing `m`
        ballots would cost ``m Delta``. A smaller `delta` is feasible too, as the fair coin always is.
    prior : float or VotePrior, default=AlikeTeachers()
        Belief about votes: the mean of independent teachers, `IndependentTeachers` or `AlikeTeachers`. The prior
        decides which gamma is best, never which is private. Gamma is arbitrary at counts that the prior makes
        impossible, as independent teachers make most counts if there are hundreds.
    constraints : {"monotone", "all"}, default="monotone"
        Compete among gammas that never fall away from the tie, or among all gammas (few teachers only).
    tolerance : float, default=1e-9
        Stop when the objective is within this share of its upper bound.
    most_rounds : int, default=1000
        Largest number of solves. The returned gamma is private for every reason to stop.

    Returns
    -------
    GammaSolution
        Public, since it does not depend on votes.

    Raises
    ------
    InvalidParameterError
        If an argument is out of range, or there are too many teachers for ``constraints="all"``.

    References
    ----------
    "Optimized Tradeoffs for Private Prediction with Majority Ensembling", section 5, Lemmas 3.4 and 5.1. The
    monotone reduction and lazy constraints are this library's.

    Examples
    --------
    >>> solution = optimise_gamma(11, epsilon=0.1, m=3, prior=0.75)
    >>> round(solution.error, 4)
    0.0415
    >>> solution.certificate.load <= 1
    True
    """
    start = perf_counter()
    allowance = Allowance(n_teachers=n_teachers, epsilon=epsilon, m=m, Delta=Delta, delta=delta)
    constraints = member("constraints", constraints, Constraints)
    lead = np.asarray(prior_of(prior).lead(allowance.n_teachers), dtype=np.float64)
    if lead.shape != ((n_teachers + 1) // 2,) or not np.all((lead >= 0) & (lead <= 1)):
        raise InvalidParameterError(
            f"prior must give (n_teachers + 1) // 2 = {(n_teachers + 1) // 2} numbers from 0 to 1 by its lead."
        )
    if not lead.max() > 0:
        raise InvalidParameterError(
            "prior makes both classes equally likely, so no gamma is best: use a mean above 0.5 or AlikeTeachers()."
        )
    rising = constraints is Constraints.MONOTONE
    placements: Placements = ReducedPlacements(allowance) if rising else FullPlacements(allowance)
    search = _Search(placements, lead, rising=rising)
    search.run(real_between("tolerance", tolerance, 0, 1), integer_between("most_rounds", most_rounds, 1))
    upper, certificate = certify(search.best, search.best_load, placements, constraints)
    w = allowance.signed(upper)
    return GammaSolution(
        law=RandomizedResponseMajority(tuple(np.abs(w).tolist())),
        allowance=allowance,
        objective=float(lead @ upper),
        # The solver guarantees only its own tolerance.
        upper_bound=max(search.bound, float(lead @ upper)),
        error=float(lead @ (1 - upper)) / 2,
        certificate=certificate,
        n_constraints=search.rows,
        rounds=search.rounds,
        seconds=perf_counter() - start,
    )


def expected_error(law: RandomizedResponseMajority, prior: Any = _ANY_AGREEMENT) -> float:
    """Return the expected total-variation distance between a law's answer and the true majority.

    Parameters
    ----------
    law : RandomizedResponseMajority
        Any private majority.
    prior : float or VotePrior, default=AlikeTeachers()
        Belief about votes. A number is the common probability of the likelier class.

    Returns
    -------
    float
        From 0 to 1/2.

    References
    ----------
    "Optimized Tradeoffs for Private Prediction with Majority Ensembling", Definition 2.4 and appendix C.1.

    Examples
    --------
    >>> round(expected_error(RandomizedResponseMajority.subsampling(11, 3), prior=0.75), 4)
    0.1219
    """
    upper = np.array(law.gamma)[law.n_teachers // 2 + 1 :]
    return float(prior_of(prior).lead(law.n_teachers) @ (1 - upper)) / 2


class _Search:
    """Rounds of solving and separating. Keeps the best gamma, scored after shrinking it to be private."""

    def __init__(self, placements: Placements, lead: Floats, *, rising: bool) -> None:
        self.placements, self.lead = placements, lead
        self.program = GammaProgram(lead, rising=rising)
        self.best, self.best_load, self.bound = np.zeros(len(lead)), 0.0, float(lead.sum())
        self.rounds = self.rows = 0
        self._value = 0.0

    def run(self, tolerance: float, most_rounds: int) -> None:
        """Start from the baselines, so that none of them is better when the search stops."""
        for law in _baselines(self.placements.allowance):
            upper = self.placements.allowance.upper(np.array(law.gamma))
            self._consider(upper / max(self.placements.worst(upper)[0].load, 1))
        known_counts: set[tuple[int, ...]] = set()
        while self.rounds < most_rounds and (solution := self.program.solve()):
            self.rounds += 1
            self.bound = min(self.bound, solution[1])
            worst = self._consider(solution[0])
            new = [place for place in worst if place.load > 1 and place.counts not in known_counts]
            if self.bound - self._value <= tolerance * self.bound or not new:
                return
            for place in new:
                self.program.add(self.placements.row(place.counts))
                known_counts.add(place.counts)
                self.rows += 1

    def _consider(self, upper: Floats) -> list[Placement]:
        worst = self.placements.worst(upper, _ROWS_A_ROUND)
        value = float(self.lead @ upper) / max(worst[0].load, 1)
        # A tie within rounding keeps the earlier gamma, which needs no shrinking.
        if value > self._value * (1 + 1e-14):
            self.best, self.best_load, self._value = upper, worst[0].load, value
        return worst


def _baselines(allowance: Allowance) -> list[RandomizedResponseMajority]:
    """Return constant, Sub and DSub. Those that are not private here are shrunk like any other gamma."""
    k, m = allowance.n_teachers, max(int(allowance.m), 1)
    return [
        RandomizedResponseMajority((1.0,) * (k + 1)),
        RandomizedResponseMajority.subsampling(k, m),
        RandomizedResponseMajority.double_subsampling(k, m),
    ]


def certify(upper: Floats, load: float, placements: Placements, constraints: Constraints) -> tuple[Floats, Certificate]:
    """Shrink gamma until its worst case, evaluated again, is below 1 by more than any rounding error."""
    rounding = placements.allowance.rounding
    shrink = 1.0
    while True:
        # The load is linear in gamma. A few units more pay for the rounding of this product itself.
        shrink *= 1 / max(1.0, load + rounding + 1e-15)
        shrunk = upper * shrink
        worst = placements.worst(shrunk)[0]
        load = worst.load
        if load + rounding <= 1:
            break
    binding = tuple((corner, count) for corner, count in zip(placements.corners, worst.counts, strict=True) if count)
    return shrunk, Certificate(
        constraints=constraints,
        n_placements=placements.number,
        corners=binding,
        load=load,
        rounding=rounding,
        shrunk_by=1 - shrink,
    )
