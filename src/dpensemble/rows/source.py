"""Where private rows come from that are not in memory: blocks, files, streams and tables of clusters are sources.

A source gives its rows to a work, part by part, and yields what the work returns. So rows are read where they are: in
this process, in another one, or on a worker. What differs between sources are the four facts of `Facts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpensemble._entries import Rows, is_table
from dpensemble._work import ShownPasses
from dpensemble.datasets.arrow import Columns, names_in
from dpensemble.datasets.frames import as_pandas
from dpensemble.errors import DataError

Report = TypeVar("Report")
Read = Callable[[], Iterator[tuple[Rows, Rows]]]
#: Returns features and labels in another form. A row's form depends on no other row.
Convert = Callable[[Rows, Rows], tuple[Rows, Rows]]


class Given(NamedTuple):
    """Some private rows as a source gives them: features, labels, and ids of units if a column holds them."""

    X: Rows
    y: Rows
    units: Rows | None = None


class RowSource(Protocol):
    """Private rows in one or more parts, for `LabelMomentsClassifier.fit_blocks`.

    A class may also state the `Facts` of its rows. What it does not state has the safe value.

    Attributes
    ----------
    target : str, sequence of str or None
        Column of the labels, or columns that are read together, such as those of an event and of its time. None if a
        table is a pair of features and labels, or a `Given`.
    unit : str or None
        Column that identifies whose record it is. Records with the same entry are one unit.
    """

    @property
    def target(self) -> Columns | None:
        """Column of the labels, or columns that are read together."""

    @property
    def unit(self) -> str | None:
        """Column of the units."""

    def results(self, work: Callable[[Iterator[Rows]], Report]) -> Iterator[Report]:
        """Yield what `work` returns for the tables of each part, once a part."""
        ...


@dataclass(frozen=True)
class Facts:
    """What a source states about its rows, as attributes of its class or object. Each default is the safe value.

    Parameters
    ----------
    fixed_places : bool, default=False
        Whether all rows have the same places in every pass, as in files, but not in a database. Then the class has a
        method ``without(held)``, which returns the source without the rows at some places. Only such rows can be held
        back.
    may_change : bool, default=True
        Whether rows may change between two passes. Then checksums of all passes are compared.
    keeps_features : bool, default=False
        Whether the work runs in this process, and may keep features of rows between two passes.
    names_rows : bool, default=False
        Whether an error may name the place of a row. False for a worker, which writes errors into its logs.
    """

    fixed_places: bool = False
    may_change: bool = True
    keeps_features: bool = False
    names_rows: bool = False

    @classmethod
    def of(cls, source: RowSource) -> Facts:
        """Return the facts that a source states, and the safe value of each that it does not state."""
        # Anything but True and False states nothing.
        stated = {one.name: getattr(source, one.name, None) for one in fields(cls)}
        return cls(**{name: value for name, value in stated.items() if isinstance(value, bool)})


@dataclass(frozen=True, eq=False, repr=False)
class BlockSource:
    """Rows that a function yields in blocks ``(X, y)`` in this process, the same in the same order at every call.

    `shown` shows a bar for each pass. Files have `fixed_places`.
    """

    read: Read
    shown: ShownPasses | None = None
    fixed_places: bool = False
    target: ClassVar[None] = None
    unit: ClassVar[None] = None
    # Errors that name a row, and features, stay in this process.
    keeps_features: ClassVar[bool] = True
    names_rows: ClassVar[bool] = True

    def results(self, work: Callable[[Iterator[Rows]], Report]) -> Iterator[Report]:
        """Yield what `work` returns for all rows."""
        yield work(self._tables())

    def _tables(self) -> Iterator[Given]:
        for X, y in self.read() if self.shown is None else self.shown.over(self.read()):
            yield Given(as_pandas("X", X), as_pandas("y", y))

    def without(self, held: NDArray[np.bool_]) -> RowSource:
        """Return the source without the rows at some places. `held` has an entry for each row, in order."""
        return replace(self, read=partial(_rows_not_held, self.read, held), fixed_places=True)


def _rows_not_held(read: Read, held: NDArray[np.bool_]) -> Iterator[tuple[Rows, Rows]]:
    """Yield the rows that are not held back. A block whose rows are all held back is left out."""
    start = 0
    for X, y in read():
        rows, labels = as_pandas("X", X), as_pandas("y", y)
        kept = ~held[start : start + len(rows)]
        start += len(rows)
        if kept.any():
            yield rows[kept], labels[kept] if is_table(labels) else np.asarray(labels)[kept]
    if start != len(held):
        raise DataError("the private table changed its number of records while it was read: train on a copy.")


def columns_of(table: Rows, target: Columns | None, unit: str | None) -> Given:
    """Return the features, the labels and the ids of units in one table of a source."""
    if target is None:
        return Given(*table)
    features = table[[name for name in table.columns if name not in (*names_in(target), unit)]]
    labels = table[target] if isinstance(target, str) else table[list(target)]
    return Given(features, labels, None if unit is None else table[unit])


def rows_here(source: RowSource) -> Iterator[tuple[Rows, Rows]]:
    """Yield features and labels of a source that is read in this process, table by table."""
    for tables in source.results(lambda tables: tables):
        for table in tables:
            X, y, _ = columns_of(table, source.target, source.unit)
            yield X, y


class _Changed:
    """A source whose tables are changed where they are read. It states the facts of the source behind it."""

    target: Columns | None = None

    def __init__(self, source: RowSource) -> None:
        self.source, self.unit = source, source.unit
        facts = Facts.of(source)
        self.fixed_places, self.may_change = facts.fixed_places, facts.may_change
        self.keeps_features, self.names_rows = facts.keeps_features, facts.names_rows


class _Converted(_Changed):
    """A source whose rows are converted where they are read."""

    def __init__(self, source: RowSource, convert: Convert) -> None:
        super().__init__(source)
        self.convert = convert

    def results(self, work: Callable[[Iterator[Rows]], Report]) -> Iterator[Report]:
        """Yield what `work` returns for the converted tables of each part, once a part."""
        return self.source.results(partial(_on_converted, work, self.convert, self.source.target, self.source.unit))

    def without(self, held: NDArray[np.bool_]) -> RowSource:
        """Return the source without the rows at some places."""
        return _Converted(_placed(self.source).without(held), self.convert)


def _on_converted(
    work: Callable[[Iterator[Rows]], Report],
    convert: Convert,
    target: Columns | None,
    unit: str | None,
    tables: Iterator[Rows],
) -> Report:
    # Rows are converted when the work asks for them, so that the work handles errors of the conversion.
    rows = (columns_of(table, target, unit) for table in tables)
    return work(Given(*convert(one.X, one.y), one.units) for one in rows)


def converted_source(source: RowSource, convert: Convert) -> RowSource:
    """Return a source whose rows and labels are converted where they are read."""
    return _Converted(source, convert)


class PlacedSource(RowSource, Protocol):
    """A source whose rows have fixed places."""

    def without(self, held: NDArray[np.bool_]) -> RowSource:
        """Return the source without the rows at some places. `held` has an entry for each row, in order."""
        ...


def _placed(source: RowSource) -> PlacedSource:
    if not Facts.of(source).fixed_places:
        raise DataError("records of a database or a cluster have no fixed places: write them to files.")
    return source  # type: ignore[return-value]


def source_without(
    source: RowSource, held: NDArray[np.bool_], after_pass: Callable[[], None] = lambda: None
) -> RowSource:
    """Return a source without the rows at some places.

    Parameters
    ----------
    source : RowSource
        Its rows have fixed places.
    held : ndarray of bool, shape (n_rows,)
        Which rows to leave out, in their order.
    after_pass : callable
        Is called after each pass, and raises if the places of rows may have changed.

    Raises
    ------
    DataError
        If rows have no fixed places. Another row than the held-back one would be left out.
    """
    return _Remaining(_placed(source).without(held), after_pass)


class _Remaining(_Changed):
    """A source without held-back rows, with a check after each pass."""

    def __init__(self, source: RowSource, after_pass: Callable[[], None]) -> None:
        super().__init__(source)
        self.target, self._after_pass = source.target, after_pass

    def results(self, work: Callable[[Iterator[Rows]], Report]) -> Iterator[Report]:
        """Yield what `work` returns for the tables of each part, once a part. Raise if places may have changed."""
        yield from self.source.results(work)
        self._after_pass()
