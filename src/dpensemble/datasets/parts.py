"""Private tables in parts that processes or a cluster can read where they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble._arrays import Integers, Rows
from dpensemble._checks import number_of_workers
from dpensemble._hide_private_rows import guarded_rows
from dpensemble._identity import require_id_type
from dpensemble.clusters.base import Report, results_of
from dpensemble.datasets.parquet import ROWS_AT_ONCE, ParquetTable, rows_without
from dpensemble.datasets.parquet_columns import exact_frame
from dpensemble.errors import DataError, FileError

# Smaller row groups are read as one part.
_ROWS_OF_A_PART = 2**17


@dataclass(frozen=True, eq=False, repr=False)
class RowGroups:
    """Some row groups of a Parquet file. `held` has the places of rows to leave out, counted within the part."""

    path: Path
    groups: tuple[int, ...]
    columns: tuple[str, ...]
    n_bytes: int
    n_rows: int
    held: Integers | None = None

    def tables(self) -> Iterator[pd.DataFrame]:
        """Return the rows in tables. Raise if the file has another size than before."""
        if self.held is None:
            return self._tables()
        held = np.zeros(self.n_rows, dtype=bool)
        held[self.held] = True
        return rows_without(self._tables(), held)

    @guarded_rows
    def _tables(self) -> Iterator[pd.DataFrame]:
        from pyarrow.parquet import ParquetFile  # noqa: PLC0415  takes long to import

        with ParquetFile(self.path) as file:
            for batch in file.iter_batches(
                batch_size=ROWS_AT_ONCE, row_groups=list(self.groups), columns=list(self.columns), use_threads=False
            ):
                yield exact_frame(batch)[list(self.columns)]
        if self.path.stat().st_size != self.n_bytes:
            raise FileError("a part of the private table was changed while it was read.")


class ParquetParts:
    """Private records of a Parquet file or folder in parts, for `LabelMomentsClassifier.fit_blocks`.

    Parts are row groups. They are read by `n_jobs` processes of this machine or, within `dpensemble.on_cluster`, by the
    workers of a cluster, which must see the files under the same path.

    Parameters
    ----------
    path : path
        As for `dpensemble.datasets.read_table`. Private.
    target : str
        Column of the labels.
    unit : str, optional
        Column that identifies whose record it is. A unit's records may be in any parts.
    columns : sequence of str, optional
        Columns to read besides these two. By default, all.
    n_jobs : int, default=1
        Number of processes. -1 takes all cores.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> pd.DataFrame({"size": [1.0, 2.0], "y": [0, 1]}).to_parquet(folder / "1.parquet")
    >>> pd.DataFrame({"size": [3.0], "y": [1]}).to_parquet(folder / "2.parquet")
    >>> parts = ParquetParts(folder, "y")
    >>> list(parts.results(lambda tables: sum(len(table) for table in tables)))
    [2, 1]
    """

    #: Files keep their order. `RowSource` describes what a source states.
    fixed_places = True

    def __init__(
        self,
        path: Path | str,
        target: str,
        *,
        unit: str | None = None,
        columns: tuple[str, ...] | None = None,
        n_jobs: int = 1,
    ) -> None:
        table = ParquetTable(path)
        self.target, self.unit, self.n_jobs = target, unit, number_of_workers("n_jobs", n_jobs)
        for parameter, name in (("target", target), ("unit", unit)):
            if name is not None and name not in table.columns:
                raise DataError(f"{parameter}={name!r} is not a column of {path}: name one of its columns.")
        if unit is not None:
            table.require_unit(unit)
        others = [name for name in (columns or table.columns) if name not in (target, unit)]
        named = (*others, target, *(() if unit is None else (unit,)))
        self.parts = [part for file in table.files for part in _parts_of(file.absolute(), named)]
        self.n_rows = table.n_rows

    def results(self, work: Callable[[Iterator[Rows]], Report]) -> Iterator[Report]:
        """Yield what `work` returns for the tables of each part, once a part."""
        return results_of(work, self.parts, self.n_jobs)

    def without(self, held: NDArray[np.bool_]) -> ParquetParts:
        """Return the same table without the rows at some places. `held` has an entry for each row, in order."""
        ends = np.cumsum([part.n_rows for part in self.parts])
        if len(held) != ends[-1]:
            raise DataError(f"held has {len(held):,} entries for {ends[-1]:,} rows: give one entry for each row.")
        marks = np.split(held, ends[:-1])
        rest = copy(self)
        rest.parts = [replace(part, held=np.flatnonzero(own)) for part, own in zip(self.parts, marks, strict=True)]
        return rest


def _parts_of(path: Path, columns: tuple[str, ...]) -> Iterator[RowGroups]:
    from pyarrow.parquet import ParquetFile  # noqa: PLC0415  takes long to import

    with ParquetFile(path) as file:
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
    n_bytes, groups, rows = path.stat().st_size, [], 0
    for group, size in enumerate(sizes):
        groups.append(group)
        rows += size
        if rows >= _ROWS_OF_A_PART or group == len(sizes) - 1:
            yield RowGroups(path, tuple(groups), columns, n_bytes, rows)
            groups, rows = [], 0


@dataclass(frozen=True, eq=False, repr=False)
class _Partition:
    """A partition of a Dask collection, which is computed where it is read."""

    frame: Rows

    @guarded_rows
    def tables(self) -> Iterator[pd.DataFrame]:
        # In this thread, because a worker that waits for other tasks could wait for itself.
        yield self.frame.compute(scheduler="synchronous")


class DaskParts:
    """Private records of a `dask.dataframe` in parts, for `LabelMomentsClassifier.fit_blocks`.

    Each partition is computed by the task that sums it up. So a frame should be read from files and changed row by row.
    A frame that joins or sorts computes its inputs again for every partition.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
        Private.
    target, unit
        As for `ParquetParts`.
    """

    def __init__(self, frame: Rows, target: str, *, unit: str | None = None) -> None:
        for parameter, name in (("target", target), ("unit", unit)):
            if name is not None and name not in frame.columns:
                raise DataError(f"{parameter}={name!r} is not a column of the frame: name one of its columns.")
        if unit is not None:
            # The declared type. A partition of another type is refused when it is read.
            require_id_type(f"unit={unit!r}", frame.dtypes[unit])
        self.target, self.unit = target, unit
        self.parts = [_Partition(frame.partitions[place]) for place in range(frame.npartitions)]

    def results(self, work: Callable[[Iterator[Rows]], Report]) -> Iterator[Report]:
        """Yield what `work` returns for the table of each partition, once a partition."""
        return results_of(work, self.parts)
