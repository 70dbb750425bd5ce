r"""Exact adaptive composition: the true worst case over all sequences of answers.

The votes differ from query to query and may depend on earlier answers, so the worst case over ``n`` answers is a
supremum over strategies, not a product. With ``r`` the likelihood ratio so far, backward induction gives it (the
project's own; the argument is dynamic programming over the hockey-stick divergence):

    ``W_0(r) = max(r - exp(epsilon), 0)``, ``W_t(r) = max over pairs (P, Q) of sum_o Q(o) W_{t-1}(r P(o) / Q(o))``,

and ``delta = W_n(1)``. Written in ``y = log r - epsilon`` and divided by ``exp(epsilon)`` the recursion no longer knows
epsilon, so one pass answers for every epsilon: ``delta(epsilon) = exp(epsilon) V_n(-epsilon)``.

Why the computed value is an upper bound
----------------------------------------
Every ``W_t`` is convex and non-decreasing in ``r`` with slope at most 1. Between the nodes of a grid it is replaced by
its chord, above the grid it goes on with slope 1, below it keeps the lowest node's value: each replacement can only
raise it, and the recursion is monotone. So can a pair that dominates a group of them (Blackwell) and stands for it.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dpensemble.cost.pairs import DominatingPairs
from dpensemble.errors import AccountingError

# Orders at which a group of pairs may not look worse than the worst single pair.
_TEST_ORDERS = np.array([1.1, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0])
_ROUND_UP = 1 + 1e-9
_SNAPSHOT_BYTES = 48_000_000
# Multiplications that take a few seconds.
_MOST_WORK = 6.5e10
# Tolerance of the groups and nodes a step of the privacy loss, from fine to coarse.
_FINENESS = ((0.002, 10), (0.01, 8), (0.03, 6), (0.1, 4), (0.3, 3))
_MOST_OUTCOMES = 10
_MOST_NODES = 200_000
# Relative precision of an epsilon read off the grid.
EPSILON_PRECISION = 1e-10
_UNLIMITED = 1e13
# Beyond so many answers the induction takes too long, and Renyi conversions are close anyway.
MOST_ANSWERS = 20_000
# A guarantee beyond this is none; its grid would be needlessly large.
MOST_EPSILON = 60.0
_TINY = 1e-300


@lru_cache(maxsize=32)
def grouped(pairs: DominatingPairs, tolerance: float, n_outcomes: int = _MOST_OUTCOMES) -> DominatingPairs:
    """Return fewer pairs that dominate the set: neighbouring rows stand behind one pair."""
    # A group may exceed its own worst row by a share of `tolerance` in Renyi divergence, or up to the worst row of all.
    each = pairs.renyi_of_each(_TEST_ORDERS)
    worst = each.max(axis=0)
    pending, groups = [(0, len(pairs))], []
    while pending:
        start, stop = pending.pop()
        rows = pairs.rows(start, stop)
        if stop - start == 1:
            groups.append(rows)
            continue
        together = rows.single(n_outcomes)
        fine = np.maximum(each[start:stop].max(axis=0) * (1 + tolerance), worst)
        if np.all(together.renyi(_TEST_ORDERS) <= fine):
            groups.append(together)
        else:
            middle = (start + stop) // 2
            pending += [(start, middle), (middle, stop)]
    return DominatingPairs.union(groups)


class LossGrid:
    """A convex, non-decreasing function of the likelihood ratio, by its values on a grid of its logarithm."""

    def __init__(self, step: float, largest_epsilon: float, spread: float) -> None:
        below = math.ceil((largest_epsilon + 0.25 * spread**2 + 4 * spread) / step)
        above = math.ceil((0.25 * spread**2 + 5 * spread) / step)
        self.step, self._zero = step, below
        self.y = step * np.arange(-below, above + 1)

    def start(self) -> NDArray[np.float64]:
        """Return the hockey-stick function ``max(exp(y) - 1, 0)`` on the nodes."""
        return np.maximum(np.expm1(self.y), 0.0)

    def padded(self, values: NDArray[np.float64], lowest: int, highest: int) -> NDArray[np.float64]:
        """Return the values with bounds for nodes down to `lowest` before and `highest` beyond the grid."""
        beyond = np.exp(self.y[-1]) * np.expm1(self.step * np.arange(1, highest + 1))
        return np.concatenate([np.full(-lowest, values[0]), values, values[-1] + beyond])

    def delta(self, values: NDArray[np.float64], epsilon: float) -> float:
        """Read ``exp(epsilon) V(-epsilon)`` along the chord in ``r``, rounded up."""
        place = self._zero - epsilon / self.step
        if place <= 0:
            return float(min(1.0, math.exp(min(epsilon, 700.0)) * values[0] * _ROUND_UP))
        node = min(int(place), len(values) - 2)
        share = math.expm1((place - node) * self.step) / math.expm1(self.step)
        chord = (1 - share) * values[node] + share * values[node + 1]
        return float(min(1.0, math.exp(epsilon) * chord * _ROUND_UP))

    def epsilon(self, values: NDArray[np.float64], delta: float) -> float:
        """Return the smallest epsilon at which the delta is at most `delta`, rounded up."""
        if self.delta(values, 0.0) <= delta:
            return 0.0
        low, high = 0.0, 1.0
        while self.delta(values, high) > delta and high < _UNLIMITED:
            low, high = high, 2 * high
        while high - low > EPSILON_PRECISION * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta(values, middle) <= delta else (middle, high)
        return high


class AdaptiveComposition:
    """Delta and epsilon after any number of answers, each from any of the pairs; tight up to `n_answers`."""

    def __init__(self, pairs: DominatingPairs, n_answers: int, largest_epsilon: float) -> None:
        spread = _spread([(pairs, n_answers)])
        _require_range(largest_epsilon, spread)
        groups, n_steps = _within_reach(pairs, n_answers, largest_epsilon + 0.5 * spread**2 + 9 * spread)
        worst = int(np.argmax([groups.rows(i, i + 1).renyi([2.0])[0] for i in range(len(groups))]))
        self._grid = LossGrid(float(np.abs(groups.losses()[worst]).max()) / n_steps, largest_epsilon, spread)
        self._kernels, self._lowest, self._highest = _kernels(groups, self._grid.step)
        # Keeps every stride-th function, and the last one reached.
        self._stride = max(1, math.ceil(n_answers * self._grid.y.nbytes / _SNAPSHOT_BYTES))
        self._kept = {0: self._grid.start()}
        self._last = (0, self._kept[0])

    def delta(self, n_answers: int, epsilon: float) -> float:
        """Return the delta that `n_answers` have at `epsilon`, rounded up."""
        return self._grid.delta(self._values(n_answers), epsilon)

    def epsilon(self, n_answers: int, delta: float) -> float:
        """Return the smallest epsilon at which `n_answers` have at most `delta`, rounded up."""
        return self._grid.epsilon(self._values(n_answers), delta)

    def _values(self, n_answers: int) -> NDArray[np.float64]:
        # Read once: another thread may replace it meanwhile.
        last = self._last
        start = max(n for n in (*self._kept, last[0]) if n <= n_answers)
        values = last[1] if start == last[0] else self._kept[start]
        # The products are small: more than one thread would only wait for another.
        with threadpool_limits(1, user_api="blas"):
            for n in range(start + 1, n_answers + 1):
                padded = self._grid.padded(values, self._lowest, self._highest)
                values = (sliding_window_view(padded, len(self._kernels)) @ self._kernels).max(axis=1)
                # Nothing may vanish by underflow.
                values = np.maximum(values, _TINY)
                if n % self._stride == 0:
                    self._kept[n] = values
        self._last = (n_answers, values)
        return values


class ProductComposition:
    """Delta and epsilon of answers of several kinds, in whatever order they were given.

    Each kind stands behind a single dominating pair, so the losses are independent and order and adaptivity play
    no part (Zhu, Dong and Wang 2022, Theorem 10).
    """

    def __init__(self, kinds: list[tuple[DominatingPairs, int]], largest_epsilon: float) -> None:
        kinds = [(pairs.single(_MOST_OUTCOMES), count) for pairs, count in kinds if count]
        spread = _spread(kinds)
        _require_range(largest_epsilon, spread)
        n_answers = max(1, sum(count for _, count in kinds))
        step = max(spread / math.sqrt(n_answers) / 8, (largest_epsilon + 9 * spread) / _MOST_NODES)
        self._grid = LossGrid(step, largest_epsilon, spread)
        self._values = self._grid.start()
        for pairs, count in kinds:
            kernels, lowest, highest = _kernels(pairs, step)
            taps = np.flatnonzero(kernels[:, 0])
            for _ in range(count):
                padded = self._grid.padded(self._values, lowest, highest)
                stepped = sum(kernels[k, 0] * padded[k : k + len(self._values)] for k in taps)
                self._values = np.maximum(stepped, _TINY)

    def delta(self, epsilon: float) -> float:
        """Return the delta at `epsilon`, rounded up."""
        return self._grid.delta(self._values, epsilon)

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon at which the delta is at most `delta`, rounded up."""
        return self._grid.epsilon(self._values, delta)


@lru_cache(maxsize=12)
def composition_of(pairs: DominatingPairs, n_answers: int, largest_epsilon: float) -> AdaptiveComposition:
    """Return the composition laid out for exactly these figures; recent ones are kept."""
    return AdaptiveComposition(pairs, n_answers, largest_epsilon)


def _spread(kinds: list[tuple[DominatingPairs, int]]) -> float:
    """Return roughly the standard deviation of the whole loss; order 2 is its variance where losses are small."""
    variance = sum(count * float(pairs.renyi([2.0])[0]) for pairs, count in kinds)
    return math.sqrt(variance) + max((float(np.abs(pairs.losses()).max()) for pairs, _ in kinds), default=0.0)


def _require_range(largest_epsilon: float, spread: float) -> None:
    if largest_epsilon + spread > MOST_EPSILON:
        raise AccountingError(
            f"exact composition is for epsilons up to {MOST_EPSILON:g}, not {largest_epsilon + spread:.4g}; use 'best'."
        )


def _within_reach(pairs: DominatingPairs, n_answers: int, span: float) -> tuple[DominatingPairs, int]:
    """Choose how finely to group and to step so that the work stays within a few seconds."""
    for tolerance, n_steps in _FINENESS:
        groups = grouped(pairs, tolerance)
        largest = math.sqrt(float(groups.renyi([2.0])[0]))
        n_nodes, width = span / largest * n_steps, 2 * n_steps * float(np.abs(groups.losses()).max()) / largest
        if n_nodes * width * len(groups) * n_answers <= _MOST_WORK:
            break
    return groups, n_steps


def _kernels(pairs: DominatingPairs, step: float) -> tuple[NDArray[np.float64], int, int]:
    """Return the weights of neighbouring nodes, shape (n_offsets, n_pairs), and the extreme offsets."""
    losses = pairs.losses()
    offsets = np.floor(losses / step).astype(np.int64)
    share = np.expm1(losses - offsets * step) / math.expm1(step)
    lowest, highest = min(int(offsets.min()), 0), max(int(offsets.max()) + 1, 0)
    kernels = np.zeros((highest - lowest + 1, len(pairs)))
    columns = np.broadcast_to(np.arange(len(pairs))[:, None], offsets.shape)
    # An outcome that `p` never produces leaves the ratio 0, where every function is 0.
    weights = np.where(pairs.p > 0, pairs.q, 0.0)
    np.add.at(kernels, (offsets - lowest, columns), weights * (1 - share))
    np.add.at(kernels, (offsets - lowest + 1, columns), weights * share)
    return kernels, lowest, highest
