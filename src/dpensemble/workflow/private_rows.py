"""Private records of one run that are read in blocks or parts, and those that are held back by their places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble._entries import Integers, Rows, is_table
from dpensemble._hide_private_rows import guard_private_rows, guarded_rows
from dpensemble.datasets import ParquetBlocks
from dpensemble.datasets.arrow import ArrowBlocks, files_of, names_in, stacked, state_of
from dpensemble.datasets.arrow_sources import ArrowSource
from dpensemble.errors import DataError
from dpensemble.rows.source import BlockSource, Convert, Read, RowSource, converted_source, rows_here, source_without
from dpensemble.workflow.table_files import TableFiles, Workers, require_two_records


@dataclass(frozen=True, eq=False)
class HeldRows:
    """Private records that are held back: converted rows and labels, and entries of the group columns as written."""

    rows: pd.DataFrame
    labels: Rows
    groups: pd.DataFrame


class _Placed(Protocol):
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
        own_labels = stacked(labels) if is_table(labels[0]) else np.concatenate(labels)
        return HeldRows(stacked(tables), own_labels, stacked(groups))


@dataclass(frozen=True, eq=False)
class _RowsInMemory:
    """Private records in memory, where each has a fixed place."""

    rows: pd.DataFrame
    labels: Rows
    groups: pd.DataFrame
    files: UnchangedFiles

    def at(self, held: NDArray[np.bool_]) -> HeldRows:
        """Return the records at some places. `held` has an entry for each record."""
        own = self.labels[held]
        return HeldRows(self.rows[held], own if is_table(own) else own.to_numpy(), self.groups[held])


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
        yield block, labels if is_table(labels) else np.asarray(labels), start, held[start : start + len(block)]
        start += len(block)
    if start != len(held):
        raise DataError("the private table changed its number of records while it was read: train on a copy.")


class _Conversion(Protocol):
    """Converts rows and labels as the public table defines them."""

    @property
    def keep_bad(self) -> bool:
        """Whether bad records are kept."""
        ...

    def features(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return rows with the public columns and kinds, or raise if a column is missing."""
        ...

    def __call__(self, rows: pd.DataFrame, entries: Rows) -> tuple[pd.DataFrame, Rows]:
        """Return converted rows and labels, or raise for an incomplete record."""
        ...


@dataclass(frozen=True, eq=False)
class PrivateStream:
    """Private records that are read from the start again in each pass: their number, their units and their source.

    `parts` are the same records for processes or a cluster. Units of a table of Spark are known to the cluster only.
    `placed` is None if records have no fixed places, as in a database.
    """

    n_records: int
    units: Integers | None
    source: RowSource
    parts: RowSource | None = None
    placed: _Placed | None = None

    @classmethod
    def of(
        cls, files: TableFiles, conversion: _Conversion, workers: Workers | None = None, groups: Sequence[str] = ()
    ) -> PrivateStream:
        """Return the private records in blocks, with the public table's columns and kinds. `workers` also get them.

        `groups` are columns whose entries belong to held-back records. `files.drop` may leave them out of the features.
        """
        if workers is not None and workers.is_table(files.private):
            n_records = int(workers.frame(files.private).count())
            require_two_records(range(n_records))
            return cls(n_records, None, BlockSource(_by_the_cluster), _parts(files, conversion, workers))
        source = None if workers is None else workers.source
        fixed = files_of(files.private) if source is None else source.files
        # Before anything is read, since places follow from what is read.
        unchanged = UnchangedFiles(fixed)
        parts = None if workers is None else _parts(files, conversion, workers)
        written = partial(_written, files, source, conversion.keep_bad)
        records = written(files.drop)
        require_two_records(range(records.n_records))
        here = converted_source(BlockSource(partial(_numbered, records.read), fixed_places=bool(fixed)), conversion)
        no_features = [name for name in groups if name in files.drop]
        more = written([name for name in files.drop if name not in groups]) if no_features else records
        placed = RowsOfFiles(unchanged, more.read, conversion, tuple(groups), tuple(no_features)) if fixed else None
        return cls(records.n_records, records.units, here, parts, placed)

    @classmethod
    def in_memory(cls, rows: pd.DataFrame, labels: Rows, units: Rows, groups: pd.DataFrame | None) -> PrivateStream:
        """Return records in memory as a stream of two blocks. `groups` are entries of group columns."""

        def read() -> Iterator[tuple[pd.DataFrame, Rows]]:
            half = len(rows) // 2
            for part in (slice(0, half), slice(half, None)):
                yield rows[part], labels[part] if is_table(labels) else labels[part].to_numpy()

        entries = pd.DataFrame(index=rows.index) if groups is None else groups
        placed = _RowsInMemory(rows, labels, entries, UnchangedFiles(()))
        return cls(len(rows), units, BlockSource(read, fixed_places=True), placed=placed)

    @guarded_rows
    def read(self) -> Iterator[tuple[pd.DataFrame, Rows]]:
        """Yield features and labels, block by block."""
        yield from rows_here(self.source)

    def blocks(self, source: RowSource | None = None) -> _NumberedBlocks:
        """Return a reader of the records in this process, or of a source that converts them, with their units."""
        return _NumberedBlocks(self.source if source is None else source, self.units)

    @property
    def has_units(self) -> bool:
        """Whether a column identifies whose record it is."""
        return self.units is not None or (self.parts is not None and self.parts.unit is not None)

    @property
    def n_units(self) -> int | None:
        """Number of units, or of records if each record is a unit. None if it is not known here."""
        if self.units is not None:
            return int(self.units.max()) + 1
        return None if self.has_units else self.n_records

    def divided(self, held: NDArray[np.bool_]) -> tuple[PrivateStream, HeldRows]:
        """Return the stream without the records at some places, and these records."""
        if self.placed is None:
            raise DataError("records of a database or a cluster have no fixed places: write them to files.")
        rows, after_pass = self.placed.at(held), self.placed.files.require_same
        source = source_without(self.source, held, after_pass)
        parts = None if self.parts is None else source_without(self.parts, held, after_pass)
        units = None if self.units is None else _renumbered(self.units[~held])
        return PrivateStream(self.n_records - len(rows.labels), units, source, parts), rows


@dataclass(frozen=True, eq=False)
class _NumberedBlocks:
    """Reads private records in blocks. Its units are numbers, and -1 stands for a record without a unit.

    A method knows that from the reader's own units only. Among units that a user gives, -1 is an id as any other.
    """

    source: RowSource
    units: Integers | None

    def __call__(self) -> Iterator[tuple[Rows, Rows]]:
        """Yield rows and targets, block by block."""
        return rows_here(self.source)


def _renumbered(units: Integers) -> Integers:
    """Return units with the numbers 0, 1, 2, and -1 for a record without a unit."""
    present = units >= 0
    numbers = np.full(len(units), -1, dtype=np.int64)
    numbers[present] = np.unique(units[present], return_inverse=True)[1]
    return numbers


def _numbered(read: Read) -> Iterator[tuple[pd.DataFrame, Rows]]:
    """Yield blocks whose rows have their numbers in the whole table, which errors name."""
    start = 0
    for block, entries in read():
        yield block.set_index(pd.RangeIndex(start, start + len(block))), entries
        start += len(block)


class _Written(NamedTuple):
    """Private records as they are written: their number, their units, and a function that reads them in blocks."""

    n_records: int
    units: Integers | None
    read: Read


def _written(files: TableFiles, source: ArrowSource | None, keep_bad: bool, drop: Sequence[str]) -> _Written:
    """Return the private records as they are written, without some columns."""
    if source is None:
        blocks = ParquetBlocks(files.private, files.targets, unit=files.unit, drop=drop, keep_bad=keep_bad)
        return _Written(blocks.n_records, blocks.units, blocks)
    column = files.target if files.unit is None else files.unit
    if files.unit is not None and files.unit in source.columns:
        source.require_unit(files.unit)
    n_records = sum(batch.num_rows for batch in source.stream([column]))

    def of(columns: Sequence[str]) -> ArrowBlocks:
        stream = partial(source.stream, columns)
        return ArrowBlocks(stream, files.targets, unit=files.unit, keep_bad=keep_bad)

    def read() -> Iterator[tuple[pd.DataFrame, Rows]]:
        yield from of([name for name in source.columns if name not in drop])()

    units = None if files.unit is None else of([column, *names_in(files.targets)]).units
    return _Written(n_records, units, read)


def _parts(files: TableFiles, conversion: _Conversion, workers: Workers) -> RowSource:
    others = (*names_in(files.targets), files.unit, *files.drop)
    columns = [name for name in files.private_columns(workers) if name not in others]
    # Errors about columns name them here. A worker only returns a code.
    conversion.features(pd.DataFrame(columns=columns))
    table = workers.parts(files.private, files.targets, files.unit, columns)
    return converted_source(table, conversion)


def _by_the_cluster() -> Iterator[tuple[pd.DataFrame, Rows]]:
    raise DataError("a table of Spark is read by its cluster only: give --cluster spark.")
