"""Units: when two ids are equal, which records have a unit, and the numbers that records share if they share a unit.

Equality is a function of one entry and of the declared type of its column, the same in every route.

Units are equal if `identity` returns the same bytes. The function never sees other entries, so that replacing one
person changes the unit of nobody else. Texts, whole numbers, truth values, bytes and UUIDs are ids:

- A whole number is the text that writes it: 7 and "7" are one unit. A truth value is the text "True" or "False".
- A text is compared as it is written. "007", " 7" and "7" are three units, and so are the composed and the decomposed
  form of "é". An empty text names nobody.
- A UUID is its usual text. Bytes are never equal to a text.

No other value is an id. Equal floats, decimals and moments have several forms, of several lengths or time zones, and
integers that became floats may have lost digits. `require_id_type` refuses such columns by their type. In a column of
objects such an entry names nobody.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from numbers import Integral
from typing import Any, SupportsInt
from uuid import UUID

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpensemble._checks import is_missing
from dpensemble._entries import Integers, Rows, require_one_per_record, require_readable
from dpensemble.errors import DataError, InvalidParameterError

# Whole numbers that have a float, like all other entries of a table. Python writes no number of many thousand digits.
_MOST_BITS = 1024
# Types by the names that numpy, pandas, Arrow, Polars and Spark give them.
_ID_TYPES = re.compile(
    r"u?int\d*\b|integer|bigint|smallint|tinyint|object|bool|(large_)?str(ing)?\b|string_view|utf8|(var)?char\b|[<>|=][us]\d"
    r"|categor|enum|((large_|fixed_size_)?binary|binary_view)\b|null|uuid|extension<arrow\.uuid>",
    re.IGNORECASE,
)
# What stands around the type of the entries of dictionaries, categories and runs of equal entries.
_AROUND = re.compile(r"^(dictionary<values=|run_end_encoded<run_ends: \w+, values: )")

# How Arrow, Polars and pandas list their entries.
_LISTED = ("to_pylist", "tolist", "to_list")

#: What ids are, in words.
_ID_WORDS = "strings, integers or bytes"


def identity(entry: object) -> bytes | None:
    """Return bytes that depend on one entry only, and are equal for equal ids. None for an entry that names nobody."""
    if isinstance(entry, str):
        # Not `str(entry)`, which a subclass may change.
        return b"s" + str.encode(entry, "utf-8", "surrogatepass") if len(entry) else None
    if isinstance(entry, bool | np.bool_):
        return b"sTrue" if entry else b"sFalse"
    # The type of most whole numbers comes first, since an abstract one takes long to compare.
    if isinstance(entry, int | np.integer | Integral):
        return _written(entry)
    if isinstance(entry, bytes | bytearray):
        return b"b" + bytes(entry)
    return b"s" + str(entry).encode() if isinstance(entry, UUID) else None


def _written(entry: SupportsInt) -> bytes | None:
    try:
        number = int(entry)
    except (ArithmeticError, TypeError, ValueError):
        return None
    return b"s%d" % number if number.bit_length() < _MOST_BITS else None


def _is_id(entry: object) -> bool:
    """Return whether one entry names somebody."""
    return identity(entry) is not None


def is_id_type(kind: object) -> bool:
    """Return whether entries of a column of this type may be ids."""
    categories = getattr(kind, "categories", None)
    kind = getattr(kind, "pyarrow_dtype", kind) if categories is None else getattr(categories, "dtype", kind)
    return _ID_TYPES.match(_AROUND.sub("", str(kind))) is not None


def require_id_type(name: str, kind: object) -> None:
    """Raise unless entries of a column of this type may be ids. `name` is that of the column or argument."""
    if not is_id_type(kind):
        raise DataError(
            f"{name} has the type {kind}, in which one id may have several forms, so that one person could count as "
            f"several: units must be {_ID_WORDS}, so convert the column to whole numbers or to texts."
        )


def _entries_of(name: str, ids: Rows) -> NDArray[np.generic]:
    """Return given ids: whole numbers of an array that is declared so, else objects, each entry as it was given.

    A list has no declared type, and no entry decides how another is read. Raise for types of which no entry is an id.
    """
    kind = getattr(ids, "dtype", getattr(ids, "type", None))
    if kind is None:
        return _as_objects(ids)
    require_id_type(name, kind)
    if isinstance(kind, np.dtype) and kind.kind in "iu":
        return np.asarray(ids)
    if isinstance(ids, np.ndarray):
        return ids.astype(object)
    # Without a detour over numpy, which turns whole numbers beside missing ones into floats.
    return _as_objects(next(getattr(ids, name)() for name in _LISTED if hasattr(ids, name)))


def _as_objects(ids: Rows) -> NDArray[np.generic]:
    if isinstance(ids, list | tuple):
        return np.fromiter(ids, dtype=object, count=len(ids))
    return np.asarray(ids, dtype=object)


def number_units(identities: Sequence[Hashable] | NDArray[np.generic]) -> tuple[Sequence[bytes], Integers]:
    """Give numbers to distinct identities in order of first appearance."""
    # Ten million whole numbers need no dictionary.
    if isinstance(identities, range):
        return _Written(np.asarray(identities)), np.arange(len(identities))
    if isinstance(identities, np.ndarray) and identities.dtype.kind in "iu":
        values, first, places = np.unique(identities, return_index=True, return_inverse=True)
        order = np.argsort(first)
        return _Written(values[order]), np.argsort(order)[places]
    numbers: dict[bytes, int] = {}
    unit_of_record = np.array([numbers.setdefault(_canonical(x), len(numbers)) for x in identities], dtype=np.int64)
    return list(numbers), unit_of_record


class _Written(Sequence[bytes]):
    """Distinct whole numbers as identities, converted to bytes on access."""

    def __init__(self, values: Integers) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return _Written(self._values[index])
        return _canonical(int(self._values[index]))


def _canonical(entry: Hashable) -> bytes:
    """Return bytes that depend on one identity alone. 7 and "7" are the same unit."""
    written = identity(entry)
    if written is None:
        # Fractions are refused too, since whole numbers that other units turned into floats may have lost digits.
        raise InvalidParameterError(f"units must be {_ID_WORDS}; got {type(entry).__name__}.")
    return written


def declared_units(units: ArrayLike, n_records: int) -> NDArray[np.generic]:
    """Return the declared unit of each record, refusing missing ones."""
    require_readable("units", units)
    names = _entries_of("units", units)
    require_one_per_record("units", names, n_records)
    if names.dtype.kind == "O" and any(map(_is_absent, names.tolist())):
        raise DataError("units must have no missing value: give every record a unit.")
    return names


def _is_absent(entry: Hashable) -> bool:
    return is_missing(entry) or (isinstance(entry, str) and not len(entry))


def unit_numbers(units: ArrayLike, n_records: int) -> Integers:
    """Return the number of each record's unit, counted from 0 in order of first appearance."""
    return number_units(declared_units(units, n_records))[1]


def units_or_none(units: ArrayLike) -> tuple[NDArray[np.generic], NDArray[np.bool_]]:
    """Return units, and which records have one, or raise if no record has one. Each entry is judged separately."""
    names, present = named_units(units)
    _require_any(present)
    return names, present


def named_units(units: ArrayLike) -> tuple[NDArray[np.generic], NDArray[np.bool_]]:
    """Return units, and which records have one. A record whose entry is missing or no id has none."""
    names = _entries_of("units", units)
    if names.dtype.kind in "iu":
        return names, np.ones(names.shape, dtype=bool)
    return names, np.array([_is_id(one) for one in names.ravel().tolist()], dtype=bool).reshape(names.shape)


def present_numbers(numbers: Integers) -> NDArray[np.bool_]:
    """Return which records have a unit, of the numbers that a reader gave units: -1 is none. Raise if none has."""
    present = np.asarray(numbers) >= 0
    _require_any(present)
    return present


def _require_any(present: NDArray[np.bool_]) -> None:
    if not present.any():
        raise DataError("units is missing for every record: give the owner of each record, or leave units out.")
