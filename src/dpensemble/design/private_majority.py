"""Majorities of teachers that are themselves private: their privacy, law and meter, before any fit.

Models of private teachers are paid for once, and any number of answers is computed from them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

import numpy as np

from dpensemble._checks import integer_between, real_between, shown
from dpensemble.accounting.base import EVERYONE, Group, Meter
from dpensemble.accounting.meters.worst_case import ScheduledMeter
from dpensemble.accounting.schedule import VotingSchedule
from dpensemble.cost import DEFAULT_ORDERS, Conversion, PrivacyCost, PureCost, optimal_composition
from dpensemble.darrm import AlikeTeachers
from dpensemble.design.private_answers import Plurality, fitted_answer
from dpensemble.design.voting import Partitioned
from dpensemble.errors import AccountingError, BudgetError, InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.laws import LawChoice, RandomizedResponseMajority
from dpensemble.relations import Relation
from dpensemble.votes import Votes

#: The epsilon and delta of a teacher.
Privacy = tuple[float, float]

_ENDLESS = 2**31 - 1


class PrivateModelsMeter(Meter, spends=("pay",)):
    """Charges private models once. Any number of answers computed from them is free."""

    def __init__(
        self,
        models: Sequence[Sequence[tuple[float, float]]] | None,
        budget: Budget,
        zcdp: Sequence[Sequence[float]] | None = None,
    ) -> None:
        super().__init__((Group(EVERYONE, budget),), Conversion.BEST)
        self._worst: _Composed | None = None
        self._asked = 0
        if models is not None:
            self.pay(models, zcdp)

    def pay(
        self, models: Sequence[Sequence[tuple[float, float]]], zcdp: Sequence[Sequence[float]] | None = None
    ) -> None:
        """Charge for the models, before anything is computed from them, and refuse what does not fit."""
        rhos: Sequence[Sequence[float] | None] = [None] * len(models) if zcdp is None else zcdp
        if not models or len(rhos) != len(models):
            raise InvalidParameterError(
                f"models has {len(models)} sets and zcdp {len(rhos)}: give at least one set, and as many in both."
            )
        sets = {
            (tuple(touched), None if rho is None else tuple(rho)) for touched, rho in zip(models, rhos, strict=True)
        }
        worst = max((_composed(*one, self.budget) for one in sets), key=lambda total: total.epsilon)
        if worst.epsilon > self.budget.epsilon * (1 + 1e-12):
            raise BudgetError(
                f"the private teachers that one record touches have epsilon={worst.epsilon:.6g} together at "
                f"delta={self.budget.delta:g}, above the budget of {self.budget.epsilon:g}: use fewer teachers, "
                "more private ones, or a partition."
            )
        self._worst = worst

    def pay_for(self, teachers: Sequence[Privacy], touched: int) -> None:
        """Charge for models before anything is computed from them. One unit touches `touched` models."""
        self.pay(_touched_models(tuple(teachers), touched))

    def _require_payment(self) -> _Composed:
        """Return what the models cost together, or raise if they were not paid for."""
        if self._worst is None:
            raise AccountingError("the models must be paid for before they answer: call pay first.")
        return self._worst

    @property
    def accounting(self) -> str:
        """Name and source of the analysis."""
        worst = self._require_payment()
        how = (
            "by optimal composition (Kairouz, Oh and Viswanath 2017)"
            if worst.rho is None
            else f"zero-concentrated at rho={worst.rho:.6g} (Bun and Steinke 2016, Lemma 1.7)"
        )
        return (
            f"the private models themselves: a record touches {len(worst.touched)} of them, together {how}; "
            "answers are computed from them and cost nothing, however many"
        )

    @property
    def sure_queries(self) -> int:
        """As many as requested."""
        return _ENDLESS

    @property
    def most_queries(self) -> int:
        """As many as requested."""
        return _ENDLESS

    def admit(self, votes: Votes) -> int:
        """Admit all queries, once the models are paid for."""
        self._require_payment()
        self._asked += votes.n_queries
        return votes.n_queries

    @property
    def cost(self) -> PrivacyCost:
        """Cost of the models, if they are pure or zero-concentrated."""
        worst = self._require_payment()
        if worst.rho is not None:
            return PrivacyCost(rdp=worst.rho * DEFAULT_ORDERS)
        if any(delta for _, delta in worst.touched):
            raise AccountingError("models with a delta have no Renyi curve: see spent_epsilon.")
        total = PrivacyCost.zero()
        for epsilon, _ in worst.touched:
            total += PrivacyCost.pure(epsilon)
        return total

    @property
    def one_query(self) -> PrivacyCost:
        """Zero, since the models are paid for."""
        return PrivacyCost.zero()

    @property
    def group_epsilons(self) -> tuple[float, ...]:
        """Epsilon of the models, the same for any number of answers."""
        return (min(self.budget.epsilon, self._require_payment().epsilon),)

    def spend_curve(self, points: int = 40) -> list[tuple[int, tuple[float, ...]]]:
        """Return a level line, since the models are paid for before they answer."""
        counts = sorted({1, self._asked}) if self._asked else []
        return [(count, (self.spent_epsilon,)) for count in counts[: max(1, points)]]


@dataclass(frozen=True, slots=True)
class _Composed:
    """What the models of one set cost together. `rho` is set if zero-concentrated composition gave the total."""

    epsilon: float
    touched: tuple[tuple[float, float], ...]
    rho: float | None = None


def _composed(touched: tuple[tuple[float, float], ...], rhos: tuple[float, ...] | None, budget: Budget) -> _Composed:
    """Return the smaller of two sound totals: by epsilons and deltas, and by zero-concentrated privacy."""
    if rhos is None:
        return _Composed(_of_pairs(touched, budget), touched)
    # Divergences of order a are at most rho a, and rho adds up (Bun and Steinke, TCC 2016, Lemma 1.7).
    rho = _added(rhos, len(touched))
    concentrated = PrivacyCost(rdp=rho * DEFAULT_ORDERS).epsilon(budget.delta, Conversion.IMPROVED)
    # In that case deltas that do not fit do not matter.
    with suppress(BudgetError):
        by_pairs = _of_pairs(touched, budget)
        if by_pairs <= concentrated:
            return _Composed(by_pairs, touched)
    return _Composed(concentrated, touched, rho)


def _added(rhos: tuple[float, ...], n_models: int) -> float:
    if len(rhos) != n_models:
        raise InvalidParameterError(
            f"zcdp must have one entry for every model of a set; got {len(rhos)} entries for {n_models} models."
        )
    return math.fsum(real_between("zcdp", rho, 0.0, 1e6) for rho in rhos) * (1 + 1e-15)


def _of_pairs(touched: tuple[tuple[float, float], ...], budget: Budget) -> float:
    if len(touched) == 1 and touched[0][1] <= budget.delta:
        return touched[0][0]
    try:
        return optimal_composition(touched, budget.delta)
    except AccountingError as error:
        raise BudgetError(f"the private teachers' deltas do not fit: {error}") from None


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
    # A verifier cannot check the privacy of models.
    certifies: ClassVar[bool] = False

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
            models = None if self.teachers is None else _touched_models(self.teachers, group.votes)
            zcdp = None if self.zcdp is None else _touched_zcdp(self.zcdp, group.votes)
            return PrivateModelsMeter(models, group.budget, zcdp)
        assert self.queries is not None  # noqa: S101
        what = "randomised ballots" if self.ordinary else "freshly trained private models"
        voting = VotingSchedule.everyone(self.law, self.n_teachers if self.drawn is None else self.drawn)
        return _pure_answers_meter(voting, group, self.answer_epsilon, self.queries, f"{self.rule.value} of {what}")

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


def _touched_models(teachers: tuple[Privacy, ...], touched: int) -> list[tuple[Privacy, ...]]:
    """Return every set of models that a unit may touch, or one set that costs as much as any of them."""
    # Composition depends on a set's epsilons and on its deltas, in any pairing, and rises in each. So no
    # set of `touched` teachers costs more than the largest epsilons with the largest deltas.
    if touched == 1:
        return [(teacher,) for teacher in teachers]
    epsilons, deltas = (sorted(values, reverse=True)[:touched] for values in zip(*teachers, strict=True))
    return [tuple(zip(epsilons, deltas, strict=True))]


def _touched_zcdp(zcdp: tuple[float, ...], touched: int) -> list[tuple[float, ...]]:
    """Return the zero-concentrated privacy of those sets of models. The largest values have the largest sum."""
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
    from dpensemble.teachers.private import declared_privacy, privacy_before_fit  # noqa: PLC0415

    epsilon, delta = declared
    if private is PrivateWhat.BALLOTS:
        if epsilon is None or delta not in (None, 0, 0.0):
            raise InvalidParameterError(
                "private='ballots' randomises each ballot at an epsilon, with delta 0: give it as teacher_privacy."
            )
        return declared_privacy(epsilon, 0.0, n_teachers), None, "that of randomized response"
    is_fresh = private is PrivateWhat.FRESH_MODELS
    return privacy_before_fit(teacher, declared, n_teachers, has_units, relation, n_classes, is_fresh)


def _pure_answers_meter(
    schedule: VotingSchedule, group: Group, epsilon: float, queries: int, source: str
) -> ScheduledMeter:
    """Return the meter of a public number of answers, each private at `epsilon` with fresh randomness."""
    one, queries = PureCost(epsilon), integer_between("max_labels", queries, 1)
    if not (one * queries).fits(group.budget):
        raise BudgetError(
            f"max_labels={queries} answers of epsilon={epsilon:g} each do not fit epsilon={group.budget.epsilon:g} "
            f"at delta={group.budget.delta:g}: ask for fewer."
        )
    analysis = (
        f"{source}; each answer is {epsilon:.6g}-private with fresh randomness, all of them by optimal composition "
        "(Kairouz, Oh and Viswanath 2017)"
    )
    return ScheduledMeter(schedule, (group,), ((one,),), (queries,), analysis)
