"""Data-dependent meters: what each unit, or each group, could have changed of the labels that were released.

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
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpensemble._entries import Ballots, Floats, Integers
from dpensemble.accounting.base import EVERYONE, Group, Meter
from dpensemble.accounting.data_dependent import at_orders, exact_query_rdp, largest_cost
from dpensemble.accounting.meters.published_by_record import changeable_votes, memberships_of
from dpensemble.accounting.meters.scheduled import (
    GroupMeter,
    Payers,
    affordable_queries,
    change_by,
    check_groups,
    curve_epsilons,
    leading_fit,
    rounded_up,
)
from dpensemble.accounting.neighbours import FEW_ORDERS, Change, move_rdp, second_class_table, shift_rdp
from dpensemble.accounting.schedule import Stage, VotingSchedule
from dpensemble.accounting.worst_case import refuse_students
from dpensemble.allocation import Allocation
from dpensemble.budget import Budget
from dpensemble.cost import Conversion, PrivacyCost
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import ReleaseLaw
from dpensemble.relations import Basis
from dpensemble.votes import Votes

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
        table = second_class_table(self._law, self._n_teachers)
        down, up = shift_rdp(table, counts[:, 1], np.arange(self._k + 1), FEW_ORDERS)
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
        return move_rdp(self._law, counts, FEW_ORDERS)

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
            self._curves[votes] = at_orders(largest_cost(law, change), FEW_ORDERS)

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
        worst = largest_cost(law, Change(ballots=allocation.n_teachers, classes=n_classes, votes=k))
        self._worst = at_orders(worst, FEW_ORDERS)
        # Units with the same teachers cost the same.
        self._memberships, rows = np.unique(memberships_of(allocation), axis=0, return_inverse=True)
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
        return rounded_up(self._worst)

    @property
    def group_epsilons(self) -> tuple[float, ...]:
        """Largest epsilon of any present or added unit. Private."""
        return (min(self.budget.epsilon, float(curve_epsilons(self._spent, self.budget.delta).max())),)

    def unit_epsilons(self) -> NDArray[np.float64]:
        """Return what each present unit has spent at the budget's delta, rounded up, shape (n_units,). Private."""
        return curve_epsilons(self._spent, self.budget.delta)[self._row_of_unit]

    def _charge(self, ballots: NDArray[np.unsignedinteger], counts: NDArray[np.int64]) -> int:
        """Charge for the leading queries of a block that fit for every unit, and return how many."""
        costs = np.minimum(self._profiles.costs(counts), self._worst)
        fitting, self._spent = leading_fit(
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
        groups = check_groups(schedule.stages, groups)
        ones = tuple(_largest_costs(stage, groups, n_classes) for stage in schedule.stages)
        sure = tuple(
            affordable_queries(schedule.stages, costs, group.pool, group.budget, Conversion.IMPROVED)
            for group, costs in zip(groups, zip(*ones, strict=True), strict=True)
        )
        super().__init__(schedule, groups, Conversion.IMPROVED, ones, sure)
        self._worst = ones
        self._payers = Payers.of(schedule, groups)
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
        epsilons = np.minimum(curve_epsilons(self._spent, self.budget.delta), self._budgets)
        return self._payers.largest(epsilons, len(self.groups))

    @property
    def cost(self) -> PrivacyCost:
        """Curve of the records with the largest epsilon. Private."""
        number = int(np.argmax(curve_epsilons(self._spent, self.budget.delta)))
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

        fitting, self._spent = leading_fit(self._spent, added, len(counts), self._budgets, self.budget.delta)
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
        worst = largest_cost(stage.law, change_by(stage, group, n_classes))
        costs.append(rounded_up(at_orders(worst, FEW_ORDERS)))
    return tuple(costs)
