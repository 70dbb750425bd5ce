"""Meters of public schedules of votes: every answer is charged to each group at the most that it could cost.

A `Certificate` holds what a design or a meter states for a certificate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from dpensemble._checks import integer_between
from dpensemble.accounting.base import Accounting, Group, Meter
from dpensemble.accounting.published import published_price
from dpensemble.accounting.schedule import VotingSchedule, too_small_for_one_label
from dpensemble.accounting.subsampling import SubsampledCost
from dpensemble.accounting.worst_case import Change
from dpensemble.allocation import BootstrapScheme
from dpensemble.budget import Budget
from dpensemble.cost import Conversion, Cost, GatedComposition, PrivacyCost
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.laws import ReleaseLaw
from dpensemble.votes import Votes


class Certificate(Protocol):
    """Takes statements that releases keep a budget. Raises AccountingError if a verifier could not check one."""

    def add_votes(self, budget: Budget, law: ReleaseLaw, change: Change, one: PrivacyCost, answers: int) -> None:
        """State that a number of answers of a law keep a budget."""

    def add_gated(
        self, budget: Budget, law: ReleaseLaw, change: Change, composition: GatedComposition, queries: int
    ) -> None:
        """State that all runs paid by the units of as many answered queries keep a budget."""

    def add_drawn(
        self,
        budget: Budget,
        law: ReleaseLaw,
        run: SubsampledCost,
        scheme: BootstrapScheme,
        n_units: int,
        n_classes: int,
    ) -> None:
        """State that a run of answers keeps a budget when its teachers hold a record by chance."""


#: Cost of an answer to each group, in the order of groups. None where the group's pool sits out.
_Costs = tuple[Cost | None, ...]


class GroupMeter(Meter):
    """Charges each group for what its own records can change, and stops before any group's budget is exceeded."""

    def __init__(
        self,
        schedule: VotingSchedule,
        groups: tuple[Group, ...],
        conversion: Conversion,
        ones: Sequence[_Costs],
        sure: tuple[int, ...],
    ) -> None:
        super().__init__(groups, conversion)
        self.schedule = schedule
        self._ones, self._sure = ones, sure
        # Queries admitted so far, which decide whose turn it is.
        self._asked = 0
        self._closed = False

    @property
    def sure_queries(self) -> int:
        """Number of queries that every group can surely afford. Public."""
        return min(self._sure)

    def next_chunk(self, asked: int) -> int:
        """Return how many queries to ask next, all within the present stage. Public."""
        return self.schedule.left_in_stage(asked, super().next_chunk(asked))

    @property
    def one_query(self) -> Cost:
        """The most that a single query of any stage costs any group. Public."""
        ones = [one for costs in self._ones for one in costs if one is not None]
        return max(ones, key=lambda one: math.inf if one.renyi is None else one.renyi.rdp[0])

    def require_one_query(self) -> None:
        """Refuse budgets if any of them may not cover one answer. The error names the smallest that would do."""
        for group, one, sure in zip(self.groups, self._ones[0], self._sure, strict=True):
            if one is not None and sure < 1:
                raise too_small_for_one_label(group, one, self.conversion)

    def _admissible(self, votes: Votes) -> int:
        """Return how many leading queries belong to the present stage, and require that all of them do."""
        if votes.n_teachers != self.schedule.n_teachers:
            raise DataError(f"votes must be those of all {self.schedule.n_teachers} teachers.")
        if self._closed or not votes.n_queries:
            return 0
        left = self.schedule.left_in_stage(self._asked, votes.n_queries)
        if left < votes.n_queries and self.schedule.stage_at(self._asked)[0] < len(self.schedule.stages) - 1:
            raise InvalidParameterError("votes must not reach beyond the present stage: ask for next_chunk only.")
        return left

    def _admit(self, admitted: int, n_queries: int) -> int:
        """Record the admitted queries. After the first query that did not fit, nothing more is admitted."""
        self._asked += admitted
        self._closed = self._closed or admitted < n_queries
        return admitted


class ScheduledMeter(GroupMeter):
    """Charges every group the most that the answers it had a part in could cost, independently of the votes."""

    def __init__(
        self,
        schedule: VotingSchedule,
        groups: tuple[Group, ...],
        costs: Sequence[_Costs],
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
        points = integer_between("points", self._points if points is None else points, 1)
        costs = list(zip(self.groups, zip(*self._ones, strict=True), strict=True))
        limits = [group.budget.epsilon for group in self.groups]
        curve = self.schedule.spend_curve(costs, self.conversion, self._asked, points)
        return [(count, tuple(map(min, epsilons, limits))) for count, epsilons in curve]

    def _cost(self, number: int, n_queries: int) -> Cost:
        """Return what the first queries cost one group, whose teachers vote on at most `Pool.turns` of a stage."""
        costs = tuple(costs[number] for costs in self._ones)
        return self.schedule.cost(costs, self.groups[number], n_queries)

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
    groups = schedule.checked_groups(groups)
    ones = tuple(stage.costs(groups, n_classes, accounting) for stage in schedule.stages)
    sure = tuple(
        schedule.affordable_queries(costs, group, accounting.conversion, queries)
        for group, costs in zip(groups, zip(*ones, strict=True), strict=True)
    )
    analysis = _analysis(accounting, schedule, len(groups))
    return ScheduledMeter(schedule, groups, ones, sure, analysis, conversion=accounting.conversion)


def _analysis(accounting: Accounting, schedule: VotingSchedule, n_groups: int) -> str:
    if accounting is Accounting.PUBLISHED:
        if n_groups == 1:
            return f"moments accountant, data-independent ({_published_source(schedule.law(0))})"
        return "moments accountant, data-independent, each group at its own sensitivity (Mühl and Boenisch 2022)"
    each = "" if n_groups == 1 else ", each group for its own ballots"
    return f"exact worst case of the released labels over all votes{each}, by {{conversion}}"


def _published_source(law: ReleaseLaw) -> str:
    """Return paper and theorem of the published cost of a law."""
    return published_price(law, Change(ballots=1, classes=2))[1]
