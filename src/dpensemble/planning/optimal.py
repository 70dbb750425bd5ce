"""The optimal vote for a whole budget: its reach, and the shape that errs least on the votes to expect."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpensemble._checks import integer_between
from dpensemble.budget import Budget
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import OptimalVote
from dpensemble.planning.calibrate import calibrated
from dpensemble.planning.ensemble import Ensemble
from dpensemble.planning.plans import Plan, plan_of
from dpensemble.planning.quality import wrong_label_rate
from dpensemble.planning.settings import VotingMethod

#: Shapes that are tried: many labels and clear votes call for large ones.
SHAPES = (0.1, 0.125, 0.15, 0.175, 0.2, 0.225, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimalVotePlan:
    """The optimal vote that errs least, among several shapes, under one budget.

    Parameters
    ----------
    plan : Plan
        With the law's reach and shape.
    expected_error : float
        Expected wrong-label rate under the prior.
    errors : tuple of (float, float)
        Shape and expected wrong-label rate of all that were tried.
    """

    plan: Plan
    expected_error: float
    errors: tuple[tuple[float, float], ...]


def optimal_vote(
    *,
    epsilon: float,
    delta: float,
    labels: int,
    n_teachers: int = 250,
    n_partitions: int = 1,
    n_classes: int = 2,
    prior: ArrayLike | None = None,
    shapes: tuple[float, ...] | None = None,
) -> OptimalVotePlan:
    """Find the optimal vote whose labels fit a budget, composed exactly, and err least under a prior on margins.

    Parameters
    ----------
    epsilon, delta : float
        The budget.
    labels : int
        Labels wanted.
    n_teachers, n_partitions, n_classes : int
        Teachers in each partition, partitions, declared classes. Public.
    prior : array-like of shape (n_teachers * n_partitions + 1,), optional
        Public. Chance of each margin by which the winner leads the runner-up; by default all are equally likely.
    shapes : tuple of float, optional
        Shapes to try; by default a dozen from 0.1 to 0.5, from the usual one to the first optimum.

    Returns
    -------
    OptimalVotePlan

    Raises
    ------
    InvalidParameterError
        If a setting is out of range, or the prior does not sum to 1.
    BudgetError
        If no reach up to a million votes is enough.
    AccountingError
        If three or more classes have too many histograms to list.

    Examples
    --------
    >>> found = optimal_vote(epsilon=2.0, delta=1e-5, labels=20, n_teachers=50, shapes=(0.3,))
    >>> round(found.plan.reach, 1), found.plan.epsilon_spent <= 2.0
    (56.1, True)
    """
    ballots = integer_between("n_teachers", n_teachers, 1) * integer_between("n_partitions", n_partitions, 1)
    weights = _prior(prior, ballots)
    budget = Budget(epsilon=epsilon, delta=delta)
    integer_between("labels", labels, 1)
    if shapes == ():
        raise InvalidParameterError("shapes=() leaves nothing to try; give at least one from 0.1 to 0.5.")
    ensemble = Ensemble(
        method=VotingMethod.OPTIMAL, n_teachers=n_teachers, n_partitions=n_partitions, n_classes=n_classes
    )
    search = _Search(ensemble, labels, budget, weights)
    for shape in shapes or ():
        search.error(shape)
    if shapes is None:
        search.climb()
    shape = min(search.found, key=search.error)
    errors = tuple((tried, search.error(tried)) for tried in sorted(search.found))
    return OptimalVotePlan(plan=search.found[shape][1], expected_error=search.error(shape), errors=errors)


class _Search:
    """Calibrates the reach of each shape once."""

    def __init__(self, ensemble: Ensemble, labels: int, budget: Budget, weights: NDArray[np.float64]) -> None:
        self._ensemble, self._labels, self._budget, self._weights = ensemble, labels, budget, weights
        self._steepness: float | None = None
        self.found: dict[float, tuple[float, Plan]] = {}

    def error(self, shape: float) -> float:
        """Return the expected wrong-label rate of a shape."""
        if shape not in self.found:
            # About the same steepness at a tie fits the budget, whatever the shape.
            width = OptimalVote(1.0, shape).steepness
            start = None if self._steepness is None else width / self._steepness
            fitted, meter = calibrated(replace(self._ensemble, shape=shape), self._labels, self._budget, start)
            assert fitted.noise is not None  # noqa: S101
            self._steepness = width / fitted.noise
            ballots = len(self._weights) - 1
            wrong = wrong_label_rate(fitted.law, ballots, np.arange(ballots + 1), fitted.n_classes)
            self.found[shape] = float(self._weights @ wrong), plan_of(fitted, meter, self._labels)
        return self.found[shape][0]

    def climb(self) -> None:
        """Try neighbouring shapes for as long as they are better."""
        law = self._ensemble.law
        assert isinstance(law, OptimalVote)  # noqa: S101
        place = SHAPES.index(law.shape)
        for step in (1, -1):
            while 0 <= place + step < len(SHAPES) and self.error(SHAPES[place + step]) < self.error(
                SHAPES[place]
            ):
                place += step


def _prior(prior: ArrayLike | None, ballots: int) -> NDArray[np.float64]:
    if prior is None:
        return np.full(ballots + 1, 1 / (ballots + 1))
    weights = np.asarray(prior, dtype=np.float64)
    if weights.shape != (ballots + 1,) or not (np.all(weights >= 0) and abs(weights.sum() - 1) < 1e-9):
        raise InvalidParameterError(
            f"prior must be {ballots + 1} probabilities, of margins from 0 to {ballots} votes, that sum to 1."
        )
    return weights


@lru_cache(maxsize=32)
def optimal_law(
    n_teachers: int, n_partitions: int, n_classes: int, reach: float | None, labels: int | None, budget: Budget
) -> OptimalVote:
    """Return the optimal vote of a run: as given, or such that the budget pays for just the labels wanted.

    Parameters
    ----------
    n_teachers, n_partitions, n_classes : int
        As for `Ensemble`.
    reach : float or None
        Reach in votes, if it was given.
    labels : int or None
        Labels wanted. Without them, and without a reach, it is the default.
    budget : Budget
        What may be spent.

    Returns
    -------
    OptimalVote

    Examples
    --------
    >>> optimal_law(250, 1, 2, None, None, Budget(epsilon=1.0, delta=1e-5))
    OptimalVote(reach=185.0, shape=0.25)
    """
    ensemble = Ensemble(
        method=VotingMethod.OPTIMAL,
        n_teachers=n_teachers,
        n_partitions=n_partitions,
        n_classes=n_classes,
        reach=reach,
    )
    if reach is None and labels is not None:
        wanted = integer_between("max_labels", labels, 1)
        found = optimal_vote(
            epsilon=budget.epsilon,
            delta=budget.delta,
            labels=wanted,
            n_teachers=n_teachers,
            n_partitions=n_partitions,
            n_classes=n_classes,
        )
        ensemble = found.plan.ensemble
    law = ensemble.law
    assert isinstance(law, OptimalVote)  # noqa: S101
    return law
