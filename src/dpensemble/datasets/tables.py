"""Reading tables so that no private row decides how another is read.

Readers that guess types let one odd entry turn a whole column from numbers into text. Here only public tables are
guessed; private and test tables take the public columns' kinds, and labels and units are read as they are written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpensemble.errors import DataError, FileError


def read_table(path: Path | str, *, guess: bool = False) -> pd.DataFrame:
    """Read a CSV or Parquet file, chosen by its ending.

    Parameters
    ----------
    path : path
        Ending in ``.csv`` (also ``.csv.gz``), ``.parquet`` or ``.pq``.
    guess : bool, default=False
        Take a CSV column whose entries are all numbers as numbers. For public
        tables only; otherwise every CSV column is text, see `take_kinds`.

    Returns
    -------
    DataFrame
        With NaN for empty entries.

    Raises
    ------
    FileError
        If the ending is unknown or the file cannot be read.
    DataError
        If the table has no rows or repeated column names.
    """
    path = Path(path)
    suffix = (Path(path.stem).suffix if path.suffix == ".gz" else path.suffix).lower()
    if suffix not in (".csv", ".parquet", ".pq"):
        raise FileError(f"{path} is not a table that can be read; use .csv, .csv.gz or .parquet.")
    try:
        table = _read_csv(path) if suffix == ".csv" else pd.read_parquet(path)
    except DataError:
        raise
    except (OSError, ValueError) as error:
        raise FileError(f"{path} cannot be read: {_advice(error, suffix)}.") from None
    if table.empty:
        raise DataError(f"{path} has no rows.")
    if not table.columns.is_unique:
        raise DataError(f"{path} names a column twice.")
    return _guess_numbers(table) if guess and suffix == ".csv" else table


def _read_csv(path: Path) -> pd.DataFrame:
    names = pd.read_csv(path, header=None, nrows=1, dtype=str).iloc[0]
    if names.duplicated().any():
        # Read as a table, the second would be renamed in silence.
        raise DataError(f"{path} names a column twice.")
    table = pd.read_csv(path, dtype=str)
    if not isinstance(table.index, pd.RangeIndex):
        # One long first row would shift the columns of all others.
        raise DataError(
            f"{path} cannot be read: its rows have more entries than its header; separate columns by commas."
        )
    return table


def _advice(error: Exception, suffix: str) -> str:
    """Say what to do about a file that pandas could not read; its own words may quote entries."""
    known: dict[type[Exception], str] = {
        FileNotFoundError: "there is no such file",
        IsADirectoryError: "it is a folder",
        PermissionError: "you may not read it",
        UnicodeDecodeError: "it is not in UTF-8; save it as UTF-8",
        pd.errors.EmptyDataError: "it is empty",
        pd.errors.ParserError: "its rows differ in length; separate columns by commas",
    }
    return next((words for kind, words in known.items() if isinstance(error, kind)), f"it is no {suffix[1:]} table")


def _guess_numbers(table: pd.DataFrame) -> pd.DataFrame:
    guessed = {}
    for name in table.columns:
        numbers = pd.to_numeric(table[name], errors="coerce")
        all_numbers = numbers.notna().any() and (numbers.notna() == table[name].notna()).all()
        guessed[name] = numbers if all_numbers else table[name]
    return pd.DataFrame(guessed)


def is_number(column: pd.Series) -> bool:
    """Return whether a column holds numbers; truth values are categories."""
    return bool(pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column))


def as_table(X: Any) -> pd.DataFrame:
    """Return rows as a table; what came in an array of objects is numbers where all entries of a column are."""
    return X if isinstance(X, pd.DataFrame) else pd.DataFrame(np.asarray(X)).infer_objects()


def same_columns(name: str, X: Any, public: pd.DataFrame) -> pd.DataFrame:
    """Return the rows called `name` as a table with the public columns and kinds, refusing infinite entries."""
    table = as_table(X)
    if not hasattr(X, "columns") and table.shape[1] == public.shape[1]:
        table.columns = public.columns
    table = take_kinds(name, table, public)
    for column in table.columns:
        if is_number(table[column]) and np.isinf(table[column].to_numpy(dtype=float)).any():
            raise DataError(f"{name} has infinite values in column {column!r}; drop those rows, or leave them blank.")
    return table


def take_kinds(name: str, table: pd.DataFrame, public: pd.DataFrame) -> pd.DataFrame:
    """Return the table called `name` with the public table's columns, in its order and of its kinds."""
    lacks = [str(column) for column in public.columns if column not in table.columns]
    extra = sum(column not in public.columns for column in table.columns)
    if lacks:
        raise DataError(f"the {name} table lacks the columns {', '.join(lacks)}, which the public table has.")
    if extra:
        raise DataError(
            # Without a header their names are a record.
            f"the {name} table has columns that the public table lacks: {extra} of {len(table.columns)}; drop them "
            "(--drop), or name the one that says whose record it is (--unit)."
        )
    return as_kinds(name, table[list(public.columns)], [c for c in public.columns if is_number(public[c])])


def as_kinds(name: str, table: pd.DataFrame, numeric: list[str]) -> pd.DataFrame:
    """Return a table with some columns as numbers and all others as text, refusing text among numbers."""
    kinds = {}
    for column in table.columns:
        values = table[column]
        if column not in numeric:
            if is_number(values):
                raise DataError(f"column {column!r} is text in the public table but numbers in the {name} table.")
            kinds[column] = as_text(values)
            continue
        # Always floats: whether a column of integers stays one would depend on every entry.
        kinds[column] = pd.to_numeric(values, errors="coerce").astype(float)
        if (kinds[column].isna() & values.notna()).any():
            raise DataError(
                f"column {column!r} is numbers in the public table but has entries that are none in the {name} table."
            )
    return pd.DataFrame(kinds)


def as_text(column: pd.Series) -> pd.Series:
    """Return entries as they are written, each for itself: 5 and 5.0 as "5"; missing ones stay missing."""
    return column.map(_written, na_action="ignore").astype(object)


def _written(value: object) -> str:
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if whole else str(value)  # type: ignore[call-overload]


def require_complete(name: str, table: pd.DataFrame, *, blanks: bool = False) -> None:
    """Refuse missing (unless `blanks` may be) and infinite entries, naming the columns that have some."""
    bad = []
    for column in table.columns:
        values = table[column]
        infinite = is_number(values) and bool(np.isinf(values.to_numpy(dtype=float, na_value=np.nan)).any())
        if infinite or (not blanks and values.isna().any()):
            bad.append(str(column))
    if bad:
        raise DataError(
            f"{name} has {'' if blanks else 'missing (NaN) or '}infinite values in {', '.join(bad)}; drop those rows, "
            "or fill them in with statistics of public rows."
        )
