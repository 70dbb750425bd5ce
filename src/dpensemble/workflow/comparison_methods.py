"""One run of each method in a comparison, each with the whole budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dpensemble.accounting import largest_subsample
from dpensemble.budget import Budget
from dpensemble.darrm import AlikeTeachers
from dpensemble.errors import InvalidParameterError
from dpensemble.methods import (
    BaggedPATEClassifier,
    BaggingPrivacyClassifier,
    PATEClassifier,
    PrivateMajorityClassifier,
)
from dpensemble.planning import design_answers, plan_bagged
from dpensemble.relations import Relation
from dpensemble.student import fit_student
from dpensemble.workflow.comparison_data import ComparedRows
from dpensemble.workflow.comparison_trial import Trial, TrialResult

# Default of `PrivateMajorityClassifier`.
_PRIVATE_TEACHERS = 11
# Each answer of a private majority gets an even share, so there are few of them.
_ANSWERS = 50
# Just below one, so that a delta stays below one over the records whatever is rounded.
_BELOW = 0.999


def _bagging(trial: Trial) -> TrialResult:
    size = largest_subsample(trial.budget.delta, trial.n_records)
    model = BaggingPrivacyClassifier(
        trial.learner.alone(size),
        classes=trial.classes,
        subsample=size,
        relation=trial.relation,
        n_jobs=trial.n_jobs,
        **trial.seeds(),
    ).fit(trial.rows.X_private, trial.rows.y_private)
    bought = {"subsample": size, "models": 1}
    return _result(trial, model, bought, f"subsample of {size:,}", "1 model")


def _pate(trial: Trial) -> TrialResult:
    model = PATEClassifier(aggregator="gnmax", **_voting(trial))
    return _labels(trial, _taught(trial, model))


def _bagged_pate(trial: Trial) -> TrialResult:
    plan = plan_bagged(
        records=trial.n_records,
        subsample=max(1, trial.n_records // (2 * trial.n_teachers)),
        relation=trial.relation,
        epsilon=trial.budget.epsilon,
        delta=trial.budget.delta,
        method="gnmax",
        n_teachers=trial.n_teachers,
        n_classes=len(trial.classes),
    )
    model = BaggedPATEClassifier(
        subsample=plan.subsample,
        scheme=plan.scheme,
        sigma=plan.sigma,
        max_labels=min(plan.labels, len(trial.rows.X_public)),
        **_voting(trial),
    )
    return _labels(trial, _taught(trial, model), subsample=plan.subsample)


def _private_majority(trial: Trial) -> TrialResult:
    # As `train` has it: private logistic regressions that all records teach, whatever the learner.
    model = PrivateMajorityClassifier(**_voting(trial) | {"teacher": None, "n_teachers": _PRIVATE_TEACHERS})
    return _labels(trial, _taught(trial, model), teachers=_PRIVATE_TEACHERS)


def _darrm(trial: Trial) -> TrialResult:
    answers = min(_ANSWERS, len(trial.rows.X_public))
    epsilon = _answer_epsilon(trial, answers) if len(trial.classes) == 2 else 1.0
    model = PrivateMajorityClassifier(
        private="ballots",
        teacher_epsilon=epsilon,
        sharing="partition",
        aggregator="darrm",
        max_labels=answers,
        **_voting(trial),
    )
    return _labels(trial, _taught(trial, model), answer_epsilon=epsilon)


def _answer_epsilon(trial: Trial, answers: int) -> float:
    """Return what each answer may cost; ballots may cost as much, since a record has one of them a query."""
    return design_answers(
        "darrm",
        trial.n_teachers,
        touched=1,
        teacher=(trial.budget.epsilon, 0.0),
        queries=answers,
        budget=trial.budget,
        prior=AlikeTeachers(),
    ).epsilon


def _dp_sgd(trial: Trial) -> TrialResult:
    if trial.learner.dp_sgd is None:
        raise InvalidParameterError(
            f"learner={trial.learner.name!r} is not trained by gradients, as DP-SGD does; use "
            "'logistic-regression' or 'cnn'."
        )
    one = trial.budget if trial.relation is Relation.ADD_OR_REMOVE_ONE else _of_one_step(trial.budget)
    model = trial.learner.dp_sgd(trial.n_records).set_params(
        classes=trial.classes, epsilon=one.epsilon, delta=one.delta, **trial.seeds()
    )
    model.fit(trial.rows.X_private, trial.rows.y_private)
    bought = {"noise_multiplier": model.noise_multiplier_, "epochs": model.epochs, "clip": model.clip}
    found = _result(trial, model, bought, f"noise {model.noise_multiplier_:.3g} x clip", "1 model")
    if trial.relation is Relation.ADD_OR_REMOVE_ONE:
        return found
    # Replacing a record is removing one and adding another.
    epsilon, delta = model.guarantee_.epsilon, model.guarantee_.delta
    return replace(
        found,
        epsilon=2 * epsilon,
        delta=min(trial.budget.delta, (1 + math.exp(epsilon)) * delta),
        note="Opacus accounts for adding or removing a record; replacing one is both, and was charged so",
    )


def _of_one_step(budget: Budget) -> Budget:
    """Return the budget of adding or removing a record at which replacing one keeps within another."""
    half = budget.epsilon / 2
    return Budget(epsilon=half, delta=budget.delta / (1 + math.exp(min(half, 600.0))))


#: One run of each method, by name.
METHODS: dict[str, Callable[[Trial], TrialResult]] = {
    "bagging": _bagging,
    "pate": _pate,
    "bagged-pate": _bagged_pate,
    "private-majority": _private_majority,
    "darrm": _darrm,
    "dp-sgd": _dp_sgd,
}
_VOTING = ("pate", "bagged-pate", "private-majority", "darrm")


def _without_privacy(trial: Trial) -> TrialResult:
    # Fitted as a student is, so that labels of one class are no error.
    rows, estimator = trial.rows, trial.learner.alone(trial.n_records)
    model = fit_student(estimator, rows.X_private, rows.y_private, trial.seed)
    return TrialResult(
        accuracy=_accuracy(model.predict(rows.X_test), rows),
        epsilon=None,
        delta=None,
        bought={},
        text=f"all {trial.n_records:,} records",
        released=None,
    )


def _commonest(trial: Trial) -> TrialResult:
    rows = trial.rows
    labels, counts = np.unique(rows.y_private, return_counts=True)
    return TrialResult(
        accuracy=_accuracy(labels[counts.argmax()], rows),
        epsilon=None,
        delta=None,
        bought={},
        text="always the same label",
        released=None,
    )


#: Without any privacy, to compare with.
REFERENCES: dict[str, Callable[[Trial], TrialResult]] = {
    "no privacy": _without_privacy,
    "commonest class": _commonest,
}


def _accuracy(predicted: Any, rows: ComparedRows) -> float:
    return float(np.mean(predicted == rows.y_test))


def fitting_trial(name: str, trial: Trial) -> tuple[Trial, str | None]:
    """Return the trial with a delta that a method takes, and what to say of it.

    Parameters
    ----------
    name : str
        One of `METHODS` or `REFERENCES`.
    trial : Trial
        With the budget that was asked for.

    Returns
    -------
    trial : Trial
        With delta just below one over the records, if the method votes and delta was not.
    note : str or None
        That this was done.
    """
    if name not in _VOTING or trial.budget.delta < 1 / trial.n_records:
        return trial, None
    delta = _BELOW / trial.n_records
    note = f"ran at delta={delta:.4g}, just below one over the records, as methods that release labels must"
    return replace(trial, budget=Budget(epsilon=trial.budget.epsilon, delta=delta)), note


def _voting(trial: Trial) -> dict[str, Any]:
    """Return the settings that all voting methods have."""
    return {
        **trial.learner.teacher_and_student(trial.n_records, trial.n_teachers),
        "classes": trial.classes,
        "n_teachers": trial.n_teachers,
        "epsilon": trial.budget.epsilon,
        "delta": trial.budget.delta,
        "relation": trial.relation.value,
        "n_jobs": trial.n_jobs,
        **trial.seeds(),
    }


def _taught(trial: Trial, model: Any) -> Any:
    return model.fit(trial.rows.X_private, trial.rows.y_private, X_public=trial.rows.X_public)


def _labels(trial: Trial, model: Any, **more: Any) -> TrialResult:
    labels, sigma = len(model.labels_), model.law_.settings().get("sigma")
    bought = {"labels": labels, "teachers": trial.n_teachers, "sigma": sigma, **more}
    return _result(trial, model, bought, f"{labels:,} label{'' if labels == 1 else 's'}", "labels, student")


def _result(trial: Trial, model: Any, bought: dict[str, Any], text: str, released: str) -> TrialResult:
    return TrialResult(
        accuracy=_accuracy(model.predict(trial.rows.X_test), trial.rows),
        epsilon=model.guarantee_.epsilon,
        delta=model.guarantee_.delta,
        bought=bought,
        text=text,
        released=released,
    )
