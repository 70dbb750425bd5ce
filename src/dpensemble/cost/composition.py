r"""Exact adaptive composition: the true worst case over all sequences of answers.

The votes differ from query to query and may depend on earlier answers, so the worst case over ``n`` answers is a
supremum over strategies, not a product. With ``r`` the likelihood ratio so far, backward induction gives this worst
case (the project's own, by dynamic programming over the hockey-stick divergence):

    ``W_0(r) = max(r - exp(epsilon), 0)``, ``W_t(r) = max over pairs (P, Q) of sum_o Q(o) W_{t-1}(r P(o) / Q(o))``,

and ``delta = W_n(1)``. Written in ``y = log r - epsilon`` and divided by ``exp(epsilon)`` the recursion does not depend
on epsilon, so one pass serves every epsilon: ``delta(epsilon) = exp(epsilon) V_n(-epsilon)``.

Why the computed value is an upper bound
----------------------------------------
Every ``W_t`` is convex and non-decreasing in ``r`` with slope at most 1. Between the nodes of a grid it is replaced by
its chord. Above the grid it continues with slope 1, and below it keeps the lowest node's value. Each replacement can
only raise it, and the recursion is monotone. Replacing a group of pairs by a pair that dominates them (Blackwell) can
also only raise it. The grid of `Recursion` widens with the number of answers. Many answers are followed one by one up
to a block only, and blocks are composed as curves.

Why most groups are evaluated at few nodes only
-----------------------------------------------
An answer of group ``g`` turns a function ``W`` into ``T_g W(y) = sum_z k_g(z) W(y + z)`` with weights ``k_g >= 0``, and
the largest value of any group counts. Let ``y = (1 - s) a + s b`` lie between two nodes that are ``m`` nodes apart. Let
``-c`` be the least second difference of ``log W`` in reach, or 0 if all are positive. With ``t`` nodes from ``a`` to
``y``, ``log W(y + z)`` is at most ``c t (m - t) / 2`` above the chord of ``log W(a + z)`` and ``log W(b + z)``. So
Hölder's inequality gives

    ``T_g W(y) <= exp(c t (m - t) / 2) T_g W(a)**(1 - s) T_g W(b)**s``.

A group is left out between nodes where this bound lies below the value of some other group. The largest value stays
the same, up to the rounding that every curve allows for. All groups are evaluated where kernels reach beyond the grid,
and around 0, where the hockey-stick function adds to the excess. Nodes whose excess is below 1e-100 are left out, since
the outermost value counts beyond.

Why curves can be composed
--------------------------
A `LossCurve` bounds ``V(r) = max over strategies of E_Q[max(r L - 1, 0)]``, where ``L`` is the likelihood ratio of the
answers, from above. The bound uses the values at the nodes ``r = exp(step * i)``, chords between them, the lowest value
below and slope 1 above. Each of these is at least a convex, non-decreasing function of slope at most 1. The curve
stores the excess ``V - max(r - 1, 0)``, which is small on both sides and suffers no cancellation.

Let ``T`` map a function ``W`` of the ratio to the most that its expectation can be after ``k`` further answers,
over all strategies that choose them. ``T`` is sublinear and monotone. A convex ``W`` is a constant and a positive
mixture of hockey-stick functions ``max(r - c, 0)``, and ``T`` maps each of these to at most ``c V(r / c)``. So ``T W``
is at most the same mixture of those. That mixture is ``W`` averaged over the losses of one pair: the pair whose
hockey-stick function ``V`` is. A piecewise linear ``V`` belongs to a pair whose losses are all nodes, so the average is
a sum over nodes. The bound loses because each hockey-stick of the mixture may have a strategy of its own, which costs
at most about half an answer per composition. The pair of its own curve dominates each block.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from dpensemble._entries import Floats
from dpensemble._work import one_thread
from dpensemble.cost.pairs import DominatingPairs
from dpensemble.errors import AccountingError

_UNIT = 2.0**-52
_UNLIMITED = 1e13
# Grids of one family differ by powers of two, up to rounding.
_SAME = 1e-12
# Relative precision of an epsilon that the grid gives.
_EPSILON_PRECISION = 1e-10
# Least number of nodes per standard deviation of the loss.
_FINENESS = 100
# Standard deviations of the loss that a grid covers below and above. Beyond, the bound is loose by less than 1e-21.
_BELOW, _ABOVE = 9.5, 7.0


@dataclass(frozen=True, eq=False, slots=True)
class LossCurve:
    """A convex function of the likelihood ratio: its excess over ``max(r - 1, 0)`` on nodes around 0."""

    step: float
    #: Number of nodes below 0.
    below: int
    excess: Floats
    #: Share by which the function may be smaller than the truth, through rounding.
    slack: float

    @property
    def y(self) -> Floats:
        """Logarithms of the ratio on the nodes."""
        nodes: Floats = np.arange(-self.below, len(self.excess) - self.below, dtype=np.float64)
        return self.step * nodes

    def delta(self, epsilon: float) -> float:
        """Interpolate ``exp(epsilon) V(exp(-epsilon))`` along the chord, rounded up."""
        return _delta_between(*self.around(epsilon), epsilon, self.slack)

    def around(self, epsilon: float) -> tuple[float, float, float]:
        """Return the values on the nodes around ``-epsilon``, and the share of the upper one."""
        node, share = self.place(epsilon)
        return float(self.excess[node]), float(self.excess[min(node + 1, len(self.excess) - 1)]), share

    def place(self, epsilon: float) -> tuple[int, float]:
        """Return the node below ``-epsilon``, and the share of the next one in its chord."""
        place = self.below - epsilon / self.step
        if place <= 0:
            return 0, 0.0
        node = min(int(place), len(self.excess) - 2)
        return node, math.expm1((place - node) * self.step) / math.expm1(self.step)

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon at which the delta is at most `delta`, rounded up."""
        if self.delta(0.0) <= delta:
            return 0.0
        low, high = 0.0, 1.0
        while self.delta(high) > delta and high < _UNLIMITED:
            low, high = high, 2 * high
        while high - low > _EPSILON_PRECISION * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return high

    def coarser(self) -> LossCurve:
        """Return the chords over every second node."""
        before, after = self.below % 2, (len(self.excess) - 1 - self.below) % 2
        padded = np.pad(self.excess, (before, after), mode="edge")
        return LossCurve(2 * self.step, (self.below + before) // 2, padded[::2], self.slack)

    def on_step(self, step: float) -> LossCurve:
        """Return the curve on a grid with at least this step."""
        curve = self
        while 2 * curve.step <= step * (1 + _SAME):
            curve = curve.coarser()
        return curve if abs(curve.step / step - 1) <= _SAME else curve._regridded(step)

    def _regridded(self, step: float) -> LossCurve:
        """Return the chords over other nodes, 0 among them."""
        below = math.ceil(self.below * self.step / step)
        above = math.ceil((len(self.excess) - 1 - self.below) * self.step / step)
        place = np.arange(-below, above + 1) * (step / self.step) + self.below
        node = np.clip(np.floor(place).astype(np.int64), 0, len(self.excess) - 2)
        share = np.clip(np.expm1((place - node) * self.step) / math.expm1(self.step), 0.0, 1.0)
        excess = (1 - share) * self.excess[node] + share * self.excess[node + 1]
        return LossCurve(step, below, excess, _added(self.slack, 1e-11))

    def thinned(self) -> LossCurve:
        """Return the curve on the coarsest grid that is still fine for its spread, and no wider than necessary."""
        curve, kernel = self, _Kernel.of(self)
        while kernel.deviation >= 2 * _FINENESS * curve.step:
            curve = curve.coarser()
        middle, deviation = kernel.deviation**2 / 2, kernel.deviation + kernel.largest
        lowest = min(curve.below, math.ceil((middle + _BELOW * deviation) / curve.step))
        highest = math.ceil((middle + _ABOVE * deviation) / curve.step)
        start = curve.below - lowest
        return LossCurve(curve.step, lowest, curve.excess[start : curve.below + highest + 1], curve.slack)

    def then(self, kernel: _Kernel) -> LossCurve:
        """Return the curve of these answers and those of a kernel on the same grid, in either order."""
        curve = kernel.curve
        below, above = self.below + curve.below, len(self.excess) + len(curve.excess) - 2 - self.below - curve.below
        padded = _widened(self, below + kernel.above, above + curve.below)
        mixed = np.convolve(padded, kernel.q, "valid")
        total = mixed + _widened(curve, below, above) + curve.excess[-1] * self.excess[0]
        rounding = 4 * _UNIT * len(kernel.q)
        return LossCurve(self.step, below, total, _added(self.slack, curve.slack, kernel.slack, rounding))

    def delta_with(self, kernel: _Kernel, epsilon: float) -> float:
        """Return `then(kernel).delta(epsilon)` without the rest of that curve."""
        curve = kernel.curve
        place = (self.below + curve.below) - epsilon / self.step
        if place <= 0:
            return self.then(kernel).delta(epsilon)
        node = int(place)
        share = math.expm1((place - node) * self.step) / math.expm1(self.step)
        values = []
        for i in (node - self.below - curve.below, node + 1 - self.below - curve.below):
            # Node i of the sum combines with node i - j of this curve for each node j of the kernel.
            here = np.arange(i + curve.below, i - kernel.above - 1, -1) + self.below
            mixed = float(self.excess[np.clip(here, 0, len(self.excess) - 1)] @ kernel.q)
            own = float(curve.excess[min(max(i + curve.below, 0), len(curve.excess) - 1)])
            values.append(mixed + own + curve.excess[-1] * self.excess[0])
        rounding = 4 * _UNIT * len(kernel.q)
        slack = _added(self.slack, curve.slack, kernel.slack, rounding)
        return _delta_between(float(values[0]), float(values[1]), share, epsilon, slack)


@dataclass(frozen=True, eq=False, slots=True)
class _Kernel:
    """The pair of output laws of a curve: the mass that the second law gives to each node's loss."""

    curve: LossCurve
    #: Mass of the loss ``-y`` at each node ``y`` of the curve.
    q: Floats
    slack: float
    deviation: float
    #: Largest loss that is not negligible.
    largest: float = 0.0

    @property
    def above(self) -> int:
        """Number of nodes above 0."""
        return len(self.q) - 1 - self.curve.below

    @classmethod
    def of(cls, curve: LossCurve) -> _Kernel:
        """Return the kernel of a curve: the second differences of its values."""
        y, excess = curve.y, curve.excess
        r = np.exp(y)
        slopes = np.diff(excess) / np.diff(r)
        p = np.diff(slopes, prepend=0.0, append=0.0)
        p[curve.below] += 1.0
        p = np.maximum(p, 0.0)
        # Rounding may have bent the function. Its size is measured on the function that these masses have.
        rebuilt = excess[0] + np.concatenate([[0.0], np.cumsum(np.cumsum(p[:-1]) * np.diff(r))])
        values = excess + np.maximum(np.expm1(y), 0.0)
        ratio = np.where(values > 0, rebuilt, 1.0) / np.where(values > 0, values, 1.0)
        bent = max(float(ratio.max()), 1 / float(ratio.min())) - 1 + 8 * _UNIT * len(p)
        q = p * r
        deviation = math.sqrt(float(q @ y**2) / float(q.sum()))
        return cls(curve, q, _added(bent, bent), deviation)


def _delta_between(lower: float, upper: float, share: float, epsilon: float, slack: float) -> float:
    """Return the delta that a chord gives, rounded up."""
    chord = (1 - share) * lower + share * upper
    return float(min(1.0, math.exp(min(epsilon, 700.0)) * chord * (1 + slack + 1e-12)))


def _added(*slacks: float) -> float:
    return math.expm1(math.fsum(math.log1p(slack) for slack in slacks)) * (1 + 1e-9)


def _widened(curve: LossCurve, below: int, above: int) -> Floats:
    """Return the excess on `below` nodes below 0 and `above` nodes above, constant beyond the stored nodes."""
    start, stop = curve.below - below, curve.below + above + 1
    inner = curve.excess[max(start, 0) : min(stop, len(curve.excess))]
    return np.pad(inner, (max(-start, 0), max(stop - len(curve.excess), 0)), mode="edge")


_MOST_KEPT = 64


class Blocks:
    """Curves of numbers of equal blocks, composed by doubling as proved above.

    `block` returns the curve of one block. It is called once, when the curve is first needed.
    """

    def __init__(self, block: Callable[[], LossCurve]) -> None:
        self._block = block
        self._powers: list[_Kernel] = []
        self._joined: dict[int, LossCurve] = {}

    def of(self, number: int) -> LossCurve:
        """Return the curve of `number` blocks: the largest power of two first."""
        if number not in self._joined:
            last = number & -number
            curve = self._power(last.bit_length() - 1).curve
            if number > last:
                curve = _joined_curves(self.of(number - last), curve)
            self._joined = {**dict(list(self._joined.items())[1 - _MOST_KEPT :]), number: curve}
        return self._joined[number]

    def with_rest(self, number: int, rest: LossCurve) -> tuple[LossCurve, _Kernel]:
        """Return the curve of `number` blocks and the kernel of the remaining answers, on one grid."""
        joined, rest = self.of(number), rest.thinned()
        step = max(joined.step, rest.step)
        return joined.on_step(step), _Kernel.of(rest.on_step(step))

    def _power(self, bit: int) -> _Kernel:
        """Return the kernel of ``2**bit`` blocks."""
        while len(self._powers) <= bit:
            if self._powers:
                last = self._powers[-1]
                curve = last.curve.then(last)
            else:
                curve = self._block()
            self._powers = [*self._powers, _Kernel.of(curve.thinned())]
        return self._powers[bit]


def _joined_curves(one: LossCurve, other: LossCurve) -> LossCurve:
    """Return the curve of both sets of answers, on a grid fit for their sum."""
    step = max(one.step, other.step)
    return one.on_step(step).then(_Kernel.of(other.on_step(step))).thinned()


_SNAPSHOT_BYTES = 16_000_000
_MOST_NODES = 400_000
# How many multiplications of a matrix take as long as one of a slice.
_TAP = 10


@dataclass(frozen=True, eq=False)
class Layout:
    """How finely answers are distinguished: groups of pairs, nodes in one loss of the worst, and how many answers."""

    groups: DominatingPairs
    n_steps: int

    def __post_init__(self) -> None:
        each = self.groups.renyi_of_each([2.0])[:, 0]
        losses = np.abs(self.groups.losses())
        worst = int(np.argmax(each))
        object.__setattr__(self, "step", float(losses[worst].max()) / self.n_steps)
        object.__setattr__(self, "deviation", math.sqrt(float(each[worst])))
        object.__setattr__(self, "largest", float(losses.max()))
        width, taps = 2 * self.largest / self.step + 3, 2 * np.count_nonzero(self.groups.p)
        object.__setattr__(self, "is_sparse", _TAP * taps < width * len(self.groups))
        object.__setattr__(self, "work_per_node", min(_TAP * taps, width * len(self.groups)))

    step: float = 0.0
    deviation: float = 0.0
    largest: float = 0.0
    is_sparse: bool = False
    work_per_node: float = 0.0

    def reach(self, n_answers: int) -> tuple[int, int]:
        """Return how many nodes below and above 0 are stored after `n_answers` answers."""
        return nodes_within(self.deviation * math.sqrt(n_answers) + self.largest, self.step)

    def work(self, n_answers: int) -> float:
        """Return roughly how many multiplications `n_answers` answers take."""
        return (2 / 3) * sum(self.reach(n_answers)) * self.work_per_node * n_answers


class Recursion:
    """Curves after 0, 1, 2, ... answers, each of which may be any of the pairs, chosen by earlier answers."""

    def __init__(self, layout: Layout, n_answers: int) -> None:
        self._layout, self._n_answers = layout, n_answers
        # Stores every stride-th function, and the last one reached.
        self._stride = max(1, math.ceil(n_answers * sum(layout.reach(n_answers)) * 8 / _SNAPSHOT_BYTES))
        self._kernels, self._lowest, self._highest, self._first = kernels_of(layout.groups, layout.step)
        self._sparse = layout.is_sparse
        nodes, width = sum(layout.reach(n_answers)) + 1, len(self._kernels)
        # Used again for every answer, since fresh pages would cost more than the products.
        self._windows = np.empty((1 if self._sparse else width) * nodes)
        self._values = np.empty(len(layout.groups) * nodes)
        self._lock = Lock()
        self._taps = [np.flatnonzero(weights).tolist() for weights in self._kernels.T]
        self._of_groups = np.ascontiguousarray(self._kernels.T)
        self._kept = [(0, np.zeros(1))]
        self._last = 0, self._kept[0]

    def __reduce__(self) -> tuple[type[Recursion], tuple[Layout, int]]:
        # A copy starts from the beginning. Locks and scratch space stay here.
        return Recursion, (self._layout, self._n_answers)

    def curve(self, n_answers: int) -> LossCurve:
        """Return the curve after `n_answers` answers."""
        below, excess = self._after(n_answers)
        slack = 4 * _UNIT * (len(self._kernels) + 8) * max(1, n_answers) + 1e-9
        return LossCurve(self._layout.step, below, excess, slack)

    def _after(self, n_answers: int) -> tuple[int, Floats]:
        # Read once, since another thread may replace it meanwhile.
        start, function = self._last
        if start > n_answers or n_answers - start > self._stride:
            place = min(n_answers // self._stride, len(self._kept) - 1)
            if not place * self._stride < start <= n_answers:
                start, function = place * self._stride, self._kept[place]
        with self._lock, one_thread():
            for n in range(start + 1, n_answers + 1):
                function = self._next(*function, *self._reach(n, *function))
                if n == len(self._kept) * self._stride:
                    self._kept.append(function)
        self._last = n_answers, function
        return function

    def _reach(self, n_answers: int, below: int, excess: Floats) -> tuple[int, int]:
        """Return how many nodes below and above 0 the grid has, which leaves out what no further answer reaches."""
        around, above = self._first.shape[1] // 2, len(excess) - 1 - below
        most_below, most_above = self._layout.reach(n_answers)
        return min(most_below, max(below, 0) + around), min(most_above, max(above, 0) + around)

    def _next(self, below: int, excess: Floats, new_below: int, new_above: int) -> tuple[int, Floats]:
        """Return the function after one more answer, on a wider grid."""
        # Beyond the grid as far as the kernel reaches, by its extreme values. `np.pad` takes as long as a product.
        start = new_below - below - self._lowest
        padded = np.empty(new_below + new_above + 1 + self._highest - self._lowest)
        padded[:start] = excess[0]
        padded[start : start + len(excess)] = excess
        padded[start + len(excess) :] = excess[-1]
        ends = start + 1, start + len(excess) - len(self._kernels)
        if self._kernels.size >= _MANY_WEIGHTS and excess.min() > 0:
            stretches = _stretches(*ends, new_below, self._first.shape[1] // 2, new_below + new_above)
            if stretches:
                return _trimmed(new_below, self._screened(padded, new_below, new_below + new_above + 1, stretches))
        shape = self._kernels.shape[1], new_below + new_above + 1
        if self._values.size < shape[0] * shape[1]:
            self._values = np.empty(shape[0] * shape[1])
            self._windows = np.empty(shape[1] * (1 if self._sparse else len(self._kernels)))
        values = self._values[: shape[0] * shape[1]].reshape(shape)
        if self._sparse:
            self._add_taps(padded, values)
        else:
            windows = self._windows[: len(self._kernels) * shape[1]].reshape(len(self._kernels), shape[1])
            # Row k is `padded` from its k-th entry on.
            np.copyto(windows, np.ndarray(windows.shape, buffer=padded, strides=2 * padded.strides))
            np.matmul(self._kernels.T, windows, out=values)
        around = self._first.shape[1] // 2
        values[:, new_below - around : new_below + around + 1] += self._first
        return _trimmed(new_below, np.maximum.reduce(values, axis=0))

    def _screened(self, padded: Floats, centre: int, n_nodes: int, stretches: list[tuple[int, int, bool]]) -> Floats:
        """Return the largest value at each node, where most groups are evaluated at few nodes only."""
        n_steps = stretches[-1][1] // _APART
        padded = np.append(padded, np.full(stretches[-1][1] + 1 - n_nodes, padded[-1]))
        bends = -np.diff(np.log(padded), 2)
        some = np.ndarray((len(self._kernels), n_steps + 1), buffer=padded, strides=(8, 8 * _APART))
        at_some = self._of_groups @ np.ascontiguousarray(some)
        top = np.maximum.reduce(at_some, axis=0)
        largest = np.empty(stretches[-1][1] + 1)
        for first, last, everything in stretches:
            windows = np.ndarray((len(self._kernels), last - first + 1), buffer=padded[first:], strides=(8, 8))
            windows, here = np.ascontiguousarray(windows), largest[first : last + 1]
            if everything:
                values = self._of_groups @ windows
                around = self._first.shape[1] // 2
                if first <= centre - around and centre + around <= last:
                    values[:, centre - around - first : centre + around + 1 - first] += self._first
                np.maximum.reduce(values, axis=0, out=here)
                continue
            nodes = slice(first // _APART, last // _APART + 1)
            known = np.unique(at_some[:, nodes][:, ::_LEADERS].argmax(axis=0))
            np.maximum.reduce(self._of_groups[known] @ windows, axis=0, out=here)
            bend = max(0.0, float(bends[first : last + len(self._kernels) - 2].max()))
            excess = _excess_of_chords(bend, np.log(top[nodes]), np.log(here))
            others = (at_some[:, nodes] > top[nodes] * math.exp(-excess - _MARGIN)).any(axis=1)
            others[known] = False
            if others.any():
                np.maximum(here, np.maximum.reduce(self._of_groups[others] @ windows, axis=0), out=here)
        return largest[:n_nodes]

    def _add_taps(self, padded: Floats, values: Floats) -> None:
        """Write the average over each group's losses, one node of the kernel after another."""
        scratch = self._windows[: values.shape[1]]
        for weights, taps, mixed in zip(self._kernels.T, self._taps, values, strict=True):
            mixed[:] = 0.0
            for tap in taps:
                np.multiply(padded[tap : tap + len(mixed)], weights[tap], out=scratch)
                np.add(mixed, scratch, out=mixed)


# Far below every delta at every epsilon up to `MOST_EPSILON`.
_NOTHING = 1e-100


def _trimmed(below: int, excess: Floats) -> tuple[int, Floats]:
    """Return the function on the nodes where it is not negligible, and 0."""
    # It falls on both sides of 0, and the outermost value counts beyond.
    kept = np.flatnonzero(excess > _NOTHING)
    first, last = (min(int(kept[0]), below), max(int(kept[-1]), below)) if kept.size else (below, below)
    first, last = max(first - 1, 0), min(last + 1, len(excess) - 1)
    return below - first, excess[first : last + 1]


# From this number of weights on, groups are first evaluated at nodes this far apart.
_MANY_WEIGHTS, _APART = 20_000, 8
# Nodes of a stretch whose groups are selected together, and at how many of the nodes apart the largest is looked for.
_STRETCH, _LEADERS = 16 * _APART, 4
# Above the rounding of logarithms and sums, as a share.
_MARGIN = 1e-11


def _stretches(low: int, high: int, centre: int, around: int, last: int) -> list[tuple[int, int, bool]]:
    """Return the first and last nodes of stretches, and whether all groups are evaluated there, or nothing if few.

    All groups are evaluated where they reach beyond the grid (nodes below `low` and above `high`) and around 0.
    """
    cuts = [0, -(-low // _APART), (centre - around) // _APART, -(-(centre + around) // _APART), high // _APART]
    cuts = [_APART * cut for cut in [*cuts, -(-last // _APART)]]
    if any(end - start < _APART for start, end in pairwise(cuts)):
        return []
    stretches = []
    for i, (start, end) in enumerate(pairwise(cuts)):
        step = _STRETCH if i % 2 else end - start
        stretches += [(first, min(first + step, end), i % 2 == 0) for first in range(start, end, step)]
    return stretches


def _excess_of_chords(bend: float, top: Floats, here: Floats) -> float:
    """Return by how much the logarithm of a bound between nodes apart exceeds `here`, at most.

    The bound is a chord of `top` and what a function that bends by at most `bend` rises above its chord.
    """
    place = np.arange(len(here))
    beyond = place % _APART
    chords = np.interp(place, _APART * np.arange(len(top)), top)
    return float((chords + bend / 2 * beyond * (_APART - beyond) - here).max())


def nodes_within(spread: float, step: float) -> tuple[int, int]:
    """Return how many nodes below and above 0 a grid needs for losses of such a spread."""
    below, above = (math.ceil((spread**2 / 2 + far * spread) / step) for far in (_BELOW, _ABOVE))
    return below, above


def kernels_of(pairs: DominatingPairs, step: float) -> tuple[NDArray[np.float64], int, int, NDArray[np.float64]]:
    """Return the weights of neighbouring nodes, shape (n_offsets, n_pairs), and the extreme offsets.

    The last result is the excess after the first answer: of the function that one answer makes of the hockey-stick
    function, on the nodes around 0.
    """
    # An outcome that `p` never produces leaves the ratio 0, where every function is 0.
    kernels, lowest, highest = chords(pairs.losses(), np.where(pairs.p > 0, pairs.q, 0.0), step)
    return kernels, lowest, highest, _first_excess(kernels, lowest, step)


def chords(losses: Floats, weights: Floats, step: float) -> tuple[NDArray[np.float64], int, int]:
    """Return the weights of the chords at such losses at the nodes, shape (n_offsets, n_rows), and extreme offsets."""
    offsets = np.floor(losses / step).astype(np.int64)
    share = np.expm1(losses - offsets * step) / math.expm1(step)
    lowest, highest = min(int(offsets.min()), 0), max(int(offsets.max()) + 1, 0)
    kernels = np.zeros((highest - lowest + 1, len(losses)))
    columns = np.broadcast_to(np.arange(len(losses))[:, None], offsets.shape)
    np.add.at(kernels, (offsets - lowest, columns), weights * (1 - share))
    np.add.at(kernels, (offsets - lowest + 1, columns), weights * share)
    return kernels, lowest, highest


def _first_excess(kernels: NDArray[np.float64], lowest: int, step: float) -> NDArray[np.float64]:
    """Return the excess of the function that one answer makes of the hockey-stick function, on the nodes around 0."""
    around = max(-lowest, len(kernels) + lowest - 1)
    y = step * (np.arange(-around, around + 1)[:, None] + np.arange(lowest, lowest + len(kernels)))
    # Above 0 the expectation exceeds ``r - 1`` by the amount that the ratio lacks of 1.
    beyond = np.arange(-around, around + 1)[:, None] > 0
    return (np.maximum(np.where(beyond, -np.expm1(y), np.expm1(y)), 0.0) @ kernels).T


def _layout_for(pairs: DominatingPairs, n_answers: int, largest_order: float) -> tuple[Layout, int]:
    """Choose the layout that loses fewest labels for little work, and how many answers it follows one by one."""
    groups: dict[float, DominatingPairs] = {}
    best: tuple[float, Layout | None, int] = (math.inf, None, 0)
    for most_work, worst in _EFFORTS:
        # Coarser groups are useful only if the finer ones are too many.
        for tolerance in _TOLERANCES if most_work > _MUCH_WORK else _TOLERANCES[:1]:
            if tolerance not in groups:
                groups[tolerance] = pairs.few_in_order(tolerance, largest_order=largest_order)
            here = _layouts(groups[tolerance], tolerance, n_answers, most_work)
            best = min(best, *here, key=lambda each: each[0])
            enough = _IN_BLOCKS if n_answers > _SHORT and most_work >= _MUCH_WORK else worst
            if best[1] is not None and best[0] <= max(worst, enough, min(_ENOUGH, _OF_ONE_LABEL / n_answers)):
                return best[1], best[2]
    return Layout(groups[_TOLERANCES[-1]], _STEPS[-1]), min(n_answers, 2)


def _layouts(
    groups: DominatingPairs, tolerance: float, n_answers: int, most_work: float
) -> list[tuple[float, Layout | None, int]]:
    """Return the share of labels that each layout loses, and how many answers it follows."""
    layouts: list[tuple[float, Layout | None, int]] = [(math.inf, None, 0)]
    for n_steps in _STEPS:
        layout = Layout(groups, n_steps)
        followed = _followed(layout, n_answers, most_work) if sum(layout.reach(2)) <= _MOST_NODES else 0
        if followed:
            blocks = 0.0 if followed >= n_answers else _BLOCK_LOSS / (followed // 2)
            layouts.append((tolerance / 2 + _GRID_LOSS / n_steps**2 + blocks, layout, followed))
    return layouts


# Multiplications, and the share of labels that a layout may lose before more are spent.
_EFFORTS = ((1e8, 0.0), (1e9, 0.001), (5e9, 0.003), (2e10, 0.01), (6.5e10, math.inf))
# Enough for long runs.
_SHORT, _IN_BLOCKS = 1024, 0.0065
# A larger share is acceptable if it is less than this part of a label.
_OF_ONE_LABEL, _ENOUGH = 0.3, 0.0035
_MUCH_WORK = 5e9
_TOLERANCES = (0.0005, 0.01, 0.1)
_STEPS = (24, 16, 12, 10, 8, 6, 4, 3)
# Measured: the labels that chords lose, and those that every composition of blocks loses.
_GRID_LOSS, _BLOCK_LOSS = 0.25, 1.0
_LEAST_BLOCK = 16


def _followed(layout: Layout, n_answers: int, most_work: float) -> int:
    """Return how many answers can be followed one by one: all, twice a power of two, or 0 if too few."""
    if layout.work(n_answers) <= most_work:
        return n_answers
    block = 1 << max(0, n_answers.bit_length() - 1)
    while block >= _LEAST_BLOCK:
        if layout.work(2 * block) <= most_work:
            return 2 * block
        block //= 2
    return 0


# A larger epsilon gives no useful guarantee, and its grid would be needlessly large.
MOST_EPSILON = 200.0
# In standard deviations of the loss. Beyond it, ratios leave the range of floating-point numbers.
_MOST_SPREAD = 25.0
# More answers than any user asks for, so that a search ends.
MOST_ANSWERS = 2**50


class AdaptiveComposition:
    """Delta and epsilon after any number of answers, each from any of the pairs.

    Tight for about `n_answers` that cost about `largest_epsilon`, sound for all others.
    """

    def __init__(self, pairs: DominatingPairs, n_answers: int, largest_epsilon: float) -> None:
        deviation = math.sqrt(float(pairs.renyi([2.0])[0]))
        largest = float(abs(pairs.losses()).max())
        spread = deviation * math.sqrt(n_answers)
        _require_range(largest_epsilon, spread + largest)
        # How steeply the function rises where epsilon is read or delta is about 1e-5, with a margin for earlier steps.
        farthest = max(largest_epsilon, spread**2 / 2 + 4.3 * spread)
        steepest = 3.3 * (farthest / spread**2 + 1)
        layout, followed = _layout_for(pairs, n_answers, steepest)
        #: What one answer can reveal.
        self.pairs = pairs
        #: How finely answers are distinguished.
        self.layout = layout
        self._recursion = Recursion(layout, min(followed, n_answers))
        self._followed = followed if followed < n_answers else MOST_ANSWERS
        self._block = followed // 2
        self._blocks = Blocks(self._of_block)

    @staticmethod
    @lru_cache(maxsize=12)
    def laid_out_for(pairs: DominatingPairs, n_answers: int, largest_epsilon: float) -> AdaptiveComposition:
        """Return the composition laid out for exactly these figures. Recent compositions are cached."""
        return AdaptiveComposition(pairs, n_answers, largest_epsilon)

    @staticmethod
    def answers_laid_out(n_answers: int) -> int:
        """Return how many answers the layout supports that follows this many: four layouts for every doubling."""
        return _layout_size(_layout_number(n_answers))

    @staticmethod
    def most_answers(
        laid_out_for: Callable[[int], AdaptiveComposition | None], epsilon: float, delta: float, guess: int, most: int
    ) -> int:
        """Return how many answers fit, each number by the composition laid out for it, at most `most`.

        `laid_out_for` takes a size of a layout, and returns None if the size is out of range. Sizes are tried from the
        size of `guess`, in one direction, so the cost of a number of answers never depends on the search.
        """
        number, rising, falling = _layout_number(max(1, guess)), False, False
        while number >= 0:
            top, bottom = _layout_size(number), _layout_size(number - 1)
            laid_out = laid_out_for(top)
            count = 0 if laid_out is None else laid_out.largest(epsilon, delta, min(top, most))
            if count >= min(top, most):
                if top >= most or falling:
                    return min(top, most)
                number, rising = number + 1, True
            elif count > bottom:
                return count
            elif rising:
                return bottom
            else:
                number, falling = number - 1, True
        return 0

    def _of_block(self) -> LossCurve:
        return self._recursion.curve(self._block)

    def block_of(self, n_answers: int) -> int | None:
        """Return the number of answers in a block, or None if all are followed one by one."""
        return None if n_answers <= self._followed else self._block

    def delta(self, n_answers: int, epsilon: float) -> float:
        """Return the delta that `n_answers` have at `epsilon`, rounded up."""
        if n_answers <= self._followed:
            return self._recursion.curve(n_answers).delta(epsilon)
        joined, rest = self._parts(n_answers)
        return joined.delta_with(rest, epsilon)

    def epsilon(self, n_answers: int, delta: float) -> float:
        """Return the smallest epsilon at which `n_answers` have at most `delta`, rounded up."""
        return self.curve(n_answers).epsilon(delta)

    def largest(self, epsilon: float, delta: float, most: int = MOST_ANSWERS) -> int:
        """Return how many answers have at most `delta` at `epsilon`, at most `most`."""

        def fits(n_answers: int) -> bool:
            return n_answers <= most and self.delta(n_answers, epsilon) <= delta

        most, bit = min(most, MOST_ANSWERS), 0
        if self._followed >= most or not fits(2 * self._block):
            # Answers that are followed one by one come in order.
            within = 0
            while within < self._followed and fits(within + 1):
                within += 1
            return within
        while fits(((2 << bit) + 1) * self._block):
            bit += 1
        whole = 1 << bit
        for lower in range(bit - 1, -1, -1):
            whole += (1 << lower) * fits((whole + (1 << lower) + 1) * self._block)
        return last_between(fits, (whole + 1) * self._block, (whole + 2) * self._block)

    def curve(self, n_answers: int) -> LossCurve:
        """Return all deltas of `n_answers`."""
        if n_answers <= self._followed:
            return self._recursion.curve(n_answers)
        joined, rest = self._parts(n_answers)
        return joined.then(rest)

    def _parts(self, n_answers: int) -> tuple[LossCurve, _Kernel]:
        """Return the curve of whole blocks, and the kernel of the remaining one to two blocks, on its grid."""
        whole = n_answers // self._block - 1
        return self._blocks.with_rest(whole, self._recursion.curve(n_answers - whole * self._block))


class ProductComposition:
    """Delta and epsilon of answers of several kinds, in any order.

    The answers of one kind, each chosen by everything before, are an interactive mechanism that the pair of its own
    curve dominates. Such mechanisms compose concurrently like those pairs (Vadhan and Zhang 2023, main theorem: each
    can be simulated by post-processing a single draw from its pair).
    """

    # S. Vadhan and W. Zhang, "Concurrent composition theorems for differential privacy", STOC 2023.

    def __init__(self, kinds: list[tuple[DominatingPairs, int]], largest_epsilon: float) -> None:
        curve = None
        for pairs, count in kinds:
            if count:
                n_answers = AdaptiveComposition.answers_laid_out(count)
                here = AdaptiveComposition.laid_out_for(pairs, n_answers, largest_epsilon).curve(count).thinned()
                curve = here if curve is None else _joined_curves(curve, here)
        #: All deltas of the answers, or None without answers.
        self.curve = curve

    def delta(self, epsilon: float) -> float:
        """Return the delta at `epsilon`, rounded up."""
        return 0.0 if self.curve is None else self.curve.delta(epsilon)

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon at which the delta is at most `delta`, rounded up."""
        return 0.0 if self.curve is None else self.curve.epsilon(delta)


def _layout_number(n_answers: int) -> int:
    """Return the number of the layout that follows this many answers: four layouts for every doubling."""
    number = max(0, math.ceil(4 * math.log2(n_answers)))
    # Sizes are whole, so a smaller layout may hold as many answers.
    while number and _layout_size(number - 1) >= n_answers:
        number -= 1
    return number


def _layout_size(number: int) -> int:
    """Return the largest number of answers that a layout supports, or 0 below the first."""
    return 0 if number < 0 else math.ceil(2 ** (number / 4))


def _require_range(largest_epsilon: float, spread: float) -> None:
    if largest_epsilon + spread > MOST_EPSILON or spread > _MOST_SPREAD:
        raise AccountingError(
            f"exact composition needs an epsilon up to {MOST_EPSILON:g} and losses that spread by up to "
            f"{_MOST_SPREAD:g}; got {largest_epsilon:.4g} and {spread:.4g}: use 'best'."
        )


def last_fitting(fits: Callable[[int], bool], within: int, growth: float, most: int | None = None) -> int:
    """Return the last count that fits, at most `most`, searched upwards from a count that fits."""
    limit = sys.maxsize if most is None else most

    def further(count: int) -> int:
        return min(limit, max(count + 1, math.ceil(count * growth)))

    if within >= limit:
        return limit
    beyond = further(within)
    while fits(beyond):
        if beyond >= limit:
            return limit
        within, beyond = beyond, further(beyond)
    return last_between(fits, within, beyond)


def last_between(fits: Callable[[int], bool], within: int, beyond: int) -> int:
    """Return the last count that fits, between a count that fits and one that does not."""
    while beyond - within > 1:
        middle = (within + beyond) // 2
        within, beyond = (middle, beyond) if fits(middle) else (within, middle)
    return within
