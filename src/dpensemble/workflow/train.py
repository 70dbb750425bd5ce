"""One training run: prepare, fit, score, record."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from dpensemble._entries import Rows
from dpensemble._hide_private_rows import guard_private_rows
from dpensemble._work import progress_bar
from dpensemble.allocation.budget_groups import PersonalBudgets, personal_budgets
from dpensemble.certificates import certificate_of_fit
from dpensemble.datasets import TableEncoder, TablePreparation
from dpensemble.datasets.columns import ComparedOnce, EqualRows, equal_rows, number_columns, plain_texts
from dpensemble.datasets.formats import EntryRules
from dpensemble.engine.result import Result
from dpensemble.engine.run import Steps, once_prepared
from dpensemble.engine.voting import PrivateDiagnostics
from dpensemble.errors import AccountingError, DataError, InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.persistence import require_savable
from dpensemble.relations import Relation
from dpensemble.report import RunRecord
from dpensemble.report.record import PrivateRecord, declared_noun
from dpensemble.rows.arguments import AS_GIVEN, readable_array, readable_rows, zeroes_bad
from dpensemble.rows.source import BlockSource, Facts, RowSource, converted_source
from dpensemble.student import class_probabilities, default_student, fit_student, marked, release_mark, with_names
from dpensemble.workflow.learners import scores
from dpensemble.workflow.numbers import NumberColumns, RiskColumns, number_facts, risk_facts
from dpensemble.workflow.outputs import Outcome, RunFile
from dpensemble.workflow.private_rows import PrivateStream
from dpensemble.workflow.run_record import Measured, run_record
from dpensemble.workflow.scoring import HeldBack, QualityRequest, quality_facts, scored
from dpensemble.workflow.tables import Tables

_MOST_COLUMNS_NAMED = 200
# Shares of teachers above which a warning is given.
_MANY_FAILED, _MOST_CONSTANT = 0.1, 0.5
# A baseline is accurate enough with this many rows.
_MOST_ROWS, _FOLDS = 5_000, 3


class RowConversion:
    """The conversion of every table for a method, and for the student in the saved pipeline.

    It learns only from the rows of `public`. Without rows, `public` only defines the kinds of declared columns.
    """

    def __init__(self, public: pd.DataFrame, model: Any, *, fill: bool, entries: EntryRules | None = None) -> None:
        tabular, takes_nan = model.takes_tables, get_tags(model).input_tags.allow_nan
        if fill and tabular and takes_nan:
            raise InvalidParameterError(
                f"{model.name} accepts blanks, which is better than filling them in: leave out --fill.",
                parameter="fill",
            )
        how = None if not fill else "nan" if takes_nan else "median"
        self._public, self._tabular, self._takes_nan = public, tabular, takes_nan
        self._keep_bad = zeroes_bad(model)
        self._entries = {} if entries is None else entries.settings()
        self._preparation = TablePreparation(how, **self._entries).fit(public) if len(public) else None
        self._encoder = None if tabular else TableEncoder(how, **self._entries).fit(public)
        self.blanks = {"median": "filled in from public rows", "nan": "filled in from public rows, NaN in numbers"}.get(
            how or "", "taken as they are" if tabular and takes_nan else "refused"
        )

    def transform(self, table: pd.DataFrame) -> Any:
        """Return rows in the form that the method takes."""
        if self._encoder is not None:
            return self._encoder.transform(table)
        # Most tables have no dates and need no copy.
        if self._preparation is None or self._preparation.changes_nothing:
            return plain_texts(table)
        return self._preparation.transform(table)

    def private(self, table: pd.DataFrame) -> Any:
        """Return private rows for the method. For a method that takes arrays, a bad row becomes a row of NaN."""
        if self._encoder is None:
            # Texts stay encoded, so that they are not read again.
            if self._preparation is None or self._preparation.changes_nothing:
                return table
            return self._preparation.encoded(table)
        if self._preparation is None:
            return self.transform(table)
        if not self._keep_bad:
            return self._encoder.transform(table)
        table, readable = readable_rows(table)
        prepared = self._preparation.transform(table)
        rows = np.array(self._encoder.encoder_.transform(prepared), dtype=np.float64)
        if not self._encoder.takes_blanks:
            readable &= ~prepared.isna().to_numpy().any(axis=1)
        rows[~readable] = np.nan
        return rows

    def held_back(self, table: pd.DataFrame) -> tuple[Any, NDArray[np.bool_]]:
        """Return private rows for the student, and which of them are readable. The other rows become zeros."""
        if not self._keep_bad:
            rows = self.transform(table)
            if self._encoder is not None and np.isinf(rows).any():
                raise DataError("a number is too large to be standardised: correct it, or leave the column out.")
            return rows, np.ones(len(table), dtype=bool)
        if self._encoder is None:
            table, readable = readable_rows(table, nan=self._takes_nan)
            return self.transform(table), readable
        rows = self.private(table)
        readable = readable_array(rows, nan=self._encoder.fill == "nan")
        if self._encoder.fill == "nan":
            readable &= ~np.isnan(rows).all(axis=1)
        return np.where(readable[:, None], rows, 0.0), readable

    def of(self, source: RowSource) -> RowSource:
        """Return private records whose rows are converted for the method where they are read."""
        reader = copy.copy(self)
        # Workers need no public rows.
        reader._public = self._public.iloc[:0]
        return converted_source(source, reader._with_labels)

    def _with_labels(self, table: pd.DataFrame, labels: Rows) -> tuple[Rows, Rows]:
        return self.private(table), labels

    def encoded(self, table: pd.DataFrame | None) -> Any:
        """Return rows as numbers, even if the method reads tables."""
        return self._plain_encoder.transform(table)

    @cached_property
    def _plain_encoder(self) -> TableEncoder:
        if self._encoder is not None and self._encoder.fill != "nan":
            return self._encoder
        return TableEncoder("median", **self._entries).fit(self._public)

    def student_of_tables(self, student: Any) -> Pipeline:
        """Return a student that takes tables as they are read from files."""
        if self._encoder is not None:
            pipeline = Pipeline([("encoder", self._encoder), ("student", student)])
        elif self._preparation is None or self._preparation.changes_nothing:
            return student
        else:
            pipeline = Pipeline([("table", self._preparation), *student.steps])
        mark = release_mark(student)
        return with_names(pipeline) if mark is None else marked(with_names(pipeline), for_release=mark)

    def kinds(self, public: pd.DataFrame) -> str:
        """Describe how each column of the public rows was read. If there are many columns, describe the first ones."""
        if self._preparation is None:
            words = dict(zip(public.columns, np.where(number_columns(public), "number", "declared"), strict=True))
        else:
            words = self._preparation.words()
        shown = list(public.columns)[:_MOST_COLUMNS_NAMED]
        categories = {name: f"{public[name].nunique():,} categories" for name in shown if words[name] == "category"}
        parts = [f"{name} ({categories.get(name, words[name])})" for name in shown]
        rest = number_columns(public)[len(shown) :]
        if len(rest):
            parts.append(f"and {len(rest):,} more ({rest.sum():,} numbers, {(~rest).sum():,} texts)")
        return ", ".join(parts)


def train(
    tables: Tables,
    model: Any,
    *,
    baseline: bool = False,
    private_report: bool = False,
    fill: bool = False,
    holdout_score: float | None = None,
    costs: Mapping[str, float] | None = None,
    positive_class: str | None = None,
    fewest_units: int | None = None,
    ledger: Any = None,
    title: str | None = None,
    unit_name: str | None = None,
    certificate: bool = False,
    rehearsal: Rehearsal | None = None,
) -> Outcome:
    """Encode, fit, score and record.

    Parameters
    ----------
    tables : Tables
        Checked rows.
    model : VotingEnsembleClassifier, LabelMomentsClassifier or SoftVotesClassifier
        Unfitted estimator. The tables determine its ``classes``.
    baseline : bool, default=False
        Also fit the student's kind of model on the private records without privacy. This makes the run an experiment.
    private_report : bool, default=False
        Also record statistics of the secret votes, for the owner.
    fill : bool, default=False
        Fill blanks in from public rows: with medians, and with a category for blanks. If teacher and student take NaN,
        blanks in numbers become NaN. For methods that do not accept blanks.
    holdout_score : float, optional
        Share of the private units that are held back from training and spent on the student's released quality: one
        noisy histogram. `Tables.groups` adds a histogram for each group column.
    costs : dict, optional
        Costs of a ``false_negative`` and of a ``false_positive``, of two classes. The record then has the threshold
        that they ask for. The student and its probabilities stay the same.
    positive_class : str, optional
        The class whose cases are found or missed. By default the second of two sorted classes.
    fewest_units : int, optional
        Public lower bound on the number of private units. Under add-or-remove-one, delta is compared with it,
        and follows from it if no delta is given.
    ledger : LedgerAccount, optional
        Account of the private records. It is charged before noise is drawn, and may refuse.
    title : str, optional
        Headline of the page. By default, what is predicted.
    unit_name : str, optional
        Noun in the singular for what the unit column names, such as ``"patient"``. By default, it follows from the
        name of the column, and is ``"person"`` if the name does not contain a noun.
    certificate : bool, default=False
        Certify votes, which takes seconds. Noisy sums are certified in any case.
    rehearsal : callable, optional
        Called with the prepared run and its steps before anything is drawn or charged, such as
        `dpensemble.workflow.rehearsal.rehearse`. An error ends the run, which then has spent nothing.

    Returns
    -------
    Outcome
        The publishable classifier, labels and record, and the private record if requested.

    Raises
    ------
    InvalidParameterError
        If records have budgets and the model is not personalised, or the other way round. If statistics of votes are
        requested from a model without votes. If blanks are to be filled in for a model that accepts them. If the
        student could not be saved. If a cost is not above 0.
    BudgetError
        If too few units are held back for any cell of the histogram, before anything is charged.
    """
    _require_possible(tables, model, baseline=baseline, private_report=private_report)
    noun = None if unit_name is None else declared_noun(unit_name, tables.unit_column)
    asked = QualityRequest.of(holdout_score, costs, positive_class)
    with progress_bar("Comparing public rows with records", None):
        equal = _count_equal_rows(tables)
    if tables.stream is not None:
        tables = replace(tables, stream=equal.heard(tables.stream))
    names = {} if title is None else {"title": title}
    names |= {} if noun is None else {"unit_name": noun}
    wanted = _Wanted(
        names=names,
        fewest_units=fewest_units,
        baseline=baseline,
        private_report=private_report,
        certificate=certificate,
    )
    with progress_bar("Encoding public rows", None):
        prepared = _prepare(tables, model, wanted, fill=fill, asked=asked, ledger=ledger)
    with once_prepared(None if rehearsal is None else partial(rehearsal, prepared)):
        diagnostics = _fit(prepared)
    return _outcome(prepared, diagnostics, equal)


@dataclass(frozen=True, kw_only=True)
class _Wanted:
    """What a run returns beside the student. `names` are entries of the record."""

    names: dict[str, Any]
    fewest_units: int | None
    baseline: bool
    private_report: bool
    certificate: bool


def _outcome(prepared: Prepared, diagnostics: PrivateDiagnostics, equal: _EqualRows) -> Outcome:
    """Score and certify a fitted run, and return its products."""
    tables, result, wanted = prepared.tables, prepared.model.result_, prepared.wanted
    with progress_bar("Releasing the quality", None):
        released = _released_histograms(prepared)
    with progress_bar("Scoring the student", None):
        if tables.classes:
            score = quality_facts(tables, prepared.model, prepared.reader.transform, prepared.asked, released)
        else:
            about = prepared.model, tables, prepared.reader.transform
            score = number_facts(*about) if tables.times is None else risk_facts(*about, released)
        measured = _measured(prepared, baseline=wanted.baseline)
        facts = _label_facts(prepared)
    with progress_bar("Certifying the release", None):
        certified, refused = _certified(prepared.model, released, asked=wanted.certificate)
    facts |= wanted.names
    if certified is not None:
        facts["certificate"] = RunFile.CERTIFICATE.value
    record = run_record(result, tables, prepared.reader, replace(measured, facts=facts | score), prepared.personal)
    return Outcome(
        record=record,
        private=_private_record(diagnostics, record) if diagnostics.votes else None,
        classifier=prepared.reader.student_of_tables(result.student),
        labels=_labels(prepared),
        warnings=(*_about_teachers(diagnostics, result.settings.get("n_teachers")), *refused),
        certificate=certified,
        for_owner=equal.counts(len(tables.X_public)),
    )


def _labels(prepared: Prepared) -> pd.DataFrame:
    """Return released labels of public rows, or what the student predicts for all public rows without classes."""
    tables, result = prepared.tables, prepared.model.result_
    if tables.classes:
        return pd.DataFrame({"row": result.labels.indices, "label": result.labels.labels})
    columns = NumberColumns() if tables.times is None else RiskColumns()
    rows = columns.of(prepared.model.student_, prepared.reader.transform(tables.X_public))
    return pd.DataFrame({"row": np.arange(len(tables.X_public))} | rows)


@dataclass(frozen=True)
class _EqualRows:
    """How many public rows equal private records, and the reader of blocks whose first pass finds this out."""

    equal: EqualRows | None = None
    read: ComparedOnce | None = None

    def heard(self, stream: PrivateStream) -> PrivateStream:
        """Return a stream whose first pass is compared."""
        places = Facts.of(stream.source).fixed_places
        return stream if self.read is None else replace(stream, source=BlockSource(self.read, fixed_places=places))

    def counts(self, n_public: int) -> dict[str, tuple[int | None, int]]:
        """Return the count for the owner, or None if it is not known, and its digits. Nothing without public rows."""
        equal = self.equal if self.read is None else self.read.equal
        count = None if equal is None else equal.n_equal
        return {"public_rows_equal_to_records": (count, len(str(n_public)))} if n_public else {}


@guard_private_rows()
def _count_equal_rows(tables: Tables) -> _EqualRows:
    """Compare public rows with records in memory now, or with blocks in the first pass. Parts are not compared."""
    if not len(tables.X_public):
        return _EqualRows()
    if tables.stream is None:
        return _EqualRows(equal_rows(tables.X_private, tables.X_public))
    return (
        _EqualRows()
        if tables.stream.parts is not None
        else _EqualRows(read=ComparedOnce(tables.stream.read, tables.X_public))
    )


def _require_possible(tables: Tables, model: Any, *, baseline: bool, private_report: bool) -> None:
    """Raise for requests that these tables or this model cannot serve, before anything is spent."""
    if tables.stream is not None and baseline:
        raise InvalidParameterError(
            "baseline=True requires all private records in memory, but they are read in blocks: leave it out."
        )
    if not tables.classes and baseline:
        raise InvalidParameterError("baseline=True is for classes, and none are predicted: leave it out.")
    if tables.declared_columns is not None and baseline:
        raise InvalidParameterError(
            "baseline=True requires public rows to encode by: leave it out, or give public rows."
        )
    if model.student is not None:
        require_savable(model.student)
    if private_report and not model.votes:
        raise InvalidParameterError(f"private_report=True requires votes, but {model.name} has none: leave it out.")


@dataclass(frozen=True, eq=False, repr=False)
class Prepared:
    """A run before anything is spent: an unfitted model, and tables in the form that the model takes."""

    wanted: _Wanted
    asked: QualityRequest
    tables: Tables
    #: The tables without held-back units.
    teaching: Tables
    held: HeldBack | None
    model: Any
    reader: RowConversion
    #: Public rows in the form that the model takes. None if columns are declared instead.
    public: Any
    personal: PersonalBudgets | None
    ledger: Any
    #: Accuracy of a model of only the public labels.
    alone: dict[str, Any]
    seconds: dict[str, float]

    def with_stand_ins(self, tables: Tables, model: Any, asked: QualityRequest) -> Prepared:
        """Return the run with other rows of the same kinds and another unfitted model, which charges no account."""
        teaching, held, _ = asked.divided(tables, model, None)
        public = None if self.public is None else self.reader.transform(tables.X_public)
        changes: dict[str, Any] = {"tables": tables, "teaching": teaching, "held": held, "model": model}
        wanted = replace(self.wanted, certificate=False)
        return replace(self, **changes, wanted=wanted, asked=asked, public=public, ledger=None)

    def finish(self) -> Outcome:
        """Return the products of the run."""
        return _outcome(self, _fit(self), _EqualRows())


#: What is called with a prepared run and its steps.
Rehearsal = Callable[[Prepared, Steps], None]


def _prepare(
    tables: Tables, model: Any, wanted: _Wanted, *, fill: bool, asked: QualityRequest, ledger: Any
) -> Prepared:
    personal = _require_budgets(model, tables)
    start = perf_counter()
    reader = RowConversion(tables.X_public, model, fill=fill, entries=tables.entries)
    seconds = {"encoding": perf_counter() - start}
    alone = public_alone(reader, tables)
    model = clone(model).set_params(**tables.predicted.settings())
    if model.takes_tables:
        # The conversion has prepared the rows already.
        model.set_params(columns=AS_GIVEN)
    if tables.declared_columns is not None:
        model.set_params(declared_columns=tables.declared_columns)
    asked.check(tables)
    teaching, held, ledger = asked.divided(tables, model, ledger)
    if held is not None and not zeroes_bad(model):
        held.require_scorable(reader.held_back, tables.classes)
    public = None if tables.declared_columns is not None else reader.transform(tables.X_public)
    return Prepared(wanted, asked, tables, teaching, held, model, reader, public, personal, ledger, alone, seconds)


@guard_private_rows()
def _fit(run: Prepared) -> PrivateDiagnostics:
    """Fit the model to private records in memory or in blocks, and return diagnostics of its votes."""
    tables, model, fewest_units = run.teaching, run.model, run.wanted.fewest_units
    diagnostics = PrivateDiagnostics(votes=run.wanted.private_report)
    arguments: dict[str, Any] = {"X_public": run.public, "units": tables.units, "ledger": run.ledger}
    if fewest_units is not None:
        arguments["fewest_units"] = fewest_units
    if model.votes:
        arguments["diagnostics"] = diagnostics
    if model.compares_public_rows:
        arguments["public_units"] = tables.public_units
    if run.personal is not None:
        arguments |= {"budgets": tables.budgets, "levels": tables.levels, "group_shares": tables.group_shares}
    if tables.stream is None:
        model.fit(run.reader.private(tables.X_private), tables.predicted.as_given(tables.y_private), **arguments)
    elif tables.stream.parts is not None:
        # A column of the table identifies the units.
        del arguments["units"]
        model.fit_blocks(run.reader.of(tables.stream.parts), **arguments)
    else:
        # Records are counted first, so that every record is checked before anything is spent.
        read = tables.stream.blocks(run.reader.of(tables.stream.source))
        model.fit_blocks(read, **arguments | {"units": read.units})
    return diagnostics


def _certified(model: Any, released: Rows, *, asked: bool) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """Return a certificate of what was released, or None and the reason why a requested certificate is missing."""
    if not asked and model.result_.voted:
        return None, ()
    try:
        return certificate_of_fit(model, () if released is None else released.charges), ()
    except AccountingError as error:
        # The release stays, with or without a certificate.
        return None, (f"no certificate was written: {error}",)


def _released_histograms(run: Prepared) -> Rows:
    """Return the noisy histograms of held-back units, or None if there are none."""
    if run.held is None:
        return None
    return scored(run.model, run.held, run.reader.held_back, run.public, run.ledger)


def _label_facts(run: Prepared) -> dict[str, Any]:
    """Return facts about the labels of public rows, or none without public rows or classes."""
    tables = run.tables
    if not len(tables.X_public) or not tables.classes:
        return dict(run.alone)
    answers = run.model.predict(run.reader.transform(tables.X_public))
    return label_shares(run.model.result_, answers, tables.y_public) | run.alone


def _measured(run: Prepared, *, baseline: bool) -> Measured:
    """Score the student on the test rows, and a baseline on request."""
    tables, model, seconds = run.tables, run.model, run.seconds | run.model.result_.seconds
    student = plain = None
    if tables.X_test is not None and tables.y_test is not None and tables.classes:
        probabilities = model.predict_proba(run.reader.transform(tables.X_test))
        student = scores(probabilities, tables.y_test.to_numpy(), model.classes_)
    if baseline:
        start = perf_counter()
        with progress_bar("Training without privacy", None):
            plain = _baseline_scores(tables, model, run.reader)
        seconds["baseline"] = perf_counter() - start
    return Measured(
        student=student,
        baseline=plain,
        seconds=seconds,
        assumptions=() if run.held is None else run.held.assumptions,
        has_baseline=baseline,
    )


@guard_private_rows()
def _baseline_scores(tables: Tables, model: Any, reader: RowConversion) -> dict[str, float] | None:
    """Fit the student's kind of model without privacy, and score it if there are test rows."""
    # Fitted in the way of a student, so that private labels of a single class cannot lose a paid release.
    estimator = default_student() if model.student is None else model.student
    table, readable = readable_rows(tables.X_private)
    rows, labels = reader.encoded(table), tables.y_private.to_numpy()
    # Bad records are left out, because they must not stop a paid run.
    usable = np.isin(labels, model.classes_) & readable & ~np.isnan(rows).any(axis=1)
    if tables.X_test is None or tables.y_test is None or not usable.any():
        return None
    plain = fit_student(estimator, rows[usable], labels[usable], seed=0)
    probabilities = class_probabilities(plain, reader.encoded(tables.X_test), model.classes_)
    return scores(probabilities, tables.y_test.to_numpy(), model.classes_)


def _private_record(diagnostics: PrivateDiagnostics, record: RunRecord) -> PrivateRecord:
    return PrivateRecord(
        epsilon_spent=diagnostics.spend[-1][1],
        spend=[list(point) for point in diagnostics.spend],
        margins=sorted(diagnostics.margins),
        constant_teachers=diagnostics.n_constant,
        failed_teachers=diagnostics.n_failed,
        group_spent=list(diagnostics.group_spent) if record.groups else [],
        for_release=record.statement().for_release,
    )


def _require_budgets(model: Any, tables: Tables) -> PersonalBudgets | None:
    """Return the records' budgets for a model that uses them. Raise if they are missing, or not used."""
    if model.takes_budgets != (tables.budgets is not None):
        wrong = (
            "budgets are missing, and without them a personalised method is plain PATE: give each record one"
            if model.takes_budgets
            else "budgets of records are only for the personalised methods: use upsampling-pate, vanishing-pate or "
            "weighting-pate"
        )
        raise InvalidParameterError(f"{wrong}.")
    if tables.budgets is None:
        return None
    if tables.budgets_at_random and model.relation != Relation.REPLACE_ONE.value:
        raise InvalidParameterError(
            f"budgets were dealt by position, but relation={model.relation!r} does not allow that: use 'replace-one'."
        )
    delta = Budget.of(model.epsilon, model.delta).delta
    return personal_budgets(tables.budgets, delta=delta, levels=tables.levels, declared=tables.group_shares)


def _about_teachers(diagnostics: PrivateDiagnostics, n_teachers: int | None) -> tuple[str, ...]:
    """Return warnings about the teachers. They are for the owner of the private records only."""
    if not n_teachers:
        return ()
    warnings = []
    if diagnostics.n_failed > _MANY_FAILED * n_teachers:
        warnings.append(
            f"{diagnostics.n_failed:,} of {n_teachers:,} teachers could not be fitted, and vote for the most common "
            "label of their own records; check the teacher's settings, or use fewer teachers."
        )
    if diagnostics.n_constant > _MOST_CONSTANT * n_teachers:
        warnings.append(
            f"{diagnostics.n_constant:,} of {n_teachers:,} teachers saw records of only one label, and always vote for "
            "it: use fewer teachers."
        )
    return tuple(warnings)


def label_shares(result: Result, answers: Any, truth: pd.Series | None) -> dict[str, Any]:
    """Return shares computed from released labels, the student and public rows. They cost no privacy."""
    shares: dict[str, Any] = {"answers": {str(label): float(np.mean(answers == label)) for label in result.classes}}
    labels = result.labels
    if result.voted:
        shares["released_labels"] = _shares(labels.labels, answers[labels.indices])
    if truth is not None:
        shares["public_truth"] = _shares(truth.to_numpy(), answers)
    return shares


def _shares(labels: Any, answers: Any) -> dict[str, float]:
    commonest = float(pd.Series(labels).value_counts(normalize=True).max())
    return {"most_common": commonest, "student": float(np.mean(labels == answers))}


def public_alone(reader: RowConversion, tables: Tables) -> dict[str, Any]:
    """Return how good a model of only the public labels is, if there are labels. It uses no private record."""
    if tables.y_public is None or tables.data_is_public or not tables.classes:
        return {}
    X, y = tables.X_public, tables.y_public.to_numpy()
    if len(y) > _MOST_ROWS:
        chosen = np.random.default_rng(0).choice(len(y), _MOST_ROWS, replace=False)
        X, y = X.iloc[chosen], y[chosen]
    if len(set(y)) < 2 or min(np.unique(y, return_counts=True)[1]) < _FOLDS:
        return {}
    rows = reader.encoded(X)
    # Numbers may be too large to be squared.
    if not np.isfinite(rows).all():
        return {}
    accuracies = cross_val_score(LogisticRegression(C=0.1, max_iter=1000), rows, y, cv=_FOLDS)
    return {"public_alone": {"rows": len(y), "accuracy": float(accuracies.mean())}}
