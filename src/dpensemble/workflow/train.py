"""One training run, from tables to a record of what happened."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from importlib.metadata import version
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

from dpensemble.budget import Budget
from dpensemble.cost import largest_count
from dpensemble.datasets import fit_encoder
from dpensemble.datasets.tables import is_number
from dpensemble.methods import (
    BaggedPATEClassifier,
    DPBaggingClassifier,
    PATEClassifier,
    PrivateMajorityClassifier,
)
from dpensemble.methods.base import VotingEnsembleClassifier
from dpensemble.planning import spend_curve
from dpensemble.relations import Basis
from dpensemble.report import PrivateRecord, RunRecord
from dpensemble.student import class_probabilities, default_student, fit_student
from dpensemble.workflow.metrics import scores
from dpensemble.workflow.outputs import Outcome
from dpensemble.workflow.personal import method_name, personal_fields, require_budgets, stated_budget
from dpensemble.workflow.tables import Tables


def train(tables: Tables, model: VotingEnsembleClassifier, *, baseline: bool = False) -> Outcome:
    """Encode, fit, score and record.

    Parameters
    ----------
    tables : Tables
        Checked rows.
    model : VotingEnsembleClassifier
        Unfitted estimator; its ``classes``, ``levels`` and ``group_shares`` are set from the tables.
    baseline : bool, default=False
        Also fit the student's kind of model on the private records without any
        privacy, which marks the run an experiment.

    Returns
    -------
    Outcome
        The publishable classifier, labels and record, and the private record where asked for.

    Raises
    ------
    InvalidParameterError
        If records have budgets and the model is not personalised, or the other way round.
    """
    personal = require_budgets(model, tables)
    start = perf_counter()
    encoder = fit_encoder(tables.X_public)
    private, public = encoder.transform(tables.X_private), encoder.transform(tables.X_public)
    seconds = {"encoding": perf_counter() - start}
    model = clone(model).set_params(classes=tables.classes)
    given = {"X_public": public, "units": tables.units}
    if personal is not None:
        model.set_params(levels=tables.levels, group_shares=tables.group_shares)
        given["budgets"] = tables.budgets
    model.fit(private, tables.y_private.to_numpy(), **given)
    seconds |= model.seconds_

    student_scores = baseline_scores = None
    if tables.X_test is not None and tables.y_test is not None:
        test, truth = encoder.transform(tables.X_test), tables.y_test.to_numpy()
        student_scores = scores(model.predict_proba(test), truth, model.classes_)
    if baseline:
        start = perf_counter()
        # Fitted as a student is, so that private labels of one class cannot lose a release that was paid for.
        estimator = default_student() if model.student is None else model.student
        plain = fit_student(estimator, private, tables.y_private.to_numpy(), seed=0)
        if student_scores is not None:
            baseline_scores = scores(class_probabilities(plain, test, model.classes_), truth, model.classes_)
        seconds["baseline"] = perf_counter() - start

    labels, budget = model.labels_, stated_budget(model, personal)
    groups = personal_fields(model, tables, personal)
    record = RunRecord(
        method=_method_name(model),
        guarantee=model.guarantee_.to_dict(),
        budget={"epsilon": budget.epsilon, "delta": budget.delta},
        labels=len(labels),
        asked=labels.n_asked,
        label_accuracy=_label_accuracy(tables.y_public, labels.indices, labels.labels),
        student=student_scores,
        baseline=baseline_scores,
        # A run with groups has a curve for each of them instead.
        worst_case_spend=[] if groups else _worst_case_spend(model, budget),
        data=_describe(tables, private.shape[1]),
        settings=_settings(model),
        versions=_versions(),
        seconds={stage: round(value, 3) for stage, value in seconds.items()},
        experiment=_reasons(model, tables, baseline),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        **groups,
    )
    return Outcome(
        record=record,
        private=_private_record(model),
        classifier=Pipeline([("encoder", encoder), ("student", model.student_)]),
        labels=pd.DataFrame({"row": labels.indices, "label": labels.labels}),
    )


def _method_name(model: VotingEnsembleClassifier) -> str:
    personalised = method_name(model)
    if personalised is not None:
        return personalised
    if isinstance(model, PATEClassifier):
        return str(model.aggregator)
    if isinstance(model, PrivateMajorityClassifier):
        return "private-majority"
    if isinstance(model, BaggedPATEClassifier):
        return "bagged-pate"
    return "dpbag" if isinstance(model, DPBaggingClassifier) else "saa"


def _label_accuracy(truth: pd.Series | None, rows: Any, labels: Any) -> float | None:
    return None if truth is None else float(np.mean(truth.to_numpy()[rows] == labels))


def _worst_case_spend(model: VotingEnsembleClassifier, budget: Budget) -> list[list[float]]:
    """Return the data-independent spend up to the answered labels or, where those are private, to the budget.

    A gated run's is over questions asked, since unanswered ones cost something too.
    """
    if model.public_spend_ is not None:
        return [list(point) for point in model.public_spend_]
    one, conversion = model.query_cost_, model.conversion_
    most = model.labels_.n_asked
    # Only runs that state their spend themselves have no price of one query.
    assert one is not None  # noqa: S101
    if not one.rdp.any():
        # Private models are paid for before anything is asked of them.
        return [[count, model.guarantee_.epsilon] for count in sorted({1, most})]
    if not (model.guarantee_.basis is Basis.WORST_CASE or model.guarantee_.fixed_number):
        most = largest_count(one, budget.epsilon, budget.delta, conversion)
    return [list(point) for point in spend_curve(one, most, budget.delta, conversion)]


def _describe(tables: Tables, n_features: int) -> dict[str, Any]:
    return {
        "name": tables.name,
        "private_records": len(tables.X_private),
        "private_units": len(tables.X_private if tables.units is None else set(tables.units.tolist())),
        "public_rows": len(tables.X_public),
        "test_rows": 0 if tables.X_test is None else len(tables.X_test),
        "columns": tables.X_public.shape[1],
        "features": n_features,
        "classes": [str(label) for label in tables.classes],
        "most_common_label": _majority_share(tables),
        "test_is_public": tables.test_is_public,
        "data_is_public": tables.data_is_public,
        "unit_column": tables.unit_column,
        "kinds_of_columns": _kinds(tables.X_public),
    }


def _settings(model: VotingEnsembleClassifier) -> dict[str, Any]:
    """Return the settings as plain values, with what was left to default filled in."""
    hidden = ("classes", "n_jobs", "progress", "private_diagnostics", "teacher", "student")
    settings = {name: value for name, value in model.get_params(deep=False).items() if name not in hidden}
    if method_name(model) is not None:
        # It is the budget of records that were given none, and all of them were given one.
        del settings["epsilon"]
        settings["teachers_with_copies"] = model.personalised_.n_teachers
    if isinstance(model, BaggedPATEClassifier):
        settings["subsample"] = model.scheme_.subsample
    for role, default in (("teacher", _default_teacher(model)), ("student", default_student())):
        estimator = getattr(model, role)
        settings[role] = " ".join(repr(default if estimator is None else estimator).split())
    settings = {name: _plain(value) for name, value in settings.items()}
    return settings | model.law_.settings() | {"votes_per_record": model.votes_per_unit_}


def _default_teacher(model: VotingEnsembleClassifier) -> Any:
    own = isinstance(model, PrivateMajorityClassifier) and not model.design_.ordinary
    return "private logistic regression" if own else LogisticRegression()


def _majority_share(tables: Tables) -> float | None:
    """Return the accuracy of always saying the test rows' most common label."""
    return None if tables.y_test is None else float(tables.y_test.value_counts(normalize=True).max())


def _kinds(public: pd.DataFrame) -> str:
    """Say how each column was read, as the public rows have it."""
    return ", ".join(
        f"{name} (number)" if is_number(public[name]) else f"{name} ({public[name].nunique():,} categories)"
        for name in public.columns
    )


def _plain(value: Any) -> Any:
    """Return a setting as JSON can hold it."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return value if value is None or isinstance(value, (bool, int, float, str)) else " ".join(repr(value).split())


def _versions() -> dict[str, str]:
    packages = ("dpensemble", "numpy", "scipy", "scikit-learn", "pandas", "joblib")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


def _reasons(model: VotingEnsembleClassifier, tables: Tables, baseline: bool) -> list[str]:
    reasons = []
    if baseline:
        reasons.append("A baseline without privacy was trained on the private records.")
    if not model.guarantee_.for_release:
        reasons.append("The noise came from a seed, so it can be removed.")
    if tables.budgets_at_random:
        reasons.append("Budgets were assigned to records at random, not by consent.")
    if tables.data_is_public:
        reasons.append("The private records are a published data set, split for demonstration.")
    return reasons


def _private_record(model: VotingEnsembleClassifier) -> PrivateRecord | None:
    found = model.private_diagnostics_
    if found is None:
        return None
    return PrivateRecord(
        epsilon_spent=found.spend[-1][1],
        spend=[list(point) for point in found.spend],
        margins=sorted(found.margins),
        constant_teachers=found.n_constant,
        failed_teachers=found.n_failed,
        group_spent=list(found.group_spent),
    )
