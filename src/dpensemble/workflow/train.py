"""One training run: prepare, fit, score, record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from dpensemble._entries import Rows
from dpensemble._hide_private_rows import guard_private_rows
from dpensemble.allocation.budget_groups import PersonalBudgets
from dpensemble.certificates import certificate_of_fit
from dpensemble.datasets.equal_rows import ComparedOnce, EqualRows, equal_rows
from dpensemble.engine.voting_steps import PrivateDiagnostics
from dpensemble.errors import AccountingError, InvalidParameterError
from dpensemble.persistence import require_savable
from dpensemble.quality.release import NoisyHistograms
from dpensemble.quality.result import Costs
from dpensemble.report import RunRecord
from dpensemble.report.record import PrivateRecord, declared_noun
from dpensemble.rows.arguments import readable_rows, zeroes_bad
from dpensemble.rows.source import BlockSource, Facts, RowSource, rows_here
from dpensemble.student.published import class_probabilities, default_student, fit_student
from dpensemble.workflow.holdout import HeldBack, WithScore, hold_back, require_scorable, scored
from dpensemble.workflow.learners import scores
from dpensemble.workflow.outputs import CERTIFICATE, Outcome
from dpensemble.workflow.private_rows import PrivateStream
from dpensemble.workflow.run_record import (
    Measured,
    QualityRequest,
    Reader,
    about_teachers,
    label_shares,
    public_alone,
    quality_facts,
    require_budgets,
    run_record,
)
from dpensemble.workflow.tables import Tables


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
        Public lower bound on the number of private units. Under add-or-remove-one, delta is compared with it.
    ledger : LedgerAccount, optional
        Account of the private records. It is charged before noise is drawn, and may refuse.
    title : str, optional
        Headline of the page. By default, what is predicted.
    unit_name : str, optional
        Noun in the singular for what the unit column names, such as ``"patient"``. By default, it follows from the
        name of the column, and is ``"person"`` if the name does not contain a noun.
    certificate : bool, default=False
        Certify votes, which takes seconds. Noisy sums are certified in any case.

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
    asked = QualityRequest(holdout_score, Costs.of(costs), positive_class)
    compared = _compared(tables)
    if tables.stream is not None:
        tables = replace(tables, stream=compared.heard(tables.stream))
    prepared = _prepare(tables, model, fill=fill, asked=asked, ledger=ledger)
    diagnostics = PrivateDiagnostics(votes=private_report)
    result = _fit(prepared, diagnostics, fewest_units).result_
    released = _released_histograms(prepared)
    score = quality_facts(prepared.tables, prepared.model, prepared.reader, asked, released)
    measured = _measured(prepared, baseline=baseline)
    facts = _label_facts(prepared)
    certified, refused = _certified(prepared.model, released, asked=certificate)
    if title is not None:
        facts["title"] = title
    if noun is not None:
        facts["unit_name"] = noun
    if certified is not None:
        facts["certificate"] = CERTIFICATE
    record = run_record(result, tables, prepared.reader, replace(measured, facts=facts | score), prepared.personal)
    return Outcome(
        record=record,
        private=_private_record(diagnostics, record) if private_report else None,
        classifier=prepared.reader.before(result.student),
        labels=pd.DataFrame({"row": result.labels.indices, "label": result.labels.labels}),
        warnings=(*about_teachers(diagnostics, result.settings.get("n_teachers")), *refused),
        certificate=certified,
        for_owner=compared.counts(len(tables.X_public)),
    )


@dataclass(frozen=True)
class _Compared:
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
def _compared(tables: Tables) -> _Compared:
    """Compare public rows with records in memory now, or with blocks in the first pass. Parts are not compared."""
    if not len(tables.X_public):
        return _Compared()
    if tables.stream is None:
        return _Compared(equal_rows(tables.X_private, tables.X_public))
    return (
        _Compared()
        if tables.stream.parts is not None
        else _Compared(read=ComparedOnce(tables.stream.read, tables.X_public))
    )


def _require_possible(tables: Tables, model: Any, *, baseline: bool, private_report: bool) -> None:
    """Raise for requests that these tables or this model cannot serve, before anything is spent."""
    if tables.stream is not None and baseline:
        raise InvalidParameterError(
            "baseline=True requires all private records in memory, but they are read in blocks: leave it out."
        )
    if tables.declared_columns is not None and baseline:
        raise InvalidParameterError(
            "baseline=True requires public rows to encode by: leave it out, or give public rows."
        )
    if model.student is not None:
        require_savable(model.student)
    if private_report and not model.votes:
        raise InvalidParameterError(f"private_report=True requires votes, but {model.name} has none: leave it out.")


@dataclass(frozen=True, eq=False, repr=False)
class _Prepared:
    """A run before anything is spent: an unfitted model, and tables in the form that the model takes."""

    tables: Tables
    #: The tables without held-back units.
    teaching: Tables
    held: HeldBack | None
    model: Any
    reader: Reader
    #: Public rows in the form that the model takes. None if columns are declared instead.
    public: Any
    personal: PersonalBudgets | None
    ledger: Any
    #: Accuracy of a model of only the public labels.
    alone: dict[str, Any]
    seconds: dict[str, float]


def _prepare(tables: Tables, model: Any, *, fill: bool, asked: QualityRequest, ledger: Any) -> _Prepared:
    personal = require_budgets(model, tables)
    start = perf_counter()
    reader = Reader(tables.X_public, model, fill=fill)
    seconds = {"encoding": perf_counter() - start}
    alone = public_alone(reader, tables)
    model = clone(model).set_params(classes=tables.classes)
    if tables.declared_columns is not None:
        model.set_params(declared_columns=tables.declared_columns)
    teaching, held = tables, None
    asked.check(tables)
    if asked.share is not None:
        teaching, held = hold_back(tables, model, asked.share, costs=asked.costs, positive_class=asked.positive_class)
        if not zeroes_bad(model):
            require_scorable(held, reader.held_back, tables.classes)
        ledger = None if ledger is None else WithScore(ledger)
    public = None if tables.declared_columns is not None else reader.transform(tables.X_public)
    return _Prepared(tables, teaching, held, model, reader, public, personal, ledger, alone, seconds)


@guard_private_rows()
def _fit(run: _Prepared, diagnostics: PrivateDiagnostics, fewest_units: int | None) -> Any:
    """Fit the model to private records in memory or in blocks, and return it."""
    tables, model = run.teaching, run.model
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
        return model.fit(run.reader.private(tables.X_private), tables.y_private.to_numpy(), **arguments)
    if tables.stream.parts is not None:
        # A column of the table identifies the units.
        del arguments["units"]
        return model.fit_blocks(run.reader.of(tables.stream.parts), **arguments)
    # Records are counted first, so that every record is checked before anything is spent.
    read = _Blocks(run.reader.of(tables.stream.source), tables.stream.units)
    return model.fit_blocks(read, **arguments | {"units": read.units})


@dataclass(frozen=True, eq=False)
class _Blocks:
    """Reads private records in blocks. Its units are numbers, and -1 stands for a record without a unit.

    A method knows that from the reader's own units only. Among units that a user gives, -1 is an id as any other.
    """

    source: RowSource
    units: NDArray[np.int64] | None

    def __call__(self) -> Iterator[tuple[Rows, Rows]]:
        return rows_here(self.source)


def _certified(
    model: Any, released: NoisyHistograms | None, *, asked: bool
) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """Return a certificate of what was released, or None and the reason why a requested certificate is missing."""
    if not asked and model.result_.voted:
        return None, ()
    try:
        return certificate_of_fit(model, () if released is None else released.charges), ()
    except AccountingError as error:
        # The release stays, with or without a certificate.
        return None, (f"no certificate was written: {error}",)


def _released_histograms(run: _Prepared) -> NoisyHistograms | None:
    """Return the noisy histograms of held-back units, or None if there are none."""
    if run.held is None:
        return None
    return scored(run.model, run.held, run.reader.held_back, run.public, run.ledger)


def _label_facts(run: _Prepared) -> dict[str, Any]:
    """Return facts about the labels of public rows, or none without public rows."""
    tables = run.tables
    if not len(tables.X_public):
        return dict(run.alone)
    answers = run.model.predict(run.reader.transform(tables.X_public))
    return label_shares(run.model.result_, answers, tables.y_public) | run.alone


def _measured(run: _Prepared, *, baseline: bool) -> Measured:
    """Score the student on the test rows, and a baseline on request."""
    tables, model, seconds = run.tables, run.model, run.seconds | run.model.result_.seconds
    student = plain = None
    if tables.X_test is not None and tables.y_test is not None:
        probabilities = model.predict_proba(run.reader.transform(tables.X_test))
        student = scores(probabilities, tables.y_test.to_numpy(), model.classes_)
    if baseline:
        start = perf_counter()
        plain = _baseline_scores(tables, model, run.reader)
        seconds["baseline"] = perf_counter() - start
    return Measured(
        student=student,
        baseline=plain,
        seconds=seconds,
        has_score=run.held is not None,
        has_baseline=baseline,
    )


@guard_private_rows()
def _baseline_scores(tables: Tables, model: Any, reader: Reader) -> dict[str, float] | None:
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
