"""PATE's data-dependent cost of one query at every possible vote, and the votes that one teacher turns it into.

When all sorted histograms can be listed, the table needs no approximation. The cost of each is the published bound. Its
local sensitivity is the largest difference to a neighbour, and that at distance ``d`` is the largest within ``d`` steps
from neighbour to neighbour. The threshold uses the highest count only. A teacher moves that count by at most one, and
the count is at least the share of one class.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from dpensemble.accounting.published.bounds import gaussian_rdp
from dpensemble.accounting.published.probabilities import gnmax_log_error

# Moves from one sorted histogram to another: three classes up to 770 teachers, four up to 150.
_MOST_MOVES = 300_000


@dataclass(frozen=True, slots=True, eq=False)
class ListedTable:
    """One query's cost at every state of the votes, in nats, and how far one teacher can move it from there."""

    cost: NDArray[np.float64]
    change: NDArray[np.float64]
    # States that one teacher turns each into, shape (n_states, n_moves), and their public numbers, ascending.
    moves: NDArray[np.int64]
    keys: NDArray[np.int64]
    # The numbers that the index of a vote is made of. None for the highest count.
    weights: NDArray[np.int64] | None

    def positions(self, counts: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the state of each query's counts. Private."""
        votes = -np.sort(-counts.astype(np.int64), axis=1)
        number = votes[:, 0] if self.weights is None else votes @ self.weights
        return np.searchsorted(self.keys, number)

    def spread(self, change: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the largest of each state's own value and those one teacher away."""
        return np.maximum(change, change[self.moves].max(axis=1))


@lru_cache(maxsize=16)
def answer_table(
    sigma: float, n_classes: int, order: float, n_teachers: int, both_directions: bool
) -> ListedTable | None:
    """Tabulate GNMax at all sorted histograms, or return None if they are too many. Public."""
    if _number_of_moves(n_teachers, n_classes) > _MOST_MOVES:
        return None
    rows = np.array(_sorted_histograms(n_teachers, n_classes, n_teachers), dtype=np.int64)
    weights = (n_teachers + 1) ** np.arange(n_classes - 1, -1, -1, dtype=np.int64)
    rows = rows[np.argsort(rows @ weights)]
    keys = rows @ weights
    moves = []
    for giver, taker in permutations(range(n_classes), 2):
        moved = rows.copy()
        moved[:, giver] -= 1
        moved[:, taker] += 1
        numbers = -np.sort(-moved, axis=1) @ weights
        # A class without votes has none to give.
        here = np.where(rows[:, giver] > 0, np.searchsorted(keys, numbers), np.arange(len(rows)))
        moves.append(here)
    return _table(gnmax_log_error(rows, sigma), sigma, order, np.stack(moves, axis=1), keys, weights, both_directions)


@lru_cache(maxsize=16)
def threshold_table(
    threshold: float, threshold_sigma: float, n_classes: int, order: float, n_teachers: int, both_directions: bool
) -> ListedTable:
    """Tabulate the noisy threshold at all highest counts. Public."""
    highest = np.arange(-(-n_teachers // n_classes), n_teachers + 1)
    log_error = np.maximum(log_ndtr(-np.abs(highest - threshold) / threshold_sigma), -1e15)
    here = np.arange(len(highest))
    moves = np.stack([np.maximum(here - 1, 0), np.minimum(here + 1, here[-1])], axis=1)
    # A teacher moves one count and not two: the threshold is a vote of two classes at sqrt(2) sigma.
    return _table(log_error, math.sqrt(2) * threshold_sigma, order, moves, highest, None, both_directions)


def _table(
    log_error: NDArray[np.float64],
    sigma: float,
    order: float,
    moves: NDArray[np.int64],
    keys: NDArray[np.int64],
    weights: NDArray[np.int64] | None,
    both_directions: bool,
) -> ListedTable:
    likeliest = np.argsort(-log_error, kind="stable")
    cost = np.empty(len(keys))
    # The bound holds for any larger chance of missing, so the smallest of those may be taken.
    cost[likeliest] = np.minimum.accumulate(gaussian_rdp(log_error[likeliest], sigma, np.array([order]))[:, 0])
    if both_directions:
        # The neighbour's bound is charged, too.
        cost = np.maximum(cost, cost[moves].max(axis=1))
    change = np.abs(cost[:, None] - cost[moves]).max(axis=1)
    return ListedTable(cost, change, moves, keys, weights)


def _number_of_moves(total: int, classes: int) -> float:
    """Return how many neighbours all sorted histograms have together, or infinity if the number would not fit."""
    if classes > 12 or math.comb(total + classes - 1, classes - 1) / math.factorial(classes) > _MOST_MOVES:
        return math.inf
    if (total + 1) ** classes >= 2**62:
        return math.inf
    # Partitions of the total into parts of bounded size.
    ways = np.zeros(total + 1)
    ways[0] = 1
    for size in range(1, classes + 1):
        for number in range(size, total + 1):
            ways[number] += ways[number - size]
    return float(ways[total]) * classes * (classes - 1)


def _sorted_histograms(total: int, classes: int, most: int) -> list[tuple[int, ...]]:
    if classes == 1:
        return [(total,)] if total <= most else []
    lowest = -(-total // classes)
    return [
        (first, *rest)
        for first in range(lowest, min(total, most) + 1)
        for rest in _sorted_histograms(total - first, classes - 1, first)
    ]
