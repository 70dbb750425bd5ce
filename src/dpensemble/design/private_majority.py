"""Majorities of teachers that are themselves private: their privacy, law and meter, before any fit.

One law draws every answer, chosen so that all answers together stay within a budget. Aggregators are compared at equal
total loss, by how often each errs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpensemble._checks import integer_between, real_between, shown
from dpensemble.accounting import Meter
from dpensemble.accounting.certifying import Certificate
from dpensemble.accounting.meters.private_teachers import PrivateModelsMeter
from dpensemble.accounting.meters.scheduled import pure_answers_meter
from dpensemble.accounting.schedule import VotingSchedule
from dpensemble.budget import Budget
from dpensemble.cost import optimal_composition
from dpensemble.darrm import AlikeTeachers, MajorityAggregator
from dpensemble.darrm.answers import (
    AnswerAllowance,
    Plurality,
    answer_allowance,
    general_composition,
    majority_law,
    most_drawn,
    plurality_epsilon,
    wrong_answers,
)
from dpensemble.design.plan import with_least_noise
from dpensemble.design.voting import Partitioned, not_certified
from dpensemble.errors import AccountingError, BudgetError, InvalidParameterError
from dpensemble.laws import LawChoice, RandomizedResponseMajority, ReleaseLaw
from dpensemble.relations import Relation

if TYPE_CHECKING:
    from dpensemble.teachers.private import Privacy

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


class PrivateWhat(StrEnum):
    """The part of the ensemble that is private by itself."""

    MODELS = "models"
    FRESH_MODELS = "fresh-models"
    BALLOTS = "ballots"


class MajorityRule(StrEnum):
    """How ballots become a label."""

    MAJORITY = "majority"
    DARRM = "darrm"
    DSUB = "dsub"
    SUB = "sub"
    RR = "rr"
    GNMAX = "gnmax"


@dataclass(frozen=True, slots=True)
class DaRRM:
    """The optimised private majority, for expected votes.

    Parameters
    ----------
    prior : float or VotePrior, default=AlikeTeachers()
        The expected votes. Never derive it from private records.
    """

    prior: Any = field(default_factory=AlikeTeachers)


@dataclass(frozen=True, kw_only=True, eq=False)
class PrivateTeachersDesign(Partitioned):
    """A majority of private teachers, or Gaussian noise on ordinary teachers for comparison. Public.

    Parameters
    ----------
    private : PrivateWhat
        The part that is private by itself. Not used with Gaussian noise.
    rule : MajorityRule
        How ballots become a label.
    teachers : tuple of (float, float) or None
        Privacy of each teacher. None under Gaussian noise, and when only the fitted models know it.
    claim : str
        The basis of that privacy.
    answer_epsilon, m : float
        Privacy of one answer, also in units of a teacher's privacy. NaN if answers are not charged in this way.
    composition : str
        The composition that allows this number of answers.
    queries : int or None
        Number of answers, or None if it plays no part.
    drawn : int or None
        Number of ballots that are drawn for each answer, for three and more classes. None if all ballots count.
    zcdp : tuple of float or None
        Zero-concentrated privacy of each teacher, if teachers state it.
    """

    searches_variants: ClassVar[bool] = False

    private: PrivateWhat
    rule: MajorityRule
    teachers: tuple[Privacy, ...] | None
    claim: str
    answer_epsilon: float = float("nan")
    m: float = float("nan")
    composition: str = ""
    queries: int | None = None
    drawn: int | None = None
    zcdp: tuple[float, ...] | None = None

    @property
    def ordinary(self) -> bool:
        """Whether the teachers are ordinary models."""
        return self.rule is MajorityRule.GNMAX or self.private is PrivateWhat.BALLOTS

    @property
    def pays_for_models(self) -> bool:
        """Whether models are paid for once, and any number of labels is computed from them."""
        return self.rule is MajorityRule.MAJORITY

    def meter(self, queries: int | None = None) -> Meter:
        """Return the meter, not yet paid for if only the fitted models know their cost."""
        if self.rule is MajorityRule.GNMAX:
            return super().meter(queries)
        (group,) = self.groups
        if self.private is PrivateWhat.MODELS:
            models = None if self.teachers is None else touched_models(self.teachers, group.votes)
            zcdp = None if self.zcdp is None else _touched_zcdp(self.zcdp, group.votes)
            return PrivateModelsMeter(models, group.budget, zcdp)
        assert self.queries is not None  # noqa: S101
        what = "randomised ballots" if self.ordinary else "freshly trained private models"
        voting = VotingSchedule.everyone(self.law, self.n_teachers if self.drawn is None else self.drawn)
        return pure_answers_meter(voting, group, self.answer_epsilon, self.queries, f"{self.rule.value} of {what}")

    def certify(self, certificate: Certificate, labels: int) -> None:  # noqa: ARG002
        """Refuse, since a verifier cannot check the privacy of models."""
        raise not_certified()

    def assumptions(self, relation: Relation, has_units: bool) -> tuple[str, ...]:  # noqa: ARG002
        """Return the method's own assumptions of the guarantee, one sentence each."""
        if self.rule is MajorityRule.GNMAX:
            return ("The teachers are ordinary models, not private ones: noise on their votes protects the records.",)
        if self.private is PrivateWhat.BALLOTS:
            return ("Every ballot is randomised again for every query.",)
        basis = f"The privacy of a teacher is {self.claim}; this guarantee rests on it."
        if self.private is PrivateWhat.FRESH_MODELS:
            return (basis, "All teachers are trained again, with randomness of their own, for every query.")
        return (basis, "Every label is computed from models that were trained once, so their number plays no part.")

    def settings(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return super().settings() | {
            "private": self.private.value,
            "rule": self.rule.value,
            "sharing": "partition" if self.touched == 1 else "everyone",
            "law_name": self.rule.value,
            **({} if self.drawn is None else {"drawn": self.drawn}),
        }

    def _noise_chosen(self) -> str:
        # The law itself is fixed, but was made for this number of answers.
        return "none" if self.pays_for_models else "fitted"


def private_teachers(
    teacher: Any,
    *,
    named: dict[str, str],
    private: PrivateWhat,
    law: Any,
    declared: tuple[Any, Any],
    n_teachers: int,
    touched: int,
    queries: int | None,
    budget: Budget,
    has_units: bool,
    relation: Relation,
    n_classes: int = 2,
) -> PrivateTeachersDesign:
    """Choose law and privacy before any record is touched.

    Parameters
    ----------
    teacher : classifier or None
        The teacher, or None.
    named : dict
        ``name`` and ``title`` of the method.
    private, n_teachers, queries, budget
        Settings.
    law : str, DaRRM or None
        How ballots become a label.
    declared : tuple
        Epsilon and delta of each teacher as declared, or None.
    touched : int
        Teachers that one unit touches: one teacher of a partition, or all.
    has_units : bool
        Whether several records may belong to one unit.
    relation : Relation
        Neighbouring relation.
    n_classes : int, default=2
        Number of declared classes.

    Raises
    ------
    InvalidParameterError
        If settings contradict each other.
    """
    rule, prior = _rule_of(law, private, n_classes)
    _refuse_conflicts(private, rule, queries, declared)
    if rule is MajorityRule.GNMAX:
        teachers, zcdp, claim = None, None, ""
    else:
        teachers, zcdp, claim = _privacy_of_teachers(
            teacher, private, declared, n_teachers, has_units, relation, n_classes
        )
    integer_between("n_teachers", n_teachers, 1)
    settings: dict[str, Any] = {"private": private, "rule": rule, "teachers": teachers, "claim": claim}
    settings["n_classes"] = n_classes
    settings |= named | {"n_teachers": n_teachers, "touched": touched, "budget": budget}
    if rule is MajorityRule.MAJORITY:
        plain = RandomizedResponseMajority((1.0,) * (n_teachers + 1)) if n_classes == 2 else Plurality()
        return PrivateTeachersDesign(choice=LawChoice.of(plain), zcdp=zcdp, **settings)
    assert queries is not None  # noqa: S101
    worst = (0.0, 0.0) if teachers is None else tuple(np.max(teachers, axis=0).tolist())
    answer = fitted_answer(
        rule.value,
        n_teachers,
        touched=touched,
        teacher=worst,
        queries=queries,
        budget=budget,
        prior=prior,
        n_classes=n_classes,
        randomised=private is PrivateWhat.BALLOTS,
    )
    return PrivateTeachersDesign(
        choice=LawChoice.of(answer.law),
        answer_epsilon=answer.epsilon,
        m=answer.m,
        composition=answer.composition,
        queries=queries,
        drawn=answer.drawn,
        **settings,
    )


def _rule_of(law: Any, private: PrivateWhat, n_classes: int) -> tuple[MajorityRule, Any]:
    """Return how ballots become a label, and the expected votes."""
    if n_classes > 2 and private is not PrivateWhat.MODELS and law is None:
        return MajorityRule.SUB, None
    rule, prior = _named_rule(law, private)
    if n_classes > 2 and rule in (MajorityRule.DARRM, MajorityRule.DSUB, MajorityRule.RR):
        raise InvalidParameterError(
            f"law={rule.value!r} is proven for two classes only, not for {n_classes}: use 'sub', or private='models'."
        )
    return rule, prior


def _named_rule(law: Any, private: PrivateWhat) -> tuple[MajorityRule, Any]:
    if isinstance(law, DaRRM):
        return MajorityRule.DARRM, law.prior
    if law is None:
        models = private is PrivateWhat.MODELS
        return MajorityRule.MAJORITY if models else MajorityRule.DARRM, AlikeTeachers()
    try:
        return MajorityRule(law), AlikeTeachers()
    except ValueError:
        raise InvalidParameterError(
            f"law={shown(law)} cannot release ballots of private teachers: use one of "
            f"{', '.join(map(repr, map(str, MajorityRule)))}, or a DaRRM object."
        ) from None


def touched_models(teachers: tuple[Privacy, ...], touched: int) -> list[tuple[Privacy, ...]]:
    """Return every set of models that a unit may touch, or one set that costs as much as any of them."""
    # Composition depends on a set's epsilons and on its deltas, in any pairing, and rises in each. So no
    # set of `touched` teachers costs more than the largest epsilons with the largest deltas.
    if touched == 1:
        return [(teacher,) for teacher in teachers]
    epsilons, deltas = (sorted(values, reverse=True)[:touched] for values in zip(*teachers, strict=True))
    return [tuple(zip(epsilons, deltas, strict=True))]


def _touched_zcdp(zcdp: tuple[float, ...], touched: int) -> list[tuple[float, ...]]:
    """Return the zero-concentrated privacy of the sets of `touched_models`. The largest values have the largest sum."""
    if touched == 1:
        return [(rho,) for rho in zcdp]
    return [tuple(sorted(zcdp, reverse=True)[:touched])]


def _refuse_conflicts(private: PrivateWhat, rule: MajorityRule, queries: int | None, declared: tuple[Any, Any]) -> None:
    if rule is MajorityRule.GNMAX:
        if declared != (None, None) or private is not PrivateWhat.MODELS:
            raise InvalidParameterError(
                "law='gnmax' is noise on the votes of ordinary teachers: drop teacher_privacy and private."
            )
    elif private is PrivateWhat.MODELS and rule is not MajorityRule.MAJORITY:
        raise InvalidParameterError(
            f"law={rule.value!r} makes each answer private on its own, which does not compose over "
            "answers of the same models: drop it, or give private='fresh-models' or 'ballots'."
        )
    elif private is not PrivateWhat.MODELS and rule is MajorityRule.MAJORITY:
        raise InvalidParameterError(
            f"law='majority' adds no noise to an answer, which private={private.value!r} needs: use 'darrm'."
        )
    if queries is None and (rule is MajorityRule.GNMAX or private is not PrivateWhat.MODELS):
        raise InvalidParameterError(
            "max_labels=None: answers share the budget evenly, so their number must be given, such as max_labels=100."
        )


def _privacy_of_teachers(
    teacher: object,
    private: PrivateWhat,
    declared: tuple[Any, Any],
    n_teachers: int,
    has_units: bool,
    relation: Relation,
    n_classes: int,
) -> tuple[tuple[Privacy, ...] | None, tuple[float, ...] | None, str]:
    """Return the privacy of each teacher and its basis, or None if only fitted models know it."""
    # Imports scikit-learn, which no other design needs.
    from dpensemble.teachers.private import (  # noqa: PLC0415
        announced_privacy,
        announced_zcdp,
        declared_privacy,
        protects_units,
        refuse_seeds,
        require_classes,
    )

    epsilon, delta = declared
    if private is PrivateWhat.BALLOTS:
        if epsilon is None or delta not in (None, 0, 0.0):
            raise InvalidParameterError(
                "private='ballots' randomises each ballot at an epsilon, with delta 0: give it as teacher_privacy."
            )
        return declared_privacy(epsilon, 0.0, n_teachers), None, "that of randomized response"
    refuse_seeds(teacher)
    require_classes(teacher, n_classes)
    announced = announced_privacy(teacher, relation)
    rho = None if announced is None else announced_zcdp(teacher, relation)
    zcdp = None if rho is None else (rho,) * n_teachers
    name = type(teacher).__name__
    if has_units and announced is not None and not protects_units(teacher):
        raise InvalidParameterError(
            f"units are given, and teacher={name} protects single records only: use private='ballots' (with "
            "max_labels and teacher_privacy), or a teacher of your own that holds for whole units: if each unit "
            "has one record, give no units."
        )
    if epsilon is not None:
        privacy = declared_privacy(epsilon, 0.0 if delta is None else delta, n_teachers)
        if announced is not None and any(announced[0] > e or announced[1] > d for e, d in privacy):
            raise InvalidParameterError(
                f"teacher={name} announces epsilon={announced[0]:g} and delta={announced[1]:g}, above what "
                "teacher_privacy declares: make them agree."
            )
        also = "" if rho is None else f", and {name}'s promise of zero-concentrated rho={rho:g}"
        return privacy, zcdp, f"what was declared (epsilon up to {max(e for e, _ in privacy):g}{also})"
    if has_units and announced is None:
        raise InvalidParameterError(
            f"units are given, and the accountant of teacher={name} covers single records only: declare a "
            "teacher_privacy that holds for whole units."
        )
    if announced is not None:
        also = "" if rho is None else f" at delta {announced[1]:g}, zero-concentrated at rho={rho:g}"
        return (announced,) * n_teachers, zcdp, f"what {name} promises (epsilon {announced[0]:g}{also})"
    if private is PrivateWhat.FRESH_MODELS:
        raise InvalidParameterError(
            f"teacher={name} announces no privacy before its fit: declare teacher_privacy=(epsilon, delta)."
        )
    if relation is Relation.ADD_OR_REMOVE_ONE:
        raise InvalidParameterError(
            f"teacher={name} reports its epsilon only after the fit, which may reveal the number of records, which "
            "relation='add-or-remove-one' keeps private: declare teacher_privacy=(epsilon, delta)."
        )
    return None, None, f"what the accountant of {name} reports after the fit"
