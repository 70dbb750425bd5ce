"""Private majorities compared at equal total loss, by how often each aggregator errs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpensemble._checks import integer_between, real_between
from dpensemble.budget import Budget
from dpensemble.cost import optimal_composition
from dpensemble.darrm import AlikeTeachers, MajorityAggregator
from dpensemble.darrm.answers import AnswerAllowance, answer_allowance, wrong_answers
from dpensemble.darrm.composition import general_composition
from dpensemble.design.private_answers import FittedAnswer, fitted_answer
from dpensemble.errors import AccountingError
from dpensemble.laws import RandomizedResponseMajority

_ANY_AGREEMENT = AlikeTeachers()


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
