"""The quality of the student: released with noise on private units that are held back, and exact on test rows.

The fit and the score on held-back units together are one charge.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble._checks import real_between
from dpensemble._entries import Floats, Integers, Rows
from dpensemble._hide_private_rows import guard_private_rows
from dpensemble._random import NoiseSource, Stream, noise_source, public_entropy, seed_integer, seed_sequence
from dpensemble._spending import Spending, announce
from dpensemble._units import number_units, units_or_none
from dpensemble.errors import BudgetError, DataError, InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.methods.life_table import LifeTable
from dpensemble.moments.survival import cells_of_times
from dpensemble.quality.figures import PlainValues
from dpensemble.quality.release import HeldRecords, Layout, NoisyHistograms, release_meter
from dpensemble.quality.result import Costs, ReleasedQuality
from dpensemble.quality.times import NoisyTimes, TimesLayout
from dpensemble.relations import Relation
from dpensemble.report.record import declared_noun, unit_noun
from dpensemble.rows.arguments import BAD, class_ids_or_bad, sorted_classes, zeroes_bad
from dpensemble.workflow.tables import Tables
from dpensemble.workflow.targets import EVENT, TIME

_FEWEST = 20
# A figure needs no more units or records than this. Each unit is read separately.
_MOST_UNITS, _MOST_RECORDS = 5_000, 100_000
_PLACES = (
    "Which units (or records) are held back follows from their places in the private table and a public seed. The "
    "model learns nothing from them, and only a noisy histogram of the released student's {} for them is published."
)
_ORDER = "Neighbouring data sets list their units in the same order, each by its first record."
_ASSUMPTIONS = (_PLACES.format("probabilities"), _ORDER)


# What `Reader.held_back` does: rows for the student, and which of them are readable.
_Read = Callable[[pd.DataFrame], tuple[Rows, NDArray[np.bool_]]]


class HeldBack(ABC):
    """Private records that are not used for training, never to be published, and the public cells for them."""

    #: What the guarantee of a score assumes.
    assumptions: tuple[str, ...] = _ASSUMPTIONS

    @abstractmethod
    def require_scorable(self, read: _Read, classes: Sequence[object]) -> None:
        """Raise for a held-back record that a fit would refuse, because the score comes after the charge.

        For runs whose bad records raise errors.
        """

    @abstractmethod
    def released(self, model: Rows, read: _Read, public: Rows, noise: NoiseSource) -> Rows:
        """Release histograms of a fitted model, at the epsilon and delta of the model's guarantee."""


@dataclass(frozen=True, eq=False)
class _HeldLabels(HeldBack):
    """Records with labels.

    `groups` has the place of each record's group in each column. `required` are thresholds that must be edges of bins.
    """

    X: pd.DataFrame
    y: pd.Series
    unit_of: Integers
    n_units: int
    by_unit: bool
    groups: dict[str, Integers]
    layout: Layout
    required: tuple[float, ...]

    @guard_private_rows()
    def require_scorable(self, read: _Read, classes: Sequence[object]) -> None:
        """Raise for a label that is not declared, or a row that cannot be read."""
        known = sorted_classes(classes)
        if (class_ids_or_bad(known, self.y.to_numpy()) == BAD).any():
            raise DataError("a held-back record has a label that is not among classes: declare every possible label.")
        try:
            read(self.X)
        except DataError as error:
            raise DataError(f"among the held-back records, {error}") from None

    def released(self, model: Rows, read: _Read, public: Rows, noise: NoiseSource) -> NoisyHistograms:
        """Release the histograms of probabilities, decisions and groups."""
        stated, classes = model.result_.guarantee, model.result_.classes
        # Without public rows, bins do not depend on the model.
        expected = None if public is None else model.predict_proba(public)
        layout = replace(self.layout, epsilon=stated.epsilon, delta=stated.delta)
        if expected is not None and len(expected):
            layout = layout.for_shares(expected.mean(axis=0).tolist(), len(set(self.required)))
        edges = layout.edges(expected, self.required)
        layout = edges.fitted(layout)
        probable, readable = probabilities_of(model, self.X, self.unit_of if self.by_unit else None, read)
        ids = class_ids_or_bad(classes, self.y.to_numpy())
        records = HeldRecords(
            probabilities=probable,
            truth=np.maximum(ids, 0),
            groups=self.groups,
            unit_of=self.unit_of,
            n_units=self.n_units,
            # A record with an undeclared label adds nothing, or was refused by `require_scorable`.
            usable=(ids != BAD) & readable,
        )
        total = records.exact_total(layout, edges)
        announce(model.result_.design.groups)
        return layout.release(edges, total, noise)


@dataclass(frozen=True, eq=False)
class _HeldTimes(HeldBack):
    """Records with times until an event: one of each unit, in the order of units.

    It is the record of the unit's first event, or without events that of the last time.
    """

    X: pd.DataFrame
    cells: Integers
    layout: TimesLayout
    assumptions = (_PLACES.format("risks"), _ORDER)

    @classmethod
    @guard_private_rows()
    def of(cls, model: Rows, X: pd.DataFrame, y: Rows, unit_of: Integers, layout: TimesLayout) -> _HeldTimes:
        """Return one record of each unit, and the place of its end, `BAD` for a record that cannot be read."""
        declared = LifeTable(model.bins, events=model.events, censored=model.censored, competing=model.competing)
        times = declared.checked_rows(y[TIME], y[EVENT])
        until, good = times.table["time"].to_numpy(), times.targets != BAD
        kinds = np.where(good, times.targets, 0)
        # Bytes of ranks are in order of their numbers.
        first, second = times.ranks.view(">u8").T
        order = np.lexsort((second, first, unit_of))
        rows = order[np.unique(unit_of[order], return_index=True)[1]]
        own = np.minimum(kinds[rows], layout.n_kinds)
        cells = cells_of_times(np.array(layout.ends), until[rows], own, n_events=layout.n_kinds)
        return cls(X.iloc[rows].reset_index(drop=True), np.where(good[rows], cells, BAD), layout)

    def require_scorable(self, read: _Read, classes: Sequence[object]) -> None:
        """Do nothing: a bad record with times adds zeros."""

    def released(self, model: Rows, read: _Read, public: Rows, noise: NoiseSource) -> NoisyTimes:
        """Release the histogram of risks by time and kind of the end."""
        stated = model.result_.guarantee
        layout = replace(self.layout, epsilon=stated.epsilon, delta=stated.delta)
        chances = model.student_[-1].predict_cells(model.student_[:-1].transform(public), layout.ends)
        groups = layout.groups(model.predict_risk(public, layout.ends), chances)
        # Each unit has one row at a place of its own, so no unit's risk depends on the rows of others.
        rows, readable = read(self.X)
        own = model.predict_risk(rows, layout.ends[-1])
        total = layout.exact_total(groups, own, np.where(readable, self.cells, BAD))
        announce(model.result_.design.groups)
        return layout.release(groups, total, noise)


def _positive_place(classes: Sequence[object], positive_class: str | None, costs: Costs | None) -> int:
    """Return the place of the positive class among the sorted classes: by default the last of two."""
    names = _class_names(classes)
    if len(names) != 2:
        for name, given in (("costs", costs), ("positive_class", positive_class)):
            if given is not None:
                raise InvalidParameterError(
                    f"{name} requires two classes, and there are {len(names)}: leave it out.", parameter=name
                )
        return 0
    if positive_class is None:
        return 1
    if str(positive_class) not in names:
        raise InvalidParameterError(
            f"positive_class={positive_class!r} is not a declared class: use {names[0]!r} or {names[1]!r}.",
            parameter="positive_class",
        )
    return names.index(str(positive_class))


def _class_names(classes: Sequence[object]) -> tuple[str, ...]:
    return tuple(str(label) for label in sorted_classes(classes))


@dataclass(frozen=True, eq=False)
class _Choice:
    """Which units are held back, and the public cells for them. `unit_of` is -1 for a record without a unit.

    With `by_unit` a column names the units. Otherwise each record is a unit.
    """

    unit_of: Integers
    by_unit: bool
    chosen: NDArray[np.bool_]
    #: A `Layout`, or a `TimesLayout` for times.
    layout: Rows
    required: tuple[float, ...]

    @property
    def held(self) -> NDArray[np.bool_]:
        """Whether each record is held back."""
        return self.chosen[self.unit_of] & (self.unit_of >= 0)


def _choose(
    tables: Tables, model: Any, share: float, *, costs: Costs | None = None, positive_class: str | None = None
) -> _Choice:
    """Choose the units to hold back by their places and the public seed, and the cells that the budget supports."""
    share = real_between("holdout_score", share, 0.0, 0.5)
    settings = model.get_params(deep=False)
    _require_possible(tables, model.name, settings | {"analysis": model.analysis})
    unit_of, by_unit = _numbers(tables)
    n_units = int(unit_of.max()) + 1
    n_held = min(int(share * n_units), _MOST_UNITS if by_unit else _MOST_RECORDS)
    if n_held < _FEWEST:
        raise InvalidParameterError(
            f"holdout_score={share:g} of {n_units:,} would hold back {n_held}, which is too few for a score: hold "
            f"back at least {_FEWEST}."
        )
    required = (0.5,) if costs is None else (0.5, costs.threshold)
    # That of the fit, which counts the units that are not held back.
    n_public = None if by_unit and zeroes_bad(model) else n_units - n_held
    cost = settings["epsilon"], Budget.of(settings["epsilon"], settings["delta"], n_public).delta
    layout: Layout | TimesLayout
    if tables.times is None:
        layout = Layout.planned(
            _class_names(tables.classes),
            n_held,
            *cost,
            positive=_positive_place(tables.classes, positive_class, costs),
            groups=tables.groups,
            required=len(set(required)),
        )
    else:
        declared = tables.times.declared
        n_kinds = 2 if len(declared.competing) else 1
        layout = TimesLayout.planned(declared.bins, declared.shown_times, n_kinds, n_held, *cost)
    seed = seed_sequence(public_entropy(model.random_state), Stream.SPLIT)
    chosen = np.zeros(n_units, dtype=bool)
    chosen[np.random.default_rng(seed).permutation(n_units)[:n_held]] = True
    return _Choice(unit_of, by_unit, chosen, layout, required)


def hold_back(
    tables: Tables, model: Any, share: float, *, costs: Costs | None = None, positive_class: str | None = None
) -> tuple[Tables, HeldBack]:
    """Divide the private records into training and scoring records. `_choose` describes the arguments."""
    choice = _choose(tables, model, share, costs=costs, positive_class=positive_class)
    held = choice.held
    if tables.stream is not None:
        stream, rows = tables.stream.divided(held)
        y = rows.labels if tables.times is not None else pd.Series(rows.labels)
        X, entries, rest = rows.rows, rows.groups, replace(tables, stream=stream)
    else:
        X, y = tables.X_private[held], tables.y_private[held]
        entries = (tables.X_private if tables.private_groups is None else tables.private_groups)[held]
        rest = _part(tables, ~held)
    unit_of = np.unique(choice.unit_of[held], return_inverse=True)[1]
    if tables.times is not None:
        return rest, _HeldTimes.of(model, X, y, unit_of, choice.layout)
    back = _HeldLabels(
        X=X,
        y=y,
        unit_of=unit_of,
        n_units=int(choice.chosen.sum()),
        by_unit=choice.by_unit,
        groups=tables.group_places(entries),
        layout=choice.layout,
        required=choice.required,
    )
    return rest, back


def _numbers(tables: Tables) -> tuple[Integers, bool]:
    """Return the number of each record's unit in order of first appearance, and whether a column names the units."""
    if tables.stream is not None:
        units = tables.stream.units
        if units is not None and units.max() < 0:
            raise DataError("units is missing for every record: give the owner of each record, or leave units out.")
        return (np.arange(tables.n_records), False) if units is None else (units, True)
    if tables.units is None:
        return np.arange(tables.n_records), False
    # In `fit`, a record without a unit adds nothing or raises an error.
    names, present = units_or_none(tables.units)
    numbers = np.full(len(present), -1, dtype=np.int64)
    numbers[present] = number_units(names[present])[1]
    return numbers, True


def _require_possible(tables: Tables, name: str, settings: Mapping[str, object]) -> None:
    if settings["relation"] != Relation.REPLACE_ONE:
        raise InvalidParameterError(
            "holdout_score requires relation='replace-one', in which places are public: set it."
        )
    if settings["analysis"] != "worst-case":
        raise InvalidParameterError("holdout_score requires analysis='worst-case', whose epsilon is public: set it.")
    if tables.budgets is not None:
        raise InvalidParameterError(
            "holdout_score cannot be used when records have their own budgets: give test rows (--test) instead."
        )
    if tables.stream is not None and tables.stream.placed is None:
        raise InvalidParameterError(
            "holdout_score requires records with fixed places, which a database or a table of Spark does not give: "
            "write the private table as .parquet, or give test rows (--test) instead."
        )
    if not {"epsilon", "delta"} <= set(settings):
        raise InvalidParameterError(
            f"holdout_score requires a method with epsilon and delta, which {name} has not: give test rows "
            "(--test) instead."
        )


def _part(tables: Tables, which: NDArray[np.bool_]) -> Tables:
    """Return the tables with some of their private records."""
    groups = tables.private_groups
    return replace(
        tables,
        X_private=tables.X_private[which].reset_index(drop=True),
        y_private=tables.y_private[which].reset_index(drop=True),
        units=None if tables.units is None else tables.units[which],
        private_groups=None if groups is None else groups[which].reset_index(drop=True),
    )


class WithScore:
    """An account that is charged for a fit and its score together, before either is drawn.

    The place of a unit decides whether the unit is used for the fit or for the score. So a replaced unit changes either
    the fit, whose score is then computed as before, or only the score. Together they cost the larger of both, for each
    Renyi order and as a trade-off (parallel composition: F. McSherry, SIGMOD 2009, Theorem 4).
    """

    def __init__(self, ledger: Any) -> None:
        self._ledger = ledger
        self._paid: list[Spending] = []

    def one_release(self, what: str) -> Callable[[Sequence[Spending]], None]:
        """Return the function that charges one fit and its score."""
        charge = self._ledger.one_release(f"{what} and its score")

        def both(spendings: Sequence[Spending]) -> None:
            # Of several spendings on one account, the ledger takes the largest.
            charge([*spendings, *(_score_of(one) for one in spendings)])
            self._paid.extend(spendings)

        return both

    def require_paid(self, epsilon: float, delta: float) -> None:
        """Raise unless a single charge of the fit covers the score. Charges of parts are not added up."""
        if not any(epsilon <= one.epsilon and delta <= one.delta for one in self._paid):
            raise BudgetError(
                f"holdout_score: a score at epsilon={epsilon:g}, delta={delta:g} was not charged to the ledger, "
                "because the fit was charged in parts; leave it out."
            )


def _score_of(fit: Spending) -> Spending:
    return replace(fit, find_cost=lambda: release_meter(fit.epsilon, fit.delta).renyi_costs()[0])


@guard_private_rows()
def scored(model: Rows, held: HeldBack, read: _Read, public: Rows, paid: WithScore | None = None) -> Rows:
    """Release histograms of a fitted model on held-back records, at the epsilon and delta of the model's guarantee."""
    stated, seed = model.result_.guarantee, model.insecure_release_seed
    if paid is not None:
        paid.require_paid(stated.epsilon, stated.delta)
    return held.released(model, read, public, noise_source(None if seed is None else seed_integer(seed, Stream.SPLIT)))


def probabilities_of(
    model: Rows, X: pd.DataFrame, unit_of: Integers | None, read: _Read
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return probabilities of held-back rows, and which rows are readable. `unit_of` names the units, if there are any.

    Private.
    """
    if unit_of is None:
        rows, readable = read(X)
        return model.predict_proba(rows), readable
    # With more or fewer rows before them, the results of other units' rows could differ in the last digit.
    probabilities, readable = np.empty((len(X), len(model.classes_))), np.empty(len(X), dtype=bool)
    order = np.argsort(unit_of, kind="stable")
    for places in np.split(order, np.flatnonzero(np.diff(unit_of[order])) + 1):
        rows, readable[places] = read(X.iloc[places])
        probabilities[places] = model.predict_proba(rows)
    return probabilities, readable


# Bins of the histograms of groups, without noise.
class _Fitted(Protocol):
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

    @classmethod
    def of(cls, share: float | None, costs: Mapping[str, float] | None, positive_class: str | None) -> QualityRequest:
        """Check the costs of wrong decisions, if there are any."""
        return cls(share, None if costs is None else Costs.of(costs), positive_class)

    def sentence_of_cells(self, tables: Tables, model: Any, unit_name: str | None) -> str | None:
        """State which cells the released quality has, or return None if no quality is released.

        Units are called `unit_name`, or by the name of their column.
        """
        if self.share is None:
            return None
        choice = _choose(tables, model, self.share, costs=self.costs, positive_class=self.positive_class)
        noun = None if unit_name is None else declared_noun(unit_name, tables.unit_column)
        return choice.layout.sentence(unit_noun("unit" if choice.by_unit else "record", tables.unit_column, noun))

    def _require_no_labels(self, groups: object, *, of_times: bool) -> None:
        """Raise for what is about labels, where none are predicted."""
        asked: dict[str, object] = {"costs": self.costs, "positive_class": self.positive_class}
        asked |= {} if of_times else {"holdout_score": self.share}
        for name, value in (asked | {"groups": groups or None}).items():
            if value is not None:
                raise InvalidParameterError(
                    f"{name} is about labels, and none are predicted: leave it out.",
                    parameter=name,
                )

    def divided(self, tables: Tables, model: Any, ledger: Any) -> tuple[Tables, HeldBack | None, Any]:
        """Return the tables to train on, the held-back records, and an account that is charged for fit and score."""
        if self.share is None:
            return tables, None, ledger
        teaching, held = hold_back(tables, model, self.share, costs=self.costs, positive_class=self.positive_class)
        return teaching, held, None if ledger is None else WithScore(ledger)

    def check(self, tables: Tables) -> None:
        """Raise for a request that these tables cannot serve."""
        if not tables.classes:
            self._require_no_labels(tables.groups, of_times=tables.times is not None)
            return
        _positive_place(tables.classes, self.positive_class, self.costs)
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
    tables: Tables,
    fitted: _Fitted,
    read: Callable[[pd.DataFrame], Any],
    asked: QualityRequest,
    released: NoisyHistograms | None,
) -> PlainValues:
    """Return the entries of a record's data: the released quality, the quality on test rows, and the decision."""
    facts: PlainValues = {}
    decision = None
    if released is not None:
        quality = ReleasedQuality.of_histograms(released, asked.costs)
        facts |= {"released_score": quality.to_dict(), "held_back": released.layout.n_units}
        decision = quality.decision
    elif asked.costs is not None:
        positive = str(fitted.classes_[_positive_place(tables.classes, asked.positive_class, asked.costs)])
        decision = asked.costs.decision(positive)
    if decision is not None:
        facts["decision"] = decision.to_dict()
    if tables.X_test is not None and tables.y_test is not None:
        facts["test_quality"] = _on_test_rows(tables, tables.X_test, fitted, read, asked).to_dict()
    return facts


def _on_test_rows(
    tables: Tables, X_test: pd.DataFrame, fitted: _Fitted, read: Callable[[pd.DataFrame], Any], asked: QualityRequest
) -> ReleasedQuality:
    """Return the quality on test rows, without noise. The guarantee does not cover it."""
    classes = fitted.classes_
    probable = fitted.predict_proba(read(X_test))
    groups = tables.groups or {}
    entries = X_test if tables.test_groups is None else tables.test_groups
    truth = class_ids_or_bad(classes, np.asarray(tables.y_test))
    records = HeldRecords(
        probabilities=probable,
        truth=truth,
        groups=tables.group_places(entries),
        unit_of=np.arange(len(probable)),
        n_units=len(probable),
        usable=truth != BAD,
    )
    positive = _positive_place(tables.classes, asked.positive_class, asked.costs)
    return ReleasedQuality.of_rows(tuple(map(str, classes)), positive, groups, records, asked.costs)
