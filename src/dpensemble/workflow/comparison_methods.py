"""One run of each method in a comparison, each with the whole budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from dpensemble import methods
from dpensemble.accounting import largest_subsample
from dpensemble.budget import Budget
from dpensemble.design import fitted_answer, plan
from dpensemble.engine.voting import VotingEnsembleClassifier
from dpensemble.engine.voting_by_group import PersonalisedPATEClassifier
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import LawChoice
from dpensemble.methods import (
    BaggedPATEClassifier,
    BaggingPrivacyClassifier,
    LabelMomentsClassifier,
    PrivateMajorityClassifier,
    SoftVotesClassifier,
)
from dpensemble.moments import ImageMap
from dpensemble.relations import Relation
from dpensemble.student import class_probabilities, fit_student
from dpensemble.workflow.comparison_trial import Trial, TrialResult
from dpensemble.workflow.metrics import measures

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


def _label_moments(trial: Trial) -> TrialResult:
    shape = trial.learner.image_shape
    model = LabelMomentsClassifier(
        ImageMap(shape[1:]) if shape is not None and shape[0] == 1 else None,
        classes=trial.classes,
        epsilon=trial.budget.epsilon,
        delta=trial.budget.delta,
        relation=trial.relation.value,
        **trial.seeds(),
    )
    X_private, X_public, X_test = trial.rows.tables or (trial.rows.X_private, trial.rows.X_public, trial.rows.X_test)
    model.fit(X_private, trial.rows.y_private, X_public=X_public)
    sums = model.spend_[-1][0]
    bought = {"sums": sums, "sigma": model.law_.sigma}
    return _result(trial, model, bought, f"{sums} noisy sums", "model", X_test)


def _soft_votes(trial: Trial) -> TrialResult:
    model = _taught(trial, SoftVotesClassifier(**_voting(trial)))
    asked = len(model.averages_)
    bought = {"averages": asked, "teachers": trial.n_teachers, "spread": model.spread_}
    return _result(trial, model, bought, f"{asked:,} averages", "averages, student")


def _votes(kind: type[Any], law: LawChoice | None, trial: Trial) -> TrialResult:
    """Run an estimator with its defaults, besides what all voting methods are given."""
    settings = _voting(trial) | ({} if law is None else {"law": law})
    if kind is PrivateMajorityClassifier:
        # As `train` has it: private logistic regressions that all records teach, whatever the learner.
        settings |= {"teacher": None, "n_teachers": _PRIVATE_TEACHERS}
    if kind is BaggedPATEClassifier:
        settings |= _planned(kind(**settings | {"subsample": max(1, trial.n_records // (2 * trial.n_teachers))}), trial)
    model = _taught(trial, kind(**settings))
    more = {"subsample": settings["subsample"]} if "subsample" in settings else {}
    return _labels(trial, model, teachers=settings["n_teachers"], **more)


def _planned(model: Any, trial: Trial) -> dict[str, Any]:
    """Return what add-or-remove-one does not allow to be found from the number of records."""
    design = model.design(n_classes=len(trial.classes), n_records=trial.n_records)
    found = plan(design, epsilon=trial.budget.epsilon, delta=trial.budget.delta)
    labels = min(found.labels, len(trial.rows.X_public))
    return {"subsample": model.subsample, "law": found.design.law, "max_labels": labels}


def _darrm(trial: Trial) -> TrialResult:
    answers = min(_ANSWERS, len(trial.rows.X_public))
    epsilon = _answer_epsilon(trial, answers) if len(trial.classes) == 2 else 1.0
    model = PrivateMajorityClassifier(
        private="ballots",
        teacher_privacy=epsilon,
        sharing="partition",
        law="darrm",
        max_labels=answers,
        **_voting(trial),
    )
    return _labels(trial, _taught(trial, model), answer_epsilon=epsilon)


def _answer_epsilon(trial: Trial, answers: int) -> float:
    """Return what each answer may cost; ballots may cost as much, since a record has one of them a query."""
    return fitted_answer(
        "darrm", trial.n_teachers, touched=1, teacher=(trial.budget.epsilon, 0.0), queries=answers, budget=trial.budget
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


#: Estimators that vote under one budget, by name.
VOTING: Mapping[str, type[Any]] = MappingProxyType(
    {
        kind.name: kind
        for kind in (getattr(methods, name) for name in methods.__all__)
        if issubclass(kind, VotingEnsembleClassifier) and not issubclass(kind, PersonalisedPATEClassifier)
    }
)
_OWN: Mapping[str, Callable[[Trial], TrialResult]] = MappingProxyType(
    {
        "label-moments": _label_moments,
        "soft-votes": _soft_votes,
        "bagging": _bagging,
        "darrm": _darrm,
        "dp-sgd": _dp_sgd,
    }
)
#: What is compared unless methods are named: the default, one of each line of research, and DP-SGD.
METHODS = ("label-moments", "bagging", "pate", "bagged-pate", "private-majority", "darrm", "dp-sgd")


def run_of(name: str) -> Callable[[Trial], TrialResult]:
    """Return one run of a method, or of a method with a law: ``"pate"``, ``"pate:optimal"``."""
    method, _, law = name.partition(":")
    if method in VOTING:
        return partial(_votes, VOTING[method], LawChoice.of(law) if law else None)
    if law or method not in _OWN:
        raise InvalidParameterError(
            f"methods={name!r} cannot be compared; use {', '.join([*VOTING, *_OWN])}, or one that votes with a law, "
            "such as 'pate:optimal'."
        )
    return _OWN[method]


def _without_privacy(trial: Trial) -> TrialResult:
    # Fitted as a student is, so that labels of one class are no error.
    rows, estimator = trial.rows, trial.learner.alone(trial.n_records)
    model = fit_student(estimator, rows.X_private, rows.y_private, trial.seed)
    accuracy, found = _measured(model, trial)
    return TrialResult(accuracy=accuracy, measures=found, text=f"all {trial.n_records:,} records")


def _commonest(trial: Trial) -> TrialResult:
    rows = trial.rows
    labels, counts = np.unique(rows.y_private, return_counts=True)
    always = np.full(len(rows.y_test), labels[counts.argmax()])
    return TrialResult(
        accuracy=float(np.mean(always == rows.y_test)),
        measures=measures(always, None, rows.y_test, np.asarray(sorted(trial.classes))),
        text="always the same label",
    )


#: Without any privacy, to compare with.
REFERENCES: dict[str, Callable[[Trial], TrialResult]] = {"no privacy": _without_privacy, "commonest class": _commonest}


def _measured(model: Any, trial: Trial, X_test: Any = None) -> tuple[float, dict[str, float]]:
    """Return the accuracy of a model on the test rows, and further measures."""
    rows, truth = trial.rows.X_test if X_test is None else X_test, trial.rows.y_test
    predicted, classes = model.predict(rows), np.asarray(sorted(trial.classes))
    probabilities = class_probabilities(model, rows, classes) if hasattr(model, "predict_proba") else None
    return float(np.mean(predicted == truth)), measures(predicted, probabilities, truth, classes)


def fitting_trial(name: str, trial: Trial) -> tuple[Trial, str | None]:
    """Return the trial with a delta that a method takes, and a note where it is not the one asked for."""
    releases_labels = name.partition(":")[0] in VOTING or name in ("darrm", "label-moments", "soft-votes")
    if not releases_labels or trial.budget.delta < 1 / trial.n_records:
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
    labels, law = len(model.labels_), model.law_.settings()
    bought = {"labels": labels, "teachers": trial.n_teachers, "law": law["law"], "sigma": law.get("sigma"), **more}
    return _result(trial, model, bought, f"{labels:,} label{'' if labels == 1 else 's'}", "labels, student")


def _result(
    trial: Trial, model: Any, bought: dict[str, Any], text: str, released: str, X_test: Any = None
) -> TrialResult:
    accuracy, found = _measured(model, trial, X_test)
    return TrialResult(
        accuracy=accuracy,
        measures=found,
        epsilon=model.guarantee_.epsilon,
        delta=model.guarantee_.delta,
        bought=bought,
        text=text,
        released=released,
    )
