"""``dpensemble check``: what a run would read, and how many private records are bad.

The counts are exact, for the owner only, before anything is charged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import typer

from dpensemble._checks import shown, split_names
from dpensemble._entries import Rows
from dpensemble._files import is_pipe, pipes_kept
from dpensemble._hide_private_rows import guard_private_rows
from dpensemble._units import named_units
from dpensemble._work import progress_on_stderr
from dpensemble.cli.options import parts_of
from dpensemble.datasets import CSVFormat, TablePreparation
from dpensemble.datasets.columns import EqualRows, as_text, number_columns
from dpensemble.datasets.formats import entry_rules
from dpensemble.datasets.public_facts import ids_of_two_forms
from dpensemble.errors import InvalidParameterError
from dpensemble.moments.maps.grid import declared_grid
from dpensemble.rows.arguments import readable_rows
from dpensemble.workflow.table_files import ReadOptions, TableFiles, Workers
from dpensemble.workflow.tables import Tables, file_tables
from dpensemble.workflow.targets import DeclaredTimes, parsed_range


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """Exact counts of private records. They are for the owner only and must never be published.

    A record is bad, and adds nothing, if its label is missing or not declared, if an entry is infinite, or if its unit
    is missing. A missing or unreadable entry makes a record bad only for methods that take no blanks. `missing_entries`
    holds the counts of all columns with missing entries. `unlike_entries` holds those of all columns with numbers
    beyond the public or declared range, or with categories that neither public rows nor the declaration have. A model
    reads them as an end of the range or as any other category. `columns` states how each column is read, `notes` what
    is suspicious about public facts, and `classes` the declared classes of the column `target`. `declared` is whether
    columns are declared in place of public rows. A public row equals a record if all features do (see `EqualRows`).
    `layouts` states for each CSV file how it is read. `units` is the number of units, and `ids_of_two_forms`, of a
    table in memory, how many ids are written as 7.0 although another id is 7. For a number, `without_class` counts
    targets that are not finite, and `below_range` and `above_range` numbers outside the range. They are None for
    classes. For times until an event there are no classes, and `without_class` counts records without a declared code
    or a time.
    """

    records: int
    bad: int
    without_class: int
    infinite: int
    incomplete: int
    without_unit: int
    missing_entries: dict[str, int]
    classes: list[object]
    columns: dict[str, str]
    notes: list[str]
    target: str
    declared: bool
    public_rows: int = 0
    public_rows_equal_to_records: int | None = None
    more_than_chance: bool = False
    layouts: dict[str, str] = field(default_factory=dict)
    units: int | None = None
    ids_of_two_forms: int = 0
    below_range: int | None = None
    above_range: int | None = None
    unlike_entries: dict[str, int] = field(default_factory=dict)

    @property
    def what_is_missing(self) -> str:
        """What a record with a wrong target lacks."""
        if self.below_range is not None:
            return "finite number"
        return "declared class" if self.classes else "declared code and time from 0"

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as plain values."""
        return asdict(self)

    def in_words(self) -> list[str]:
        """Return the counts in lines for the owner."""
        return _lines(self)


@guard_private_rows()
def checked(files: TableFiles, *, blanks: bool = True, workers: Workers | None = None) -> Checked:
    """Count the bad records of a private table. Without `blanks`, a record with a missing entry is bad, too."""
    tables = file_tables(files, ReadOptions(blanks=True, takes_blocks=True, on_bad_record="zero", workers=workers))
    predicted = tables.predicted
    if tables.stream is not None:
        units = tables.stream.units
        present = np.ones(tables.n_records, dtype=bool) if units is None else units >= 0
    else:
        present = np.ones(tables.n_records, dtype=bool) if tables.units is None else named_units(tables.units)[1]
    blocks = (
        [(tables.X_private, predicted.as_given(tables.y_private))] if tables.stream is None else tables.stream.read()
    )
    counts = {"without_class": 0, "infinite": 0, "incomplete": 0, "bad": 0}
    beyond = {"below_range": 0, "above_range": 0}
    missing = pd.Series(0, index=tables.X_public.columns)
    equal = EqualRows(tables.X_public)
    public = tables.X_public
    reader = TablePreparation(**tables.entries.settings()).fit(public) if len(public) else None
    unlike = _UnlikeEntries.of_public(reader, public) if reader else _UnlikeEntries.of_declared(tables.declared_columns)
    start = 0
    for table, labels in blocks:
        equal.add(table)
        undeclared = predicted.wrong(labels)
        if predicted.number is not None:
            for name, count in zip(beyond, predicted.number.beyond(labels), strict=True):
                beyond[name] += count
        infinite = ~readable_rows(table)[1]
        blank = table.isna() if reader is None else reader.blank_entries(table)
        missing += blank.sum()
        unlike.add(table)
        incomplete = blank.to_numpy().any(axis=1)
        lost = ~present[start : start + len(table)]
        bad = undeclared | infinite | lost | (incomplete & (not blanks))
        for name, which in zip(counts, (undeclared, infinite, incomplete, bad), strict=True):
            counts[name] += int(which.sum())
        start += len(table)
    return Checked(
        records=tables.n_records,
        without_unit=int((~present).sum()),
        classes=list(tables.classes),
        columns=_column_words(tables),
        **({} if predicted.number is None else beyond),
        target=files.target,
        declared=tables.declared_columns is not None,
        notes=[note.text for note in tables.notes],
        missing_entries={str(name): int(number) for name, number in missing.items() if number},
        unlike_entries={name: number for name, number in unlike.counts.items() if number},
        public_rows=equal.n_rows,
        public_rows_equal_to_records=equal.n_equal,
        more_than_chance=equal.beyond_chance,
        layouts=_layouts(files, tables),
        units=None if files.unit is None else tables.n_units,
        ids_of_two_forms=0 if tables.units is None else ids_of_two_forms(tables.units.tolist()),
        **counts,
    )


class _UnlikeEntries:
    """Counts the entries of each column that are beyond a range, or in no list of categories.

    `known` has the ends of the range of each column of numbers, and the categories of each column of texts. `reader`
    turns entries into them.
    """

    def __init__(
        self, known: Mapping[str, tuple[float, float] | frozenset[str]], reader: TablePreparation | None = None
    ) -> None:
        self._known, self._reader = known, reader
        self.counts = dict.fromkeys(known, 0)

    @classmethod
    def of_declared(cls, columns: Mapping[str, Rows] | None) -> _UnlikeEntries:
        """Compare with declared columns."""
        grid = declared_grid(columns).empty
        numbers = dict(zip(grid.columns, number_columns(grid), strict=True))
        return cls(
            {
                str(name): (float(one[0]), float(one[-1])) if numbers[name] else _categories(one)
                for name, one in (columns or {}).items()
            }
        )

    @classmethod
    def of_public(cls, reader: TablePreparation, public: pd.DataFrame) -> _UnlikeEntries:
        """Compare with public rows."""
        table = reader.transform(public)
        numbers = number_columns(table)
        return cls(
            {
                str(name): (float(column.min()), float(column.max())) if is_number else _categories(column.dropna())
                for (name, column), is_number in zip(table.items(), numbers, strict=True)
            },
            reader,
        )

    def add(self, table: pd.DataFrame) -> None:
        """Count the entries of one block."""
        if self._reader is not None:
            table = self._reader.transform(table)
        for name, known in self._known.items():
            if isinstance(known, frozenset):
                texts = as_text(table[name])
                unlike = texts.notna() & ~texts.isin(known)
            else:
                unlike = (table[name] < known[0]) | (table[name] > known[1])
            self.counts[name] += int(unlike.sum())


def _categories(entries: Iterable[object]) -> frozenset[str]:
    return frozenset(as_text(pd.Series(list(entries), dtype=object)))


def _layouts(files: TableFiles, tables: Tables) -> dict[str, str]:
    """Return in words how each CSV file is read, and what decided it."""
    columns = list(tables.declared_columns or tables.X_public.columns)
    like = files.expected_like_public(columns)
    layouts = {"public": files.layout(files.public, files.named_columns(), public=True)}
    for place, path in enumerate(files.all_private):
        name = "private" if not files.more_private else f"private {place + 1}"
        layouts[name] = files.layout(path, like) if is_pipe(path) or path.exists() else None
    return {name: layout.words(files.form.sep) for name, layout in layouts.items() if layout is not None}


def _column_words(tables: Tables) -> dict[str, str]:
    """Return in words how each column is read, and the target if it has no classes."""
    words = dict(tables.columns) or _declared_words(tables.declared_columns or {})
    if tables.times is not None:
        return words | tables.times.words()
    return words if tables.number is None else words | {tables.number.column: tables.number.words()}


def _declared_words(columns: Mapping[str, Sequence[object]]) -> dict[str, str]:
    """Return in words how declared columns are read."""
    grid = declared_grid(columns).empty
    numbers = dict(zip(grid.columns, number_columns(grid), strict=True))
    return {
        str(name): f"number from {one[0]} to {one[1]}" if numbers[name] else f"category, one of {len(one)}"
        for name, one in columns.items()
    }


_CHANCE = ", which is more than chance: public rows are not protected, so give rows of other people"
_TWO_FORMS = (
    "ids are written as 7.0 although another id is 7, AND COUNT AS TWO UNITS, so one person would be protected as two: "
    "write each id alike."
)
# A share of records without a declared class that is hardly an accident.
_REMARKABLE = 0.05


def run(
    private: Sequence[str],
    public: Path | None,
    target: str | None,
    classes: str | None,
    range: str | None,
    time: str | None,
    event: str | None,
    censored: str | None,
    competing: str | None,
    bins: str | None,
    declared_columns: Path | None,
    unit: str | None,
    drop: str | None,
    column: list[str] | None,
    blank: list[str] | None,
    below_limit: str | None,
    sep: str | None,
    decimal: str | None,
    multiline_text: bool,
    skip_lines: int | None,
    sheet: str | None,
    no_blanks: bool,
    as_json: bool,
) -> None:
    """Show how columns are read, and count the bad records of a private table. The counts are for the owner only."""
    entries = entry_rules(column, blank, below_limit, declared=declared_columns is not None)
    times = None
    if time is not None and event is not None and bins is not None and target is None:
        times = DeclaredTimes.of_options(time, event, bins, censored=censored, competing=competing)
        target = times.event
    elif target is None or any(one is not None for one in (time, event, censored, competing, bins)):
        raise InvalidParameterError("give --target, or --time, --event and --bins in place of it.", parameter="target")
    files = TableFiles(
        private=Path(private[0]),
        more_private=[Path(one) for one in private[1:]],
        public=public,
        target=target,
        classes=split_names(classes) if classes is not None else None if times is None else times.codes,
        number=None if range is None else parsed_range(range),
        times=times,
        declared_columns=declared_columns,
        unit=unit,
        drop=(*(parts_of(drop) or ()), *entries.dropped),
        form=CSVFormat(sep, decimal, multiline_text, skip_lines, sheet),
        entries=entries,
    )
    Workers.refuse_several_sources(private)
    with (
        pipes_kept(),
        progress_on_stderr("Checking records"),
        Workers.opened_source(private[0]) as source,
        Workers.opened(files.private, source) as workers,
    ):
        counts = checked(files, blanks=not no_blanks, workers=workers)
    typer.echo(json.dumps(counts.to_dict(), indent=2) if as_json else "\n".join(counts.in_words()))


def _lines(counts: Checked) -> list[str]:
    lines = [
        "For you only: these counts are exact, so do not publish them.",
        f"{counts.records:,} records: {counts.bad:,} of them are bad and add nothing to a release.",
        f"  {counts.without_class:,} have no {counts.what_is_missing}{_share_without_class(counts)}",
        f"  {counts.infinite:,} have an infinite entry",
        f"  {counts.without_unit:,} have no unit",
        f"  {counts.incomplete:,} have a missing or unreadable entry",
    ]
    lines += [f"    {name}: {number:,} missing or unreadable" for name, number in counts.missing_entries.items()]
    lines += _unlike_lines(counts)
    if counts.below_range is not None and counts.above_range is not None:
        lines.append(
            f"{counts.below_range:,} numbers are below --range, and {counts.above_range:,} above it; they count as its "
            f"ends{_share_beyond(counts, counts.below_range + counts.above_range)}"
        )
    if counts.units is not None:
        lines.append(f"The records are of {counts.units:,} units.")
    if counts.ids_of_two_forms:
        lines.append(f"{counts.ids_of_two_forms:,} {_TWO_FORMS}")
    if counts.public_rows:
        lines.append(
            f"{counts.public_rows_equal_to_records:,} of {counts.public_rows:,} public rows equal a record in every "
            f"feature{_CHANCE if counts.more_than_chance else ''}."
        )
    lines += [f"{name} file: {words}" for name, words in counts.layouts.items()]
    if counts.bad == counts.records:
        number = counts.below_range is not None
        options = "--range, --target" if number else "--classes, --target" if counts.classes else "--event, --time"
        lines.append(f"Every record is bad: compare {options} and the columns with the file.")
    lines.append(f"Columns, as {'they are declared' if counts.declared else 'public rows show them'}:")
    lines += [f"  {name} ({kind})" for name, kind in counts.columns.items()]
    if counts.declared:
        lines.append("There are no public rows to judge the declared columns by.")
    lines += [f"Note: {note}" for note in counts.notes]
    return lines


# A share of entries beyond the range of public rows that is hardly chance.
_UNLIKE = 0.01


def _unlike_lines(counts: Checked) -> list[str]:
    """Return a line for each column with entries that declarations, or public rows, do not lead one to expect."""
    whose, least, compare = "declared", 1.0, "correct --declared-columns"
    if not counts.declared:
        whose, least, compare = "public", _UNLIKE * counts.records, "compare both tables"
    lines = []
    for name, number in counts.unlike_entries.items():
        loud = f", SO A MODEL CAN LEARN LITTLE FROM THE COLUMN: {compare}" if 2 * number >= counts.records else ""
        if number >= least:
            lines.append(f"  {number:,} have an entry of {name} beyond the {whose} range or categories{loud}")
    return lines


def _share_beyond(counts: Checked, number: int) -> str:
    """Return a loud remark if many numbers are beyond the range."""
    if number < _REMARKABLE * counts.records:
        return "."
    return (
        f": {100 * number / counts.records:.3g} % OF ALL, SO PREDICTIONS ARE WRONG FOR THEM; declare a wider --range."
    )


def _share_without_class(counts: Checked) -> str:
    """Return a loud remark if many records have no declared class."""
    share = counts.without_class / counts.records
    if share < _REMARKABLE:
        return ""
    if counts.below_range is not None:
        return (
            f": {100 * share:.3g} % of all, WHICH A RUN WOULD PAY FOR WITHOUT LEARNING FROM THEM; declare how numbers "
            f"are written, such as --column '{counts.target}=money:$1,234.5'"
        )
    if not counts.classes:
        return (
            f": {100 * share:.3g} % of all, WHICH A RUN WOULD PAY FOR WITHOUT LEARNING FROM THEM; compare --event and "
            "--time with the columns of the file"
        )
    return (
        f": {100 * share:.3g} % of all, WHICH A RUN WOULD PAY FOR WITHOUT LEARNING FROM THEM; the declared classes are "
        f"{shown(counts.classes)}, so compare them with column {counts.target!r} of the file"
    )
