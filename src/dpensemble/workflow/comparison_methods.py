"""Methods in a comparison: the estimator of each method, and what the budget bought according to its result."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from dpensemble import methods
from dpensemble.accounting import largest_subsample
from dpensemble.budget import Budget
from dpensemble.design import plan
from dpensemble.design.private_answers import fitted_answer
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
from dpensemble.student.published import class_probabilities, fit_student
from dpensemble.workflow.comparison_learners import Trial, TrialResult
from dpensemble.workflow.metrics import measures

# Default of `PrivateMajorityClassifier`.
_PRIVATE_TEACHERS = 11
# Each answer of a private majority gets an even share of the budget, so there are few answers.
_ANSWERS = 50
# Just below one, so that delta stays below one over the records in spite of rounding.
_BELOW = 0.999
#: What a budget bought: by name, as text for people, and what is published.
Bought = tuple[dict[str, Any], str, str]


@dataclass(frozen=True, kw_only=True)
class ComparedEstimator:
    """A method in a comparison, with the whole budget of a trial."""

    make: Callable[[Trial], Any]
    bought: Callable[[Any], Bought]
    reads_tables: bool = False
    reads_public: bool = True
    replaces: bool = True
    more: Mapping[str, str] = field(default_factory=dict)

    def run(self, trial: Trial) -> TrialResult:
        """Fit the estimator once, and return its measured result."""
        rows, model = trial.rows, self.make(trial)
        arrays: tuple[Any, Any, Any] = (rows.X_private, rows.X_public, rows.X_test)
        X_private, X_public, X_test = (rows.tables or arrays) if self.reads_tables else arrays
        model.fit(X_private, rows.y_private, **({"X_public": X_public} if self.reads_public else {}))
        accuracy, further = _measured(model, trial, X_test)
        bought, text, released = self.bought(model)
        result = TrialResult(
            accuracy=accuracy,
            measures=further,
            epsilon=model.guarantee_.epsilon,
            delta=model.guarantee_.delta,
            bought=bought | {name: model.get_params()[setting] for name, setting in self.more.items()},
            text=text,
            released=released,
        )
        return result if self.replaces else _replacing(result, trial)


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A reference for methods: one run without any privacy, which needs no public rows."""

    run: Callable[[Trial], TrialResult]
    reads_public: bool = False


def _labels(model: Any) -> Bought:
    labels, law = len(model.result_.labels), model.result_.law.settings()
    bought = {"labels": labels, "teachers": model.n_teachers, "law": law["law"], "sigma": law.get("sigma")}
    return bought, f"{labels:,} label{'' if labels == 1 else 's'}", "labels, student"


def _sums(model: Any) -> Bought:
    sums = len(model.result_.charges)
    return {"sums": sums, "sigma": model.result_.law.sigma}, f"{sums} noisy sums", "model"


def _averages(model: Any) -> Bought:
    averages = len(model.averages_)
    bought = {"averages": averages, "teachers": model.n_teachers, "spread": model.spread_}
    return bought, f"{averages:,} averages", "averages, student"


def _models(model: Any) -> Bought:
    scheme = model.result_.design.scheme
    bought = {"subsample": scheme.subsample, "models": scheme.n_models}
    return bought, f"subsample of {scheme.subsample:,}", "1 model"


def _gradients(model: Any) -> Bought:
    bought = {"noise_multiplier": model.noise_multiplier_, "epochs": model.epochs, "clip": model.clip}
    return bought, f"noise {model.noise_multiplier_:.3g} x clip", "1 model"


def _voting_estimator(kind: type[Any], law: LawChoice | None = None) -> ComparedEstimator:
    """Return an estimator that votes, with its defaults and the settings that all voting methods share."""

    def make(trial: Trial) -> Any:
        settings = _voting(trial) | ({} if law is None else {"law": law})
        if kind is PrivateMajorityClassifier:
            # As in `train`: private logistic regressions that learn from all records, for every learner.
            settings |= {"teacher": None, "n_teachers": _PRIVATE_TEACHERS}
        if kind is BaggedPATEClassifier:
            subsample = max(1, trial.n_records // (2 * trial.n_teachers))
            settings |= _planned(kind(**settings | {"subsample": subsample}), trial)
        return kind(**settings)

    more = {"subsample": "subsample"} if kind is BaggedPATEClassifier else {}
    return ComparedEstimator(make=make, bought=_labels, more=more)


def _planned(model: Any, trial: Trial) -> dict[str, Any]:
    """Return settings that add-or-remove-one forbids to compute from the number of records."""
    design = model.design(n_classes=len(trial.classes), n_records=trial.n_records)
    best = plan(design, epsilon=trial.budget.epsilon, delta=trial.budget.delta)
    labels = min(best.labels, len(trial.rows.X_public))
    return {"subsample": model.subsample, "law": best.design.law, "max_labels": labels}


def _darrm(trial: Trial) -> PrivateMajorityClassifier:
    answers = min(_ANSWERS, len(trial.rows.X_public))
    epsilon = _answer_epsilon(trial, answers) if len(trial.classes) == 2 else 1.0
    return PrivateMajorityClassifier(
        private="ballots",
        teacher_privacy=epsilon,
        sharing="partition",
        law="darrm",
        max_labels=answers,
        **_voting(trial),
    )


def _answer_epsilon(trial: Trial, answers: int) -> float:
    """Return what each answer may cost. Ballots may cost as much, since a record has one ballot in each query."""
    return fitted_answer(
        "darrm", trial.n_teachers, touched=1, teacher=(trial.budget.epsilon, 0.0), queries=answers, budget=trial.budget
    ).epsilon


def _label_moments(trial: Trial) -> LabelMomentsClassifier:
    shape = trial.learner.image_shape
    return LabelMomentsClassifier(
        ImageMap(shape[1:]) if shape is not None and shape[0] == 1 else None,
        classes=trial.classes,
        epsilon=trial.budget.epsilon,
        delta=trial.budget.delta,
        relation=trial.relation.value,
        **trial.seeds(),
    )


def _bagging(trial: Trial) -> BaggingPrivacyClassifier:
    size = largest_subsample(trial.budget.delta, trial.n_records)
    return BaggingPrivacyClassifier(
        trial.learner.alone(size),
        classes=trial.classes,
        subsample=size,
        relation=trial.relation,
        n_jobs=trial.n_jobs,
        **trial.seeds(),
    )


def _dp_sgd(trial: Trial) -> Any:
    if trial.learner.dp_sgd is None:
        raise InvalidParameterError(
            f"learner={trial.learner.name!r} is not trained by gradients, which DP-SGD requires: use "
            "'logistic-regression' or 'cnn'."
        )
    one = trial.budget if trial.relation is Relation.ADD_OR_REMOVE_ONE else _of_one_step(trial.budget)
    return trial.learner.dp_sgd(trial.n_records).set_params(
        classes=trial.classes, epsilon=one.epsilon, delta=one.delta, **trial.seeds()
    )


def _replacing(result: TrialResult, trial: Trial) -> TrialResult:
    """Charge a replaced record as one removed record and one added record."""
    if trial.relation is Relation.ADD_OR_REMOVE_ONE or result.epsilon is None or result.delta is None:
        return result
    return replace(
        result,
        epsilon=2 * result.epsilon,
        delta=min(trial.budget.delta, (1 + math.exp(result.epsilon)) * result.delta),
        note="Opacus accounts for adding or removing a record; replacing one is both, so it is charged for both",
    )


def _of_one_step(budget: Budget) -> Budget:
    """Return a budget for adding or removing a record at which replacing one keeps within `budget`."""
    half = budget.epsilon / 2
    return Budget(epsilon=half, delta=budget.delta / (1 + math.exp(min(half, 600.0))))


# Estimators that vote with one budget, by name.
_VOTING: dict[str, type[Any]] = {
    kind.name: kind
    for kind in (getattr(methods, name) for name in methods.__all__)
    if kind.votes and not kind.takes_budgets
}
#: Every method that can be compared, by name.
COMPARED: Mapping[str, ComparedEstimator] = MappingProxyType(
    {name: _voting_estimator(kind) for name, kind in _VOTING.items()}
    | {
        "label-moments": ComparedEstimator(make=_label_moments, bought=_sums, reads_tables=True),
        "soft-votes": ComparedEstimator(make=lambda trial: SoftVotesClassifier(**_voting(trial)), bought=_averages),
        "bagging": ComparedEstimator(make=_bagging, bought=_models, reads_public=False),
        "darrm": ComparedEstimator(make=_darrm, bought=_labels, more={"answer_epsilon": "teacher_privacy"}),
        "dp-sgd": ComparedEstimator(make=_dp_sgd, bought=_gradients, reads_public=False, replaces=False),
    }
)
#: The compared methods unless methods are named: the default, one of each line of research, and DP-SGD.
METHODS = ("label-moments", "bagging", "pate", "bagged-pate", "private-majority", "darrm", "dp-sgd")


def compared(name: str) -> ComparedEstimator:
    """Return a method by name, or a voting method with a law: ``"pate"``, ``"pate:optimal"``."""
    method, _, law = name.partition(":")
    if not law and method in COMPARED:
        return COMPARED[method]
    if law and method in _VOTING:
        return _voting_estimator(_VOTING[method], LawChoice.of(law))
    raise InvalidParameterError(
        f"methods={name!r} cannot be compared: use {', '.join(COMPARED)}, or a method that votes with a law, "
        "such as 'pate:optimal'."
    )


def fitting_trial(method: ComparedEstimator | Reference, trial: Trial) -> tuple[Trial, str | None]:
    """Return the trial with a delta that the method accepts, and a note if that is not the requested delta."""
    if not method.reads_public or trial.budget.delta < 1 / trial.n_records:
        return trial, None
    delta = _BELOW / trial.n_records
    note = f"ran at delta={delta:.4g}, just below one over the records, which methods that release labels require"
    return replace(trial, budget=Budget(epsilon=trial.budget.epsilon, delta=delta)), note


def _voting(trial: Trial) -> dict[str, Any]:
    """Return the settings that all voting methods share."""
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


def _measured(model: Any, trial: Trial, X_test: Any) -> tuple[float, dict[str, float]]:
    """Return the accuracy of a model on the test rows, and other measures."""
    truth, classes = trial.rows.y_test, np.asarray(sorted(trial.classes))
    predicted = model.predict(X_test)
    probabilities = class_probabilities(model, X_test, classes) if hasattr(model, "predict_proba") else None
    return float(np.mean(predicted == truth)), measures(predicted, probabilities, truth, classes)


def _without_privacy(trial: Trial) -> TrialResult:
    # Fitted in the way of a student, so that labels of a single class are accepted.
    rows, estimator = trial.rows, trial.learner.alone(trial.n_records)
    model = fit_student(estimator, rows.X_private, rows.y_private, trial.seed)
    accuracy, measures = _measured(model, trial, rows.X_test)
    return TrialResult(accuracy=accuracy, measures=measures, text=f"all {trial.n_records:,} records")


def _commonest(trial: Trial) -> TrialResult:
    rows = trial.rows
    labels, counts = np.unique(rows.y_private, return_counts=True)
    always = np.full(len(rows.y_test), labels[counts.argmax()])
    return TrialResult(
        accuracy=float(np.mean(always == rows.y_test)),
        measures=measures(always, None, rows.y_test, np.asarray(sorted(trial.classes))),
        text="always the same label",
    )


#: References without any privacy.
REFERENCES = {"no privacy": Reference(run=_without_privacy), "commonest class": Reference(run=_commonest)}
