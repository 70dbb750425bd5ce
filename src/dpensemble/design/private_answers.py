"""One law for every answer of private teachers, chosen so that all answers together stay within a budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpensemble.budget import Budget
from dpensemble.darrm import AlikeTeachers, answer_allowance, majority_law
from dpensemble.design.noise import with_least_noise
from dpensemble.design.partitioned import Partitioned
from dpensemble.laws import LawChoice, RandomizedResponseMajority, ReleaseLaw

_ANY_AGREEMENT = AlikeTeachers()


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedAnswer:
    """One law for every answer, and what an answer reveals.

    Parameters
    ----------
    law : ReleaseLaw
        Draws the answer from the ballots.
    epsilon : float
        Privacy of one answer, its delta 0; NaN for Gaussian noise, which has none.
    m : float
        `epsilon` in units of a teacher's; NaN for Gaussian noise.
    composition : str
        Which composition allows that many answers.
    """

    law: ReleaseLaw
    epsilon: float
    m: float
    composition: str


def fitted_answer(
    aggregator: str,
    n_teachers: int,
    *,
    touched: int,
    teacher: tuple[float, float],
    queries: int,
    budget: Budget,
    prior: Any = _ANY_AGREEMENT,
) -> FittedAnswer:
    """Return the law with which a number of answers have a total loss within a budget.

    Parameters
    ----------
    aggregator : {"darrm", "dsub", "sub", "rr", "gnmax"}
        Which.
    n_teachers : int
        ``K``.
    touched : int
        Most teachers whose records one unit can change: 1 for a partition, ``K`` where everybody sees everything.
    teacher : (float, float)
        Epsilon and delta of a teacher's ballot, fresh for every query; ``"gnmax"`` takes ordinary teachers.
    queries : int
        Number of answers.
    budget : Budget
        Their total.
    prior : float or VotePrior, default=AlikeTeachers()
        As for `optimise_gamma`.

    Returns
    -------
    FittedAnswer

    Raises
    ------
    InvalidParameterError
        If an argument is out of range.
    BudgetError
        If no Gaussian noise is enough.

    Examples
    --------
    >>> budget = Budget(epsilon=1, delta=1e-5)
    >>> found = fitted_answer("darrm", 11, touched=11, teacher=(0.01, 0.0), queries=100, budget=budget)
    >>> round(found.m, 2), found.composition
    (2.71, 'optimal composition')
    """
    if aggregator == "gnmax":
        noisy = gaussian_law(n_teachers, touched, queries, budget)
        return FittedAnswer(law=noisy, epsilon=np.nan, m=np.nan, composition="exact adaptive composition")
    allowance = answer_allowance(budget.epsilon, budget.delta, queries)
    epsilon, Delta = teacher
    if Delta == 0 and allowance.epsilon >= touched * epsilon:
        # The ballots that a unit can change reveal no more than that all together: no noise is needed.
        plain = RandomizedResponseMajority((1.0,) * (n_teachers + 1))
        return FittedAnswer(law=plain, epsilon=touched * epsilon, m=float(touched), composition=allowance.composition)
    one = min(allowance.epsilon, n_teachers * epsilon)
    law = majority_law(aggregator, n_teachers, epsilon=epsilon, Delta=Delta, answer_epsilon=one, prior=prior)
    return FittedAnswer(law=law, epsilon=one, m=one / epsilon, composition=allowance.composition)


def gaussian_law(n_teachers: int, touched: int, queries: int, budget: Budget) -> ReleaseLaw:
    """Return Gaussian noisy-max with the least noise at which answers of ordinary teachers fit a budget."""
    design = Partitioned(
        name="private-majority", choice=LawChoice.of("gnmax"), n_teachers=n_teachers, touched=touched, budget=budget
    )
    return with_least_noise(design, queries).law
