"""The unit of each record, as the user declares it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpensemble._arrays import Integers
from dpensemble._checks import is_missing
from dpensemble._entries import plain_array, require_readable
from dpensemble._given import require_one_per_record
from dpensemble.allocation.partition import number_units
from dpensemble.errors import DataError


def declared_units(units: ArrayLike, n_records: int) -> list[Hashable]:
    """Return the declared unit of each record, refusing missing ones."""
    require_readable("units", units)
    unit_of_record = np.asarray(units, dtype=object)
    require_one_per_record("units", unit_of_record, n_records)
    names: list[Hashable] = unit_of_record.tolist()
    if any(map(is_missing, names)):
        raise DataError("units must have no missing value: give every record a unit.")
    return names


def unit_numbers(units: ArrayLike, n_records: int) -> Integers:
    """Return the number of each record's unit, counted from 0 in order of first appearance."""
    require_readable("units", units)
    integers: Any = plain_array(units)
    if integers.dtype.kind not in "iu":
        return number_units(declared_units(units, n_records))[1]
    require_one_per_record("units", integers, n_records)
    return number_units(integers)[1]
