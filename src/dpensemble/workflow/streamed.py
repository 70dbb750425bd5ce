"""Private records of one run that are read in blocks, and are never in memory together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from numpy.typing import NDArray

from dpensemble.datasets import ParquetBlocks, ParquetTable
from dpensemble.datasets.parquet import is_parquet
from dpensemble.datasets.tables import require_complete
from dpensemble.errors import DataError, InvalidParameterError

#: Tables that take more than this are read in blocks without being asked to, in bytes without compression.
LARGE = 2**28


@dataclass(frozen=True, eq=False)
class PrivateStream:
    """Private records in blocks: how many, whose each is, and what reads them again from the first to the last."""

    n_records: int
    units: NDArray[Any] | None
    read: Callable[[], Iterator[tuple[pd.DataFrame, Any]]]

    @property
    def n_units(self) -> int:
        """Number of units, or of records where each is one."""
        return self.n_records if self.units is None else int(self.units.max()) + 1


def wants_blocks(private: Path, *, able: bool, asked: bool) -> bool:
    """Return whether private records are to be read in blocks: where asked, of folders, and of large files.

    Parameters
    ----------
    private : path
        The private table.
    able : bool
        Whether the method can take blocks.
    asked : bool
        Whether somebody asked for them.

    Raises
    ------
    InvalidParameterError
        If blocks were asked for of a table that is not in Parquet.
    """
    if asked and not is_parquet(private):
        raise InvalidParameterError(
            f"in_blocks=True needs a private table in Parquet, not {private.name}; write it as .parquet."
        )
    if not (able and private.exists() and is_parquet(private)):
        return False
    return asked or private.is_dir() or private.stat().st_size > LARGE or ParquetTable(private).n_bytes > LARGE


def private_stream(
    private: Path,
    target: str,
    *,
    unit: str | None,
    drop: Sequence[str],
    as_kinds: Callable[[pd.DataFrame], pd.DataFrame],
    as_labels: Callable[[pd.Series], pd.Series],
    blanks: bool,
    keep_bad: bool = False,
) -> PrivateStream:
    """Return the private records in blocks, of the public table's columns and kinds.

    Parameters
    ----------
    private : path
        Parquet file or folder.
    target, unit, drop
        As for `file_tables`.
    as_kinds : callable
        Returns a table with the public or declared columns and kinds.
    as_labels : callable
        Turns entries of the target into labels as they were declared.
    blanks : bool
        Whether features may be missing.
    keep_bad : bool
        Whether bad records are kept for the method, which lets them add nothing. By default they are refused.
    """
    blocks = ParquetBlocks(private, target, unit=unit, drop=drop, keep_bad=keep_bad)
    if blocks.n_records < 2:
        raise DataError("the private table has one row, which nothing can be learned from in private; give more rows.")

    def read() -> Iterator[tuple[pd.DataFrame, Any]]:
        start = 0
        for block, entries in blocks():
            # Messages say which row of the whole table they are about.
            rows = block.set_index(pd.RangeIndex(start, start + len(block)))
            start += len(block)
            table = as_kinds(rows)
            written = pd.Series(entries)
            if keep_bad:
                yield table, as_labels(written).to_numpy()
                continue
            require_complete("the private table", table, blanks=blanks)
            if written.isna().any():
                raise DataError(f"the private table has rows without a target in column {target!r}; drop those rows.")
            labels = as_labels(written)
            if labels.isna().any():
                raise DataError("the private table's target has labels that are no numbers, and all declared ones are.")
            yield table, labels.to_numpy()

    return PrivateStream(blocks.n_records, blocks.units, read)
