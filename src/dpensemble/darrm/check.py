"""An independent check of a gamma's privacy, with other arithmetic and other cases than the optimiser's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import integer_between
from dpensemble.darrm.allowance import Allowance, Corner, FullPlacements, ReducedPlacements, votes_law
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import RandomizedResponseMajority

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
