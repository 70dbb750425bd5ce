"""The unit of each record, as the user declares it."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpensemble._arrays import Integers
from dpensemble._checks import is_missing
from dpensemble._identity import entries_of, is_id
from dpensemble._refusals import require_one_per_record, require_readable
from dpensemble.allocation.partition import number_units
from dpensemble.errors import DataError


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
