"""The exact data-dependent cost of each answered query: what the released label reveals, given the query's votes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpensemble._checks import integer_between
from dpensemble._entries import Floats
from dpensemble.accounting.neighbours import (
    FEW_ORDERS,
    Change,
    is_rising,
    move_rdp,
    neighbours_rdp,
    reachable_offsets,
    second_class_table,
    shift_rdp,
)
from dpensemble.accounting.price import price
from dpensemble.accounting.worst_case import refuse_students, worst_case_cost
from dpensemble.cost import PrivacyCost
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.laws import ReleaseLaw

# Most histograms listed for a query of three or more classes when several votes can change.
_MOST_NEIGHBOURS = 2_000
_BLOCK_PAIRS = 100_000
# Most pairs of counts of a gated law that are listed for its worst case.
_MOST_GATED_PAIRS = 30_000


def exact_query_rdp(
    law: ReleaseLaw, counts: ArrayLike, orders: ArrayLike = FEW_ORDERS, votes_per_unit: int = 1, ballot_weight: int = 1
) -> Floats:
    """Return the Renyi divergence of each answer from that of its worst neighbour, exact up to rounding up.

    Parameters
    ----------
    law : ReleaseLaw
        The law that answers, with or without a gate that may give no answer.
    counts : array-like of shape (n_queries, n_classes)
        Whole votes, or sums of whole weights, for each class. Private.
    orders : array-like of shape (n_orders,), optional
        Renyi orders above 1. By default a selection of `dpensemble.cost.DEFAULT_ORDERS`.
    votes_per_unit : int, default=1
        Most ballots that one unit can change. Which ballots these are is unknown, so any may move.
    ballot_weight : int, default=1
        Weight of each of those ballots.

    Returns
    -------
    ndarray of shape (n_queries, n_orders)
        The largest divergence over all neighbouring counts and both orders of the pair, in nats. Private.

    Raises
    ------
    DataError
        If `counts` cannot be whole votes.
    InvalidParameterError
        If an order is not above 1 or beyond the largest default order.
    AccountingError
        If the law depends on more than the counts, or has no price for this many votes.

    Notes
    -----
    When several votes of three or more classes can change and more than 2,000 histograms are within reach, the
    result is the worst case over all votes instead.

    References
    ----------
    The project's own (exact accounting of the released label). The published bounds, such as Papernot et al.
    2018, Theorem 6, charge for more than the label, and for one order of the pair only.

    Examples
    --------
    A clear vote of 250 teachers costs a small part of what an even vote costs:

    >>> from dpensemble.laws import LaplaceNoisyMax
    >>> rdp = exact_query_rdp(LaplaceNoisyMax(20.0), [[125, 125], [200, 50]], orders=[8.0])
    >>> round(float(rdp[0, 0]), 4), round(float(rdp[0, 0] / rdp[1, 0]))
    (0.0098, 176)
    """
    table, levels = _whole_votes(counts), _checked_orders(orders)
    votes = integer_between("votes_per_unit", votes_per_unit, 1)
    weight = integer_between("ballot_weight", ballot_weight, 1)
    refuse_students(law)
    if table.shape[1] == 2:
        return _two_classes(law, table, levels, votes, weight)
    rows, back = np.unique(table, axis=0, return_inverse=True)
    return _many_classes(law, rows, levels, votes, weight)[back.ravel()]


def _two_classes(law: ReleaseLaw, counts: NDArray[np.int64], orders: Floats, votes: int, weight: int) -> Floats:
    divergences = np.zeros((len(counts), len(orders)))
    totals = counts.sum(axis=1)
    for total in np.unique(totals).tolist():
        law_table = second_class_table(law, total)
        # A move ends where no votes are left, so steps beyond the total add nothing.
        most = min(votes, -(-total // weight))
        shifts = weight * (np.array([most]) if is_rising(law_table) else np.arange(1, most + 1))
        second, back = np.unique(counts[totals == total, 1], return_inverse=True)
        block = max(1, _BLOCK_PAIRS // max(1, len(shifts)))
        parts = [
            np.maximum(*shift_rdp(law_table, second[start : start + block], shifts, orders)).max(axis=1, initial=0.0)
            for start in range(0, len(second), block)
        ]
        divergences[totals == total] = np.concatenate(parts)[back]
    return divergences


def _many_classes(law: ReleaseLaw, rows: NDArray[np.int64], orders: Floats, votes: int, weight: int) -> Floats:
    n_classes = rows.shape[1]
    if votes == 1:
        block = max(1, 2 * _BLOCK_PAIRS // n_classes**2)
        parts = [move_rdp(law, rows[i : i + block], orders, weight).max(axis=1) for i in range(0, len(rows), block)]
        return np.concatenate(parts) if parts else np.zeros((0, len(orders)))
    offsets = reachable_offsets(n_classes, votes, _MOST_NEIGHBOURS)
    if offsets is None:
        totals = rows.sum(axis=1)
        worst = np.zeros((len(rows), len(orders)))
        # The worst case of fewer ballots can exceed that of more ballots.
        for total in np.unique(totals).tolist():
            change = Change(ballots=max(1, total), classes=n_classes, votes=votes, weight=weight)
            worst[totals == total] = at_orders(largest_cost(law, change), orders)
        return worst
    divergences = np.zeros((len(rows), len(orders)))
    block = max(1, _BLOCK_PAIRS // len(offsets))
    for start in range(0, len(rows), block):
        part = rows[start : start + block]
        moved = part[:, None, :] + weight * offsets
        queries, reached = np.nonzero(np.all(moved >= 0, axis=2))
        rdp = neighbours_rdp(law, part, queries, moved[queries, reached], orders)
        starts = np.flatnonzero(np.diff(queries, prepend=-1))
        if len(starts):
            divergences[start + queries[starts]] = np.maximum.reduceat(rdp, starts, axis=0)
    return divergences


def largest_cost(law: ReleaseLaw, change: Change) -> PrivacyCost:
    """Return the public worst case of one answer, gated or not, as a Renyi curve over the default orders."""
    # Check and label of two classes are also listed together, which is tighter but slow for many votes.
    listable = change.classes == 2 and change.ballots * change.votes <= _MOST_GATED_PAIRS
    return worst_case_cost(law, change) if law.gated and listable else price(law, change).answered


def at_orders(cost: PrivacyCost, orders: Floats) -> Floats:
    """Return a cost's curve at other orders, rounded up. ``(order - 1) * divergence`` is convex in the order."""
    moments = np.interp(
        orders - 1, np.concatenate([[0.0], cost.orders - 1]), np.concatenate([[0.0], cost.rdp * (cost.orders - 1)])
    )
    tabulated = np.isin(orders, cost.orders)
    exact = cost.rdp[np.minimum(np.searchsorted(cost.orders, orders), len(cost.orders) - 1)]
    return np.where(tabulated, exact, moments / (orders - 1) * (1 + 1e-12))


def _whole_votes(counts: ArrayLike) -> NDArray[np.int64]:
    """Return the counts as integers if they can be numbers of ballots."""
    table = np.asarray(counts)
    if table.ndim != 2 or table.shape[1] < 2 or table.dtype.kind not in "iuf":
        raise DataError("counts must be a table of numbers with one row per query and at least two columns.")
    if not np.all((table >= 0) & (table <= 2**31) & (table == np.floor(table))):
        raise DataError("counts must be whole numbers of votes, none of them negative.")
    return table.astype(np.int64)


def _checked_orders(orders: ArrayLike) -> Floats:
    levels = np.asarray(orders, dtype=np.float64)
    if levels.ndim != 1 or not levels.size or not np.all((levels > 1) & (levels <= FEW_ORDERS[-1])):
        raise InvalidParameterError(f"orders must be numbers above 1 and at most {FEW_ORDERS[-1]:g}.")
    return levels
