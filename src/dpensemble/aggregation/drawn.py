"""Records that are drawn for one answer, in secret."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import ArrayLike

from dpensemble._arrays import Integers
from dpensemble._checks import integer_between, shown
from dpensemble._original import Original
from dpensemble._random import NOISE_BITS, NoiseSource
from dpensemble.allocation.bootstrap import integers_below
from dpensemble.allocation.units import unit_numbers
from dpensemble.errors import DataError, InvalidParameterError

#: The protected unit when no other is named.
RECORD = "record"
# Number of the voter of a unit that was not drawn.
_NOBODY = -1


@dataclass(frozen=True, eq=False, repr=False)
class DrawnRecords:
    """Which records each voter may look at for one answer. Secret, so the ``repr`` shows only the number of voters.

    Parameters
    ----------
    voters : tuple of ndarray
        Positions of the records of each voter, ascending. A voter may have no records, and still votes.
    n_records : int
        Number of records at the time of the draw.
    number : int
        Index of the draw within its aggregator.
    maker : object
        That aggregator's draws.
    """

    voters: tuple[Integers, ...]
    n_records: int
    number: int
    maker: object

    def __repr__(self) -> str:
        return f"DrawnRecords(n_voters={len(self.voters)})"


class Draws(Original, spends=("draw", "check", "use")):
    """The draws of one aggregator. Each draw serves one answer only."""

    def __init__(self, n_voters: int, rate: float, noise: NoiseSource) -> None:
        self._n_voters, self._limit, self._noise = n_voters, np.uint64(int(rate * 2**NOISE_BITS)), noise
        self._numbers = count()
        self._made: set[int] = set()
        self._key_of: dict[int, str] = {}

    def draw(self, n_records: int, units: ArrayLike | None = None) -> DrawnRecords:
        """Draw each unit with a probability of at most the rate, and deal the drawn units to voters, from secret bits.

        A unit goes to one voter with all its records. Without `units` every record is a unit.
        """
        integer_between("n_records", n_records, 0)
        unit_of = np.arange(n_records) if units is None else unit_numbers(units, n_records)
        n_units = int(unit_of.max(initial=-1)) + 1
        drawn_units = np.flatnonzero(self._noise.uniform_bits(n_units) < self._limit)
        voter_of_unit = np.full(n_units, _NOBODY)
        voter_of_unit[drawn_units] = integers_below(self._n_voters, len(drawn_units), self._noise)
        positions = np.flatnonzero(voter_of_unit[unit_of] != _NOBODY)
        voter = voter_of_unit[unit_of[positions]]
        records = DrawnRecords(
            tuple(positions[voter == one] for one in range(self._n_voters)), n_records, next(self._numbers), self
        )
        self._made.add(records.number)
        return records

    def check(self, drawn: DrawnRecords | Sequence[DrawnRecords] | None, n_queries: int, key: str) -> list[int]:
        """Return the numbers of the draws behind a request, refusing draws behind another request."""
        draws = list(drawn) if isinstance(drawn, list | tuple) else [] if drawn is None else [drawn]
        own = [one for one in draws if isinstance(one, DrawnRecords) and one.maker is self]
        numbers = [one.number for one in own]
        others = len(own) < len(draws) or not self._made.issuperset(numbers)
        if len(set(numbers)) != n_queries or len(draws) != n_queries or others:
            raise DataError(f"drawn must be {n_queries} results of this aggregator's draw(), one for each query.")
        if any(self._key_of.get(number, key) != key for number in numbers):
            raise DataError("drawn was used for an earlier answer: call draw() again for every answer.")
        return numbers

    def use(self, numbers: Sequence[int], key: str) -> None:
        """Reserve the draws for one request."""
        self._key_of.update(dict.fromkeys(numbers, key))


def number_to_draw(unit: str, n_records: int | None, units: ArrayLike | None) -> int:
    """Return the number of records to draw from, refusing a draw of units other than the protected ones."""
    if units is None:
        if unit != RECORD:
            raise InvalidParameterError(
                f"unit={unit!r} needs units in draw(), the unit of each record: drawing the records of one {unit} "
                "independently would be charged too little; if each record is a unit, give units=range(n_records).",
                parameter="units",
            )
        return integer_between("n_records", n_records, 0)
    if unit == RECORD:
        raise InvalidParameterError(
            "units in draw() require an aggregator that protects them, and this one protects records: name the "
            "unit when you make the aggregator, such as Aggregator(..., unit='patient').",
            parameter="units",
        )
    n_units = len(np.asarray(units, dtype=object).ravel())
    if n_records not in (None, n_units):
        raise DataError(
            f"n_records={shown(n_records)} must match units, which has {n_units} entries: leave n_records out."
        )
    return n_units


def promises_of_draws(unit: str) -> tuple[str, str]:
    """Return the guarantee's assumptions when the records of every answer are drawn."""
    if unit == RECORD:
        return (
            "Every answer's records were drawn by this aggregator, independently, and which were drawn is secret.",
            "Each drawn record was seen by its own voter only, and votes depend on no other private records.",
        )
    return (
        f"For every answer this aggregator drew each {unit} independently, with all its records as declared, and which "
        "were drawn is secret.",
        f"The records of each drawn {unit} were seen by one voter only, and votes depend on no other private records.",
    )
