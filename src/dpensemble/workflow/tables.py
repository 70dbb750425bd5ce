"""The tables of one run, checked to belong together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from numpy.typing import NDArray

from dpensemble.datasets import load_adult, read_table, three_way_split
from dpensemble.datasets.tables import as_kinds, as_text, is_number, require_complete, take_kinds
from dpensemble.errors import DataError, InvalidParameterError


@dataclass(frozen=True, eq=False, kw_only=True)
class Tables:
    """Private, public and test rows of one run.

    Parameters
    ----------
    name : str
        What to call the data in the report.
    classes : list
        All possible labels; public.
    X_private, y_private : DataFrame, Series
        Private records.
    X_public : DataFrame
        Public rows, in the private columns' order.
    y_public : Series or None
        Truth of the public rows, used only to score the released labels.
    X_test, y_test : DataFrame and Series, or None
        Test rows.
    units : ndarray or None
        Whom each private record belongs to.
    data_is_public : bool
        True for packaged data, on which figures without privacy reveal nothing.
    test_is_public : bool
        Whether exact scores on the test rows may be shown outside.
    unit_column : str or None
        What the unit column is called.
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
    data_is_public: bool = False
    test_is_public: bool = False
    unit_column: str | None = None


def adult_tables(seed: int | None) -> Tables:
    """Return UCI Adult in the paper's split: a third private, a third public, a third test."""
    adult = load_adult()
    split = three_way_split(len(adult.X), seed)
    parts = {
        name: (adult.X.iloc[rows].reset_index(drop=True), adult.y.iloc[rows].reset_index(drop=True))
        for name, rows in (("private", split.private), ("public", split.public), ("test", split.test))
    }
    return Tables(
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

    Returns
    -------
    Tables

    Raises
    ------
    FileError, DataError, InvalidParameterError
        In one sentence, if the tables cannot be used.
    """
    declared = _parse_classes(classes)
    _refuse_overlaps(private, public, test, target, unit)
    private_table, public_table = read_table(private), read_table(public, guess=True)
    unknown = [name for name in drop if name not in private_table and name not in public_table]
    if unknown:
        raise InvalidParameterError(f"drop={unknown[0]!r} is no column of the private or public table.")
    private_table, public_table = _without(private_table, drop), _without(public_table, drop)
    units = None if unit is None else _take(private_table, unit, "unit", "private")
    y_private = _take(private_table, target, "target", "private")
    y_public = public_table.pop(target) if target in public_table else None
    public_table = _without(public_table, () if unit is None else (unit,))
    if public_table.shape[1] == 0:
        raise DataError("the public table has no feature columns.")
    public_table = as_kinds(
        "public", public_table, [c for c in public_table.columns if is_number(public_table[c])]
    )
    X_private = take_kinds("private", private_table, public_table)
    require_complete("the private table", X_private)
    require_complete("the public table", public_table)
    for name, column in (("target", y_private), ("unit", units)):
        if column is not None and column.isna().any():
            raise DataError(
                f"the private table has rows without a {name} in column {column.name!r}; drop those rows."
            )
    X_test = y_test = None
    if test is not None:
        X_test, y_test = _test_rows(_without(read_table(test), drop), target, unit, public_table, declared)
    truth = None if y_public is None else as_labels(y_public, declared)
    return Tables(
        name=private.name,
        classes=declared,
        X_private=X_private,
        y_private=as_labels(y_private, declared),
        X_public=public_table,
        y_public=truth if truth is not None and truth.isin(declared).all() else None,
        X_test=X_test,
        y_test=y_test,
        units=None if units is None else as_text(units).to_numpy(),
        test_is_public=test_is_public,
        unit_column=unit,
    )


def _refuse_overlaps(private: Path, public: Path, test: Path | None, target: str, unit: str | None) -> None:
    if unit == target:
        raise InvalidParameterError(
            f"unit={unit!r} is also the target; name the column that says whose record it is."
        )
    for name, other in (("public", public), ("test", test)):
        if other is not None and private.exists() and other.exists() and private.samefile(other):
            raise DataError(f"the {name} table is the private table itself ({private}); give other rows.")


def _test_rows(
    table: pd.DataFrame, target: str, unit: str | None, public: pd.DataFrame, declared: list[Any]
) -> tuple[pd.DataFrame, pd.Series]:
    truth = as_labels(_take(table, target, "target", "test"), declared)
    rows = take_kinds("test", _without(table, () if unit is None else (unit,)), public)
    require_complete("the test table", rows)
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


def _take(table: pd.DataFrame, column: str, parameter: str, name: str) -> pd.Series:
    if column not in table:
        known = ", ".join(map(str, table.columns))
        raise DataError(f"{parameter}={column!r} is not a column of the {name} table, which has {known}.")
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
