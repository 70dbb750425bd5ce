"""Read the tables of one run from files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from dpensemble._hide_private_rows import guard_private_rows
from dpensemble._refusals import SEVERAL_LABELS
from dpensemble.datasets.columns import is_number, number_columns, release_unused, unit_entries
from dpensemble.datasets.csv import is_csv
from dpensemble.datasets.csv_layout import Expected
from dpensemble.datasets.parquet import ParquetTable, is_parquet
from dpensemble.datasets.public_facts import PublicFacts, judge
from dpensemble.datasets.tables import as_kinds, decimals_as_numbers, require_complete
from dpensemble.design.by_group import BudgetRequest
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.moments.maps.grid import declared_grid
from dpensemble.workflow.column_kinds import ColumnKinds, alike_labels, declared_features
from dpensemble.workflow.group_columns import declared_groups
from dpensemble.workflow.private_rows import PrivateStream, private_columns, private_stream, wants_blocks
from dpensemble.workflow.table_files import ReadOptions, TableFiles
from dpensemble.workflow.tables import Tables, with_budgets


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
    return with_budgets(tables, budgets, entries, seed)


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
