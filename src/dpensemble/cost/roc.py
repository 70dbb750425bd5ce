"""Polygons of the receiver operating characteristic, as corner lists of (Q, P) from (0, 0) to (1, 1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Sums of probabilities miss 1 only through rounding.
NEAR_END = 1e-14


def vertices(p: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the corners (q, p) of every pair's curve, from (0, 0) to (1, 1), by falling likelihood ratio."""
    # Outcomes that cannot occur go last, where they add nothing.
    order = np.argsort(np.where(q > 0, -p / np.where(q > 0, q, 1.0), np.inf), axis=1, kind="stable")
    corners = np.zeros((len(q), q.shape[1] + 1, 2))
    for axis, table in ((0, q), (1, p)):
        np.cumsum(np.take_along_axis(table, order, axis=1), axis=1, out=corners[:, 1:, axis])
    corners[:, -1] = 1.0
    return corners


def concave_hull(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the corners of the least concave curve above all points. Points within `NEAR_END` count as (1, 1)."""
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
    return np.array([*hull, (1.0, 1.0)])


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
