r"""Three and more classes by listing: all histograms of few teachers, and all moves of ballots.

For laws that treat all classes alike sorted histograms suffice. An analysis that allows for counts at any distance
overcharges Laplace noise of half the teachers by a third, since in truth a class with no votes still wins sometimes.
So listing is used when it takes seconds.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import combinations, permutations

import numpy as np
from numpy.typing import NDArray

from dpensemble.accounting.change import Change
from dpensemble.accounting.worst_case.neighbours import reachable_offsets
from dpensemble.cost import DominatingPairs, PrivacyCost
from dpensemble.cost.merging import gathered
from dpensemble.cost.roc import ranks, vertices
from dpensemble.errors import AccountingError
from dpensemble.laws import ReleaseLaw, mixed_probabilities
from dpensemble.laws.choice import is_proven
from dpensemble.laws.sampling import PROBABILITY_ERROR

# Pairs of histograms that can be listed within seconds.
MOST_PAIRS, _MOST_CHANGES, _MOST_BALLOTS = 1_000_000, 10_000, 5_000
_N_LEVELS, _OFF = 100, 1e-11
# Pairs that can be listed and grouped within a few seconds, and by how much groups may exceed the worst of them.
_MOST_SOON, _TOLERANCE = 200_000, 0.003
_MOST_CHECKED = 3_000_000


def can_list(law: ReleaseLaw, change: Change) -> bool:
    """Return whether the pairs of histograms are few enough to list."""
    return _changes(law, change) is not None


def _changes(law: ReleaseLaw, change: Change) -> NDArray[np.int64] | None:
    """Return all changes of the counts, or None if they give too many pairs."""
    if change.ballots > _MOST_BALLOTS:
        return None
    offsets = reachable_offsets(change.classes, change.votes, _MOST_CHANGES)
    if offsets is None:
        return None
    every = math.comb(change.ballots + change.classes - 1, change.classes - 1)
    n_rows = _n_sorted(change.ballots, change.classes) if law.symmetric else every
    # The declared symmetry of a user's law is checked on all histograms.
    checkable = is_proven(law) or every <= _MOST_CHECKED
    return change.weight * offsets if n_rows * len(offsets) <= MOST_PAIRS and checkable else None


@lru_cache(maxsize=16)
def listed_cost(law: ReleaseLaw, change: Change) -> PrivacyCost:
    """Return the exact worst-case cost of one answer, over all histograms and all neighbours. Requires `can_list`."""
    # All whole counts are treated as reachable, for all weights of other ballots.
    changes = _changes(law, change)
    assert changes is not None  # noqa: S101
    pairs = _pairs(law, change.ballots, change.classes, changes)
    # The law of the sorted row and the sampled one are each within the error of the exact law.
    return PrivacyCost.of(_side_by_side(pairs).inflated(2 * PROBABILITY_ERROR))


def is_listed_soon(law: ReleaseLaw, change: Change, widest: float) -> bool:
    """Return whether counts are few, and so near each other that an analysis of all gaps would charge much more.

    `widest` is the largest gap between two counts, in units of the noise, that is near.
    """
    near = is_proven(law) and change.ballots <= widest * law.noise
    changes = _changes(law, change) if near else None
    return changes is not None and _n_sorted(change.ballots, change.classes) * len(changes) <= _MOST_SOON


@lru_cache(maxsize=16)
def gathered_cost(law: ReleaseLaw, change: Change) -> PrivacyCost:
    """Return the cost of one answer as `listed_cost` does, from few pairs that each stand for similar pairs."""
    changes = _changes(law, change)
    assert changes is not None  # noqa: S101
    pairs = _pairs(law, change.ballots, change.classes, changes).inflated(2 * PROBABILITY_ERROR)
    return PrivacyCost.of(gathered(pairs, _TOLERANCE, math.inf))


def _n_sorted(total: int, n_parts: int) -> int:
    """Return the number of partitions of `total` into at most `n_parts` parts."""
    ways = [1] + [0] * total
    for part in range(1, n_parts + 1):
        for sum_ in range(part, total + 1):
            ways[sum_] += ways[sum_ - part]
    return ways[total]


def sorted_histograms(total: int, n_classes: int) -> NDArray[np.int64]:
    """Return all rows of counts with that sum, each falling from the first class to the last."""
    rows, left = np.zeros((1, 0), dtype=np.int64), np.array([total])
    for place in range(n_classes):
        highest = np.minimum(left, rows[:, -1]) if place else left
        # The remaining classes can hold at most as much as this class.
        lowest = -(-left // (n_classes - place))
        n_values = np.maximum(highest - lowest + 1, 0)
        parent = np.repeat(np.arange(len(rows)), n_values)
        value = highest[parent] - (np.arange(len(parent)) - (np.cumsum(n_values) - n_values)[parent])
        rows, left = np.column_stack([rows[parent], value]), left[parent] - value
    return rows


def histograms(total: int, n_classes: int) -> NDArray[np.int64]:
    """Return all rows of counts with that sum."""
    bars = np.array(list(combinations(range(total + n_classes - 1), n_classes - 1)))[::-1]
    ends = np.column_stack([np.full(len(bars), -1), bars, np.full(len(bars), total + n_classes - 1)])
    return np.diff(ends, axis=1) - 1


def _pairs(law: ReleaseLaw, n_teachers: int, n_classes: int, changes: NDArray[np.int64]) -> DominatingPairs:
    """Return the law of every listed histogram beside that of each neighbour, in the classes' own order."""
    rows = (sorted_histograms if law.symmetric else histograms)(n_teachers, n_classes)
    radix = (n_teachers + 1) ** np.arange(n_classes, dtype=np.int64)
    order_of_keys = np.argsort(rows @ radix)
    keys = (rows @ radix)[order_of_keys]
    if np.any(np.diff(keys) <= 0):
        raise AccountingError(
            f"n_classes={n_classes} is too large to list the histograms of {n_teachers} teachers: use 'gnmax'."
        )
    probabilities = mixed_probabilities(law, rows)
    if law.symmetric and not is_proven(law):
        _require_symmetry(law, rows, probabilities)
    here, there = [], []
    for change in changes:
        moved = rows + change
        possible = moved.min(axis=1) >= 0
        order = np.argsort(-moved[possible] if law.symmetric else 0 * moved[possible], axis=1, kind="stable")
        place = order_of_keys[np.searchsorted(keys, np.take_along_axis(moved[possible], order, axis=1) @ radix)]
        there.append(_by_class(probabilities[place], order))
        here.append(probabilities[possible])
    # Changes include their opposites, so both orders of every pair are among these.
    return DominatingPairs(np.concatenate(here), np.concatenate(there))


def _by_class(probabilities: NDArray[np.float64], order: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return outcomes of sorted rows in the classes' own order. Outcomes after the classes stay in place."""
    n_classes = order.shape[1]
    outcomes = probabilities.copy()
    outcomes[:, :n_classes] = np.take_along_axis(probabilities[:, :n_classes], np.argsort(order, axis=1), axis=1)
    return outcomes


def _require_symmetry(law: ReleaseLaw, rows: NDArray[np.int64], probabilities: NDArray[np.float64]) -> None:
    """Refuse a law that declares symmetry and lacks it, by trying every order of every sorted row."""
    n_classes = rows.shape[1]
    for order in permutations(range(n_classes)):
        turned = list(order)
        actual = mixed_probabilities(law, rows[:, turned])
        expected = np.column_stack([probabilities[:, turned], probabilities[:, n_classes:]])
        if np.abs(actual - expected).max() > 2 * PROBABILITY_ERROR:
            raise AccountingError(
                f"law={type(law).__name__} declares symmetric=True but does not treat classes alike: set it to False."
            )


def _side_by_side(pairs: DominatingPairs) -> DominatingPairs:
    """Put pairs next to those with nearly the same curve, which lets exact composition group them."""
    corners = vertices(pairs.p, pairs.q)
    # Levels are not halfway between chances that laws have by symmetry, and rounding decides no tie.
    levels = np.round(corners[:, 1, 0] * _N_LEVELS + _OFF)
    order = np.lexsort((ranks(corners[:, 2, 0], _OFF / _N_LEVELS), levels))
    return DominatingPairs(pairs.p[order], pairs.q[order])
