"""Exact data-dependent accounting: what a unit, or a group, could have changed of the labels that were released.

One query
---------
The cost of an answered query is what the released label reveals, given the query's votes (`exact_query_rdp`). The cost
is a Renyi divergence between the answer to given votes and to each way that a unit could change them.

Only the released label counts, never the noisy counts. The law that is priced is the one that is sampled
(mixing included), so the divergences are exact up to a rounding that is always upwards:

- *two classes*: a unit moves the number of votes for the second class, so pairs of rows of one table contain all;
- *three or more classes*: neighbouring rows of counts are listed. Laws that treat all classes alike are priced
  on sorted counts, and of classes with equally many votes only one is moved.

The project's own. The worst case over all votes is `dpensemble.accounting.worst_case`.

Profiles
--------
The profile of a unit's votes determines what the unit could have changed, and what it pays for a query.

Units whose teachers voted alike on a query cost the same there. A profile is a small integer that equal votes share.
So a query's costs are a short table over profiles and orders, and each unit only looks its own row up.

Exact accounting for each record
--------------------------------

A unit whose teachers gave some votes can move the counts of a query only so far, and only the label was
released. So its cost is a divergence between two known outcome laws: the largest over all votes that its teachers
could have given instead, and over both orders of the pair. This is never above the published personalised
moments, which charge for noisy counts that are never published.

Every unit has a Renyi curve of its own, and its epsilon is that curve's smallest conversion. That is valid for
each unit separately, since two neighbouring data sets differ in one unit and its curve bounds both orders of the pair.
So the largest epsilon over the units holds for all of them, and it is at most that of the pointwise largest curve.

An added unit is charged like the rest. Under position-based partitions it joins the next free slot. Under
identity-based ones each query is charged for the worst teachers that it could have joined.

*Sources.* The project's own analysis of the released label. Jordon et al. 2019, section 4.3 and Theorems 4 and 5
(removal and addition), for what a unit can change. Composition: I. Mironov, "Renyi differential privacy", CSF 2017,
Prop. 1.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpensemble._checks import integer_between
from dpensemble._entries import Ballots, Floats, Integers
from dpensemble.accounting.base import EVERYONE, Group, Meter
from dpensemble.accounting.meters.worst_case import GroupMeter
from dpensemble.accounting.price import price
from dpensemble.accounting.published import changeable_votes
from dpensemble.accounting.schedule import Stage, VotingSchedule
from dpensemble.accounting.worst_case import (
    Change,
    reachable_offsets,
    refuse_students,
    second_class_table,
    worst_case_cost,
)
from dpensemble.allocation import Allocation
from dpensemble.cost import DEFAULT_ORDERS, Conversion, DominatingPairs, PrivacyCost
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.laws import ReleaseLaw, mixed_probabilities
from dpensemble.laws.choice import is_proven
from dpensemble.laws.sampling import PROBABILITY_ERROR
from dpensemble.relations import Basis
from dpensemble.votes import Votes

# Orders 2 to 10, then 12 % apart up to 257, then 30 % apart: at most 0.2 % (above 257: 1 %) of epsilon is lost.
_TARGETS = np.concatenate([np.arange(2, 11), 10 * 1.12 ** np.arange(1, 29), 257 * 1.3 ** np.arange(32)])
FEW_ORDERS: Floats = DEFAULT_ORDERS[
    np.unique(np.searchsorted(DEFAULT_ORDERS, np.minimum(_TARGETS, DEFAULT_ORDERS[-1])))
]
FEW_ORDERS.flags.writeable = False

FEW_ORDERS.flags.writeable = False


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
        law_table, rising = second_class_table(law, total)
        # A move ends where no votes are left, so steps beyond the total add nothing.
        most = min(votes, -(-total // weight))
        shifts = weight * (np.array([most]) if rising else np.arange(1, most + 1))
        second, back = np.unique(counts[totals == total, 1], return_inverse=True)
        block = max(1, _BLOCK_PAIRS // max(1, len(shifts)))
        parts = [
            np.maximum(*_shift_rdp(law_table, second[start : start + block], shifts, orders)).max(axis=1, initial=0.0)
            for start in range(0, len(second), block)
        ]
        divergences[totals == total] = np.concatenate(parts)[back]
    return divergences


def _many_classes(law: ReleaseLaw, rows: NDArray[np.int64], orders: Floats, votes: int, weight: int) -> Floats:
    n_classes = rows.shape[1]
    if votes == 1:
        block = max(1, 2 * _BLOCK_PAIRS // n_classes**2)
        parts = [_move_rdp(law, rows[i : i + block], orders, weight).max(axis=1) for i in range(0, len(rows), block)]
        return np.concatenate(parts) if parts else np.zeros((0, len(orders)))
    offsets = reachable_offsets(n_classes, votes, _MOST_NEIGHBOURS)
    if offsets is None:
        totals = rows.sum(axis=1)
        worst = np.zeros((len(rows), len(orders)))
        # The worst case of fewer ballots can exceed that of more ballots.
        for total in np.unique(totals).tolist():
            change = Change(ballots=max(1, total), classes=n_classes, votes=votes, weight=weight)
            worst[totals == total] = _at_orders(_largest_cost(law, change), orders)
        return worst
    divergences = np.zeros((len(rows), len(orders)))
    block = max(1, _BLOCK_PAIRS // len(offsets))
    for start in range(0, len(rows), block):
        part = rows[start : start + block]
        moved = part[:, None, :] + weight * offsets
        queries, reached = np.nonzero(np.all(moved >= 0, axis=2))
        rdp = _neighbours_rdp(law, part, queries, moved[queries, reached], orders)
        starts = np.flatnonzero(np.diff(queries, prepend=-1))
        if len(starts):
            divergences[start + queries[starts]] = np.maximum.reduceat(rdp, starts, axis=0)
    return divergences


def _largest_cost(law: ReleaseLaw, change: Change) -> PrivacyCost:
    """Return the public worst case of one answer, gated or not, as a Renyi curve over the default orders."""
    # Check and label of two classes are also listed together, which is tighter but slow for many votes.
    listable = change.classes == 2 and change.ballots * change.votes <= _MOST_GATED_PAIRS
    return worst_case_cost(law, change) if law.gated and listable else price(law, change).answered


def _at_orders(cost: PrivacyCost, orders: Floats) -> Floats:
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


# Profiles by unit and query, in the smallest type.
_ProfileNumbers = NDArray[np.integer[Any]]


class _Profiles(ABC):
    """What units of one kind, with `k` teachers each, can do to an answer."""

    #: Whether the figures are exact for the given votes rather than an upper bound.
    exact = True

    def __init__(self, law: ReleaseLaw, n_teachers: int, n_classes: int, k: int) -> None:
        self._law, self._n_teachers, self._n_classes, self._k = law, n_teachers, n_classes, k

    @abstractmethod
    def of_units(self, ballots_by_teacher: Ballots, memberships: Integers) -> _ProfileNumbers:
        """Return the profile of each unit on each query, shape (n_units, n_queries). Private."""

    @abstractmethod
    def costs(self, counts: Integers) -> Floats:
        """Return each profile's cost in nats, shape (n_queries, n_profiles, n_orders), rounded up. Private."""

    @abstractmethod
    def of_added(self, ballots: Ballots) -> _ProfileNumbers:
        """Return profiles that are worst for an added unit, given ballots of shape (n_queries, k, n_subsets)."""


class _SecondClassVotes(_Profiles):
    """Two classes: the profile is the number ``a`` of a unit's ``k`` teachers that voted for the second class.

    Whatever the unit's teachers vote instead, the votes ``l`` for that class stay within ``l - a`` and ``l + k - a``.
    """

    def of_units(self, ballots_by_teacher: Ballots, memberships: Integers) -> _ProfileNumbers:
        """Count the teachers of each unit that voted for the second class."""
        small = np.min_scalar_type(self._k)
        says_second = ballots_by_teacher.astype(small)
        votes = np.zeros((len(memberships), ballots_by_teacher.shape[1]), dtype=small)
        for column in memberships.T:
            votes += says_second[column]
        return votes

    def costs(self, counts: Integers) -> Floats:
        """Price the larger of moving ``a`` votes down and ``k - a`` up, both orders of the pair."""
        table, _ = second_class_table(self._law, self._n_teachers)
        down, up = _shift_rdp(table, counts[:, 1], np.arange(self._k + 1), FEW_ORDERS)
        return np.maximum(down, up[:, ::-1])

    def of_added(self, ballots: Ballots) -> _ProfileNumbers:
        """Return the fewest and the most teachers for the second class that an added unit could join."""
        # The cost of moving down rises with ``a`` and that of moving up falls, so one of the ends is worst.
        return np.stack([ballots.min(axis=2).sum(axis=1), ballots.max(axis=2).sum(axis=1)], axis=1, dtype=np.int64)


class _OneBallot(_Profiles):
    """One teacher a unit: the profile is the class that it voted for."""

    def of_units(self, ballots_by_teacher: Ballots, memberships: Integers) -> _ProfileNumbers:
        """Look the ballot of each unit's teacher up."""
        return ballots_by_teacher[memberships[:, 0]]

    def costs(self, counts: Integers) -> Floats:
        """Price moving a ballot from each class to the class where the move reveals most."""
        return _move_rdp(self._law, counts, FEW_ORDERS)

    def of_added(self, ballots: Ballots) -> _ProfileNumbers:
        """Return all classes. Classes without votes cost nothing."""
        return np.tile(np.arange(self._n_classes), (len(ballots), 1))


class _ChangeableVotes(_Profiles):
    """Several teachers a unit and three or more classes: the profile is the number of votes that can change.

    If a unit whose teachers gave ``a_c`` votes to class ``c`` votes differently, the result equals moving at most
    ``k - min_c a_c`` ballots (Jordon et al. 2019, section 4.3). The price is the worst case over all votes.
    """

    exact = False

    def __init__(self, law: ReleaseLaw, n_teachers: int, n_classes: int, k: int) -> None:
        super().__init__(law, n_teachers, n_classes, k)
        fewest = k - k // n_classes
        self._curves = np.zeros((k + 1, len(FEW_ORDERS)))
        for votes in range(fewest, k + 1):
            change = Change(ballots=n_teachers, classes=n_classes, votes=votes)
            self._curves[votes] = _at_orders(_largest_cost(law, change), FEW_ORDERS)

    def of_units(self, ballots_by_teacher: Ballots, memberships: Integers) -> _ProfileNumbers:
        """Count the votes that each unit can change."""
        return changeable_votes(ballots_by_teacher, memberships, self._n_classes)

    def costs(self, counts: Integers) -> Floats:
        """Return the worst case at each number of votes, the same for every query."""
        return np.broadcast_to(self._curves, (len(counts), *self._curves.shape))

    def of_added(self, ballots: Ballots) -> _ProfileNumbers:
        """Return the most votes an added unit could change: in a partition it may avoid a class if any does."""
        avoiding = [(ballots != label).any(axis=2).sum(axis=1) for label in range(self._n_classes)]
        return np.max(avoiding, axis=0)[:, None]


def _profiles_of(law: ReleaseLaw, n_teachers: int, n_classes: int, k: int) -> _Profiles:
    """Return the kind of profiles that is exact where one is known."""
    if n_classes == 2:
        return _SecondClassVotes(law, n_teachers, n_classes, k)
    return (_OneBallot if k == 1 else _ChangeableVotes)(law, n_teachers, n_classes, k)


# Units and queries in one block: its table of costs stays in the cache.
_UNITS, _RECORD_QUERIES = 2048, 64


class PerRecordMeter(Meter):
    """Charges each unit for what its own teachers could have changed of each released label. The spend is secret."""

    basis = Basis.DATA_DEPENDENT

    def __init__(
        self, law: ReleaseLaw, allocation: Allocation, budget: Budget, n_classes: int, *, stop_when_spent: bool
    ) -> None:
        refuse_students(law)
        k = _equal_multiplicity(allocation)
        super().__init__((Group(EVERYONE, budget, votes=k),), Conversion.IMPROVED)
        self._profiles = _profiles_of(law, allocation.n_teachers, n_classes, k)
        worst = _largest_cost(law, Change(ballots=allocation.n_teachers, classes=n_classes, votes=k))
        self._worst = _at_orders(worst, FEW_ORDERS)
        # Units with the same teachers cost the same.
        self._memberships, rows = np.unique(allocation.memberships, axis=0, return_inverse=True)
        self._row_of_unit = rows.ravel()[: allocation.n_units]
        self._by_partition = _partition_shape(allocation, k) if allocation.next_slot is None else None
        # If a unit may be added anywhere, the last row stands for that unit.
        self._spent = np.zeros((len(self._memberships) + (self._by_partition is not None), len(FEW_ORDERS)))
        self._affordable = self.one_query.most(budget, self.conversion)
        self.fixed_number, self._closed = not stop_when_spent, False

    @property
    def accounting(self) -> str:
        """Name of the analysis."""
        if self._profiles.exact:
            return "exact accounting for each record of the released labels, data-dependent"
        return "accounting for each record by the worst case of the released labels, data-dependent"

    @property
    def sure_queries(self) -> int:
        """Number of queries that fit even if every one costs the most."""
        return self._affordable

    @property
    def most_queries(self) -> int:
        """No limit. Answers on which all teachers agree may cost almost nothing."""
        return sys.maxsize

    def next_chunk(self, asked: int) -> int:
        """Return how many queries to ask next: all of them if their number is fixed. Public."""
        return sys.maxsize if self.fixed_number else max(super().next_chunk(asked), asked // 4)

    def admit(self, votes: Votes) -> int:
        """Charge every unit for the leading queries that fit. Return how many, or refuse fewer than a fixed number."""
        admitted = 0
        for start in range(0, votes.n_queries, _RECORD_QUERIES):
            if self._closed:
                break
            stop = min(start + _RECORD_QUERIES, votes.n_queries)
            fitting = self._charge(votes.ballots[start:stop], votes.counts[start:stop])
            self._closed = fitting < stop - start
            admitted += fitting
        return self._fixed(admitted, votes.n_queries)

    @property
    def cost(self) -> PrivacyCost:
        """Pointwise largest curve of any present or added unit. Private."""
        return PrivacyCost(rdp=self._spent.max(axis=0), orders=FEW_ORDERS)

    @property
    def one_query(self) -> PrivacyCost:
        """Most that a single query can cost. Public."""
        return _rounded_up(self._worst)

    @property
    def group_epsilons(self) -> tuple[float, ...]:
        """Largest epsilon of any present or added unit. Private."""
        return (min(self.budget.epsilon, float(_curve_epsilons(self._spent, self.budget.delta).max())),)

    def unit_epsilons(self) -> NDArray[np.float64]:
        """Return what each present unit has spent at the budget's delta, rounded up, shape (n_units,). Private."""
        return _curve_epsilons(self._spent, self.budget.delta)[self._row_of_unit]

    def _charge(self, ballots: NDArray[np.unsignedinteger], counts: NDArray[np.int64]) -> int:
        """Charge for the leading queries of a block that fit for every unit, and return how many."""
        costs = np.minimum(self._profiles.costs(counts), self._worst)
        fitting, self._spent = _leading_fit(
            self._spent,
            lambda n_queries: self._sums(ballots[:n_queries], costs[:n_queries]),
            len(ballots),
            self.budget.epsilon,
            self.budget.delta,
        )
        return fitting

    def _sums(self, ballots: NDArray[np.unsignedinteger], costs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what a few queries cost each distinct unit, shape (n_rows, n_orders)."""
        from scipy.sparse import csr_array  # noqa: PLC0415  takes long to import

        n_queries, n_profiles, n_orders = costs.shape
        table = np.ascontiguousarray(costs).reshape(-1, n_orders)
        first = np.arange(n_queries, dtype=np.int32) * n_profiles
        by_teacher = np.ascontiguousarray(ballots.T)
        sums = np.empty_like(self._spent)
        for start in range(0, len(self._memberships), _UNITS):
            members = self._memberships[start : start + _UNITS]
            places = self._profiles.of_units(by_teacher, members) + first
            # A matrix with one 1 for each query a row: its product with the table gathers and adds at once.
            ends = np.arange(len(members) + 1, dtype=np.int32) * n_queries
            selection = csr_array((np.ones(places.size), places.ravel(), ends), shape=(len(members), len(table)))
            sums[start : start + len(members)] = selection @ table
        if self._by_partition is not None:
            profiles = self._profiles.of_added(ballots.reshape(n_queries, *self._by_partition))
            sums[-1] = costs[np.arange(n_queries)[:, None], profiles].max(axis=1).sum(axis=0)
        return sums


def _equal_multiplicity(allocation: Allocation) -> int:
    """Return how many teachers every unit touches."""
    k = allocation.votes_per_unit
    joins = k if allocation.next_slot is None else allocation.next_slot.size
    if k < 1 or joins != k or np.any(allocation.multiplicity != k):
        raise InvalidParameterError("allocation must give every unit the same number of teachers, at least one.")
    return k


def _partition_shape(allocation: Allocation, k: int) -> tuple[int, int]:
    """Return the numbers of partitions and of subsets, if each unit has one teacher of each partition in turn."""
    n_subsets, rest = divmod(allocation.n_teachers, k)
    if rest or np.any(allocation.teachers.reshape(-1, k) // n_subsets != np.arange(k)):
        raise InvalidParameterError("allocation must define where an added unit goes, or consist of partitions.")
    return k, n_subsets


# Queries priced at once.
_GROUP_QUERIES = 1024


class DataDependentGroupMeter(GroupMeter):
    """Charges each group exactly for what the ballots of one of its records could have changed. The spend is secret."""

    basis = Basis.DATA_DEPENDENT

    def __init__(
        self, schedule: VotingSchedule, groups: Sequence[Group], n_classes: int, *, stop_when_spent: bool
    ) -> None:
        groups = schedule.checked_groups(groups)
        ones = tuple(_largest_costs(stage, groups, n_classes) for stage in schedule.stages)
        sure = tuple(
            schedule.affordable_queries(costs, group, Conversion.IMPROVED)
            for group, costs in zip(groups, zip(*ones, strict=True), strict=True)
        )
        super().__init__(schedule, groups, Conversion.IMPROVED, ones, sure)
        self._worst = ones
        self._payers = schedule.payers(groups)
        self._spent = np.zeros((len(self._payers.group), len(FEW_ORDERS)))
        self._budgets = np.array([group.budget.epsilon for group in groups])[self._payers.group]
        self.fixed_number = not stop_when_spent

    @property
    def accounting(self) -> str:
        """Name of the analysis."""
        return "exact accounting of the released labels, each group for its own ballots, data-dependent"

    @property
    def most_queries(self) -> int:
        """The length of the schedule. Answers on which all teachers agree may cost almost nothing."""
        ends = self.schedule.n_queries
        return sys.maxsize if ends is None else ends

    def next_chunk(self, asked: int) -> int:
        """Return how many queries to ask next: all of the stage if their number is fixed. Public."""
        most = sys.maxsize if self.fixed_number else max(super().next_chunk(asked), asked // 4)
        return self.schedule.left_in_stage(asked, most)

    def admit(self, votes: Votes) -> int:
        """Charge every group for the leading queries that fit. Return how many, or refuse fewer than a fixed number."""
        here, admitted = self._admissible(votes), 0
        counts = self.schedule.counts(votes, self._asked)[:here] if here else votes.counts[:0]
        for start in range(0, here, _GROUP_QUERIES):
            stop = min(start + _GROUP_QUERIES, here)
            fitting = self._charge(counts[start:stop], self._asked + start)
            admitted += fitting
            if fitting < stop - start:
                break
        self._admit(admitted, votes.n_queries)
        return self._fixed(admitted, votes.n_queries)

    @property
    def group_epsilons(self) -> tuple[float, ...]:
        """Largest epsilon of any record of each group, never above its own budget. Private."""
        epsilons = np.minimum(_curve_epsilons(self._spent, self.budget.delta), self._budgets)
        return self._payers.largest(epsilons, len(self.groups))

    @property
    def cost(self) -> PrivacyCost:
        """Curve of the records with the largest epsilon. Private."""
        number = int(np.argmax(_curve_epsilons(self._spent, self.budget.delta)))
        return PrivacyCost(rdp=self._spent[number], orders=FEW_ORDERS)

    def _charge(self, counts: NDArray[np.int64], asked: int) -> int:
        """Charge for the leading queries of a block of one stage that fit every budget, and return how many."""
        costs = self._costs(counts, asked)
        taking_part = self._payers.taking_part(self.schedule, asked, len(counts)).astype(np.float64)

        def added(n_queries: int) -> NDArray[np.float64]:
            sums = np.zeros_like(self._spent)
            for group, cost in enumerate(costs):
                rows = self._payers.group == group
                sums[rows] = taking_part[:n_queries, rows].T @ cost[:n_queries]
            return sums

        fitting, self._spent = _leading_fit(self._spent, added, len(counts), self._budgets, self.budget.delta)
        return fitting

    def _costs(self, counts: NDArray[np.int64], asked: int) -> list[NDArray[np.float64]]:
        """Return what each query costs each group if it takes part, shape (n_queries, n_orders) each. Private."""
        stage_number, _ = self.schedule.stage_at(asked)
        stage, rdp_by_change = self.schedule.stages[stage_number], {}
        costs = []
        for group, worst in zip(self.groups, self._worst[stage_number], strict=True):
            if worst is None:
                costs.append(np.zeros((len(counts), len(FEW_ORDERS))))
                continue
            change = group.votes, stage.pools[group.pool].ballot
            if change not in rdp_by_change:
                exact = exact_query_rdp(stage.law, counts, FEW_ORDERS, *change)
                rdp_by_change[change] = np.minimum(exact, worst.rdp)
            costs.append(rdp_by_change[change])
        return costs


def _largest_costs(stage: Stage, groups: tuple[Group, ...], n_classes: int) -> tuple[PrivacyCost | None, ...]:
    """Return the public worst case of one answer for each group, at the stored orders."""
    refuse_students(stage.law)
    costs: list[PrivacyCost | None] = []
    for group in groups:
        if not stage.pools[group.pool].participants:
            costs.append(None)
            continue
        worst = _largest_cost(stage.law, stage.change_by(group, n_classes))
        costs.append(_rounded_up(_at_orders(worst, FEW_ORDERS)))
    return tuple(costs)


def _both_ways_rdp(p: Floats, q: Floats, orders: Floats, error: float) -> Floats:
    """Return the larger divergence of either order of each pair, shape (n_pairs, n_orders), rounded up. Private."""
    if not len(p):
        return np.zeros((0, len(orders)))
    pairs = DominatingPairs(p, q).inflated(error)
    return np.maximum(pairs.renyi_of_each(orders), DominatingPairs(pairs.q, pairs.p).renyi_of_each(orders))


def _shift_rdp(table: Floats, second: Integers, shifts: Integers, orders: Floats) -> tuple[Floats, Floats]:
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


def _move_rdp(law: ReleaseLaw, counts: Integers, orders: Floats, weight: int = 1) -> Floats:
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
    """Return `_move_rdp` of distinct rows. If classes are alike the rows are sorted, largest first."""
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
    rdp = _neighbours_rdp(law, rows, queries, moved, orders)
    worst = np.zeros((*rows.shape, len(orders)))
    starts = np.flatnonzero(np.diff(queries * n_classes + source, prepend=-1))
    if len(starts):
        worst[queries[starts], source[starts]] = np.maximum.reduceat(rdp, starts, axis=0)
    nearest_last = np.where(last, np.arange(n_classes), n_classes)
    nearest_last = np.minimum.accumulate(nearest_last[:, ::-1], axis=1)[:, ::-1]
    return np.take_along_axis(worst, nearest_last[:, :, None], axis=1)


def _neighbours_rdp(law: ReleaseLaw, rows: Integers, queries: Integers, moved: Integers, orders: Floats) -> Floats:
    """Return the divergence, either way, of ``rows[queries]`` from `moved`, shape (n_pairs, n_orders)."""
    distinct, back = np.unique(moved, axis=0, return_inverse=True)
    here, there = mixed_probabilities(law, rows), mixed_probabilities(law, distinct)
    # The law of the sorted row and the sampled one are each within the error of the exact law.
    return _both_ways_rdp(here[queries], there[back.ravel()], orders, 2 * PROBABILITY_ERROR)


def _rounded_up(curve: Floats) -> PrivacyCost:
    """Return the public worst case, above any sum of floating-point costs by more than its rounding."""
    return PrivacyCost(rdp=curve * (1 + 1e-9), orders=FEW_ORDERS)


def _curve_epsilons(spent: Floats, delta: float) -> Floats:
    """Convert curves to epsilons as `dpensemble.cost.privacy_cost.improved_epsilon` does, one a row."""
    beyond = np.log1p(-1 / FEW_ORDERS) - (np.log(delta) + np.log(FEW_ORDERS)) / (FEW_ORDERS - 1)
    epsilons = (np.maximum((spent + beyond).min(axis=1), 0.0) + 1e-13) * (1 + 1e-13)
    return np.where(spent.any(axis=1), epsilons, 0.0)


def _leading_fit(
    spent: Floats, added: Callable[[int], Floats], n_queries: int, epsilons: float | Floats, delta: float
) -> tuple[int, Floats]:
    """Return how many leading queries leave every curve within its epsilon, and the curves including these queries."""
    fitting, too_many, sums = 0, n_queries + 1, spent
    while too_many - fitting > 1:
        candidate = spent + added(n_queries)
        if np.all(_curve_epsilons(candidate, delta) <= epsilons):
            fitting, sums = n_queries, candidate
        else:
            too_many = n_queries
        n_queries = (fitting + too_many) // 2
    return fitting, sums
