"""The cost of a noisy maximum over three or more classes that releases the label only: finitely many dominating pairs.

The mechanism releases ``argmax_c n_c + Z_c``. A ballot of weight D moves from class a to class
b. The bound is a certified supremum over all histograms (the project's own). Proof, in three steps:

1. *Three outcomes.* Fix the largest noisy count ``M`` of the other classes, whose law no ballot for a or b changes.
   Then either a wins, or b, or another class, and which other class wins depends on neither.
   With ``u = (n_a - M) / scale``, ``v = (n_b - M) / scale`` and ``s = D / scale`` the pair of label laws is a mixture
   of three-outcome pairs, at ``(u, v)`` and at ``(u - s, v + s)``. Every functional ``F = sum_o Q_o k(P_o / Q_o)``
   with convex ``k`` is jointly convex, so it is at most its supremum over real ``(u, v)``. Two classes are the limit
   ``M -> -infinity``. Mixing with the uniform law leaves every outcome at least ``w / C`` from either input. Any
   further mass that mixing adds is alike under both and can only lower F.
2. *Half of the plane.* Swapping a and b reverses a pair, so ``u >= v`` at the
   midpoint and both orders of each pair suffice.
3. *Cells.* F on every cell of a partition is bounded by F at a few explicit pairs. The sections on Laplace and normal
   noise explain why the cells leave nothing out.

Bounds on three-outcome pairs
-----------------------------
Each bound is usable as one dominating pair of laws.

Class a is likelier under P, class b and the other classes are likelier under Q. One outcome is described by its
smaller probability `lower` and by the difference ``gain = |P - Q|``. Its share of ``F = sum_o Q_o k(P_o / Q_o)``,
with ``k`` convex and, after subtracting a multiple of ``x - 1`` that sums to nothing, ``k >= 0 = k(1)``, is

    ``f(lower, gain) = gain kappa(gain / lower)``,  ``kappa >= 0`` non-decreasing:

``f`` is homogeneous and convex, and adding the same mass to both laws cannot raise it
(``f(l + m, g) <= f(l, g) + f(m, 0)``). This gives the three rules used everywhere here:

- a smaller `lower`, or a larger `gain`, gives a larger F.
- So does a larger `gain` together with a larger ratio ``gain / lower``.
- The remaining mass goes to a fourth outcome, equal under both laws, and contributes nothing.

The gains of b and the others add up to that of a, because both laws sum to 1.

Certified supremum over two gaps
--------------------------------
Cells, interpolation, and which rows may stand for which cells.

A point is ``(v, y)``: the gap ``v`` of class b and ``y = (u - v) / 2 >= 0``, both at the midpoint of a pair, so P lies
at ``(u + s/2, v - s/2)`` and Q at ``(u - s/2, v + s/2)``. There a gains what b and the others lose: for a log-concave
symmetric density f, ``f / F`` falls, so the rate of the others, ``f(v) F(-u) - f(u) F(-v)``, is negative for y > 0 and
odd in y, as is its integral over the shift. With `lower` and `gain` of an outcome as above, each cell ``[v0, v1] x [y0,
y1]`` is bounded in one of three ways, chosen outcome by outcome:

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

Laplace noise: three outcomes and their derivatives
---------------------------------------------------

With ``f, F`` the Laplace density and distribution, three exact reductions leave a strip:

- *v below -s/2.* Both P and Q then have ``v <= 0``. Given that ``Z_b`` exceeds the distance, the excess is
  exponential for every distance. So the law at v is the mixture of those at 0 and at -infinity with weights
  ``exp(v)`` and ``1 - exp(v)``. Therefore the pair at v is a mixture of the pair at ``v = -s/2`` (P at -s, Q at 0) and
  the one at -infinity. There b never wins, and a single noisy comparison is left, whose ratio is at most ``exp(s)``:
  dominated by randomized response at ``s`` (Kairouz, Oh and Viswanath 2015), mixed or not. The same holds for u.
- *v above s/2* (so is u). All four gaps are positive, where the shift leaves ``P_other = exp(-u - v) / 4``
  unchanged and ``P_b = H - exp(-u - v) / 8`` with ``H = Pr[Z_b - Z_a > u - v]``. At given y the gains
  do not depend on v, and `lower` of a and b rise with v. So ``v = s/2`` is worst.
- *y above 20 + s/2.* a wins, up to 1e-16.

On the strip ``|v| <= s/2``, P has ``v <= 0 <= u`` and ``P_b = exp(v - u) (3 + 2 u) / 8``,
``P_other = exp(-u) / 2 - exp(v - u) / 4``. Q has ``v >= 0``, and ``u >= 0`` if ``y >= s/2``. Along the shift b
then gains ``exp(-|u - v|) (1 + |u - v|) / 2`` (v > 0) or ``exp(v - u) (1 + u) / 2`` (v < 0), the
others gain 0 or ``exp(-u) (1 - exp(v)) / 2``, convex in u. For ``y < s/2``, where a kink may lie in
the cell, P and Q are bounded one by one. ``|d2P_o/du2| <= P_o`` for any outcome, and every first
derivative is Lipschitz, which is all that interpolation needs. Scores are at most 2 (others: 1).

Normal noise: three outcomes and their derivatives
--------------------------------------------------

With ``phi, Phi`` the normal density and distribution, ``x = (u + v) / 2``, ``y = (u - v) / 2``, let ``A = phi(u)
Phi(-v)``, ``A' = phi(v) Phi(-u)``, ``E = phi(u) phi(v)`` and ``B = phi(sqrt2 y) Phi(sqrt2 x) / sqrt2``, the flow
between a and b. Then ``dP_a/du = A + B``, ``dP_a/dv = -B``, ``P_other = Phi(-u) Phi(-v)``, and along the shift b gains
``2 B + A'`` and the others gain ``A - A'``. Second derivatives along ``v`` (y fixed: u and v alike) and along ``y`` (v
fixed: twice u) are written out below.

*Largest score.* In thresholds ``c = (-v, 2 y)``, b wins with the survival probability
``S(c) = Pr[Z_b > c1, Z_b - Z_a > c2]``. S is log-concave (Prekopa), and, the two being positively correlated
normals, log-supermodular (Karlin and Rinott 1980). So the hazard along c1 rises with c1 and falls with c2,
and vice versa. The score, first hazard plus twice the second, is at most their sum at the
worst corners. The same holds for a, with u and v swapped. For the others both hazards are explicit.

*Nothing is left out*, up to 1e-16 at ``8.3 + s/2``. For v above it the others never win and the pair is that
of two classes, constant in v. For y above it a wins. For v below, b never wins, and
one noisy comparison remains, ``Phi(u +- s/2)``. It is less extreme, on both sides, than the comparison
``Phi(u +- s/sqrt2)`` of two classes at ``y = |u| / sqrt2``, reversed if u < 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr, owens_t

from dpensemble._checks import integer_between, real_between
from dpensemble._entries import Floats
from dpensemble.cost.pairs import DominatingPairs
from dpensemble.errors import AccountingError, InvalidParameterError

# A row that leaves less than this for its likeliest outcome gives no bound.
_LEAST_TOP = 1e-3
# Separates the outcome for the remaining mass from rounding.
_LEAST_REST = 1e-10


@dataclass(frozen=True, eq=False, slots=True)
class _Rows:
    """Bounds on the outcomes a wins, b wins, another class wins, along the last axis of both tables."""

    # The smaller probability of each outcome, above 0, and the difference. The first is the sum of the others.
    lower: Floats
    gain: Floats

    def __getitem__(self, index: Any) -> _Rows:
        return _Rows(self.lower[index], self.gain[index])

    @classmethod
    def joined(cls, parts: Sequence[_Rows]) -> _Rows:
        """Return the rows of all parts in one table of shape (n_rows, 3)."""
        lower, gain = (
            np.concatenate([table.reshape(-1, 3) for table in tables])
            for tables in ([part.lower for part in parts], [part.gain for part in parts])
        )
        return cls(lower, gain)

    def merged(self, starts: NDArray[np.intp]) -> _Rows:
        """Return one row for each run of rows, from one start to the next, that dominates all of them."""
        gain = np.maximum.reduceat(self.gain, starts, axis=0)
        gain[:, 0] = gain[:, 1] + gain[:, 2]
        ratio = np.maximum.reduceat(self.gain / self.lower, starts, axis=0)
        return _Rows(gain / ratio, gain)

    def laws(self) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Return P, Q of shape (..., 4), and whether each row is a pair of laws."""
        lower, gain = self.lower.copy(), self.gain
        rest = 1 - lower.sum(axis=-1) - gain[..., 0] - _LEAST_REST
        # Too much mass can only be taken when lower bounds were loose. A smaller value is still a lower bound.
        likeliest = lower.argmax(axis=-1)[..., None]
        top = np.take_along_axis(lower, likeliest, axis=-1) + np.minimum(rest, 0.0)[..., None]
        np.put_along_axis(lower, likeliest, top, axis=-1)
        spare = np.maximum(rest, 0.0)[..., None] + _LEAST_REST
        p = np.concatenate([lower[..., :1] + gain[..., :1], lower[..., 1:], spare], axis=-1)
        q = np.concatenate([lower[..., :1], lower[..., 1:] + gain[..., 1:], spare], axis=-1)
        return p, q, top[..., 0] > _LEAST_TOP

    def renyi(self, orders: Floats) -> Floats:
        """Return each row's larger Renyi divergence of the two directions, or infinity if the row is not a pair."""
        # To a relative precision of about 1e-6. It steers the covering, and no bound rests on it.
        p, q, possible = self.laws()
        p, q = (np.where(possible[..., None] & (table > 0), table, 1.0) for table in (p, q))
        loss = np.log(p / q)
        value = np.empty((*possible.shape, orders.size))
        for i, order in enumerate(orders):
            with np.errstate(over="ignore"):
                forth = (p * np.expm1((order - 1) * loss)).sum(axis=-1)
                back = (q * np.expm1((1 - order) * loss)).sum(axis=-1)
            value[..., i] = np.log1p(np.maximum(np.maximum(forth, back), 0.0)) / (order - 1)
        value[~possible] = np.inf
        return value


# Above the rounding of any probability or difference, and above all that lies beyond a law's regions.
_SLACK = 1e-14
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


class _GapLaw(Protocol):
    """What a noise law knows about its three outcomes: a wins, b wins, another class wins."""

    @property
    def shift(self) -> float:
        """Weight of the ballot over the scale of the noise."""

    def regions(self) -> Floats:
        """Return rectangles ``v0, v1, y0, y1`` that leave out at most `_SLACK`."""

    def beyond(self) -> list[DominatingPairs]:
        """Return pairs for everything else that the regions leave out."""

    def probabilities(self, u: Floats, v: Floats) -> Floats:
        """Return the outcomes' probabilities along a new last axis, to well below `_SLACK`."""

    def bends(self, cells: Floats) -> tuple[Floats, Floats]:
        """Return second derivatives along v and y, at most: of `lower` (n, 2, 3), of minus `gain` (n, 2, 2)."""

    def largest_scores(self, cells: Floats) -> Floats:
        """Return the largest absolute score along any shift from a cell, shape (n, 3)."""


def _dominating_pairs(law: _GapLaw, weight: float, floor: float) -> DominatingPairs:
    """Return pairs that dominate those of `law` in one order, mixed with the uniform law of that `weight`."""
    # The uniform law adds at least `floor` to any outcome. Class a, which P favours, comes first.
    points, rows, limit = _Cover(law, weight, floor).cover()
    p, q, _ = _thinned(points, rows, limit, 1 + _ORDERS / law.shift).laws()
    return DominatingPairs(p, q)


@dataclass(frozen=True, slots=True)
class _Cover:
    law: _GapLaw
    weight: float
    floor: float

    def mixed(self, lower: Floats, gain: Floats) -> _Rows:
        return _Rows((1 - self.weight) * lower + self.floor, (1 - self.weight) * gain)

    def pairs_at(self, v: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Return `lower` and `gain` of the actual pairs."""
        half, u = self.law.shift / 2, v + 2 * y
        p, q = self.law.probabilities(u + half, v - half), self.law.probabilities(u - half, v + half)
        lower = np.concatenate([q[..., :1], p[..., 1:]], axis=-1)
        return lower, _with_sum(np.maximum((q - p)[..., 1:], 0.0))

    def bounds(self, cells: Floats) -> tuple[_Rows, _Rows, _Rows, NDArray[np.bool_]]:
        """Return actual pairs at the corners, bounds there (n, 4, 3), a bound a cell, and which to halve in v."""
        lower, gain = self.pairs_at(cells[:, [0, 0, 1, 1]], cells[:, [2, 3, 2, 3]])
        widths = np.stack([cells[:, 1] - cells[:, 0], cells[:, 3] - cells[:, 2]], axis=1)
        lower_error, gain_error = (bend * widths[:, :, None] ** 2 / 8 for bend in self.law.bends(cells))
        gain_error = _with_sum(gain_error)
        more = gain + (gain_error.sum(axis=1) + np.array([2, 1, 1]) * _SLACK)[:, None]
        flat = lower.min(axis=1) - _SLACK
        curved = lower - (lower_error.sum(axis=1) + _SLACK)[:, None]
        steepest = np.expm1(np.minimum(self.law.largest_scores(cells) * self.law.shift, 50.0))
        steepest = np.maximum(steepest * (1 + 1e-9), _LEAST_RATIO)
        steep = np.minimum((more - 2 * _SLACK) / steepest[:, None], lower.max(axis=1)[:, None]) - _SLACK
        low = _best_option(more, curved, np.broadcast_to(flat[:, None], steep.shape), steep)
        most = _with_sum(more[..., 1:].max(axis=1))
        top = np.minimum((most - 2 * _SLACK) / steepest, lower.max(axis=1)) - _SLACK
        whole = np.maximum(np.maximum(low.min(axis=1), flat), top)
        # Which halving lowers chi-square more: d(gain**2 / lower) by direction.
        ratio = (most / np.maximum(whole + self.floor, self.floor / 2))[:, None]
        span = np.minimum(lower_error, np.ptp(lower, axis=1)[:, None])
        error = (2 * gain_error * ratio + span * ratio**2).sum(axis=2)
        return self.mixed(lower, gain), self.mixed(low, more), self.mixed(whole, most), error[:, 0] > error[:, 1]

    def cover(self) -> tuple[Floats, _Rows, Floats]:
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
        return np.concatenate(points), _Rows.joined(parts), best * (1 + _MERGING * (limit / best - 1))

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


def _thinned(points: Floats, rows: _Rows, limit: Floats, orders: Floats) -> _Rows:
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


def _merged_within(rows: _Rows, group: NDArray[np.intp], limit: Floats, orders: Floats) -> _Rows:
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


_FAR_LAPLACE = 20.0


@dataclass(frozen=True, slots=True)
class _LaplaceGaps:
    """Gaps in scales. See `dpensemble.accounting.two_gaps._GapLaw`."""

    shift: float

    def regions(self) -> Floats:
        """Return the strip, cut where Q's leader falls behind."""
        half = self.shift / 2
        return np.array([[-half, half, 0.0, half], [-half, half, half, _FAR_LAPLACE + half]])

    def beyond(self) -> list[DominatingPairs]:
        """Return randomized response, for a single noisy comparison."""
        odds = np.exp(self.shift * (1 + 1e-9))
        # Each outcome twice, to fill the table without zeros.
        p = np.array([[odds, odds, 1.0, 1.0]]) / (2 + 2 * odds)
        return [DominatingPairs(p, p[:, ::-1]).both_ways()]

    def probabilities(self, u: Floats, v: Floats) -> Floats:
        """Return the probabilities in closed form."""
        tail_u, tail_v = np.exp(-np.abs(u)) / 2, np.exp(-np.abs(v)) / 2
        below_u, below_v = np.where(u > 0, tail_u, 1 - tail_u), np.where(v > 0, tail_v, 1 - tail_v)
        return np.stack([_laplace_wins(v, u), _laplace_wins(u, v), below_u * below_v], axis=-1)

    def bends(self, cells: Floats) -> tuple[Floats, Floats]:
        """Bound the second derivatives that the module's docstring implies."""
        v0, v1, y0, y1 = cells.T
        s, half = self.shift, self.shift / 2
        kink = y0 < half
        u0, u1 = v0 + 2 * y0, v1 + 2 * y1
        nothing = np.zeros(len(cells))
        behind = np.exp(-2 * y0 - s) * np.maximum(2 * u1 + s - 1, 0.0) / 2
        least_p = np.exp(-u0 - half)
        lower = np.stack(
            [
                np.stack([nothing, np.where(kink, 4.0, 0.0)], axis=1),
                np.stack([nothing, behind], axis=1),
                np.stack([least_p / 2, 2 * least_p], axis=1),
            ],
            axis=-1,
        )
        nearest = np.minimum(u0 - half, 2 * y0 - s)
        smooth = s * 2 * np.maximum(1 - nearest, 0.0) * np.exp(-np.maximum(2 * y0 - s, 0.0))
        to_b = np.stack(
            [np.exp(-v0 - half - np.maximum(u0 - half, 0.0)) / 2, np.where(kink, 1 + behind, smooth)], axis=1
        )
        to_others = np.stack([least_p / 2, np.where(kink, 1 + 2 * least_p, 0.0)], axis=1)
        return lower, np.stack([to_b, to_others], axis=-1)

    def largest_scores(self, cells: Floats) -> Floats:
        """Return the constant bounds."""
        return np.broadcast_to(np.array([2.0, 2.0, 1.0]), (len(cells), 3))


def _laplace_wins(u: Floats, v: Floats) -> Floats:
    """Return ``Pr[v + Z_b > max(0, u + Z_a)]``: a mixture of gaps ahead and none."""
    ahead_u, ahead_v = np.maximum(u, 0.0), np.maximum(v, 0.0)
    gap = ahead_u - ahead_v
    tail = (2 + np.abs(gap)) * np.exp(-np.abs(gap)) / 4
    against_rival = np.where(gap > 0, tail, 1 - tail) - np.exp(-ahead_u - ahead_v) / 8
    alone = 1 - np.exp(-ahead_v) / 2
    reached = np.exp(np.minimum(u, 0.0))
    return np.exp(np.minimum(v, 0.0)) * ((1 - reached) * alone + reached * against_rival)


Range = tuple[Floats, Floats]

_ROOT = math.sqrt(2)
_FAR_GAUSSIAN = 8.3
# A long shift is bounded piece by piece.
_PIECE = 0.1
_NUDGE = 1e-20


@dataclass(frozen=True, slots=True)
class _GaussianGaps:
    """Gaps in standard deviations. See `dpensemble.accounting.two_gaps._GapLaw`."""

    shift: float

    def regions(self) -> Floats:
        """Return one rectangle."""
        far = _FAR_GAUSSIAN + self.shift / 2
        return np.array([[-far, far, 0.0, far]])

    def beyond(self) -> list[DominatingPairs]:
        """Return nothing. The module's docstring gives the reason."""
        return []

    def probabilities(self, u: Floats, v: Floats) -> Floats:
        """Return the probabilities by Owen's T function, to a few 1e-16."""
        return np.stack([_gaussian_wins(v, u), _gaussian_wins(u, v), ndtr(-u) * ndtr(-v)], axis=-1)

    def bends(self, cells: Floats) -> tuple[Floats, Floats]:
        """Bound every term of the second derivatives by its range over the cell."""
        half = self.shift / 2
        p, q = _Terms(cells, half, half), _Terms(cells, -half, -half)
        lower = np.stack([q.bends_of_a(), p.bends_of_b(), p.bends_of_others()], axis=-1)
        n_pieces = math.ceil(self.shift / _PIECE)
        ends = np.linspace(-half, half, n_pieces + 1)
        gain = np.zeros((len(cells), 2, 2))
        for start, end in pairwise(ends.tolist()):
            terms = _Terms(cells, start, end)
            gain += np.stack([terms.bends_of_flow_to_b(), terms.bends_of_flow_to_others()], axis=-1)
        return np.maximum(lower, 0.0), np.maximum(gain, 0.0) * self.shift / n_pieces

    def largest_scores(self, cells: Floats) -> Floats:
        """Add each hazard's bound at the corner where it is largest."""
        v0, v1, y0, y1 = cells.T + self.shift / 2 * np.array([[-1], [1], [-1], [1]])
        u0, u1 = cells[:, 0] + 2 * cells[:, 2] - self.shift / 2, cells[:, 1] + 2 * cells[:, 3] + self.shift / 2
        b = _hazard_at_zero(v0 + 2 * y0, v0) + _hazard_of_rival(v1 + 2 * y1, v1)
        a = _hazard_at_zero(u0 - 2 * y1, u0) + _hazard_of_rival(u1 - 2 * y0, u1)
        return np.stack([a, b, np.maximum(_mills(u1) - _mills(v0), 0.0)], axis=-1)


def _gaussian_wins(u: Floats, v: Floats) -> Floats:
    """Return ``Pr[v + Z_b > max(0, u + Z_a)]`` (D. B. Owen 1956, equation 2.1)."""
    # Moves the removable singularities by less than any rounding.
    v = np.where(v == 0, _NUDGE, v)
    y = np.where(u == v, _NUDGE, (u - v) / 2)
    half = np.where(v * np.sign(y) > 0, 0.5, 0.0)
    return (ndtr(v) + ndtr(-_ROOT * y)) / 2 + owens_t(v, u / v) + owens_t(_ROOT * y, (u + v) / 2 / y) - half


def _density(z: Floats) -> Floats:
    return np.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def _mills(z: Floats) -> Floats:
    """Return the hazard ``phi(z) / Phi(-z)``."""
    return np.exp(-z * z / 2 - log_ndtr(-z)) / math.sqrt(2 * math.pi)


def _hazard_at_zero(u: Floats, v: Floats) -> Floats:
    return _over_wins(_density(v) * ndtr(-u), u, v)


def _hazard_of_rival(u: Floats, v: Floats) -> Floats:
    return _over_wins(_ROOT * _density((u - v) / _ROOT) * ndtr((u + v) / _ROOT), u, v)


def _over_wins(flow: Floats, u: Floats, v: Floats) -> Floats:
    """Divide by a lower bound of ``_gaussian_wins``. The result is infinite where rounding leaves no positive bound."""
    wins = _gaussian_wins(u, v) - _SLACK
    return np.where(wins > _SLACK, flow / np.maximum(wins, _SLACK), np.inf)


class _Terms:
    """Ranges of A, A', B, E and their factors over cells shifted by every amount from `start` to `end`."""

    def __init__(self, cells: Floats, start: float, end: float) -> None:
        v0, v1, y0, y1 = cells.T
        self.u, self.v = (v0 + 2 * y0 + start, v1 + 2 * y1 + end), (v0 - end, v1 - start)
        self.y = y0 + start, y1 + end
        bell_u, bell_v = _bell(self.u), _bell(self.v)
        bell_y = _bell((_ROOT * self.y[0], _ROOT * self.y[1]))
        self.a = bell_u[0] * ndtr(-self.v[1]), bell_u[1] * ndtr(-self.v[0])
        self.b = bell_v[0] * ndtr(-self.u[1]), bell_v[1] * ndtr(-self.u[0])
        self.e = bell_u[0] * bell_v[0], bell_u[1] * bell_v[1]
        self.flow = bell_y[0] * ndtr(_ROOT * (v0 + y0)) / _ROOT, bell_y[1] * ndtr(_ROOT * (v1 + y1)) / _ROOT

    def bends_of_a(self) -> Floats:
        """Bound ``-u A - E`` and ``-4 y B + 2 E - 4 u A``."""
        outwards = _top(_scaled(self.u, -1), self.a)
        inwards = _top(_scaled(self.y, -4), self.flow)
        return _both(outwards - self.e[0], inwards + 2 * self.e[1] + 4 * outwards)

    def bends_of_b(self) -> Floats:
        """Bound ``-v A' - E`` and ``4 y B - 2 E``."""
        outwards = _top(_scaled(self.v, -1), self.b)
        return _both(outwards - self.e[0], _top(_scaled(self.y, 4), self.flow) - 2 * self.e[0])

    def bends_of_others(self) -> Floats:
        """Bound ``u A + v A' + 2 E`` and ``4 u A``."""
        outwards = _top(self.u, self.a)
        return _both(outwards + _top(self.v, self.b) + 2 * self.e[1], 4 * outwards)

    def bends_of_flow_to_b(self) -> Floats:
        """Bound ``(1 - v**2) A' + u E`` and ``4 (1 - 2 y**2) B + 4 y E``, minus those of ``2 B + A'``."""
        along_v = _top(_one_less(self.v, 1), self.b) + _top(self.u, self.e)
        along_y = 4 * _top(_one_less(self.y, 2), self.flow) + 4 * _top(self.y, self.e)
        return _both(along_v, along_y)

    def bends_of_flow_to_others(self) -> Floats:
        """Bound ``(1 - u**2) A - (1 - v**2) A' - 2 y E`` and ``4 (1 - u**2) A + 4 u E``, as for ``A - A'``."""
        outwards = _top(_one_less(self.u, 1), self.a)
        inwards = _top(_scaled(_one_less(self.v, 1), -1), self.b) + _top(_scaled(self.y, -2), self.e)
        return _both(outwards + inwards, 4 * outwards + 4 * _top(self.u, self.e))


def _squared(values: Range) -> Range:
    low, high = values
    across = (low < 0) & (high > 0)
    return np.where(across, 0.0, np.minimum(low**2, high**2)), np.maximum(low**2, high**2)


def _bell(values: Range) -> Range:
    """Return the range of the density."""
    nearest, farthest = _squared(values)
    return _density(np.sqrt(farthest)), _density(np.sqrt(nearest))


def _scaled(values: Range, factor: float) -> Range:
    low, high = factor * values[0], factor * values[1]
    return (low, high) if factor > 0 else (high, low)


def _one_less(values: Range, factor: float) -> Range:
    """Return the range of ``1 - factor * value**2``."""
    nearest, farthest = _squared(values)
    return 1 - factor * farthest, 1 - factor * nearest


def _top(coefficient: Range, term: Range) -> Floats:
    """Return the largest product of a coefficient and a positive term."""
    return np.where(coefficient[1] > 0, coefficient[1] * term[1], coefficient[1] * term[0])


def _both(along_v: Floats, along_y: Floats) -> Floats:
    return np.stack([along_v, along_y], axis=1)


_MOST_CLASSES = 10_000


def two_gap_pairs(
    noise: Literal["gaussian", "laplace"], shift: float, n_classes: int, mixing_weight: float
) -> DominatingPairs:
    """Return pairs that dominate one noisy maximum, for all votes.

    Parameters
    ----------
    noise : {"gaussian", "laplace"}
        Law of the independent noise on every count.
    shift : float
        Weight of the ballot that moves, in standard deviations (Gaussian) or scales (Laplace) of noise, from 1e-4 to 4.
    n_classes : int
        From 3 to 10,000. Two classes have exact tables of their own.
    mixing_weight : float
        Share of answers drawn uniformly, from 1e-7 to 0.01. See `dpensemble.laws.sampling`.

    Returns
    -------
    DominatingPairs
        Pairs of four outcomes, both ways. The same object for the same arguments.

    Raises
    ------
    InvalidParameterError
        If an argument is outside its range.

    Examples
    --------
    The published order-2 bound is ``2 * shift**2``. The exact supremum is 0.64 of that:

    >>> pairs = two_gap_pairs("gaussian", shift=1 / 40, n_classes=10, mixing_weight=1e-6)
    >>> round(float(pairs.renyi([2.0])[0]) / (2 * (1 / 40) ** 2), 3)
    0.64
    """
    if noise not in {"gaussian", "laplace"}:
        raise InvalidParameterError(f"noise={str(noise)[:60]!r} is unknown: use 'gaussian' or 'laplace'.")
    return _covered(
        noise,
        real_between("shift", shift, 1e-4, 4.0),
        integer_between("n_classes", n_classes, 3, _MOST_CLASSES),
        real_between("mixing_weight", mixing_weight, 1e-7, 0.01),
    )


@lru_cache(maxsize=64)
def _covered(noise: str, shift: float, n_classes: int, mixing_weight: float) -> DominatingPairs:
    law: _GapLaw = _GaussianGaps(shift) if noise == "gaussian" else _LaplaceGaps(shift)
    pairs = _dominating_pairs(law, mixing_weight, mixing_weight / n_classes)
    return DominatingPairs.union([pairs.both_ways(), *law.beyond()])
