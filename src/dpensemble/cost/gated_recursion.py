"""The backward induction of `dpensemble.cost.gated` on a grid: functions ``V_u`` of one unit after the other."""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from dpensemble._arrays import Floats
from dpensemble._threads import one_thread
from dpensemble.cost.pairs import DominatingPairs
from dpensemble.cost.recursion import chords, first_excess, kernels_of
from dpensemble.errors import AccountingError

# How many multiplications of a matrix take as long as one of a slice, measured with many labels.
_TAP = 30
# Nodes of a function beyond which nothing is composed.
_MOST_NODES = 60_000


class GatedRecursion:
    """The functions of 0, 1, 2, ... units, on a grid that widens. Those of whole queries are stored."""

    def __init__(
        self, checks: DominatingPairs, labels: DominatingPairs, step: float, check_units: int, label_units: int
    ) -> None:
        self.step, self._check_units, self._query_units = step, check_units, check_units + label_units
        losses = checks.losses()
        self._passing, self._failing = (_Taps(*chords(losses[:, [o]], checks.q[:, [o]], step)) for o in (0, 1))
        self._labels = _Labels(labels, step)
        self._first_check = first_excess(*kernels_of(checks, step)[:2], step)
        self._pad = max(taps.farthest for taps in (self._passing, self._failing, self._labels)) + 1
        self.n_taps = 4 + self._labels.most
        self._units, self._kept = 0, [(0, np.zeros(1))]
        self._below, self._above = -1, -1
        self._values = self._labelled = np.zeros((self._query_units, 0))

    def after(self, queries: int, reach: tuple[int, int]) -> tuple[int, Floats]:
        """Return the function of the units of `queries` answered queries: nodes below 0, and its excess."""
        with one_thread():
            while len(self._kept) <= queries:
                if self._units % self._query_units == 0 and (reach[0] > self._below or reach[1] > self._above):
                    self._widen(reach)
                self._next()
                if self._units % self._query_units == 0:
                    inner = slice(self._pad, -self._pad)
                    self._kept.append((self._below, self._values[0, inner].copy()))
        return self._kept[queries]

    def _widen(self, reach: tuple[int, int]) -> None:
        """Give all functions more nodes on both sides, constant where the function was unknown."""
        # In steps, so that this happens seldom.
        below, above = (
            max(have, math.ceil(1.25 * want)) for have, want in zip((self._below, self._above), reach, strict=True)
        )
        if below + above > _MOST_NODES:
            raise AccountingError(f"gated queries need {below + above:,} nodes, more than {_MOST_NODES:,}.")
        if self._units == 0:
            shape = self._query_units, below + above + 1 + 2 * self._pad
            self._values, self._labelled = np.zeros(shape), np.zeros(shape)
            self._below, self._above = below, above
            self._label(0)
            # Below the units of a query nothing is admitted.
            self._labelled[:] = self._labelled[0]
        else:
            more = ((0, 0), (below - self._below, above - self._above))
            self._values, self._labelled = (np.pad(t, more, mode="edge") for t in (self._values, self._labelled))
            self._below, self._above = below, above

    def _next(self) -> None:
        """Follow one more unit."""
        self._units += 1
        if self._units < self._query_units:
            return
        inner = slice(self._pad, -self._pad)
        place = self._units % self._query_units
        labelled = self._labelled[place]
        failed = self._values[(self._units - self._check_units) % self._query_units]
        best = np.maximum(labelled[inner], failed[inner])
        mixed, scratch = np.empty((2, len(best)))
        for row, first in enumerate(self._first_check):
            mixed[:] = 0.0
            self._passing.add(row, labelled, self._pad, mixed, scratch)
            self._failing.add(row, failed, self._pad, mixed, scratch)
            _add_first(first, self._below, mixed)
            np.maximum(best, mixed, out=best)
        self._put(self._values[place], best)
        self._label(place)

    def _label(self, place: int) -> None:
        """Follow a label after the function at a place."""
        self._put(self._labelled[place], self._labels.largest(self._values[place], self._pad, self._below))

    def _put(self, row: Floats, found: Floats) -> None:
        row[self._pad : -self._pad] = found
        row[: self._pad], row[-self._pad :] = found[0], found[-1]


class _Taps:
    """Weights of the nodes that each row averages over, by offset."""

    def __init__(self, kernels: Floats, lowest: int, highest: int) -> None:
        self._rows = [
            [(int(tap) + lowest, float(weights[tap])) for tap in np.flatnonzero(weights)] for weights in kernels.T
        ]
        self.farthest = max(-lowest, highest)
        self.most = max(map(len, self._rows))

    def add(self, row: int, padded: Floats, pad: int, out: Floats, scratch: Floats) -> None:
        """Add the average of a padded function to `out`."""
        for offset, weight in self._rows[row]:
            start = pad + offset
            np.multiply(padded[start : start + len(out)], weight, out=scratch)
            np.add(out, scratch, out=out)


class _Labels:
    """The largest average of a function over all possible labels."""

    def __init__(self, labels: DominatingPairs, step: float) -> None:
        self._kernels, self._lowest, highest = kernels_of(labels, step)
        self._taps = _Taps(self._kernels, self._lowest, highest)
        self._first = first_excess(self._kernels, self._lowest, step)
        self._sparse = _TAP * int(np.count_nonzero(self._kernels)) < self._kernels.size
        self.farthest = self._taps.farthest
        self.most = self._taps.most if self._sparse else len(self._kernels)

    def largest(self, padded: Floats, pad: int, below: int) -> Floats:
        """Return the largest average of a padded function. Node 0 is after `below` others."""
        best = np.zeros(len(padded) - 2 * pad)
        if not self._sparse:
            seen = padded[pad + self._lowest : len(padded) - pad + self._lowest + len(self._kernels) - 1]
            # The library that multiplies matrices does not accept overlapping views.
            mixed = self._kernels.T @ np.ascontiguousarray(sliding_window_view(seen, len(self._kernels)).T)
            _add_first(self._first, below, mixed)
            return np.maximum(best, mixed.max(axis=0), out=best)
        mixed, scratch = np.empty((2, len(best)))
        for row, first in enumerate(self._first):
            mixed[:] = 0.0
            self._taps.add(row, padded, pad, mixed, scratch)
            _add_first(first, below, mixed)
            np.maximum(best, mixed, out=best)
        return best


def _add_first(first: Floats, below: int, mixed: Floats) -> None:
    """Add the result of one answer after the hockey-stick function, on the nodes around 0."""
    around = first.shape[-1] // 2
    mixed[..., below - around : below + around + 1] += first
