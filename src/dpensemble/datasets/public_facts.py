"""What public facts show to be a mistake, judged before anything is charged. No private entry is read.

`judge` is the one place for this. `train`, `check` and the service call it once for the settings and once more for the
public rows. Estimators judge what they get by the same parts: `declared_classes` for their classes, and
`warn_of_columns` for their public rows.

To add a check, write a function of `PublicFacts` that raises an error or yields notes, and add the function to
`_CHECKS`. A check is silent if its facts are not known yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from dpensemble._checks import shown
from dpensemble.allocation.partition import number_units
from dpensemble.datasets.notes import Note, table_notes
from dpensemble.datasets.number_like import percent, quoted
from dpensemble.datasets.preparation import TablePreparation
from dpensemble.errors import DataError, InvalidParameterError

_MOST = 0.5


@dataclass(frozen=True, eq=False, kw_only=True)
class PublicFacts:
    """Public facts of a run. What is not known yet is None.

    `purposes` has the column of each purpose, such as ``{"unit": "patient"}``. `groups` are columns of groups, and
    `drop` columns to leave out. `labels` has two columns for each public table with the target: labels as they are
    written, and in the form of the classes. `rows` are public rows as they are learned from, without rows if columns
    are declared. `units` has the unit of each of these rows if the public table has that column.
    """

    classes: Sequence[object]
    target: str
    purposes: Mapping[str, str | None] = field(default_factory=dict)
    groups: Sequence[str] = ()
    drop: Sequence[str] = ()
    labels: Mapping[str, tuple[pd.Series, pd.Series]] = field(default_factory=dict)
    rows: pd.DataFrame | None = None
    units: Sequence[object] | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """How each column is read, in words, and notes on what is suspicious. Both may be published."""

    columns: Mapping[str, str]
    notes: tuple[Note, ...]


def judge(facts: PublicFacts) -> Judgement:
    """Return how columns are read, and notes. Raise if a setting or a public table shows that a run is a mistake."""
    notes = [note for check in _CHECKS for note in check(facts)]
    if facts.rows is None or not len(facts.rows):
        return Judgement({}, tuple(notes))
    preparation = TablePreparation().fit(facts.rows)
    n_units = None if facts.units is None else len(number_units(facts.units)[0])
    notes += table_notes(facts.rows, preparation, has_unit=facts.purposes.get("unit") is not None, n_units=n_units)
    return Judgement(preparation.words(), tuple(notes))


def ids_of_two_forms(ids: Sequence[object]) -> int:
    """Return how many ids are written as 7.0 although another id is written as 7. They are two ids of two units."""
    texts = {one.strip() for one in ids if isinstance(one, str)}
    return sum(whole in texts for one in texts if (whole := re.sub(r"\.0+$", "", one)) != one)


def _ids_have_one_form(facts: PublicFacts) -> Iterator[Note]:
    if number := ids_of_two_forms(facts.units or ()):
        unit = str(facts.purposes["unit"])
        yield Note(
            unit,
            f"column {unit!r} of the public table has {number:,} ids in two forms, such as 7 and 7.0, which count as "
            "two units: write each id alike, in the private table too.",
        )


def _columns_have_one_purpose(facts: PublicFacts) -> Iterator[Note]:
    contents = {"unit": "identifies whose record it is", "budgets": "holds the budgets"}
    for purpose, column in facts.purposes.items():
        if column == facts.target:
            raise InvalidParameterError(
                f"{purpose}={column!r} is also the target: name the column that {contents[purpose]}.",
                parameter=purpose,
            )
    others = {column: purpose for purpose, column in facts.purposes.items() if column is not None}
    if len(others) < sum(column is not None for column in facts.purposes.values()):
        column = facts.purposes["budgets"]
        raise InvalidParameterError(f"budgets={column!r} is also the unit: name another column.", parameter="budgets")
    for column in facts.groups:
        if column == facts.target or column in others:
            raise InvalidParameterError(
                f"groups={column!r} is also the target, the unit or the column of budgets: name another column.",
                parameter="groups",
            )
    yield from ()


def _no_needed_column_is_dropped(facts: PublicFacts) -> Iterator[Note]:
    for purpose, column in {"target": facts.target, **facts.purposes}.items():
        if column in facts.drop:
            raise InvalidParameterError(
                f"drop={column!r} is also the {purpose}, which every record needs: leave the column out of drop.",
                parameter="drop",
            )
    yield from ()


def _public_labels_are_declared(facts: PublicFacts) -> Iterator[Note]:
    for name, (written, read) in facts.labels.items():
        present = written.notna().to_numpy()
        declared = read.isin(facts.classes).to_numpy()
        share = declared.sum() / max(present.sum(), 1)
        if not present.any() or share == 1:
            continue
        others = written[present & ~declared].astype(str).value_counts()
        what = (
            f"{percent(1 - share)} of the labels in column {facts.target!r} of the {name} table are not among "
            f"classes={shown(list(facts.classes))}: {quoted(others)}"
        )
        if share < _MOST:
            raise DataError(
                f"{what}; declare every possible label as it is written, or leave the column out of the {name} table."
            )
        yield Note(facts.target, f"{what}; declare every possible label, if these are labels.")


#: What `judge` tries, in this order.
_CHECKS = (
    _columns_have_one_purpose,
    _no_needed_column_is_dropped,
    _public_labels_are_declared,
    _ids_have_one_form,
)
