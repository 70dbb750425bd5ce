"""Fewer pairs for composition: one pair that dominates a group of similar rows of a table replaces them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from dpensemble._arrays import Floats, Integers
from dpensemble.cost.pairs import DominatingPairs
from dpensemble.cost.roc import NEAR_END, concave_hull, ranks, vertices
from dpensemble.errors import AccountingError

# Orders at which a group of pairs may not exceed the worst single pair.
_TEST_ORDERS = np.array([1.1, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0])
# The same for sets in which no group may be much looser at any order.
_ALL_ORDERS = np.sort(np.concatenate([_TEST_ORDERS, [3.0, 7.0, 14.0, 32.0, 500.0, 2e3, 1e4, 1e5]]))
MOST_OUTCOMES = 10
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


@lru_cache(maxsize=32)
def grouped(
    pairs: DominatingPairs, tolerance: float, n_outcomes: int = MOST_OUTCOMES, largest_order: float = 200.0
) -> DominatingPairs:
    """Return fewer pairs that dominate the set. Beyond `largest_order` they may be arbitrarily loose."""
    # A group may exceed its own worst row by a share of `tolerance` in Renyi divergence, or up to the worst row of all.
    orders = _TEST_ORDERS[: max(3, int(np.searchsorted(_TEST_ORDERS, largest_order, side="right")))]
    each = pairs.renyi_of_each(orders)
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
        if np.all(together.renyi(orders) <= fine):
            groups.append(together)
        else:
            middle = (start + stop) // 2
            pending += [(start, middle), (middle, stop)]
    return DominatingPairs.union(groups)


def gathered(pairs: DominatingPairs, tolerance: float, largest_order: float) -> DominatingPairs:
    """Return fewer pairs that dominate the set, each of which stands for similar rows anywhere in the table.

    None exceeds the worst single pair by more than a share of `tolerance` in Renyi divergence up to `largest_order`.
    When a set depends on two gaps, these pairs are fewer than those of `grouped`, and looser for harmless rows. A pair
    may be looser in reverse order, which other pairs cover.
    """

    def is_fine(one: DominatingPairs) -> bool:
        return bool(np.all(one.renyi(orders) <= fine))

    orders = _ALL_ORDERS if largest_order == np.inf else _TEST_ORDERS[largest_order >= _TEST_ORDERS]
    fine, shapes = pairs.renyi(orders) * (1 + tolerance), _shapes(pairs)
    pending, groups = [np.arange(len(pairs))], []
    while pending:
        rows = pending.pop()
        one = _one_for(pairs.p[rows], pairs.q[rows], is_fine) if len(rows) <= _TRIED else None
        if one is None:
            alike = shapes[rows] - shapes[rows].mean(axis=0)
            pending += _halves(rows, alike)
        else:
            groups.append(one)
    return _merged(DominatingPairs.union(groups), is_fine)


def _halves(rows: Integers, alike: Floats) -> list[Integers]:
    """Return the rows in two halves along the direction in which their centred shapes differ most."""
    most = np.linalg.svd(alike[:: -(-len(rows) // _TRIED)], full_matrices=False)[2][0]
    # A library may return a direction or its opposite.
    along = alike @ most * np.sign(most @ _IRREGULAR)
    error = _SAME * float(np.abs(along).max()) / len(rows)
    return np.array_split(rows[np.argsort(ranks(along, error), kind="stable")], 2)


def _one_for(p: Floats, q: Floats, is_fine: Callable[[DominatingPairs], bool]) -> DominatingPairs | None:
    """Return a pair that dominates all rows, unless it exceeds the limit or rounding dominates it."""
    together = DominatingPairs(p, q)
    if len(p) == 1:
        return together
    try:
        one = together.single(MOST_OUTCOMES)
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
    more = ((0, 0), (0, max(0, MOST_OUTCOMES - pairs.p.shape[1])))
    return DominatingPairs(np.pad(pairs.p, more), np.pad(pairs.q, more))


def _shapes(pairs: DominatingPairs) -> Floats:
    """Return by how much each pair's hockey-stick divergences exceed those of no loss, shape (n_pairs, n_ratios)."""
    largest = float(np.abs(pairs.losses()).max())
    ratios = np.exp(np.linspace(-largest, largest, _RATIOS))
    return np.stack([np.maximum(pairs.p - r * pairs.q, 0.0).sum(axis=1) - max(1 - r, 0.0) for r in ratios], axis=1)


def outlined(pairs: DominatingPairs, tolerance: float, largest_order: float) -> DominatingPairs:
    """Return few pairs of two outcomes that stand for a set of such pairs in compositions.

    What follows an answer is jointly convex in both chances of the first outcome, so it is largest at a corner of any
    polygon around them. Some edges of their concave hull are selected and prolonged until they meet. A corner may
    exceed the worst pair by a share of `tolerance` in Renyi divergence up to `largest_order`.
    """
    if pairs.p.shape[1] != 2:
        raise AccountingError(f"corners must stand for pairs of two outcomes; got pairs of {pairs.p.shape[1]}.")
    orders = _TEST_ORDERS[: int(np.searchsorted(_TEST_ORDERS, largest_order, side="right"))]
    corners = concave_hull(vertices(pairs.p, pairs.q).reshape(-1, 2))
    fine = pairs.renyi(orders) * (1 + tolerance)
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
    return DominatingPairs.union(pairs_of_corners).inflated(2 * NEAR_END)
