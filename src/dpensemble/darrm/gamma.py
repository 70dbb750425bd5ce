"""The best private majority of private teachers, by a linear program that adds constraints as needed.

Beliefs about the teachers' votes decide which private majority is best, not what is private. The result states why its
gamma is private.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

import highspy
import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from dpensemble._checks import integer_between, member, real_between
from dpensemble._entries import Floats
from dpensemble.darrm.allowance import Allowance, Constraints, Placements
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import RandomizedResponseMajority

# For quadrature over an interval on which the chance of a count changes by about a factor of e.
_NODES = 16


class VotePrior(Protocol):
    """The interface of a prior."""

    def lead(self, n_teachers: int) -> NDArray[np.float64]:
        """Return ``Pr[L = l] - Pr[L = K - l]`` for ``l > K / 2``; ``L`` counts votes for the likelier class.

        Parameters
        ----------
        n_teachers : int
            ``K``.

        Returns
        -------
        ndarray of shape ((K + 1) // 2,)
            Value of releasing the majority at each count. Not negative.
        """


@dataclass(frozen=True, slots=True)
class IndependentTeachers:
    """Each teacher's probability is drawn independently on one side of 1/2, with one mean.

    Then only the mean matters: the votes are Binomial(K, mean). Uniform on [1/2, 1] has mean 0.75. If probabilities
    straddle 1/2, the resulting expected errors are lower bounds.

    Parameters
    ----------
    mean : float
        In [0, 1]. At 1/2 both classes are equally likely.

    Raises
    ------
    InvalidParameterError
        If the mean is out of range.

    Examples
    --------
    >>> IndependentTeachers(0.75).lead(3).round(4)
    array([0.2812, 0.4062])
    """

    mean: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", real_between("prior mean", self.mean, 0, 1))

    def lead(self, n_teachers: int) -> NDArray[np.float64]:
        """Return ``Pr[L = l] - Pr[L = K - l]`` for ``l > K / 2``."""
        return _lead(n_teachers, max(self.mean, 1 - self.mean))


@dataclass(frozen=True, slots=True)
class AlikeTeachers:
    """All teachers share one probability, drawn from an interval or from a histogram.

    Parameters
    ----------
    low, high : float, default=0.0, 1.0
        Ends of the interval on which the common probability is uniform. Not used with a histogram.
    probabilities, weights : tuple of float, optional
        Values of the common probability, and how likely each is. Weights sum to 1.

    Raises
    ------
    InvalidParameterError
        If these settings are out of range, of different lengths, or do not sum to 1.

    Examples
    --------
    >>> AlikeTeachers().lead(3).round(4)
    array([0.1875, 0.4375])
    >>> AlikeTeachers(probabilities=(0.2, 0.9), weights=(0.5, 0.5)).lead(1).round(4)
    array([0.7])
    """

    low: float = 0.0
    high: float = 1.0
    probabilities: tuple[float, ...] = ()
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        low, high = real_between("prior low", self.low, 0, 1), real_between("prior high", self.high, 0, 1)
        if not low < high:
            raise InvalidParameterError(f"prior low={low:g} must be below high={high:g}.")
        _check_histogram(self.probabilities, self.weights)

    def lead(self, n_teachers: int) -> NDArray[np.float64]:
        """Return ``Pr[L = l] - Pr[L = K - l]`` for ``l > K / 2``."""
        if self.probabilities:
            pairs = zip(self.probabilities, self.weights, strict=True)
            return np.sum([weight * _lead(n_teachers, max(p, 1 - p)) for p, weight in pairs], axis=0)
        # A class is likelier on each side of 1/2. The side below is reversed.
        sides = [(max(self.low, 0.5), max(self.high, 0.5)), (1 - min(self.high, 0.5), 1 - min(self.low, 0.5))]
        wide = sum(high - low for low, high in sides)
        return np.sum([_integrated_lead(n_teachers, *side) / wide for side in sides], axis=0)


def _prior_of(prior: Any) -> VotePrior:
    """Return a prior. A plain number is the mean of independent teachers."""
    if hasattr(prior, "lead") and not isinstance(prior, type):
        return prior
    return IndependentTeachers(prior)


def _lead(n_teachers: int, chance: float) -> NDArray[np.float64]:
    from scipy.stats import binom  # noqa: PLC0415  takes long to import

    votes = np.arange(n_teachers // 2 + 1, n_teachers + 1)
    if chance == 0.5:
        # Set to zero, which the rounding of two equal terms might miss.
        return np.zeros(len(votes))
    return np.maximum(binom.pmf(votes, n_teachers, chance) - binom.pmf(n_teachers - votes, n_teachers, chance), 0)


def _integrated_lead(n_teachers: int, low: float, high: float) -> NDArray[np.float64]:
    """Integrate the lead over probabilities from `low` to `high`, both at least 1/2, by incomplete betas."""
    votes = np.arange(n_teachers // 2 + 1, n_teachers + 1)
    if (high - low) * (n_teachers + 1) <= 1:
        # Incomplete betas agree in most digits here. Quadrature integrates a polynomial that hardly bends.
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        chances = (low + high) / 2 + (high - low) / 2 * nodes
        leads = [weight * _lead(n_teachers, float(p)) for p, weight in zip(chances, weights, strict=True)]
        return np.sum(leads, axis=0) * ((high - low) / 2)

    def integrated(count: NDArray[np.int64]) -> NDArray[np.float64]:
        shape = (count + 1, n_teachers - count + 1)
        return (betainc(*shape, high) - betainc(*shape, low)) / (n_teachers + 1)

    return np.maximum(integrated(votes) - integrated(n_teachers - votes), 0)


def _check_histogram(probabilities: Any, weights: Any) -> None:
    if not (isinstance(probabilities, tuple) and isinstance(weights, tuple) and len(probabilities) == len(weights)):
        raise InvalidParameterError("prior probabilities and weights must be tuples of one length.")
    for p, weight in zip(probabilities, weights, strict=True):
        real_between("prior probability", p, 0, 1)
        real_between("prior weight", weight, 0, 1)
    if weights and not abs(sum(weights) - 1) < 1e-9:
        raise InvalidParameterError(f"prior weights must sum to 1; got {sum(weights):g}.")


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
    corners: tuple[tuple[tuple[float, float], int], ...]
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


# The tightest that HiGHS accepts, then what it always reaches.
_TOLERANCES = (1e-10, 1e-10, 1e-9, 1e-8, 1e-7)


class _SilentHighs(highspy.Highs):
    """A solver that is silent before its callbacks are enabled, which prints a banner since HiGHS 1.16."""

    def enableCallbacks(self) -> None:  # noqa: N802
        self.silent()
        super().enableCallbacks()  # type: ignore[no-untyped-call]


class _GammaProgram:
    """Maximise ``lead @ gamma`` over gamma in [0, 1], non-decreasing if `rising`, with ``row @ gamma <= 1``.

    Rows are added when they are violated. Each solve starts from the last basis.
    """

    def __init__(self, lead: NDArray[np.float64], *, rising: bool) -> None:
        self._rising, self._size = rising, len(lead)
        self._solver = _SilentHighs()  # type: ignore[no-untyped-call]
        self._solver.silent()
        self._solver.setOptionValue("threads", 1)
        self._columns = np.arange(self._size, dtype=np.int32)
        for _ in self._columns:
            self._solver.addVar(0.0, 1.0)
        # Scaled to 1, so that the tolerances mean the same for every prior.
        self._scale = float(lead.max())
        self._solver.changeColsCost(self._size, self._columns, self._in_variables(lead / self._scale))
        self._solver.changeObjectiveSense(highspy.ObjSense.kMaximize)
        if rising:
            self._add(np.ones(self._size))

    def add(self, row: NDArray[np.float64]) -> None:
        """Require ``row @ gamma <= 1`` from now on."""
        self._add(self._in_variables(row))

    def solve(self) -> tuple[NDArray[np.float64], float] | None:
        """Return the best gamma under the rows so far and its objective, or None if the solver fails."""
        if not any(self._solve_within(tolerance) for tolerance in _TOLERANCES):
            return None
        values = np.maximum(np.array(self._solver.getSolution().col_value), 0)
        gamma = np.minimum(np.cumsum(values) if self._rising else values, 1)
        return gamma, self._scale * float(self._solver.getInfo().objective_function_value)

    def _solve_within(self, tolerance: float) -> bool:
        """Return whether the solver succeeds. A second run often succeeds after a failure."""
        for option in ("primal_feasibility_tolerance", "dual_feasibility_tolerance"):
            self._solver.setOptionValue(option, tolerance)
        self._solver.run()
        return bool(self._solver.getModelStatus() == highspy.HighsModelStatus.kOptimal)

    def _in_variables(self, row: NDArray[np.float64]) -> NDArray[np.float64]:
        # An increment raises its own entry and all later ones.
        return np.cumsum(row[::-1])[::-1] if self._rising else row

    def _add(self, row: NDArray[np.float64]) -> None:
        self._solver.addRow(-highspy.kHighsInf, 1.0, self._size, self._columns, row)


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
    lead = np.asarray(_prior_of(prior).lead(allowance.n_teachers), dtype=np.float64)
    if lead.shape != ((n_teachers + 1) // 2,) or not np.all((lead >= 0) & (lead <= 1)):
        raise InvalidParameterError(
            f"prior must give (n_teachers + 1) // 2 = {(n_teachers + 1) // 2} numbers from 0 to 1 by its lead."
        )
    if not lead.max() > 0:
        raise InvalidParameterError(
            "prior makes both classes equally likely, so no gamma is best: use a mean above 0.5 or AlikeTeachers()."
        )
    placements = constraints.placements(allowance)
    search = _Search(placements, lead, rising=constraints is Constraints.MONOTONE)
    search.run(real_between("tolerance", tolerance, 0, 1), integer_between("most_rounds", most_rounds, 1))
    upper, certificate = _certify(search.best, search.best_load, placements, constraints)
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
    return float(_prior_of(prior).lead(law.n_teachers) @ (1 - upper)) / 2


class _Search:
    """Rounds of solving and separating. Keeps the best gamma, scored after shrinking it to be private."""

    def __init__(self, placements: Placements, lead: Floats, *, rising: bool) -> None:
        self.placements, self.lead = placements, lead
        self.program = _GammaProgram(lead, rising=rising)
        self.best, self.best_load, self.bound = np.zeros(len(lead)), 0.0, float(lead.sum())
        self.rounds = self.rows = 0
        self._value = 0.0

    def run(self, tolerance: float, most_rounds: int) -> None:
        """Start from the baselines, so that none of them is better when the search stops."""
        for law in _baselines(self.placements.allowance):
            upper = self.placements.allowance.upper(np.array(law.gamma))
            upper = upper / max(self.placements.worst(upper)[0].load, 1)
            self._keep_better(upper, self.placements.worst(upper, _ROWS_A_ROUND)[0].load)
        known_counts: set[tuple[int, ...]] = set()
        while self.rounds < most_rounds and (solution := self.program.solve()):
            self.rounds += 1
            self.bound = min(self.bound, solution[1])
            worst = self.placements.worst(solution[0], _ROWS_A_ROUND)
            self._keep_better(solution[0], worst[0].load)
            new = [place for place in worst if place.load > 1 and place.counts not in known_counts]
            if self.bound - self._value <= tolerance * self.bound or not new:
                return
            for place in new:
                self.program.add(self.placements.row(place.counts))
                known_counts.add(place.counts)
                self.rows += 1

    def _keep_better(self, upper: Floats, load: float) -> None:
        """Keep a gamma of a largest load if the gamma is better after it is shrunk."""
        value = float(self.lead @ upper) / max(load, 1)
        # A tie within rounding keeps the earlier gamma, which needs no shrinking.
        if value > self._value * (1 + 1e-14):
            self.best, self.best_load, self._value = upper, load, value


def _baselines(allowance: Allowance) -> list[RandomizedResponseMajority]:
    """Return constant, Sub and DSub. Those that are not private here are shrunk like any other gamma."""
    k, m = allowance.n_teachers, max(int(allowance.m), 1)
    return [
        RandomizedResponseMajority((1.0,) * (k + 1)),
        RandomizedResponseMajority.subsampling(k, m),
        RandomizedResponseMajority.double_subsampling(k, m),
    ]


def private_version(law: RandomizedResponseMajority, allowance: Allowance) -> RandomizedResponseMajority:
    """Multiply gamma, which must fall nowhere away from the tie, by the largest number that makes it private."""
    placements = Constraints.MONOTONE.placements(allowance)
    upper = allowance.upper(np.array(law.gamma))
    shrunk, _ = _certify(upper, placements.worst(upper)[0].load, placements, Constraints.MONOTONE)
    return RandomizedResponseMajority(tuple(np.abs(allowance.signed(shrunk)).tolist()))


def _certify(
    upper: Floats, load: float, placements: Placements, constraints: Constraints
) -> tuple[Floats, Certificate]:
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
