"""Columns of a table, many at a time: as numbers, as texts, and as the parts of dates.

Bytes of texts that are not UTF-8 are read separately, so that one odd record changes no other.
"""

from __future__ import annotations

import codecs
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble._entries import Floats
from dpensemble._identity import identity, require_id_type

#: Handler of errors for ``bytes.decode`` and ``open``, which reads such bytes as Windows writes them.
AS_WINDOWS = "dpensemble-windows"


def _windows(error: UnicodeError) -> tuple[str, int]:
    """Decode bytes that are not UTF-8 as Windows writes them (cp1252), each separately. Other encodings lose them."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    if error.encoding.lower() not in ("utf-8", "utf8"):
        return "\N{REPLACEMENT CHARACTER}", error.end
    odd = error.object[error.start : error.end]
    return "".join(bytes([byte]).decode("cp1252", errors="replace") for byte in odd), error.end


codecs.register_error(AS_WINDOWS, _windows)


def release_unused() -> None:
    """Return memory that Arrow keeps for later texts to the system. Does nothing without Arrow."""
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()


# Errors of other libraries about single entries. `UnicodeError` is a `ValueError`, and `OverflowError` arithmetic.
_FROM_ENTRIES = (ArithmeticError, AttributeError, NotImplementedError, TypeError, ValueError)
# Entries that are converted together. Many columns cost little each, and a tall table is not copied as objects.
_ENTRIES_AT_ONCE = 2**21
# pandas' integers and truth values that may be missing. They become floats exactly as those of numpy do.
_MASKED = frozenset(f"{kind}{size}" for kind in ("Int", "UInt") for size in (8, 16, 32, 64)) | {
    "Float32",
    "Float64",
    "boolean",
}


def is_number(column: pd.Series) -> bool:
    """Return whether a column holds numbers. Truth values are categories."""
    return bool(pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column))


def number_columns(table: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which columns hold numbers, shape (n_columns,)."""
    # By type instead of by column, because there may be many columns.
    is_numeric: dict[Any, bool] = {}
    for kind in table.dtypes:
        if kind not in is_numeric:
            is_numeric[kind] = is_number(pd.Series(dtype=kind))
    return np.array([is_numeric[kind] for kind in table.dtypes], dtype=bool)


def in_parts(
    table: pd.DataFrame, columns: NDArray[np.int64], read: Callable[[pd.DataFrame], Any]
) -> Iterator[tuple[NDArray[np.int64], Any]]:
    """Yield places of columns with the result of `read`: many columns at a time, without copying the whole table."""
    size = max(1, _ENTRIES_AT_ONCE // max(len(table), 1))
    for start in range(0, len(columns), size):
        part = columns[start : start + size]
        yield part, read(table.iloc[:, part])


def numbers_of(part: pd.DataFrame) -> tuple[Floats, NDArray[np.bool_]]:
    """Return columns as floats, with NaN for entries that are not numbers, and which columns have such entries.

    Each entry is read separately. Blanks are NaN, and do not count as entries that are not numbers.
    """
    if all(_is_plain(kind) for kind in part.dtypes):
        return part.to_numpy(dtype=np.float64, na_value=np.nan), np.zeros(part.shape[1], dtype=bool)
    entries = entries_of(part)
    values = _each_number(entries.ravel()).reshape(entries.shape)
    return values, (np.isnan(values) & part.notna().to_numpy()).any(axis=0)


def _is_plain(kind: Any) -> bool:
    return kind.kind in "biuf" if isinstance(kind, np.dtype) else kind.name in _MASKED


def _each_number(entries: NDArray[np.generic]) -> Floats:
    # If one entry has a fraction, each entry is read as a float, regardless of the others.
    try:
        values = pd.to_numeric(np.append(entries, 0.5), errors="coerce")[:-1]
    except _FROM_ENTRIES:
        values = None
    if values is None or values.dtype.kind not in "biuf":
        # One entry can make pandas refuse all, or read all as complex: an integer of 400 digits, a signaling NaN, 1j.
        half = len(entries) // 2
        if not half:
            return np.array([np.nan])
        return np.concatenate([_each_number(entries[:half]), _each_number(entries[half:])])
    return np.asarray(values, dtype=np.float64)


def entries_of(part: pd.DataFrame) -> NDArray[np.generic]:
    """Return entries as objects, exactly as they are stored, shape (n_rows, n_columns)."""
    # `to_numpy` would round all integer categories if one entry is missing.
    with suppress(*_FROM_ENTRIES):
        return part.astype(object).to_numpy(dtype=object)
    columns = [_objects_of(part.iloc[:, place]) for place in range(part.shape[1])]
    return np.stack(columns, axis=1)


def texts_of(part: pd.DataFrame) -> pd.DataFrame:
    """Return columns as texts, each entry written by `as_text`."""
    entries = entries_of(part)
    written = as_text(pd.Series(entries.ravel(), dtype=object)).to_numpy(copy=True).reshape(entries.shape)
    # One sign for missing entries, because pandas would choose the sign by the other entries.
    written[part.isna().to_numpy()] = np.nan
    return pd.DataFrame(written, index=part.index, columns=part.columns, dtype=object)


def as_text(column: pd.Series) -> pd.Series:
    """Return entries as they are written, each separately: 5 and 5.0 as "5". Missing entries stay missing."""
    entries = _objects_of(column)
    # Most columns hold only texts, and writing each text again takes ten times as long.
    if set(map(type, entries)) != {str}:
        missing = pd.isna(entries)
        texts = [one if lost else text_of(one) for one, lost in zip(entries.tolist(), missing.tolist(), strict=True)]
        entries = np.fromiter(texts, dtype=object, count=len(texts))
    return pd.Series(entries, index=column.index, name=column.name, dtype=object)


def _objects_of(column: pd.Series) -> NDArray[np.generic]:
    """Return the entries of a column as objects, exactly as they are stored. What pandas cannot return is missing."""
    with suppress(*_FROM_ENTRIES):
        return column.astype(object).to_numpy(dtype=object)
    half = len(column) // 2
    if not half:
        return np.array([None], dtype=object)
    return np.concatenate([_objects_of(column.iloc[:half]), _objects_of(column.iloc[half:])])


def labels_of(column: pd.Series) -> NDArray[np.generic]:
    """Return labels as they are stored: as an array of numbers if the type of the column is one of NumPy's."""
    plain = isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf"
    return column.to_numpy() if plain else _objects_of(column)


def unit_entries(column: pd.Series) -> NDArray[np.generic]:
    """Return the entries of a column of units as they are stored. Raise for a column whose type does not hold ids."""
    require_id_type(f"unit={column.name!r}", column.dtype)
    return _objects_of(column)


def text_of(entry: object) -> Any:
    """Return an entry as it is written, or NaN for an entry that cannot be written, such as a date far from today."""
    try:
        whole = isinstance(entry, float | np.floating) and entry.is_integer()
        return str(int(entry)) if whole else str(entry)  # type: ignore[call-overload]
    except _FROM_ENTRIES:
        return np.nan


def distinct_ids(column: pd.Series) -> tuple[NDArray[np.intp], list[bytes]]:
    """Return the place of each entry among the distinct ids, -1 for an entry that names nobody, and these ids.

    `dpensemble._identity` states which ids are equal. Raise for a column of another type.
    """
    require_id_type("the column of units", column.dtype)
    kind = column.dtype
    if isinstance(kind, pd.CategoricalDtype) or kind.kind not in "iub":
        return _numbered(map(identity, _objects_of(column).tolist()))
    # Entries of one type of whole numbers are one id only if they are the same.
    places, distinct = pd.factorize(column)
    own, ids = _numbered(map(identity, np.asarray(distinct, dtype=object).tolist()))
    return np.append(own, -1)[places], ids


def distinct_texts(column: pd.Series) -> tuple[NDArray[np.intp], list[str]]:
    """Return the place of each entry among the distinct texts of a column, -1 for a missing entry, and these texts."""
    texts = as_text(column)
    missing = pd.isna(texts)
    return _numbered(None if lost else text for text, lost in zip(texts, missing, strict=True))


def _numbered(written: Iterable[Any]) -> tuple[NDArray[np.intp], list[Any]]:
    """Return the place of each entry among the distinct ones, -1 for None, and the distinct ones."""
    distinct: dict[Any, int] = {}
    places = [-1 if one is None else distinct.setdefault(one, len(distinct)) for one in written]
    return np.array(places, dtype=np.intp), list(distinct)


def assembled(table: pd.DataFrame, places: NDArray[np.int64], numbers: Floats, others: pd.DataFrame) -> pd.DataFrame:
    """Return a table's columns in order: those at `places` are `numbers`, and the rest are `others`."""
    numeric = pd.DataFrame(numbers, index=table.index, columns=table.columns[places], copy=False)
    if others.shape[1] == 0:
        return numeric
    rest = np.setdiff1d(np.arange(table.shape[1]), places)
    order = np.argsort(np.concatenate([places, rest]))
    return pd.concat([numeric, others], axis=1).iloc[:, order]


def row_hashes(X: Any, y: Any) -> NDArray[np.uint64] | None:
    """Return a hash of each row and its label, or None if no hash is defined for rows of this type.

    Equal rows have equal hashes. The hashes distinguish rows, but they do not hide their content.
    """
    try:
        if not isinstance(X, pd.DataFrame):
            X = np.asarray(X)
            if X.ndim != 2 or X.dtype.kind not in "biufO":
                return None
        plain = not isinstance(X, pd.DataFrame) and X.dtype.kind != "O"
        rows = _hashed(X) if plain else _by_pandas(pd.DataFrame(X))
        labels = _by_pandas(pd.Series(np.asarray(y).ravel()))
    except (ArithmeticError, TypeError, ValueError):
        return None
    if len(labels) != len(rows):
        return None
    mixed: NDArray[np.uint64] = rows * np.uint64(31) + labels
    return mixed


def _by_pandas(entries: pd.DataFrame | pd.Series) -> NDArray[np.uint64]:
    return np.asarray(pd.util.hash_pandas_object(entries, index=False), dtype=np.uint64)


def _hashed(rows: NDArray[np.generic]) -> NDArray[np.uint64]:
    factors = np.random.default_rng(0).integers(0, 2**63, rows.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    hashes = np.empty(len(rows), dtype=np.uint64)
    size = max(1, _ENTRIES_AT_ONCE // max(rows.shape[1], 1))
    for start in range(0, len(rows), size):
        bits = np.ascontiguousarray(rows[start : start + size], dtype=np.float64).view(np.uint64)
        # The low bits of most numbers are 0, and products keep them 0.
        hashes[start : start + size] = ((bits ^ (bits >> np.uint64(32))) * factors).sum(axis=1, dtype=np.uint64)
    return hashes


def infinite_columns(table: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which columns hold an infinite number."""
    infinite_here = number_columns(table)
    for part, infinite in in_parts(table, np.flatnonzero(infinite_here), _any_infinite):
        infinite_here[part] = infinite
    return infinite_here


def _any_infinite(part: pd.DataFrame) -> NDArray[np.bool_]:
    return np.isinf(part.to_numpy(dtype=np.float64, na_value=np.nan)).any(axis=0)


# Only the day of a time stamp is read. A format is used if nearly all public entries have it.
_FORMATS = ("%Y-%m-%d", "%Y/%m/%d", "%Y%m%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%d %b %Y", "%d-%b-%Y")
_NEARLY_ALL = 0.95
_FEWEST, _LOOKED_AT_FIRST = 3, 50
DATE_PARTS = ("year", "month", "weekday")


def date_formats(entries: pd.Series) -> list[str]:
    """Return formats in which nearly all present entries are dates. There are several if days may be months."""
    texts = entries.dropna()
    if len(texts) < _FEWEST or not _are_dates(texts.iloc[:_LOOKED_AT_FIRST], _FORMATS):
        return []
    return _are_dates(texts, _FORMATS)


def which_are_dates(entries: pd.Series) -> NDArray[np.bool_]:
    """Return which present entries are dates in the format in which most are dates."""
    texts = entries.dropna()
    begin = [float(_days(texts.iloc[:_LOOKED_AT_FIRST], one).notna().mean()) for one in _FORMATS]
    best = int(np.argmax(begin))
    if not begin[best]:
        return np.zeros(len(texts), dtype=bool)
    return np.asarray(_days(texts, _FORMATS[best]).notna().to_numpy(), dtype=bool)


def _are_dates(texts: pd.Series, formats: tuple[str, ...]) -> list[str]:
    return [one for one in formats if _days(texts, one).notna().mean() >= _NEARLY_ALL]


def _days(texts: pd.Series, how: str) -> pd.Series:
    """Return the day of each entry. Each entry is read separately, and what follows the day is its time."""
    try:
        days = texts.astype(str).str.strip()
    except UnicodeError:
        # Half of a pair of surrogates, which no date has.
        days = texts.map(lambda text: str(text).encode("utf-8", "replace").decode()).astype(str).str.strip()
    if " " not in how:
        days = days.str.split(r"[ T]", n=1, regex=True).str[0]
    # pandas replaces "now" and "today" by the current time.
    days = days.where(days.str.contains(r"\d"), "")
    return pd.to_datetime(days, format=how, errors="coerce")


def unreadable_dates(entries: pd.Series, how: str) -> pd.Series:
    """Return which entries are present but are not dates in a format."""
    written = as_text(entries)
    return written.notna() & _days(written.where(written.notna(), ""), how).isna()


def date_parts(entries: pd.Series, how: str) -> dict[str, pd.Series]:
    """Return year, month and weekday of entries in a format, missing where an entry is not such a date."""
    days = _days(entries.where(entries.notna(), ""), how)
    weekday = days.dt.day_name()
    return {
        "year": days.dt.year.astype(float),
        "month": days.dt.month.astype(float),
        "weekday": weekday.astype(object).where(weekday.notna(), np.nan),
    }
