"""One law for every answer of private teachers, chosen so that all answers together stay within a budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpensemble.budget import Budget
from dpensemble.darrm import AlikeTeachers
from dpensemble.darrm.answers import AnswerAllowance, answer_allowance, majority_law
from dpensemble.darrm.plurality import Plurality, most_drawn, plurality_epsilon
from dpensemble.design.noise import with_least_noise
from dpensemble.design.partitioned import Partitioned
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.laws import LawChoice, RandomizedResponseMajority, ReleaseLaw

_ANY_AGREEMENT = AlikeTeachers()


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedAnswer:
    """One law for every answer, and what one answer reveals.

    Parameters
    ----------
    law : ReleaseLaw
        The law that draws the answer from the ballots.
    epsilon : float
        Privacy of one answer, at delta 0. NaN for Gaussian noise, which has no such epsilon.
    m : float
        `epsilon` in units of a teacher's epsilon. NaN for Gaussian noise.
    composition : str
        The composition that allows this number of answers.
    drawn : int or None
        Number of ballots that are drawn for an answer, if not all.
    """

    law: ReleaseLaw
    epsilon: float
    m: float
    composition: str
    drawn: int | None = None


def fitted_answer(
    aggregator: str,
    n_teachers: int,
    *,
    touched: int,
    teacher: tuple[float, float],
    queries: int,
    budget: Budget,
    prior: Any = _ANY_AGREEMENT,
    n_classes: int = 2,
    randomised: bool = False,
) -> FittedAnswer:
    """Return the law with which a number of answers have a total loss within a budget.

    Parameters
    ----------
    aggregator : {"darrm", "dsub", "sub", "rr", "gnmax"}
        Name of the aggregator.
    n_teachers : int
        ``K``.
    touched : int
        Most teachers whose records one unit can change: 1 for a partition, ``K`` if every teacher sees all records.
    teacher : (float, float)
        Epsilon and delta of a teacher's ballot, fresh for every query. ``"gnmax"`` takes ordinary teachers.
    queries : int
        Number of answers.
    budget : Budget
        Budget of all answers together.
    prior : float or VotePrior, default=AlikeTeachers()
        As for `optimise_gamma`.
    n_classes : int, default=2
        Number of classes. With more than two, ``"sub"`` and ``"gnmax"`` only.
    randomised : bool, default=False
        Whether ballots are true votes with randomised response, rather than votes of private models.

    Returns
    -------
    FittedAnswer

    Raises
    ------
    InvalidParameterError
        If an argument is out of range.
    BudgetError
        If no Gaussian noise is enough, or a single ballot reveals more than an answer may.

    Examples
    --------
    >>> budget = Budget(epsilon=1, delta=1e-5)
    >>> answer = fitted_answer("darrm", 11, touched=11, teacher=(0.01, 0.0), queries=100, budget=budget)
    >>> round(answer.m, 2), answer.composition
    (2.71, 'optimal composition')
    """
    if aggregator == "gnmax":
        noisy = gaussian_law(n_teachers, touched, queries, budget, n_classes)
        return FittedAnswer(law=noisy, epsilon=np.nan, m=np.nan, composition="exact adaptive composition")
    allowance = answer_allowance(budget.epsilon, budget.delta, queries)
    epsilon, Delta = teacher
    if n_classes > 2:
        return _plurality(n_teachers, touched, teacher, queries, allowance, randomised)
    if Delta == 0 and allowance.epsilon >= touched * epsilon:
        # All ballots that a unit can change reveal no more than that together, so no noise is needed.
        plain = RandomizedResponseMajority((1.0,) * (n_teachers + 1))
        return FittedAnswer(law=plain, epsilon=touched * epsilon, m=float(touched), composition=allowance.composition)
    one = min(allowance.epsilon, n_teachers * epsilon)
    law = majority_law(aggregator, n_teachers, epsilon=epsilon, Delta=Delta, answer_epsilon=one, prior=prior)
    return FittedAnswer(law=law, epsilon=one, m=one / epsilon, composition=allowance.composition)


def _plurality(
    n_teachers: int,
    touched: int,
    teacher: tuple[float, float],
    queries: int,
    allowance: AnswerAllowance,
    randomised: bool,
) -> FittedAnswer:
    """Return the plurality of as many ballots as an answer may reveal."""
    epsilon, delta = teacher
    if delta:
        raise InvalidParameterError(
            f"teacher_privacy has a delta of {delta:g}, but answers of three and more classes need teachers with delta "
            "0: declare one, or use private='models'."
        )

    def cost(drawn: int) -> float:
        return plurality_epsilon(drawn, n_teachers, touched=touched, epsilon=epsilon, randomised=randomised)

    drawn = most_drawn(n_teachers, allowance.epsilon, cost)
    if drawn is None:
        raise BudgetError(
            f"{queries} answers may reveal epsilon={allowance.epsilon:.3g} each, and one ballot reveals {cost(1):.3g}: "
            "use fewer max_labels, or a smaller teacher_privacy."
        )
    one = cost(drawn)
    return FittedAnswer(law=Plurality(), epsilon=one, m=one / epsilon, composition=allowance.composition, drawn=drawn)


def gaussian_law(n_teachers: int, touched: int, queries: int, budget: Budget, n_classes: int = 2) -> ReleaseLaw:
    """Return Gaussian noisy-max with the least noise at which answers of ordinary teachers fit a budget."""
    design = Partitioned(
        name="private-majority",
        choice=LawChoice.of("gnmax"),
        n_classes=n_classes,
        n_teachers=n_teachers,
        touched=touched,
        budget=budget,
    )
    return with_least_noise(design, queries).law
