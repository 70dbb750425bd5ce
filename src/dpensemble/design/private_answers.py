"""One law for every answer of private teachers, chosen so that all answers together stay within a budget.

A total over many queries gives the privacy of one answer, and each aggregator has a law of that privacy. Aggregators
are compared at equal total loss, by how often each errs. The published composition is for such comparisons only.

Three and more classes
----------------------
The optimised gamma is for two classes. With more classes, ``m`` of ``K`` ballots are drawn, each choice equally likely
and independent for every query. The class with most of these ballots is released, and ties are broken by chance. Each
ballot is ``epsilon``-private (delta 0) and has randomness of its own. A unit can change `touched` of them.

*Several teachers touched.* Given which ballots are drawn, at most ``h = min(m, touched)`` of them are a unit's, and any
function of them loses at most ``h epsilon`` (composition). The choice is independent of the records, and a mixture with
the same weights on both sides loses at most as much as its worst part.

*One touched* (a partition) by randomised ballots. Its ballot is drawn with the chance ``q = m / K``. For any event,
let ``A`` be its chance when that ballot is not drawn, and ``B, B'`` its chances when it is, for a true vote ``x`` or
``x'`` of the unit's teacher. Randomised response makes a ballot's laws for any two true votes ``epsilon``-close, so
that ``B <= exp(epsilon) B'``. A choice with the teacher becomes one without it by taking another teacher, at random, in
its place. Then one true vote differs, so that ``B <= exp(epsilon) A``, too. With ``b = min(A, B')`` and ``P' = (1 - q)
A + q B' >= b``,

    P - P' = q (B - B') <= q (exp(epsilon) b - B') <= q (exp(epsilon) - 1) b <= q (exp(epsilon) - 1) P',

so the answer loses at most ``log(1 + q (exp(epsilon) - 1))`` (as in B. Balle, G. Barthe and M. Gaboardi, "Privacy
amplification by subsampling", NeurIPS 2018, for sampling without replacement). Votes of private models are not close
to those of other models, so those of a partition are charged ``epsilon``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import e, expm1, inf, log, log1p, sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import delta_of, epsilon_of, integer_between, member, real_between
from dpensemble.cost import optimal_composition
from dpensemble.darrm.allowance import Allowance
from dpensemble.darrm.gamma import AlikeTeachers, optimise_gamma, private_version
from dpensemble.design.plan import with_least_noise
from dpensemble.design.voting import Partitioned
from dpensemble.errors import AccountingError, BudgetError, InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.laws import LawChoice, RandomizedResponseMajority, ReleaseLaw


def general_composition(epsilon: float, delta: float, times: int, slack: float) -> tuple[float, float]:
    """Return the privacy of `times` adaptive answers by the closed form of Kairouz, Oh and Viswanath.

    `dpensemble.cost.optimal_composition` gives the exact optimum. This form is the one of the paper's tables.
    `slack` is an additional delta. 0 gives simple composition. The form is Theorem 3.4 of "The composition theorem for
    differential privacy", quoted as Theorem 2.3 of "Optimized Tradeoffs for Private Prediction with Majority
    Ensembling".
    """
    epsilon, delta = epsilon_of(epsilon), real_between("delta", delta, 0, 1)
    times, slack = integer_between("times", times, 1), real_between("slack", slack, 0, 1)
    simple = times * epsilon
    # Rounded up, without the cancellation that would lose a tiny delta.
    log_kept = -inf if 1 in (delta, slack) else times * log1p(-delta) + log1p(-slack)
    total_delta = min(1.0, -expm1(log_kept) * (1 + 1e-12))
    # Beyond this simple composition is smaller, and the exponential would overflow.
    if slack == 0 or epsilon > 100:
        return simple, total_delta
    drift = simple * expm1(epsilon) / (expm1(epsilon) + 2)
    widths = (log(e + sqrt(times) * epsilon / slack), log(1 / slack))
    return min(simple, *(drift + epsilon * sqrt(2 * times * width) for width in widths)), total_delta


_ANY_AGREEMENT = AlikeTeachers()
_STEPS = 60


class MajorityAggregator(StrEnum):
    """Private majorities of teachers that are themselves private."""

    DARRM = "darrm"
    """The optimised gamma."""
    DSUB = "dsub"
    """Majority of 2 m - 1 teachers drawn at random."""
    SUB = "sub"
    """Majority of m teachers drawn at random."""
    RR = "rr"
    """One chance of releasing the majority, for all votes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerAllowance:
    """Largest pure epsilon of each of many answers within a total, by optimal composition and by the closed form.

    Holds for answers with fresh randomness each. See `docs/privacy.md`, "One model, many answers".
    """

    exact: float
    general: float

    @property
    def epsilon(self) -> float:
        """The larger of the two epsilons."""
        return max(self.exact, self.general)

    @property
    def composition(self) -> str:
        """Name of the composition that allows this epsilon."""
        return "optimal composition" if self.exact >= self.general else "general composition"


def _answer_allowance(epsilon: float, delta: float, queries: int) -> AnswerAllowance:
    """Return how much each of many independent answers may reveal within a total.

    Answers are pure (their own delta is 0), so all of the total's delta is left for their composition.
    """
    epsilon, delta = epsilon_of(epsilon), delta_of(delta)
    queries = integer_between("queries", queries, 1)
    return AnswerAllowance(
        exact=_largest(lambda one: optimal_composition([(one, 0.0)] * queries, delta), epsilon, queries),
        general=_largest(lambda one: general_composition(one, 0.0, queries, delta)[0], epsilon, queries),
    )


def _largest(total: Callable[[float], float], epsilon: float, queries: int) -> float:
    """Return the largest epsilon of an answer whose total fits. Simple composition surely fits."""
    low = max(epsilon / queries * (1 - 1e-12), 1e-9)
    high = min(max(epsilon, 1.0) * 2, 1e12)
    if not total(low) <= epsilon:
        return low
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if total(middle) <= epsilon else (low, middle)
    return low


def _majority_law(
    aggregator: MajorityAggregator | str,
    n_teachers: int,
    *,
    epsilon: float,
    Delta: float = 0.0,
    answer_epsilon: float,
    prior: object = _ANY_AGREEMENT,
) -> RandomizedResponseMajority:
    """Return an aggregator's law whose answer is ``answer_epsilon``-private, with delta 0.

    A published aggregator may reveal more than that (Sub and DSub of teachers with a Delta above 0, or of an `m`
    below 1). Then its gamma is multiplied by the largest number that makes it private. So RR is the largest constant
    that is private, which is larger than the published constant. Only DaRRM uses the prior.
    """
    aggregator = member("aggregator", aggregator, MajorityAggregator)
    # Rounded down, so that m times epsilon is never above what the answer may reveal.
    m = min(answer_epsilon / epsilon * (1 - 1e-15), float(n_teachers))
    allowance = Allowance(n_teachers=n_teachers, epsilon=epsilon, m=m, Delta=Delta)
    whole = max(int(m * (1 + 1e-12)), 1)
    if aggregator is MajorityAggregator.DARRM:
        return optimise_gamma(n_teachers, epsilon=epsilon, m=m, Delta=Delta, prior=prior).law
    if aggregator is MajorityAggregator.SUB:
        law = RandomizedResponseMajority.subsampling(n_teachers, whole)
    elif aggregator is MajorityAggregator.DSUB:
        law = RandomizedResponseMajority.double_subsampling(n_teachers, whole)
    else:
        law = RandomizedResponseMajority((1.0,) * (n_teachers + 1))
    return private_version(law, allowance)


def _wrong_answers(law: ReleaseLaw, n_teachers: int, agreement: float) -> float:
    """Return how often an answer is not the likelier class, for which each ballot votes with one probability."""
    from scipy.stats import binom  # noqa: PLC0415  takes long to import

    votes = np.arange(n_teachers + 1)
    counts = np.stack([n_teachers - votes, votes], axis=1)
    chances = binom.pmf(votes, n_teachers, real_between("agreement", agreement, 0, 1))
    return float(chances @ law.probabilities(counts)[:, 0])


_ROUND_UP = 1 + 1e-12


@dataclass(frozen=True, slots=True)
class Plurality(ReleaseLaw):
    """Release the class with the most ballots, ties by chance. For ballots that are private by themselves.

    A plurality adds no noise and protects nothing: its answer is as private as the ballots.
    """

    title: ClassVar[str] = "plurality of the ballots"
    symmetric: ClassVar[bool] = True

    def probabilities(self, counts: NDArray[Any]) -> NDArray[np.float64]:
        """Return the probability of each class, shape (n_queries, n_classes)."""
        best = counts == counts.max(axis=1, keepdims=True)
        chances: NDArray[np.float64] = best / best.sum(axis=1, keepdims=True)
        return chances


def _plurality_epsilon(drawn: int, n_teachers: int, *, touched: int, epsilon: float, randomised: bool) -> float:
    """Return the privacy loss, rounded up, of one answer by the plurality of a few ballots, drawn at random.

    One unit can change `touched` teachers. Each ballot has pure privacy `epsilon`: a true vote with randomised
    response, or the vote of a private model.
    """
    drawn = integer_between("drawn", drawn, 1, integer_between("n_teachers", n_teachers, 1))
    if touched == 1 and randomised:
        return math.log1p(drawn / n_teachers * math.expm1(epsilon)) * _ROUND_UP if drawn < n_teachers else epsilon
    return min(drawn, touched) * epsilon


def _most_drawn(n_teachers: int, allowed: float, cost: Callable[[int], float]) -> int | None:
    """Return the largest number of ballots whose plurality costs at most `allowed`, or None if not even one does."""
    fits = [drawn for drawn in range(1, n_teachers + 1) if cost(drawn) <= allowed]
    return max(fits, default=None)


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
    allowance = _answer_allowance(budget.epsilon, budget.delta, queries)
    epsilon, Delta = teacher
    if n_classes > 2:
        return _plurality(n_teachers, touched, teacher, queries, allowance, randomised)
    if Delta == 0 and allowance.epsilon >= touched * epsilon:
        # All ballots that a unit can change reveal no more than that together, so no noise is needed.
        plain = RandomizedResponseMajority((1.0,) * (n_teachers + 1))
        return FittedAnswer(law=plain, epsilon=touched * epsilon, m=float(touched), composition=allowance.composition)
    one = min(allowance.epsilon, n_teachers * epsilon)
    law = _majority_law(aggregator, n_teachers, epsilon=epsilon, Delta=Delta, answer_epsilon=one, prior=prior)
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
        return _plurality_epsilon(drawn, n_teachers, touched=touched, epsilon=epsilon, randomised=randomised)

    drawn = _most_drawn(n_teachers, allowance.epsilon, cost)
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
        errors = tuple(_wrong_answers(design.law, n_teachers, p) for p in chances)
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
            errors=tuple(_wrong_answers(plain, n_teachers, p) for p in chances),
        )
    )
    return AggregatorComparison(
        n_teachers=n_teachers,
        touched=touched,
        queries=queries,
        teacher=(epsilon, Delta),
        budget=budget,
        general=general_composition(one, 0.0, queries, delta)[0],
        allowance=_answer_allowance(budget.epsilon, delta, queries),
        agreements=chances,
        rows=tuple(rows),
    )


def _models_total(epsilon: float, Delta: float, touched: int, delta: float) -> float:
    """Return the total of the models that a record touches, or infinity if their deltas are above the total's."""
    try:
        return optimal_composition([(epsilon, Delta)] * touched, delta)
    except AccountingError:
        return float("inf")
