"""One law for every answer of private teachers, chosen so that all answers together stay within a budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpensemble.accounting import worst_case_cost, worst_case_meter
from dpensemble.budget import Budget
from dpensemble.darrm import AlikeTeachers, answer_allowance, majority_law
from dpensemble.errors import AccountingError, BudgetError
from dpensemble.laws import GaussianNoisyMax, RandomizedResponseMajority, ReleaseLaw

_ANY_AGREEMENT = AlikeTeachers()
_LEAST_SIGMA, _MOST_SIGMA = 0.05, 1e6
_PRECISION = 1.0005


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerDesign:
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


def design_answers(
    aggregator: str,
    n_teachers: int,
    *,
    touched: int,
    teacher: tuple[float, float],
    queries: int,
    budget: Budget,
    prior: Any = _ANY_AGREEMENT,
) -> AnswerDesign:
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
        Epsilon and delta of a teacher's ballot, fresh for every query; not used by ``"gnmax"``, whose teachers
        are ordinary.
    queries : int
        Number of answers.
    budget : Budget
        Their total.
    prior : float or VotePrior, default=AlikeTeachers()
        As for `optimise_gamma`.

    Returns
    -------
    AnswerDesign

    Raises
    ------
    InvalidParameterError
        If an argument is out of range.
    BudgetError
        If no Gaussian noise is enough.

    Examples
    --------
    >>> budget = Budget(epsilon=1, delta=1e-5)
    >>> found = design_answers("darrm", 11, touched=11, teacher=(0.01, 0.0), queries=100, budget=budget)
    >>> round(found.m, 2), found.composition
    (2.71, 'optimal composition')
    """
    if aggregator == "gnmax":
        noisy = gaussian_law(n_teachers, touched, queries, budget)
        return AnswerDesign(law=noisy, epsilon=np.nan, m=np.nan, composition="exact adaptive composition")
    allowance = answer_allowance(budget.epsilon, budget.delta, queries)
    epsilon, Delta = teacher
    if Delta == 0 and allowance.epsilon >= touched * epsilon:
        # The ballots that a unit can change reveal no more than that all together: no noise is needed.
        plain = RandomizedResponseMajority((1.0,) * (n_teachers + 1))
        return AnswerDesign(
            law=plain, epsilon=touched * epsilon, m=float(touched), composition=allowance.composition
        )
    one = min(allowance.epsilon, n_teachers * epsilon)
    law = majority_law(aggregator, n_teachers, epsilon=epsilon, Delta=Delta, answer_epsilon=one, prior=prior)
    return AnswerDesign(law=law, epsilon=one, m=one / epsilon, composition=allowance.composition)


def gaussian_law(n_teachers: int, touched: int, queries: int, budget: Budget) -> GaussianNoisyMax:
    """Return Gaussian noisy-max with the least noise at which answers of ordinary teachers fit a budget.

    Parameters
    ----------
    n_teachers, touched, queries, budget
        As for `design_answers`.

    Raises
    ------
    BudgetError
        If no noise up to a million votes is enough.
    """
    reach: dict[str, Any] = {"n_teachers": n_teachers, "n_classes": 2, "votes_per_unit": touched}

    def fits(sigma: float) -> bool:
        try:
            one = worst_case_cost(GaussianNoisyMax(sigma), **reach)
            return (one * queries).epsilon(budget.delta) <= budget.epsilon
        except AccountingError:
            return False

    low, high = _LEAST_SIGMA, _MOST_SIGMA
    if not fits(high):
        raise BudgetError(f"queries={queries} do not fit epsilon={budget.epsilon:g} with any Gaussian noise.")
    if fits(low):
        return GaussianNoisyMax(low)
    while high > low * _PRECISION:
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if fits(middle) else (middle, high)
    while worst_case_meter(GaussianNoisyMax(high), **reach, budget=budget).sure_queries < queries:
        high *= _PRECISION
    return GaussianNoisyMax(high)
