"""Rows of private files that are read in blocks or in parts, chosen by their places, and the rows that remain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble._arrays import Rows
from dpensemble._guard import guard_private_rows
from dpensemble.datasets.parquet import stacked, state_of
from dpensemble.errors import DataError
from dpensemble.rows.source import Convert, Read


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
    read: Read
    convert: Convert
    groups: tuple[str, ...]
    no_features: tuple[str, ...]

    @guard_private_rows()
    def at(self, held: NDArray[np.bool_]) -> HeldRows:
        """Return the records at some places. `held` has an entry for each record."""
        tables, labels, groups = [], [], []
        for block, entries, start, of_block in _with_places(self.read, held):
            features = block.drop(columns=list(self.no_features))
            try:
                table, own = self.convert(features[of_block], entries[of_block])
            except DataError:
                # The same error, with the row of the whole table.
                numbered = features.set_axis(pd.RangeIndex(start, start + len(block)))
                self.convert(numbered, entries)
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


def _with_places(read: Read, held: NDArray[np.bool_]) -> Iterator[tuple[pd.DataFrame, Rows, int, NDArray[np.bool_]]]:
    """Yield each block and its labels, the place of its first row, and which of its rows are held back."""
    start = 0
    for block, labels in read():
        yield block, np.asarray(labels), start, held[start : start + len(block)]
        start += len(block)
    if start != len(held):
        raise DataError("the private table changed its number of records while it was read: train on a copy.")
