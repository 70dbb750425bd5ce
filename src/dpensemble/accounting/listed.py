r"""Three and more classes without a theory: all histograms of few teachers, and all moves of a ballot.

For laws that treat all classes alike, sorted histograms suffice.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpensemble.accounting.exact_neighbours import reachable_offsets
from dpensemble.cost import DominatingPairs, PrivacyCost
from dpensemble.cost.roc import vertices
from dpensemble.errors import AccountingError
from dpensemble.laws import ReleaseLaw, mixed_probabilities
from dpensemble.laws.sampling import PROBABILITY_ERROR

# Pairs of histograms that are listed within seconds.
_MOST_PAIRS, _MOST_CHANGES, _MOST_TEACHERS = 1_000_000, 10_000, 5_000
_N_LEVELS = 100


@lru_cache(maxsize=16)
def listed_cost(law: ReleaseLaw, n_teachers: int, n_classes: int, votes: int) -> PrivacyCost:
    """Return the exact worst-case cost of one answer, over all histograms and all neighbours.

    Parameters
    ----------
    law : ReleaseLaw
        A law that treats all classes alike.
    n_teachers, n_classes, votes : int
        Ballots of weight 1, declared classes, and ballots that one unit can change.

    Returns
    -------
    PrivacyCost
        With dominating pairs. Public.

    Raises
    ------
    AccountingError
        If there are more than a million pairs.
    """
    changes = reachable_offsets(n_classes, votes, _MOST_CHANGES) if n_teachers <= _MOST_TEACHERS else None
    if changes is None or _n_sorted(n_teachers, n_classes) * len(changes) > _MOST_PAIRS:
        raise AccountingError(
            f"n_classes={n_classes}, n_teachers={n_teachers} and votes_per_unit={votes} give more than "
            f"{_MOST_PAIRS:,} pairs of histograms to price the optimal vote on; use Gaussian noise (gnmax)."
        )
    pairs = _pairs(law, n_teachers, n_classes, changes)
    # The law of the sorted row and the sampled one are each within the error of the exact law.
    return PrivacyCost.of(_side_by_side(pairs).inflated(2 * PROBABILITY_ERROR))


def _n_sorted(total: int, n_parts: int) -> int:
    """Return the number of partitions of `total` into at most `n_parts` parts."""
    ways = [1] + [0] * total
    for part in range(1, n_parts + 1):
        for sum_ in range(part, total + 1):
            ways[sum_] += ways[sum_ - part]
    return ways[total]


def sorted_histograms(total: int, n_classes: int) -> NDArray[np.int64]:
    """Return all rows of counts with that sum, each falling from the first class to the last.

    Examples
    --------
    >>> sorted_histograms(4, 3).tolist()
    [[4, 0, 0], [3, 1, 0], [2, 2, 0], [2, 1, 1]]
    """
    rows, left = np.zeros((1, 0), dtype=np.int64), np.array([total])
    for place in range(n_classes):
        highest = np.minimum(left, rows[:, -1]) if place else left
        # The classes that remain can hold no more than this one does.
        lowest = -(-left // (n_classes - place))
        n_values = np.maximum(highest - lowest + 1, 0)
        parent = np.repeat(np.arange(len(rows)), n_values)
        value = highest[parent] - (np.arange(len(parent)) - (np.cumsum(n_values) - n_values)[parent])
        rows, left = np.column_stack([rows[parent], value]), left[parent] - value
    return rows


def _pairs(law: ReleaseLaw, n_teachers: int, n_classes: int, changes: NDArray[np.int64]) -> DominatingPairs:
    """Return the law of every sorted histogram beside that of each neighbour, in classes' own order."""
    rows = sorted_histograms(n_teachers, n_classes)
    radix = (n_teachers + 1) ** np.arange(n_classes, dtype=np.int64)
    order_of_keys = np.argsort(rows @ radix)
    keys = (rows @ radix)[order_of_keys]
    if np.any(np.diff(keys) <= 0):
        raise AccountingError("histograms of so many classes cannot be told apart in 64 bits; use 'gnmax'.")
    probabilities = mixed_probabilities(law, rows)
    here, there = [], []
    for change in changes:
        moved = rows + change
        possible = moved.min(axis=1) >= 0
        order = np.argsort(-moved[possible], axis=1, kind="stable")
        place = order_of_keys[np.searchsorted(keys, np.take_along_axis(moved[possible], order, axis=1) @ radix)]
        there.append(np.take_along_axis(probabilities[place], np.argsort(order, axis=1), axis=1))
        here.append(probabilities[possible])
    # Changes come with their opposites, so both orders of every pair are among these.
    return DominatingPairs(np.concatenate(here), np.concatenate(there))


def _side_by_side(pairs: DominatingPairs) -> DominatingPairs:
    """Put pairs next to those with nearly the same curve, which lets exact composition group them."""
    corners = vertices(pairs.p, pairs.q)
    order = np.lexsort((corners[:, 2, 0], np.round(corners[:, 1, 0] * _N_LEVELS)))
    return DominatingPairs(pairs.p[order], pairs.q[order])
