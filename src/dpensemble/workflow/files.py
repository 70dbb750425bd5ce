"""Reading the tables of one run from files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from dpensemble.datasets import read_table
from dpensemble.datasets.tables import as_kinds, as_text, is_number, require_complete, take_kinds
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.workflow.budgets import parse_budgets
from dpensemble.workflow.tables import Tables, with_budgets


def file_tables(
    private: Path,
    public: Path,
    target: str,
    *,
    classes: str | None,
    test: Path | None = None,
    unit: str | None = None,
    drop: Sequence[str] = (),
    test_is_public: bool = False,
    budgets: str | None = None,
    levels: str | None = None,
    seed: int | None = None,
    blanks: bool = False,
) -> Tables:
    """Read and check the tables of one run.

    Parameters
    ----------
    private, public : path
        CSV or Parquet. The public table may lack the target.
    target : str
        Column to predict.
    classes : str or None
        All possible labels, separated by commas.
    test : path, optional
        Rows with the target, to score the student on.
    unit : str, optional
        Column of the private table that names whom a record belongs to.
    drop : sequence of str
        Columns to leave out of every table.
    test_is_public : bool, default=False
        Whether exact scores on the test rows may be shown outside.
    budgets, levels : str, optional
        Private column of budgets and what its entries mean, or groups with shares; see `parse_budgets`.
    seed : int, optional
        Public seed of budgets that are assigned at random.
    blanks : bool, default=False
        Whether features may be missing, as for methods that read tables by themselves.

    Returns
    -------
    Tables

    Raises
    ------
    FileError, DataError, InvalidParameterError
        In one sentence, if the tables cannot be used.
    """
    declared = _parse_classes(classes)
    request = parse_budgets(budgets, levels)
    budgets_column = None if request is None else request.column
    _refuse_overlaps(private, public, test, target, {"unit": unit, "budgets": budgets_column})
    private_table, public_table = read_table(private), read_table(public, guess=True)
    unknown = [name for name in drop if name not in private_table and name not in public_table]
    if unknown:
        raise InvalidParameterError(f"drop={unknown[0]!r} is no column of the private or public table.")
    private_table, public_table = _without(private_table, drop), _without(public_table, drop)
    names = list(public_table.columns)
    units = None if unit is None else _take(private_table, unit, "unit", "private", names)
    entries = None if budgets_column is None else _take(private_table, budgets_column, "budgets", "private", names)
    y_private = _take(private_table, target, "target", "private", names)
    y_public = public_table.pop(target) if target in public_table else None
    private_only = [name for name in (unit, budgets_column) if name is not None]
    public_table = _without(public_table, private_only)
    if public_table.shape[1] == 0:
        raise DataError("the public table has no feature columns.")
    public_table = as_kinds("public", public_table, [c for c in public_table.columns if is_number(public_table[c])])
    X_private = take_kinds("private", private_table, public_table)
    require_complete("the private table", X_private, blanks=blanks)
    require_complete("the public table", public_table, blanks=blanks)
    for name, column in (("target", y_private), ("unit", units)):
        if column is not None and column.isna().any():
            raise DataError(f"the private table has rows without a {name} in column {column.name!r}; drop those rows.")
    if len(X_private) < 2:
        raise DataError("the private table has one row, which nothing can be learned from in private; give more rows.")
    labels = as_labels(y_private, declared)
    if labels.isna().any():
        raise DataError(
            f"the private table's target has labels that are no numbers, and all of classes={declared!r} are; declare "
            "every possible label as it is written, or drop those rows."
        )
    X_test = y_test = None
    if test is not None:
        rows = _without(read_table(test), (*drop, *private_only))
        X_test, y_test = _test_rows(rows, target, public_table, declared, blanks)
    truth = None if y_public is None else as_labels(y_public, declared)
    tables = Tables(
        name=private.name,
        classes=declared,
        X_private=X_private,
        y_private=labels,
        X_public=public_table,
        y_public=truth if truth is not None and truth.isin(declared).all() else None,
        X_test=X_test,
        y_test=y_test,
        units=None if units is None else as_text(units).to_numpy(),
        test_is_public=test_is_public,
        unit_column=unit,
    )
    return with_budgets(tables, request, entries, seed)


def _refuse_overlaps(
    private: Path, public: Path, test: Path | None, target: str, columns: dict[str, str | None]
) -> None:
    for parameter, column in columns.items():
        if column == target:
            what = "says whose record it is" if parameter == "unit" else "holds the budgets"
            raise InvalidParameterError(f"{parameter}={column!r} is also the target; name the column that {what}.")
    if columns["unit"] is not None and columns["unit"] == columns["budgets"]:
        raise InvalidParameterError(f"budgets={columns['budgets']!r} is also the unit; name another column.")
    for name, other in (("public", public), ("test", test)):
        if other is not None and private.exists() and other.exists() and private.samefile(other):
            raise DataError(f"the {name} table is the private table itself ({private}); give other rows.")


def _test_rows(
    table: pd.DataFrame, target: str, public: pd.DataFrame, declared: list[Any], blanks: bool
) -> tuple[pd.DataFrame, pd.Series]:
    truth = as_labels(_take(table, target, "target", "test", list(public.columns)), declared)
    rows = take_kinds("test", table, public)
    require_complete("the test table", rows, blanks=blanks)
    if not truth.isin(declared).all():
        raise DataError(f"the test table's target has missing labels or labels outside classes={declared!r}.")
    return rows, truth


def as_labels(column: pd.Series, classes: list[Any]) -> pd.Series:
    """Return labels entry by entry as the declared classes are: numbers or text, NaN for what is no number."""
    if isinstance(classes[0], str):
        return as_text(column)
    return pd.to_numeric(column, errors="coerce").astype(float)


def _without(table: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    return table.drop(columns=[column for column in columns if column in table])


def _take(table: pd.DataFrame, column: str, parameter: str, name: str, public: list[Any]) -> pd.Series:
    if column not in table:
        # Other names stay unsaid: where a table has no header, they are a record.
        known = ", ".join(str(other) for other in table.columns if other in public) or "none"
        raise DataError(
            f"{parameter}={column!r} is not a column of the {name} table; of the public table's columns it has {known}."
        )
    return table.pop(column)


def _parse_classes(classes: str | None) -> list[Any]:
    """Return the declared labels, as numbers if all of them are; the private labels play no part."""
    if classes is None:
        raise InvalidParameterError(
            "classes is missing: the possible labels are public knowledge and must be declared, "
            'for example --classes "no,yes", because reading them off the private labels would leak.'
        )
    names = [name.strip() for name in classes.split(",")]
    if "" in names:
        raise InvalidParameterError(f"classes={classes!r} names an empty label; remove a comma.")
    try:
        numbers = [float(name) for name in names]
    except ValueError:
        return list(names)
    return [int(number) if number.is_integer() else number for number in numbers]
