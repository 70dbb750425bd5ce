r"""Polygons of the receiver operating characteristic, as corner lists of (Q, P) from (0, 0) to (1, 1).

Why every selection is an upper bound
-------------------------------------
A pair whose curve lies nowhere below another's dominates it (Blackwell 1953). Three selections replace a curve.

- *Edges.* `few_edges` prolongs some edges of a concave curve until they meet. A concave curve lies below its tangents
  (R. T. Rockafellar, "Convex Analysis", 1970, section 18), so *any* edges will do.
- *Corners.* Write ``F`` for `FLAT`. `concave_hull` leaves out a corner if it lies on or below a chord between kept
  corners, once each end ``(q, p)`` of the chord has moved to ``(q - F q (1 - q), p + F p (1 - p))``. Such a move is at
  most ``F``, shares of what is left of the coordinates on either side. Let ``K`` be a concave curve that is nowhere
  below the kept corners. Callers move its corners up and to the left by ``2 NEAR_END``, the first and last excepted.
  The moved ends lie below the result. Between corners that move, the whole edge moves by more than ``F``. On the first
  edge the slope grows by the factor ``(1 + s / p) / (1 - s / q)`` with ``s = 2 NEAR_END``, and the slope of a moved end
  by at most ``(1 + F) / (1 - F)``. The last edge is the same, seen from (1, 1). The result is concave, so the chord
  and the corner lie below, too.
- *Groups.* `dpensemble.cost.merging` divides pairs into groups, each behind the hull of its own curves. Every pair lies
  below the hull of its group, however the pairs are divided.

So rounding can change which bound is computed, never that the result is a bound. Processors and libraries round
exponentials differently, and rounding would decide ties: outcomes of one likelihood ratio lie on a line. Measured on
votes of three classes, rounding leaves corners at most ``2**-48`` of their coordinates from their line, and `FLAT` is
above that. Few true corners are as flat, and a bound without them is still a bound. Values that order rows are compared
by `ranks`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Sums of probabilities miss 1 only through rounding.
NEAR_END = 1e-14
# A corner this near a chord, as a share of its coordinates, is left out: far above rounding, far below all that costs.
FLAT = 2.0**-47


def vertices(p: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.float64]:
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


def concave_hull(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the corners of the least concave curve above all points, which it may miss by `NEAR_END`.

    Points within `NEAR_END` count as (1, 1), and flat corners are left out.
    """
    order = np.lexsort((points[:, 1], points[:, 0]))
    hull: list[tuple[float, float]] = [(0.0, 0.0)]
    for q, p in points[order].tolist():
        if q <= 0 or (1 - q < NEAR_END and 1 - p < NEAR_END) or p <= hull[-1][1]:
            continue
        while len(hull) > 1 and _turns_left(hull[-2], hull[-1], (q, p)):
            hull.pop()
        # Of points with the same abscissa only the highest counts.
        if q > hull[-1][0]:
            hull.append((q, p))
        elif len(hull) > 1:
            hull[-1] = (q, p)
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
    return q - FLAT * q * (1 - q), p + FLAT * p * (1 - p)


def _turns_left(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (b[1] - a[1]) * (c[0] - b[0]) <= (c[1] - b[1]) * (b[0] - a[0])


def few_edges(corners: NDArray[np.float64], n_edges: int) -> NDArray[np.float64]:
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
