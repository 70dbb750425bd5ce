"""What one unit can change of the votes on a query, and how far the answer to the changed votes can differ.

The differences are Renyi divergences between the answer to given votes and to each way that a unit could change them.

Only the released label counts, never the noisy counts. The law that is priced is the one that is sampled
(mixing included), so the divergences are exact up to a rounding that is always upwards:

- *two classes*: a unit moves the number of votes for the second class, so pairs of rows of one table contain all;
- *three or more classes*: neighbouring rows of counts are listed. Laws that treat all classes alike are priced
  on sorted counts, and of classes with equally many votes only one is moved.

The project's own. The worst case over all votes is `dpensemble.accounting.worst_case`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import integer_between
from dpensemble._entries import Floats, Integers
from dpensemble.cost import DEFAULT_ORDERS, DominatingPairs
from dpensemble.laws import ReleaseLaw, mixed_probabilities
from dpensemble.laws.choice import is_proven
from dpensemble.laws.sampling import PROBABILITY_ERROR

# Tables over all counts stay within seconds and a gigabyte.
_MOST_BALLOTS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Ballots of one weight that one unit can move from any classes to any others. Public.

    Parameters
    ----------
    ballots : int
        Sum of the weights of all ballots, at most a million. When each weighs 1, this is their number.
    classes : int
        Number of declared classes.
    votes : int, default=1
        Most ballots that one unit can change.
    weight : int, default=1
        Weight of each of those ballots. Other units' ballots may have other weights.

    Raises
    ------
    InvalidParameterError
        If a number is out of range.

    Examples
    --------
    >>> Change(ballots=250, classes=2, votes=3, weight=2).moved
    6
    """

    ballots: int
    classes: int
    votes: int = 1
    weight: int = 1

    def __post_init__(self) -> None:
        integer_between("ballots", self.ballots, 1, _MOST_BALLOTS)
        integer_between("classes", self.classes, 2)
        integer_between("votes", self.votes, 1)
        integer_between("weight", self.weight, 1)
        # No more ballots of this weight fit into the sum of all.
        object.__setattr__(self, "votes", min(self.votes, max(1, self.ballots // self.weight)))

    @property
    def moved(self) -> int:
        """Weight of all ballots that can change."""
        return self.votes * self.weight


# Orders 2 to 10, then 12 % apart up to 257, then 30 % apart: at most 0.2 % (above 257: 1 %) of epsilon is lost.
_TARGETS = np.concatenate([np.arange(2, 11), 10 * 1.12 ** np.arange(1, 29), 257 * 1.3 ** np.arange(32)])
FEW_ORDERS: Floats = DEFAULT_ORDERS[
    np.unique(np.searchsorted(DEFAULT_ORDERS, np.minimum(_TARGETS, DEFAULT_ORDERS[-1])))
]
FEW_ORDERS.flags.writeable = False

_BLOCK_PAIRS = 100_000


def _both_ways_rdp(p: Floats, q: Floats, orders: Floats, error: float) -> Floats:
    """Return the larger divergence of either order of each pair, shape (n_pairs, n_orders), rounded up. Private."""
    if not len(p):
        return np.zeros((0, len(orders)))
    pairs = DominatingPairs(p, q).inflated(error)
    return np.maximum(pairs.renyi_of_each(orders), DominatingPairs(pairs.q, pairs.p).renyi_of_each(orders))


def second_class_table(law: ReleaseLaw, n_teachers: int) -> Floats:
    """Return the sampled law of two classes for 0 to `n_teachers` votes for the second class, one row each."""
    second = np.arange(n_teachers + 1)
    return mixed_probabilities(law, np.stack([n_teachers - second, second], axis=1))


def is_rising(table: Floats) -> bool:
    """Return whether there are two outcomes and the second one's chance never falls, so that far rows are worst."""
    return table.shape[1] == 2 and bool(np.all(np.diff(table[:, 1]) >= -PROBABILITY_ERROR))


def shift_rdp(table: Floats, second: Integers, shifts: Integers, orders: Floats) -> tuple[Floats, Floats]:
    """Price moving the votes for the second of two classes down or up by at most each of some rising shifts."""
    counts, back = np.unique(second, return_inverse=True)
    divergences = []
    for sign in (-1, 1):
        moved = np.clip(counts[:, None] + sign * shifts, 0, len(table) - 1)
        rdp = np.zeros((*moved.shape, len(orders)))
        rows, columns = np.nonzero(moved != counts[:, None])
        p, q = table[counts[rows]], table[moved[rows, columns]]
        rdp[rows, columns] = _both_ways_rdp(p, q, orders, PROBABILITY_ERROR)
        divergences.append(np.maximum.accumulate(rdp, axis=1)[back])
    return divergences[0], divergences[1]


def move_rdp(law: ReleaseLaw, counts: Integers, orders: Floats, weight: int = 1) -> Floats:
    """Price moving one ballot from each class to the class where the move reveals most.

    The result has shape (n_queries, n_classes, n_orders).
    """
    alike = law.symmetric and is_proven(law)
    order = np.argsort(-counts, axis=1, kind="stable") if alike else np.argsort(0 * counts, axis=1, kind="stable")
    rows, back = np.unique(np.take_along_axis(counts, order, axis=1), axis=0, return_inverse=True)
    block = max(1, _BLOCK_PAIRS // counts.shape[1] ** 2)
    starts = range(0, len(rows), block)
    parts = [_moves(law, rows[start : start + block], orders, alike, weight) for start in starts]
    ranks = np.argsort(order, axis=1)
    return np.take_along_axis(np.concatenate(parts)[back.ravel()], ranks[:, :, None], axis=1)


def _moves(law: ReleaseLaw, rows: Integers, orders: Floats, alike: bool, weight: int) -> Floats:
    """Return `move_rdp` of distinct rows. If classes are alike the rows are sorted, largest first."""
    n_classes = rows.shape[1]
    # Of classes with equally many votes the last one loses a ballot and the first one gains it.
    last, first = np.ones(rows.shape, dtype=bool), np.ones(rows.shape, dtype=bool)
    if alike:
        last[:, :-1] = first[:, 1:] = rows[:, :-1] != rows[:, 1:]
    losing = last & (rows >= weight)
    queries, source, target = np.nonzero(losing[:, :, None] & first[:, None, :] & ~np.eye(n_classes, dtype=bool))
    moved = rows[queries]
    each = np.arange(len(moved))
    moved[each, source] -= weight
    moved[each, target] += weight
    rdp = neighbours_rdp(law, rows, queries, moved, orders)
    worst = np.zeros((*rows.shape, len(orders)))
    starts = np.flatnonzero(np.diff(queries * n_classes + source, prepend=-1))
    if len(starts):
        worst[queries[starts], source[starts]] = np.maximum.reduceat(rdp, starts, axis=0)
    nearest_last = np.where(last, np.arange(n_classes), n_classes)
    nearest_last = np.minimum.accumulate(nearest_last[:, ::-1], axis=1)[:, ::-1]
    return np.take_along_axis(worst, nearest_last[:, :, None], axis=1)


def neighbours_rdp(law: ReleaseLaw, rows: Integers, queries: Integers, moved: Integers, orders: Floats) -> Floats:
    """Return the divergence, either way, of ``rows[queries]`` from `moved`, shape (n_pairs, n_orders)."""
    distinct, back = np.unique(moved, axis=0, return_inverse=True)
    here, there = mixed_probabilities(law, rows), mixed_probabilities(law, distinct)
    # The law of the sorted row and the sampled one are each within the error of the exact law.
    return _both_ways_rdp(here[queries], there[back.ravel()], orders, 2 * PROBABILITY_ERROR)


def reachable_offsets(n_classes: int, votes: int, limit: int) -> Integers | None:
    """Return all changes of the counts by moving up to `votes` ballots, or None if there are more than `limit`."""
    source, target = np.nonzero(~np.eye(n_classes, dtype=bool))
    steps: NDArray[Any] = np.zeros((len(source), n_classes), dtype=np.int64)
    steps[np.arange(len(steps)), source] -= 1
    steps[np.arange(len(steps)), target] += 1
    offsets = np.zeros((1, n_classes), dtype=np.int64)
    for _ in range(votes):
        further = (offsets[:, None, :] + steps).reshape(-1, n_classes)
        offsets = np.unique(np.concatenate([offsets, further]), axis=0)
        if len(offsets) > limit + 1:
            return None
    return offsets[offsets.any(axis=1)]
