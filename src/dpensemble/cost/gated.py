r"""Exact adaptive composition of gated queries: a purse pays for every check, and for a label only if one is released.

Which queries pass is released, so the numbers of checks and labels depend on the answers. Stopping on a composed
curve of losses is not sound. A purse is sound. A check costs ``x`` units and a label ``y``, public whole numbers, and a
query is admitted only if check and label fit into the remaining units. All runs of a purse of ``U`` units are bounded
together, over every strategy that uses earlier answers to choose queries, votes and when to stop. With ``r`` the
likelihood ratio so far and ``u`` the units left (the project's own, by backward induction over the hockey-stick
divergence):

    ``V_u(r) = max(r - 1, 0)`` below ``x + y`` units, when nothing is admitted, and otherwise

    ``V_u(r) = max over checks (a, b) of b W(r a / b) + (1 - b) V_{u-x}(r (1 - a) / (1 - b))``, where

    ``W(r) = max over labels (P, Q) of sum_o Q(o) V_{u-x-y}(r P(o) / Q(o))``,

and ``delta(epsilon) = exp(epsilon) V_U(exp(-epsilon))``. A check passes with chance ``a`` under the first input and
``b`` under the second. Stopping early gives ``max(r - 1, 0)``, which every ``V_u`` exceeds (Jensen).

Why finitely many checks do
---------------------------
Passing and failing lead to different functions, so a check dominated in Blackwell's sense does not stand for
another. But ``b W(r a / b)`` is the perspective of a convex function, jointly convex in ``(a, b)``, and so is the other
summand. Over a convex set of ``(a, b)`` the sum is largest at a corner. The corners are the rows of `checks`, corners
of a polygon that contains every pair, together with its two corners (0, 0) and (1, 1), at which a check reveals
nothing. Labels of two classes are covered by corners in the same way. For every outcome of a label of more classes the
same function follows, so a pair that dominates others in Blackwell's sense stands for them.

Why blocks may be composed
--------------------------
A run of ``U1 + U2`` units is a run until more than ``U1 - (x + y)`` units are spent, which never spends more than
``U1``, and a run of less than ``U2 + x + y``. So ``V_{U1 + U2 - (x + y - 1)}`` is at most the bound that
`dpensemble.cost.composition` gives for the answers of both. Grids and rounding are as there.
"""

from __future__ import annotations

import math
from threading import RLock

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from dpensemble._entries import Floats
from dpensemble._work import one_thread
from dpensemble.cost.composition import MOST_ANSWERS, Blocks, LossCurve, chords, kernels_of, last_fitting, nodes_within
from dpensemble.cost.pairs import DominatingPairs
from dpensemble.errors import AccountingError

# How many multiplications of a matrix take as long as one of a slice, measured with many labels.
_TAP = 30
# Nodes of a function beyond which nothing is composed.
_MOST_NODES = 60_000


class _GatedRecursion:
    """The functions of 0, 1, 2, ... units, on a grid that widens. Those of whole queries are stored."""

    def __init__(
        self, checks: DominatingPairs, labels: DominatingPairs, step: float, check_units: int, label_units: int
    ) -> None:
        self.step, self._check_units, self._query_units = step, check_units, check_units + label_units
        losses = checks.losses()
        self._passing, self._failing = (_Taps(*chords(losses[:, [o]], checks.q[:, [o]], step)) for o in (0, 1))
        self._labels = _Labels(labels, step)
        *_, self._first_check = kernels_of(checks, step)
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

    def _put(self, row: Floats, excess: Floats) -> None:
        row[self._pad : -self._pad] = excess
        row[: self._pad], row[-self._pad :] = excess[0], excess[-1]


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
        self._kernels, self._lowest, highest, self._first = kernels_of(labels, step)
        self._taps = _Taps(self._kernels, self._lowest, highest)
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


_UNIT = 2.0**-52
# Nodes in a standard deviation of a label's loss: chords cost a seventh of a percent of the labels.
_FINENESS = 14
# Least and greatest ratio of a label's price to a check's, in checks.
_LEAST_RATIO, _MOST_RATIO = 1 / 40, 80
# In units of the cheaper one, so that neither price is rounded by much.
_RESOLUTION = 12
# Share by which a check is priced above its loss, so that chords do not make checks the better bargain.
_DEARER = 1.15
# Units that are followed one by one, and the least number of labels in a block.
_FOLLOWED, _LEAST_FOLLOWED = 4000, 48
_TOLERANCE, _LARGEST_ORDER = 0.001, 50.0
# The same for labels of more classes, which are many: together they cost a label of a hundred.
_GATHERED, _FINENESS_OF_MANY = 0.005, 7
# Losses of one answer beyond which nothing is composed.
_LARGEST_LOSS, _MOST_SPREAD = 20.0, 25.0


class GatedComposition:
    """Delta and epsilon of gated queries under a purse of any number of units.

    Parameters
    ----------
    checks : DominatingPairs
        Corners of a polygon that contains every pair of chances to pass. The outcomes are pass and fail.
    labels : DominatingPairs
        What a label can reveal, both ways.
    missed : float
        Most that a true check may differ, in total variation, from a check within the polygon.
    fineness : int, optional
        Nodes in a standard deviation of a label's loss, fewer for labels of more classes.
    tolerance : float, optional
        Share by which the pairs that stand for labels may exceed the worst label.
    prices : tuple of int, optional
        Units of a check and of a label, if prices other than those of these pairs have been announced.

    Raises
    ------
    AccountingError
        If losses are too large for the grid.
    """

    def __init__(
        self,
        checks: DominatingPairs,
        labels: DominatingPairs,
        missed: float,
        *,
        fineness: int | None = None,
        tolerance: float | None = None,
        prices: tuple[int, int] | None = None,
    ) -> None:
        check, label = (float(pairs.renyi([2.0])[0]) for pairs in (checks, labels))
        largest = max(float(np.abs(pairs.losses()).max()) for pairs in (checks, labels))
        deviation = math.sqrt(max(label, check))
        #: What is followed: corners of a check's chances, few pairs for a label, and the distance of nodes.
        self.checks, self.labels = checks, _few_labels(labels, tolerance)
        self.step = deviation / (fineness or (_FINENESS if labels.p.shape[1] == 2 else _FINENESS_OF_MANY))
        #: Public prices, in units, for every fineness.
        fitting = _prices(check * _DEARER + (deviation / _FINENESS) ** 2 / 4, label)
        self.check_units, self.label_units = prices or fitting
        self.query_units = self.check_units + self.label_units
        self._largest, self._missed = largest, missed
        self._rate = max(check / self.check_units, (check + label) / self.query_units)
        self._followed = max(_LEAST_FOLLOWED, _FOLLOWED // self.query_units)
        if largest > _LARGEST_LOSS or self.spread(self._followed * self.query_units) > _MOST_SPREAD:
            raise AccountingError(f"gated queries that lose up to {largest:.3g} need more noise for exact composition.")
        self._recursion = _GatedRecursion(checks, self.labels, self.step, self.check_units, self.label_units)
        self._all_labels = labels
        self._blocks = Blocks(lambda: self._few(self._followed))
        # Queries in a block and, composed, in all but the last block.
        self._net = self._followed - 1
        self._lock = RLock()

    @property
    def followed(self) -> int:
        """How many answered queries are followed unit by unit. A longer run is composed of blocks of this size."""
        return self._followed

    def coarser(self, fineness: int, tolerance: float, labels: DominatingPairs | None = None) -> GatedComposition:
        """Return another composition of the same purse, with `fineness` nodes in a label's deviation and fewer pairs.

        The pairs that stand for labels may exceed the worst label by a share of `tolerance`. You may pass other
        `labels` that dominate the sampled labels just as well.
        """
        prices, labels = (self.check_units, self.label_units), self._all_labels if labels is None else labels
        return GatedComposition(
            self.checks, labels, self._missed, fineness=fineness, tolerance=tolerance, prices=prices
        )

    def queries(self, units: int) -> int:
        """Return how many answered queries cost at least `units` units."""
        return -(-units // self.query_units)

    def curve(self, queries: int) -> LossCurve:
        """Return all deltas of a purse that pays for `queries` answered queries."""
        with self._lock:
            if queries <= self._followed:
                return self._few(queries)
            blocks = -(-(queries - self._followed) // self._net)
            joined, rest = self._blocks.with_rest(blocks, self._few(queries - blocks * self._net))
            return joined.then(rest)

    def delta(self, queries: int, epsilon: float) -> float:
        """Return the delta at `epsilon` of a purse that pays for `queries` answered queries, rounded up."""
        with self._lock:
            if queries <= self._followed:
                return self._few(queries).delta(epsilon)
            blocks = -(-(queries - self._followed) // self._net)
            joined, rest = self._blocks.with_rest(blocks, self._few(queries - blocks * self._net))
            return joined.delta_with(rest, epsilon)

    def largest(self, epsilon: float, delta: float) -> int:
        """Return how many answered queries a purse may pay for within a budget."""

        def fits(queries: int) -> bool:
            return queries < MOST_ANSWERS and self.delta(queries, epsilon) <= delta

        within = 0
        while within < self._followed and fits(within + 1):
            within += 1
        if within < self._followed:
            return within
        return last_fitting(fits, within, 2.0)

    def _few(self, queries: int) -> LossCurve:
        units = queries * self.query_units
        below, excess = self._recursion.after(queries, self.reach(units))
        nodes = self._recursion.step * np.arange(-below, len(excess) - below)
        # Every check beyond the polygon changes delta by at most ``1 + exp(epsilon)`` times what the polygon misses.
        missed = units // self.check_units * self._missed * (1 + np.exp(nodes))
        slack = 4 * _UNIT * (self._recursion.n_taps + 8) * max(1, units) + 1e-9
        return LossCurve(self._recursion.step, below, excess + missed, slack)

    def spread(self, units: int) -> float:
        """Return how far losses of `units` units spread: a deviation, and the largest loss of one answer."""
        return math.sqrt(self._rate * units) + self._largest

    def reach(self, units: int) -> tuple[int, int]:
        """Return how many nodes below and above 0 are stored for `units` units."""
        return nodes_within(self.spread(units), self.step)


def _prices(check: float, label: float) -> tuple[int, int]:
    """Return whole prices of a check and a label in proportion to their losses, the check's rounded up."""
    ratio = min(max(label / check, _LEAST_RATIO), _MOST_RATIO)
    if ratio >= _RESOLUTION:
        return 1, int(ratio)
    if ratio >= 1:
        cheap = -(-_RESOLUTION // int(ratio))
        return cheap, int(cheap * ratio)
    label_units = max(1, int(_RESOLUTION * ratio))
    return math.ceil(label_units / ratio), label_units


def _few_labels(labels: DominatingPairs, tolerance: float | None = None) -> DominatingPairs:
    """Return few pairs that stand for all that a label can reveal: corners of two outcomes, or pairs of more."""
    if labels.p.shape[1] == 2:
        return labels.few_corners(tolerance or _TOLERANCE, _LARGEST_ORDER)
    return labels.few(tolerance or _GATHERED, _LARGEST_ORDER)
