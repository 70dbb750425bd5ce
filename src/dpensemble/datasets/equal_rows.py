"""Public rows that equal private records, or are the same memory.

Which rows are equal depends on single records, so the count is for the owner only, and no run is refused for it. That
two tables are one memory is a fact of the program that passes them, so it may be refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble._entries import Floats, Rows, is_table
from dpensemble.datasets.columns import distinct_texts, in_parts, number_columns, numbers_of

Blocks = Callable[[], Iterator[tuple[Rows, Rows]]]
_Hashes = NDArray[np.uint64]

# Below this share of public rows, equal ones may be chance, as in `dpensemble.engine.run`.
_MANY = 0.25
# Numbers of equal records that are looked at, and standard deviations of counts.
_MOST_ALIKE, _DEVIATIONS = 8, 3.0
# Columns that are compared by their memory, and steps that numpy may take for each.
_COLUMNS_COMPARED, _STEPS = 50, 10_000
# Errors of rows that are no table of entries.
_INCOMPARABLE = (ArithmeticError, LookupError, TypeError, ValueError)
_SHIFT = np.uint64(32)


class EqualRows:
    """Counts public rows that equal private records, which may come in blocks.

    Rows are equal if all entries of the public columns are: as numbers where the public column holds numbers, and as
    written elsewhere. Blanks are equal to each other. Columns are compared by name if both tables have names. Rows
    without any entry are not counted. Equality is that of hashes of 64 bits.
    """

    def __init__(self, public: Rows) -> None:
        self._public, self._has_names = _as_frame(public), is_table(public)
        self._factors = _factors(self._public.shape[1])
        self._numeric = number_columns(self._public)
        hashes = self._hashed(self._public)
        first = [np.unique(self._of_column(self._public, place)) for place in range(self._public.shape[1])]
        # The column that tells most rows apart spares the others of most private rows.
        self._telling = max(range(len(first)), key=lambda place: len(first[place]), default=0)
        self._telling_entries = first[self._telling] if first else np.empty(0, dtype=np.uint64)
        kept = ~self._public.isna().to_numpy().all(axis=1)
        self.n_rows = len(hashes)
        self._distinct, self._copies = np.unique(hashes[kept], return_counts=True)
        self._equal = np.zeros(len(self._distinct), dtype=np.int64)

    def add(self, private: Rows) -> None:
        """Compare a block of private rows. Rows without the public columns are not compared."""
        table, columns = _as_frame(private), self._public.columns
        if list(table.columns) != list(columns):
            if set(columns) <= set(table.columns):
                table = table[list(columns)]
            elif table.shape[1] == len(columns) and is_table(private) is not self._has_names:
                # Only one of both has names.
                table = table.set_axis(columns, axis=1)
            else:
                return
        if not len(self._distinct) or not len(table):
            return
        some = np.isin(self._of_column(table, self._telling), self._telling_entries)
        hashes = self._hashed(table[some])
        places = np.searchsorted(self._distinct, hashes)
        places[places == len(self._distinct)] = 0
        self._equal += np.bincount(places[self._distinct[places] == hashes], minlength=len(self._equal))

    @property
    def n_equal(self) -> int:
        """Number of public rows that equal a private record."""
        return int(self._copies[self._equal > 0].sum())

    @property
    def beyond_chance(self) -> bool:
        """Whether more than a quarter of public rows equal a private record, and more than chance explains.

        If records are drawn independently, a row's number of equal records is about Poisson with a mean L of its own.
        Let D(k) be the expected number of distinct public rows with k equal records. Then D(k)**2 is at most
        (k + 1) / k D(k - 1) D(k + 1) for any means, by the inequality of Cauchy and Schwarz for exp(-L) L**k. Copied
        records break this: each row has one equal record, few have none or two.
        """
        if self.n_equal <= _MANY * self.n_rows:
            return False
        counts = np.bincount(np.minimum(self._equal, _MOST_ALIKE + 1), minlength=_MOST_ALIKE + 2).astype(float)
        low = np.maximum(counts - _DEVIATIONS * np.sqrt(counts), 0)
        high = counts + _DEVIATIONS * np.sqrt(counts) + _DEVIATIONS
        return any(
            counts[k] > _MANY * len(self._equal) and low[k] ** 2 > (k + 1) / k * high[k - 1] * high[k + 1]
            for k in range(1, _MOST_ALIKE)
        )

    def _of_column(self, table: pd.DataFrame, place: int) -> _Hashes:
        """Return a hash of each entry of one column."""
        column = table.iloc[:, [place]]
        return _of_numbers(numbers_of(column)[0])[:, 0] if self._numeric[place] else _of_texts(column.iloc[:, 0])

    def _hashed(self, table: pd.DataFrame) -> _Hashes:
        hashes = np.zeros(len(table), dtype=np.uint64)
        for places, (values, _) in in_parts(table, np.flatnonzero(self._numeric), numbers_of):
            hashes += (_of_numbers(values) * self._factors[places]).sum(axis=1, dtype=np.uint64)
        for place in np.flatnonzero(~self._numeric).tolist():
            hashes += _of_texts(table.iloc[:, place]) * self._factors[place]
        return hashes


def _of_numbers(values: Floats) -> _Hashes:
    """Return a hash of each number, one for all forms of zero and one for all of NaN."""
    words = np.ascontiguousarray(np.where(np.isnan(values), np.nan, values + 0.0)).view(np.uint64)
    # The low bits of most numbers are 0, and products keep them 0.
    return words ^ (words >> _SHIFT)


def _factors(n_columns: int) -> _Hashes:
    return np.random.default_rng(0).integers(0, 2**63, n_columns, dtype=np.uint64) * np.uint64(2) + np.uint64(1)


def _of_texts(column: pd.Series) -> _Hashes:
    """Return a hash of each entry as it is written."""
    places, distinct = pd.factorize(column) if column.dtype == "str" else distinct_texts(column)
    hashes = np.asarray(pd.util.hash_array(np.array(distinct, dtype=object), categorize=False), dtype=np.uint64)
    # A missing entry has place -1, the last one.
    return np.append(hashes, np.uint64(1))[places]


def _as_frame(rows: Rows) -> pd.DataFrame:
    """Return rows as a table."""
    if isinstance(rows, pd.DataFrame):
        return rows
    return pd.DataFrame(np.asarray(rows))


def equal_rows(private: Rows, public: Rows) -> EqualRows | None:
    """Return how many public rows equal private records, or None if these rows cannot be compared."""
    with suppress(*_INCOMPARABLE):
        equal = EqualRows(public)
        equal.add(private)
        return equal
    return None


class ComparedOnce:
    """A reader of private blocks whose first whole pass compares them with public rows. `hear` gets the result."""

    def __init__(
        self, read: Blocks, public: Rows, hear: Callable[[EqualRows], None] | None = None, units: Rows | None = None
    ) -> None:
        self._read, self._hear, self._done = read, hear, False
        #: None if these public rows cannot be compared.
        self.equal: EqualRows | None = None
        self.units = units
        with suppress(*_INCOMPARABLE):
            self.equal = EqualRows(public)

    def __call__(self) -> Iterator[tuple[Rows, Rows]]:
        """Yield the blocks."""
        for X, y in self._read():
            if self.equal is not None and not self._done:
                with suppress(*_INCOMPARABLE):
                    self.equal.add(X)
            yield X, y
        if self.equal is not None and self._hear is not None and not self._done:
            self._hear(self.equal)
        self._done = True


def share_memory(X: Rows, X_public: Rows) -> bool:
    """Return whether a part of the public rows is the same memory as a part of the private rows.

    Different rows of one array share none, even if they take turns.
    """
    if X is X_public:
        return X is not None
    return any(_overlap(one, other) for one, other in islice(_columns_alike(X, X_public), _COLUMNS_COMPARED))


def _columns_alike(X: Rows, X_public: Rows) -> Iterator[tuple[Rows, Rows]]:
    """Yield memory that holds the same column of both."""
    if isinstance(X, pd.DataFrame) and isinstance(X_public, pd.DataFrame):
        for name in X.columns.intersection(X_public.columns):
            # Names may be repeated, which is refused later.
            if X[name].ndim == X_public[name].ndim == 1:
                yield from _arrays(X[name], X_public[name])
        return
    one, other = (rows.to_numpy() if isinstance(rows, pd.DataFrame) else rows for rows in (X, X_public))
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        yield one, other


def _arrays(one: pd.Series, other: pd.Series) -> Iterator[tuple[Rows, Rows]]:
    if not any(map(pd.api.types.is_extension_array_dtype, (one, other))):
        yield one.to_numpy(), other.to_numpy()


def _overlap(one: Rows, other: Rows) -> bool:
    if not np.may_share_memory(one, other):
        return False
    try:
        return np.shares_memory(one, other, max_work=_STEPS)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return False
