"""Features of numbers between public knots, for many columns and rows at a time.

Columns come first and rows last, so that each step works on rows that lie side by side in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpensemble._arrays import Floats

#: Places of features within a column, or one number if all entries have the same place.
Places = NDArray[np.integer] | int
# Scales of up to this number of knots have all of their weights written, which is faster than to look for two of them.
_FEW_KNOTS = 5
# Up to this number, knots are compared one after another for all columns. More are searched by halving.
_MOST_COMPARED = 24
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


class Weights(NamedTuple):
    """Weights of some entries at places of their columns, shape (n_columns, n_rows)."""

    places: Places
    weights: Floats


def weights_of_numbers(
    knots: list[Floats], numbers: Floats, length: float, *, all_knots: bool = False
) -> Iterator[Weights]:
    """Yield places within columns and weights, whose squares sum to ``length**2`` an entry.

    The place of missing entries comes last, and only if an entry is missing. `knots` are those of each scale, as
    `stacked` returns them. `numbers` have the shape (n_columns, n_rows). With `all_knots` the knots of a scale that has
    few are yielded one after another, also those with the weight 0. By default the two knots beside a number are.
    """
    missing = np.isnan(numbers)
    share, start = length / np.sqrt(len(knots)), 0
    present: Floats | float = share
    any_missing = bool(missing.any())
    if any_missing:
        numbers, present = np.where(missing, 0.0, numbers), np.where(missing, 0.0, share)
    for of_scale in knots:
        size = of_scale.shape[1]
        if size == 1:
            yield Weights(start, np.broadcast_to(present, numbers.shape))
        elif size == 2 or (all_knots and size <= _FEW_KNOTS):
            for place, own in enumerate(_of_all_knots(of_scale, numbers)):
                yield Weights(start + place, own * present)
        else:
            low, below, above = _neighbours(of_scale, numbers)
            part = _part(numbers, below, above - below)
            yield Weights(start + low, np.sqrt(1 - part) * present)
            yield Weights(start + low + 1, np.sqrt(part, out=part) * present)
        start += size
    if any_missing:
        yield Weights(start, missing * length)


def _of_all_knots(knots: Floats, numbers: Floats) -> Iterator[Floats]:
    """Yield the weight of each knot: the root of the part of the way to it less the part of the way to the next one.

    A number between two knots is all of the way to each knot before it, and nothing of the way to each knot behind it.
    """
    widths = np.diff(knots, axis=1)
    before: Floats | float = 1.0
    for place in range(knots.shape[1] - 1):
        part = _part(numbers, knots[:, place : place + 1], widths[:, place : place + 1])
        difference = before - part
        yield np.sqrt(difference, out=difference)
        before = part
    yield np.sqrt(part, out=part)


def _part(numbers: Floats, below: Floats, width: Floats) -> Floats:
    part: Floats = numbers - below
    part /= width
    return np.clip(part, 0.0, 1.0, out=part)


def write_weights(features: Floats, starts: NDArray[np.int64], rows: slice, entries: Weights) -> None:
    """Write the weights of some columns and rows into an array of zeros, shape (n_features, n_rows).

    `starts` are the first features of the columns.
    """
    if isinstance(entries.places, int):
        features[starts + entries.places, rows] = entries.weights
        return
    # Places in the flat array, which numpy finds faster than pairs of places.
    places = entries.places + starts[:, None]
    places *= features.shape[1]
    places += np.arange(rows.start, rows.stop)
    features.reshape(-1)[places] = entries.weights


def _neighbours(knots: Floats, numbers: Floats) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Return the place of the last knot that is at most a number, this knot and the next one.

    The first knot also takes smaller numbers, and the last but one takes larger numbers.
    """
    inner = knots[:, 1:-1]
    if inner.shape[1] <= _MOST_COMPARED:
        # Choosing by a mask takes several times as long as adding it.
        counts = np.zeros(numbers.shape, dtype=np.int8)
        for place in range(inner.shape[1]):
            counts += (numbers >= inner[:, place : place + 1]).view(np.int8)
        low = counts.astype(np.int64)
    else:
        low = np.empty(numbers.shape, dtype=np.int64)
        for column, own in enumerate(inner):
            low[column] = np.searchsorted(own, numbers[column], side="right")
    flat = low + (np.arange(len(knots)) * knots.shape[1])[:, None]
    return low, knots.take(flat), knots.take(flat + 1)
