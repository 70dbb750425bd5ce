"""Records drawn anew for one answer, in secret."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from dpensemble._arrays import Integers
from dpensemble._checks import integer_between
from dpensemble._original import Original
from dpensemble._random import NOISE_BITS, NoiseSource
from dpensemble.allocation.secret_draws import integers_below
from dpensemble.errors import DataError


@dataclass(frozen=True, eq=False, repr=False)
class DrawnRecords:
    """Which records each voter may look at for one answer; secret, so the ``repr`` shows no more than the voters.

    Parameters
    ----------
    voters : tuple of ndarray
        Positions of the records of each voter, ascending. A voter may have none, and votes all the same.
    n_records : int
        Number of records that there were.
    number : int
        Which draw of its aggregator it is.
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
    """The draws of one aggregator, each of which is behind one answer only."""

    def __init__(self, n_voters: int, rate: float, noise: NoiseSource) -> None:
        self._n_voters, self._limit, self._noise = n_voters, np.uint64(int(rate * 2**NOISE_BITS)), noise
        self._numbers = count()
        self._made: set[int] = set()
        self._key_of: dict[int, str] = {}

    def draw(self, n_records: int) -> DrawnRecords:
        """Draw each record with a probability of at most the rate, and deal those drawn to voters; from secret bits."""
        integer_between("n_records", n_records, 0)
        taken = np.flatnonzero(self._noise.uniform_bits(n_records) < self._limit)
        voter = integers_below(self._n_voters, len(taken), self._noise)
        found = DrawnRecords(
            tuple(taken[voter == one] for one in range(self._n_voters)), n_records, next(self._numbers), self
        )
        self._made.add(found.number)
        return found

    def check(self, drawn: DrawnRecords | Sequence[DrawnRecords] | None, n_queries: int, key: str) -> list[int]:
        """Return the numbers of the draws behind a request, refusing those behind another one."""
        draws = [drawn] if isinstance(drawn, DrawnRecords) else list(drawn or ())
        numbers = [one.number for one in draws]
        others = any(one.maker is not self for one in draws) or not self._made.issuperset(numbers)
        if len(set(numbers)) != n_queries or len(draws) != n_queries or others:
            raise DataError(f"drawn must be {n_queries} results of this aggregator's draw(), one for each query.")
        if any(self._key_of.get(number, key) != key for number in numbers):
            raise DataError("drawn is behind an earlier answer; records are drawn anew for every answer: call draw().")
        return numbers

    def use(self, numbers: Sequence[int], key: str) -> None:
        """Keep the draws for one request."""
        self._key_of.update(dict.fromkeys(numbers, key))
