"""Private records of one run that are read in blocks and are never all in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from numpy.typing import NDArray

from dpensemble.datasets import ParquetBlocks
from dpensemble.datasets.parquet import ParquetTable, is_parquet
from dpensemble.datasets.tables import require_complete
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.workflow.column_kinds import LEAVE_OUT, ColumnKinds, require_two
from dpensemble.workflow.table_files import TableFiles

#: Larger tables are read in blocks without a request. In bytes without compression.
LARGE = 2**28


@dataclass(frozen=True, eq=False)
class PrivateStream:
    """Private records in blocks: their number, their units, and a function that reads them again from the start."""

    n_records: int
    units: NDArray[Any] | None
    read: Callable[[], Iterator[tuple[pd.DataFrame, Any]]]

    @property
    def n_units(self) -> int:
        """Number of units, or of records if each record is a unit."""
        return self.n_records if self.units is None else int(self.units.max()) + 1


def wants_blocks(private: Path, *, able: bool, asked: bool) -> bool:
    """Return whether to read private records in blocks: if `asked`, or if `able` and the table is a folder or large."""
    if asked and not is_parquet(private):
        raise InvalidParameterError(
            f"in_blocks=True requires a private table in Parquet, but got {private.name}: write it as .parquet."
        )
    if not (able and private.exists() and is_parquet(private)):
        return False
    return asked or private.is_dir() or private.stat().st_size > LARGE or ParquetTable(private).n_bytes > LARGE


def private_stream(files: TableFiles, kinds: ColumnKinds) -> PrivateStream:
    """Return the private records in blocks, with the public table's columns and kinds."""
    keep_bad = kinds.options.keep_bad
    blocks = ParquetBlocks(files.private, files.target, unit=files.unit, drop=files.drop, keep_bad=keep_bad)
    require_two(range(blocks.n_records))

    def read() -> Iterator[tuple[pd.DataFrame, Any]]:
        start = 0
        for block, entries in blocks():
            # Errors name the row of the whole table.
            rows = block.set_index(pd.RangeIndex(start, start + len(block)))
            start += len(block)
            table = kinds.private_features(rows)
            written = pd.Series(entries)
            if not keep_bad:
                require_complete("the private table", table, blanks=kinds.options.blanks, private=True)
                if written.isna().any():
                    raise DataError(
                        f"the private table has rows without a target in column {files.target!r}: fill in what is "
                        f"missing, or {LEAVE_OUT['target']}."
                    )
            labels = kinds.private_labels(written)
            if not keep_bad and labels.isna().any():
                raise DataError(
                    "the private table's target has labels that are not numbers, but all declared ones are: declare "
                    f"every possible label as it is written, or {LEAVE_OUT['target']}."
                )
            yield table, labels.to_numpy()

    return PrivateStream(blocks.n_records, blocks.units, read)
