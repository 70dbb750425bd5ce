"""Majorities of teachers that are themselves private: their privacy, law and meter, before any fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpensemble._checks import integer_between, shown
from dpensemble.accounting import Meter
from dpensemble.accounting.meters.private_teachers import PrivateModelsMeter
from dpensemble.accounting.meters.scheduled import Certificate, pure_answers_meter
from dpensemble.accounting.schedule import VotingSchedule
from dpensemble.darrm import AlikeTeachers
from dpensemble.design.private_answers import Plurality, fitted_answer
from dpensemble.design.voting import Partitioned, not_certified
from dpensemble.errors import InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.laws import LawChoice, RandomizedResponseMajority
from dpensemble.relations import Relation

if TYPE_CHECKING:
    from dpensemble.teachers.private import Privacy


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
