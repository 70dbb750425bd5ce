"""Fewer pairs for composition: neighbouring rows of a table stand behind one pair that dominates them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from dpensemble.cost.pairs import DominatingPairs

# Orders at which a group of pairs may not look worse than the worst single pair.
_TEST_ORDERS = np.array([1.1, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0])
MOST_OUTCOMES = 10


@lru_cache(maxsize=32)
def grouped(
    pairs: DominatingPairs, tolerance: float, n_outcomes: int = MOST_OUTCOMES, largest_order: float = 200.0
) -> DominatingPairs:
    """Return fewer pairs that dominate the set; beyond `largest_order` they may be as loose as they like."""
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
