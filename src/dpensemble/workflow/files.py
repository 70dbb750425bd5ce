"""Reading the tables of one run from files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from dpensemble._checks import member
from dpensemble._guard import guard_private_rows
from dpensemble.datasets import ParquetTable, TablePreparation, read_table
from dpensemble.datasets.bad_records import OnBadRecord
from dpensemble.datasets.columns import as_text, number_columns, numbers_of
from dpensemble.datasets.memory import release_unused
from dpensemble.datasets.notes import table_notes
from dpensemble.datasets.tables import as_kinds, decimals_as_numbers, kinds_by, require_complete, take_kinds
from dpensemble.design import parse_budgets
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.moments import declared_grid, with_texts
from dpensemble.workflow.declared import read_columns
from dpensemble.workflow.streamed import private_stream, wants_blocks
from dpensemble.workflow.tables import Tables, with_budgets

_TRUTH = {"false": 0.0, "true": 1.0}


@guard_private_rows()
def file_tables(
    private: Path,
    public: Path | None,
    target: str,
    *,
    classes: str | None,
    declared_columns: Path | None = None,
    test: Path | None = None,
    unit: str | None = None,
    drop: Sequence[str] = (),
    test_is_public: bool = False,
    budgets: str | None = None,
    levels: str | None = None,
    seed: int | None = None,
    blanks: bool = False,
    takes_blocks: bool = False,
    in_blocks: bool = False,
    sep: str | None = None,
    decimal: str | None = None,
    multiline_text: bool = False,
    on_bad_record: str = "raise",
) -> Tables:
    """Read and check the tables of one run.

    Parameters
    ----------
    private, public : path
        CSV or Parquet, or a folder of Parquet files. The public table may lack the target, and is None where columns
        are declared.
    target : str
        Column to predict.
    classes : str or None
        All possible labels, separated by commas.
    declared_columns : path, optional
        JSON file that declares columns in place of a public table.
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
        Whether features may be missing, as for methods that read tables by themselves, or where they are filled in.
    takes_blocks : bool, default=False
        Whether the method can read private records in blocks, as is then done with folders and large files.
    in_blocks : bool, default=False
        Whether it shall in any case.
    sep, decimal, multiline_text
        How CSV files are written; see `read_table`.
    on_bad_record : {"raise", "zero"}, default="raise"
        Whether a bad private record is refused, or kept for the method, which lets the record add nothing.

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
    read = partial(read_table, sep=sep, decimal=decimal, multiline_text=multiline_text)
    streamed = wants_blocks(private, able=takes_blocks, asked=in_blocks)
    keep_bad = member("on_bad_record", on_bad_record, OnBadRecord) is OnBadRecord.ZERO
    private_table = (
        pd.DataFrame(columns=ParquetTable(private).columns) if streamed else read(private, keep_broken=keep_bad)
    )
    told = (
        None if declared_columns is None else _declared(declared_columns, public, {target, unit, budgets_column}, drop)
    )
    public_table = declared_grid(told).empty if public is None else read(public, guess=True)
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
    public_table = decimals_as_numbers(public_table)
    public_table = as_kinds("public", public_table, list(public_table.columns[number_columns(public_table)]))
    require_complete("the public table", public_table, blanks=blanks)
    stream = None
    if streamed:
        stream = private_stream(
            private,
            target,
            unit=unit,
            drop=drop,
            as_kinds=partial(_like, "private", public=public_table, told=told, keep_bad=keep_bad),
            as_labels=partial(alike_labels if keep_bad else as_labels, classes=declared),
            blanks=blanks,
            keep_bad=keep_bad,
        )
        X_private, labels, units = public_table.iloc[:0], y_private, None
    else:
        X_private = _like("private", private_table, public_table, told, keep_bad=keep_bad)
        if keep_bad:
            _require_two(X_private)
            labels = alike_labels(y_private, declared)
        else:
            labels = _complete(X_private, y_private, units, declared, blanks)
    # As read, entries are texts, which take several times the room of numbers.
    del private_table
    release_unused()
    X_test = y_test = None
    if test is not None:
        rows = _without(read(test), (*drop, *private_only))
        X_test, y_test = _test_rows(rows, target, public_table, told, declared, blanks)
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
        stream=stream,
        declared_columns=told,
        target=target,
        notes=()
        if told is not None
        else tuple(table_notes(public_table, TablePreparation().fit(public_table), has_unit=unit is not None)),
    )
    return with_budgets(tables, request, entries, seed)


def _declared(columns: Path, public: Path | None, others: set[str | None], drop: Sequence[str]) -> dict[str, Any]:
    """Return declared columns, without those that are left out."""
    if public is not None:
        raise InvalidParameterError(
            f"declared_columns={str(columns)!r} are for runs without public rows, and public={str(public)!r} has some; "
            "give one of them.",
            parameter="declared_columns",
        )
    found = {name: one for name, one in read_columns(columns).items() if name not in drop}
    both = [name for name in found if name in others]
    if both or not found:
        what = f"{both[0]!r}, which is no feature" if both else "no feature"
        raise InvalidParameterError(
            f"declared_columns={str(columns)!r} declares {what}; declare features.", parameter="declared_columns"
        )
    return found


def _like(
    name: str, table: pd.DataFrame, public: pd.DataFrame, told: dict[str, Any] | None, *, keep_bad: bool = False
) -> pd.DataFrame:
    """Return a table with the public columns and kinds, or with the declared ones."""
    if told is None:
        return take_kinds(name, table, public, keep_bad=keep_bad)
    with kinds_by("--declared-columns"):
        return take_kinds(name, with_texts(table, public), public, keep_bad=keep_bad)


def _require_two(X_private: pd.DataFrame) -> None:
    if len(X_private) < 2:
        raise DataError("the private table has one row, which nothing can be learned from in private; give more rows.")


def _complete(
    X_private: pd.DataFrame, y_private: pd.Series, units: pd.Series | None, declared: list[Any], blanks: bool
) -> pd.Series:
    """Return the labels of private records that are whole and more than one."""
    require_complete("the private table", X_private, blanks=blanks)
    for name, column in (("target", y_private), ("unit", units)):
        if column is not None and column.isna().any():
            raise DataError(
                f"the private table has rows without a {name} in column {column.name!r} (first in row "
                f"{int(column.isna().to_numpy().argmax()):,}, counting from 0); drop those rows, in which it is blank "
                "or written as NA, None or the like."
            )
    _require_two(X_private)
    labels = as_labels(y_private, declared)
    if labels.isna().any():
        raise DataError(
            f"the private table's target has labels that are no numbers, and all of classes={declared!r} are (first in "
            f"row {int(labels.isna().to_numpy().argmax()):,}, counting from 0); declare every possible label as it is "
            "written, or drop those rows."
        )
    _refuse_unlike(labels, declared)
    return labels


def _refuse_overlaps(
    private: Path, public: Path | None, test: Path | None, target: str, columns: dict[str, str | None]
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
        if other is not None and private.resolve() in other.resolve().parents:
            raise DataError(f"the {name} table ({other}) lies in the private table's folder; keep it elsewhere.")


def _test_rows(
    table: pd.DataFrame,
    target: str,
    public: pd.DataFrame,
    told: dict[str, Any] | None,
    declared: list[Any],
    blanks: bool,
) -> tuple[pd.DataFrame, pd.Series]:
    truth = as_labels(_take(table, target, "target", "test", list(public.columns)), declared)
    rows = _like("test", table, public, told)
    require_complete("the test table", rows, blanks=blanks)
    if not truth.isin(declared).all():
        raise DataError(f"the test table's target has missing labels or labels outside classes={declared!r}.")
    return rows, truth


def _refuse_unlike(labels: pd.Series, declared: list[Any]) -> None:
    """Refuse labels that are a class but for capitals or spaces, which are hardly others; the rest is refused later."""
    known = {str(name).strip().casefold() for name in declared}
    odd = ~labels.isin(declared).to_numpy()
    unlike = odd & labels.map(lambda entry: str(entry).strip().casefold() in known).to_numpy(dtype=bool)
    if unlike.any():
        raise DataError(
            f"the private table's target has labels that differ from classes={declared!r} in capitals or spaces only "
            f"(first in row {int(unlike.argmax()):,}, counting from 0); write them alike."
        )


def as_labels(column: pd.Series, classes: list[Any]) -> pd.Series:
    """Return labels entry by entry as the declared classes are: numbers or text, NaN for what is no number.

    Truth values, however they are capitalised, are those that were declared, or 0 and 1 where these are the classes.
    """
    names = {str(name).casefold(): name for name in classes}
    if isinstance(classes[0], str):
        text = as_text(column)
        if set(names) != {"false", "true"}:
            return text
        return text.map(lambda entry: names.get(str(entry).strip().casefold(), entry), na_action="ignore")
    if set(classes) == {0, 1}:
        truth = column.map(lambda entry: _TRUTH.get(str(entry).strip().casefold(), entry), na_action="ignore")
        return _as_numbers(truth)
    return _as_numbers(column)


def _as_numbers(column: pd.Series) -> pd.Series:
    return pd.Series(numbers_of(column.to_frame())[0][:, 0], index=column.index, name=column.name)


def alike_labels(column: pd.Series, classes: list[Any]) -> pd.Series:
    """Return labels as `as_labels` does; a text that differs from a class in capitals or spaces only is that class."""
    labels = as_labels(column, classes)
    if not isinstance(classes[0], str):
        return labels
    names = {name.strip().casefold(): name for name in classes}
    return labels.map(lambda entry: names.get(str(entry).strip().casefold(), entry), na_action="ignore")


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
    if len({name.casefold() for name in names}) < len(names):
        raise InvalidParameterError(
            f"classes={classes!r} names a label twice, or two that differ in capitals only; name each once."
        )
    try:
        numbers = [float(name) for name in names]
    except ValueError:
        return list(names)
    return [int(number) if number.is_integer() else number for number in numbers]
