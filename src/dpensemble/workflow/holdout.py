"""Private units that are held back from training, and the released quality of the student on them.

The fit and the score together are one charge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble._checks import real_between
from dpensemble._entries import Floats, Integers, Rows
from dpensemble._hide_private_rows import guard_private_rows
from dpensemble._random import Stream, noise_source, public_entropy, seed_integer, seed_sequence
from dpensemble._spending import Spending, announce
from dpensemble.allocation.partition import number_units, units_or_none
from dpensemble.errors import BudgetError, DataError, InvalidParameterError
from dpensemble.quality.release import (
    HeldRecords,
    Layout,
    NoisyHistograms,
    exact_total,
    plan_layout,
    public_edges,
    quality_cost,
    release_histograms,
)
from dpensemble.quality.result import Costs
from dpensemble.relations import Relation
from dpensemble.rows.arguments import BAD, class_ids_or_bad, sorted_classes
from dpensemble.workflow.column_kinds import group_places
from dpensemble.workflow.tables import Tables

_FEWEST = 20
# A figure needs no more units or records than this. Each unit is read separately.
_MOST_UNITS, _MOST_RECORDS = 5_000, 100_000
ASSUMPTIONS = (
    "Which units (or records) are held back follows from their places in the private table and a public seed. The "
    "model learns nothing from them, and only a noisy histogram of the released student's probabilities for them is "
    "published.",
    "Neighbouring data sets list their units in the same order, each by its first record.",
)


@dataclass(frozen=True, eq=False)
class HeldBack:
    """Private records that are not used for training, never to be published, and the public cells for them.

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


def positive_place(classes: Sequence[object], positive_class: str | None, costs: Costs | None) -> int:
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
class Choice:
    """Which units are held back, and the public cells for them. `unit_of` is -1 for a record without a unit.

    With `by_unit` a column names the units. Otherwise each record is a unit.
    """

    unit_of: Integers
    by_unit: bool
    chosen: NDArray[np.bool_]
    layout: Layout
    required: tuple[float, ...]

    @property
    def held(self) -> NDArray[np.bool_]:
        """Whether each record is held back."""
        return self.chosen[self.unit_of] & (self.unit_of >= 0)


def choose(
    tables: Tables, model: Any, share: float, *, costs: Costs | None = None, positive_class: str | None = None
) -> Choice:
    """Choose the units to hold back by their places and the public seed, and the cells that the budget supports."""
    share = real_between("holdout_score", share, 0.0, 0.5)
    settings = model.get_params(deep=False)
    _require_possible(tables, model.name, settings | {"analysis": model.analysis})
    positive = positive_place(tables.classes, positive_class, costs)
    unit_of, by_unit = _numbers(tables)
    n_units = int(unit_of.max()) + 1
    n_held = min(int(share * n_units), _MOST_UNITS if by_unit else _MOST_RECORDS)
    if n_held < _FEWEST:
        raise InvalidParameterError(
            f"holdout_score={share:g} of {n_units:,} would hold back {n_held}, which is too few for a score: hold "
            f"back at least {_FEWEST}."
        )
    required = (0.5,) if costs is None else (0.5, costs.threshold)
    layout = plan_layout(
        _class_names(tables.classes),
        n_held,
        settings["epsilon"],
        settings["delta"],
        positive=positive,
        groups=tables.groups,
        required=len(set(required)),
    )
    seed = seed_sequence(public_entropy(model.random_state), Stream.SPLIT)
    chosen = np.zeros(n_units, dtype=bool)
    chosen[np.random.default_rng(seed).permutation(n_units)[:n_held]] = True
    return Choice(unit_of, by_unit, chosen, layout, required)


def hold_back(
    tables: Tables, model: Any, share: float, *, costs: Costs | None = None, positive_class: str | None = None
) -> tuple[Tables, HeldBack]:
    """Divide the private records into training and scoring records. `choose` describes the arguments."""
    choice = choose(tables, model, share, costs=costs, positive_class=positive_class)
    held = choice.held
    if tables.stream is not None:
        stream, rows = tables.stream.divided(held)
        X, y, entries, rest = rows.rows, pd.Series(rows.labels), rows.groups, replace(tables, stream=stream)
    else:
        X, y = tables.X_private[held], tables.y_private[held]
        entries = (tables.X_private if tables.private_groups is None else tables.private_groups)[held]
        rest = _part(tables, ~held)
    back = HeldBack(
        X=X,
        y=y,
        unit_of=np.unique(choice.unit_of[held], return_inverse=True)[1],
        n_units=int(choice.chosen.sum()),
        by_unit=choice.by_unit,
        groups={column: group_places(entries[column], values) for column, values in (tables.groups or {}).items()},
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
    return replace(fit, find_cost=lambda: quality_cost(fit.epsilon, fit.delta))


# What `Reader.held_back` does: rows for the student, and which of them are readable.
_Read = Callable[[pd.DataFrame], tuple[Rows, NDArray[np.bool_]]]


@guard_private_rows()
def require_scorable(held: HeldBack, read: _Read, classes: Sequence[object]) -> None:
    """Raise for a held-back record that a fit would refuse, because the score comes after the charge.

    For runs whose bad records raise errors.
    """
    known = sorted_classes(classes)
    if (class_ids_or_bad(known, held.y.to_numpy()) == BAD).any():
        raise DataError("a held-back record has a label that is not among classes: declare every possible label.")
    try:
        read(held.X)
    except DataError as error:
        raise DataError(f"among the held-back records, {error}") from None


@guard_private_rows()
def scored(model: Any, held: HeldBack, read: Any, public: Any, paid: WithScore | None = None) -> NoisyHistograms:
    """Release histograms of a fitted model on held-back records, at the epsilon and delta of the model's guarantee."""
    stated, classes = model.result_.guarantee, model.result_.classes
    if paid is not None:
        paid.require_paid(stated.epsilon, stated.delta)
    # Without public rows, bins do not depend on the model.
    expected = None if public is None else model.predict_proba(public)
    layout = replace(held.layout, epsilon=stated.epsilon, delta=stated.delta)
    if expected is not None and len(expected):
        layout = layout.for_shares(expected.mean(axis=0).tolist(), len(set(held.required)))
    edges = public_edges(layout, expected, held.required)
    layout = edges.fitted(layout)
    probable, readable = _probabilities(model, held, read)
    ids = class_ids_or_bad(classes, held.y.to_numpy())
    records = HeldRecords(
        probabilities=probable,
        truth=np.maximum(ids, 0),
        groups=held.groups,
        unit_of=held.unit_of,
        n_units=held.n_units,
        # A record with an undeclared label adds nothing, or was refused by `require_scorable`.
        usable=(ids != BAD) & readable,
    )
    total = exact_total(layout, edges, records)
    seed = model.insecure_release_seed
    noise = noise_source(None if seed is None else seed_integer(seed, Stream.SPLIT))
    announce(model.result_.design.groups)
    return release_histograms(layout, edges, total, noise)


def _probabilities(model: Any, held: HeldBack, read: Any) -> tuple[Floats, Any]:
    if not held.by_unit:
        rows, readable = read(held.X)
        return model.predict_proba(rows), readable
    # With more or fewer rows before them, the results of other units' rows could differ in the last digit.
    probabilities, readable = np.empty((len(held.X), len(model.result_.classes))), np.empty(len(held.X), dtype=bool)
    order = np.argsort(held.unit_of, kind="stable")
    for places in np.split(order, np.flatnonzero(np.diff(held.unit_of[order])) + 1):
        rows, readable[places] = read(held.X.iloc[places])
        probabilities[places] = model.predict_proba(rows)
    return probabilities, readable
