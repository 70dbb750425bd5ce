"""The worst case of a gamma over all placements of teachers at corners of their region."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from math import comb

import numpy as np
from numpy.typing import NDArray

from dpensemble.darrm.allowance import Allowance, Corner
from dpensemble.errors import InvalidParameterError

Counts = tuple[int, ...]

# The full set is listed in memory.
MOST_PLACEMENTS = 5_000_000
# The final shrinking handles loads up to this far above 1.
_SLACK = 1e-10


@dataclass(frozen=True, slots=True)
class Placement:
    """How many teachers sit at each corner, and the load there."""

    load: float
    counts: Counts


class Placements(ABC):
    """The placements of teachers at corners that gamma must withstand."""

    def __init__(self, allowance: Allowance, corners: tuple[Corner, ...]) -> None:
        self.allowance = allowance
        self.corners = corners

    @abstractmethod
    def worst(self, upper: NDArray[np.float64], most: int = 1) -> list[Placement]:
        """Return the placement of largest load, and others far from it above 1, by descending load."""

    @property
    @abstractmethod
    def number(self) -> int:
        """How many placements there are."""

    def row(self, counts: Counts) -> NDArray[np.float64]:
        """Return the load's coefficients of gamma above ``K / 2``."""
        return self.allowance.row(self.corners, counts)


class ReducedPlacements(Placements):
    """The ``(K + 1)(K + 2) / 2`` placements that can be worst for a non-decreasing law.

    With ``a`` teachers at ``(Delta, 0)``, ``b`` at ``(high, 1 - high)`` and ``c`` at ``(1, 1 - Delta)``, let
    ``F(a, b, c) = E[w(Bin(a, Delta) + Bin(b, high) + c)]``. Reversed, the neighbour's votes have the same
    form, ``K - L' = Bin(c, Delta) + Bin(b, high) + a``, and ``w`` changes its sign. So the load is
    ``(damping F(a, b, c) + F(c, b, a)) / room``, and one matrix product gives all ``F``.
    """

    def __init__(self, allowance: Allowance) -> None:
        super().__init__(allowance, allowance.reduced_corners)
        size = allowance.n_teachers + 1
        # Row b holds the reversed binomial law: entry i is the chance of b - i.
        backwards = np.zeros((size, size))
        backwards[0, 0] = 1
        for last, row in pairwise(backwards):
            row[:] = allowance.high * last
            row[1:] += (1 - allowance.high) * last[:-1]
        self._backwards = backwards
        low, b = np.indices((size, size))
        self._high_corner = size - 1 - low - b
        self._outside = self._high_corner < 0
        self._columns = np.broadcast_to(b, (size, size))

    def worst(self, upper: NDArray[np.float64], most: int = 1) -> list[Placement]:
        """Return the placement of largest load, then local maxima above 1 along ``b``."""
        loads = self._loads(upper)
        low = loads.argmax(axis=0)
        best = loads[low, np.arange(len(low))]
        padded = np.concatenate([[-np.inf], best, [-np.inf]])
        peak = (best >= padded[:-2]) & (best >= padded[2:]) & (best > 1 + _SLACK)
        order = np.argsort(-best, kind="stable")
        peaks = [order[0], *(b for b in order[1:] if peak[b])][:most]
        k = self.allowance.n_teachers
        return [Placement(float(best[b]), (int(low[b]), int(b), int(k - b - low[b]))) for b in peaks]

    @property
    def number(self) -> int:
        """How many placements there are."""
        return comb(self.allowance.n_teachers + 2, 2)

    def _loads(self, upper: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return loads by ``a`` and ``b``, or -inf where ``a + b > K``."""
        allowance, size = self.allowance, self.allowance.n_teachers + 1
        shifted = np.zeros((size, size))
        w = allowance.signed(upper)
        for a in range(size):
            shifted[a, : size - a] = w[::-1]
            # One more teacher at (Delta, 0): average over its vote.
            w = w[:-1] + allowance.Delta * (w[1:] - w[:-1])
        means = shifted @ self._backwards.T
        mirrored = means[np.maximum(self._high_corner, 0), self._columns]
        loads = (allowance.damping * means + mirrored) / allowance.room
        loads[self._outside] = -np.inf
        return loads


class FullPlacements(Placements):
    """Every placement at 4 corners, or 8 if Delta is above 0, as Lemma 5.1 requires for any gamma.

    Only the numbers of teachers with each chance matter to one side of the load. So a table gives both sides, by the
    exponents ``(high, low, Delta, 1 - Delta)`` and the number of sure votes.
    """

    def __init__(self, allowance: Allowance) -> None:
        k = allowance.n_teachers
        # Corners (high, low) and (low, high) first, so that placements that share them lie side by side.
        corners = allowance.corners[2:4] + allowance.corners[:2] + allowance.corners[4:]
        super().__init__(allowance, corners)
        number = comb(k + len(corners) - 1, k)
        if number > MOST_PLACEMENTS:
            raise InvalidParameterError(
                f"n_teachers={k} with constraints='all' needs {number:,} constraints, more than "
                f"{MOST_PLACEMENTS:,}: use constraints='monotone'."
            )
        self.counts = compositions(k, len(corners))
        self.exponents, self.here, self.there = self._lookup()
        group = self.counts[:, 0].astype(np.int64) * (k + 1) + self.counts[:, 1]
        self._starts = np.flatnonzero(np.diff(group, prepend=-1))

    def worst(self, upper: NDArray[np.float64], most: int = 1) -> list[Placement]:
        """Return the placement of largest load, then the worst of other groups that share two counts."""
        means = self._means(self.allowance.signed(upper))
        loads = (self.allowance.damping * means[self.here] - means[self.there]) / self.allowance.room
        best = np.maximum.reduceat(loads, self._starts)
        order = np.argsort(-best, kind="stable")[:most]
        groups = [group for rank, group in enumerate(order) if rank == 0 or best[group] > 1 + _SLACK]
        return [self._placement(loads, int(group)) for group in groups]

    @property
    def number(self) -> int:
        """How many placements there are."""
        return len(self.counts)

    def _placement(self, loads: NDArray[np.float64], group: int) -> Placement:
        ends = np.append(self._starts, len(loads))
        at = int(ends[group] + np.argmax(loads[ends[group] : ends[group + 1]]))
        return Placement(float(loads[at]), tuple(self.counts[at].tolist()))

    def _lookup(self) -> tuple[NDArray[np.int16], NDArray[np.int64], NDArray[np.int64]]:
        """Return the exponents in the table's order, and the places of both sides of each placement in the table."""
        k, counts = self.allowance.n_teachers, self.counts.astype(np.int64)
        free = 2 if self.allowance.Delta == 0 else 4
        exponents = compositions(k, free + 1)[:, :free]
        code = exponents.astype(np.int64) @ (k + 1) ** np.arange(free)
        lengths = k + 1 - exponents.sum(axis=1)
        offset = np.zeros((k + 1) ** free, dtype=np.int64)
        offset[code] = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        # Columns: (high, low), (low, high), (0, 0), (1, 1), then (D, 0), (0, D), (1, 1-D), (1-D, 1).
        here, there = ([0, 1, 4, 7], [1, 0, 5, 6])
        sure_here, sure_there = ([3, 6], [3, 7])
        if free == 2:
            here, there, sure_here, sure_there = [0, 1], [1, 0], [3], [3]
        powers = (k + 1) ** np.arange(free)
        sides = [
            offset[counts[:, free_columns] @ powers] + counts[:, sure].sum(axis=1)
            for free_columns, sure in ((here, sure_here), (there, sure_there))
        ]
        return exponents, sides[0], sides[1]

    def _means(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``E[w(votes)]`` for all exponents and numbers of sure votes, by averaging step by step."""
        allowance = self.allowance
        chances = (allowance.high, 1 - allowance.high, allowance.Delta, 1 - allowance.Delta)
        mean_of: dict[Counts, NDArray[np.float64]] = {}
        for exponent in map(tuple, self.exponents.tolist()):
            first = next((index for index, power in enumerate(exponent) if power), None)
            if first is None:
                mean_of[exponent] = w
                continue
            fewer = mean_of[(*exponent[:first], exponent[first] - 1, *exponent[first + 1 :])]
            mean_of[exponent] = (1 - chances[first]) * fewer[:-1] + chances[first] * fewer[1:]
        return np.concatenate(list(mean_of.values()))


def compositions(total: int, parts: int) -> NDArray[np.int16]:
    """Return every way to write `total` as an ordered sum, shape (number, parts), the first part slowest."""
    rows = np.zeros((1, 0), dtype=np.int16)
    left = np.array([total])
    for _ in range(parts - 1):
        starts = np.repeat(np.cumsum(left + 1) - left - 1, left + 1)
        part = np.arange(len(starts)) - starts
        rows = np.concatenate([np.repeat(rows, left + 1, axis=0), part[:, None].astype(np.int16)], axis=1)
        left = np.repeat(left, left + 1) - part
    return np.concatenate([rows, left[:, None].astype(np.int16)], axis=1)
