"""Read tables so that no private row affects how another is read.

Readers that guess types let one odd entry turn a whole column from numbers into text. Here types are guessed only for
public tables. Private and test tables take the public columns' kinds, and labels and units are read as they are
written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from decimal import Decimal
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import pandas as pd

from dpensemble._checks import by_name, in_words
from dpensemble._entries import Rows, is_table, require_readable
from dpensemble._hide_private_rows import guard_private_rows, guarded_rows
from dpensemble.datasets.columns import (
    assembled,
    in_parts,
    infinite_columns,
    is_number,
    number_columns,
    numbers_of,
    texts_of,
)
from dpensemble.datasets.csv import CSVFormat, advice, csv_chunks, is_csv, looks_like_decimal_comma, read_csv
from dpensemble.datasets.csv_layout import Expected
from dpensemble.datasets.frames import as_pandas, require_names
from dpensemble.datasets.parquet import ParquetTable, is_parquet
from dpensemble.errors import DataError, FileError, InvalidParameterError

_MOST_NAMED = 20
# What usually holds a database, and how its addresses begin.
_DATABASES = {".duckdb": "duckdb", ".db": "sqlite", ".sqlite": "sqlite", ".sqlite3": "sqlite"}


def read_table(
    path: Path | str,
    *,
    guess: bool = False,
    sep: str | None = None,
    decimal: str | None = None,
    multiline_text: bool = False,
    keep_broken: bool = False,
    skip_lines: int | None = None,
    like: Expected | None = None,
    not_blank: Mapping[str, Collection[str]] | None = None,
) -> pd.DataFrame:
    """Read a CSV or Parquet file by its ending, or a folder of Parquet files as one table.

    Parameters
    ----------
    path : path
        Ending in ``.csv``, ``.tsv`` or ``.txt``, optionally followed by ``.gz`` or ``.zip`` (with one such file in it),
        or in ``.parquet`` or ``.pq``, or a folder. Text is UTF-8, or UTF-16 with its mark. Bytes that are not UTF-8
        are decoded as Windows writes them (cp1252), each separately.
    guess : bool, default=False
        Read a CSV column whose entries are all numbers as numbers. Only for public
        tables. Otherwise every CSV column is text. See `take_kinds`.
    sep : str, optional
        Separator of columns of a CSV file: one character or ``"tab"``. By default a comma, a tab in ``.tsv``
        files, and a semicolon if ``decimal`` is a comma.
    decimal : {".", ","}, optional
        Decimal sign of numbers in a CSV file. With a comma, points group thousands: 1.234,5.
    multiline_text : bool, default=False
        Whether quoted texts in a CSV file may hold line breaks. By default each line is one record
        and is read separately. With line breaks, one open quotation mark changes how all later lines are read, so
        the guarantee holds for records as they are read, and not for lines of the file.
    keep_broken : bool, default=False
        Whether a broken line of a CSV file becomes a row in which every entry is missing. By default, it raises.
    skip_lines : int, optional
        Lines above the header of a CSV file, such as titles, besides a line ``sep=;``. By default those that a public
        table (``guess=True``) shows.
    like : Expected, optional
        What is known about the file from the public table of a run, for the command line.
    not_blank : mapping of str to collection of str, optional
        Texts that are entries of a column of a CSV file, such as a class called None. In other columns, None, NA, n/a,
        null, nan and the like are blanks.

    Returns
    -------
    DataFrame
        With NaN for empty entries.

    Raises
    ------
    FileError
        If the ending is unknown, or the file or a line of it cannot be read.
    DataError
        If the table has no rows or repeated column names, or seems to have another separator.
    """
    path, how = Path(path), CSVFormat(sep, decimal, multiline_text, skip_lines)
    text = is_csv(path)
    # A table whose types are guessed is public.
    with nullcontext() if guess else guard_private_rows(), readable(path):
        if text:
            unlike = {} if not_blank is None else not_blank
            table = read_csv(path, how, like=like, public=guess, keep_broken=keep_broken, not_blank=unlike)
        else:
            table = ParquetTable(path, public=guess).whole()
    if table.empty:
        raise DataError(f"{path} has no rows: give a table with rows.")
    require_names(str(path), table.columns, quoted=guess)
    return _guess_numbers(table) if guess and text else table


@guarded_rows
def table_chunks(
    path: Path | str,
    rows: int = 100_000,
    *,
    sep: str | None = None,
    decimal: str | None = None,
    multiline_text: bool = False,
    skip_lines: int | None = None,
    like: Expected | None = None,
) -> Iterator[pd.DataFrame]:
    """Yield a table as `read_table` would read it, in chunks of `rows` rows, so that it need not fit into memory."""
    path, how = Path(path), CSVFormat(sep, decimal, multiline_text, skip_lines)
    with readable(path):
        if is_csv(path):
            yield from csv_chunks(path, how, rows, like)
            return
        start = 0
        for table in ParquetTable(path).blocks(rows=rows):
            yield table.set_index(pd.RangeIndex(start, start + len(table)))
            start += len(table)


def _instead(path: Path) -> str:
    """Return the beginning of a suggestion for the file of another program."""
    ending = path.suffix.lower()
    if ending in (".xlsx", ".xls", ".ods"):
        return "save it as CSV there, and "
    if str(path).startswith("spark:"):
        return "to classify the rows of a table of Spark call spark_predictions in Python, otherwise "
    database = _DATABASES.get(ending)
    return f"for private records, or rows to classify, give {database}:{path}:TABLE, otherwise " if database else ""


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn errors about a file that cannot be read as a table into one sentence."""
    if not is_csv(path) and not is_parquet(path):
        raise FileError(
            f"{path} is not a table that can be read; {_instead(path)}use .csv, .csv.gz, .csv.zip, .tsv, .parquet or a "
            "folder of .parquet."
        )
    try:
        yield
    except (DataError, FileError, InvalidParameterError):
        raise
    except (OSError, ValueError, EOFError, BadZipFile, NotImplementedError, RuntimeError, MemoryError) as error:
        kind = path.suffix.lower()[1:]
        raise FileError(f"{path} cannot be read: {advice(error, kind)}.") from None


def _guess_numbers(table: pd.DataFrame) -> pd.DataFrame:
    columns = np.arange(table.shape[1])
    parts = [(part, *numbers) for part, numbers in in_parts(table, columns, numbers_of)]
    numeric = np.concatenate([~odd & ~np.isnan(values).all(axis=0) for _, values, odd in parts])
    values = np.concatenate([values for _, values, _ in parts], axis=1)[:, numeric]
    return assembled(table, columns[numeric], values, table.iloc[:, columns[~numeric]])


def as_table(X: Any) -> pd.DataFrame:
    """Return public rows as a table. Columns of objects become numbers if all of their entries are numbers."""
    table = as_pandas("X", X)
    if isinstance(table, pd.DataFrame):
        return decimals_as_numbers(table)
    require_readable("X", table)
    return decimals_as_numbers(pd.DataFrame(np.asarray(table)).infer_objects())


def as_fitted_table(transformer: Rows, X: Rows) -> pd.DataFrame:
    """Return rows as a table with the columns that a transformer was fitted on, found by name if they have names."""
    table, names = as_table(X), vars(transformer).get("feature_names_in_")
    if names is None or not all(isinstance(name, str) for name in table.columns):
        return table
    return by_name(table, names)


def decimals_as_numbers(public: pd.DataFrame) -> pd.DataFrame:
    """Return public rows in which columns of `decimal.Decimal`, as databases return them, are floats.

    Only public rows are converted, because they define the kinds of columns, so that no private entry does.
    """
    for place in np.flatnonzero([kind.kind == "O" for kind in public.dtypes]):
        column = public.iloc[:, int(place)]
        entries = column.dropna()
        if len(entries) and all(isinstance(entry, Decimal) for entry in entries):
            public = public.copy(deep=False)
            public.isetitem(int(place), numbers_of(column.to_frame())[0][:, 0])
    return public


def same_columns(name: str, X: Any, public: pd.DataFrame, *, keep_bad: bool = False) -> pd.DataFrame:
    """Return the rows called `name` as a table with the public columns and kinds.

    Infinite entries and text among numbers raise an error. With `keep_bad`, infinite entries stay, and text among
    numbers becomes a blank.
    """
    # No kinds are guessed, because an odd entry would change how all others are read.
    table = take_kinds(name, named_by(public, X), public, keep_bad=keep_bad)
    infinite = infinite_columns(table)
    if infinite.any() and not keep_bad:
        column = table.columns[int(np.argmax(infinite))]
        raise DataError(f"{name} has infinite values in column {column!r}: leave those entries blank.")
    return table


def named_by(public: pd.DataFrame, X: Any) -> pd.DataFrame:
    """Return rows as a table. Rows without names take those of the public columns if there are as many."""
    table = X if isinstance(X, pd.DataFrame) else pd.DataFrame(np.asarray(X))
    if not is_table(X) and table.shape[1] == public.shape[1]:
        table.columns = public.columns
    return table


@contextmanager
def kinds_by(name: str) -> Iterator[None]:
    """Use `name` in errors for what defines the kinds of columns, if that is not a public table."""
    try:
        yield
    except DataError as error:
        raise DataError(str(error).replace("the public table", name)) from None


def take_kinds(name: str, table: pd.DataFrame, public: pd.DataFrame, *, keep_bad: bool = False) -> pd.DataFrame:
    """Return the table called `name` with the public table's columns, in its order and with its kinds.

    Text among numbers raises an error. With `keep_bad`, such an entry becomes a blank.
    """
    # All at once, because looking up one name among very many takes time.
    lacks = [str(column) for column in public.columns[~public.columns.isin(table.columns)]]
    extra = [str(column) for column in table.columns[~table.columns.isin(public.columns)]]
    if lacks or extra:
        raise DataError(_other_columns(name, lacks, in_words(extra, table.columns)))
    numeric = list(public.columns[number_columns(public)])
    return as_kinds(name, table[list(public.columns)], numeric, keep_bad=keep_bad)


def _other_columns(name: str, lacks: list[str], extra: str) -> str:
    """Return the error for a table that lacks public columns, or has others. `extra` is in words."""
    missing = f"lacks the columns {', '.join(lacks)}, which the public table has"
    if not extra:
        return f"the {name} table {missing}: add them, or leave them out (--drop {','.join(lacks)})."
    more = f"has columns that the public table lacks: {extra}"
    unit = "name the column that identifies whose record it is (--unit)"
    if not lacks:
        return f"the {name} table {more}; drop them (--drop), or {unit}."
    alike = "give both tables the same columns, leave some out (--drop)"
    return f"the {name} table {missing}, and {more}; {alike}, or {unit}."


def as_kinds(name: str, table: pd.DataFrame, numeric: list[str], *, keep_bad: bool = False) -> pd.DataFrame:
    """Return a table with some columns as numbers and all others as text.

    Text among numbers raises an error. With `keep_bad`, such an entry becomes a blank.
    """
    is_numeric = table.columns.isin(numeric)
    clash = number_columns(table) & ~is_numeric
    if clash.any():
        column = table.columns[int(np.argmax(clash))]
        raise DataError(
            f"column {column!r} is text in the public table but numbers in the {name} table: write both alike."
        )
    # Always floats: otherwise one entry would decide whether a column stays integer.
    numbers, others = np.flatnonzero(is_numeric), np.flatnonzero(~is_numeric)
    values = np.empty((len(numbers), len(table))).T
    start = 0
    for part, (read, odd) in in_parts(table, numbers, numbers_of):
        if odd.any() and not keep_bad:
            raise _no_number(name, table.iloc[:, int(part[np.argmax(odd)])])
        values[:, start : start + len(part)] = read
        start += len(part)
    written = [texts for _, texts in in_parts(table, others, texts_of)]
    return assembled(table, numbers, values, pd.concat(written, axis=1) if written else table.iloc[:, others])


def _no_number(name: str, values: pd.Series) -> DataError:
    """Return an error that names the row of an entry that is not a number. The entry itself is not shown."""
    row = int((pd.to_numeric(values, errors="coerce").isna() & values.notna()).to_numpy().argmax())
    comma = looks_like_decimal_comma(str(values.iloc[row]))
    return DataError(
        f"column {values.name!r} is numbers in the public table but has entries that are not numbers in the {name} "
        f"table (the first in row {row + first_row(values):,}, counting from 0); "
        + ('if numbers have decimal commas, give --decimal ",".' if comma else "correct, blank or drop them.")
    )


def first_row(table: pd.DataFrame | pd.Series) -> int:
    """Return the number of the first row, which is not 0 in a later chunk of a table."""
    index = table.index
    return int(index.start) if isinstance(index, pd.RangeIndex) else 0


def require_complete(name: str, table: pd.DataFrame, *, blanks: bool = False, private: bool = False) -> None:
    """Raise if there are missing (unless `blanks`) or infinite entries, and name their columns.

    Rows of a `private` table should not be dropped, because that changes how many there are.
    """
    spoiled = infinite_columns(table)
    if not blanks:
        spoiled |= table.isna().to_numpy().any(axis=0)
    bad = [str(column) for column in table.columns[spoiled]]
    if bad:
        row = min(_first_spoiled(table.iloc[:, place], blanks) for place in np.flatnonzero(spoiled)[:_MOST_NAMED])
        more = f" and {len(bad) - _MOST_NAMED:,} more columns" if len(bad) > _MOST_NAMED else ""
        raise DataError(
            f"{name} has {'' if blanks else 'missing (NaN) or '}infinite values in {', '.join(bad[:_MOST_NAMED])}{more}"
            f" (the first in row {row + first_row(table):,}, counting from 0): "
            + ("let such records add nothing (--on-bad-record zero)" if private else "drop those rows")
            + (", or leave the entries blank." if blanks else ", or fill them in from public rows (--fill).")
        )


def _first_spoiled(values: pd.Series, blanks: bool) -> int:
    wrong = np.zeros(len(values), dtype=bool) if blanks else values.isna().to_numpy()
    if is_number(values):
        wrong = wrong | np.isinf(values.to_numpy(dtype=float, na_value=np.nan))
    return int(wrong.argmax())
