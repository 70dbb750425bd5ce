"""One training run, from tables to a record of what happened."""

from __future__ import annotations

import platform
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import has_fit_parameter

from dpensemble._guard import guard_private_rows
from dpensemble.certificates import certificate_of_fit
from dpensemble.datasets.bad_records import readable_rows
from dpensemble.engine.labelling import PrivateDiagnostics
from dpensemble.errors import AccountingError, InvalidParameterError
from dpensemble.guarantee import Guarantee
from dpensemble.persistence import require_savable
from dpensemble.report import PrivateRecord, RunRecord
from dpensemble.student import class_probabilities, default_student, fit_student
from dpensemble.workflow.holdout import ASSUMPTIONS, HeldBack, WithScore, hold_back, scored
from dpensemble.workflow.label_summary import about_teachers, public_alone, told_by_labels
from dpensemble.workflow.metrics import scores
from dpensemble.workflow.outputs import CERTIFICATE, Outcome
from dpensemble.workflow.personal import personal_fields, require_budgets
from dpensemble.workflow.reader import Reader
from dpensemble.workflow.tables import Tables

# The students of methods whose teachers answer with vectors, unless one is given.
_OF_ANSWERS = {
    "probabilities": "logistic regression on averaged probabilities, its penalty by evidence",
    "parameters": "the average of the teachers' parameters",
}


def train(
    tables: Tables,
    model: Any,
    *,
    baseline: bool = False,
    private_report: bool = False,
    fill: bool = False,
    holdout_score: float | None = None,
    fewest_units: int | None = None,
    ledger: Any = None,
    title: str | None = None,
    certificate: bool = False,
) -> Outcome:
    """Encode, fit, score and record.

    Parameters
    ----------
    tables : Tables
        Checked rows.
    model : VotingEnsembleClassifier, LabelMomentsClassifier or SoftVotesClassifier
        Unfitted estimator; its ``classes`` are set from the tables.
    baseline : bool, default=False
        Also fit the student's kind of model on the private records without privacy, which marks the run an experiment.
    private_report : bool, default=False
        Also keep statistics of the secret votes, for the owner.
    fill : bool, default=False
        Fill blanks in from public rows: medians, and a category of their own; where teacher and student take NaN, that
        is what they are given in the place of numbers. For methods that do not take blanks as they are.
    holdout_score : float, optional
        Share of the private units that teach nothing and are spent on a released score of the student.
    fewest_units : int, optional
        Public lower bound on the number of private units, with which delta is compared under add-or-remove-one.
    ledger : LedgerAccount, optional
        Account of the private records, which is charged before noise is drawn, and may refuse.
    title : str, optional
        Headline of the page; by default the data's name.
    certificate : bool, default=False
        Certify votes, which takes seconds; noisy sums are certified in any case.

    Returns
    -------
    Outcome
        The publishable classifier, labels and record, and the private record where asked for.

    Raises
    ------
    InvalidParameterError
        If records have budgets and the model is not personalised, or the other way round; or secret votes are to be
        kept of a model that has none; or blanks to be filled in for a model that takes them; or the student could not
        be saved.
    """
    personal = require_budgets(model, tables)
    votes = has_fit_parameter(model, "diagnostics")
    _require_possible(tables, model, baseline=baseline, votes=private_report and not votes)
    diagnostics = PrivateDiagnostics(votes=private_report)
    start = perf_counter()
    reader = Reader(tables.X_public, model, fill=fill)
    encode = reader.transform
    seconds = {"encoding": perf_counter() - start}
    # Before anything is spent, as it needs nothing private.
    alone = public_alone(reader, tables)
    model = clone(model).set_params(classes=tables.classes)
    if tables.declared_columns is not None:
        model.set_params(declared_columns=tables.declared_columns)
    everybody, held = tables, None
    if holdout_score is not None:
        tables, held = hold_back(tables, model, holdout_score)
        ledger = None if ledger is None else WithScore(ledger)
    public = None if tables.declared_columns is not None else encode(tables.X_public)
    given: dict[str, Any] = {"X_public": public, "units": tables.units, "ledger": ledger}
    if fewest_units is not None:
        given["fewest_units"] = fewest_units
    if votes:
        given["diagnostics"] = diagnostics
    if personal is not None:
        given |= {"budgets": tables.budgets, "levels": tables.levels, "group_shares": tables.group_shares}
    _fit(model, reader, tables, given)
    seconds |= model.seconds_
    score: dict[str, Any] = {}
    if held is not None:
        released = scored(model, held, reader.held_back, public, ledger)
        score = {"released_score": released.to_dict(), "held_back": held.n_units}
    tables = everybody

    student_scores = baseline_scores = None
    if tables.X_test is not None and tables.y_test is not None:
        truth = tables.y_test.to_numpy()
        student_scores = scores(model.predict_proba(encode(tables.X_test)), truth, model.classes_)
    if baseline:
        start = perf_counter()
        baseline_scores = _baseline_scores(tables, model, reader)
        seconds["baseline"] = perf_counter() - start

    labels, budget = model.labels_, max((g.budget for g in model.design_.groups), key=lambda one: one.epsilon)
    groups = personal_fields(model, personal)
    # Without public rows there are no labels, either.
    told = told_by_labels(model, encode(tables.X_public), tables.y_public) if len(tables.X_public) else {}
    certified, refused = _certified(model, asked=certificate)
    record = RunRecord(
        method=model.design_.name,
        guarantee=_stated(model.guarantee_, held).to_dict(),
        budget={"epsilon": budget.epsilon, "delta": budget.delta},
        labels=len(labels),
        asked=labels.n_asked,
        label_accuracy=_label_accuracy(tables.y_public, labels.indices, labels.labels),
        student=student_scores,
        baseline=baseline_scores,
        # A run with groups has a curve for each of them instead.
        worst_case_spend=[] if groups or not votes else _worst_case_spend(model),
        effects=_in_declared_order(getattr(model, "effects_", []), list(model.classes_), tables.classes),
        data=_describe(tables, _n_features(model), reader)
        | _about_fit(model)
        | told
        | alone
        | ({} if title is None else {"title": title})
        | ({} if certified is None else {"certificate": CERTIFICATE})
        | score,
        settings=_settings(model, tables),
        versions=_versions(),
        seconds={stage: round(value, 3) for stage, value in seconds.items()},
        experiment=_reasons(model, tables, baseline),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        **groups,
    )
    return Outcome(
        record=record,
        private=_private_record(diagnostics, record, grouped=bool(groups)) if private_report else None,
        classifier=reader.before(model.student_),
        labels=pd.DataFrame({"row": labels.indices, "label": labels.labels}),
        warnings=(*about_teachers(diagnostics, model.design_.settings().get("n_teachers")), *refused),
        certificate=certified,
    )


def _require_possible(tables: Tables, model: Any, *, baseline: bool, votes: bool) -> None:
    """Refuse what these tables or this model cannot give, before anything is spent."""
    if tables.stream is not None and baseline:
        raise InvalidParameterError(
            "baseline=True needs all private records in memory, and they are read in blocks; leave it out."
        )
    if tables.declared_columns is not None and baseline:
        raise InvalidParameterError("baseline=True needs public rows to encode by; leave it out, or give public rows.")
    if getattr(model, "student", None) is not None:
        require_savable(model.student)
    if votes:
        raise InvalidParameterError(f"private_report=True needs votes, and {model.name} has none; leave it out.")


def _in_declared_order(effects: list[dict[str, Any]], found: list[Any], declared: list[Any]) -> list[dict[str, Any]]:
    """Return effects on classes in the order in which these were declared, by which the record names them."""
    places = [found.index(label) for label in declared]

    def moved(values: list[float]) -> list[float]:
        if len(places) > 2:
            return [values[place] for place in places]
        # Of two there is the second alone, whose logit is that of the first with its sign turned.
        return values if places == [0, 1] else [-value for value in values]

    return [one | {"points": [[name, moved(values)] for name, values in one["points"]]} for one in effects]


def _certified(model: Any, *, asked: bool) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """Return a certificate of what was released; or None, and why there is none although one was asked for."""
    if not asked and getattr(model, "charges_", None) is None:
        return None, ()
    try:
        return certificate_of_fit(model), ()
    except AccountingError as error:
        # What was released stays, with or without one.
        return None, (f"no certificate was written: {error}",)


@guard_private_rows()
def _fit(model: Any, reader: Reader, tables: Tables, given: dict[str, Any]) -> None:
    """Fit a model to private records in memory or in blocks."""
    if tables.stream is None:
        model.fit(reader.private(tables.X_private), tables.y_private.to_numpy(), **given)
        return
    # Counted anew, so that every record is checked before anything is spent.
    model.fit_blocks(reader.each(tables.stream.read), **given | {"units": tables.stream.units})


@guard_private_rows()
def _baseline_scores(tables: Tables, model: Any, reader: Reader) -> dict[str, float] | None:
    """Fit the student's kind of model without privacy, and score it where there are test rows."""
    # Fitted as a student is, so that private labels of one class cannot lose a release that was paid for.
    estimator = default_student() if model.student is None else model.student
    table, readable = readable_rows(tables.X_private)
    rows, labels = reader.encoded(table), tables.y_private.to_numpy()
    # Bad records are left out, as they must not stop a run that was paid for.
    known = np.isin(labels, model.classes_) & readable & ~np.isnan(rows).any(axis=1)
    if tables.X_test is None or tables.y_test is None or not known.any():
        return None
    plain = fit_student(estimator, rows[known], labels[known], seed=0)
    found = class_probabilities(plain, reader.encoded(tables.X_test), model.classes_)
    return scores(found, tables.y_test.to_numpy(), model.classes_)


def _stated(guarantee: Guarantee, held: HeldBack | None) -> Guarantee:
    """Return a guarantee with what a score adds to what it rests on; its epsilon and delta cover both."""
    if held is None:
        return guarantee
    more = [text for text in ASSUMPTIONS if text not in guarantee.assumptions]
    return replace(guarantee, assumptions=(*guarantee.assumptions, *more))


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


def _describe(tables: Tables, n_features: int, reader: Reader) -> dict[str, Any]:
    return {
        "name": tables.name,
        "target": tables.target,
        "private_records": tables.n_records,
        "private_units": tables.n_units,
        "public_rows": len(tables.X_public),
        "test_rows": 0 if tables.X_test is None else len(tables.X_test),
        "columns": tables.X_public.shape[1],
        "features": n_features,
        "classes": [str(label) for label in tables.classes],
        "most_common_label": _majority_share(tables),
        "test_is_public": tables.test_is_public,
        "data_is_public": tables.data_is_public,
        "unit_column": tables.unit_column,
        "kinds_of_columns": reader.kinds(tables.X_public),
        "blanks": reader.blanks,
    }


def _about_fit(model: Any) -> dict[str, Any]:
    """Return what a fitted model adds to the data: which class areas are of, and a warning of public rows."""
    found: dict[str, Any] = {}
    if len(model.classes_) == 2:
        found["positive_class"] = str(model.classes_[1])
    drift = getattr(model, "drift_", None)
    if drift is not None and drift.alarm:
        found["unlike"] = drift.warning(replaced=bool(model.design_.settings().get("synthetic_rows")))
    readable = getattr(model, "readable_share_", None)
    if readable is not None:
        found |= {"readable_share": round(readable.share, 4), "readable_share_error": round(readable.error, 6)}
    return found


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
    elif getattr(model, "answers", None) is not None:
        student = _OF_ANSWERS[model.answers]
    for role, default in (("teacher", teacher), ("student", student)):
        estimator = getattr(model, role, None)
        settings[role] = " ".join(str(default if estimator is None else estimator).split())
    return {name: _plain(value) for name, value in settings.items()}


def _majority_share(tables: Tables) -> float | None:
    """Return the accuracy of always saying the test rows' most common label."""
    return None if tables.y_test is None else float(tables.y_test.value_counts(normalize=True).max())


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


def _private_record(found: PrivateDiagnostics, record: RunRecord, *, grouped: bool) -> PrivateRecord:
    return PrivateRecord(
        epsilon_spent=found.spend[-1][1],
        spend=[list(point) for point in found.spend],
        margins=sorted(found.margins),
        constant_teachers=found.n_constant,
        failed_teachers=found.n_failed,
        group_spent=list(found.group_spent) if grouped else [],
        for_release=record.statement().for_release,
    )
