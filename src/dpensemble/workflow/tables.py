"""The tables of one run, read from files or given, after checks that they belong together.

The public table, or a declaration, defines columns, labels and groups of the private and test tables. Budgets of
records are a column of a table, or assigned at random in given shares.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble._checks import Label
from dpensemble._entries import SEVERAL_LABELS, Integers, Rows, is_table
from dpensemble._hide_private_rows import guard_private_rows
from dpensemble._random import Stream, public_entropy, seed_sequence
from dpensemble._units import named_units, number_units, units_or_none
from dpensemble.allocation.budget_groups import BudgetRequest, parse_budgets
from dpensemble.datasets import TablePreparation, load_adult, three_way_split
from dpensemble.datasets.arrow import ParquetTable, is_parquet
from dpensemble.datasets.columns import (
    as_text,
    is_number,
    labels_of,
    number_columns,
    release_unused,
    unit_entries,
)
from dpensemble.datasets.csv import Expected, is_csv
from dpensemble.datasets.formats import EntryRules
from dpensemble.datasets.public_facts import FactsToJudge, Note, judge
from dpensemble.datasets.tables import as_kinds, decimals_as_numbers, kinds_by, require_complete, take_kinds
from dpensemble.errors import DataError, InvalidParameterError, nearest
from dpensemble.moments.maps.grid import declared_grid, with_texts
from dpensemble.quality.release import OTHER_GROUP
from dpensemble.rows.arguments import OnBadRecord
from dpensemble.workflow.private_rows import PrivateStream
from dpensemble.workflow.table_files import ReadOptions, TableFiles, Workers, require_two_records
from dpensemble.workflow.targets import EVENT, TIME, ClassTarget, NumberTarget, Target, TimesTarget


@dataclass(frozen=True, eq=False)
class _ColumnKinds:
    """Public features, declared columns if there are any, the target, and what the method can read.

    `preparation` was fitted on the public rows, and knows how entries are written. None without public rows.
    """

    public: pd.DataFrame
    declared: dict[str, Any] | None
    target: Target
    options: ReadOptions
    preparation: TablePreparation | None = None

    def without_rows(self) -> _ColumnKinds:
        """Return the same kinds without public rows and workers, which conversions of other tables do not need."""
        return replace(self, public=self.public.iloc[:0], options=replace(self.options, workers=None))

    def features(self, name: str, table: pd.DataFrame) -> pd.DataFrame:
        """Return the table called `name` with the public or declared columns and kinds."""
        private = name == "private"
        keep_bad = private and self.options.keep_bad
        if self.preparation is not None:
            table = self.preparation.as_declared(table)
        if self.declared is None:
            return take_kinds(name, table, self.public, keep_bad=keep_bad, encoded=private)
        with kinds_by("--declared-columns"):
            table = with_texts(table, self.public)
            return take_kinds(name, table, self.public, keep_bad=keep_bad, encoded=private)

    def private_labels(self, column: pd.Series) -> pd.Series:
        """Return private labels in the form of the target, without any check."""
        return self.target.read_private(column, keep_bad=self.options.keep_bad)

    def labels_of_complete(self, features: pd.DataFrame, target: pd.Series, units: pd.Series | None) -> pd.Series:
        """Return the labels of private records, or raise if one of the records is incomplete."""
        require_complete("the private table", features, blanks=self.options.blanks, private=True)
        for name, column in (("target", target), ("unit", units)):
            if column is not None and column.isna().any():
                raise DataError(
                    f"the private table has rows without a {name} in column {column.name!r} (the first in row "
                    f"{int(column.isna().to_numpy().argmax()):,}, counting from 0), where the column is blank or "
                    f"written as NA, None or the like: fill in what is missing, or {_LEAVE_OUT[name]}."
                )
        require_two_records(features)
        labels = self.private_labels(target)
        self.target.require_private(labels)
        return labels


# What may be done with records without a target or a unit. To drop rows would change how many records there are.
_LEAVE_OUT = {
    "target": Target.leave_out,
    "unit": "leave such records out (--on-bad-record zero)",
}


@dataclass(frozen=True, eq=False)
class _RowsAndLabels:
    """Converts rows and labels as the public table defines them, and raises for incomplete records."""

    kinds: _ColumnKinds
    target: str

    @property
    def keep_bad(self) -> bool:
        """Whether bad records are kept."""
        return self.kinds.options.keep_bad

    def features(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return rows with the public columns and kinds."""
        return self.kinds.features("private", rows)

    def __call__(self, rows: pd.DataFrame, entries: Rows) -> tuple[pd.DataFrame, Rows]:
        # Columns that are read together are a table.
        entries = entries if is_table(entries) else pd.Series(entries, dtype=entries.dtype)
        kinds, keep_bad = self.kinds, self.keep_bad
        table = self.features(rows)
        if not keep_bad:
            require_complete("the private table", table, blanks=kinds.options.blanks, private=True)
            if entries.isna().any():
                raise DataError(
                    f"the private table has rows without a target in column {self.target!r}: fill in what is missing, "
                    f"or {_LEAVE_OUT['target']}."
                )
        labels = kinds.private_labels(entries)
        if not keep_bad:
            kinds.target.require_block(labels)
        return table, labels if is_table(labels) else labels_of(labels)


_MOST_GROUPS = 20


def _declared_groups(
    groups: Mapping[str, Sequence[str] | None], public: pd.DataFrame | None
) -> dict[str, tuple[str, ...]]:
    """Return the values of each group column, those of the public rows where none are declared. Checks all of them."""
    declared = {}
    for column, values in groups.items():
        if values is None and (public is None or column not in public):
            meant = "" if public is None else nearest(column, public.columns)
            declare = meant or f": declare its values, such as {column}=a|b."
            raise InvalidParameterError(
                f"groups={column!r} is not a column of the public table{declare}",
                parameter="groups",
            )
        if values is None and public is not None:
            values = sorted(set(as_text(public[column]).dropna()))  # noqa: PLW2901
        names = tuple(str(value) for value in values or ())
        if not 1 <= len(names) <= _MOST_GROUPS or len({_plain_text(name) for name in names}) < len(names):
            raise InvalidParameterError(
                f"groups={column!r} must have 1 to {_MOST_GROUPS} different values, and has {len(names):,}: declare "
                f"some of them, such as {column}=a|b.",
                parameter="groups",
            )
        if OTHER_GROUP in names:
            raise InvalidParameterError(
                f"groups={column!r} declares the value {OTHER_GROUP!r}, the group of all other values: leave it out.",
                parameter="groups",
            )
        declared[column] = names
    return declared


def _group_places(entries: pd.Series, values: Sequence[str]) -> Integers:
    """Return the place of each record's group, the last one for all other values. Each record is read separately."""
    place_of = {_plain_text(value): place for place, value in enumerate(values)}
    texts = as_text(entries)
    return np.array(
        [len(values) if pd.isna(text) else place_of.get(_plain_text(str(text)), len(values)) for text in texts],
        dtype=np.int64,
    )


def _plain_text(text: str) -> str:
    """Return a text without spaces around it, and a number in one form: 5.0 as 5."""
    text = text.strip()
    try:
        number = float(text)
    except ValueError:
        return text
    return f"{number:.12g}" if math.isfinite(number) else text


def _column_entries(column: pd.Series, request: BudgetRequest) -> NDArray[np.generic]:
    """Return the entries of a budgets column: names if there are levels, else numbers if the entries are numbers."""
    if request.levels is not None:
        return as_text(column).to_numpy(dtype=object)
    # Missing entries and non-numbers stay unchanged. They are refused later, with their row.
    return np.array([_number(entry) for entry in column.tolist()], dtype=object)


def _number(entry: object) -> object:
    try:
        return float(entry)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return entry


def _owners(units: NDArray[np.generic]) -> Integers:
    """Return the number of each record's unit. A record without a unit, which `fit` leaves out, has any number."""
    names, present = units_or_none(units)
    owners = np.zeros(len(present), dtype=np.int64)
    owners[present] = number_units(names[present])[1]
    return owners


def _assign_at_random(
    shares: dict[Any, float], n_records: int, units: NDArray[np.generic] | None, seed: int | None
) -> NDArray[np.generic]:
    """Deal levels (or epsilons) to records in the given shares, by position and a public seed."""
    # A record that replaces another keeps its place and budget, so this is for replace-one only. Units are numbered in
    # order of first appearance, as in an allocation.
    owners = np.arange(n_records) if units is None else _owners(units)
    size = int(owners.max()) + 1
    ends = np.floor(np.cumsum(list(shares.values())) * size + 0.5).astype(int)
    # Rounding of shares must not leave a record without a budget.
    ends[-1] = size
    dealt = np.searchsorted(ends, np.arange(size), side="right")
    generator = np.random.default_rng(seed_sequence(public_entropy(seed), Stream.CONSENT))
    entries = np.empty(len(shares), dtype=object)
    entries[:] = list(shares)
    budgets: NDArray[np.generic] = entries[generator.permutation(dealt)][owners]
    return budgets


@dataclass(frozen=True, eq=False, kw_only=True)
class Tables:
    """Private, public and test rows of one run.

    Public rows have the private columns' order, and their labels only score the released labels. If the data are
    packaged (`data_is_public`), figures without privacy reveal nothing. `budgets` holds the epsilon of each private
    record, or the name of its consent level. `levels` holds the epsilon of each level, and `group_shares` the public
    share of the records with each level. With `budgets_at_random`, budgets were dealt at random, not by consent. If
    private records are read in blocks (`stream`), ``X_private`` and ``y_private`` are empty. `public_units` holds the
    units of public rows, or None if they are unknown. `declared_columns` has the range or the categories of each column
    in a run without public rows. `number` is the target if a number is predicted, and `times` if times until an event
    are. Then there are no classes, and private targets of times are two columns. `groups` holds the declared values of
    each column by which the student's quality is
    stated. `private_groups` and `test_groups` hold these columns for private and test rows, if they are not features.
    `columns` states in words how each public column is read, and `notes` what is suspicious about it.
    """

    name: str
    classes: list[Any]
    X_private: pd.DataFrame
    y_private: pd.Series
    X_public: pd.DataFrame
    y_public: pd.Series | None = None
    X_test: pd.DataFrame | None = None
    y_test: pd.Series | None = None
    units: NDArray[Any] | None = None
    public_units: list[Any] | None = None
    data_is_public: bool = False
    test_is_public: bool = False
    unit_column: str | None = None
    budgets: NDArray[Any] | None = None
    levels: dict[str, float] | None = None
    group_shares: dict[Any, float] | None = None
    budgets_at_random: bool = False
    stream: PrivateStream | None = None
    notes: tuple[Note, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    declared_columns: dict[str, Any] | None = None
    entries: EntryRules = field(default_factory=EntryRules)
    target: str | None = None
    number: NumberTarget | None = None
    times: TimesTarget | None = None
    groups: dict[str, tuple[str, ...]] | None = None
    private_groups: pd.DataFrame | None = None
    test_groups: pd.DataFrame | None = None

    @property
    def predicted(self) -> Target:
        """What is predicted."""
        return self.times or self.number or ClassTarget(self.classes)

    @property
    def n_records(self) -> int:
        """Number of private records."""
        return len(self.X_private) if self.stream is None else self.stream.n_records

    def group_places(self, entries: pd.DataFrame) -> dict[str, Integers]:
        """Return the place of each record's group in each column by which the student's quality is stated."""
        return {column: _group_places(entries[column], values) for column, values in (self.groups or {}).items()}

    @property
    def n_units(self) -> int | None:
        """Number of units of the private records, or of records if each record is a unit. None if not known here."""
        if self.stream is not None:
            return self.stream.n_units
        if self.units is None:
            return len(self.X_private)
        names, present = named_units(self.units)
        return len(number_units(names[present])[0])


def adult_tables(
    seed: int | None,
    *,
    budgets: str | None = None,
    levels: str | None = None,
    groups: Mapping[str, Sequence[str] | None] | None = None,
) -> Tables:
    """Return UCI Adult in the paper's split: a third private, a third public, a third test.

    The public seed determines the split and the budgets, which are groups with shares. See `parse_budgets`. Packaged
    data have no column of budgets, so `levels` raise an error. `groups` are as in `TableFiles`.
    """
    request = parse_budgets(budgets, levels)
    if request is not None and request.column is not None:
        raise InvalidParameterError(
            f"budgets={request.column!r} would be a column, but packaged data have no column of budgets: give groups "
            'and shares, such as "0.7:50%,1.4:50%".'
        )
    adult = load_adult()
    split = three_way_split(len(adult.X), seed)
    parts = {
        name: (adult.X.iloc[rows].reset_index(drop=True), adult.y.iloc[rows].reset_index(drop=True))
        for name, rows in (("private", split.private), ("public", split.public), ("test", split.test))
    }
    tables = Tables(
        name=adult.name,
        classes=list(adult.classes),
        X_private=parts["private"][0],
        y_private=parts["private"][1],
        X_public=parts["public"][0],
        y_public=parts["public"][1],
        X_test=parts["test"][0],
        y_test=parts["test"][1],
        data_is_public=True,
        test_is_public=True,
        groups=_declared_groups(groups or {}, parts["public"][0]) or None,
    )
    return _with_budgets(tables, request, None, seed)


def _with_budgets(tables: Tables, request: BudgetRequest | None, entries: pd.Series | None, seed: int | None) -> Tables:
    """Return the tables with a budget for each private record, from a column or, without `entries`, dealt at random."""
    if request is None:
        return tables
    if entries is not None:
        epsilons = _column_entries(entries, request)
    else:
        epsilons = _assign_at_random(request.shares or {}, len(tables.X_private), tables.units, seed)
    return replace(
        tables,
        budgets=epsilons,
        levels=request.levels,
        group_shares=request.shares,
        budgets_at_random=entries is None,
    )


@guard_private_rows()
def file_tables(
    files: TableFiles,
    options: ReadOptions | None = None,
    *,
    budgets: BudgetRequest | None = None,
    seed: int | None = None,
) -> Tables:
    """Read and check the tables of one run.

    Parameters
    ----------
    files : TableFiles
        Paths of the tables.
    options : ReadOptions, optional
        What the method can read.
    budgets : BudgetRequest, optional
        Source of the records' budgets. See `parse_budgets`.
    seed : int, optional
        Public seed of budgets that are assigned at random.

    Raises
    ------
    FileError, DataError, InvalidParameterError
        With one sentence, if the tables cannot be used.
    """
    options = ReadOptions() if options is None else options
    budgets_column = None if budgets is None else budgets.column
    facts = _judged_options(files, budgets_column)
    written = _written_tables(files, options, budgets_column)
    public_units = _public_units(files, written.public)
    target, units, entries = _private_entries(files, written, budgets_column)
    no_features = [files.target, *written.private_only]
    public = _public_features(_without(written.public, no_features), options)
    of_target = written.public.get(files.target if files.time is None else files.time)
    predicted = files.predicted.shown_by(of_target)
    facts, truth = _with_public_labels(facts, of_target, predicted)
    judgement = judge(replace(facts, rows=public, units=public_units))
    kinds = _ColumnKinds(public, written.declared, predicted, options, judgement.preparation)
    records = _private_records(files, kinds, written, target, units)
    like, groups, private_groups = written.like, written.groups, written.private_groups
    # As read, entries are texts, which take several times as much memory as numbers.
    del written, target
    release_unused()
    test, unscored = _test_rows(files, kinds, no_features, groups, like)
    tables = Tables(
        **records,
        **test,
        **_public_fields(files, kinds),
        notes=(*judgement.notes, *unscored),
        columns=judgement.columns,
        y_public=truth,
        public_units=public_units,
        groups=groups or None,
        private_groups=private_groups,
    )
    return _with_budgets(tables, budgets, entries, seed)


@dataclass(frozen=True, eq=False)
class _DeclaredColumns:
    """Converts records that options declare: columns with declared values are rows, and codes and times are targets.

    A bad entry becomes a blank, and no record is refused. `shape` shows how times are written, as public rows do.
    """

    codes: Sequence[Label]
    time: str
    values: Mapping[str, Sequence[Label]]
    shape: pd.DataFrame
    preparation: TablePreparation
    keep_bad = True

    @classmethod
    def of(cls, files: TableFiles, time: str, values: Mapping[str, Sequence[Label]]) -> _DeclaredColumns:
        """Return the conversion that options declare."""
        form, declared = files.entries.form(time), files.entries.kind(time) is not None
        shape = pd.DataFrame({time: [form or "1"] if declared else [1.0]})
        preparation = TablePreparation(**files.entries.settings()).fit(shape)
        return cls(files.labels, time, values, shape, preparation)

    def features(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return columns with declared values as these are compared."""
        columns = {name: ClassTarget(own).read(rows[name]) for name, own in self.values.items()}
        return pd.DataFrame(columns, index=rows.index)

    def __call__(self, rows: pd.DataFrame, entries: Rows) -> tuple[pd.DataFrame, Rows]:
        """Return these columns, and codes and times. Entries are a column of each."""
        column = self.preparation.as_declared(entries.iloc[:, [1]])
        times = self.preparation.transform(take_kinds("private", column, self.shape, keep_bad=True, encoded=True))
        codes = ClassTarget(self.codes).read(entries.iloc[:, 0])
        return self.features(rows), pd.DataFrame({EVENT: codes, TIME: times[self.time]})


@guard_private_rows()
def declared_tables(
    files: TableFiles, time: str, values: Mapping[str, Sequence[Label]], workers: Workers | None = None
) -> Tables:
    """Read private records without public rows. Options declare codes, times and values of other columns.

    Columns that no option names are left out. A bad entry becomes a blank, and no record is refused. Folders, large
    files and what `workers` read are a stream, whose rows are the columns with declared values.

    Parameters
    ----------
    files : TableFiles
        Paths of the tables. The target's classes are declared, and `files.times` has the columns.
    time : str
        Column of the times. It is read as `files.entries` declare.
    values : mapping of str to sequence
        Declared values of further columns. Their entries are read as labels are.
    workers : Workers, optional
        As for `ReadOptions`.

    Raises
    ------
    FileError, DataError, InvalidParameterError
        With one sentence, if the tables cannot be used.
    """
    options = ReadOptions(on_bad_record=OnBadRecord.ZERO, takes_blocks=True, workers=workers)
    files.require_possible(options)
    purposes, conversion = _purposes(files, time, values), _DeclaredColumns.of(files, time, values)
    if workers is not None:
        workers.require_possible(files.private)
    if workers is not None or (not files.more_private and options.reads_in_blocks(files.private)):
        return _declared_stream(files, conversion, purposes, workers)
    named = files.named_columns()
    names = frozenset((*named.names, time, *values))
    _require_types(files, time)
    written = files.read_private(
        keep_broken=True, like=replace(named, names=names, required=names, whose="the options")
    )
    _require_purposes(purposes, written.columns)
    used = {name: written[name] for name, _ in purposes}
    require_two_records(written)
    named_only = pd.DataFrame(used)
    features, targets = conversion(named_only, named_only[[files.target, time]])
    features.insert(0, time, targets[TIME])
    return Tables(
        name=files.name,
        classes=files.labels,
        X_private=features,
        y_private=targets[EVENT],
        X_public=features.iloc[:0],
        units=None if files.unit is None else unit_entries(used[files.unit]),
        unit_column=files.unit,
        entries=files.entries,
        target=files.target,
    )


def _declared_stream(
    files: TableFiles, conversion: _DeclaredColumns, purposes: Sequence[tuple[str, str]], workers: Workers | None
) -> Tables:
    """Return private records that options declare as a stream."""
    columns = files.private_columns(workers)
    _require_purposes(purposes, columns)
    # Only columns that are named are read.
    unused = tuple(name for name in columns if name not in dict(purposes))
    nothing = pd.DataFrame(columns=list(conversion.values))
    return Tables(
        name=files.name if workers is None or workers.source is None else workers.source.name,
        classes=files.labels,
        X_private=nothing,
        y_private=pd.Series([], dtype=object),
        X_public=nothing,
        stream=PrivateStream.of(replace(files, drop=unused), conversion, workers),
        unit_column=files.unit,
        entries=files.entries,
        target=files.target,
    )


def _require_purposes(purposes: Sequence[tuple[str, str]], columns: Iterable[str]) -> None:
    """Raise if the private table lacks a column that an option names."""
    known = set(columns)
    for name, what in purposes:
        if name not in known:
            # The table's own names are not shown: without a header, they would be a record.
            raise DataError(f"{what}={name!r} is not a column of the private table: name one of its columns.")


def _purposes(files: TableFiles, number: str, values: Iterable[str]) -> list[tuple[str, str]]:
    """Return each column that options name, and the option. Raise if a column has two purposes."""
    named = [(number, "time"), (files.target, "event"), *((name, "strata") for name in values)]
    named += [] if files.unit is None else [(files.unit, "unit")]
    columns = [name for name, _ in named]
    for place, (name, what) in enumerate(named):
        if name in columns[:place]:
            raise InvalidParameterError(
                f"{what}={name!r} is the column of {named[columns.index(name)][1]}, too: name another column.",
                parameter=what,
            )
    return named


def _judged_options(files: TableFiles, budgets_column: str | None) -> FactsToJudge:
    """Return the public facts that options state, or raise if they contradict each other."""
    facts = FactsToJudge(
        classes=files.predicted.classes,
        target=files.target,
        purposes={"time": files.time, "unit": files.unit, "budgets": budgets_column},
        groups=list(files.groups),
        drop=files.drop,
        entries=files.predicted.features(files.entries),
    )
    judge(facts)
    return facts


def _with_public_labels(
    facts: FactsToJudge, written: pd.Series | None, predicted: Target
) -> tuple[FactsToJudge, pd.Series | None]:
    """Return the facts with the labels of public rows, and these labels if none of them is wrong."""
    if written is None or not predicted.is_scored:
        return facts, None
    truth = predicted.read(written)
    if predicted.classes:
        facts = replace(facts, labels={"public": (written, truth)})
    return facts, None if predicted.wrong(truth.to_numpy()).any() else truth


def _public_fields(files: TableFiles, kinds: _ColumnKinds) -> dict[str, Any]:
    """Return the fields of `Tables` that hold public rows and options."""
    return {
        "classes": list(kinds.target.classes),
        "number": kinds.target.number,
        "times": kinds.target.times_until,
        "X_public": kinds.public,
        "test_is_public": files.test_is_public,
        "unit_column": files.unit,
        "declared_columns": kinds.declared,
        "target": files.target,
        "entries": kinds.target.features(files.entries),
    }


@dataclass(frozen=True, eq=False)
class _WrittenTables:
    """The private and the public table without dropped columns, before any entry is converted.

    A private table that is `streamed` has no rows here. `private_only` are columns of the private table that are no
    features. `like` is what the public table shows about the other files.
    """

    private: pd.DataFrame
    public: pd.DataFrame
    declared: dict[str, Any] | None
    streamed: bool
    like: Expected
    groups: dict[str, tuple[str, ...]]
    private_groups: pd.DataFrame | None
    private_only: list[str]


def _written_tables(files: TableFiles, options: ReadOptions, budgets_column: str | None) -> _WrittenTables:
    """Read the private and the public table."""
    files.require_possible(options)
    if options.workers is not None:
        options.workers.require_possible(files.private)
    in_blocks = options.reads_in_blocks(files.private)
    streamed = options.workers is not None or (in_blocks and not files.more_private)
    declared = files.declared_features(budgets_column)
    named = files.named_columns(budgets_column)
    public = declared_grid(declared).empty if files.public is None else files.read(files.public, guess=True, like=named)
    # The public table shows how the other files are written.
    like = files.expected_like_public(list(public.columns), budgets_column)
    private = _private_rows(files, options, streamed, like)
    unknown = [name for name in files.drop if name not in private and name not in public]
    if unknown:
        meant = nearest(unknown[0], public.columns) or ": remove it."
        raise InvalidParameterError(f"drop={unknown[0]!r} is not a column of the private or public table{meant}")
    groups = _declared_groups(files.groups, public if files.public is not None else None)
    only_groups = [name for name in groups if name not in public]
    return _WrittenTables(
        private=_without(private, files.drop),
        public=_without(public, files.drop),
        declared=declared,
        streamed=streamed,
        like=like,
        groups=groups,
        # Before columns are dropped, since a student need not read a column whose groups are compared.
        private_groups=_group_entries(private, "private", groups, list(public.columns)),
        private_only=[*(name for name in (files.unit, budgets_column, files.time) if name is not None), *only_groups],
    )


def _private_records(
    files: TableFiles, kinds: _ColumnKinds, written: _WrittenTables, target: pd.Series, units: pd.Series | None
) -> dict[str, Any]:
    """Return the fields of `Tables` that hold the private records, converted or as a stream."""
    workers = kinds.options.workers
    source = None if workers is None else workers.source
    name = files.name if source is None else source.name
    if written.streamed:
        others = replace(files, drop=(*files.drop, *(name for name in written.groups if name in written.private_only)))
        conversion = _RowsAndLabels(kinds.without_rows(), files.target)
        stream = PrivateStream.of(others, conversion, workers, list(written.groups))
        return {"name": name, "X_private": kinds.public.iloc[:0], "y_private": target, "stream": stream}
    features = kinds.features("private", _without(written.private, [files.target, *written.private_only]))
    if kinds.options.keep_bad:
        require_two_records(features)
        labels = kinds.private_labels(target)
    else:
        labels = kinds.labels_of_complete(features, target, units)
    owners = None if units is None else unit_entries(units)
    return {"name": name, "X_private": features, "y_private": labels, "units": owners}


def _require_types(files: TableFiles, time: str | None = None) -> None:
    """Raise for a unit or a time that Parquet stores in another type, before any entry is read."""
    time = files.time if time is None else time
    for path in files.all_private:
        if (files.unit is None and time is None) or not (is_parquet(path) and path.exists()):
            continue
        table = ParquetTable(path)
        if time is not None:
            table.require_no_dates(time)
        if files.unit is not None:
            table.require_unit(files.unit)


def _private_entries(
    files: TableFiles, written: _WrittenTables, budgets_column: str | None
) -> tuple[Rows, pd.Series | None, pd.Series | None]:
    """Return the private target, units and budgets as they are written. The last two may be None."""
    # Errors name only these columns: if a table has no header, its other column names are a record.
    shown, private = list(written.public.columns), written.private
    with nullcontext() if written.declared is None else kinds_by("--declared-columns"):
        units = None if files.unit is None else _column(private, files.unit, "unit", "private", shown)
        entries = None if budgets_column is None else _column(private, budgets_column, "budgets", "private", shown)
        return _target_entries(files, private, shown), units, entries


def _target_entries(files: TableFiles, private: pd.DataFrame, shown: list[Rows]) -> Rows:
    """Return the private target as it is written: a column, or the columns of an event and of its time."""
    if files.time is None:
        return _column(private, files.target, "target", "private", shown)
    event = _column(private, files.target, "event", "private", shown)
    return pd.DataFrame({EVENT: event, TIME: _column(private, files.time, "time", "private", shown)})


def _private_rows(files: TableFiles, options: ReadOptions, streamed: bool, like: Expected) -> pd.DataFrame:
    """Return the private table as it is written. If it is read in blocks, return only the names of its columns."""
    keep_bad = options.keep_bad
    if streamed:
        return pd.DataFrame(columns=files.private_columns(options.workers))
    _require_types(files)
    return files.read_private(keep_broken=keep_bad, like=like)


def _public_features(public: pd.DataFrame, options: ReadOptions) -> pd.DataFrame:
    """Return public features. They determine the kinds of the columns in all tables."""
    if public.shape[1] == 0:
        raise DataError("the public table has no feature columns: give a table with features.")
    public = decimals_as_numbers(public)
    public = as_kinds("public", public, list(public.columns[number_columns(public)]))
    require_complete("the public table", public, blanks=options.blanks)
    return public


def _group_entries(table: pd.DataFrame, name: str, groups: Iterable[str], shown: list[Any]) -> pd.DataFrame | None:
    """Return the group columns of a table as they are written, or None if there are none."""
    columns = {column: _column(table, column, "groups", name, shown) for column in groups}
    return pd.DataFrame(columns) if columns else None


def _test_rows(
    files: TableFiles, kinds: _ColumnKinds, no_features: Sequence[str], groups: Iterable[str], like: Expected
) -> tuple[dict[str, Any], list[Note]]:
    """Return the fields of `Tables` that hold the test rows, or none without a test table, and notes on these rows.

    Public test rows with a blank target are left out, because nothing can be scored on them.
    """
    if files.test is None:
        return {}, []
    shown, notes = list(kinds.public.columns), []
    written = files.read(files.test, like=like)
    truth = kinds.target.read(_column(written, files.target, "target", "test", shown))
    known = truth.notna()
    if files.test_is_public and known.any() and not known.all():
        text = f"{len(known) - known.sum():,} of {len(known):,} test rows have a blank {files.target!r}: not scored."
        notes.append(Note(files.target, text, is_doubtful=False))
        written, truth = written[known].reset_index(drop=True), truth[known].reset_index(drop=True)
    test_groups = _group_entries(written, "test", groups, shown)
    table = _without(written, (*files.drop, *(name for name in no_features if name != files.target)))
    rows = kinds.features("test", _without(table, [files.target]))
    require_complete("the test table", rows, blanks=kinds.options.blanks)
    if kinds.target.wrong(truth.to_numpy()).any():
        raise DataError(f"the test table's target has {kinds.target.what_is_wrong}: correct them.")
    return {"X_test": rows, "y_test": truth, "test_groups": test_groups}, notes


def _public_units(files: TableFiles, public: pd.DataFrame) -> list[Any] | None:
    """Return the units of public rows. None when the public table lacks the column, or the column is blank."""
    unit = files.unit
    if unit is None or unit not in public or public[unit].isna().all():
        return None
    if files.public is not None and is_number(public[unit]) and is_csv(files.public):
        # Ids as they are written: "007" is another unit than "7", and a number may have lost digits.
        public = files.read(files.public)
    blank = public[unit].isna().to_numpy()
    if blank.any():
        raise DataError(
            f"the public table has rows without a unit in column {unit!r} (first in row {int(blank.argmax()):,}, "
            "counting from 0): fill the column in for all rows, drop those rows, or drop the column."
        )
    return list(unit_entries(public[unit]))


def _without(table: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    return table.drop(columns=[column for column in columns if column in table])


def _column(table: pd.DataFrame, column: str, parameter: str, name: str, shown: list[Any]) -> pd.Series:
    if column not in table:
        if parameter == "target" and set(column.split(",")) <= set(table.columns):
            raise DataError(f"target={column!r} names several columns, but {SEVERAL_LABELS}")
        names = ", ".join(str(other) for other in table.columns if other in shown) or "none"
        raise DataError(
            f"{parameter}={column!r} is not a column of the {name} table; of the columns of the public table it has "
            f"{names}{nearest(column, shown) or _below_lines(shown)}"
        )
    return table[column]


def _below_lines(shown: list[Any]) -> str:
    """Return the end of an error: how to read a table if its public header, without most names, is a title."""
    without_name = sum(str(name).startswith("Unnamed: ") for name in shown)
    if 2 * without_name < max(len(shown), 2):
        return "."
    return (
        ". Most columns of the public table have no name: give --skip-lines with the number of lines above its header."
    )
