"""Rows, labels and entries: the types of arrays, and refusals of what cannot be used before it is converted.

NumPy drops masks and imaginary parts silently. Errors of other libraries quote entries, and are replaced. Messages name
places, and never show an entry, because rows are private.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from numbers import Number
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpensemble._checks import is_missing
from dpensemble.errors import ColumnWarning, DataError, DPEnsembleError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
#: Python integers, which never overflow.
BigIntegers = NDArray[np.object_]
#: Rows or features: a table of pandas, an array or a sparse matrix.
Rows = Any
#: One class id for each teacher and query, in the smallest type.
Ballots = NDArray[np.unsignedinteger]


def own_copy(rows: Any) -> Any:
    """Return a copy of an array, table or sparse matrix, for foreign code that may modify its arguments."""
    return rows.copy() if hasattr(rows, "copy") else rows


def is_table(rows: object) -> bool:
    """Return whether rows are a table with column names."""
    return hasattr(rows, "columns")


def row_count(rows: Any) -> int:
    """Return the number of rows of an array, table, list or sparse matrix. The last has no length."""
    return int(rows.shape[0]) if hasattr(rows, "shape") else len(rows)


def rows_at(rows: Any, part: slice | Integers) -> Any:
    """Return a part of the rows of an array, table, list or sparse matrix, by position."""
    return (rows.iloc if hasattr(rows, "iloc") else rows)[part]


# Rows that are predicted together at most, their entries, and the number whose multiples they are.
_ROWS_AT_ONCE, _ENTRIES_AT_ONCE, _MULTIPLE = 2**13, 2**18, 64


def in_blocks(rows: Rows, read: Callable[[Rows], Rows], *, size: int | None = None) -> Rows:
    """Return the array that `read` makes of rows, from blocks of them, so that little memory is needed.

    A product of matrices may round the last rows differently if their number is not a multiple of a power of two. So
    copies of the last row fill up the last block. With this library's maps, a row's result does not depend on the
    number of rows. With learners of scikit-learn it may depend on it in the last bit. The rows of a table keep their
    numbers, which errors name. Anything that has no parts is one block.

    Parameters
    ----------
    rows : DataFrame, array, list or sparse matrix
        Rows to read.
    read : callable
        Returns an array with an entry for each row of a block.
    size : int, optional
        Most rows of a block. By default fewer if there are many columns.
    """
    try:
        n_rows, first = row_count(rows), rows_at(rows, slice(1))
    except (IndexError, TypeError):
        return read(rows)
    if size is None:
        n_entries = int(np.prod(as_array(first).shape[1:]))
        size = min(_ROWS_AT_ONCE, max(_MULTIPLE, _ENTRIES_AT_ONCE // max(n_entries, 1)))
    if n_rows > size:
        # Of all rows together, so that an error names the first row among all.
        require_readable("X", rows)
    results: list[Rows] = []
    for part, block in blocks_of(rows, size):
        with warnings.catch_warnings() if results else nullcontext():
            if results:
                # A warning about names of columns holds for all blocks, and comes with the first.
                warnings.filterwarnings("ignore", "X (does not have valid|has) feature names", UserWarning)
            results.append(read(block)[: part.stop - part.start])
    return np.concatenate(results) if len(results) > 1 else results[0] if results else read(rows)


def blocks_of(rows: Rows, size: int) -> Iterator[tuple[slice, Rows]]:
    """Yield parts of rows, and blocks of at most `size` rows that begin with these, as `in_blocks` describes them."""
    multiple = min(size, _MULTIPLE)
    size -= size % multiple
    for start in range(0, row_count(rows), size):
        part = slice(start, min(start + size, row_count(rows)))
        block, count = rows_at(rows, part), part.stop - start
        if count % multiple:
            places = np.minimum(np.arange(count + -count % multiple), count - 1)
            block = [block[place] for place in places] if isinstance(block, list | tuple) else rows_at(block, places)
        if is_table(block):
            first = getattr(rows.index, "start", 0) + start
            block = block.set_axis(range(first, first + len(block)), axis=0)
        yield part, block


def dense(features: Any) -> Any:
    """Return a sparse matrix as an array, and anything else unchanged."""
    return features.toarray() if hasattr(features, "toarray") else features


_COMPLEX = (complex, np.complexfloating)
# Types in which every value has a float.
_ALWAYS_FLOATS = (bool, float, np.bool_, np.integer, np.floating)


def require_readable(name: str, values: object, *, keep_bad: bool = False, first: int = 0) -> None:
    """Raise for masked arrays, complex numbers and numbers that no float can hold, without showing any entry.

    With `keep_bad`, single entries are left to the caller, who reads each separately. Arrays that are masked or complex
    as a whole still raise.
    """
    if values is None:
        return
    if is_masked(values):
        raise masked(name)
    for column, entries in _parts(values):
        if entries.dtype.kind == "c":
            raise _complex(name, "")
        if not keep_bad and entries.dtype.kind == "O":
            _require_readable_objects(name, entries, first, column)


def blanked(X: Any) -> Any:
    """Return rows in which each unreadable entry is NaN. Other entries have no influence."""
    if is_table(X):
        for place, entries in _parts(X):
            if places := _unreadable(entries):
                # `isetitem` writes into the table itself. A column of objects, so that pandas infers no other type.
                X, column = X.copy(deep=False), X.iloc[:, place]
                X.isetitem(place, type(column)(_with_nan(entries, places), index=column.index, dtype=object))
        return X
    rows = as_array(X)
    places = _unreadable(rows) if rows.dtype.kind == "O" else []
    return _with_nan(rows, places) if places else X


def _with_nan(entries: NDArray[Any], places: list[int]) -> NDArray[Any]:
    result = entries.copy()
    result.reshape(-1)[places] = np.nan
    return result


def masked(name: str) -> DataError:
    """Return the error of a masked array."""
    return DataError(
        f"{name} is a numpy masked array, but masks are not supported: leave masked records out, or fill masked "
        "entries of rows with NaN."
    )


def _complex(name: str, place: str) -> DataError:
    return DataError(
        f"Complex data not supported: {name} has complex numbers{place}; pass real numbers, such as real and imaginary "
        "parts in separate columns."
    )


def is_masked(values: object) -> bool:
    """Return whether values are a masked array, or a list of masked arrays. One masked entry of a list is an entry."""
    if isinstance(values, (list, tuple)):
        return any(isinstance(one, np.ma.MaskedArray) and one is not np.ma.masked for one in values)
    return isinstance(values, np.ma.MaskedArray)


def as_array(values: Any) -> NDArray[Any]:
    """Return values as an array. A list becomes objects, each entry unchanged. Uneven rows become an array of lists."""
    if not all(isinstance(kind, np.dtype) for kind in _declared(values)):
        # Beside a missing entry, `np.asarray` would make floats of integers, so that large ones lose digits.
        return np.asarray(values.astype(object), dtype=object)
    if hasattr(values, "__array__"):
        return np.asarray(values)
    try:
        return np.asarray(values, dtype=object)
    except ValueError:
        result = np.empty(len(values), dtype=object)
        result[:] = values
        return result


def row_array(X: Rows, n_columns: int) -> Rows:
    """Return a list of rows as an array of objects. Unless a row is a list of `n_columns` entries, it is blank.

    Otherwise one row of another length would change what all other rows are. Arrays and tables stay unchanged.
    """
    if not isinstance(X, (list, tuple)):
        return X
    rows, n_read = np.full((len(X), n_columns), np.nan, dtype=object), 0
    for place, row in enumerate(X):
        entries = list(row) if _is_plain_row(row) else []
        if len(entries) == n_columns:
            n_read += 1
            for column, entry in enumerate(entries):
                rows[place, column] = entry
    if len(X) and not n_read:
        # No error, since one record more could prevent the error.
        warnings.warn(
            f"X is a list in which no row has {n_columns} entries, as public rows have, so every record is blank: give "
            "a list of lists. This is for the owner of the records only, because it depends on them exactly.",
            ColumnWarning,
            stacklevel=5,
        )
    return rows


def _is_plain_row(row: Rows) -> bool:
    if isinstance(row, np.ndarray):
        return row.ndim == 1 and not isinstance(row, np.ma.MaskedArray)
    return isinstance(row, (list, tuple))


def label_array(y: Rows) -> NDArray[np.generic]:
    """Return labels as an array. The entries of a list are read one by one. A list of one label is this label."""
    if not isinstance(y, (list, tuple)):
        return as_array(y).ravel()
    return np.fromiter(map(_only, y), dtype=object, count=len(y))


def _only(entry: Rows) -> Rows:
    if isinstance(entry, np.ma.MaskedArray):
        return entry
    while isinstance(entry, (list, tuple)) or (isinstance(entry, np.ndarray) and entry.ndim):
        if len(entry) != 1:
            return entry
        entry = entry[0]
    return entry[()] if isinstance(entry, np.ndarray) else entry


def kinds_of(values: Rows) -> list[Rows]:
    """Return the declared types of a series, an array or the columns of a table. A list has none."""
    if isinstance(values, list | tuple):
        return []
    return [_plain_kind(kind) for kind in _declared(values) or [np.asarray(values).dtype]]


def _declared(values: Rows) -> list[Rows]:
    """Return the types of the columns of a table or a series of pandas, none for anything else."""
    if not hasattr(values, "iloc"):
        return []
    return list(values.dtypes) if is_table(values) else [values.dtype]


def _plain_kind(kind: Any) -> Any:
    """Return the type of a column's entries, which for categories is that of the categories."""
    categories = getattr(kind, "categories", None)
    return kind if categories is None else categories.dtype


def plain_array(values: Any) -> NDArray[Any]:
    """Return values as NumPy converts them. Uneven rows become an array of lists."""
    try:
        return np.asarray(values)
    except ValueError:
        return as_array(values)


def _parts(values: Any) -> Iterator[tuple[int | None, NDArray[Any]]]:
    """Yield arrays that may contain unreadable entries, each with the number of its column if it is one of a table."""
    if hasattr(values, "tocsr"):
        yield None, np.empty(0, dtype=values.dtype)
    elif hasattr(values, "iloc") and is_table(values):
        for place in [place for place, kind in enumerate(values.dtypes) if _may_be_unreadable(kind)]:
            yield place, np.asarray(values.iloc[:, place])
    elif hasattr(values, "iloc"):
        if _may_be_unreadable(values.dtype):
            yield None, np.asarray(values)
    else:
        yield None, as_array(values)


def _may_be_unreadable(kind: Rows) -> bool:
    """Return whether a column of this type may contain complex numbers, or objects of any type."""
    plain = _plain_kind(kind)
    if plain is not kind and plain.kind == "O":
        # Each category once, instead of each entry.
        return bool(_unreadable(np.asarray(kind.categories)))
    return isinstance(plain, np.dtype) and plain.kind in "cO"


def _require_readable_objects(name: str, entries: NDArray[Any], first: int, column: int | None) -> None:
    places = _unreadable(entries)
    if not places:
        return
    entry, number = entries.ravel()[places[0]], places[0]
    if isinstance(entry, np.ma.MaskedArray):
        raise masked(name)
    width = 1 if entries.ndim < 2 else entries[0].size
    place = f"the first in row {first + number // width}"
    if column is not None or entries.ndim > 1:
        place += f", column {number % width if column is None else column}"
    if isinstance(entry, _COMPLEX):
        raise _complex(name, f" ({place}, counting from 0)")
    raise DataError(
        f"{name} has a number that no float can hold ({place}, counting from 0); correct or drop it: an integer has at "
        "most 308 digits, and a Decimal must not be a signaling NaN."
    )


def _unreadable(entries: NDArray[Any]) -> list[int]:
    """Return the places of unreadable entries among objects, as if the objects were one list."""
    listed = entries.ravel().tolist()
    suspects = {kind for kind in set(map(type, listed)) if _is_suspect(kind)}
    if not suspects:
        return []
    return [place for place, entry in enumerate(listed) if type(entry) in suspects and not is_readable(entry)]


def _is_suspect(kind: type) -> bool:
    number = issubclass(kind, Number) and not issubclass(kind, _ALWAYS_FLOATS)
    return number or issubclass(kind, np.ma.MaskedArray)


def is_readable(entry: object) -> bool:
    """Return whether one entry is neither masked nor complex and, if it is a number, has a float (or infinity)."""
    if isinstance(entry, (*_COMPLEX, np.ma.MaskedArray)):
        return False
    if not isinstance(entry, Number):
        return True
    try:
        float(entry)  # type: ignore[arg-type]
    except (ArithmeticError, TypeError, ValueError):
        return False
    return True


Read = TypeVar("Read")
# Parts of errors of NumPy, pandas and scikit-learn that quote an entry, and of those about missing entries.
_SIGNS_OF_AN_ENTRY = ("could not convert", "cannot convert", "too large to convert")
_SIGNS_OF_NAN = ("Input X contains", "not 'NAType'", "not 'NaTType'")

#: The end of a sentence about a target of several columns.
SEVERAL_LABELS = (
    "several labels for each record (multi-label) are not supported; train a model for each column, and divide "
    "epsilon and delta among the models."
)


def require_rows(name: str, X: Any, *, keep_bad: bool = False, first: int = 0) -> None:
    """Raise as `require_readable` does, and for rows in one dimension, which scikit-learn's own message would print."""
    if X is None or is_table(X) or hasattr(X, "tocsr"):
        require_readable(name, X, keep_bad=keep_bad, first=first)
        return
    if is_masked(X):
        raise masked(name)
    rows = as_array(X)
    require_readable(name, rows, keep_bad=keep_bad, first=first)
    if rows.ndim < 2:
        raise DataError(f"Expected 2D array, got {rows.ndim}D: {name} must be a table of rows. Reshape your data.")


def require_labels(y: Any, *, name: str = "y", keep_bad: bool = False, first: int = 0) -> None:
    """Raise as `require_readable` does, for several labels of a record, and for missing labels such as None or NaN."""
    if keep_bad and isinstance(y, (list, tuple)):
        # A list has no declared shape, and its labels are judged one by one.
        return
    require_readable(name, y, keep_bad=keep_bad, first=first)
    if y is None:
        return
    _require_one_each(name, y)
    if keep_bad:
        return
    labels = as_array(y)
    if labels.dtype.kind == "f":
        missing = np.isnan(labels)
    elif labels.dtype.kind == "M":
        missing = np.isnat(labels)
    elif labels.dtype.kind == "O":
        missing = np.array([is_missing(label) for label in labels.ravel().tolist()], dtype=bool)
    else:
        return
    if missing.any():
        row = first + int(np.argmax(missing.reshape(len(labels), -1).any(axis=1)))
        raise DataError(
            f"{name} has a missing label (NaN or None, the first in row {row}, counting from 0): correct that label, "
            "or let such records add nothing (on_bad_record='zero')."
        )


def _require_one_each(name: str, y: ArrayLike) -> None:
    """Raise if records have several labels: a table of columns, or a sparse matrix as scikit-learn uses."""
    try:
        # A matrix has a shape, too. Only lists are converted.
        shape = np.shape(y)
    except TypeError:
        # Some containers only allow to be converted.
        shape = np.asarray(y).shape
    except ValueError:
        # Lists of different lengths have no columns. Each is a bad label.
        return
    if len(shape) > 1 and shape[1] > 1:
        raise DataError(f"{name} has {shape[1]:,} columns, but {SEVERAL_LABELS}")


def require_one_per_record(name: str, values: NDArray[Any], n_records: int) -> None:
    """Raise unless there is one entry for each record."""
    if values.shape != (n_records,):
        raise DataError(f"{name} must have one entry for each of {n_records} records; got the shape {values.shape}.")


def read_rows(name: str, read: Callable[[], Read]) -> Read:
    """Return what `read` makes of rows. Errors of other libraries, which may quote an entry, are replaced."""
    try:
        return read()
    except DPEnsembleError:
        raise
    except (ArithmeticError, TypeError, ValueError) as error:
        # A TypeError about an entry of another type, such as a dict, names only its type, so it is raised.
        nan = any(sign in str(error) for sign in _SIGNS_OF_NAN)
        if not nan and not any(sign in str(error) for sign in _SIGNS_OF_AN_ENTRY):
            raise
    # Outside the handler, so that the first error does not become the context of this one.
    if nan:
        raise DataError(f"{name} contains NaN or infinity: fill or drop such values, using public statistics only.")
    raise DataError(f"{name} has entries that are not numbers: encode text columns first, as EncodedClassifier does.")
