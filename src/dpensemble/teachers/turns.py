"""Teachers that are fitted in turns, because the records of all of them would not be in memory together."""

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
    """Private rows that come in blocks, always the same in the same order; stands where an array of rows would.

    `read` returns an iterator over blocks of rows, arrays of shape (n, n_features).
    """

    read: Callable[[], Iterator[Floats]]
    n_records: int
    n_features: int

    def __len__(self) -> int:
        return self.n_records

    def take(self, wanted: Integers) -> Floats:
        """Return the rows at these positions, which ascend; one pass over all blocks."""
        rows = np.empty((len(wanted), self.n_features))
        start = filled = 0
        for block in self.read():
            inside = wanted[filled : np.searchsorted(wanted, start + len(block))] - start
            rows[filled : filled + len(inside)] = block[inside]
            start, filled = start + len(block), filled + len(inside)
        if start != self.n_records:
            raise DataError(
                f"blocks held {self.n_records} records when they were first read, and now {start}; read the same "
                "records in the same order every time."
            )
        return rows


@dataclass(frozen=True)
class Turn:
    """Teachers that are fitted together."""

    teachers: slice

    def rows(
        self, X: Floats | RowsInBlocks, y: Integers, shards: Sequence[Integers]
    ) -> tuple[Floats, Integers, Sequence[Integers]]:
        """Return the rows that these teachers need, their labels, and each teacher's positions among them."""
        own = shards[self.teachers]
        if not isinstance(X, RowsInBlocks):
            return X, y, own
        wanted = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *own]))
        return X.take(wanted), y[wanted], [np.searchsorted(wanted, shard) for shard in own]


def turns(X: Floats | RowsInBlocks, shards: Sequence[Integers]) -> list[Turn]:
    """Return the turns in which teachers are fitted: one for rows in memory, else as few as memory allows.

    A teacher whose own shard takes more than `BYTES_AT_ONCE` has a turn of its own.
    """
    if not isinstance(X, RowsInBlocks):
        return [Turn(slice(0, len(shards)))]
    most = max(1, BYTES_AT_ONCE // (8 * max(1, X.n_features)))
    ready, first, rows = [], 0, 0
    for teacher, shard in enumerate(shards):
        if rows + len(shard) > most and teacher > first:
            ready.append(Turn(slice(first, teacher)))
            first, rows = teacher, 0
        rows += len(shard)
    return [*ready, Turn(slice(first, len(shards)))]
