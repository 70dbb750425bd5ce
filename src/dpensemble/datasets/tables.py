"""Read tables so that no private row affects how another is read.

Readers that guess types let one odd entry turn a whole column from numbers into text. Here types are guessed only for
public tables. Private and test tables take the public columns' kinds, and labels and units are read as they are
written.

A transformer of this library states how it reads rows. Any other gets safe defaults, and a fingerprint of its state
shows whether rows change it.
"""

from __future__ import annotations

import hashlib
import pickle
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from decimal import Decimal
from lzma import LZMAError
from pathlib import Path
from types import MappingProxyType
from typing import Any
from zipfile import BadZipFile

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble._checks import is_missing, shown
from dpensemble._entries import Floats, Integers, Rows, is_table, require_readable
from dpensemble._files import pipes_kept
from dpensemble._hide_private_rows import guard_private_rows, guarded_rows
from dpensemble.datasets.arrow import ParquetTable, is_parquet
from dpensemble.datasets.columns import (
    assembled,
    encoded_texts_of,
    in_parts,
    is_number,
    number_columns,
    numbers_of,
    text_of,
    texts_of,
)
from dpensemble.datasets.csv import CSVFormat, Expected, advice, csv_chunks, is_csv, looks_like_decimal_comma, read_csv
from dpensemble.datasets.formats import points_may_group
from dpensemble.datasets.frames import as_pandas, require_names
from dpensemble.errors import DataError, FileError, InvalidParameterError

#: How one column of a table is read: its name, kind, knots or categories, and the places of its features.
ColumnReading = dict[str, Any]


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
    sheet: str | None = None,
    like: Expected | None = None,
    not_blank: Mapping[str, Collection[str]] | None = None,
    written: Collection[str] | None = None,
) -> pd.DataFrame:
    """Read a CSV, Excel or Parquet file by its ending, or a folder of Parquet files as one table.

    Parameters
    ----------
    path : path
        Ending in ``.csv``, ``.tsv`` or ``.txt``, optionally followed by ``.gz``, ``.bz2``, ``.xz``, ``.zst`` or
        ``.zip`` (with one such file in it), or in ``.xlsx``, ``.parquet`` or ``.pq``, or a folder. ``-`` is CSV from
        standard input. Text is UTF-8, or UTF-16 with its mark. Bytes that are not UTF-8
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
    sheet : str, optional
        Sheet of a workbook of Excel. By default the only visible one. Each cell is read separately.
    like : Expected, optional
        What is known about the file from the public table of a run, for the command line.
    not_blank : mapping of str to collection of str, optional
        Texts that are entries of a column of a CSV file, such as a class called None. In other columns, None, NA, n/a,
        null, nan and the like are blanks.
    written : collection of str, optional
        With ``guess``, columns that stay texts. If this is given, even without a name, so does a column in which every
        number may be thousands, such as 1.234, unless ``decimal`` is. `TablePreparation` reads such columns.

    Returns
    -------
    DataFrame
        With NaN for empty entries.

    Raises
    ------
    FileError
        If the ending is unknown, or the file or a line of it cannot be read.
    DataError
        If the table has no rows, repeated column names or merged cells in its header, or seems to have another
        separator.
    """
    path, how = Path(path), CSVFormat(sep, decimal, multiline_text, skip_lines, sheet)
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
    if not (guess and text):
        return table
    return _guess_numbers(table, () if written is None else written, doubts=written is not None and decimal is None)


@guarded_rows
def table_chunks(
    path: Path | str,
    rows: int = 100_000,
    *,
    sep: str | None = None,
    decimal: str | None = None,
    multiline_text: bool = False,
    skip_lines: int | None = None,
    sheet: str | None = None,
    like: Expected | None = None,
) -> Iterator[pd.DataFrame]:
    """Yield a table as `read_table` would read it, in chunks of `rows` rows, so that it need not fit into memory."""
    path, how = Path(path), CSVFormat(sep, decimal, multiline_text, skip_lines, sheet)
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
    if ending in (".xlsm", ".xlsb", ".xls", ".ods"):
        return "save it as .xlsx or CSV in the program that made it, and "
    if str(path).startswith("spark:"):
        return "to classify the rows of a table of Spark call spark_predictions in Python, otherwise "
    database = _DATABASES.get(ending)
    return f"for private records, or rows to classify, give {database}:{path}:TABLE, otherwise " if database else ""


_UNREADABLE = (OSError, ValueError, EOFError, BadZipFile, NotImplementedError, RuntimeError, MemoryError, LZMAError)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn errors about a file that cannot be read as a table into one sentence."""
    if not is_csv(path) and not is_parquet(path):
        raise FileError(
            f"{path} is not a table that can be read; {_instead(path)}use .csv, .tsv, either with .gz, .bz2, .xz, "
            ".zst or .zip, or .xlsx, .parquet or a folder of .parquet."
        )
    try:
        with pipes_kept():
            yield
    except (DataError, FileError, InvalidParameterError):
        raise
    except _UNREADABLE as error:
        kind = path.suffix.lower()[1:]
        raise FileError(f"{path} cannot be read: {advice(error, kind)}.") from None


def _guess_numbers(table: pd.DataFrame, written: Collection[str], *, doubts: bool) -> pd.DataFrame:
    """Return a table with columns of numbers as numbers, except those in `written`, and doubtful ones on request."""
    columns = np.arange(table.shape[1])
    parts = [(part, *numbers) for part, numbers in in_parts(table, columns, numbers_of)]
    numeric = np.concatenate([~odd & ~np.isnan(values).all(axis=0) for _, values, odd in parts])
    numeric &= ~table.columns.isin(list(written))
    values = np.concatenate([values for _, values, _ in parts], axis=1)
    if doubts:
        for place in np.flatnonzero(numeric).tolist():
            numeric[place] = not points_may_group(table.iloc[:, place], values[:, place])
    values = values[:, numeric]
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
    for place in np.flatnonzero([_may_be_decimals(kind) for kind in public.dtypes]).tolist():
        column = public.iloc[:, place]
        if _are_decimals(column):
            public = public.copy(deep=False)
            public.isetitem(place, numbers_of(column.to_frame())[0][:, 0])
    return public


def _may_be_decimals(kind: Rows) -> bool:
    return kind.kind == "O" and not isinstance(kind, pd.StringDtype)


def _are_decimals(column: pd.Series) -> bool:
    """Return whether a column has entries, and all of them are decimals."""
    # In most columns, the first entry is another one.
    if not len(column) or not (isinstance(first := column.array[0], Decimal) or is_missing(first)):
        return False
    entries = column.dropna()
    return len(entries) > 0 and all(isinstance(entry, Decimal) for entry in entries)


def settled(X: Rows) -> pd.DataFrame:
    """Return rows as a table whose columns are read alike from any block of its rows."""
    table = as_table(X)
    for place in np.flatnonzero([_may_be_decimals(kind) for kind in table.dtypes]):
        column = table.iloc[:, int(place)]
        if any(issubclass(kind, Decimal) for kind in set(map(type, column))):
            # A decimal that is not readable would be a text that an error of pandas quotes.
            require_readable("X", table)
            # Beside other entries decimals are texts. In a block of their own they would be numbers.
            entries = [text_of(entry) if isinstance(entry, Decimal) else entry for entry in column]
            table = table.copy(deep=False)
            table.isetitem(int(place), pd.Series(entries, dtype=object).array)
    return table


def same_columns(
    name: str, X: Any, public: pd.DataFrame, *, keep_bad: bool = False, encoded: bool = False
) -> pd.DataFrame:
    """Return the rows called `name` as a table with the public columns and kinds.

    Infinite entries and text among numbers raise an error. With `keep_bad`, infinite entries stay, and text among
    numbers becomes a blank. With `encoded`, columns of texts are categories (see `as_kinds`).
    """
    # No kinds are guessed, because an odd entry would change how all others are read.
    table = take_kinds(name, named_by(public, X), public, keep_bad=keep_bad, encoded=encoded)
    if keep_bad:
        return table
    infinite = _infinite_columns(table)
    if infinite.any():
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
        raise DataError(str(error).replace(_COMMAND.public, name).replace(_PYTHON.public, name)) from None


@dataclass(frozen=True)
class _Words:
    """What errors call the tables, and the remedies that a reader has: those of the command line or of Python."""

    public: str
    drop: str
    leave_out: str
    missing: str
    unit: str
    comma: str

    @classmethod
    def about(cls, name: str) -> _Words:
        """Return the words for a table called `name`, which is X in Python."""
        return _PYTHON if name == _X else _COMMAND


_X = "X"
_COMMAND = _Words(
    public="the public table",
    drop="drop them (--drop)",
    leave_out="leave some out (--drop)",
    missing="add them, or leave them out (--drop {lacks})",
    unit="name the column that identifies whose record it is (--unit)",
    comma='give --decimal ",".',
)
_PYTHON = _Words(
    public="X_public",
    drop="leave them out",
    leave_out="leave some out",
    missing="add them to X, or leave them out of X_public",
    unit="give the column that identifies whose record it is as units=",
    comma='read the table with decimal=",".',
)


def _table_words(name: str) -> str:
    return name if name == _X else f"the {name} table"


def take_kinds(
    name: str, table: pd.DataFrame, public: pd.DataFrame, *, keep_bad: bool = False, encoded: bool = False
) -> pd.DataFrame:
    """Return the table called `name` with the public table's columns, in its order and with its kinds.

    Text among numbers raises an error. With `keep_bad`, such an entry becomes a blank. `encoded` is as for `as_kinds`.
    """
    # All at once, because looking up one name among very many takes time.
    lacks = [str(column) for column in public.columns[~public.columns.isin(table.columns)]]
    extra = [str(column) for column in table.columns[~table.columns.isin(public.columns)]]
    if lacks or extra:
        raise DataError(_other_columns(name, lacks, _in_words(extra, table.columns) if extra else ""))
    numeric = list(public.columns[number_columns(public)])
    return as_kinds(name, table[list(public.columns)], numeric, keep_bad=keep_bad, encoded=encoded)


def _other_columns(name: str, lacks: list[str], extra: str) -> str:
    """Return the error for a table that lacks public columns, or has others. `extra` is in words."""
    words, table = _Words.about(name), _table_words(name)
    missing = f"lacks the columns {', '.join(lacks)}, which {words.public} has"
    if not extra:
        return f"{table} {missing}: {words.missing.format(lacks=','.join(lacks))}."
    more = f"has columns that {words.public} lacks: {extra}"
    if not lacks:
        return f"{table} {more}; {words.drop}, or {words.unit}."
    return f"{table} {missing}, and {more}; give both tables the same columns, {words.leave_out}, or {words.unit}."


def as_kinds(
    name: str, table: pd.DataFrame, numeric: list[str], *, keep_bad: bool = False, encoded: bool = False
) -> pd.DataFrame:
    """Return a table with some columns as numbers and all others as text.

    Text among numbers raises an error. With `keep_bad`, such an entry becomes a blank. With `encoded`, columns of texts
    are categories, which hold each distinct text once. Then every later step reads each text once, too.
    """
    is_numeric = table.columns.isin(numeric)
    clash = number_columns(table) & ~is_numeric
    if clash.any():
        column = table.columns[int(np.argmax(clash))]
        raise DataError(
            f"column {column!r} is text in {_Words.about(name).public} but numbers in {_table_words(name)}: write both "
            "alike."
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
    written = [texts for _, texts in in_parts(table, others, encoded_texts_of if encoded else texts_of)]
    return assembled(table, numbers, values, pd.concat(written, axis=1) if written else table.iloc[:, others])


def _no_number(name: str, values: pd.Series) -> DataError:
    """Return an error that names the row of an entry that is not a number. The entry itself is not shown."""
    row = int((pd.to_numeric(values, errors="coerce").isna() & values.notna()).to_numpy().argmax())
    comma = looks_like_decimal_comma(str(values.iloc[row]))
    words = _Words.about(name)
    return DataError(
        f"column {values.name!r} is numbers in {words.public} but has entries that are not numbers in "
        f"{_table_words(name)} (the first in row {row + first_row(values):,}, counting from 0); "
        + (f"if numbers have decimal commas, {words.comma}" if comma else "correct, blank or drop them.")
    )


def first_row(table: pd.DataFrame | pd.Series) -> int:
    """Return the number of the first row, which is not 0 in a later chunk of a table."""
    index = table.index
    return int(index.start) if isinstance(index, pd.RangeIndex) else 0


def require_complete(name: str, table: pd.DataFrame, *, blanks: bool = False, private: bool = False) -> None:
    """Raise if there are missing (unless `blanks`) or infinite entries, and name their columns.

    Rows of a `private` table should not be dropped, because that changes how many there are.
    """
    spoiled = _infinite_columns(table)
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


def _infinite_columns(table: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which columns hold an infinite number."""
    infinite_here = number_columns(table)
    for part, infinite in in_parts(table, np.flatnonzero(infinite_here), _any_infinite):
        infinite_here[part] = infinite
    return infinite_here


def _any_infinite(part: pd.DataFrame) -> NDArray[np.bool_]:
    return np.isinf(part.to_numpy(dtype=np.float64, na_value=np.nan)).any(axis=0)


class LibraryTransformer:
    """What a transformer of this library states about how it reads rows. Other transformers get safe defaults."""

    #: The step that first converts dates and blanks, a fitted `TablePreparation`.
    preparation_: Any = None
    #: Whether entries may be missing.
    takes_blanks: bool = False
    #: Required columns, or None for all.
    needed_columns: list[str] | None = None
    #: Known categories, by column.
    known_categories: Mapping[str, set[str]] = MappingProxyType({})
    #: Whether a row's features depend only on that row and its place among the rows, to the last digit.
    reads_rows_by_place = False
    #: Whether an encoded row depends only on that row, for rows of any type. Then private rows may be encoded together.
    encodes_rows_alone = False
    #: The map whose features the published model reads, or None for this map.
    decoder_: LibraryTransformer | None = None
    #: The map whose features have their private and public means compared, or None for this map.
    compared_: LibraryTransformer | None = None
    #: Returns the same features of rows as `transform`, in the form that is summed up fastest. None for `transform`.
    for_sums: Callable[[Rows], Rows] | None = None
    #: The same, in the form that is multiplied fastest by an array with many columns.
    for_products: Callable[[Rows], Rows] | None = None
    #: The same in pieces, as `TableMap.for_shared_products` describes them.
    for_shared_products: Callable[[Rows], Rows] | None = None
    #: Returns weights of features whose sums are linear functions of numbers, as `TableMap.linear_weights` describes
    #: them. None if there are none.
    linear_weights: Callable[[pd.DataFrame], Floats] | None = None
    #: Whether a row's features depend only on that row, to the last digit, in tables of the public rows' kinds.
    reads_rows_alone: bool = False
    #: Whether a fit of two classes leaves out features whose released moments do not stand out from noise.
    screens_features = False
    #: Whether earlier versions read the same table by another map. Sums that their runs drew are not those of this map.
    is_recent: bool = False
    #: Whether each feature depends on only one column, so that the columns of made-up rows may be drawn separately.
    reads_columns_apart = False

    #: How `column_parts` divides a row among its columns. None if the features have no parts by column.
    attribution: str | None = None
    #: How each column of a table is read, as `TableMap.columns_` describes it. None if that is not known.
    table_columns: list[ColumnReading] | None = None
    #: The column of the rows before the transformation that each column of the rows after it comes from, by place.
    source_columns: list[str] | None = None

    def as_declared(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return a table in which declared categories are texts, even if they are written as numbers."""
        return table

    def as_fresh(self, public: pd.DataFrame, units: Integers | None) -> pd.DataFrame:  # noqa: ARG002
        """Return public rows whose mean features are those of rows that the map was not fitted on.

        `units` are the number of each row's unit, or None if each row is a unit.
        """
        return public

    def on_table(self, coefficients: Floats, public: pd.DataFrame) -> tuple[LibraryTransformer, Floats] | None:  # noqa: ARG002
        """Return a map that reads columns separately, and coefficients of its features, or None."""
        return (self, coefficients) if self.reads_columns_apart else None


def as_library_transformer(transformer: Any) -> Any:
    """Return a transformer of this library itself, or the safe defaults for any other transformer."""
    # By class, because another transformer may copy attributes of this library's and still read rows together.
    return transformer if isinstance(transformer, LibraryTransformer) else LibraryTransformer()


def fingerprint(thing: object) -> str:
    """Return a hash of an object's whole content: attributes, arrays, containers, and states of random generators."""
    digest = hashlib.sha256()
    _add(thing, digest, [])
    return digest.hexdigest()


def _add(thing: Any, digest: Any, above: list[Any]) -> None:
    digest.update(f"<{type(thing).__module__}.{type(thing).__qualname__}>".encode())
    if any(thing is one for one in above):
        return
    if thing is None or isinstance(thing, (bool, int, float, complex, str, bytes, np.generic)):
        digest.update(repr(thing).encode())
    elif isinstance(thing, np.ndarray) and thing.dtype != object:
        digest.update(f"{thing.shape}{thing.dtype}".encode() + np.ascontiguousarray(thing).tobytes())
    elif hasattr(thing, "tocoo"):
        entries = thing.tocoo()
        _add_all([thing.shape, entries.row, entries.col, entries.data], digest, [*above, thing])
    elif isinstance(thing, np.ndarray):
        _add_all([thing.shape, *thing.ravel().tolist()], digest, [*above, thing])
    elif isinstance(thing, dict):
        _add_all([part for item in thing.items() for part in item], digest, [*above, thing])
    elif isinstance(thing, (list, tuple)):
        _add_all(thing, digest, [*above, thing])
    elif isinstance(thing, (set, frozenset)):
        digest.update("".join(sorted(fingerprint(one) for one in thing)).encode())
    elif hasattr(thing, "__dict__") and not isinstance(thing, type) and not callable(getattr(thing, "__code__", None)):
        _add_all([part for item in sorted(vars(thing).items()) for part in item], digest, [*above, thing])
    else:
        _add_foreign(thing, digest)


def _add_all(parts: Any, digest: Any, above: list[Any]) -> None:
    for part in parts:
        _add(part, digest, above)


def _add_foreign(thing: Any, digest: Any) -> None:
    """Add an object without attributes: a function, a class, or an object of compiled code."""
    try:
        digest.update(pickle.dumps(thing))
    except Exception:
        digest.update(getattr(thing, "__qualname__", type(thing).__qualname__).encode())


def by_name(X: Any, names: Sequence[str], *, needed: Sequence[str] | None = None) -> Any:
    """Return a table with the columns `names` in this order, without others. Raise if a needed column is missing."""
    columns, names = list(X.columns), list(names)
    if columns == names:
        return X
    own = set(columns)
    if len(own) < len(columns):
        raise DataError("X names a column twice: give each column once.")
    missing = [str(name) for name in (names if needed is None else needed) if name not in own]
    if missing:
        rest = len(missing) - _MOST_NAMED
        lacks = ", ".join(map(shown, missing[:_MOST_NAMED])) + (f" and {rest:,} more" if rest > 0 else "")
        raise DataError(
            f"X must have the columns that the student was trained on: it lacks {lacks}; rename or add columns."
        )
    return X[[name for name in names if name in own]]


def _in_words(extra: Sequence[str], columns: Collection[Any]) -> str:
    """Quote only names that look like names: without a header, or in a transposed table, names are records."""
    names = [name for name in extra if re.fullmatch(r"[A-Za-z_][\w.-]*", name)]
    numbered = any(str(column).strip()[:1].isdigit() for column in columns)
    if numbered or not names or len(extra) == len(columns):
        return f"{len(extra)} of {len(columns)}"
    rest = len(extra) - len(names[:_MOST_NAMED])
    return ", ".join(map(repr, names[:_MOST_NAMED])) + (f" and {rest:,} more" if rest else "")
