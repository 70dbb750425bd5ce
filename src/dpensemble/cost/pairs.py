"""Dominating pairs: finitely many pairs of output laws that stand for all that one answer can reveal.

Consider every divergence that data processing cannot increase: Renyi, hockey-stick, and the backward induction of
`dpensemble.cost.composition`. A set of pairs ``(P, Q)`` dominates a mechanism if, for all neighbouring inputs in either
order, every such divergence is at most the largest over the set. Pairs are compared through their receiver operating
characteristic: the curve through the cumulative ``(Q, P)`` of the outcomes, by falling likelihood ratio. A pair whose
curve lies nowhere below another's dominates it (Blackwell 1953, and Y. Zhu, J. Dong and Y.-X. Wang, "Optimal accounting
of differential privacy via characteristic function", AISTATS 2022, Definition 7 and Proposition 8).

Why every selection is an upper bound
-------------------------------------
Curves are corner lists of (Q, P) from (0, 0) to (1, 1). Three selections replace a curve.

- *Edges.* `_few_edges` prolongs some edges of a concave curve until they meet. A concave curve lies below its tangents
  (R. T. Rockafellar, "Convex Analysis", 1970, section 18), so *any* edges will do.
- *Corners.* Write ``F`` for `_FLAT`. `_concave_hull` leaves out a corner if it lies on or below a chord between kept
  corners, once each end ``(q, p)`` of the chord has moved to ``(q - F q (1 - q), p + F p (1 - p))``. Such a move is at
  most ``F``, shares of what is left of the coordinates on either side. Let ``K`` be a concave curve that is nowhere
  below the kept corners. Callers move its corners up and to the left by ``2 _NEAR_END``, the first and last excepted.
  The moved ends lie below the result. Between corners that move, the whole edge moves by more than ``F``. On the first
  edge the slope grows by the factor ``(1 + s / p) / (1 - s / q)`` with ``s = 2 _NEAR_END``, and the slope of a moved
  end by at most ``(1 + F) / (1 - F)``. The last edge is the same, seen from (1, 1). The result is concave, so the chord
  and the corner lie below, too.
- *Groups.* `DominatingPairs.few` and `DominatingPairs.few_in_order` divide pairs into groups, so that composition
  follows fewer pairs. Each group stands behind the hull of its own curves. Every pair lies below the hull of its group,
  however the pairs are divided.

So rounding can change which bound is computed, never that the result is a bound. Processors and libraries round
exponentials differently, and rounding would decide ties: outcomes of one likelihood ratio lie on a line. Measured on
votes of three classes, rounding leaves corners at most ``2**-48`` of their coordinates from their line, and `_FLAT` is
above that. Few true corners are as flat, and a bound without them is still a bound. Values that order rows are compared
by `ranks`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpensemble._entries import Floats, Integers
from dpensemble.errors import AccountingError

# Sums of probabilities miss 1 only through rounding.
_NEAR_END = 1e-14
# A corner this near a chord, as a share of its coordinates, is left out: far above rounding, far below all that costs.
_FLAT = 2.0**-47


def _vertices(p: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the corners (q, p) of every pair's curve, from (0, 0) to (1, 1), by falling likelihood ratio."""
    # Outcomes that cannot occur go last, where they add nothing.
    order = np.argsort(np.where(q > 0, -p / np.where(q > 0, q, 1.0), np.inf), axis=1, kind="stable")
    corners = np.zeros((len(q), q.shape[1] + 1, 2))
    for axis, table in ((0, q), (1, p)):
        np.cumsum(np.take_along_axis(table, order, axis=1), axis=1, out=corners[:, 1:, axis])
    corners[:, -1] = 1.0
    return corners


def ranks(values: NDArray[np.float64], error: float) -> NDArray[np.int64]:
    """Return the rank of each value. Neighbours in size that differ by at most `error` share a rank."""
    order = np.argsort(values, kind="stable")
    of_sorted = np.cumsum(np.diff(values[order], prepend=values[order[:1]]) > error)
    place = np.empty(len(values), dtype=np.int64)
    place[order] = of_sorted
    return place


def _concave_hull(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the corners of the least concave curve above all points, which it may miss by `_NEAR_END`.

    Points within `_NEAR_END` count as (1, 1), and flat corners are left out.
    """
    q, p = points[np.lexsort((points[:, 1], points[:, 0]))].T
    inside = (q > 0) & ((1 - q >= _NEAR_END) | (1 - p >= _NEAR_END))
    q, p = q[inside], p[inside]
    # A point at most as high as an earlier point lies on no edge.
    rising = p > np.maximum.accumulate(np.concatenate([[0.0], p]))[:-1]
    hull: list[tuple[float, float]] = [(0.0, 0.0)]
    for point in zip(q[rising].tolist(), p[rising].tolist(), strict=True):
        while len(hull) > 1 and _turns_left(hull[-2], hull[-1], point):
            hull.pop()
        # Of points with the same abscissa only the highest counts.
        if point[0] > hull[-1][0]:
            hull.append(point)
        elif len(hull) > 1:
            hull[-1] = point
    while len(hull) > 1 and _turns_left(hull[-2], hull[-1], (1.0, 1.0)):
        hull.pop()
    return np.array(_without_flat([*hull, (1.0, 1.0)]))


def _without_flat(corners: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the corners of a concave curve without those that are flat, from the first corner on."""
    kept, start = corners[:1], 0
    for end in range(2, len(corners)):
        from_, to = _raised(corners[start]), _raised(corners[end])
        run, rise = to[0] - from_[0], to[1] - from_[1]
        if any((p - from_[1]) * run > (q - from_[0]) * rise for q, p in corners[start + 1 : end]):
            start = end - 1
            kept.append(corners[start])
    return [*kept, corners[-1]]


def _raised(corner: tuple[float, float]) -> tuple[float, float]:
    q, p = corner
    return q - _FLAT * q * (1 - q), p + _FLAT * p * (1 - p)


def _turns_left(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (b[1] - a[1]) * (c[0] - b[0]) <= (c[1] - b[1]) * (b[0] - a[0])


def _few_edges(corners: NDArray[np.float64], n_edges: int) -> NDArray[np.float64]:
    """Return a concave curve nowhere below `corners`, with at most `n_edges` (at least 2) edges."""
    if len(corners) - 1 <= max(n_edges, 2):
        return corners
    # Some edges are selected and prolonged until they meet. A concave curve lies below all its tangents.
    selection = np.unique(np.round(np.linspace(0, len(corners) - 2, max(n_edges, 2))).astype(int))
    start, along = corners[selection], corners[selection + 1] - corners[selection]
    gap, one, next_one = start[1:] - start[:-1], along[:-1], along[1:]
    det = one[:, 0] * next_one[:, 1] - one[:, 1] * next_one[:, 0]
    t = (gap[:, 0] * next_one[:, 1] - gap[:, 1] * next_one[:, 0]) / np.where(det == 0, 1.0, det)
    # Edges of one slope lie on one line, on which any point between them is valid.
    meet = np.where(det[:, None] == 0, start[1:], start[:-1] + t[:, None] * one)
    return np.concatenate([corners[:1], meet, corners[-1:]])


# Orders at which a group of pairs may not exceed the worst single pair.
_TEST_ORDERS = np.array([1.1, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0])
# The same for sets in which no group may be much looser at any order.
_ALL_ORDERS = np.sort(np.concatenate([_TEST_ORDERS, [3.0, 7.0, 14.0, 32.0, 500.0, 2e3, 1e4, 1e5]]))
_MOST_OUTCOMES = 10
# Likelihood ratios that decide whether pairs are alike.
_RATIOS = 41
# Rounding of shapes, and of their place along a direction as a share of the farthest place, for one row.
_SHAPE_ERROR, _SAME = 1e-13, 1e-4
# Orthogonal to no direction that shapes have by symmetry.
_IRREGULAR = np.sqrt(np.arange(2.0, 2.0 + _RATIOS)) % 1.0
# Number of neighbours in a row that do not fit, after which no others are tried.
_MISSES = 6
# Most rows that are tried as one group. A larger matrix is represented by a sample of its rows.
_TRIED = 3000
_BLOCK_CELLS = 4_000_000
# Bounds the rounding of one logarithm of a sum, relative and absolute.
_RELATIVE_SLACK, _ABSOLUTE_SLACK = 1e-9, 1e-15


@dataclass(frozen=True, eq=False, slots=True)
class DominatingPairs:
    """Pairs of output laws, one a row, that together dominate one answer.

    Parameters
    ----------
    p, q : ndarray of shape (n_pairs, n_outcomes)
        Probabilities of the outcomes under either input. Rows sum to 1. Rows with fewer outcomes are filled up with
        zeros. The set must hold for both orders of the neighbours.

    Raises
    ------
    AccountingError
        If a probability is not finite, is negative, does not add up to 1, or an outcome is possible under only one of
        the two laws.

    Examples
    --------
    Randomized response that answers truthfully three times in four:

    >>> pairs = DominatingPairs([[0.75, 0.25]], [[0.25, 0.75]])
    >>> round(pairs.hockey_stick(0.0), 3), round(float(pairs.renyi([2.0])[0]), 3)
    (0.5, 0.847)
    """

    p: Floats
    q: Floats

    def __post_init__(self) -> None:
        p, q = np.array(self.p, dtype=np.float64), np.array(self.q, dtype=np.float64)
        if p.ndim != 2 or p.shape != q.shape or p.size == 0:
            raise AccountingError("p and q must be non-empty tables of one shape, one pair a row.")
        for name, table in (("p", p), ("q", q)):
            if not (np.all(table >= 0) and np.all(np.abs(table.sum(axis=1) - 1) < 1e-9)):
                raise AccountingError(f"the rows of {name} must be probabilities that sum to 1.")
            table.flags.writeable = False
            object.__setattr__(self, name, table)
        # In both orders, since the composition drops outcomes that the first of two laws cannot produce.
        if np.any((q == 0) != (p == 0)):
            raise AccountingError("every outcome must be possible under both p and q; otherwise its loss is unlimited.")

    @classmethod
    def _of_valid(cls, p: Floats, q: Floats) -> DominatingPairs:
        """Return the pairs of valid tables that nobody else changes. Checks would take longer than a hull."""
        pairs = object.__new__(cls)
        for name, table in (("p", p), ("q", q)):
            table.flags.writeable = False
            object.__setattr__(pairs, name, table)
        return pairs

    def __len__(self) -> int:
        return len(self.p)

    @classmethod
    def union(cls, sets: Iterable[DominatingPairs]) -> DominatingPairs:
        """Return all pairs of several sets, filled up to one number of outcomes."""
        sets = list(sets)
        width = max(pairs.p.shape[1] for pairs in sets)

        p, q = np.zeros((2, sum(map(len, sets)), width))
        start = 0
        for pairs in sets:
            rows = slice(start, start + len(pairs)), slice(pairs.p.shape[1])
            p[rows], q[rows] = pairs.p, pairs.q
            start += len(pairs)
        return cls._of_valid(p, q)

    def both_ways(self) -> DominatingPairs:
        """Return the set together with every pair in reverse order."""
        return DominatingPairs(np.concatenate([self.p, self.q]), np.concatenate([self.q, self.p]))

    def losses(self) -> Floats:
        """Return the privacy loss ``log(p / q)`` of each outcome, or 0 if it cannot occur."""
        possible = (self.p > 0) & (self.q > 0)
        return np.log(np.where(possible, self.p, 1.0)) - np.log(np.where(possible, self.q, 1.0))

    def renyi(self, orders: ArrayLike) -> Floats:
        """Return the largest Renyi divergence of any pair, rounded up.

        Parameters
        ----------
        orders : array-like of shape (n_orders,)
            Above 1.

        Returns
        -------
        ndarray of shape (n_orders,)
            In nats.
        """
        exponents = np.asarray(orders, dtype=np.float64) - 1
        largest = np.zeros(exponents.size)
        for moments in self._log_moments(exponents):
            np.maximum(largest, moments.max(axis=0), out=largest)
        return largest / exponents * (1 + _RELATIVE_SLACK) + _ABSOLUTE_SLACK

    def renyi_of_each(self, orders: ArrayLike) -> Floats:
        """Return the Renyi divergence of every pair, rounded up, shape (n_pairs, n_orders)."""
        exponents = np.asarray(orders, dtype=np.float64) - 1
        moments = np.concatenate(list(self._log_moments(exponents)))
        return np.maximum(moments, 0.0) / exponents * (1 + _RELATIVE_SLACK) + _ABSOLUTE_SLACK

    def _log_moments(self, exponents: Floats) -> Iterator[Floats]:
        """Yield ``log sum p exp(exponent * loss)`` of a block of pairs, one column an exponent."""
        losses = self.losses()
        block = max(1, _BLOCK_CELLS // (exponents.size * losses.shape[1]))
        for start in range(0, len(losses), block):
            rows = slice(start, start + block)
            yield _log_moments(self.p[rows], losses[rows], exponents)

    def hockey_stick(self, epsilon: float) -> float:
        """Return the largest ``sum of max(p - exp(epsilon) q, 0)``, the delta of a single answer."""
        with np.errstate(over="ignore"):
            excess = np.maximum(self.p - np.exp(np.float64(epsilon)) * self.q, 0).sum(axis=1)
        return float(min(excess.max(), 1.0))

    def dominate_randomized_response(self, epsilon: float) -> bool:
        """Return whether one of the pairs dominates randomized response at `epsilon`."""
        corner = 1 / (1 + np.exp(epsilon)), 1 / (1 + np.exp(-epsilon))
        curves = self.vertices()
        return any(np.interp(corner[0], curve[:, 0], curve[:, 1]) >= corner[1] for curve in curves)

    def inflated(self, error: float) -> DominatingPairs:
        """Return pairs that dominate all laws within `error` of these in every probability.

        The curve's corners move up and to the left by at most the number of
        outcomes times `error`, which shifts mass between the first and the last outcome only.
        """
        order = np.argsort(-self.losses(), axis=1, kind="stable")
        p, q = (np.take_along_axis(table, order, axis=1) for table in (self.p, self.q))
        possible = q > 0
        first = np.argmax(possible, axis=1)
        last = q.shape[1] - 1 - np.argmax(possible[:, ::-1], axis=1)
        rows, shift = np.arange(len(q)), q.shape[1] * error
        p[rows, first] += shift
        q[rows, first] -= shift
        p[rows, last] -= shift
        q[rows, last] += shift
        if np.any(q[rows, first] <= 0) or np.any(p[rows, last] <= 0):
            raise AccountingError("every probability must exceed its own rounding: use less noise or fewer classes.")
        return DominatingPairs(p, q)

    def single(self, n_outcomes: int | None = None) -> DominatingPairs:
        """Return one pair that dominates the whole set.

        Parameters
        ----------
        n_outcomes : int, optional
            Most outcomes of the pair. A pair with fewer outcomes is looser.
        """
        corners = _concave_hull(self.vertices().reshape(-1, 2))
        if n_outcomes is not None:
            corners = _few_edges(corners, n_outcomes)
        steps = np.diff(corners, axis=0)
        one = DominatingPairs._of_valid(steps[:, 1][None], steps[:, 0][None])
        return one.inflated(2 * _NEAR_END / len(steps))

    def vertices(self) -> Floats:
        """Return the corners (q, p) of every pair's curve, shape (n_pairs, n_outcomes + 1, 2)."""
        return _vertices(self.p, self.q)

    def few(self, tolerance: float, largest_order: float) -> DominatingPairs:
        """Return fewer pairs that dominate the set, each of which stands for similar rows anywhere in the table.

        None exceeds the worst single pair by more than a share of `tolerance` in Renyi divergence up to
        `largest_order`. When a set depends on two gaps, these pairs are fewer than those of `few_in_order`, and looser
        for harmless rows. A pair may be looser in reverse order, which other pairs cover.
        """

        def is_fine(one: DominatingPairs) -> bool:
            return bool(np.all(one.renyi(orders) <= fine))

        orders = _ALL_ORDERS if largest_order == np.inf else _TEST_ORDERS[largest_order >= _TEST_ORDERS]
        fine, shapes = self.renyi(orders) * (1 + tolerance), _shapes(self)
        pending, groups = [np.arange(len(self))], []
        while pending:
            rows = pending.pop()
            one = _one_for(self.p[rows], self.q[rows], is_fine) if len(rows) <= _TRIED else None
            if one is None:
                alike = shapes[rows] - shapes[rows].mean(axis=0)
                pending += _halves(rows, alike)
            else:
                groups.append(one)
        return _merged(DominatingPairs.union(groups), is_fine)

    def few_in_order(
        self, tolerance: float, n_outcomes: int = _MOST_OUTCOMES, largest_order: float = 200.0
    ) -> DominatingPairs:
        """Return fewer pairs that dominate the set. Beyond `largest_order` they may be arbitrarily loose."""
        tests = max(3, int(np.searchsorted(_TEST_ORDERS, largest_order, side="right")))
        return _few_in_order(self, tolerance, n_outcomes, tests)

    def few_corners(self, tolerance: float, largest_order: float) -> DominatingPairs:
        """Return few pairs of two outcomes that stand for a set of such pairs in compositions.

        What follows an answer is jointly convex in both chances of the first outcome, so it is largest at a corner of
        any polygon around them. Some edges of their concave hull are selected and prolonged until they meet. A corner
        may exceed the worst pair by a share of `tolerance` in Renyi divergence up to `largest_order`.
        """
        if self.p.shape[1] != 2:
            raise AccountingError(f"corners must stand for pairs of two outcomes; got pairs of {self.p.shape[1]}.")
        orders = _TEST_ORDERS[: int(np.searchsorted(_TEST_ORDERS, largest_order, side="right"))]
        corners = _concave_hull(self.vertices().reshape(-1, 2))
        fine = self.renyi(orders) * (1 + tolerance)
        along, edge, pairs_of_corners = np.diff(corners, axis=0), 0, []
        while edge < len(along) - 1:
            gap, others = corners[edge + 1 : -1] - corners[edge], along[edge + 1 :]
            det = along[edge, 0] * others[:, 1] - along[edge, 1] * others[:, 0]
            t = (gap[:, 0] * others[:, 1] - gap[:, 1] * others[:, 0]) / np.where(det == 0, 1.0, det)
            # Edges of one slope lie on one line, on which any point between them is valid.
            meet = np.where(det[:, None] == 0, corners[edge + 1 : -1], corners[edge] + t[:, None] * along[edge])
            meet[0] = corners[edge + 1]
            inside = np.all((meet > 0) & (meet < 1), axis=1) & (meet[:, 1] >= meet[:, 0])
            crossings = np.where(inside[:, None], meet, meet[0])
            laws = DominatingPairs(*(np.stack([crossings[:, axis], 1 - crossings[:, axis]], axis=1) for axis in (1, 0)))
            good = inside & np.all(laws.renyi_of_each(orders) <= fine, axis=1)
            good[0] = True
            step = int(np.flatnonzero(good)[-1])
            pairs_of_corners.append(laws.rows(step, step + 1))
            edge += 1 + step
        return DominatingPairs.union(pairs_of_corners).inflated(2 * _NEAR_END)

    def rows(self, start: int, stop: int) -> DominatingPairs:
        """Return the pairs from `start` up to `stop`."""
        return DominatingPairs._of_valid(self.p[start:stop], self.q[start:stop])


def _log_moments(p: Floats, losses: Floats, exponents: Floats) -> Floats:
    """Return ``log sum p exp(exponent * loss)``, accurate also where it is tiny."""
    powers = losses[:, :, None] * exponents
    top = np.where(p[:, :, None] > 0, powers, 0.0).max(axis=1)
    small = top < 1.0
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        near = np.log1p(np.einsum("po,poe->pe", p, np.expm1(np.minimum(powers, 1.0))))
        far = top + np.log(np.einsum("po,poe->pe", p, np.exp(powers - top[:, None, :])))
    return np.where(small, near, far)


@lru_cache(maxsize=32)
def _few_in_order(pairs: DominatingPairs, tolerance: float, n_outcomes: int, tests: int) -> DominatingPairs:
    """Return fewer pairs that dominate the set, each of which stands for neighbouring rows."""
    # A group may exceed its own worst row by a share of `tolerance` in Renyi divergence, or up to the worst row of all,
    # at the first orders of tests.
    ranges = _Ranges.of(pairs, n_outcomes)
    worst = ranges.each.max(axis=0)
    pending, groups = [(0, len(pairs))], []
    while pending:
        start, stop = pending.pop()
        if stop - start == 1:
            groups.append(pairs.rows(start, stop))
            continue
        together, divergences = ranges.together(start, stop)
        fine = np.maximum(ranges.each[start:stop].max(axis=0) * (1 + tolerance), worst)
        if np.all((divergences <= fine)[:tests]):
            groups.append(together)
        else:
            middle = (start + stop) // 2
            pending += [(start, middle), (middle, stop)]
    return DominatingPairs.union(groups)


class _Ranges:
    """The pair that stands for each range of rows, which searches of several tolerances share."""

    def __init__(self, pairs: DominatingPairs, n_outcomes: int) -> None:
        self._pairs, self._n_outcomes = pairs, n_outcomes
        #: Divergences of every row at the orders of tests.
        self.each = pairs.renyi_of_each(_TEST_ORDERS)
        self._found: dict[tuple[int, int], tuple[DominatingPairs, Floats]] = {}

    @staticmethod
    @lru_cache(maxsize=8)
    def of(pairs: DominatingPairs, n_outcomes: int) -> _Ranges:
        return _Ranges(pairs, n_outcomes)

    def together(self, start: int, stop: int) -> tuple[DominatingPairs, Floats]:
        """Return the pair that dominates all rows of a range, and its divergences at the orders of tests."""
        if (start, stop) not in self._found:
            one = self._pairs.rows(start, stop).single(self._n_outcomes)
            self._found[start, stop] = one, one.renyi(_TEST_ORDERS)
        return self._found[start, stop]


def _halves(rows: Integers, alike: Floats) -> list[Integers]:
    """Return the rows in two halves along the direction in which their centred shapes differ most."""
    most = np.linalg.svd(alike[:: -(-len(rows) // _TRIED)], full_matrices=False)[2][0]
    # A library may return a direction or its opposite.
    along = alike @ most * np.sign(most @ _IRREGULAR)
    error = _SAME * float(np.abs(along).max()) / len(rows)
    return np.array_split(rows[np.argsort(ranks(along, error), kind="stable")], 2)


def _one_for(p: Floats, q: Floats, is_fine: Callable[[DominatingPairs], bool]) -> DominatingPairs | None:
    """Return a pair that dominates all rows, unless it exceeds the limit or rounding dominates it."""
    together = DominatingPairs._of_valid(p, q)
    if len(p) == 1:
        return together
    try:
        one = together.single(_MOST_OUTCOMES)
    except AccountingError:
        return None
    return one if is_fine(one) else None


def _merged(groups: DominatingPairs, is_fine: Callable[[DominatingPairs], bool]) -> DominatingPairs:
    """Merge groups with the nearest ones as long as the pair that stands for both is fine."""
    # Halves of halves are about twice as many as necessary.
    shapes, groups, merged = _shapes(groups), _filled(groups), []
    left = np.argsort(ranks(-shapes.sum(axis=1), _SHAPE_ERROR), kind="stable")
    while left.size:
        first, left = left[0], left[1:]
        one = groups.rows(first, first + 1)
        lacking = (shapes[left] - shapes[first]).max(axis=1)
        misses = 0
        for other in left[np.argsort(ranks(lacking, _SHAPE_ERROR), kind="stable")]:
            both = _one_for(np.vstack([one.p, groups.p[other]]), np.vstack([one.q, groups.q[other]]), is_fine)
            if both is not None:
                one, left, misses = _filled(both), left[left != other], 0
            else:
                misses += 1
                if misses > _MISSES:
                    break
        merged.append(one)
    return DominatingPairs.union(merged)


def _filled(pairs: DominatingPairs) -> DominatingPairs:
    """Return the pairs with as many outcomes as a group may have."""
    if pairs.p.shape[1] >= _MOST_OUTCOMES:
        return pairs
    p, q = np.zeros((2, len(pairs), _MOST_OUTCOMES))
    p[:, : pairs.p.shape[1]], q[:, : pairs.p.shape[1]] = pairs.p, pairs.q
    return DominatingPairs._of_valid(p, q)


def _shapes(pairs: DominatingPairs) -> Floats:
    """Return by how much each pair's hockey-stick divergences exceed those of no loss, shape (n_pairs, n_ratios)."""
    largest = float(np.abs(pairs.losses()).max())
    ratios = np.exp(np.linspace(-largest, largest, _RATIOS))
    return np.stack([np.maximum(pairs.p - r * pairs.q, 0.0).sum(axis=1) - max(1 - r, 0.0) for r in ratios], axis=1)
