"""Private records of one run that are read in blocks and are never all in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble._arrays import Integers, Rows
from dpensemble._guard import guarded_rows
from dpensemble.datasets import ParquetBlocks
from dpensemble.datasets.arrow import ArrowBlocks
from dpensemble.datasets.arrow_sources import ArrowSource
from dpensemble.datasets.columns import labels_of
from dpensemble.datasets.parquet import ParquetTable, files_of, is_parquet
from dpensemble.datasets.tables import require_complete
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.workflow.column_kinds import LEAVE_OUT, ColumnKinds, require_two
from dpensemble.workflow.held_rows import (
    Blocks,
    HeldRows,
    Placed,
    PlacedParts,
    RemainingParts,
    RowsOfFiles,
    UnchangedFiles,
    remaining_blocks,
)
from dpensemble.workflow.table_files import TableFiles
from dpensemble.workflow.workers import Conversion, ConvertedParts, Workers

#: Larger tables are read in blocks without a request. In bytes without compression.
LARGE = 2**28


@dataclass(frozen=True, eq=False)
class PrivateStream:
    """Private records in blocks: their number, their units, and a function that reads them again from the start.

    `parts` are the same records for processes or a cluster. Units of a table of Spark are known to the cluster only.
    `placed` is None if records have no fixed places, as in a database.
    """

    n_records: int
    units: Integers | None
    read: Blocks
    parts: ConvertedParts | None = None
    placed: Placed | None = None

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
        files, rows, parts = self.placed.files, self.placed.at(held), self.parts
        if parts is not None:
            # Files in parts have places, too.
            table = cast("PlacedParts", parts.table)
            parts = ConvertedParts(RemainingParts(table, held, files), parts.conversion)
        read = remaining_blocks(self.read, held, files)
        units = None if self.units is None else _renumbered(self.units[~held])
        return PrivateStream(self.n_records - len(rows.labels), units, read, parts), rows


def _renumbered(units: Integers) -> Integers:
    """Return units with the numbers 0, 1, 2, and -1 for a record without a unit."""
    present = units >= 0
    numbers = np.full(len(units), -1, dtype=np.int64)
    numbers[present] = np.unique(units[present], return_inverse=True)[1]
    return numbers


def wants_blocks(private: Path, *, able: bool, asked: bool) -> bool:
    """Return whether to read private records in blocks: if `asked`, or if `able` and the table is a folder or large."""
    if asked and not is_parquet(private):
        raise InvalidParameterError(
            f"in_blocks=True requires a private table in Parquet, but got {private.name}: write it as .parquet."
        )
    if not (able and private.exists() and is_parquet(private)):
        return False
    return asked or private.is_dir() or private.stat().st_size > LARGE or ParquetTable(private).n_bytes > LARGE


def private_stream(
    files: TableFiles, kinds: ColumnKinds, workers: Workers | None = None, groups: Sequence[str] = ()
) -> PrivateStream:
    """Return the private records in blocks, with the public table's columns and kinds. `workers` also get them.

    `groups` are columns whose entries belong to held-back records. `files.drop` may leave them out of the features.
    """
    conversion = _RowsAndLabels(kinds.without_rows(), files.target)
    if workers is not None and workers.is_table(files.private):
        n_records = int(workers.frame(files.private).count())
        require_two(range(n_records))
        return PrivateStream(n_records, None, _by_the_cluster, _parts(files, conversion, workers))
    source = None if workers is None else workers.source
    fixed = files_of(files.private) if source is None else source.files
    # Before anything is read, since places follow from what is read.
    unchanged = UnchangedFiles(fixed)
    parts = None if workers is None else _parts(files, conversion, workers)
    written = partial(_written, files, source, kinds.options.keep_bad)
    blocks = written(files.drop)
    require_two(range(blocks.n_records))

    @guarded_rows
    def read() -> Iterator[tuple[pd.DataFrame, Any]]:
        start = 0
        for block, entries in blocks():
            # Errors name the row of the whole table.
            rows = block.set_index(pd.RangeIndex(start, start + len(block)))
            start += len(block)
            yield conversion(rows, pd.Series(entries, dtype=entries.dtype))

    no_features = [name for name in groups if name in files.drop]
    more = written([name for name in files.drop if name not in groups]) if no_features else blocks
    placed = RowsOfFiles(unchanged, more, conversion, tuple(groups), tuple(no_features)) if fixed else None
    return PrivateStream(blocks.n_records, blocks.units, read, parts, placed)


def _written(
    files: TableFiles, source: ArrowSource | None, keep_bad: bool, drop: Sequence[str]
) -> ParquetBlocks | _Streamed:
    """Return the private records in blocks, as they are written."""
    if source is not None:
        return _Streamed(source, files, drop, keep_bad)
    return ParquetBlocks(files.private, files.target, unit=files.unit, drop=drop, keep_bad=keep_bad)


class _Streamed:
    """The rows of a source in blocks, like `ParquetBlocks`."""

    def __init__(self, source: ArrowSource, files: TableFiles, drop: Sequence[str], keep_bad: bool) -> None:
        self._source, self._files, self._drop, self._keep_bad = source, files, drop, keep_bad
        column = files.target if files.unit is None else files.unit
        if files.unit is not None and files.unit in source.columns:
            source.require_unit(files.unit)
        self.n_records = sum(batch.num_rows for batch in source.stream([column]))
        self.units = None if files.unit is None else self._read([column, files.target]).units

    def __call__(self) -> Iterator[tuple[pd.DataFrame, Rows]]:
        """Yield records and their labels, block by block."""
        return self._read([name for name in self._source.columns if name not in self._drop])()

    def _read(self, columns: Sequence[str]) -> ArrowBlocks:
        source = partial(self._source.stream, columns)
        return ArrowBlocks(source, self._files.target, unit=self._files.unit, keep_bad=self._keep_bad)


@dataclass(frozen=True, eq=False)
class _RowsAndLabels:
    """Converts rows and labels as the public table defines them, and raises for incomplete records."""

    kinds: ColumnKinds
    target: str

    def __call__(self, rows: pd.DataFrame, entries: pd.Series) -> tuple[pd.DataFrame, Rows]:
        kinds, keep_bad = self.kinds, self.kinds.options.keep_bad
        table = kinds.private_features(rows)
        if not keep_bad:
            require_complete("the private table", table, blanks=kinds.options.blanks, private=True)
            if entries.isna().any():
                raise DataError(
                    f"the private table has rows without a target in column {self.target!r}: fill in what is missing, "
                    f"or {LEAVE_OUT['target']}."
                )
        labels = kinds.private_labels(entries)
        if not keep_bad and labels.isna().any():
            raise DataError(
                "the private table's target has labels that are not numbers, but all declared ones are: declare every "
                f"possible label as it is written, or {LEAVE_OUT['target']}."
            )
        return table, labels_of(labels)


def _parts(files: TableFiles, conversion: _RowsAndLabels, workers: Workers) -> ConvertedParts:
    others = (files.target, files.unit, *files.drop)
    columns = [name for name in private_columns(files.private, workers) if name not in others]
    # Errors about columns name them here. A worker only returns a code.
    conversion.kinds.private_features(pd.DataFrame(columns=columns))
    table = workers.parts(files.private, files.target, files.unit, columns)
    return ConvertedParts(table, Conversion(files.target, files.unit, conversion))


def private_columns(private: Path, workers: Workers | None) -> list[str]:
    """Return the columns of a private table that is not read as a whole."""
    if workers is not None and workers.source is not None:
        return list(workers.source.columns)
    if workers is not None and workers.is_table(private):
        return list(workers.frame(private).columns)
    return list(ParquetTable(private).columns)


def _by_the_cluster() -> Iterator[tuple[pd.DataFrame, Rows]]:
    raise DataError("a table of Spark is read by its cluster only: give --cluster spark.")
