"""Groups charged for what their ballots could have changed of the released labels. Data-dependent."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpensemble.accounting.data_dependent import at_orders, exact_query_rdp, largest_cost
from dpensemble.accounting.group import Group
from dpensemble.accounting.meters.budget_search import affordable_queries, change_by
from dpensemble.accounting.meters.curves import curve_epsilons, leading_fit, rounded_up
from dpensemble.accounting.meters.group_meter import GroupMeter, check_groups
from dpensemble.accounting.meters.payers import Payers
from dpensemble.accounting.worst_case.answers import refuse_students
from dpensemble.accounting.worst_case.neighbours import FEW_ORDERS
from dpensemble.cost import Conversion, PrivacyCost
from dpensemble.relations import Basis
from dpensemble.votes import Votes
from dpensemble.voting_schedule import Stage, VotingSchedule

# Queries priced at once.
_QUERIES = 1024


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
        for start in range(0, here, _QUERIES):
            stop = min(start + _QUERIES, here)
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
