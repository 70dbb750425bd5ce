"""The published personalised moments accountant of DPBag: data-dependent, one number a unit.

A unit whose ``k`` teachers gave ``a_c`` votes to class ``c`` can change at most ``k - min_c a_c`` votes in a way that
matters. However its teachers vote instead, the counts move by at most ``2 (k - min_c a_c)`` in the L1 norm. The paper
writes this as ``m = max_c (1 - a_c / k)``. The moments of all queries are
``2 / scale**2 * l (l + 1) * sum over queries of (k - min_c a_c)**2``, so one exact integer a unit is the whole state,
and no floating-point array over units and queries is built.

An added unit is charged like the rest. Under position-based partitions it joins the next free slot (the paper's
record ``*``). Under identity-based partitions it may join any subset, so each query is charged at the largest change
over all combinations of subsets. For two classes this is nearly always the data-independent cost.

References
----------
Jordon et al. 2019, section 4.3, Theorems 4 (removal), 5 (addition), 2 (composition) and 3 (conversion).
"""

from collections.abc import Iterator

import numpy as np

from dpensemble._entries import Ballots, Integers
from dpensemble.accounting.base import EVERYONE, Accounting, Group, Meter
from dpensemble.accounting.published import laplace_moments
from dpensemble.allocation import Allocation
from dpensemble.budget import Budget
from dpensemble.cost import PrivacyCost
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import ByLaw, LaplaceNoisyMax, ReleaseLaw
from dpensemble.relations import Basis
from dpensemble.votes import Votes

# Units and queries in one block: its counts stay in the cache.
_UNITS = 2048
_QUERIES = 256


class PublishedPerRecordMeter(Meter):
    """Charges each unit for what its own teachers could have changed. The spend and the end depend on secret votes."""

    basis = Basis.DATA_DEPENDENT
    accounting = "personalised moments accountant, data-dependent (Jordon et al. 2019, Theorems 2 to 5)"

    def __init__(
        self, law: LaplaceNoisyMax, allocation: Allocation, budget: Budget, n_classes: int, *, stop_when_spent: bool
    ) -> None:
        self._scale, self._k = law.scale, allocation.votes_per_unit
        super().__init__((Group(EVERYONE, budget, votes=self._k),), Accounting.PUBLISHED.conversion)
        self._memberships = memberships_of(allocation)
        self._n_subsets = allocation.n_teachers // self._k
        self._any_slot = allocation.next_slot is None
        self._spent = np.zeros(len(self._memberships), dtype=np.int64)
        self._spent_by_addition = 0
        self._affordable = self._cost_of(1).most(budget, self.conversion)
        # The smallest vote share is at most 1/C, so no query costs less than this.
        self._cheapest = (self._k - self._k // n_classes) ** 2
        self._closed = False
        self.fixed_number = not stop_when_spent

    def _cost_of(self, squared_votes: int) -> PrivacyCost:
        return laplace_moments(self._scale, squared_votes)

    @property
    def sure_queries(self) -> int:
        """Number of queries that fit even if every one costs the most."""
        return self._affordable // self._k**2

    @property
    def most_queries(self) -> int:
        """Number of queries that fit if every one costs the least."""
        return self._affordable // self._cheapest

    def admit(self, votes: Votes) -> int:
        """Charge every unit for the leading queries that fit, and return how many."""
        admitted = 0
        for start in range(0, votes.n_queries, _QUERIES):
            if self._closed:
                break
            block = votes.ballots[start : start + _QUERIES]
            fitting = int(np.count_nonzero(self._running_maximum(block, votes.n_classes) <= self._affordable))
            self._closed = fitting < len(block)
            self._charge(block[:fitting], votes.n_classes)
            admitted += fitting
        return self._fixed(admitted, votes.n_queries)

    @property
    def cost(self) -> PrivacyCost:
        """Largest cost of any present or added unit. Private."""
        return self._cost_of(max(int(self._spent.max(initial=0)), self._spent_by_addition))

    @property
    def group_epsilons(self) -> tuple[float, ...]:
        """Largest epsilon of any present or added unit. Private."""
        return (min(self.budget.epsilon, self.cost.epsilon(self.budget.delta, self.conversion)),)

    @property
    def one_query(self) -> PrivacyCost:
        """Most that a single query can cost. Public."""
        return self._cost_of(self._k**2)

    def _running_maximum(self, ballots: Ballots, n_classes: int) -> Integers:
        """Return, after each query, the largest sum of squared votes over all units."""
        running = self._spent_by_addition + np.cumsum(self._added(ballots, n_classes))
        for rows, squares in self._squares(ballots, n_classes):
            sums = np.cumsum(squares, axis=1, dtype=np.int64) + self._spent[rows, None]
            np.maximum(running, sums.max(axis=0), out=running)
        return running

    def _charge(self, ballots: Ballots, n_classes: int) -> None:
        self._spent_by_addition += int(self._added(ballots, n_classes).sum())
        for rows, squares in self._squares(ballots, n_classes):
            self._spent[rows] += squares.sum(axis=1, dtype=np.int64)

    def _squares(self, ballots: Ballots, n_classes: int) -> Iterator[tuple[slice, Ballots]]:
        """Yield blocks of units with the square of the votes each can change, one column a query."""
        by_teacher = np.ascontiguousarray(ballots.T)
        for start in range(0, len(self._memberships), _UNITS):
            rows = slice(start, start + _UNITS)
            yield rows, changeable_votes(by_teacher, self._memberships[rows], n_classes) ** 2

    def _added(self, ballots: Ballots, n_classes: int) -> Integers:
        """Return the square of the votes that an added unit could change, one a query."""
        if not self._any_slot:
            return np.zeros(len(ballots), dtype=np.int64)
        by_partition = ballots.reshape(len(ballots), self._k, self._n_subsets, order="C")
        votes = np.zeros(len(ballots), dtype=np.int64)
        for label in range(n_classes):
            can_avoid = (by_partition != label).any(axis=2).sum(axis=1)
            np.maximum(votes, can_avoid, out=votes)
        return votes**2


@ByLaw
def published_per_record_meter(
    law: ReleaseLaw,
    allocation: Allocation,  # noqa: ARG001
    budget: Budget,  # noqa: ARG001
    n_classes: int,  # noqa: ARG001
    *,
    stop_when_spent: bool,  # noqa: ARG001
) -> PublishedPerRecordMeter:
    """Return the published data-dependent meter of a law."""
    raise InvalidParameterError(
        f"accounting='published' has no data-dependent meter for {type(law).__name__}: the published bounds hold in "
        "one direction only; use accounting='exact', and gnmax_rdp and similar functions to compare."
    )


published_per_record_meter.register(LaplaceNoisyMax)(PublishedPerRecordMeter)


def changeable_votes(ballots_by_teacher: Ballots, memberships: Integers, n_classes: int) -> Ballots:
    """Return ``k - min_c a_c`` for each unit and query, in the smallest type whose square fits. Private."""
    n_units, k = memberships.shape
    shape = (n_units, ballots_by_teacher.shape[1])
    small = np.min_scalar_type(k)
    fewest = np.full(shape, k, dtype=small)
    remaining = np.full(shape, k, dtype=small)
    for label in range(n_classes - 1):
        says_label = (ballots_by_teacher == label).astype(small)
        count = np.zeros(shape, dtype=small)
        for column in memberships.T:
            count += says_label[column]
        remaining -= count
        np.minimum(fewest, count, out=fewest)
    np.minimum(fewest, remaining, out=fewest)
    return (k - fewest.astype(np.min_scalar_type(k**2))).astype(np.min_scalar_type(k**2))


def memberships_of(allocation: Allocation) -> Integers:
    """Return the teachers of each unit as rows, with the unit that would be added last."""
    table = allocation.teachers.reshape(allocation.n_units, allocation.votes_per_unit)
    return table if allocation.next_slot is None else np.vstack([table, allocation.next_slot])
