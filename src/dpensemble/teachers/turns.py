"""Teachers that are fitted in turns, because the records of all of them would not fit into memory together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dpensemble._arrays import Floats, Integers
from dpensemble.errors import DataError

#: Private rows that are in memory at a time, in bytes.
BYTES_AT_ONCE = 2**29


@dataclass(frozen=True, eq=False, repr=False)
class RowsInBlocks:
    """Private rows that come in blocks, always the same in the same order. Used in place of an array of rows.

    `read` returns an iterator over blocks of rows, arrays of shape (n, n_features).
    """

    read: Callable[[], Iterator[Floats]]
    n_records: int
    n_features: int

    def __len__(self) -> int:
        return self.n_records

    @property
    def shape(self) -> tuple[int, int]:
        """Number of records and of features, as for an array."""
        return self.n_records, self.n_features

    def take(self, wanted: Integers) -> Floats:
        """Return the rows at these ascending positions, in one pass over all blocks."""
        rows = np.empty((len(wanted), self.n_features))
        start = filled = 0
        for block in self.read():
            inside = wanted[filled : np.searchsorted(wanted, start + len(block))] - start
            rows[filled : filled + len(inside)] = block[inside]
            start, filled = start + len(block), filled + len(inside)
        if start != self.n_records:
            raise DataError(
                f"blocks must hold the same records every time; they held {self.n_records} records at first, and now "
                f"{start}: return the same records in the same order."
            )
        return rows


def in_turns(
    X: Floats | RowsInBlocks, y: Integers, shards: Sequence[Integers]
) -> Iterator[tuple[slice, Floats, Integers, Sequence[Integers]]]:
    """Yield teachers that are fitted together, the rows that they need, their labels, and positions among the rows.

    Rows in memory have one turn. Other rows have as few turns as memory allows. A teacher whose own shard takes more
    than `BYTES_AT_ONCE` has a turn of its own.
    """
    if not isinstance(X, RowsInBlocks):
        yield slice(0, len(shards)), X, y, shards
        return
    for teachers in _turns(X.n_features, shards):
        own = shards[teachers]
        positions = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *own]))
        yield teachers, X.take(positions), y[positions], [np.searchsorted(positions, shard) for shard in own]


def _turns(n_features: int, shards: Sequence[Integers]) -> list[slice]:
    most = max(1, BYTES_AT_ONCE // (8 * max(1, n_features)))
    ready, first, rows = [], 0, 0
    for teacher, shard in enumerate(shards):
        if rows + len(shard) > most and teacher > first:
            ready.append(slice(first, teacher))
            first, rows = teacher, 0
        rows += len(shard)
    return [*ready, slice(first, len(shards))]
