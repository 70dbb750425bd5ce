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
from dpensemble._entries import Floats, Rows
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
from dpensemble.methods.life_table import LifeTable
from dpensemble.moments.maps.grid import declared_grid
from dpensemble.rows.arguments import Owners, readable_rows
from dpensemble.workflow.life_tables import CountsOfTimes, DeclaredLifeTable, life_table_rows_of
from dpensemble.workflow.table_files import ReadOptions, TableFiles, Workers
from dpensemble.workflow.tables import Tables, file_tables
from dpensemble.workflow.targets import DeclaredTimes, TimesTarget, parsed_range


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
    classes. `quantiles` are its 5 %, 50 % and 95 % quantiles. For times until an event there are no classes,
    `without_class` counts records without a declared code or a time, and `times` has counts of both apart.
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
    quantiles: list[float] | None = None
    times: CountsOfTimes | None = None

    @property
    def columns_are_read(self) -> bool:
        """Whether features are read. A life table has none."""
        return self.times is None or not self.declared

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as plain values."""
        return asdict(self)

    def in_words(self) -> list[str]:
        """Return the counts in lines for the owner."""
        return _lines(self)


@guard_private_rows()
def checked(
    files: TableFiles,
    *,
    blanks: bool = True,
    workers: Workers | None = None,
    life_table: DeclaredLifeTable | None = None,
) -> Checked:
    """Count the bad records of a private table, or of a `life_table`, whose events and censorings are counted, too.

    Without `blanks`, a record with a missing entry is bad.
    """
    if life_table is not None:
        return _checked_life_table(files, life_table, workers)
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
    numbers: list[Floats] = []
    times = None if files.times is None else CountsOfTimes.counting(LifeTable(**files.times.settings))
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
            numbers.append(np.asarray(labels, dtype=np.float64))
            for name, count in zip(beyond, predicted.number.beyond(labels), strict=True):
                beyond[name] += count
        if times is not None:
            times.add(labels)
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
        quantiles=CountsOfTimes.quantiles_of(np.concatenate(numbers)) if numbers else None,
        times=None if times is None else times.counts(Owners.of(None, start, zeroes=True)),
        **counts,
    )


def _checked_life_table(files: TableFiles, declared: DeclaredLifeTable, workers: Workers | None) -> Checked:
    """Count the bad records of a life table, and its events and censorings, as `lifetable` reads the files."""
    # Declarations are judged before anything is read.
    declared.model()
    tables = life_table_rows_of(files, declared, workers)
    bad, times = CountsOfTimes.of_tables(tables, declared)
    read = TimesTarget(declared, files.entries).shown_by(None)
    strata = {name: f"a stratum: {', '.join(values)}" for name, values in declared.strata.items()}
    return Checked(
        records=tables.n_records,
        bad=bad["bad"],
        without_class=bad["without_class"],
        infinite=0,
        incomplete=0,
        without_unit=bad["without_unit"],
        missing_entries={},
        classes=[],
        columns=read.words() | strata,
        notes=[note.text for note in tables.notes],
        target=files.target,
        declared=True,
        layouts=_layouts(files, tables),
        units=None if files.unit is None else tables.n_units,
        ids_of_two_forms=0 if tables.units is None else ids_of_two_forms(tables.units.tolist()),
        times=times,
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
    strata: list[str] | None,
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
    times = _declared_times(time, event, bins, censored, competing, strata) if target is None else None
    if times is None and any(one is not None for one in (time, event, censored, competing, bins, strata)):
        raise InvalidParameterError(f"--target {target} and --time exclude each other: {_TARGETS}", parameter="target")
    for_life_table = times is not None and public is None and declared_columns is None
    if for_life_table:
        _refuse_features(classes=classes, range=range, drop=drop, below_limit=below_limit, no_blanks=no_blanks or None)
    elif strata is not None:
        raise InvalidParameterError(
            "--strata is for life tables, which have no public rows: leave --strata or --public out.",
            parameter="strata",
        )
    elif public is None and declared_columns is None:
        raise InvalidParameterError(
            "--public or --declared-columns must be given: public rows, or a declaration, show how columns are read.",
            parameter="public",
        )
    entries = entry_rules(column, blank, below_limit, declared=declared_columns is not None)
    files = TableFiles(
        private=Path(private[0]),
        more_private=[Path(one) for one in private[1:]],
        public=public,
        target=str(target) if times is None else times.event,
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
        life_table = times if for_life_table else None
        counts = checked(files, blanks=not no_blanks, workers=workers, life_table=life_table)
    typer.echo(json.dumps(counts.to_dict(), indent=2) if as_json else "\n".join(counts.in_words()))


_TARGETS = "give --target, or --time, --event and --bins in place of it."


def _declared_times(
    time: str | None,
    event: str | None,
    bins: str | None,
    censored: str | None,
    competing: str | None,
    strata: list[str] | None,
) -> DeclaredLifeTable:
    """Return what options declare about times, and about strata if there are any."""
    if time is None or event is None or bins is None:
        raise InvalidParameterError(_TARGETS, parameter="target")
    declared = DeclaredTimes.of_options(time, event, bins, censored=censored, competing=competing)
    return DeclaredLifeTable(**vars(declared), strata=DeclaredLifeTable.strata_of(strata or ()))


def _refuse_features(**given: object) -> None:
    """Raise for options about features, which a life table does not read."""
    for name, value in given.items():
        if value is not None:
            option = f"--{name.replace('_', '-')}"
            raise InvalidParameterError(
                f"{option} is not for a life table, which reads times, codes, strata and units only: leave it out, or "
                "give --public for risks.",
                parameter=name,
            )


def _lines(counts: Checked) -> list[str]:
    lines = [
        "For you only: these counts are exact, so do not publish them.",
        f"{counts.records:,} records: {counts.bad:,} of them are bad and add nothing to a release.",
        *_target_lines(counts),
    ]
    if counts.columns_are_read:
        lines += [f"  {counts.infinite:,} have an infinite entry"]
    lines += [f"  {counts.without_unit:,} have no unit"]
    if counts.columns_are_read:
        lines += [f"  {counts.incomplete:,} have a missing or unreadable entry", *_missing_lines(counts)]
    lines += _unlike_lines(counts)
    if counts.below_range is not None and counts.above_range is not None:
        lines.append(
            f"{counts.below_range:,} numbers are below --range, and {counts.above_range:,} above it; they count as its "
            f"ends{_share_beyond(counts, counts.below_range + counts.above_range)}"
        )
        lines += _quantile_lines("numbers", counts.quantiles)
    if counts.times is not None:
        lines += _times_lines(counts, counts.times)
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
    if counts.declared and counts.columns_are_read:
        lines.append("There are no public rows to judge the declared columns by.")
    lines += [f"Note: {note}" for note in counts.notes]
    return lines


def _target_lines(counts: Checked) -> list[str]:
    """Return how many records lack a target, and what else they lack in a life table."""
    times, paid = counts.times, "WHICH A RUN WOULD PAY FOR WITHOUT LEARNING FROM THEM"
    if times is None:
        what = "declared class" if counts.below_range is None else "finite number"
        return [f"  {counts.without_class:,} have no {what}{_share_without_class(counts)}"]

    def line(number: int, what: str, advice: str) -> str:
        share = number / counts.records
        loud = "" if share < _REMARKABLE else f": {100 * share:.3g} % of all, {paid}; {advice}"
        return f"  {number:,} have no {what}{loud}"

    without_time = times.without_time + times.negative_times
    return [
        line(
            times.without_code,
            "declared code",
            f"column {counts.target!r} of the file is blank or has other codes than --event, --censored and "
            "--competing declare",
        ),
        line(
            without_time,
            f"time from 0 ({times.without_time:,} missing or not a number, {times.negative_times:,} negative)",
            "dates, and texts with a unit such as 44 d, cannot be read: write plain numbers, or compare --time with "
            "the columns of the file",
        ),
        *(
            line(number, f"declared value of {name}", f"compare --strata with column {name!r} of the file")
            for name, number in times.without_stratum.items()
        ),
    ]


def _missing_lines(counts: Checked) -> list[str]:
    """Return a line for each column with missing entries, a loud one if they are most."""
    loud = (
        f", SO A MODEL CAN LEARN LITTLE FROM THE COLUMN: compare the column with "
        f"{'--declared-columns' if counts.declared else 'public rows'}, such as its unit and how numbers are written"
    )
    return [
        f"    {name}: {number:,} missing or unreadable{loud if 2 * number > counts.records else ''}"
        for name, number in counts.missing_entries.items()
    ]


def _quantile_lines(what: str, quantiles: list[float] | None) -> list[str]:
    if quantiles is None:
        return []
    low, middle, high = (f"{one:,.6g}" for one in quantiles)
    return [f"5 % of the {what} are up to {low}, half are up to {middle}, and 95 % are up to {high}."]


def _times_lines(counts: Checked, times: CountsOfTimes) -> list[str]:
    """Return what times are like, and a table of events and censorings."""
    lines = _quantile_lines("times", times.quantiles)
    ends = [one["until"] for one in times.bins if one["until"] is not None]
    share = times.after_last_bin / max(times.readable_times, 1)
    loud = ": ARE TIMES IN THE UNIT OF --bins?" if 2 * times.after_last_bin > times.readable_times else "."
    lines.append(f"{times.after_last_bin:,} times ({100 * share:.3g} %) are after the last bin, {ends[-1]:g}{loud}")
    if times.ends_without_event:
        lines.append(
            f"NO EVENT IS IN {len(times.ends_without_event)} OF {len(dict.fromkeys(ends))} BINS, such as the one until "
            f"{times.ends_without_event[0]:g}: are times in the unit of --bins, and codes those of --event?"
        )
    whose = "records" if counts.units is None or not counts.declared else "units, by their first event"
    lines.append(f"Events and censorings of {whose}:")
    kinds = ["events"] if len(times.kinds) == 1 else [f"{counts.target} {name}" for name in times.kinds]
    rows = [["stratum", "until", *kinds, "censored"]]
    for one in times.bins:
        until = "later" if one["until"] is None else f"{one['until']:g}"
        rows.append([one["stratum"], until, *(f"{number:,.10g}" for number in (*one["events"], one["censored"]))])
    if not times.bins[0]["stratum"]:
        rows = [row[1:] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines += ["  " + "  ".join(map(str.rjust, row, widths)) for row in rows]
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
    return (
        f": {100 * share:.3g} % of all, WHICH A RUN WOULD PAY FOR WITHOUT LEARNING FROM THEM; the declared classes are "
        f"{shown(counts.classes)}, so compare them with column {counts.target!r} of the file"
    )
