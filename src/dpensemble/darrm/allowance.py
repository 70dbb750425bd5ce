"""Privacy of private teachers, the privacy that their released majority must have, and the worst case of a gamma.

A teacher votes for the second class with probability ``p`` on some records and ``p'`` on neighbouring ones. It is
``(epsilon, Delta)``-private iff ``p <= exp(epsilon) p' + Delta``, ``p' <= exp(epsilon) p + Delta``, and the same
for ``1 - p`` and ``1 - p'``. With ``w(l) = sign(l - K / 2) gamma(l)`` and the numbers of votes ``L`` and ``L'``,
the answer is ``(m epsilon, delta)``-private iff for all such probabilities

    ``load = (exp(-m epsilon) E[w(L)] - E[w(L')]) / room <= 1``,
    ``room = 1 - exp(-m epsilon) + 2 delta exp(-m epsilon)``

(Lemma 3.4 of "Optimized Tradeoffs for Private Prediction with Majority Ensembling", divided by its right-hand
side). The load is linear in gamma, so dividing gamma by a load above 1 makes it private. It is linear in each
teacher's ``(p, p')``, so its largest value is at corners of their region (Lemma 5.1). The worst case is the largest
over all placements of teachers at these corners.

`check_gamma` is an independent check of a gamma's privacy, with other arithmetic and other cases than the optimiser's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from math import comb
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import integer_between, real_between
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import RandomizedResponseMajority

Corner = tuple[float, float]

_MOST_TEACHERS = 2001
# Below this the sampler's mixing would no longer pay for its rounding.
_LEAST_ROOM = 1e-6
_UNIT_ROUNDING = 2.0**-53


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """Private teachers and the privacy that their released majority must have.

    Every allowance can be met, if only by a fair coin (gamma equal to 0). None is too small for its teachers.

    Parameters
    ----------
    n_teachers : int
        ``K``, from 1 to 2,001. Odd or even. A fair coin answers a tie.
    epsilon : float
        Epsilon of each teacher, from 1e-6 to 100.
    m : float
        Epsilon of the answer in units of a teacher's: a number above 0, up to ``K``. Need not be whole.
    Delta : float, default=0.0
        Delta of each teacher, in [0, 1).
    delta : float, default=0.0
        Delta of the answer, in [0, 1). Releasing `m` ballots would cost ``m Delta``.

    Raises
    ------
    InvalidParameterError
        If a value is out of range, or the answer may reveal less than 1e-6, which no sampler can honour.

    Examples
    --------
    >>> allowance = Allowance(n_teachers=11, epsilon=0.1, m=3)
    >>> [tuple(round(value, 3) for value in corner) for corner in allowance.corners]
    [(0.0, 0.0), (1.0, 1.0), (0.525, 0.475), (0.475, 0.525)]
    """

    n_teachers: int
    epsilon: float
    m: float
    Delta: float = 0.0
    delta: float = 0.0

    def __post_init__(self) -> None:
        n_teachers = integer_between("n_teachers", self.n_teachers, 1, _MOST_TEACHERS)
        settings = {
            "n_teachers": n_teachers,
            "epsilon": real_between("epsilon", self.epsilon, 1e-6, 100),
            "m": _multiple_of(self.m, n_teachers),
            "Delta": _below_one("Delta", self.Delta),
            "delta": _below_one("delta", self.delta),
        }
        for name, value in settings.items():
            object.__setattr__(self, name, value)
        if self.room < _LEAST_ROOM:
            raise InvalidParameterError(
                f"m={self.m:g} and epsilon={self.epsilon:g} let the answer reveal less than {_LEAST_ROOM:g}, "
                "which no sampler can honour: use a larger m or epsilon."
            )

    @property
    def damping(self) -> float:
        """``exp(-m epsilon)``."""
        return float(np.exp(-self.m * self.epsilon))

    @property
    def room(self) -> float:
        """The most that the worst case may use: a load of 1 in these units."""
        return float(-np.expm1(-self.m * self.epsilon) + 2 * self.delta * self.damping)

    @property
    def high(self) -> float:
        """Larger chance at the corner away from 0 and 1. The smaller is ``1 - high``."""
        return float((1 + self.Delta * np.exp(-self.epsilon)) / (1 + np.exp(-self.epsilon)))

    @property
    def corners(self) -> tuple[Corner, ...]:
        """All corners of a teacher's region: 4, or 8 if Delta is above 0."""
        high, low, slack = self.high, 1 - self.high, self.Delta
        inner = ((0.0, 0.0), (1.0, 1.0), (high, low), (low, high))
        outer = ((slack, 0.0), (0.0, slack), (1.0, 1 - slack), (1 - slack, 1.0))
        return inner + (outer if slack else ())

    @property
    def reduced_corners(self) -> tuple[Corner, Corner, Corner]:
        """The corners that can be worst if more votes never make a class less likely.

        Then the load rises with every ``p`` and falls with every ``p'``. Each other corner has a neighbour among
        these three with a larger ``p``, a smaller ``p'``, or both.
        """
        return ((self.Delta, 0.0), (self.high, 1 - self.high), (1.0, 1 - self.Delta))

    @property
    def rounding(self) -> float:
        """Bound on the rounding error of a load that is summed in doubles.

        In units of ``2**-53``, an error of 6 in `high` moves an expectation of a function within [-1, 1] by at
        most ``12 K``. Each of at most ``K`` averaging steps adds 4 to the error, each step of a binomial law 3, and a
        sum of ``K + 1`` products ``K + 1``. Two expectations give ``40 K``, rounded up for the last few operations.
        """
        return 64 * (self.n_teachers + 1) * _UNIT_ROUNDING / self.room

    def upper(self, gamma: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the entries of gamma above ``K / 2``, shape ((K + 1) // 2,)."""
        return gamma[self.n_teachers // 2 + 1 :]

    def signed(self, upper: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``w``, shape (K + 1,), from gamma above ``K / 2``."""
        tie = np.zeros((self.n_teachers + 1) % 2)
        return np.concatenate([-upper[::-1], tie, upper])

    def row(self, corners: tuple[Corner, ...], counts: tuple[int, ...]) -> NDArray[np.float64]:
        """Return the load's coefficients of gamma above ``K / 2``, where `counts` teachers sit at each corner."""
        here = votes_law([p for p, _ in corners], counts)
        there = votes_law([p for _, p in corners], counts)
        change = (self.damping * here - there) / self.room
        return self.upper(change) - self.upper(change[::-1])


def votes_law(chances: list[float], counts: tuple[int, ...]) -> NDArray[np.float64]:
    """Return the law of the number of votes, shape (sum of counts + 1,), of groups with equal chances."""
    law = np.ones(1)
    for chance, count in zip(chances, counts, strict=True):
        law = np.convolve(law, _binomial(count, chance))
    return law


def _binomial(count: int, chance: float) -> NDArray[np.float64]:
    law = np.ones(1)
    square, left = np.array([1 - chance, chance]), count
    # Squaring keeps every term positive, so no digit is lost.
    while left:
        if left % 2:
            law = np.convolve(law, square)
        left //= 2
        if left:
            square = np.convolve(square, square)
    return law


def _multiple_of(m: object, n_teachers: int) -> float:
    if isinstance(m, Real) and not isinstance(m, bool) and 0 < m <= n_teachers:  # type: ignore[operator]
        return float(m)
    raise InvalidParameterError(
        f"m={m!r} is not a number above 0 and up to n_teachers={n_teachers}, beyond which the plain majority is "
        "private as it is."
    )


def _below_one(name: str, value: object) -> float:
    if isinstance(value, Real) and not isinstance(value, bool) and 0 <= value < 1:  # type: ignore[operator]
        return float(value)
    raise InvalidParameterError(f"{name}={value!r} is not a number from 0 to below 1.")


_Counts = tuple[int, ...]

# The full set is listed in memory.
_MOST_PLACEMENTS = 5_000_000
# The final shrinking handles loads up to this far above 1.
_SLACK = 1e-10


@dataclass(frozen=True, slots=True)
class Placement:
    """How many teachers sit at each corner, and the load there."""

    load: float
    counts: _Counts


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

    def row(self, counts: _Counts) -> NDArray[np.float64]:
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
        if number > _MOST_PLACEMENTS:
            raise InvalidParameterError(
                f"n_teachers={k} with constraints='all' needs {number:,} constraints, more than "
                f"{_MOST_PLACEMENTS:,}: use constraints='monotone'."
            )
        self.counts = _compositions(k, len(corners))
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
        exponents = _compositions(k, free + 1)[:, :free]
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
        mean_of: dict[_Counts, NDArray[np.float64]] = {}
        for exponent in map(tuple, self.exponents.tolist()):
            first = next((index for index, power in enumerate(exponent) if power), None)
            if first is None:
                mean_of[exponent] = w
                continue
            fewer = mean_of[(*exponent[:first], exponent[first] - 1, *exponent[first + 1 :])]
            mean_of[exponent] = (1 - chances[first]) * fewer[:-1] + chances[first] * fewer[1:]
        return np.concatenate(list(mean_of.values()))


def _compositions(total: int, parts: int) -> NDArray[np.int16]:
    """Return every way to write `total` as an ordered sum, shape (number, parts), the first part slowest."""
    rows = np.zeros((1, 0), dtype=np.int16)
    left = np.array([total])
    for _ in range(parts - 1):
        starts = np.repeat(np.cumsum(left + 1) - left - 1, left + 1)
        part = np.arange(len(starts)) - starts
        rows = np.concatenate([np.repeat(rows, left + 1, axis=0), part[:, None].astype(np.int16)], axis=1)
        left = np.repeat(left, left + 1) - part
    return np.concatenate([rows, left[:, None].astype(np.int16)], axis=1)


class Constraints(StrEnum):
    """Which gammas compete, and therefore which placements of teachers gamma must withstand."""

    MONOTONE = "monotone"
    """Gammas that never fall away from the tie. Three corners suffice."""
    ALL = "all"
    """Every symmetric gamma. All 4 or 8 corners."""

    def placements(self, allowance: Allowance) -> Placements:
        """Return the placements that such a gamma must withstand."""
        return ReducedPlacements(allowance) if self is Constraints.MONOTONE else FullPlacements(allowance)


_Chances = tuple[tuple[Corner, int], ...]

# More placements than this are searched, not listed: 21 teachers at 8 corners, 190 at 4.
_MOST_LISTED = 1_184_040
_CLIMBS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class GammaCheck:
    """Result of a check: the largest use of the allowance, above 1 if privacy is broken, and a bound on its error.

    If `exhaustive`, every placement that can be worst was evaluated, which proves the bound. Otherwise it is a search.
    `worst` are the chances ``(p, p')`` of the largest use and how many teachers have them.
    """

    load: float
    rounding: float
    exhaustive: bool
    n_checked: int
    worst: _Chances

    @property
    def private(self) -> bool:
        """Whether no violation was found beyond rounding."""
        return self.load <= 1 + self.rounding


def check_gamma(
    gamma: Sequence[float] | RandomizedResponseMajority,
    *,
    epsilon: float,
    m: float,
    Delta: float = 0.0,
    delta: float = 0.0,
    draws: int = 400,
    seed: int = 0,
) -> GammaCheck:
    """Check whether the answer of ``(epsilon, Delta)``-private teachers is ``(m epsilon, delta)``-private.

    Up to 21 teachers (190 if Delta is 0) every placement at all corners is evaluated, in extended precision if
    the platform has it. Here votes' laws are convolved, while the optimiser averages gamma. For more teachers, chances
    are drawn at random (inside the region, on its border, at its corners, teachers alike or not) and placements at all
    corners are climbed uphill. That search can refute privacy, not prove it. A gamma that falls nowhere away
    from the tie is also proved there, by every placement at the three corners that can then be worst.
    """
    law = gamma if isinstance(gamma, RandomizedResponseMajority) else RandomizedResponseMajority(_as_tuple(gamma))
    allowance = Allowance(n_teachers=law.n_teachers, epsilon=epsilon, m=m, Delta=Delta, delta=delta)
    draws, seed = integer_between("draws", draws, 1, 1_000_000), integer_between("seed", seed, 0)
    w = allowance.signed(allowance.upper(np.array(law.gamma)))
    n_corners = len(allowance.corners)
    if comb(law.n_teachers + n_corners - 1, law.n_teachers) <= _MOST_LISTED:
        return _check_by_listing(allowance, w)
    searched = _Searcher(allowance, w, np.random.default_rng(seed)).run(draws)
    upper = allowance.upper(np.array(law.gamma))
    return _with_three_corners(searched, allowance, upper) if np.all(np.diff(upper) >= 0) else searched


def _with_three_corners(searched: GammaCheck, allowance: Allowance, upper: NDArray[np.float64]) -> GammaCheck:
    """Add the worst of all placements at three corners, which suffice for a gamma that never falls."""
    placements = ReducedPlacements(allowance)
    (worst,) = placements.worst(upper)
    result: dict[str, Any] = {"exhaustive": True, "n_checked": searched.n_checked + placements.number}
    if worst.load > searched.load:
        where = zip(placements.corners, worst.counts, strict=True)
        result |= {"load": worst.load, "worst": tuple((corner, count) for corner, count in where if count)}
    return replace(searched, **result)


def _as_tuple(gamma: object) -> tuple[float, ...]:
    if isinstance(gamma, str) or not isinstance(gamma, Iterable):
        raise InvalidParameterError("gamma must be a sequence of numbers, one for each vote count.")
    return tuple(gamma)


def _check_by_listing(allowance: Allowance, w: NDArray[np.float64]) -> GammaCheck:
    placements = FullPlacements(allowance)
    # Recomputed in extended precision, since the optimiser used the corner in doubles.
    odds = np.exp(-np.longdouble(allowance.epsilon))
    high = (1 + np.longdouble(allowance.Delta) * odds) / (1 + odds)
    slack = np.longdouble(allowance.Delta)
    means = _long_means(placements.exponents, (high, 1 - high, slack, 1 - slack), w.astype(np.longdouble))
    damping = np.exp(-np.longdouble(allowance.m) * np.longdouble(allowance.epsilon))
    room = 1 - damping + 2 * np.longdouble(allowance.delta) * damping
    loads = (damping * means[placements.here] - means[placements.there]) / room
    at = int(np.argmax(loads))
    counts = placements.counts[at].tolist()
    return GammaCheck(
        load=float(loads[at]),
        rounding=float(64 * (allowance.n_teachers + 1) * np.finfo(np.longdouble).eps / room) + 2.0**-52,
        exhaustive=True,
        n_checked=len(loads),
        worst=tuple((corner, count) for corner, count in zip(placements.corners, counts, strict=True) if count),
    )


def _long_means(
    exponents: NDArray[np.int16], chances: tuple[np.longdouble, ...], w: NDArray[np.longdouble]
) -> NDArray[np.longdouble]:
    """Return ``E[w(votes)]`` for all exponents and numbers of sure votes, from the laws of the votes."""
    laws: dict[tuple[int, ...], NDArray[np.longdouble]] = {}
    means = []
    for exponent in map(tuple, exponents.tolist()):
        last = next((index for index in reversed(range(len(exponent))) if exponent[index]), None)
        if last is None:
            laws[exponent] = np.ones(1, dtype=np.longdouble)
        else:
            fewer = laws[(*exponent[:last], exponent[last] - 1, *exponent[last + 1 :])]
            laws[exponent] = np.convolve(fewer, np.array([1 - chances[last], chances[last]]))
        means.append(np.correlate(w, laws[exponent], mode="valid"))
    return np.concatenate(means)


class _Searcher:
    """Random draws of all teachers' chances, then uphill moves of teachers between corners."""

    def __init__(self, allowance: Allowance, w: NDArray[np.float64], rng: np.random.Generator) -> None:
        self.allowance, self.w, self.rng = allowance, w, rng
        self.checked = 0

    def run(self, draws: int) -> GammaCheck:
        loads = [self._draw(min(100, draws - start)) for start in range(0, draws, 100)]
        loads += [self._climb() for _ in range(_CLIMBS)]
        load, worst = max(loads, key=lambda pair: pair[0])
        return GammaCheck(
            load=load, rounding=self.allowance.rounding, exhaustive=False, n_checked=self.checked, worst=worst
        )

    def _draw(self, number: int) -> tuple[float, _Chances]:
        """Return the worst of some draws: teachers of one to four kinds, each kind anywhere in the region."""
        k = self.allowance.n_teachers
        kinds = self._region((number, 4))
        kind = np.floor(4 * self.rng.random((number, k)) ** self.rng.uniform(1, 6, (number, 1))).astype(np.int64)
        here, there = (np.take_along_axis(side, np.minimum(kind, 3), axis=1) for side in kinds)
        loads = self.allowance.damping * self._means(here) - self._means(there)
        at = int(np.argmax(loads))
        points, counts = np.unique(np.stack([here[at], there[at]], axis=1), axis=0, return_counts=True)
        self.checked += number
        worst = tuple(((p, q), count) for (p, q), count in zip(points.tolist(), counts.tolist(), strict=True))
        return float(loads[at] / self.allowance.room), worst

    def _region(self, shape: tuple[int, int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return random ``(p, p')``: a third inside, a third on the upper border, a third at corners."""
        growth, slack = np.exp(self.allowance.epsilon), self.allowance.Delta
        there = self.rng.random(shape)
        top = np.minimum(np.minimum(growth * there + slack, 1 - (1 - there - slack) / growth), 1)
        low = np.maximum(np.maximum((there - slack) / growth, 1 - slack - growth * (1 - there)), 0)
        style = self.rng.integers(0, 3, shape)
        here = np.where(style == 0, low + (top - low) * self.rng.random(shape), top)
        corners = np.array(self.allowance.corners)[self.rng.integers(0, len(self.allowance.corners), shape)]
        return np.where(style == 2, corners[..., 0], here), np.where(style == 2, corners[..., 1], there)

    def _means(self, chances: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``E[w(votes)]`` for each row of chances."""
        law = np.zeros((len(chances), self.allowance.n_teachers + 1))
        law[:, 0] = 1
        for chance in chances.T[:, :, None]:
            law[:, 1:] = (1 - chance) * law[:, 1:] + chance * law[:, :-1]
            law[:, :1] *= 1 - chance
        return law @ self.w

    def _climb(self) -> tuple[float, _Chances]:
        """Return a placement that no move of teachers from one corner to another makes worse."""
        corners = self.allowance.corners
        counts = self.rng.multinomial(self.allowance.n_teachers, self.rng.dirichlet(np.full(len(corners), 0.5)))
        load, step = self._load(counts), max(self.allowance.n_teachers // 4, 1)
        while step:
            moves = [
                (source, target)
                for source in range(len(corners))
                for target in range(len(corners))
                if source != target and counts[source] >= step
            ]
            candidates = []
            for source, target in moves:
                moved = counts.copy()
                moved[[source, target]] += (-step, step)
                candidates.append((self._load(moved), moved))
            best = max(candidates, key=lambda pair: pair[0], default=(load, counts))
            if best[0] > load + 1e-14:
                load, counts = best
            else:
                step //= 2
        return load, tuple((corner, n) for corner, n in zip(corners, counts.tolist(), strict=True) if n)

    def _load(self, counts: NDArray[np.int64]) -> float:
        self.checked += 1
        chances = zip(*self.allowance.corners, strict=True)
        here, there = (votes_law(list(side), tuple(counts.tolist())) @ self.w for side in chances)
        return float((self.allowance.damping * here - there) / self.allowance.room)
