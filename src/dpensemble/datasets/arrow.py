"""Private records of an Arrow stream: of DuckDB, Polars, a database driver, or anything else that has one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from dpensemble._entries import Rows
from dpensemble._hide_private_rows import guard_private_rows, guarded_rows
from dpensemble._identity import require_id_type
from dpensemble.clusters.base import Report
from dpensemble.datasets.columns import labels_of
from dpensemble.datasets.frames import exact_frame
from dpensemble.datasets.parquet import ROWS_AT_ONCE, UnitNumbers, rows_without, unit_numbers
from dpensemble.errors import DataError, InvalidParameterError


class ArrowBlocks:
    """Private records of an Arrow stream in blocks, for `LabelMomentsClassifier.fit_blocks`.

    The stream is read once a round, and is never all in memory. `fit_blocks` refuses a stream whose rows change.

    Parameters
    ----------
    source : object or callable
        An object with ``__arrow_c_stream__`` that can be read several times, such as a table of Arrow or Polars, or a
        relation of DuckDB. Or a function that opens a new stream, such as a reader of record batches, at every call.
    target : str
        Column of the labels.
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
        target: str,
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
        for parameter, name in (("target", target), ("unit", unit)):
            if name is not None and self.columns.count(name) != 1:
                raise DataError(f"{parameter}={name!r} is not one column of the stream: name one of its columns.")
        if unit is not None:
            require_id_type(f"unit={unit!r}", schema.field(unit).type)
        self._features = [name for name in self.columns if name not in (target, unit, *drop)]
        self._unit, self._numbers = unit, UnitNumbers()
        self.units = None if unit is None else unit_numbers(self, unit, keep_bad, self._numbers)

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
        for block in self.blocks([*self._features, self._target, *of_units], self._rows):
            if self._unit is not None and self.units is not None:
                numbers = self._numbers.of(block[self._unit])
                # In another order, records of one person would count as those of several.
                if not np.array_equal(numbers, self.units[start : start + len(block)]):
                    raise DataError(
                        "the stream returned the records of units in another order than before: order the query, or "
                        "give a stored copy."
                    )
            start += len(block)
            yield block[self._features], labels_of(block[self._target])


class ArrowPart:
    """Private records of an Arrow stream as one part, for `LabelMomentsClassifier.fit_blocks`.

    Units are recognised by their entries in every round, so rows may come in any order. `ArrowBlocks` describes the
    arguments. Rows of files have `fixed_places`, and can be held back.
    """

    def __init__(self, source: Rows, target: str, *, unit: str | None = None, fixed_places: bool = False) -> None:
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
