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

#: Shapes that are tried: decisive votes do best with large ones, close votes with small ones.
SHAPES = (0.2, 0.25, 0.3, 0.35, 0.4)


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
    shapes: tuple[float, ...] = SHAPES,
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
    shapes : tuple of float
        Shapes to try.

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
    if not shapes:
        raise InvalidParameterError("shapes=() leaves nothing to try; give at least one from 0.1 to 0.5.")
    ensemble = Ensemble(
        method=VotingMethod.OPTIMAL, n_teachers=n_teachers, n_partitions=n_partitions, n_classes=n_classes
    )
    found, reach = [], None
    for shape in shapes:
        fitted, meter = calibrated(replace(ensemble, shape=shape), labels, budget, reach)
        reach = fitted.noise
        wrong = wrong_label_rate(fitted.law, ballots, np.arange(ballots + 1), n_classes)
        found.append((float(weights @ wrong), plan_of(fitted, meter, labels)))
    error, best = min(found, key=lambda pair: pair[0])
    errors = tuple((float(plan.shape or 0.0), wrong) for wrong, plan in found)
    return OptimalVotePlan(plan=best, expected_error=error, errors=errors)


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
    OptimalVote(reach=160.0, shape=0.3)
    """
    ensemble = Ensemble(
        method=VotingMethod.OPTIMAL,
        n_teachers=n_teachers,
        n_partitions=n_partitions,
        n_classes=n_classes,
        reach=reach,
    )
    if reach is None and labels is not None:
        ensemble, _ = calibrated(ensemble, integer_between("max_labels", labels, 1), budget)
    law = ensemble.law
    assert isinstance(law, OptimalVote)  # noqa: S101
    return law
