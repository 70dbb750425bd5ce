"""From the options of ``dpensemble train`` to an estimator."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from dpensemble.cli.options import Analysis, Method
from dpensemble.errors import InvalidParameterError
from dpensemble.methods import (
    DPBaggingClassifier,
    PATEClassifier,
    PrivateMajorityClassifier,
    SubsampleAggregateClassifier,
)
from dpensemble.methods.base import VotingEnsembleClassifier
from dpensemble.relations import Relation
from dpensemble.workflow import parse_budgets
from dpensemble.workflow.personal import PERSONALISED

_HOW = (
    "give --budgets COLUMN, a private column of epsilons, or groups and shares to deal at random, such as "
    '--budgets "0.7:50%,1.4:50%"'
)

_MAJORITY_OPTIONS = {
    "private": "--private-teachers",
    "teacher_epsilon": "--teacher-epsilon",
    "sharing": "--sharing",
    "aggregator": "--majority",
}


def refuse_mixtures(method: Method, personal: dict[str, Any], epsilon: float | None, relation: Relation) -> None:
    """Refuse options of personalised methods for others, and the other way round, before anything is read.

    Parameters
    ----------
    method : Method
        The method.
    personal : dict
        Options of personalised methods by name, as given.
    epsilon : float or None
        One budget for all records.
    relation : Relation
        The neighbouring relation.

    Raises
    ------
    InvalidParameterError
        In one sentence.
    """
    given = [f"--{name.replace('_', '-')}" for name, value in personal.items() if value not in (None, False)]
    if not method.personalised:
        if given:
            names = ", ".join(PERSONALISED)
            raise InvalidParameterError(
                f"{given[0]} is for personalised methods only, not --method {method.value}; use one of {names}."
            )
        return
    request = parse_budgets(personal["budgets"], personal["levels"])
    if request is None:
        raise InvalidParameterError(f"--method {method.value} without budgets would be plain PATE; {_HOW}.")
    if epsilon is not None:
        raise InvalidParameterError(
            f"epsilon={epsilon:g} is one budget for all, and --method {method.value} takes each record's from "
            "--budgets; drop --epsilon."
        )
    if relation is Relation.ADD_OR_REMOVE_ONE and request.column is None:
        raise InvalidParameterError(
            f"budgets={personal['budgets']!r} are dealt by position, so a missing record would move the others "
            "to other groups; use --relation replace-one, or name a column."
        )
    if relation is Relation.ADD_OR_REMOVE_ONE and request.shares is None:
        raise InvalidParameterError(
            "--relation add-or-remove-one needs the public share of the records with each budget, because their "
            'number is private; give --levels with shares, such as "high=0.5:20%,low=2:80%".'
        )


def estimator(
    method: Method,
    settings: dict[str, Any],
    noise: dict[str, Any],
    stopping: dict[str, Any],
    *,
    partitions: int | None,
    personal: dict[str, Any],
    majority: dict[str, Any],
) -> VotingEnsembleClassifier:
    """Return the unfitted estimator of a method.

    Parameters
    ----------
    method : Method
        The method.
    settings : dict
        What all methods have.
    noise : dict
        ``scale``, ``sigma``, ``reach``, ``threshold`` and ``threshold_sigma``, None where not given.
    stopping : dict
        ``analysis`` and ``stop_when_spent``.
    partitions : int or None
        Of bagging only.
    personal : dict
        ``aggregator``, ``rule``, ``precision`` and ``vanish_at_end``, None where not given.
    majority : dict
        Settings of private majorities only, None where not given.

    Returns
    -------
    VotingEnsembleClassifier

    Raises
    ------
    InvalidParameterError
        If an option is none of the method.
    """
    many = partitions not in (None, 1)
    reach = noise.pop("reach")
    if reach is not None and method is not Method.OPTIMAL and not method.personalised:
        raise InvalidParameterError(f"reach={reach:g} is a setting of --method optimal, not of {method.value}.")
    if many and method not in (Method.DPBAG, Method.OPTIMAL):
        raise InvalidParameterError(
            f"partitions={partitions} is a setting of --method dpbag; {method.value} has one partition."
        )
    chosen = {name: value for name, value in majority.items() if value is not None}
    if method is Method.PRIVATE_MAJORITY:
        _refuse_foreign(noise, stopping)
        return PrivateMajorityClassifier(**settings, **{name: _plain(value) for name, value in chosen.items()})
    if chosen:
        option = _MAJORITY_OPTIONS[next(iter(chosen))]
        raise InvalidParameterError(
            f"{option} is for --method private-majority only, not --method {method.value}; drop it."
        )
    if method in (Method.SAA, Method.DPBAG) or (many and method is Method.OPTIMAL):
        foreign = [name for name, value in noise.items() if name != "scale" and value is not None]
        if foreign:
            own = "reach" if method is Method.OPTIMAL else "scale"
            raise InvalidParameterError(f"{foreign[0]} is no setting of --method {method.value}; give --{own}.")
    # Several partitions of the optimal vote are bagging with that law.
    analysis = _analysis(Method.DPBAG if many else method, **stopping)
    if many and method is Method.OPTIMAL:
        bagging = {"n_partitions": partitions, "vote": "optimal", "reach": reach, "scale": noise["scale"]}
        return DPBaggingClassifier(**bagging, **settings, **analysis)
    if method is Method.SAA:
        return SubsampleAggregateClassifier(scale=noise["scale"], **settings)
    if method is Method.DPBAG:
        n_partitions = 10 if partitions is None else partitions
        return DPBaggingClassifier(n_partitions=n_partitions, scale=noise["scale"], **settings, **analysis)
    if method.personalised:
        chosen = {name: value for name, value in personal.items() if value is not None}
        return PERSONALISED[method.value](**chosen, reach=reach, **settings, **noise, **analysis)
    return PATEClassifier(aggregator=method.value, reach=reach, **settings, **noise, **analysis)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, StrEnum) else value


def _refuse_foreign(noise: dict[str, Any], stopping: dict[str, Any]) -> None:
    """Refuse what a private majority derives from its budget, or has not."""
    foreign = [name for name, value in noise.items() if value is not None]
    if foreign:
        raise InvalidParameterError(
            f"{foreign[0]} is no setting of --method private-majority, whose noise follows from the budget; "
            "drop it."
        )
    if stopping["stop_when_spent"] or stopping["analysis"] is not Analysis.WORST_CASE:
        raise InvalidParameterError(
            "--analysis and --stop-when-spent are not for --method private-majority; use dpbag or gnmax."
        )


def _analysis(method: Method, analysis: Analysis, stop_when_spent: bool) -> dict[str, Any]:
    """Return the analysis by the name that the method gives it, refusing options that would do nothing."""
    is_worst_case = analysis is Analysis.WORST_CASE
    if method is Method.SAA and (stop_when_spent or not is_worst_case):
        raise InvalidParameterError(
            "--analysis and --stop-when-spent are not for --method saa; use dpbag or gnmax."
        )
    dependent = Analysis.PERSONALISED if method is Method.DPBAG else Analysis.DATA_DEPENDENT
    if stop_when_spent and is_worst_case:
        raise InvalidParameterError(
            f"--stop-when-spent is for --analysis {dependent.value}; a worst-case run ends when the budget is "
            "spent anyway, so drop it."
        )
    if is_worst_case:
        return {}
    return {"analysis": dependent.value, "stop_when_spent": stop_when_spent}
