"""The one loop over private rows that arrive: check, convert, judge, find whose they are, and weigh.

Every route runs `RowCheck.checked_block`: rows in memory as one block, and blocks and parts on this machine, on Dask or
on Spark in `RowCheck.checked_blocks`. Four things change how far one unit can move a sum, and no result on clean data:

- All of a unit's records count in its weight, bad ones too. `dpensemble.rows.arguments` states why.
- `dpensemble._identity` decides which ids of units are equal, and nothing else does.
- Rows that may change between two passes have a checksum. `dpensemble.rows.source.Facts` states which rows may.
- Rows are held back by place only if their places are fixed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from dpensemble._entries import (
    Floats,
    Integers,
    Rows,
    blanked,
    read_rows,
    require_labels,
    require_rows,
    row_array,
    rows_at,
)
from dpensemble._identity import is_id_type
from dpensemble.datasets.frames import as_pandas
from dpensemble.errors import DataError
from dpensemble.rows.arguments import (
    BAD,
    as_numbers,
    checked_entries,
    class_ids,
    in_public_columns,
    readable_array,
    readable_rows,
    require_dense,
    require_finite,
)
from dpensemble.rows.checksums import SIZE, RowChecksums
from dpensemble.rows.source import columns_of

#: Keyed hashes of units. numpy compares them as bytes of one length.
UnitHashes = NDArray[np.bytes_]
#: Type of `UnitHashes`.
HASH = f"S{SIZE}"
_Mask = NDArray[np.bool_]


class UnitTypeError(DataError):
    """Some rows have a column of units of a type that does not hold ids."""


class CheckedBlock(NamedTuple):
    """Checked private records: rows in the form of the method, class ids, and weights.

    Weights add up to at most 1 a unit. The class id of a bad record is negative. `units` identify whose records they
    are, if they can be read again.
    """

    rows: Rows
    targets: Integers
    weights: Floats
    units: ArrayLike | None = None

    def split(self, rows: int) -> Iterator[CheckedBlock]:
        """Yield the records in blocks of at most that many rows."""
        for start in range(0, len(self.targets), rows):
            part = slice(start, start + rows)
            units = None if self.units is None else np.asarray(self.units)[part]
            yield CheckedBlock(rows_at(self.rows, part), self.targets[part], self.weights[part], units)


@dataclass(frozen=True, eq=False)
class TableForm:
    """Rows as tables, with the columns and kinds of the empty table `public`, which may be `declared` instead."""

    public: Rows
    declared: bool = False

    def checked(self, X: Rows, *, zeroes: bool, first: int) -> Rows:
        """Return rows in which every entry can be read. `first` is the number of the first row, in errors."""
        return checked_entries(X, self.public.shape[1], keep_bad=zeroes, first=first)

    def converted(self, X: Rows, *, zeroes: bool, first: int) -> tuple[Rows, _Mask]:  # noqa: ARG002
        """Return checked rows as a table, and which rows are good. A bad row raises, or becomes zeros and blanks."""
        rows = in_public_columns("private", X, self.public, declared=self.declared, keep_bad=zeroes)
        return readable_rows(rows) if zeroes else (rows, np.ones(len(rows), dtype=bool))


@dataclass(frozen=True, eq=False)
class NumberForm:
    """Rows as arrays of numbers, with the columns that an estimator knows. With `nan`, a row may have blanks."""

    nan: bool
    estimator: Rows

    def checked(self, X: Rows, *, zeroes: bool, first: int) -> Floats:
        """Return rows as an array. An entry that is not a number raises, or becomes NaN."""
        require_dense("X", X)
        X = row_array(X, self.estimator.n_features_in_) if zeroes else X
        require_rows("X", X, keep_bad=zeroes, first=first)
        rows = as_numbers(blanked(X)) if zeroes else X
        numbers: Floats = read_rows(
            "X", lambda: validate_data(self.estimator, rows, dtype=np.float64, ensure_all_finite=False, reset=False)
        )
        return numbers

    def converted(self, X: Floats, *, zeroes: bool, first: int) -> tuple[Floats, _Mask]:
        """Return an array, and which rows are good. A bad row raises, or becomes zeros."""
        if zeroes:
            good = readable_array(X, nan=self.nan)
            return np.where(good[:, None], X, 0.0), good
        require_finite("X", X, nan=self.nan, first=first)
        return X, np.ones(len(X), dtype=bool)


class Units(Protocol):
    """Whose records are, and how much each record weighs."""

    @property
    def named(self) -> tuple[int, float] | None:
        """The number of units and their total weight, if all of them were named before. Private."""
        ...

    def require_type(self, ids: Rows | None) -> None:
        """Raise if the type of a column of units does not hold ids."""
        ...

    def weights_of(self, ids: Rows | None, start: int, n_rows: int) -> tuple[_Mask, Floats, ArrayLike]:
        """Return which rows have a unit, their weights, and what identifies their units."""
        ...

    def require_all(self, n_rows: int) -> None:
        """Raise if there were fewer rows than units."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class UnitsByPlace:
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

    def require_type(self, ids: Rows | None) -> None:
        """Do nothing: units are not read from a column."""

    def weights_of(self, ids: Rows | None, start: int, n_rows: int) -> tuple[_Mask, Floats, ArrayLike]:  # noqa: ARG002
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
class UnitsByEntry:
    """Units that are recognised by the entries of a column, under a secret key. `counts` are None before a pass."""

    key: bytes
    counts: UnitCounts | None = None

    @property
    def named(self) -> None:
        """None, since units are counted in the first pass."""

    def require_type(self, ids: Rows | None) -> None:
        """Raise if the type of the column does not hold ids."""
        if ids is None or not is_id_type(ids.dtype):
            raise UnitTypeError

    def weights_of(self, ids: Rows | None, start: int, n_rows: int) -> tuple[_Mask, Floats, ArrayLike]:  # noqa: ARG002
        """Return which rows have a unit, their weights and the keyed hashes of units."""
        hashes, present = RowChecksums(self.key).ids(cast("Rows", ids))
        weights = np.ones(n_rows) if self.counts is None else self.counts.weights(as_hashes(hashes))
        return present, weights, hashes

    def require_all(self, n_rows: int) -> None:
        """Do nothing: every row has an entry."""


def as_hashes(units: ArrayLike) -> UnitHashes:
    """Return keyed hashes of units as one entry each."""
    return np.ascontiguousarray(units, dtype=np.uint8).view(HASH).ravel()


@dataclass(frozen=True, eq=False)
class RowCheck:
    """Makes checked records of given rows. It is the same in every pass over the rows.

    With `zeroes`, a bad record is kept, as one that adds nothing, and a record without a unit is left out. Otherwise
    both raise errors. Without `units` each record is a unit. `target` and `unit` are columns of a source.
    """

    form: TableForm | NumberForm
    classes: NDArray[np.generic]
    zeroes: bool
    units: Units | None = None
    target: str | None = None
    unit: str | None = None

    def checked_blocks(self, tables: Iterable[Rows]) -> Iterator[CheckedBlock]:
        """Yield the records of each table as a block. Errors name rows by their number in all tables."""
        start = 0
        for table in tables:
            X, y, ids = columns_of(table, self.target, self.unit)
            y = y if self.target is None else as_pandas("y", y)
            if ids is not None and self.unit is None:
                raise DataError("a source gives units although its unit is None: name the column, or give no units.")
            if len(X) != len(y):
                raise DataError(f"a block has {len(X)} rows but {len(y)} labels: give one for each.")
            if not len(X):
                continue
            if self.units is not None:
                self.units.require_type(ids)
            rows = self.form.checked(X, zeroes=self.zeroes, first=start)
            require_labels(y, keep_bad=self.zeroes, first=start)
            yield self.checked_block(rows, y, ids, first=start)
            start += len(X)
        if self.units is not None:
            self.units.require_all(start)

    def checked_block(self, X: Rows, y: Rows, ids: Rows | None = None, *, first: int = 0) -> CheckedBlock:
        """Return records whose entries were checked as a block: converted, with class ids and weights."""
        rows, good = self.form.converted(X, zeroes=self.zeroes, first=first)
        targets = class_ids(self.classes, y, keep_bad=self.zeroes, first=first)
        if len(targets) != len(rows):
            raise DataError(f"X has {len(rows)} records, but y has {len(targets)} labels: give one for each.")
        targets[~good] = BAD
        if self.units is None:
            return CheckedBlock(rows, targets, np.ones(len(targets)))
        present, weights, whose = self.units.weights_of(ids, first, len(targets))
        if present.all():
            return CheckedBlock(rows, targets, weights, whose)
        if not self.zeroes:
            raise DataError("a private record has no unit: fill the column of units in.")
        # A record without a unit is left out of every sum.
        return CheckedBlock(rows[present], targets[present], weights[present], np.asarray(whose)[present])
