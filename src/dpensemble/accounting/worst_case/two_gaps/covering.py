r"""Certified supremum over two gaps: cells, interpolation, and which rows may stand for which cells.

A point is ``(v, y)``: the gap ``v`` of class b and ``y = (u - v) / 2 >= 0``, both at the
midpoint of a pair, so P lies at ``(u + s/2, v - s/2)`` and Q at ``(u - s/2, v + s/2)``.
There a gains what b and the others lose: for a log-concave symmetric density f, ``f / F`` falls, so the rate
of the others, ``f(v) F(-u) - f(u) F(-v)``, is negative for y > 0 and odd in y, as is its integral over the shift.
With `lower` and `gain` of an outcome as in `dpensemble.accounting.worst_case.two_gaps.rows`, each cell
``[v0, v1] x [y0, y1]`` is bounded in one of three ways, chosen outcome by outcome:

- *curved*: a function whose second derivatives along the axes are at most ``B1``, ``B2``
  stays above its bilinear interpolant less ``(h1**2 B1 + h2**2 B2) / 8``. So `lower`, and
  with the signs turned `gain`, are bounded by the same convex combination of their corner
  values, moved by that error. F is bounded by the largest F of the moved corners (joint convexity).
- *flat*: all three `lower` are monotone in v and in y, for any noise, so they are least at a corner.
- *steep*: log(P / Q) is the integral of a score over the shift, so its largest score in
  the cell bounds ``gain / lower``. F is then convex and non-decreasing in `gain` alone.

In tails only the ratio bound is tight enough. Near the supremum only the interpolant is tight. Cells are halved
until all four moved corners, or one row that stands for the cell, stay below the largest divergence of
any actual pair found, times 1 + tolerance, at several orders. These orders decide how tight the result is,
never whether it holds. Rows far below the supremum are merged at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpensemble._arrays import Floats
from dpensemble.accounting.worst_case.two_gaps.rows import Rows
from dpensemble.cost.pairs import DominatingPairs
from dpensemble.errors import AccountingError

# Above the rounding of any probability or difference, and above all that lies beyond a law's regions.
SLACK = 1e-14
# Orders less 1, in units of 1 / shift, so that they weigh similar losses for all shifts.
_ORDERS = np.array([0.01, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0, 1.5, 2.5, 5.0])
_TOLERANCES = 1e-4 * np.array([4, 4, 4, 4, 4, 5, 5, 6, 100, 400, 1000])
# Merging neighbours may use up what the covering left, plus a small amount.
_MERGING = 1.6
_STRICT_HALVINGS, _MOST_HALVINGS = 24, 48
_SCAN_POINTS = 48
_LEAST_RATIO = 1e-9
_CODE_BITS = 24
_FRUITLESS_ROUNDS = 4


class GapLaw(Protocol):
    """What a noise law knows about its three outcomes: a wins, b wins, another class wins."""

    @property
    def shift(self) -> float:
        """Weight of the ballot over the scale of the noise."""

    def regions(self) -> Floats:
        """Return rectangles ``v0, v1, y0, y1`` that leave out at most `SLACK`."""

    def beyond(self) -> list[DominatingPairs]:
        """Return pairs for everything else that the regions leave out."""

    def probabilities(self, u: Floats, v: Floats) -> Floats:
        """Return the outcomes' probabilities along a new last axis, to well below `SLACK`."""

    def bends(self, cells: Floats) -> tuple[Floats, Floats]:
        """Return second derivatives along v and y, at most: of `lower` (n, 2, 3), of minus `gain` (n, 2, 2)."""

    def largest_scores(self, cells: Floats) -> Floats:
        """Return the largest absolute score along any shift from a cell, shape (n, 3)."""


def dominating_pairs(law: GapLaw, weight: float, floor: float) -> DominatingPairs:
    """Return pairs that dominate those of `law` in one order, mixed with the uniform law of that `weight`."""
    # The uniform law adds at least `floor` to any outcome. Class a, which P favours, comes first.
    points, rows, limit = _Cover(law, weight, floor).cover()
    p, q, _ = _thinned(points, rows, limit, 1 + _ORDERS / law.shift).laws()
    return DominatingPairs(p, q)


@dataclass(frozen=True, slots=True)
class _Cover:
    law: GapLaw
    weight: float
    floor: float

    def mixed(self, lower: Floats, gain: Floats) -> Rows:
        return Rows((1 - self.weight) * lower + self.floor, (1 - self.weight) * gain)

    def pairs_at(self, v: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Return `lower` and `gain` of the actual pairs."""
        half, u = self.law.shift / 2, v + 2 * y
        p, q = self.law.probabilities(u + half, v - half), self.law.probabilities(u - half, v + half)
        lower = np.concatenate([q[..., :1], p[..., 1:]], axis=-1)
        return lower, _with_sum(np.maximum((q - p)[..., 1:], 0.0))

    def bounds(self, cells: Floats) -> tuple[Rows, Rows, Rows, NDArray[np.bool_]]:
        """Return actual pairs at the corners, bounds there (n, 4, 3), a bound a cell, and which to halve in v."""
        lower, gain = self.pairs_at(cells[:, [0, 0, 1, 1]], cells[:, [2, 3, 2, 3]])
        widths = np.stack([cells[:, 1] - cells[:, 0], cells[:, 3] - cells[:, 2]], axis=1)
        lower_error, gain_error = (bend * widths[:, :, None] ** 2 / 8 for bend in self.law.bends(cells))
        gain_error = _with_sum(gain_error)
        more = gain + (gain_error.sum(axis=1) + np.array([2, 1, 1]) * SLACK)[:, None]
        flat = lower.min(axis=1) - SLACK
        curved = lower - (lower_error.sum(axis=1) + SLACK)[:, None]
        steepest = np.expm1(np.minimum(self.law.largest_scores(cells) * self.law.shift, 50.0))
        steepest = np.maximum(steepest * (1 + 1e-9), _LEAST_RATIO)
        steep = np.minimum((more - 2 * SLACK) / steepest[:, None], lower.max(axis=1)[:, None]) - SLACK
        low = _best_option(more, curved, np.broadcast_to(flat[:, None], steep.shape), steep)
        most = _with_sum(more[..., 1:].max(axis=1))
        top = np.minimum((most - 2 * SLACK) / steepest, lower.max(axis=1)) - SLACK
        whole = np.maximum(np.maximum(low.min(axis=1), flat), top)
        # Which halving lowers chi-square more: d(gain**2 / lower) by direction.
        ratio = (most / np.maximum(whole + self.floor, self.floor / 2))[:, None]
        span = np.minimum(lower_error, np.ptp(lower, axis=1)[:, None])
        error = (2 * gain_error * ratio + span * ratio**2).sum(axis=2)
        return self.mixed(lower, gain), self.mixed(low, more), self.mixed(whole, most), error[:, 0] > error[:, 1]

    def cover(self) -> tuple[Floats, Rows, Floats]:
        """Return a point and a row for every bound, and the divergences that rows were allowed."""
        orders, cells = 1 + _ORDERS / self.law.shift, self.law.regions()
        best = np.max([self.largest_seen(cell, orders) for cell in cells], axis=0)
        points, parts = [], []
        for halving in range(_MOST_HALVINGS):
            actual, corners, whole, along_v = self.bounds(cells)
            best = np.maximum(best, actual.renyi(orders).max(axis=(0, 1)))
            limit = best * (1 + _TOLERANCES * 2.0 ** max(0, halving - _STRICT_HALVINGS))
            together = np.all(whole.renyi(orders) <= limit, axis=-1)
            apart = np.all(corners.renyi(orders) <= limit, axis=(-1, -2)) & ~together
            centres = np.stack([cells[:, :2].mean(axis=1), cells[:, 2:].mean(axis=1)], axis=1)
            points += [centres[together], cells[apart][:, [0, 2, 0, 3, 1, 2, 1, 3]].reshape(-1, 2)]
            parts += [whole[together], corners[apart]]
            left = ~(together | apart)
            if not left.any():
                break
            cells = _halves(cells[left], along_v[left])
        else:
            raise AccountingError("the covering of all votes did not end, a defect of dpensemble; please report it.")
        return np.concatenate(points), Rows.joined(parts), best * (1 + _MERGING * (limit / best - 1))

    def largest_seen(self, cell: Floats, orders: Floats) -> Floats:
        """Return the largest divergences of actual pairs on a grid: a lower bound of the supremum."""
        v, y = np.meshgrid(np.linspace(cell[0], cell[1], _SCAN_POINTS), np.linspace(cell[2], cell[3], _SCAN_POINTS))
        return self.mixed(*self.pairs_at(v, y)).renyi(orders).max(axis=(0, 1))


def _with_sum(gain: Floats) -> Floats:
    """Put the gain of a, the sum of the others', first."""
    return np.concatenate([gain.sum(axis=-1, keepdims=True), gain], axis=-1)


def _best_option(more: Floats, *options: Floats) -> Floats:
    """Choose for each cell and outcome the lower bounds whose chi-square, summed over the corners, is least."""
    with np.errstate(divide="ignore"):
        size = [np.where(low > 0, more**2 / np.maximum(low, 0.0), np.inf).sum(axis=1) for low in options]
    # If no bound is positive, flat ones are at least -SLACK, which the floor of the mixture outweighs.
    best = np.where(np.isinf(np.min(size, axis=0)), 1, np.argmin(size, axis=0))
    return np.take_along_axis(np.stack(options), best[None, :, None], axis=0)[0]


def _halves(cells: Floats, along_v: NDArray[np.bool_]) -> Floats:
    first, second = cells.copy(), cells.copy()
    rows, low = np.arange(len(cells)), np.where(along_v, 0, 2)
    middle = (cells[rows, low] + cells[rows, low + 1]) / 2
    first[rows, low + 1] = middle
    second[rows, low] = middle
    return np.concatenate([first, second])


def _thinned(points: Floats, rows: Rows, limit: Floats, orders: Floats) -> Rows:
    """Merge the bounds of one point, then neighbours, while they stay within `limit`."""
    codes = _codes(points)
    order = np.argsort(codes, kind="stable")
    same_point = np.cumsum(np.diff(codes[order], prepend=-1) > 0) - 1
    rows = _merged_within(rows[order], same_point, limit, orders)
    fruitless = 0
    while fruitless < _FRUITLESS_ROUNDS:
        size = len(rows.lower)
        # Even and odd rounds pair a row with either neighbour.
        rows = _merged_within(rows, (np.arange(size) + fruitless % 2) // 2, limit, orders)
        fruitless = fruitless + 1 if len(rows.lower) == size else 0
    return rows


def _merged_within(rows: Rows, group: NDArray[np.intp], limit: Floats, orders: Floats) -> Rows:
    """Merge each group of rows, numbered from 0 on, into one row if that row stays within `limit`."""
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    fine = np.all(rows.merged(starts).renyi(orders) <= limit, axis=-1)
    return rows.merged(np.flatnonzero((np.diff(group, prepend=-1) > 0) | ~fine[group]))


def _codes(points: Floats) -> NDArray[np.int64]:
    """Return places along Morton's curve, which keeps neighbours together: bits of both in turn."""
    extent = np.maximum(np.ptp(points, axis=0), 1e-300)
    grid = np.rint((points - points.min(axis=0)) / extent * 2**_CODE_BITS).astype(np.int64)
    bits = np.arange(_CODE_BITS + 1)
    spread = ((grid[:, :, None] >> bits) & 1) << (2 * bits)
    return 2 * spread[:, 0].sum(axis=1) + spread[:, 1].sum(axis=1)
