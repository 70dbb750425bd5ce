"""One law for every answer of private teachers, chosen so that all answers together stay within a budget.

Aggregators are compared at equal total loss, by how often each errs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpensemble._checks import integer_between, real_between
from dpensemble.budget import Budget
from dpensemble.cost import optimal_composition
from dpensemble.darrm.answers import (
    AnswerAllowance,
    MajorityAggregator,
    Plurality,
    answer_allowance,
    general_composition,
    majority_law,
    most_drawn,
    plurality_epsilon,
    wrong_answers,
)
from dpensemble.darrm.gamma import AlikeTeachers
from dpensemble.design.plan import with_least_noise
from dpensemble.design.voting import Partitioned
from dpensemble.errors import AccountingError, BudgetError, InvalidParameterError
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
        noisy = _gaussian_law(n_teachers, touched, queries, budget, n_classes)
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


def _gaussian_law(n_teachers: int, touched: int, queries: int, budget: Budget, n_classes: int = 2) -> ReleaseLaw:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedAggregator:
    """How often one aggregator errs.

    Parameters
    ----------
    name : str
        Name of the aggregator. ``"gnmax"`` and ``"models"`` have a row of their own.
    design : FittedAnswer or None
        Its law and loss. None when the models are paid for and the plain majority is released.
    epsilon : float
        Total loss at the comparison's delta.
    errors : tuple of float
        For each agreement, the chance that an answer is not the likelier class.
    """

    name: str
    design: FittedAnswer | None
    epsilon: float
    errors: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregatorComparison:
    """Aggregators at equal total loss. `str` prints the table.

    Parameters
    ----------
    n_teachers, touched, queries : int
        Number of teachers, how many of them a unit touches, and number of answers.
    teacher : (float, float)
        Epsilon and delta of a teacher.
    budget : Budget
        The common total.
    general : float
        Total epsilon of the same answers by general composition, for comparison.
    allowance : AnswerAllowance
        What one answer may reveal, by either composition.
    agreements : tuple of float
        Chance that a teacher votes for the likelier class.
    rows : tuple of ComparedAggregator
        One row for each aggregator.
    """

    n_teachers: int
    touched: int
    queries: int
    teacher: tuple[float, float]
    budget: Budget
    general: float
    allowance: AnswerAllowance
    agreements: tuple[float, ...]
    rows: tuple[ComparedAggregator, ...]

    def __getitem__(self, name: str) -> ComparedAggregator:
        return next(row for row in self.rows if row.name == name)

    def __str__(self) -> str:
        """Return the table."""
        epsilon, Delta = self.teacher
        lines = [
            f"{self.n_teachers} teachers, each ({epsilon:g}, {Delta:g})-private; a record touches "
            f"{self.touched}; {self.queries} answers within epsilon {self.budget.epsilon:.4g} at delta "
            f"{self.budget.delta:g}",
            f"an answer may reveal {self.allowance.exact:.4g} by optimal, {self.allowance.general:.4g} by "
            f"general composition; in general composition these answers come to {self.general:.4g}",
            "wrong answers where each teacher is right with probability",
            f"  {'':8s}" + "".join(f"{p:9.2f}" for p in self.agreements) + "    total epsilon",
        ]
        for row in self.rows:
            lines.append(f"  {row.name:8s}" + "".join(f"{e:9.4f}" for e in row.errors) + f"{row.epsilon:17.4g}")
        return "\n".join(lines)


def compare_aggregators(
    n_teachers: int,
    *,
    epsilon: float,
    m: float,
    Delta: float = 0.0,
    delta: float = 1e-5,
    queries: int = 100,
    agreements: Sequence[float] = (0.6, 0.7, 0.8, 0.9),
    touched: int | None = None,
    prior: Any = _ANY_AGREEMENT,
) -> AggregatorComparison:
    """Compare private majorities of private teachers, and Gaussian noise on ordinary ones, at equal total loss.

    The total is that of `queries` answers of ``m epsilon`` each, by optimal composition at `delta`. DaRRM, DSub,
    Sub and RR need ballots with fresh randomness for every query. The row ``models`` releases the plain majority of
    models that are trained once and paid for once. Its total does not depend on `queries`, so it is not equal.

    Parameters
    ----------
    n_teachers : int
        ``K``.
    epsilon, Delta : float
        Privacy of each teacher.
    m : float
        What one answer reveals, in units of a teacher's epsilon.
    delta : float, default=1e-5
        Delta of the total.
    queries : int, default=100
        Number of answers.
    agreements : sequence of float
        Chances that a teacher votes for the likelier class, the same for private and ordinary teachers.
    touched : int, optional
        Most teachers that one record touches, by default all of them. A majority of private teachers is compared
        as if all could move, unless ``touched`` ballots reveal less than an answer may.
    prior : float or VotePrior, default=AlikeTeachers()
        As for `optimise_gamma`.

    Returns
    -------
    AggregatorComparison

    Raises
    ------
    InvalidParameterError
        If an argument is out of range.

    Examples
    --------
    >>> comparison = compare_aggregators(11, epsilon=0.1, m=3, queries=20, prior=0.75)
    >>> [round(comparison[name].errors[2], 3) for name in ("darrm", "dsub", "sub", "rr", "gnmax")]
    [0.04, 0.058, 0.104, 0.074, 0.455]
    """
    queries = integer_between("queries", queries, 1)
    touched = integer_between("touched", n_teachers if touched is None else touched, 1, n_teachers)
    chances = tuple(real_between("agreements", p, 0, 1) for p in agreements)
    one = real_between("m", m, 1e-6, n_teachers) * real_between("epsilon", epsilon, 1e-6, 100)
    # Slightly above, so that the answers themselves fit their total.
    budget = Budget(epsilon=optimal_composition([(one, 0.0)] * queries, delta) * (1 + 1e-9), delta=delta)
    rows = []
    for name in (*MajorityAggregator, "gnmax"):
        design = fitted_answer(
            str(name),
            n_teachers,
            touched=touched,
            teacher=(epsilon, Delta),
            queries=queries,
            budget=budget,
            prior=prior,
        )
        errors = tuple(wrong_answers(design.law, n_teachers, p) for p in chances)
        total = budget.epsilon
        if not np.isnan(design.epsilon):
            total = optimal_composition([(design.epsilon, 0.0)] * queries, delta)
        rows.append(ComparedAggregator(name=str(name), design=design, epsilon=total, errors=errors))
    plain = RandomizedResponseMajority((1.0,) * (n_teachers + 1))
    rows.append(
        ComparedAggregator(
            name="models",
            design=None,
            epsilon=_models_total(epsilon, Delta, touched, delta),
            errors=tuple(wrong_answers(plain, n_teachers, p) for p in chances),
        )
    )
    return AggregatorComparison(
        n_teachers=n_teachers,
        touched=touched,
        queries=queries,
        teacher=(epsilon, Delta),
        budget=budget,
        general=general_composition(one, 0.0, queries, delta)[0],
        allowance=answer_allowance(budget.epsilon, delta, queries),
        agreements=chances,
        rows=tuple(rows),
    )


def _models_total(epsilon: float, Delta: float, touched: int, delta: float) -> float:
    """Return the total of the models that a record touches, or infinity if their deltas are above the total's."""
    try:
        return optimal_composition([(epsilon, Delta)] * touched, delta)
    except AccountingError:
        return float("inf")
