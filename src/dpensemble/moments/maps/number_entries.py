"""Features of numbers between public knots, for many columns and rows at a time.

Columns come first and rows last, so that each step works on rows that lie side by side in memory.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dpensemble._arrays import Floats

#: Places of features within a column, or one number if all entries have the same place.
Places = NDArray[np.int64] | int
# Up to this number, knots are compared one after another for all columns. More are searched by halving.
_FEW_KNOTS = 4
# Entries of a step, which should stay in the cache of a processor.
_ENTRIES_AT_ONCE = 2**15


def row_slices(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Yield slices of rows that are small enough for fast steps."""
    size = max(1, _ENTRIES_AT_ONCE // max(n_columns, 1))
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))


def stacked(knots: list[list[Floats]]) -> list[Floats]:
    """Return the knots of columns by scale, shape (n_columns, n_knots) each."""
    return [np.stack(of_scale) for of_scale in zip(*knots, strict=True)]


def entries_of_numbers(knots: list[Floats], numbers: Floats) -> Iterator[tuple[Places, Floats]]:
    """Yield places within columns and weights, whose squares sum to 1 an entry, shape (n_columns, n_rows).

    The place of missing entries comes last, and only if an entry is missing.
    `knots` are those of each scale, as `stacked` returns them. `numbers` have the shape (n_columns, n_rows).
    """
    missing = np.isnan(numbers)
    share, start = 1 / np.sqrt(len(knots)), 0
    present: Floats | np.float64 = share
    any_missing = bool(missing.any())
    if any_missing:
        numbers, present = np.where(missing, 0.0, numbers), np.where(missing, 0.0, share)
    for of_scale in knots:
        size = of_scale.shape[1]
        if size == 1:
            yield start, np.broadcast_to(present, numbers.shape)
        else:
            low, below, above = _neighbours(of_scale, numbers)
            part = numbers - below
            part /= above - below
            np.clip(part, 0.0, 1.0, out=part)
            yield start + low, present * np.sqrt(1 - part)
            yield start + low + 1, present * np.sqrt(part, out=part)
        start += size
    if any_missing:
        yield start, missing.astype(np.float64)


def _neighbours(knots: Floats, numbers: Floats) -> tuple[Places, Floats, Floats]:
    """Return the place of the last knot that is at most a number, this knot and the next one.

    The first knot also takes smaller numbers, and the last but one takes larger numbers.
    """
    if knots.shape[1] == 2:
        return 0, knots[:, :1], knots[:, 1:]
    inner = knots[:, 1:-1]
    if knots.shape[1] == 3:
        high = numbers >= inner
        return high.astype(np.int64), np.where(high, inner, knots[:, :1]), np.where(high, knots[:, 2:], inner)
    low = np.zeros(numbers.shape, dtype=np.int64)
    if inner.shape[1] <= _FEW_KNOTS:
        for place in range(inner.shape[1]):
            low += numbers >= inner[:, place : place + 1]
    else:
        for column, own in enumerate(inner):
            low[column] = np.searchsorted(own, numbers[column], side="right")
    flat = low + (np.arange(len(knots)) * knots.shape[1])[:, None]
    return low, knots.take(flat), knots.take(flat + 1)
