"""Convert many columns of a table at a time, to numbers or to texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble._arrays import Floats

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


def _each_number(entries: NDArray[Any]) -> Floats:
    # If one entry has a fraction, each entry is read as a float, regardless of the others.
    try:
        values = pd.to_numeric(np.append(entries, 0.5), errors="coerce")[:-1]
    except (ArithmeticError, TypeError):
        values = None
    if values is None or values.dtype.kind not in "biuf":
        # One entry can make pandas refuse all, or read all as complex: an integer of 400 digits, a signaling NaN, 1j.
        if len(entries) == 1:
            return np.array([np.nan])
        return np.concatenate([_each_number(entries[i : i + 1]) for i in range(len(entries))])
    return np.asarray(values, dtype=np.float64)


def entries_of(part: pd.DataFrame) -> NDArray[Any]:
    """Return entries as objects, exactly as they are stored, shape (n_rows, n_columns)."""
    # `to_numpy` would round all integer categories if one entry is missing.
    return part.astype(object).to_numpy(dtype=object)


def texts_of(part: pd.DataFrame) -> pd.DataFrame:
    """Return columns as texts, each entry written by `as_text`."""
    entries = entries_of(part)
    written = as_text(pd.Series(entries.ravel(), dtype=object)).to_numpy(copy=True).reshape(entries.shape)
    # One sign for missing entries, because pandas would choose the sign by the other entries.
    written[part.isna().to_numpy()] = np.nan
    return pd.DataFrame(written, index=part.index, columns=part.columns, dtype=object)


def as_text(column: pd.Series) -> pd.Series:
    """Return entries as they are written, each separately: 5 and 5.0 as "5". Missing entries stay missing."""
    if column.dtype.kind == "O" and not isinstance(column.dtype, pd.CategoricalDtype):
        entries = column.astype(object)
        # Most columns hold only texts, and writing each text again takes ten times as long.
        if set(map(type, entries.to_numpy())) == {str}:
            return entries
    return column.map(_text_of, na_action="ignore").astype(object)


def distinct_entries(column: pd.Series) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return the place of each entry among the distinct entries, -1 if it is missing, and the distinct entries.

    Equal entries of different types, such as 1 and True, are distinct in any order. Lists, structs and maps differ if
    their texts do.
    """
    mixed = column.dtype.kind == "O" and len(set(map(type, column.dropna()))) > 1
    if not mixed:
        with suppress(TypeError):
            places, distinct = pd.factorize(column)
            return places, np.asarray(distinct, dtype=object)
    places, distinct = pd.factorize(as_text(column))
    return places, np.asarray(distinct, dtype=object)


def _text_of(value: object) -> str:
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if whole else str(value)  # type: ignore[call-overload]


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


def _hashed(rows: NDArray[Any]) -> NDArray[np.uint64]:
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
