"""The record of one run: its result, its tables, its scores and the quality of its student.

The tables are converted for the method by rules that come from public rows and are published. The record also states
groups with their own budgets, decisions, shares of released labels, and warnings about teachers for their owner.
"""

from __future__ import annotations

import copy
import platform
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from dpensemble._entries import Floats, Rows
from dpensemble.allocation.budget_groups import PersonalBudgets, personal_budgets
from dpensemble.allocation.partition import number_units
from dpensemble.datasets import TableEncoder, TablePreparation
from dpensemble.datasets.columns import number_columns
from dpensemble.engine.result import Result
from dpensemble.engine.voting_steps import PrivateDiagnostics
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.guarantee import Guarantee
from dpensemble.quality.areas import area_of_rows
from dpensemble.quality.figures import PlainValues
from dpensemble.quality.release import (
    MOST_BINS,
    WHOLE_UNIT,
    HeldRecords,
    Layout,
    NoisyHistograms,
    exact_total,
    public_edges,
    split_cells,
)
from dpensemble.quality.result import Costs, ReleasedQuality, decide, quality_of
from dpensemble.relations import Relation
from dpensemble.report import RunRecord
from dpensemble.rows.arguments import BAD, class_ids_or_bad, readable_array, readable_rows, zeroes_bad
from dpensemble.rows.source import RowSource, converted_source
from dpensemble.student.published import marked, release_mark, with_names
from dpensemble.workflow.column_kinds import group_places
from dpensemble.workflow.holdout import ASSUMPTIONS, positive_place
from dpensemble.workflow.tables import Tables


def require_budgets(model: Any, tables: Tables) -> PersonalBudgets | None:
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
    return personal_budgets(tables.budgets, delta=model.delta, levels=tables.levels, declared=tables.group_shares)


def _personal_fields(result: Result, personal: PersonalBudgets | None) -> dict[str, Any]:
    """Return the fields of a run's record about groups, or no fields if there is only one group."""
    if personal is None or not result.guarantee.groups:
        return {}
    records = np.bincount(personal.group_of_record, minlength=personal.n_groups).tolist()
    groups = []
    for index, stated in enumerate(result.guarantee.groups):
        settings = result.design.group_settings(index)
        del settings["share"]
        groups.append(
            {"name": stated.name, "budget": stated.budget, "epsilon": stated.epsilon, "records": records[index]}
            | settings
        )
    spend = [[count, list(epsilons)] for count, epsilons in result.spend or ()]
    # The length of a curve must not reveal a secret number of labels.
    most = result.labels.n_asked if result.guarantee.fixed_number else 1
    return {"groups": groups, "group_spend": spend} | result.design.plain_fields(most)


_MOST_COLUMNS_NAMED = 200


class Reader:
    """The conversion of every table for a method, and for the student in the saved pipeline.

    It learns only from the rows of `public`. Without rows, `public` only defines the kinds of declared columns.
    """

    def __init__(self, public: pd.DataFrame, model: Any, *, fill: bool) -> None:
        tabular, takes_nan = model.takes_tables, get_tags(model).input_tags.allow_nan
        if fill and tabular and takes_nan:
            raise InvalidParameterError(
                f"{model.name} accepts blanks, which is better than filling them in: leave out --fill.",
                parameter="fill",
            )
        how = None if not fill else "nan" if takes_nan else "median"
        self._public, self._tabular, self._takes_nan = public, tabular, takes_nan
        self._keep_bad = zeroes_bad(model)
        self._preparation = TablePreparation(how).fit(public) if len(public) else None
        self._encoder = None if tabular else TableEncoder(how).fit(public)
        self.blanks = {"median": "filled in from public rows", "nan": "filled in from public rows, NaN in numbers"}.get(
            how or "", "taken as they are" if tabular and takes_nan else "refused"
        )

    def transform(self, table: pd.DataFrame) -> Any:
        """Return rows in the form that the method takes."""
        if self._encoder is not None:
            return self._encoder.transform(table)
        # Most tables have no dates and need no copy.
        if self._preparation is None or self._preparation.changes_nothing:
            return table
        return self._preparation.transform(table)

    def private(self, table: pd.DataFrame) -> Any:
        """Return private rows for the method. For a method that takes arrays, a bad row becomes a row of NaN."""
        if self._encoder is None or self._preparation is None:
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
        return TableEncoder("median").fit(self._public)

    def before(self, student: Any) -> Pipeline:
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


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Measures of a run besides its result."""

    student: dict[str, float] | None = None
    baseline: dict[str, float] | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    has_score: bool = False
    has_baseline: bool = False


def run_record(
    result: Result, tables: Tables, reader: Reader, measured: Measured, personal: PersonalBudgets | None = None
) -> RunRecord:
    """Return the record of a run."""
    labels, budget = result.labels, max((g.budget for g in result.design.groups), key=lambda one: one.epsilon)
    groups = _personal_fields(result, personal)
    return RunRecord(
        method=result.design.name,
        guarantee=_stated(result, measured.has_score).to_dict(),
        budget={"epsilon": budget.epsilon, "delta": budget.delta},
        labels=len(labels),
        asked=labels.n_asked,
        label_accuracy=_label_accuracy(tables.y_public, labels.indices, labels.labels),
        student=measured.student,
        baseline=measured.baseline,
        # A run with groups has a curve for each group instead.
        worst_case_spend=[] if groups or not result.voted else _worst_case_spend(result),
        effects=_in_declared_order(result.effects, list(result.classes), tables.classes),
        data=_describe(tables, result.n_features, reader) | _about_fit(result) | measured.facts,
        settings=_settings(result, tables),
        versions=_versions(),
        seconds={stage: round(value, 3) for stage, value in measured.seconds.items()},
        experiment=_reasons(result, tables, measured.has_baseline),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        releases=[asdict(one) for one in result.releases],
        **groups,
    )


def _in_declared_order(effects: list[dict[str, Any]], present: list[Any], declared: list[Any]) -> list[dict[str, Any]]:
    """Return effects on classes in the order of the declared classes, which the record uses."""
    places = [present.index(label) for label in declared]

    def moved(values: list[float]) -> list[float]:
        if len(places) > 2:
            return [values[place] for place in places]
        # Two classes have only the second logit. The first is its negative.
        return values if places == [0, 1] else [-value for value in values]

    in_order = []
    for one in effects:
        changed = one | {"points": [[name, moved(values)] for name, values in one["points"]]}
        if "deviations" in one:
            changed["deviations"] = [list(map(abs, moved(values))) for values in one["deviations"]]
        in_order.append(changed)
    return in_order


def _stated(result: Result, has_score: bool) -> Guarantee:
    """Return the guarantee, with the assumptions of a score if there is one. Its epsilon and delta cover both."""
    stated = result.guarantee
    if not has_score:
        return stated
    more = [text for text in ASSUMPTIONS if text not in stated.assumptions]
    return replace(stated, assumptions=(*stated.assumptions, *more))


def _label_accuracy(truth: pd.Series | None, rows: Any, labels: Any) -> float | None:
    return None if truth is None else float(np.mean(truth.to_numpy()[rows] == labels))


def _worst_case_spend(result: Result) -> list[list[float]]:
    """Return the data-independent spend up to the answered labels or, if their number is secret, up to the budget."""
    # The curve of a gated run counts queries, since unanswered queries cost something too.
    curve, design = result.spend, result.design
    if curve is None:
        most = result.labels.n_asked if result.guarantee.fixed_number else design.meter().sure_queries
        curve = design.spend_curve(most)
    return [[count, epsilon] for count, (epsilon,) in curve]


def _describe(tables: Tables, n_features: int, reader: Reader) -> dict[str, Any]:
    owners = tables.public_units
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
        **({} if owners is None else {"public_units": len(number_units(owners)[0])}),
    }


def _about_fit(result: Result) -> dict[str, Any]:
    """Return facts about a result: which class the areas refer to, and a warning about public rows."""
    facts: dict[str, Any] = {}
    if len(result.classes) == 2:
        facts["positive_class"] = str(result.classes[1])
    drift, readable = result.drift, result.readable_share
    if drift is not None:
        facts["public_rows_unlike"] = drift.outcome
        if not drift.trusted:
            facts["unlike"] = drift.warning(replaced=bool(result.settings.get("synthetic_rows")))
    if readable is not None:
        facts |= {"readable_share": round(readable.share, 4), "readable_share_error": round(readable.error, 6)}
    return facts


def _settings(result: Result, tables: Tables) -> dict[str, Any]:
    """Return the settings as plain values: those of the design, of randomness and of the learners."""
    settings = dict(result.settings)
    if result.recommendation is not None:
        settings["chosen_because"] = result.recommendation.why
    if tables.group_shares is not None:
        settings["group_shares"] = dict(tables.group_shares)
    return {name: _plain(value) for name, value in (settings | result.learners).items()}


def _majority_share(tables: Tables) -> float | None:
    """Return the accuracy of always giving the test rows' most common label."""
    return None if tables.y_test is None else float(tables.y_test.value_counts(normalize=True).max())


def _plain(value: Any) -> Any:
    """Return a setting in a form that JSON can hold."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return value if value is None or isinstance(value, (bool, int, float, str)) else " ".join(repr(value).split())


def _versions() -> dict[str, str]:
    packages = ("dpensemble", "numpy", "scipy", "scikit-learn", "pandas", "joblib")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


def _reasons(result: Result, tables: Tables, baseline: bool) -> list[str]:
    reasons = {
        "A baseline without privacy was trained on the private records.": baseline,
        "The noise came from a seed, so it can be removed.": not result.guarantee.for_release,
        "Budgets were assigned to records at random, not by consent.": tables.budgets_at_random,
        "The private records are a published data set, split for demonstration.": tables.data_is_public,
    }
    return [reason for reason, holds in reasons.items() if holds]


_GROUP_BINS = 10


class Fitted(Protocol):
    """A fitted estimator."""

    classes_: NDArray[np.generic]

    def predict_proba(self, X: object) -> Floats:
        """Return probabilities, shape (n_rows, n_classes)."""


@dataclass(frozen=True, slots=True)
class QualityRequest:
    """What is asked about quality: the share of units to hold back, costs of wrong decisions, the positive class."""

    share: float | None
    costs: Costs | None
    positive_class: str | None

    def check(self, tables: Tables) -> None:
        """Raise for a request that these tables cannot serve."""
        positive_place(tables.classes, self.positive_class, self.costs)
        if tables.groups and self.share is None and tables.X_test is None:
            raise InvalidParameterError(
                "groups require held-back units or test rows: give holdout_score, such as 0.2, or test rows.",
                parameter="groups",
            )
        for name, rows, entries in (
            ("private", tables.X_private, tables.private_groups),
            ("test", tables.X_test, tables.test_groups),
        ):
            columns = rows if entries is None else entries
            missing = [] if columns is None else [column for column in tables.groups or () if column not in columns]
            if missing:
                raise DataError(f"groups={missing[0]!r} is not a column of the {name} table: add it, or leave it out.")


def quality_facts(
    tables: Tables, fitted: Fitted, reader: Reader, asked: QualityRequest, released: NoisyHistograms | None
) -> PlainValues:
    """Return the entries of a record's data: the released quality, the quality on test rows, and the decision."""
    facts: PlainValues = {}
    decision = None
    if released is not None:
        quality = quality_of(released, asked.costs)
        facts |= {"released_score": quality.to_dict(), "held_back": released.layout.n_units}
        decision = quality.decision
    elif asked.costs is not None:
        positive = str(fitted.classes_[positive_place(tables.classes, asked.positive_class, asked.costs)])
        decision = decide(asked.costs, positive, None, None, 0.0)
    if decision is not None:
        facts["decision"] = decision.to_dict()
    if tables.X_test is not None and tables.y_test is not None:
        facts["test_quality"] = _on_test_rows(tables, tables.X_test, fitted, reader, asked).to_dict()
    return facts


def _on_test_rows(
    tables: Tables, X_test: pd.DataFrame, fitted: Fitted, reader: Reader, asked: QualityRequest
) -> ReleasedQuality:
    """Return the quality on test rows, without noise. The guarantee does not cover it."""
    classes = fitted.classes_
    probable = fitted.predict_proba(reader.transform(X_test))
    n_rows = len(probable)
    required = (0.5,) if asked.costs is None else (0.5, asked.costs.threshold)
    layout = Layout(
        classes=tuple(map(str, classes)),
        positive=positive_place(tables.classes, asked.positive_class, asked.costs),
        groups=tables.groups or {},
        n_units=n_rows,
        bins=MOST_BINS,
        group_bins=_GROUP_BINS,
        epsilon=0.0,
        delta=0.0,
    )
    edges = public_edges(layout, probable, required)
    entries = X_test if tables.test_groups is None else tables.test_groups
    truth = class_ids_or_bad(classes, np.asarray(tables.y_test))
    records = HeldRecords(
        probabilities=probable,
        truth=truth,
        groups={column: group_places(entries[column], values) for column, values in layout.groups.items()},
        unit_of=np.arange(n_rows),
        n_units=n_rows,
        usable=truth != BAD,
    )
    cells = split_cells(layout, exact_total(layout, edges, records) / WHOLE_UNIT)
    exact = NoisyHistograms(layout=layout, edges=edges, cells=cells, sigma=0.0, epsilon=0.0, delta=0.0)
    areas = {
        name: area_of_rows(column[truth == place], column[(truth != place) & (truth != BAD)])
        for place, (name, column) in enumerate(zip(layout.classes, probable.T, strict=True))
    }
    return quality_of(exact, asked.costs, areas)


# Shares of teachers above which a warning is given.
_MANY_FAILED, _MOST_CONSTANT = 0.1, 0.5
# A baseline is accurate enough with this many rows.
_MOST_ROWS, _FOLDS = 5_000, 3


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


def public_alone(reader: Reader, tables: Tables) -> dict[str, Any]:
    """Return how good a model of only the public labels is, if there are labels. It uses no private record."""
    if tables.y_public is None or tables.data_is_public:
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


def about_teachers(diagnostics: PrivateDiagnostics, n_teachers: int | None) -> tuple[str, ...]:
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
