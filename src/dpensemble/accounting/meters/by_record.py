"""Exact accounting for each record: each unit is charged for what its own teachers could have changed of each label.

A unit whose teachers gave some votes can move the counts of a query only so far, and only the label was
released. So its cost is a divergence between two known outcome laws: the largest over all votes that its teachers
could have given instead, and over both orders of the pair. This is never above the published personalised
moments, which charge for noisy counts that are never published.

Every unit has a Renyi curve of its own, and its epsilon is that curve's smallest conversion. That is valid for
each unit separately, since two neighbouring data sets differ in one unit and its curve bounds both orders of the pair.
So the largest epsilon over the units holds for all of them, and it is at most that of the pointwise largest curve.

An added unit is charged like the rest. Under position-based partitions it joins the next free slot. Under
identity-based ones each query is charged for the worst teachers that it could have joined.

References
----------
The project's own analysis of the released label. Jordon et al. 2019, section 4.3 and Theorems 4 and 5 (removal
and addition), for what a unit can change. Composition: I. Mironov, "Renyi differential privacy", CSF 2017, Prop. 1.
"""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray

from dpensemble.accounting.base import Meter
from dpensemble.accounting.change import Change
from dpensemble.accounting.data_dependent import at_orders, largest_cost
from dpensemble.accounting.group import EVERYONE, Group
from dpensemble.accounting.meters.curves import curve_epsilons, leading_fit, rounded_up
from dpensemble.accounting.meters.profiles import profiles_of
from dpensemble.accounting.meters.published_by_record import memberships_of
from dpensemble.accounting.worst_case.answers import refuse_students
from dpensemble.accounting.worst_case.neighbours import FEW_ORDERS
from dpensemble.allocation import Allocation
from dpensemble.budget import Budget
from dpensemble.cost import Conversion, PrivacyCost
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import ReleaseLaw
from dpensemble.relations import Basis
from dpensemble.votes import Votes

# Units and queries in one block: its table of costs stays in the cache.
_UNITS, _QUERIES = 2048, 64


class PerRecordMeter(Meter):
    """Charges each unit for what its own teachers could have changed of each released label. The spend is secret."""

    basis = Basis.DATA_DEPENDENT

    def __init__(
        self, law: ReleaseLaw, allocation: Allocation, budget: Budget, n_classes: int, *, stop_when_spent: bool
    ) -> None:
        refuse_students(law)
        k = _equal_multiplicity(allocation)
        super().__init__((Group(EVERYONE, budget, votes=k),), Conversion.IMPROVED)
        self._profiles = profiles_of(law, allocation.n_teachers, n_classes, k)
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
        for start in range(0, votes.n_queries, _QUERIES):
            if self._closed:
                break
            stop = min(start + _QUERIES, votes.n_queries)
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
