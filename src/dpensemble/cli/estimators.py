"""From the options of ``dpensemble train`` to an estimator."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from dpensemble.cli.options import Analysis, Method
from dpensemble.errors import InvalidParameterError
from dpensemble.methods import (
    BaggedPATEClassifier,
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

# Options that one method alone has, by the names of its settings.
_OWN = {
    Method.PRIVATE_MAJORITY: {
        "private": "--private-teachers",
        "teacher_epsilon": "--teacher-epsilon",
        "sharing": "--sharing",
        "aggregator": "--majority",
    },
    Method.BAGGED_PATE: {"subsample": "--subsample", "scheme": "--scheme"},
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
    shared = ("aggregator",) if method is Method.BAGGED_PATE else ()
    named = [
        f"--{name.replace('_', '-')}"
        for name, value in personal.items()
        if value not in (None, False) and name not in shared
    ]
    if not method.personalised:
        if named:
            names = ", ".join(PERSONALISED)
            raise InvalidParameterError(
                f"{named[0]} is for personalised methods only, not --method {method.value}; use one of {names}."
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
    own: dict[Method, dict[str, Any]],
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
    own : dict
        Settings that one method alone has, by method, None where not given.

    Returns
    -------
    VotingEnsembleClassifier

    Raises
    ------
    InvalidParameterError
        If an option is none of the method.
    """
    chosen = _chosen(method, own)
    many = partitions not in (None, 1)
    if many and method not in (Method.DPBAG, Method.OPTIMAL):
        raise InvalidParameterError(
            f"partitions={partitions} is a setting of --method dpbag; {method.value} has one partition."
        )
    if method in own:
        return _of_its_own(method, chosen | settings, noise, stopping, personal)
    reach = noise.pop("reach")
    if reach is not None and method is not Method.OPTIMAL and not method.personalised:
        raise InvalidParameterError(f"reach={reach:g} is a setting of --method optimal, not of {method.value}.")
    if method in (Method.SAA, Method.DPBAG) or (many and method is Method.OPTIMAL):
        foreign = [name for name, value in noise.items() if name != "scale" and value is not None]
        if foreign:
            instead = "reach" if method is Method.OPTIMAL else "scale"
            raise InvalidParameterError(
                f"{foreign[0]} is no setting of --method {method.value}; give --{instead}."
            )
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
        return PERSONALISED[method.value](**_given(personal), reach=reach, **settings, **noise, **analysis)
    return PATEClassifier(aggregator=method.value, reach=reach, **settings, **noise, **analysis)


def _of_its_own(
    method: Method,
    settings: dict[str, Any],
    noise: dict[str, Any],
    stopping: dict[str, Any],
    personal: dict[str, Any],
) -> VotingEnsembleClassifier:
    """Return the estimator of a method that has options of its own."""
    if method is Method.PRIVATE_MAJORITY:
        _refuse_foreign(method, noise, stopping, ", whose noise follows from the budget")
        return PrivateMajorityClassifier(**settings)
    votes = {name: noise.pop(name) for name in ("scale", "sigma", "reach")}
    _refuse_foreign(method, noise, stopping)
    return BaggedPATEClassifier(**settings, **_given(votes | {"aggregator": personal["aggregator"]}))


def _chosen(method: Method, own: dict[Method, dict[str, Any]]) -> dict[str, Any]:
    """Return the settings that this method alone has, refusing those of another."""
    for owner, values in own.items():
        given = _given(values)
        if given and owner is not method:
            raise InvalidParameterError(
                f"{_OWN[owner][next(iter(given))]} is for --method {owner.value} only, not --method "
                f"{method.value}; drop it."
            )
    return _given(own.get(method, {}))


def _given(values: dict[str, Any]) -> dict[str, Any]:
    """Return what was given, as plain values."""
    plain = {name: value.value if isinstance(value, StrEnum) else value for name, value in values.items()}
    return {name: value for name, value in plain.items() if value is not None}


def _refuse_foreign(method: Method, noise: dict[str, Any], stopping: dict[str, Any], why: str = "") -> None:
    """Refuse settings that a method has not, or derives from its budget."""
    for name in _given(noise):
        raise InvalidParameterError(f"{name} is no setting of --method {method.value}{why}; drop it.")
    if stopping["stop_when_spent"] or stopping["analysis"] is not Analysis.WORST_CASE:
        raise InvalidParameterError(
            f"--analysis and --stop-when-spent are not for --method {method.value}; use dpbag or gnmax."
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
