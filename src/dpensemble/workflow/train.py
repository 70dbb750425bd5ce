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

from dpensemble.datasets import fit_encoder
from dpensemble.datasets.tables import is_number
from dpensemble.errors import InvalidParameterError
from dpensemble.labelling import PrivateDiagnostics
from dpensemble.report import PrivateRecord, RunRecord
from dpensemble.student import class_probabilities, default_student, fit_student
from dpensemble.workflow.metrics import scores
from dpensemble.workflow.outputs import Outcome
from dpensemble.workflow.personal import personal_fields, require_budgets
from dpensemble.workflow.tables import Tables


def train(tables: Tables, model: Any, *, baseline: bool = False, private_report: bool = False) -> Outcome:
    """Encode, fit, score and record.

    Parameters
    ----------
    tables : Tables
        Checked rows.
    model : VotingEnsembleClassifier or LabelMomentsClassifier
        Unfitted estimator; its ``classes`` are set from the tables.
    baseline : bool, default=False
        Also fit the student's kind of model on the private records without privacy, which marks the run an experiment.
    private_report : bool, default=False
        Also keep statistics of the secret votes, for the owner.

    Returns
    -------
    Outcome
        The publishable classifier, labels and record, and the private record where asked for.

    Raises
    ------
    InvalidParameterError
        If records have budgets and the model is not personalised, or the other way round; or secret votes are to be
        kept of a model that has none.
    """
    personal = require_budgets(model, tables)
    tabular = getattr(model, "takes_tables", False)
    if private_report and tabular:
        raise InvalidParameterError(f"private_report=True needs votes, and {model.name} has none; leave it out.")
    diagnostics = PrivateDiagnostics() if private_report else None
    start = perf_counter()
    # A model that reads tables by itself learns how from public rows, too.
    encoder: Any = None if tabular and not baseline else fit_encoder(tables.X_public)
    encode = (lambda table: table) if tabular else encoder.transform
    seconds = {"encoding": perf_counter() - start}
    model = clone(model).set_params(classes=tables.classes)
    given: dict[str, Any] = {"X_public": encode(tables.X_public), "units": tables.units}
    if not tabular:
        given["diagnostics"] = diagnostics
    if personal is not None:
        given |= {"budgets": tables.budgets, "levels": tables.levels, "group_shares": tables.group_shares}
    model.fit(encode(tables.X_private), tables.y_private.to_numpy(), **given)
    seconds |= model.seconds_

    student_scores = baseline_scores = None
    if tables.X_test is not None and tables.y_test is not None:
        truth = tables.y_test.to_numpy()
        student_scores = scores(model.predict_proba(encode(tables.X_test)), truth, model.classes_)
    if baseline:
        start = perf_counter()
        # Fitted as a student is, so that private labels of one class cannot lose a release that was paid for.
        estimator = default_student() if model.student is None else model.student
        plain = fit_student(estimator, encoder.transform(tables.X_private), tables.y_private.to_numpy(), seed=0)
        if student_scores is not None:
            found = class_probabilities(plain, encoder.transform(tables.X_test), model.classes_)
            baseline_scores = scores(found, truth, model.classes_)
        seconds["baseline"] = perf_counter() - start

    labels, budget = model.labels_, max((g.budget for g in model.design_.groups), key=lambda one: one.epsilon)
    groups = personal_fields(model, personal)
    record = RunRecord(
        method=model.design_.name,
        guarantee=model.guarantee_.to_dict(),
        budget={"epsilon": budget.epsilon, "delta": budget.delta},
        labels=len(labels),
        asked=labels.n_asked,
        label_accuracy=_label_accuracy(tables.y_public, labels.indices, labels.labels),
        student=student_scores,
        baseline=baseline_scores,
        # A run with groups has a curve for each of them instead.
        worst_case_spend=[] if groups or tabular else _worst_case_spend(model),
        effects=getattr(model, "effects_", []),
        data=_describe(tables, _n_features(model)),
        settings=_settings(model, tables),
        versions=_versions(),
        seconds={stage: round(value, 3) for stage, value in seconds.items()},
        experiment=_reasons(model, tables, baseline),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        **groups,
    )
    return Outcome(
        record=record,
        private=None if diagnostics is None else _private_record(diagnostics, grouped=bool(groups)),
        classifier=model.student_ if tabular else Pipeline([("encoder", encoder), ("student", model.student_)]),
        labels=pd.DataFrame({"row": labels.indices, "label": labels.labels}),
    )


def _n_features(model: Any) -> int:
    """Return the number of columns that the student learns from."""
    encoder = model.student_.named_steps["encoder"] if getattr(model, "takes_tables", False) else None
    return int(model.n_features_in_ if encoder is None else len(encoder.get_feature_names_out()))


def _label_accuracy(truth: pd.Series | None, rows: Any, labels: Any) -> float | None:
    return None if truth is None else float(np.mean(truth.to_numpy()[rows] == labels))


def _worst_case_spend(model: Any) -> list[list[float]]:
    """Return the data-independent spend up to the answered labels or, where those are secret, to the budget."""
    # A gated run's is over questions asked, since unanswered ones cost something too.
    curve = model.spend_
    if curve is None:
        design = model.design_
        most = model.labels_.n_asked if model.guarantee_.fixed_number else design.meter().sure_queries
        curve = design.spend_curve(most)
    return [[count, epsilon] for count, (epsilon,) in curve]


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


def _settings(model: Any, tables: Tables) -> dict[str, Any]:
    """Return the settings as plain values: the design's, those of randomness, and the learners."""
    names = ("analysis", "relation", "max_labels", "random_state", "insecure_release_seed", "teacher_privacy")
    settings = {name: getattr(model, name) for name in names if hasattr(model, name)} | model.design_.settings()
    if hasattr(model, "recommendation_"):
        settings["chosen_because"] = model.recommendation_.why
    if tables.group_shares is not None:
        settings["group_shares"] = dict(tables.group_shares)
    teacher: Any = LogisticRegression() if model.design_.ordinary else "private logistic regression"
    student: Any = default_student()
    if getattr(model, "takes_tables", False):
        teacher, student = "each unit answers by itself", "softmax of the features, from released moments"
    for role, default in (("teacher", teacher), ("student", student)):
        estimator = getattr(model, role, None)
        settings[role] = " ".join(str(default if estimator is None else estimator).split())
    return {name: _plain(value) for name, value in settings.items()}


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


def _reasons(model: Any, tables: Tables, baseline: bool) -> list[str]:
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


def _private_record(found: PrivateDiagnostics, *, grouped: bool) -> PrivateRecord:
    return PrivateRecord(
        epsilon_spent=found.spend[-1][1],
        spend=[list(point) for point in found.spend],
        margins=sorted(found.margins),
        constant_teachers=found.n_constant,
        failed_teachers=found.n_failed,
        group_spent=list(found.group_spent) if grouped else [],
    )
