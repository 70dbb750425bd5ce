"""The one place that checks private rows, converts and judges them, finds whose they are, and weighs them.

Every route runs `RowCheck.checked_block`: rows in memory as one block, and blocks and parts on this machine, on Dask or
on Spark in `RowCheck.checked_blocks`. Four things change how far one unit can move a sum, and no result on clean data:

- All of a unit's records count in its weight, bad ones too. `dpensemble.rows.arguments` states why. Of times until an
  event the first pass over all blocks and parts finds the record that counts.
- `dpensemble._units` decides which ids of units are equal, and nothing else does.
- Rows that may change between two passes have a checksum. `dpensemble.rows.source.Facts` states which rows may.
- Rows are held back by place only if their places are fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from dpensemble._entries import (
    Floats,
    Integers,
    Rows,
    blanked,
    kinds_of,
    label_array,
    read_rows,
    require_labels,
    require_rows,
    row_array,
    rows_at,
)
from dpensemble.datasets.arrow import Columns
from dpensemble.datasets.frames import as_pandas
from dpensemble.errors import DataError
from dpensemble.moments.residuals import NumberRange
from dpensemble.rows.arguments import (
    BAD,
    Owners,
    as_numbers,
    checked_entries,
    class_ids_or_bad,
    in_public_columns,
    readable_array,
    readable_rows,
    require_dense,
    require_finite,
)
from dpensemble.rows.source import columns_of

_RANGES = (
    ". To predict a number, declare its range (LabelMomentsRegressor, or train --range), or cut the number into ranges"
)
_Mask = NDArray[np.bool_]
# Bytes of each record, shape (n_records, 16), whose order is that in which records of a unit count.
_Ranks = NDArray[np.uint8]


class CheckedBlock(NamedTuple):
    """Checked private records: rows in the form of the method, class ids, and weights.

    Weights add up to at most 1 a unit. The class id of a bad record is negative. `units` identify whose records they
    are, if they can be read again. Of a unit's records only those of the least rank count, if there are `ranks`.
    """

    rows: Rows
    targets: Integers
    weights: Floats
    units: ArrayLike | None = None
    ranks: _Ranks | None = None

    def split(self, rows: int) -> Iterator[CheckedBlock]:
        """Yield the records in blocks of at most that many rows."""
        for start in range(0, len(self.targets), rows):
            part = slice(start, start + rows)
            units = None if self.units is None else np.asarray(self.units)[part]
            ranks = None if self.ranks is None else self.ranks[part]
            yield CheckedBlock(rows_at(self.rows, part), self.targets[part], self.weights[part], units, ranks)


@dataclass(frozen=True, eq=False)
class TableForm:
    """Rows as tables, with the columns and kinds of the empty table `public`, which may be `declared` instead.

    With `encoded`, columns of texts are categories, which the maps of this library read faster.
    """

    public: Rows
    declared: bool = False
    encoded: bool = False

    def checked(self, X: Rows, *, zeroes: bool, first: int) -> Rows:
        """Return rows in which every entry can be read. `first` is the number of the first row, in errors."""
        return checked_entries(X, self.public.shape[1], keep_bad=zeroes, first=first)

    def converted(self, X: Rows, *, zeroes: bool, first: int) -> tuple[Rows, _Mask]:  # noqa: ARG002
        """Return checked rows as a table, and which rows are good. A bad row raises, or becomes zeros and blanks."""
        rows = in_public_columns("X", X, self.public, declared=self.declared, keep_bad=zeroes, encoded=self.encoded)
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

    @classmethod
    def of_owners(cls, owners: Owners) -> UnitsByPlace | None:
        """Return units of weight 1 whose records have equal parts of the weight, or None without units."""
        if owners.units is None:
            return None
        return cls.of_present(owners.present, owners.numbers, 1 / np.bincount(owners.numbers)[owners.numbers])

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


class _TimesOfRows(Protocol):
    """Times until an event as they are read: rows of times, class ids, and ranks. Private."""

    @property
    def table(self) -> Rows:
        """Times as rows, for a method whose rows are nothing else."""
        ...

    @property
    def targets(self) -> Integers:
        """Class ids, `BAD` for a bad record."""
        ...

    @property
    def ranks(self) -> _Ranks:
        """The order in which records of a unit count."""
        ...


class _Shares(Protocol):
    """How the records of a unit share its weight, from a pass over all of them. Private."""

    def weights(self, units: ArrayLike, ranks: _Ranks | None) -> Floats:
        """Return each record's share of its unit."""
        ...


@dataclass(frozen=True, eq=False)
class RowCheck:
    """Makes checked records of given rows. It is the same in every pass over the rows.

    With `zeroes`, a bad record is kept, as one that adds nothing, and a record without a unit is left out. Otherwise
    both raise errors. Without `units` each record is a unit. `target` and `unit` are columns of a source. With the
    declared range of a `number`, labels are numbers, and there are no classes.

    `times` reads rows and labels of times until an event. Without a `form` rows are the times that are read. Of several
    records of a unit only those of the least rank count. A pass over all records finds their `shares`.
    """

    form: TableForm | NumberForm | None
    classes: NDArray[np.generic]
    zeroes: bool
    units: Units | None = None
    target: Columns | None = None
    unit: str | None = None
    number: NumberRange | None = None
    times: Callable[[Rows, Rows], _TimesOfRows] | None = None
    shares: _Shares | None = None

    def checked_blocks(self, tables: Iterable[Rows]) -> Iterator[CheckedBlock]:
        """Yield the records of each table as a block. Errors name rows by their number in all tables."""
        start = 0
        for table in tables:
            X, y, ids = columns_of(table, self.target, self.unit)
            y = y if self.target is None else as_pandas("y", y)
            # A life table without strata has no rows but times.
            X = y if X is None and self.form is None else X
            if ids is not None and self.unit is None:
                raise DataError("a source gives units although its unit is None: name the column, or give no units.")
            if len(X) != len(y):
                raise DataError(f"a block has {len(X)} rows but {len(y)} labels: give one for each.")
            if not len(X):
                continue
            if self.units is not None:
                self.units.require_type(ids)
            rows = X if self.form is None else self.form.checked(X, zeroes=self.zeroes, first=start)
            if self.times is None:
                require_labels(y, keep_bad=self.zeroes, first=start)
            yield self.checked_block(rows, y, ids, first=start)
            start += len(X)
        if self.units is not None:
            self.units.require_all(start)

    def checked_block(self, X: Rows, y: Rows, ids: Rows | None = None, *, first: int = 0) -> CheckedBlock:
        """Return records as a block: converted, with class ids and weights. Both were checked before."""
        rows, targets, ranks = self._read(X, y, first)
        if self.units is None:
            return CheckedBlock(rows, targets, np.ones(len(targets)))
        present, weights, whose = self.units.weights_of(ids, first, len(targets))
        if self.shares is not None:
            weights = self.shares.weights(whose, ranks)
        if present.all():
            return CheckedBlock(rows, targets, weights, whose, ranks)
        if not self.zeroes:
            raise DataError("a private record has no unit: fill the column of units in.")
        # A record without a unit is left out of every sum.
        own = None if ranks is None else ranks[present]
        return CheckedBlock(rows[present], targets[present], weights[present], np.asarray(whose)[present], own)

    def _read(self, X: Rows, y: Rows, first: int) -> tuple[Rows, Integers, _Ranks | None]:
        """Return converted rows, class ids, `BAD` for a bad record, and ranks of times until an event."""
        times = None if self.times is None else self.times(X, y)
        if times is not None and self.form is None:
            return times.table, times.targets, times.ranks
        if self.form is None:
            raise DataError("rows without a form must be times until an event: give the form of the rows.")
        rows, good = self.form.converted(X, zeroes=self.zeroes, first=first)
        if times is not None:
            return rows, np.where(good, times.targets, BAD), times.ranks
        if self.number is None:
            targets = class_ids(self.classes, y, keep_bad=self.zeroes, first=first)
        else:
            targets = number_codes(self.number, y, keep_bad=self.zeroes, first=first)
        targets[~good] = BAD
        return rows, targets, None


def class_ids(classes: NDArray[Any], y: Any, *, keep_bad: bool = False, first: int = 0) -> Integers:
    """Return each label's position among the sorted classes. `first` is the row of the first label.

    An undeclared label raises an error, or is `BAD` with `keep_bad`.
    """
    labels = label_array(y)
    _require_types(classes, y)
    ids = class_ids_or_bad(classes, labels)
    undeclared = np.flatnonzero(ids == BAD)
    if undeclared.size and not keep_bad:
        ranges = _RANGES if labels.dtype.kind == "f" else ""
        raise DataError(
            f"the private labels (y) contain one that is not among classes={classes.tolist()!r} (the first in "
            f"row {first + undeclared[0]}, counting from 0). Declare every possible label, or let such records add "
            f"nothing (on_bad_record='zero'){ranges}."
        )
    return ids


def number_codes(number: NumberRange, y: Rows, *, keep_bad: bool = False, first: int = 0) -> Integers:
    """Return numbers to predict as whole multiples of the range's unit. `first` is the row of the first number.

    Each entry is read separately. An entry that is not a finite number raises an error, or is `BAD` with `keep_bad`. A
    text that writes a number is a number then.
    """
    # One text among the numbers of a file makes a column of texts, so one record would decide for a run that zeroes.
    if not keep_bad and any(kind.kind in "SU" or kind.name in ("string", "str") for kind in kinds_of(y)):
        raise DataError("y has texts, but the target of a regression is a number: give numbers.")
    values = numbers_or_nan("y", y)
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size and not keep_bad:
        raise DataError(
            f"Input y contains infinity, or an entry that is not a number (the first in row {first + bad[0]}, counting "
            "from 0): correct it, or let such records add nothing (on_bad_record='zero')."
        )
    return number.codes(values)


def numbers_or_nan(name: str, entries: Rows) -> Floats:
    """Return a private number of each record, NaN for any other entry. Each entry is read separately."""
    if any(kind.kind in "mM" for kind in kinds_of(entries)):
        raise DataError(f"{name} has dates or durations: give numbers, such as days since a public date.")
    return np.asarray(as_numbers(pd.DataFrame({name: label_array(entries)})).to_numpy()[:, 0], dtype=np.float64)


def _require_types(classes: NDArray[np.generic], y: ArrayLike) -> None:
    """Raise for numbers where classes are texts, by the declared types. Otherwise every record would be bad."""
    # Not by the type of an array of all labels, which a missing label may change.
    if classes.dtype.kind in "OUS" and any(kind.kind in "biufc" for kind in kinds_of(y)):
        raise DataError(f"Unknown label type: classes={classes.tolist()!r} and the labels in y are of different types.")
