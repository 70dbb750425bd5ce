"""Rows of private files that are read in blocks or in parts, chosen by their places, and the rows that remain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble._arrays import Rows
from dpensemble._guard import guard_private_rows
from dpensemble.clusters.parts import Report
from dpensemble.datasets.parquet import stacked, state_of
from dpensemble.errors import DataError

Blocks = Callable[[], Iterator[tuple[pd.DataFrame, Rows]]]


class PlacedParts(Protocol):
    """A table in parts whose rows have fixed places, such as `dpensemble.datasets.parts.ParquetParts`."""

    target: str
    unit: str | None

    def without(self, held: NDArray[np.bool_]) -> PlacedParts:
        """Return the table without the rows at some places."""
        ...

    def results(self, work: Callable[[Iterator[Rows]], Report]) -> Iterator[Report]:
        """Yield what `work` returns for the tables of each part, once a part."""
        ...


@dataclass(frozen=True, eq=False)
class HeldRows:
    """Private records that are held back: converted rows and labels, and entries of the group columns as written."""

    rows: pd.DataFrame
    labels: Rows
    groups: pd.DataFrame


class Placed(Protocol):
    """Private records with fixed places."""

    @property
    def files(self) -> UnchangedFiles:
        """Files that hold all records, as they were before any of them was read."""
        ...

    def at(self, held: NDArray[np.bool_]) -> HeldRows:
        """Return the records at some places. `held` has an entry for each record."""
        ...


@dataclass(frozen=True, eq=False)
class RowsOfFiles:
    """Private records of files, where each has a fixed place.

    `files` are as they were before any of them was read. `read` yields rows and labels as written. `convert` returns
    them with the public kinds. `groups` are columns to keep as written, and `no_features` are those of them that
    `convert` does not take.
    """

    files: UnchangedFiles
    read: Blocks
    convert: Callable[[pd.DataFrame, pd.Series], tuple[pd.DataFrame, Rows]]
    groups: tuple[str, ...]
    no_features: tuple[str, ...]

    @guard_private_rows()
    def at(self, held: NDArray[np.bool_]) -> HeldRows:
        """Return the records at some places. `held` has an entry for each record."""
        tables, labels, groups = [], [], []
        for block, entries, start, of_block in _with_places(self.read, held):
            features = block.drop(columns=list(self.no_features))
            try:
                table, own = self.convert(features[of_block], pd.Series(entries[of_block], dtype=entries.dtype))
            except DataError:
                # The same error, with the row of the whole table.
                numbered = features.set_axis(pd.RangeIndex(start, start + len(block)))
                self.convert(numbered, pd.Series(entries, dtype=entries.dtype))
                raise
            tables.append(table)
            labels.append(own)
            groups.append(block.loc[of_block, list(self.groups)])
        self.files.require_same()
        return HeldRows(stacked(tables), np.concatenate(labels), stacked(groups))


class UnchangedFiles:
    """The size and the times of the last changes of each file, to be compared after each pass.

    If a file changed after its units were numbered or its held-back rows were read, a record could be held back and
    remain.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._states = {file: state_of(file) for file in files}

    def require_same(self) -> None:
        """Raise if a file changed."""
        if any(state_of(file) != state for file, state in self._states.items()):
            raise DataError(
                "a file of the private table was changed or removed during the run, so nothing more was released: "
                "train on a copy that does not change."
            )


class RemainingParts:
    """A table in parts without the held-back rows, whose files must not change."""

    def __init__(self, table: PlacedParts, held: NDArray[np.bool_], files: UnchangedFiles) -> None:
        self._table, self._files = table.without(held), files
        self.target, self.unit = table.target, table.unit

    def results(self, work: Callable[[Iterator[Rows]], Report]) -> Iterator[Report]:
        """Yield what `work` returns for the tables of each part, once a part. Raise if a file changed."""
        yield from self._table.results(work)
        self._files.require_same()


def remaining_blocks(read: Blocks, held: NDArray[np.bool_], files: UnchangedFiles) -> Blocks:
    """Return a function that reads the blocks without the held-back rows."""

    def remaining() -> Iterator[tuple[pd.DataFrame, Rows]]:
        for block, labels, _, of_block in _with_places(read, held):
            if not of_block.all():
                yield block[~of_block], labels[~of_block]
        files.require_same()

    return remaining


def _with_places(read: Blocks, held: NDArray[np.bool_]) -> Iterator[tuple[pd.DataFrame, Rows, int, NDArray[np.bool_]]]:
    """Yield each block and its labels, the place of its first row, and which of its rows are held back."""
    start = 0
    for block, labels in read():
        yield block, np.asarray(labels), start, held[start : start + len(block)]
        start += len(block)
    if start != len(held):
        raise DataError("the private table changed its number of records while it was read: train on a copy.")
