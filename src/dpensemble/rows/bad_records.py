"""Which records are bad. This depends only on each record, and is the same in every round and in a held-out score.

A record is bad if its label is not declared, if an entry is infinite, or if a feature map cannot read the row. It is
also bad if an entry is missing and the method takes no blanks. A bad record adds a zero vector to every sum, and no
teacher learns from it. The record still counts in the number of records, in its unit and in noisy counts. So one person
cannot stop a run, and the number of bad records appears only in what is released with noise.

Replacing a record by a zero vector depends only on that record, so neighbouring data sets stay neighbours. The vector
of a bad record is no longer than any other, so every sensitivity holds unchanged.
"""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble._arrays import Integers, is_table
from dpensemble._checks import member
from dpensemble._refusals import as_array
from dpensemble.datasets.columns import assembled, number_columns, numbers_of, text_of

#: Class id of a bad record.
BAD = -1
# Types of labels that stand for the text that writes them, and that may be declared numbers. A complex number is never
# one, even if its imaginary part is 0.
_WRITTEN = (bool, int, float, np.bool_, np.integer, np.floating)
_NUMBERS = (int, float, Real, Decimal, np.bool_)


class OnBadRecord(StrEnum):
    """What happens to a bad record."""

    RAISE = "raise"
    ZERO = "zero"


def zeroes_bad(estimator: Any) -> bool:
    """Return whether an estimator takes bad records as zero vectors. An unknown setting raises an error."""
    return member("on_bad_record", estimator.on_bad_record, OnBadRecord) is OnBadRecord.ZERO


def class_ids_or_bad(classes: NDArray[Any], labels: Any) -> Integers:
    """Return each label's position among the sorted declared classes, or `BAD` for an undeclared label.

    Each label is compared separately, also in a list, which has no declared type. A text that writes a declared number
    stands for the number, and a number for the text that writes it.
    """
    given = as_array(labels)
    if classes.dtype.kind in given.dtype.kind == "i":
        near = np.searchsorted(classes, given).clip(max=len(classes) - 1)
        return np.where(classes[near] == given, near, BAD)
    # A list of dates, because NumPy writes some of them as whole numbers.
    entries = list(given) if given.dtype.kind in "mM" else given.tolist()
    places: dict[Any, int] = {label: place for place, label in enumerate(classes.tolist())}
    if classes.dtype.kind in "OUS":
        found = [_found(_as_text(label), places) for label in entries]
    else:
        found = [_found(label, places) if isinstance(label, _NUMBERS) else BAD for label in _as_numbers(entries)]
    return np.array(found, dtype=np.int64)


def _as_text(label: Any) -> Any:
    """Return a number as the text that writes it. Anything else stays unchanged."""
    return text_of(label) if isinstance(label, _WRITTEN) else label


def _as_numbers(entries: list[Any]) -> list[Any]:
    """Return labels in which texts that write numbers are numbers, as in columns of numbers. Other texts are NaN."""
    places = [place for place, label in enumerate(entries) if isinstance(label, str)]
    if places:
        texts = pd.DataFrame({"labels": pd.Series([entries[place] for place in places], dtype=object)})
        entries = list(entries)
        for place, number in zip(places, numbers_of(texts)[0][:, 0].tolist(), strict=True):
            entries[place] = number
    return entries


def _found(label: Any, places: dict[Any, int]) -> int:
    try:
        return places.get(label, BAD)
    except (ArithmeticError, TypeError, ValueError):
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


def as_numbers(X: Any) -> Any:
    """Return rows as numbers. Each entry is read separately, and an entry that is not a number becomes NaN."""
    if is_table(X):
        return pd.DataFrame(numbers_of(X)[0], columns=X.columns)
    rows = as_array(X)
    return rows if rows.dtype.kind in "biuf" or rows.ndim != 2 else numbers_of(pd.DataFrame(rows))[0]
