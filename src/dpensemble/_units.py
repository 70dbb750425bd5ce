"""The unit of each record, as the user declares it: which records have one, and the number of each unit.

A unit is what a guarantee protects: one record, or all rows of one person. `dpensemble._identity` states which entries
are equal units.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpensemble._arrays import Integers
from dpensemble._checks import is_missing
from dpensemble._identity import ID_WORDS, entries_of, identity, is_id
from dpensemble._refusals import require_one_per_record, require_readable
from dpensemble.errors import DataError, InvalidParameterError


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
        raise InvalidParameterError(f"units must be {ID_WORDS}; got {type(entry).__name__}.")
    return written


def declared_units(units: ArrayLike, n_records: int) -> NDArray[np.generic]:
    """Return the declared unit of each record, refusing missing ones."""
    require_readable("units", units)
    names = entries_of("units", units)
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
    names = entries_of("units", units)
    if names.dtype.kind in "iu":
        return names, np.ones(names.shape, dtype=bool)
    return names, np.array([is_id(one) for one in names.ravel().tolist()], dtype=bool).reshape(names.shape)


def present_numbers(numbers: Integers) -> NDArray[np.bool_]:
    """Return which records have a unit, of the numbers that a reader gave units: -1 is none. Raise if none has."""
    present = np.asarray(numbers) >= 0
    _require_any(present)
    return present


def _require_any(present: NDArray[np.bool_]) -> None:
    if not present.any():
        raise DataError("units is missing for every record: give the owner of each record, or leave units out.")
