"""When two ids are equal: a function of one entry and of the declared type of its column, the same in every route.

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
from numbers import Integral
from typing import SupportsInt
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from dpensemble._entries import Rows
from dpensemble.errors import DataError

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
ID_WORDS = "strings, integers or bytes"


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


def is_id(entry: object) -> bool:
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
            f"several: units must be {ID_WORDS}, so convert the column to whole numbers or to texts."
        )


def entries_of(name: str, ids: Rows) -> NDArray[np.generic]:
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
