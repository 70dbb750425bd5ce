"""The one loop over private rows that arrive: check, convert, judge, find whose they are, and weigh.

Every route runs `RowCheck.over`: rows in memory, blocks, parts on this machine, on Dask or on Spark, and the first pass
of methods that vote. Four things in the loop change how far one unit can move a sum, and no result on clean data:

- All of a unit's records count in its weight, bad ones too. `dpensemble.rows.bad_records` states why.
- `dpensemble._units` decides which ids of units are equal, and nothing else does.
- Rows that may change between two passes have a checksum. `dpensemble.rows.source.Facts` states which rows may.
- Rows are held back by place only if their places are fixed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from dpensemble._arrays import Floats, Integers, Rows, rows_at
from dpensemble._refusals import blanked, read_rows, require_labels, require_rows, row_array
from dpensemble._units import is_id_type
from dpensemble.datasets.frames import as_given
from dpensemble.errors import DataError
from dpensemble.rows.arguments import block, require_dense, require_finite
from dpensemble.rows.bad_records import BAD, as_numbers, readable_array, readable_rows
from dpensemble.rows.checksums import SIZE, RowChecksums
from dpensemble.rows.labels_and_units import class_ids, ids_or_bad
from dpensemble.rows.source import RowSource, as_rows

#: Keyed hashes of units. numpy compares them as bytes of one length.
UnitHashes = NDArray[np.bytes_]
#: Type of `UnitHashes`.
HASH = f"S{SIZE}"
_Mask = NDArray[np.bool_]


class UnitTypeError(DataError):
    """Some rows have a column of units of a type that does not hold ids."""


class Block(NamedTuple):
    """Checked private records: rows in the form of the method, class ids, and weights.

    Weights add up to at most 1 a unit. The class id of a bad record is negative. `units` identify whose records they
    are, if they can be read again.
    """

    rows: Rows
    targets: Integers
    weights: Floats
    units: ArrayLike | None = None

    def split(self, rows: int) -> Iterator[Block]:
        """Yield the records in blocks of at most that many rows."""
        for start in range(0, len(self.targets), rows):
            part = slice(start, start + rows)
            units = None if self.units is None else np.asarray(self.units)[part]
            yield Block(rows_at(self.rows, part), self.targets[part], self.weights[part], units)


@dataclass(frozen=True)
class RowRules:
    """How private rows are read: the settings of an estimator that `arguments.block` reads."""

    on_bad_record: str
    declared_columns: Mapping[str, Sequence[object]] | None


class Form(Protocol):
    """The form in which a method takes rows."""

    def of(self, X: Rows, first: int) -> Rows:
        """Return rows in this form. `first` is the number of the first row, in errors. Raise for unusable rows."""
        ...

    def judged(self, rows: Rows) -> tuple[Rows, _Mask]:
        """Return rows in which those that are bad hold nothing, and which are good."""
        ...

    def require_good(self, rows: Rows, first: int) -> None:
        """Raise if a row is bad."""
        ...


@dataclass(frozen=True, eq=False)
class AsTables:
    """Rows as tables, with the columns and kinds of the empty table `public`."""

    rules: RowRules
    public: Rows

    def of(self, X: Rows, first: int) -> Rows:
        """Return rows as a table."""
        return block(self.rules, X, self.public, first=first)

    def judged(self, rows: Rows) -> tuple[Rows, _Mask]:
        """Return a table in which bad rows are zeros and blanks, and which rows are good."""
        return readable_rows(rows)

    def require_good(self, rows: Rows, first: int) -> None:
        """Do nothing: `of` raises for bad rows."""


@dataclass(frozen=True, eq=False)
class Numbers:
    """Rows that are arrays of numbers already. With `nan`, a row may have blanks."""

    nan: bool

    def of(self, X: Rows, first: int) -> Rows:  # noqa: ARG002
        """Return the array."""
        return X

    def judged(self, rows: Floats) -> tuple[Floats, _Mask]:
        """Return an array in which bad rows are zeros, and which rows are good."""
        good = readable_array(rows, nan=self.nan)
        return np.where(good[:, None], rows, 0.0), good

    def require_good(self, rows: Floats, first: int) -> None:
        """Raise for infinite entries, and for blanks unless they are allowed."""
        require_finite("X", rows, nan=self.nan, first=first)


@dataclass(frozen=True, eq=False)
class AsNumbers(Numbers):
    """Rows as arrays of numbers, with the columns that an estimator knows."""

    estimator: Rows
    zeroes: bool

    def of(self, X: Rows, first: int) -> Floats:
        """Return rows as an array."""
        require_dense("X", X)
        X = row_array(X, self.estimator.n_features_in_) if self.zeroes else X
        require_rows("X", X, keep_bad=self.zeroes, first=first)
        rows = as_numbers(blanked(X)) if self.zeroes else X
        numbers: Floats = read_rows(
            "X", lambda: validate_data(self.estimator, rows, dtype=np.float64, ensure_all_finite=False, reset=False)
        )
        return numbers


class Units:
    """Whose records are. Here each record is a unit of its own."""

    @property
    def named(self) -> tuple[int, float] | None:
        """The number of units and their total weight, if all of them were named before. Private."""
        return None

    def require_type(self, ids: Rows | None) -> None:
        """Raise if the type of a column of units does not hold ids."""

    def of(self, ids: Rows | None, start: int, n_rows: int) -> tuple[_Mask, Floats, ArrayLike | None]:  # noqa: ARG002
        """Return which rows have a unit, their weights, and what identifies their units."""
        return np.ones(n_rows, dtype=bool), np.ones(n_rows), None

    def require_all(self, n_rows: int) -> None:
        """Raise if there were fewer rows than units."""


#: Each record is a unit.
EACH_ALONE = Units()


@dataclass(frozen=True, eq=False, repr=False)
class UnitsByPlace(Units):
    """Units that were named before, by the places of their records.

    `numbers` are those of units, -1 for a record without a unit. `weights` of a unit's records add up to at most 1.
    """

    numbers: Integers
    weights: Floats

    @classmethod
    def of_present(cls, present: _Mask, numbers: Integers, weights: Floats) -> UnitsByPlace:
        """Return the units of all records, from those of the records that have a unit."""
        of_all, units = np.zeros(len(present)), np.full(len(present), -1, dtype=np.int64)
        of_all[present], units[present] = weights, numbers
        return cls(units, of_all)

    @property
    def named(self) -> tuple[int, float]:
        """The number of units and their total weight. Private."""
        return int(self.numbers.max(initial=-1)) + 1, math.fsum(self.weights.tolist())

    def of(self, ids: Rows | None, start: int, n_rows: int) -> tuple[_Mask, Floats, ArrayLike | None]:  # noqa: ARG002
        """Return which rows have a unit, their weights and the numbers of units."""
        part = slice(start, start + n_rows)
        numbers = self.numbers[part]
        if len(numbers) != n_rows:
            raise DataError("units has fewer entries than blocks have records: give one for each.")
        return numbers >= 0, self.weights[part], numbers

    def require_all(self, n_rows: int) -> None:
        """Raise if there were fewer rows than units."""
        if n_rows != len(self.numbers):
            raise DataError("units has more entries than blocks have records: give one for each.")


@dataclass(frozen=True, eq=False)
class UnitCounts:
    """Number of records of each unit that has several, by the sorted keyed hashes of units. Private."""

    hashes: UnitHashes
    counts: NDArray[np.int64]

    def weights(self, hashes: UnitHashes) -> Floats:
        """Return each record's share of its unit."""
        if not len(self.hashes):
            return np.ones(len(hashes))
        places = np.searchsorted(self.hashes, hashes).clip(max=len(self.hashes) - 1)
        return 1 / np.where(self.hashes[places] == hashes, self.counts[places], 1)

    def are_of(self, rows: int) -> bool:
        """Return whether these can be the units of a number of records: sorted, each with a record, none missing."""
        hashes, counts = self.hashes, self.counts
        alike = hashes.dtype == np.dtype(HASH) and counts.dtype == np.int64 and hashes.shape == counts.shape
        if not alike or counts.ndim != 1 or not ((counts >= 1) & (counts <= rows)).all():
            return False
        return bool((hashes[1:] > hashes[:-1]).all()) and sum(counts.tolist()) == rows


@dataclass(frozen=True, eq=False, repr=False)
class UnitsByEntry(Units):
    """Units that are recognised by the entries of a column, under a secret key. `counts` are None before a pass."""

    key: bytes
    counts: UnitCounts | None = None

    def require_type(self, ids: Rows | None) -> None:
        """Raise if the type of the column does not hold ids."""
        if ids is None or not is_id_type(ids.dtype):
            raise UnitTypeError

    def of(self, ids: Rows | None, start: int, n_rows: int) -> tuple[_Mask, Floats, ArrayLike | None]:  # noqa: ARG002
        """Return which rows have a unit, their weights and the keyed hashes of units."""
        hashes, present = RowChecksums(self.key).ids(cast("Rows", ids))
        weights = np.ones(n_rows) if self.counts is None else self.counts.weights(as_hashes(hashes))
        return present, weights, hashes


def as_hashes(units: ArrayLike) -> UnitHashes:
    """Return keyed hashes of units as one entry each."""
    return np.ascontiguousarray(units, dtype=np.uint8).view(HASH).ravel()


@dataclass(frozen=True, eq=False)
class RowCheck:
    """The loop that makes checked records of given rows. It is the same in every pass over the rows.

    With `zeroes`, a bad record is kept, as one that adds nothing, and a record without a unit is left out. Otherwise
    both raise errors.
    """

    form: Form
    classes: NDArray[np.generic]
    zeroes: bool
    units: Units = EACH_ALONE
    target: str | None = None
    unit: str | None = None

    def of(self, source: RowSource) -> RowCheck:
        """Return the loop over the tables of a source."""
        return replace(self, target=source.target, unit=source.unit)

    def over(self, tables: Iterator[Rows]) -> Iterator[Block]:
        """Yield the records of each table as a block. Errors name rows by their number in all tables."""
        start = 0
        for table in tables:
            X, y, ids = as_rows(table, self.target, self.unit)
            y = y if self.target is None else as_given("y", y)
            if ids is not None and self.unit is None:
                raise DataError("a source gives units although its unit is None: name the column, or give no units.")
            if len(X) != len(y):
                raise DataError(f"a block has {len(X)} rows but {len(y)} labels: give one for each.")
            if not len(X):
                continue
            self.units.require_type(ids)
            rows, targets = self._read(X, y, start)
            present, weights, whose = self.units.of(ids, start, len(targets))
            start += len(targets)
            if present.all():
                yield Block(rows, targets, weights, whose)
                continue
            if not self.zeroes:
                raise DataError("a private record has no unit: fill the column of units in.")
            # A record without a unit is left out of every sum.
            own = None if whose is None else np.asarray(whose)[present]
            yield Block(rows[present], targets[present], weights[present], own)
        self.units.require_all(start)

    def _read(self, X: Rows, y: Rows, first: int) -> tuple[Rows, Integers]:
        """Return rows in the form of the method, and class ids, `BAD` for bad records."""
        rows = self.form.of(X, first)
        require_labels(y, keep_bad=self.zeroes, first=first)
        if not self.zeroes:
            self.form.require_good(rows, first)
            return rows, class_ids(self.classes, y, first=first)
        rows, good = self.form.judged(rows)
        targets = ids_or_bad(self.classes, y, len(rows))
        targets[~good] = BAD
        return rows, targets

    def here(self, source: RowSource) -> Iterator[Block]:
        """Yield the records of a source that is read in this process."""
        for blocks in source.results(self.of(source).over):
            yield from blocks
