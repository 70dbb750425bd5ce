"""Exact sums of parts of the records. They merge in any order, on any machine, before noise is added once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpensemble._arrays import BigIntegers, Integers
from dpensemble.errors import DataError

#: Checksums are added modulo this number.
CHECKSUMS = 2**128
# Most records of a run, whose counts then fit 64 bits.
_MOST_ROWS = 2**40


@dataclass(frozen=True, eq=False, repr=False)
class PartialSums:
    """The exact sum of some records, and what identifies these records. Private.

    Two partial sums of different records of one round add up to the partial sum of all of them. Entries are Python
    integers, so no number of rows is too large.

    Parameters
    ----------
    total : ndarray of Python integers or None
        The sum in whole units. None without records.
    rows : int
        Number of records.
    checksum : int
        Sum of keyed hashes of the records, modulo ``2**128`` (`dpensemble.rows.checksums`). It does not depend
        on the order of records. The sum is 0 for records that cannot change.
    round : int
        Number of the release that the sum is for.
    """

    total: BigIntegers | None
    rows: int = 0
    checksum: int = 0
    round: int = 0

    def __add__(self, other: PartialSums) -> PartialSums:
        """Return the partial sum of the records of both."""
        if self.round != other.round:
            raise DataError("partial sums of two different rounds cannot be added: compute all parts of a round again.")
        if self.total is None or other.total is None:
            total = other.total if self.total is None else self.total
        elif self.total.shape != other.total.shape:
            raise DataError("partial sums of different shapes cannot be added: use the same query for all parts.")
        else:
            total = self.total + other.total
        checksum = (self.checksum + other.checksum) % CHECKSUMS
        return PartialSums(total, self.rows + other.rows, checksum, self.round)

    @property
    def is_sound(self) -> bool:
        """Whether the entries have the right types, and records have a sum if there are any to sum."""
        counts = (self.rows, self.checksum, self.round)
        if set(map(type, counts)) != {int} or not (0 <= self.rows <= _MOST_ROWS and 0 <= self.checksum < CHECKSUMS):
            return False
        return self.total is None or (self.rows > 0 and self.total.ndim == 2 and whole_numbers(self.total))

    def fits(self, longest: int, *, never_negative: bool) -> bool:
        """Return whether the sum is at most `longest` whole units long, by exact arithmetic."""
        entries = [] if self.total is None else list(map(int, self.total.ravel().tolist()))
        if never_negative and min(entries, default=0) < 0:
            return False
        # Every entry is compared before it is squared, since a square of a huge entry takes long.
        return max(map(abs, entries), default=0) <= longest and sum(one * one for one in entries) <= longest**2

    @property
    def records(self) -> tuple[int, int]:
        """Number of records and their checksum, which are the same in every round of a run."""
        return self.rows, self.checksum


class SameRecords:
    """Compares the records of every pass of a run with those of the first one, before anything is charged or drawn.

    The bound on what one unit changes holds only if every round sums the same records. A query that is computed again
    may lose, change or repeat rows.
    """

    def __init__(self, records: tuple[int, int] | None = None) -> None:
        self._records = records

    def require(self, records: tuple[int, int]) -> None:
        """Raise if these are not the records of the first pass."""
        if self._records is None:
            self._records = records
        elif records != self._records:
            # No count and no hash is named: a refusal is not covered by the guarantee.
            raise DataError(
                "the private records changed between two passes over them, so nothing more was released: give a table "
                "or a query that returns the same records every time, such as a stored copy."
            )


def whole_numbers(entries: Integers | BigIntegers) -> bool:
    """Return whether an array holds nothing but integers, of numpy or of Python."""
    return entries.dtype.kind in "iu" or (
        entries.dtype.kind == "O" and set(map(type, entries.ravel().tolist())) <= {int}
    )


def python_integers(entries: Integers) -> BigIntegers:
    """Return an array of integers as one of Python integers, which never overflow."""
    return np.asarray(entries).astype(object)
