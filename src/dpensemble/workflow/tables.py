"""The tables of one run, read from files or given, after checks that they belong together.

Budgets of records are a column of a table, or assigned at random in given shares.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble._entries import SEVERAL_LABELS, Integers
from dpensemble._hide_private_rows import guard_private_rows
from dpensemble._random import Stream, public_entropy, seed_sequence
from dpensemble.allocation.partition import named_units, number_units, units_or_none
from dpensemble.datasets import load_adult, three_way_split
from dpensemble.datasets.columns import as_text, is_number, number_columns, release_unused, unit_entries
from dpensemble.datasets.csv import is_csv
from dpensemble.datasets.csv_layout import Expected
from dpensemble.datasets.parquet import ParquetTable, is_parquet
from dpensemble.datasets.public_facts import Note, PublicFacts, judge
from dpensemble.datasets.tables import as_kinds, decimals_as_numbers, require_complete
from dpensemble.design.by_group import BudgetRequest, parse_budgets
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.moments.maps.grid import declared_grid
from dpensemble.workflow.column_kinds import ColumnKinds, alike_labels, declared_features, declared_groups
from dpensemble.workflow.private_rows import PrivateStream, private_columns, private_stream, wants_blocks
from dpensemble.workflow.table_files import ReadOptions, TableFiles


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
    in a run without public rows. `groups` holds the declared values of each column by which the student's quality is
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
    target: str | None = None
    groups: dict[str, tuple[str, ...]] | None = None
    private_groups: pd.DataFrame | None = None
    test_groups: pd.DataFrame | None = None

    @property
    def n_records(self) -> int:
        """Number of private records."""
        return len(self.X_private) if self.stream is None else self.stream.n_records

    @property
    def n_units(self) -> int | None:
        """Number of units of the private records, or of records if each record is a unit. None if not known here."""
        if self.stream is not None:
            return self.stream.n_units
        if self.units is None:
            return len(self.X_private)
        names, present = named_units(self.units)
        return len(number_units(names[present])[0])


def adult_tables(seed: int | None, *, budgets: str | None = None, levels: str | None = None) -> Tables:
    """Return UCI Adult in the paper's split: a third private, a third public, a third test.

    The public seed determines the split and the budgets, which are groups with shares. See `parse_budgets`. Packaged
    data have no column of budgets, so `levels` raise an error.
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
    classes = files.declared_labels()
    budgets_column = None if budgets is None else budgets.column
    facts = PublicFacts(
        classes=classes,
        target=files.target,
        purposes={"unit": files.unit, "budgets": budgets_column},
        groups=list(files.groups),
        drop=files.drop,
    )
    judge(facts)
    files.refuse_overlaps()
    source = None if options.workers is None else options.workers.source
    if options.workers is not None:
        options.workers.require_possible(files.private)
    streamed = options.workers is not None or wants_blocks(
        files.private, able=options.takes_blocks, asked=options.in_blocks
    )
    declared = _declaration(files, budgets_column)
    named = files.named(budgets_column)
    public = declared_grid(declared).empty if files.public is None else files.read(files.public, guess=True, like=named)
    # The public table shows how the other files are written.
    like = files.like_public(list(public.columns), budgets_column)
    written = _private_rows(files, options, streamed, like)
    _refuse_unknown_drops(files.drop, written, public)
    groups = declared_groups(files.groups, public if files.public is not None else None)
    # Before columns are dropped, since a student need not read a column whose groups are compared.
    private_groups = _group_entries(written, "private", groups, list(public.columns))
    only_groups = [name for name in groups if name not in public]
    written, public = _without(written, files.drop), _without(public, files.drop)
    public_units = _public_units(files, public)
    # Errors name only these columns: if a table has no header, its other column names are a record.
    shown = list(public.columns)
    units = None if files.unit is None else _column(written, files.unit, "unit", "private", shown)
    entries = None if budgets_column is None else _column(written, budgets_column, "budgets", "private", shown)
    target = _column(written, files.target, "target", "private", shown)
    private_only = [*(name for name in (files.unit, budgets_column) if name is not None), *only_groups]
    truth = None
    if (public_labels := public.get(files.target)) is not None:
        truth = alike_labels(public_labels, classes)
        facts = replace(facts, labels={"public": (public_labels, truth)})
    kinds = ColumnKinds(
        _public_features(_without(public, [files.target, *private_only]), options), declared, classes, options
    )
    judgement = judge(replace(facts, rows=kinds.public, units=public_units))
    stream: PrivateStream | None = None
    if streamed:
        others = replace(files, drop=(*files.drop, *only_groups))
        stream, units = private_stream(others, kinds, options.workers, list(groups)), None
        features, labels = kinds.public.iloc[:0], target
    else:
        features = kinds.private_features(_without(written, [files.target, *private_only]))
        labels = kinds.checked_labels(features, target, units)
    # As read, entries are texts, which take several times as much memory as numbers.
    del written
    release_unused()
    X_test, y_test, test_groups = _test_rows(files, kinds, private_only, groups, like)
    tables = Tables(
        name=files.private.name if source is None else source.name,
        classes=classes,
        X_private=features,
        y_private=labels,
        X_public=kinds.public,
        y_public=_usable_truth(truth, classes),
        X_test=X_test,
        y_test=y_test,
        units=None if units is None else unit_entries(units),
        public_units=public_units,
        test_is_public=files.test_is_public,
        unit_column=files.unit,
        stream=stream,
        declared_columns=declared,
        target=files.target,
        notes=judgement.notes,
        columns=judgement.columns,
        groups=groups or None,
        private_groups=private_groups,
        test_groups=test_groups,
    )
    return _with_budgets(tables, budgets, entries, seed)


def _private_rows(files: TableFiles, options: ReadOptions, streamed: bool, like: Expected) -> pd.DataFrame:
    """Return the private table as it is written. If it is read in blocks, return only the names of its columns."""
    keep_bad = options.keep_bad
    if streamed:
        return pd.DataFrame(columns=private_columns(files.private, options.workers))
    if files.unit is not None and is_parquet(files.private) and files.private.exists():
        # By the type in the file, before any entry is read.
        ParquetTable(files.private).require_unit(files.unit)
    return files.read(files.private, keep_broken=keep_bad, like=like)


def _declaration(files: TableFiles, budgets_column: str | None) -> dict[str, Any] | None:
    if files.declared_columns is None:
        return None
    others = {files.target, files.unit, budgets_column}
    return declared_features(files.declared_columns, files.public, others, files.drop)


def _refuse_unknown_drops(drop: Sequence[str], private: pd.DataFrame, public: pd.DataFrame) -> None:
    unknown = [name for name in drop if name not in private and name not in public]
    if unknown:
        raise InvalidParameterError(f"drop={unknown[0]!r} is not a column of the private or public table: remove it.")


def _public_features(public: pd.DataFrame, options: ReadOptions) -> pd.DataFrame:
    """Return public features. They determine the kinds of the columns in all tables."""
    if public.shape[1] == 0:
        raise DataError("the public table has no feature columns: give a table with features.")
    public = decimals_as_numbers(public)
    public = as_kinds("public", public, list(public.columns[number_columns(public)]))
    require_complete("the public table", public, blanks=options.blanks)
    return public


def _group_entries(table: pd.DataFrame, name: str, groups: Iterable[str], shown: list[object]) -> pd.DataFrame | None:
    """Return the group columns of a table as they are written, or None if there are none."""
    columns = {column: _column(table, column, "groups", name, shown) for column in groups}
    return pd.DataFrame(columns) if columns else None


def _test_rows(
    files: TableFiles, kinds: ColumnKinds, private_only: Sequence[str], groups: Iterable[str], like: Expected
) -> tuple[pd.DataFrame | None, pd.Series | None, pd.DataFrame | None]:
    if files.test is None:
        return None, None, None
    written = files.read(files.test, like=like)
    test_groups = _group_entries(written, "test", groups, list(kinds.public.columns))
    table = _without(written, (*files.drop, *private_only))
    truth = alike_labels(_column(table, files.target, "target", "test", list(kinds.public.columns)), kinds.classes)
    rows = kinds.features("test", _without(table, [files.target]))
    require_complete("the test table", rows, blanks=kinds.options.blanks)
    if not truth.isin(kinds.classes).all():
        raise DataError(
            f"the test table's target has missing labels or labels outside classes={kinds.classes!r}: correct them."
        )
    return rows, truth, test_groups


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


def _usable_truth(labels: pd.Series | None, classes: list[Any]) -> pd.Series | None:
    """Return the labels of public rows if all of them are declared classes."""
    return labels if labels is not None and labels.isin(classes).all() else None


def _without(table: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    return table.drop(columns=[column for column in columns if column in table])


def _column(table: pd.DataFrame, column: str, parameter: str, name: str, shown: list[Any]) -> pd.Series:
    if column not in table:
        if parameter == "target" and set(column.split(",")) <= set(table.columns):
            raise DataError(f"target={column!r} names several columns, but {SEVERAL_LABELS}")
        names = ", ".join(str(other) for other in table.columns if other in shown) or "none"
        raise DataError(
            f"{parameter}={column!r} is not a column of the {name} table; of the public table's columns it has {names}."
        )
    return table[column]
