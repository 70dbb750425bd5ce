"""The backward induction over single answers, on a grid that widens with the number of answers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from dpensemble._arrays import Floats
from dpensemble._threads import one_thread
from dpensemble.cost.loss_curve import LossCurve
from dpensemble.cost.merging import grouped
from dpensemble.cost.pairs import DominatingPairs

_UNIT = 2.0**-52
_SNAPSHOT_BYTES = 16_000_000
_MOST_NODES = 400_000
# How many multiplications of a matrix take as long as one of a slice.
_TAP = 10
# Standard deviations of the loss that the grid covers, as in `loss_curve`.
_BELOW, _ABOVE = 9.5, 7.0


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
        spread = self.deviation * math.sqrt(n_answers) + self.largest
        return tuple(math.ceil((spread**2 / 2 + far * spread) / self.step) for far in (_BELOW, _ABOVE))  # type: ignore[return-value]

    def work(self, n_answers: int) -> float:
        """Return roughly how many multiplications `n_answers` answers take."""
        return (2 / 3) * sum(self.reach(n_answers)) * self.work_per_node * n_answers


class Recursion:
    """Curves after 0, 1, 2, ... answers, each of which may be any of the pairs, chosen by earlier answers."""

    def __init__(self, layout: Layout, n_answers: int) -> None:
        self._layout, self._n_answers = layout, n_answers
        # Stores every stride-th function, and the last one reached.
        self._stride = max(1, math.ceil(n_answers * sum(layout.reach(n_answers)) * 8 / _SNAPSHOT_BYTES))
        self._kernels, self._lowest, self._highest = kernels_of(layout.groups, layout.step)
        self._sparse = layout.is_sparse
        nodes, width = sum(layout.reach(n_answers)) + 1, len(self._kernels)
        # Used again for every answer, since fresh pages would cost more than the products.
        self._windows = np.empty((1 if self._sparse else width) * nodes)
        self._values = np.empty(len(layout.groups) * nodes)
        self._lock = Lock()
        self._taps = [np.flatnonzero(weights).tolist() for weights in self._kernels.T]
        self._first = first_excess(self._kernels, self._lowest, layout.step)
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
                function = self._next(*function, *self._layout.reach(n))
                if n == len(self._kept) * self._stride:
                    self._kept.append(function)
        self._last = n_answers, function
        return function

    def _next(self, below: int, excess: Floats, new_below: int, new_above: int) -> tuple[int, Floats]:
        """Return the function after one more answer, on a wider grid."""
        # Beyond the grid as far as the kernel reaches, by its extreme values. `np.pad` takes as long as a product.
        start = new_below - below - self._lowest
        padded = np.empty(new_below + new_above + 1 + self._highest - self._lowest)
        padded[:start] = excess[0]
        padded[start : start + len(excess)] = excess
        padded[start + len(excess) :] = excess[-1]
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
        return new_below, np.maximum.reduce(values, axis=0)

    def _add_taps(self, padded: Floats, values: Floats) -> None:
        """Write the average over each group's losses, one node of the kernel after another."""
        scratch = self._windows[: values.shape[1]]
        for weights, taps, mixed in zip(self._kernels.T, self._taps, values, strict=True):
            mixed[:] = 0.0
            for tap in taps:
                np.multiply(padded[tap : tap + len(mixed)], weights[tap], out=scratch)
                np.add(mixed, scratch, out=mixed)


def kernels_of(pairs: DominatingPairs, step: float) -> tuple[NDArray[np.float64], int, int]:
    """Return the weights of neighbouring nodes, shape (n_offsets, n_pairs), and the extreme offsets."""
    # An outcome that `p` never produces leaves the ratio 0, where every function is 0.
    return chords(pairs.losses(), np.where(pairs.p > 0, pairs.q, 0.0), step)


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


def first_excess(kernels: NDArray[np.float64], lowest: int, step: float) -> NDArray[np.float64]:
    """Return the excess of the function that one answer makes of the hockey-stick function, on the nodes around 0."""
    around = max(-lowest, len(kernels) + lowest - 1)
    y = step * (np.arange(-around, around + 1)[:, None] + np.arange(lowest, lowest + len(kernels)))
    # Above 0 the expectation exceeds ``r - 1`` by the amount that the ratio lacks of 1.
    beyond = np.arange(-around, around + 1)[:, None] > 0
    return (np.maximum(np.where(beyond, -np.expm1(y), np.expm1(y)), 0.0) @ kernels).T


def laid_out(pairs: DominatingPairs, n_answers: int, largest_order: float) -> tuple[Layout, int]:
    """Choose the layout that loses fewest labels for little work, and how many answers it follows one by one."""
    groups: dict[float, DominatingPairs] = {}
    best: tuple[float, Layout | None, int] = (math.inf, None, 0)
    for most_work, worst in _EFFORTS:
        # Coarser groups are useful only if the finer ones are too many.
        for tolerance in _TOLERANCES if most_work > _MUCH_WORK else _TOLERANCES[:1]:
            if tolerance not in groups:
                groups[tolerance] = grouped(pairs, tolerance, largest_order=largest_order)
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
