"""A schedule whose cost is known beforehand. Every answer is charged the most that it could cost."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpensemble._checks import integer_between
from dpensemble._rounding import round_up
from dpensemble.accounting.base import Accounting
from dpensemble.accounting.group import Group
from dpensemble.accounting.meters.budget_search import affordable_queries, costs_of, prices_of
from dpensemble.accounting.meters.curves import cost_of, epsilons_of, spread
from dpensemble.accounting.meters.group_meter import Costs, GroupMeter, check_groups
from dpensemble.accounting.published.moments import published_source
from dpensemble.accounting.subsampled import SubsampledCost
from dpensemble.cost import Conversion, Cost, PrivacyCost, PureCost
from dpensemble.errors import BudgetError
from dpensemble.votes import Votes
from dpensemble.voting_schedule import VotingSchedule


class ScheduledMeter(GroupMeter):
    """Charges every group the most that the answers it had a part in could cost, independently of the votes."""

    def __init__(
        self,
        schedule: VotingSchedule,
        groups: tuple[Group, ...],
        costs: Sequence[Costs],
        sure: tuple[int, ...],
        analysis: str,
        *,
        conversion: Conversion = Conversion.BEST,
        points: int = 40,
    ) -> None:
        super().__init__(schedule, groups, conversion, costs, sure)
        self._analysis, self._points = analysis, points

    @property
    def accounting(self) -> str:
        """Name and source of the analysis."""
        if "{conversion}" not in self._analysis:
            return self._analysis
        spent = self.cost.renyi or PrivacyCost.zero()
        return self._analysis.format(conversion=spent.best(self.budget.delta)[1].value)

    @property
    def most_queries(self) -> int:
        """The number of queries that surely fit, since the votes play no part."""
        return self.sure_queries

    def admit(self, votes: Votes) -> int:
        """Charge for the leading queries that fit."""
        fitting = min(self._admissible(votes), self.sure_queries - self._asked)
        return self._admit(fitting, votes.n_queries)

    def renyi_costs(self) -> tuple[PrivacyCost | None, ...]:
        """Return what all queries that can be admitted cost each group."""
        return tuple(self._cost(number, self.sure_queries).renyi for number in range(len(self.groups)))

    def next_chunk(self, asked: int) -> int:
        """Return how many queries of the present stage fit."""
        return self.schedule.left_in_stage(asked, max(0, self.sure_queries - asked))

    @property
    def group_epsilons(self) -> tuple[float, ...]:
        """Epsilon charged to each group, never above its own budget. Public."""
        return self._epsilons(self._asked)

    @property
    def cost(self) -> Cost:
        """Cost of all admitted queries for the group with the largest epsilon. Public."""
        return self._cost(int(np.argmax(self.group_epsilons)), self._asked)

    def spend_curve(self, points: int | None = None) -> list[tuple[int, tuple[float, ...]]]:
        """Return numbers of admitted queries and the epsilons that each group was charged for them. Public."""
        counts = spread(self._asked, integer_between("points", self._points if points is None else points, 1))
        curves = [
            np.minimum(
                epsilons_of([self._cost(i, count) for count in counts], group.budget.delta, self.conversion),
                group.budget.epsilon,
            ).tolist()
            for i, group in enumerate(self.groups)
        ]
        return list(zip(counts, zip(*curves, strict=True), strict=True))

    def _cost(self, number: int, n_queries: int) -> Cost:
        """Return what the first queries cost one group, whose teachers vote on at most `Pool.turns` of a stage."""
        costs = tuple(costs[number] for costs in self._ones)
        return cost_of(self.schedule.stages, costs, self.groups[number], n_queries)

    def _epsilons(self, n_queries: int) -> tuple[float, ...]:
        return tuple(
            min(group.budget.epsilon, self._cost(i, n_queries).epsilon(group.budget.delta, self.conversion))
            for i, group in enumerate(self.groups)
        )


def scheduled_meter(
    schedule: VotingSchedule,
    groups: Sequence[Group],
    n_classes: int,
    accounting: Accounting = Accounting.EXACT,
    queries: int | None = None,
) -> ScheduledMeter:
    """Return the meter of a schedule, at the prices of its laws. See `worst_case_meter`."""
    groups, stages = check_groups(schedule.stages, groups), schedule.stages
    ones = tuple(costs_of(prices_of(stage, groups, n_classes, accounting)) for stage in stages)
    sure = tuple(
        affordable_queries(stages, costs, group.pool, group.budget, accounting.conversion, queries)
        for group, costs in zip(groups, zip(*ones, strict=True), strict=True)
    )
    analysis = _analysis(accounting, schedule, len(groups))
    return ScheduledMeter(schedule, groups, ones, sure, analysis, conversion=accounting.conversion)


def _analysis(accounting: Accounting, schedule: VotingSchedule, n_groups: int) -> str:
    if accounting is Accounting.PUBLISHED:
        if n_groups == 1:
            return f"moments accountant, data-independent ({published_source(schedule.law(0))})"
        return "moments accountant, data-independent, each group at its own sensitivity (Mühl and Boenisch 2022)"
    each = "" if n_groups == 1 else ", each group for its own ballots"
    return f"exact worst case of the released labels over all votes{each}, by {{conversion}}"


def pure_answers_meter(
    schedule: VotingSchedule, group: Group, epsilon: float, queries: int, source: str
) -> ScheduledMeter:
    """Return the meter of a public number of answers, each private at `epsilon` with fresh randomness."""
    one, queries = PureCost(epsilon), integer_between("max_labels", queries, 1)
    if not (one * queries).fits(group.budget):
        raise BudgetError(
            f"max_labels={queries} answers of epsilon={epsilon:g} each do not fit epsilon={group.budget.epsilon:g} "
            f"at delta={group.budget.delta:g}: ask for fewer."
        )
    analysis = (
        f"{source}; each answer is {epsilon:.6g}-private with fresh randomness, all of them by optimal composition "
        "(Kairouz, Oh and Viswanath 2017)"
    )
    return ScheduledMeter(schedule, (group,), ((one,),), (queries,), analysis)


def subsampled_meter(
    schedule: VotingSchedule, group: Group, cost: SubsampledCost, queries: int | None = None
) -> ScheduledMeter:
    """Return the meter of runs whose teachers hold a record by chance. `queries` is the total number of queries."""
    analysis = (
        "worst case of the released labels, averaged over how many teachers hold a record, which any does with "
        f"probability {round_up(cost.held, 4):g} (advanced joint convexity: Balle, Barthe and Gaboardi 2018, Theorem 2)"
    )
    sure = (cost.most(group.budget, limit=queries),)
    return ScheduledMeter(schedule, (group,), ((cost,),), sure, analysis, points=12)
