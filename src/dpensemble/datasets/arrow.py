"""Tables in Parquet, as a whole or in blocks of rows, and private records of any Arrow stream in blocks.

A table in Parquet is one file or a folder of parts. DuckDB, Polars and drivers of databases have Arrow streams.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from dpensemble._entries import Integers, Rows
from dpensemble._hide_private_rows import guard_private_rows, guarded_rows
from dpensemble._units import require_id_type
from dpensemble.datasets.columns import distinct_ids, labels_of
from dpensemble.datasets.frames import exact_frame, require_names
from dpensemble.errors import DataError, FileError, InvalidParameterError

#: Rows that are in memory at a time.
ROWS_AT_ONCE = 2**16
_ENDINGS = (".parquet", ".pq")
# Names of types of dates, times of day and durations.
_DATES = re.compile(r"date|time|duration|interval|month|year", re.IGNORECASE)
# Most bytes of a row group once it is unpacked.
_LARGEST_GROUP = 8 * 10**9
# Columns are read through a buffer of this many bytes, not by whole row groups.
_BUFFER = 2**20


#: The column of a target, or several columns that are read together.
Columns = str | Sequence[str]


def names_in(target: Columns) -> tuple[str, ...]:
    """Return the names of the columns of a target."""
    return (target,) if isinstance(target, str) else tuple(target)


def targets_of(table: Rows, target: Columns) -> Rows:
    """Return labels as they are stored, or a table of the columns that are read together."""
    return labels_of(table[target]) if isinstance(target, str) else table[list(target)]


def _purposes(target: Columns, unit: str | None) -> list[tuple[str, str]]:
    """Return each column that a source names, and what for."""
    return [*(("target", name) for name in names_in(target)), *([] if unit is None else [("unit", unit)])]


def require_columns(table: str, kinds: Mapping[str, object], target: Columns, unit: str | None) -> None:
    """Raise if a table lacks a column of the target or of units, or has dates as times. `kinds` are its types."""
    for parameter, name in _purposes(target, unit):
        if name not in kinds:
            raise DataError(f"{parameter}={name!r} is not a column of {table}: name one of its columns.")
    if not isinstance(target, str):
        _require_no_dates(table, target[-1], kinds[target[-1]])


def _require_no_dates(table: str, column: str, kind: object) -> None:
    """Raise if a column of times until an event is declared to hold dates, times of day or durations.

    `kind` is a type of Arrow, of pandas or of Spark. Entries of such a column would all be bad.
    """
    if _DATES.match(str(kind)):
        raise DataError(
            f"column {column!r} of {table} holds dates or durations: write numbers, such as days since a public date."
        )


class _InBlocks(Protocol):
    """A table whose columns can be read in blocks."""

    def blocks(self, columns: Sequence[str], rows: int) -> Iterator[pd.DataFrame]: ...


class ParquetTable:
    """A Parquet file, or all parts of a folder as one table. Parts that do not belong together raise an error.

    Parts may be in sub-folders, and may be empty. Names that begin with a dot or an underscore are skipped, as
    every reader of Parquet does. `n_bytes` is the size of the columns without compression. Errors quote names of
    columns only if the table is `public`.
    """

    def __init__(self, path: Path | str, *, public: bool = False) -> None:
        self.path = Path(path)
        self._parts = files_of(self.path)
        self._types: list[dict[str, Rows]] = []
        self.n_rows, self.n_bytes, other = 0, 0, 0
        for place, part in enumerate(self._parts):
            with _open_part(part, self.path) as file:
                names = _names(file.schema_arrow)
                self._types.append(dict(zip(file.schema_arrow.names, file.schema_arrow.types, strict=True)))
                self.n_rows += file.metadata.num_rows
                self.n_bytes += sum(
                    file.metadata.row_group(group).total_byte_size for group in range(file.metadata.num_row_groups)
                )
            if place == 0:
                self.columns = names
            other += sorted(names) != sorted(self.columns)
        if other:
            # The columns are not named, because the table may be private.
            raise DataError(
                f"{self.path} has {len(self._parts)} parts, and {other} of them have other columns than the first: "
                "write all parts with the same columns."
            )
        require_names(str(self.path), self.columns, quoted=public)
        if not self.n_rows:
            raise DataError(f"{self.path} has no rows: give a table with rows.")
        self._seen = [state_of(part) for part in self._parts]

    def require_unit(self, column: str) -> None:
        """Raise if the type of a column, in any part, does not hold ids."""
        for types in self._types:
            if column in types:
                require_id_type(f"unit={column!r}", types[column])

    def require_columns(self, target: Columns, unit: str | None) -> None:
        """Raise if the table lacks a column of the target or of units, or has dates as times in any part."""
        for types in self._types:
            require_columns(str(self.path), types, target, unit)

    def require_no_dates(self, column: str) -> None:
        """Raise if the type of a column, in any part, is that of dates, times of day or durations."""
        for types in self._types:
            if column in types:
                _require_no_dates(str(self.path), column, types[column])

    @property
    def files(self) -> list[Path]:
        """The files of the table, in order."""
        return list(self._parts)

    @guarded_rows
    def blocks(self, columns: Sequence[str] | None = None, rows: int = ROWS_AT_ONCE) -> Iterator[pd.DataFrame]:
        """Yield the rows in blocks, always in the same order. Raise if a part has changed since it was opened."""
        names = list(self.columns if columns is None else columns)
        for part, seen in zip(self._parts, self._seen, strict=True):
            with _open_part(part, self.path) as file:
                for batch in file.iter_batches(batch_size=rows, columns=names, use_threads=False):
                    yield exact_frame(batch)[names]
            if state_of(part) != seen:
                raise DataError(f"{self.path} was changed while it was read: train on a copy that does not change.")

    def whole(self) -> pd.DataFrame:
        """Return all rows in one table."""
        tables = []
        for part in self._parts:
            with _open_part(part, self.path) as file:
                tables.append(exact_frame(file.read(columns=self.columns))[self.columns])
        full = [table for table in tables if len(table)]
        return full[0] if len(full) == 1 else stacked(full)


class ParquetBlocks:
    """Private records of a Parquet file or folder in blocks, for `LabelMomentsClassifier.fit_blocks`.

    Parameters
    ----------
    path : path
        As for `ParquetTable`. Private.
    target : str or sequence of str
        Column of the labels, or columns that are read together: the event, and then its time.
    unit : str, optional
        Column that identifies whose record it is. A unit's records may be in any parts.
    drop : sequence of str
        Columns to leave out.
    rows : int
        Most rows of a block.
    keep_bad : bool, default=False
        Whether a row without a unit is kept, with the number -1 in `units`. By default, it raises.

    Attributes
    ----------
    n_records : int
        Number of records.
    units : ndarray of shape (n_records,) or None
        Number of each record's unit.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> pd.DataFrame({"size": [1.0, 2.0], "y": [0, 1]}).to_parquet(folder / "1.parquet")
    >>> pd.DataFrame({"size": [3.0], "y": [1]}).to_parquet(folder / "2.parquet")
    >>> read = ParquetBlocks(folder, "y")
    >>> read.n_records, [labels.tolist() for _, labels in read()]
    (3, [[0, 1], [1]])
    """

    @guard_private_rows()
    def __init__(
        self,
        path: Path | str,
        target: Columns,
        *,
        unit: str | None = None,
        drop: Sequence[str] = (),
        rows: int = ROWS_AT_ONCE,
        keep_bad: bool = False,
    ) -> None:
        self._table, self._target, self._rows = ParquetTable(path), target, rows
        self._table.require_columns(target, unit)
        if unit is not None:
            self._table.require_unit(unit)
        self._features = [name for name in self._table.columns if name not in (*names_in(target), unit, *drop)]
        self.n_records = self._table.n_rows
        self.units = None if unit is None else _unit_numbers(self._table, unit, keep_bad)

    def __call__(self) -> Iterator[tuple[pd.DataFrame, Any]]:
        """Yield records and their labels, block by block."""
        for block in self._table.blocks([*self._features, *names_in(self._target)], self._rows):
            yield block[self._features], targets_of(block, self._target)


class _UnitNumbers:
    """A number for each unit, the same for every block of a table. `dpensemble._units` states which are equal."""

    def __init__(self) -> None:
        self._number_of: dict[bytes, int] = {}

    def of(self, column: pd.Series) -> Integers:
        """Return the number of each record's unit, -1 without a unit."""
        places, ids = distinct_ids(column)
        numbers = [self._number_of.setdefault(one, len(self._number_of)) for one in ids]
        # A missing id has place -1, which would be that of the last number.
        return np.asarray([*numbers, -1], dtype=np.int64)[places]


def _unit_numbers(table: _InBlocks, unit: str, keep_bad: bool, units: _UnitNumbers | None = None) -> Integers:
    """Return a number for the unit of each record, in any part of the table.

    A record without a unit raises an error, or has the number -1.
    """
    units = _UnitNumbers() if units is None else units
    numbers = [units.of(block[unit]) for block in table.blocks([unit], 2**20)]
    if not keep_bad and any((part < 0).any() for part in numbers):
        raise DataError(
            f"the private table has rows without a unit in column {unit!r}: fill in what is missing, or leave such "
            "records out (keep_bad=True, or --on-bad-record zero)."
        )
    return np.concatenate(numbers)


def rows_without(tables: Iterator[pd.DataFrame], held: NDArray[np.bool_]) -> Iterator[pd.DataFrame]:
    """Yield tables without the rows at some places. `held` has an entry for each row of all tables, in order."""
    start = 0
    for table in tables:
        yield table[~held[start : start + len(table)]]
        start += len(table)


def stacked(tables: list[pd.DataFrame]) -> pd.DataFrame:
    """Return stacked tables. A column with several types keeps the types of its parts, entry by entry."""
    mixed = [name for name in tables[0].columns if len({table[name].dtype for table in tables}) > 1]
    if mixed:
        # pandas would use one type for all: integers above 2**53 lose digits beside floats.
        tables = [table.astype(dict.fromkeys(mixed, object)) for table in tables]
    return pd.concat(tables, ignore_index=True)


def is_parquet(path: Path) -> bool:
    """Return whether a path is a Parquet file or a folder. A folder can only be Parquet here."""
    return path.suffix.lower() in _ENDINGS or path.is_dir()


def files_of(path: Path) -> list[Path]:
    """Return the files of a table in Parquet, in order. Raise if a folder has other files."""
    if not path.is_dir():
        return [path]
    inside = [
        file.relative_to(path)
        for file in sorted(path.rglob("*"))
        if not any(name.startswith((".", "_")) for name in file.relative_to(path).parts)
    ]
    if any("=" in folder for part in inside for folder in part.parts[:-1]):
        raise FileError(f"{path} stores columns in the names of its folders (NAME=VALUE): write them into the parts.")
    files = [part for part in inside if not (path / part).is_dir()]
    if not files:
        raise FileError(f"{path} is a folder without Parquet files: name one with Parquet files.")
    if any(part.suffix.lower() not in _ENDINGS for part in files):
        raise FileError(f"{path} is a folder with other files than .parquet: move those elsewhere.")
    return [path / part for part in files]


def _open_part(part: Path, path: Path) -> Any:
    from pyarrow.parquet import ParquetFile  # noqa: PLC0415  takes long to import

    try:
        # As a data set, which pandas would use, 100,000 columns take many minutes.
        file = ParquetFile(part, buffer_size=_BUFFER)
    except (OSError, ValueError):
        if part == path:
            raise
        raise FileError(f"{path} has a part that cannot be read as Parquet: write it again.") from None
    groups = file.metadata
    if any(groups.row_group(place).total_byte_size > _LARGEST_GROUP for place in range(groups.num_row_groups)):
        file.close()
        raise FileError(
            f"{path} has a row group of more than {_LARGEST_GROUP / 10**9:.0f} GB: write smaller row groups."
        )
    return file


def _names(schema: Any) -> list[str]:
    """Return names of columns, without an index that pandas wrote."""
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in schema.names if name not in index]


def state_of(file: Path) -> tuple[int, ...] | None:
    """Return the size of a file, the times of its last changes and its number on the disk. None without such a file."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


Report = TypeVar("Report")


class ArrowBlocks:
    """Private records of an Arrow stream in blocks, for `LabelMomentsClassifier.fit_blocks`.

    The stream is read once a round, and is never all in memory. `fit_blocks` refuses a stream whose rows change.

    Parameters
    ----------
    source : object or callable
        An object with ``__arrow_c_stream__`` that can be read several times, such as a table of Arrow or Polars, or a
        relation of DuckDB. Or a function that opens a new stream, such as a reader of record batches, at every call.
    target : str or sequence of str
        Column of the labels, or columns that are read together: the event, and then its time.
    unit : str, optional
        Column that identifies whose record it is. ``fit_blocks`` then protects units. The stream must have the same
        order in every round, or it raises.
    drop : sequence of str
        Columns to leave out.
    rows : int
        Most rows of a block.
    keep_bad : bool, default=False
        Whether a row without a unit is kept, with the number -1 in `units`. By default, it raises.

    Raises
    ------
    DataError
        If a column is missing, or if one id may have several forms in the type of `unit`: floats, decimals, dates,
        moments, lists and the like.

    Attributes
    ----------
    units : ndarray of shape (n_records,) or None
        Number of each record's unit.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"size": [1.0, 2.0, 3.0], "y": [0, 1, 1]})
    >>> read = ArrowBlocks(lambda: table.to_reader(max_chunksize=2), "y")
    >>> [labels.tolist() for _, labels in read()]
    [[0, 1], [1]]
    """

    @guard_private_rows()
    def __init__(
        self,
        source: Rows,
        target: Columns,
        *,
        unit: str | None = None,
        drop: Sequence[str] = (),
        rows: int = ROWS_AT_ONCE,
        keep_bad: bool = False,
    ) -> None:
        self._source, self._target, self._rows = source, target, rows
        with self._open() as reader:
            schema = reader.schema
        self.columns = list(schema.names)
        for parameter, name in _purposes(target, unit):
            if self.columns.count(name) != 1:
                raise DataError(f"{parameter}={name!r} is not one column of the stream: name one of its columns.")
        if unit is not None:
            require_id_type(f"unit={unit!r}", schema.field(unit).type)
        if not isinstance(target, str):
            _require_no_dates("the stream", target[-1], schema.field(target[-1]).type)
        self._features = [name for name in self.columns if name not in (*names_in(target), unit, *drop)]
        self._unit, self._numbers = unit, _UnitNumbers()
        self.units = None if unit is None else _unit_numbers(self, unit, keep_bad, self._numbers)

    @guard_private_rows()
    def type_of(self, column: str) -> Rows:
        """Return the type of a column in Arrow."""
        with self._open() as reader:
            return reader.schema.field(column).type

    def _open(self) -> Rows:
        import pyarrow as pa  # noqa: PLC0415  takes long to import

        opens = callable(self._source)
        stream = self._source() if opens else self._source
        if not opens and isinstance(stream, pa.RecordBatchReader):
            raise InvalidParameterError(
                "source is a stream that can be read only once, but every round reads it again: give a function that "
                "opens the stream.",
                parameter="source",
            )
        try:
            return pa.RecordBatchReader.from_stream(stream)
        except TypeError:
            raise InvalidParameterError(
                f"source gives a {type(stream).__name__}, which has no Arrow stream: give an object with "
                "__arrow_c_stream__, or a function that opens one.",
                parameter="source",
            ) from None

    @guarded_rows
    def blocks(self, columns: Sequence[str], rows: int) -> Iterator[pd.DataFrame]:
        """Yield the rows of some columns in blocks."""
        names = list(columns)
        with self._open() as reader:
            for batch in reader:
                chosen = batch.select(names)
                for start in range(0, chosen.num_rows, rows):
                    yield exact_frame(chosen.slice(start, rows))[names]

    def __call__(self) -> Iterator[tuple[pd.DataFrame, ArrayLike]]:
        """Yield records and their labels, block by block. Raise if units come in another order than in `units`."""
        of_units = [] if self._unit is None else [self._unit]
        start = 0
        for block in self.blocks([*self._features, *names_in(self._target), *of_units], self._rows):
            if self._unit is not None and self.units is not None:
                numbers = self._numbers.of(block[self._unit])
                # In another order, records of one person would count as those of several.
                if not np.array_equal(numbers, self.units[start : start + len(block)]):
                    raise DataError(
                        "the stream returned the records of units in another order than before: order the query, or "
                        "give a stored copy."
                    )
            start += len(block)
            yield block[self._features], targets_of(block, self._target)


class ArrowPart:
    """Private records of an Arrow stream as one part, for `LabelMomentsClassifier.fit_blocks`.

    Units are recognised by their entries in every round, so rows may come in any order. `ArrowBlocks` describes the
    arguments. Rows of files have `fixed_places`, and can be held back.
    """

    def __init__(self, source: Rows, target: Columns, *, unit: str | None = None, fixed_places: bool = False) -> None:
        self.fixed_places = fixed_places
        self._blocks = ArrowBlocks(source, target)
        if unit is not None:
            require_id_type(f"unit={unit!r}", self._blocks.type_of(unit))
        self.target, self.unit = target, unit
        self._held: NDArray[np.bool_] | None = None

    def without(self, held: NDArray[np.bool_]) -> ArrowPart:
        """Return the same stream without the rows at some places. `held` has an entry for each row, in order."""
        rest = copy(self)
        rest._held = held
        return rest

    def results(self, work: Callable[[Iterator[Rows]], Report]) -> Iterator[Report]:
        """Yield what `work` returns for the rows."""
        kinds: list[str] = []
        report = work(self._tables(kinds))
        if kinds:
            # The text of the error may quote a row.
            raise DataError(
                f"the stream of private records ended with an error ({kinds[0]}), so nothing more was released: read "
                "all of it once with your own program."
            )
        yield report

    def _tables(self, kinds: list[str]) -> Iterator[Rows]:
        """Yield the rows in tables, and note the kind of an error in reading them."""
        tables = self._blocks.blocks(self._blocks.columns, ROWS_AT_ONCE)
        try:
            yield from tables if self._held is None else rows_without(tables, self._held)
        except Exception as error:
            kinds.append(type(error).__name__)
            raise
