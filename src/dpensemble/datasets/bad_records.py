"""Which records are bad. This depends only on each record, and is the same in every round and in a held-out score.

A record is bad if its label is not declared, if an entry is infinite, or if a feature map cannot read the row. It is
also bad if an entry is missing and the method takes no blanks. A bad record adds a zero vector to every sum, and no
teacher learns from it. The record still counts in the number of records, in its unit and in noisy counts. So one person
cannot stop a run, and the number of bad records appears only in what is released with noise.

Replacing a record by a zero vector depends only on that record, so neighbouring data sets stay neighbours. The vector
of a bad record is no longer than any other, so every sensitivity holds unchanged.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from dpensemble._arrays import Integers, is_table
from dpensemble._checks import is_missing, member
from dpensemble._entries import as_array, is_readable, plain_array
from dpensemble.datasets.columns import as_text, assembled, number_columns, numbers_of
from dpensemble.errors import DataError

#: Class id of a bad record.
BAD = -1


class OnBadRecord(StrEnum):
    """What happens to a bad record."""

    RAISE = "raise"
    ZERO = "zero"


def zeroes_bad(estimator: Any) -> bool:
    """Return whether an estimator takes bad records as zero vectors. An unknown setting raises an error."""
    return member("on_bad_record", estimator.on_bad_record, OnBadRecord) is OnBadRecord.ZERO


def class_ids_or_bad(classes: NDArray[Any], labels: Any) -> Integers:
    """Return each label's position among the sorted declared classes, or `BAD` for an undeclared label.

    Each label is compared separately. A text that writes a declared number stands for the number, and a number for the
    text that writes it.
    """
    places: dict[Any, int] = {label: place for place, label in enumerate(classes.tolist())}
    numeric = classes.dtype.kind not in "OUS"
    return np.array([_place(label, places, numeric) for label in np.asarray(labels).tolist()], dtype=np.int64)


def _place(label: Any, places: dict[Any, int], numeric: bool) -> int:
    if isinstance(label, complex):
        # Equal to a declared number if its imaginary part is 0, but a label of another type.
        return BAD
    try:
        if numeric and isinstance(label, str):
            label = float(label)
        elif not numeric and isinstance(label, (int, float)):
            label = as_text(pd.Series([label], dtype=object))[0]
        return places.get(label, BAD)
    except (TypeError, ValueError, ArithmeticError):
        return BAD


def readable_rows(table: pd.DataFrame, *, nan: bool = True) -> tuple[pd.DataFrame, NDArray[np.bool_]]:
    """Return a table without infinite entries, and which rows had none. Without `nan`, blanks count as infinite.

    A row with such an entry becomes a row of zeros and blanks, which every map of the library can read.
    """
    numeric = number_columns(table)
    numbers = table.iloc[:, np.flatnonzero(numeric)].to_numpy(dtype=np.float64, na_value=np.nan)
    bad: NDArray[np.bool_] = np.isinf(numbers).any(axis=1)
    if not nan:
        bad |= table.isna().to_numpy().any(axis=1)
    if bad.any():
        numbers = np.where(bad[:, None], 0.0, numbers)
        texts = table.iloc[:, np.flatnonzero(~numeric)]
        texts = texts.where(np.broadcast_to(~bad[:, None], texts.shape))
        table = assembled(table, np.flatnonzero(numeric), numbers, texts)
    return table, ~bad


def readable_array(X: NDArray[np.floating[Any]], *, nan: bool) -> NDArray[np.bool_]:
    """Return which rows of an array are usable: those without infinity and, unless `nan`, without NaN."""
    bad = np.isinf(X) if nan else ~np.isfinite(X)
    return np.asarray(~bad.any(axis=1), dtype=bool)


def units_or_none(units: ArrayLike) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return what `named_units` returns, or raise if no record has a unit."""
    names, present = named_units(units)
    if not present.any():
        raise DataError("units is missing for every record: give the owner of each record, or leave units out.")
    return names, present


def named_units(units: ArrayLike) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return units as objects, and which records have one.

    A unit is missing if it is None, NaN or, for integers, negative. Complex numbers, and numbers that no float can
    hold, count as missing.
    """
    declared = plain_array(units)
    if declared.dtype.kind in "iu":
        return declared, declared >= 0
    objects = np.asarray(units, dtype=object)
    missing = np.array([is_missing(one) or not is_readable(one) for one in objects.ravel().tolist()], dtype=bool)
    return objects, ~missing


def as_numbers(X: Any) -> Any:
    """Return rows as numbers. Each entry is read separately, and an entry that is not a number becomes NaN."""
    if is_table(X):
        return pd.DataFrame(numbers_of(X)[0], columns=X.columns)
    rows = as_array(X)
    return rows if rows.dtype.kind in "biuf" or rows.ndim != 2 else numbers_of(pd.DataFrame(rows))[0]
