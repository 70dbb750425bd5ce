"""A schedule whose cost is known beforehand: every answer is charged the most that it could cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpensemble._checks import integer_between
from dpensemble._rounding import round_up
from dpensemble.accounting.base import Accounting
from dpensemble.accounting.group import Group
from dpensemble.accounting.meters.budget_search import affordable_queries, costs_of, prices_of
from dpensemble.accounting.meters.curves import cost_of, epsilons_of, spread
from dpensemble.accounting.meters.group_meter import Costs, GroupMeter, check_groups, too_small
from dpensemble.accounting.published.moments import published_source
from dpensemble.accounting.subsampled import SubsampledCost
from dpensemble.cost import Conversion, Cost, PrivacyCost, PureCost
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.votes import Votes
from dpensemble.voting_schedule import Stage, VotingSchedule


class ScheduledMeter(GroupMeter):
    """Charges every group the most that the answers it had a part in could cost; the votes play no part.

    Parameters
    ----------
    schedule : VotingSchedule
        Who votes on which query, under laws without a gate.
    groups : tuple of Group
        Whose records.
    costs : sequence of Costs
        Most that one answer of each stage costs each group that takes part.
    sure : tuple of int
        Queries that each group can afford.
    analysis : str
        Name and source of the analysis; ``{conversion}`` stands for that of what was spent.
    conversion : Conversion, default="best"
        How costs become epsilons.
    points : int, default=40
        Largest number of points of the spend curve.

    Notes
    -----
    A record's teachers vote on at most `Pool.turns` queries of a stage; only those depend on it; turns are public.
    """

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
        """The same number as surely fit: the votes play no part."""
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
        """What each group was charged, never above its own budget; public."""
        return self._epsilons(self._asked)

    @property
    def cost(self) -> Cost:
        """Cost of all admitted queries for the group with the largest epsilon; public."""
        return self._cost(int(np.argmax(self.group_epsilons)), self._asked)

    def spend_curve(self, points: int | None = None) -> list[tuple[int, tuple[float, ...]]]:
        """Return numbers of admitted queries and the epsilons that each group was charged for them; public."""
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
        """Return what the first queries cost one group."""
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
    """Return the meter of a schedule, at the prices of its laws; see `worst_case_meter`.

    Examples
    --------
    >>> from dpensemble.budget import Budget
    >>> from dpensemble.voting_schedule import Pool
    >>> from dpensemble.laws import GaussianNoisyMax
    >>> groups = [Group("cautious", Budget(epsilon=1, delta=1e-5), pool=0),
    ...           Group("open", Budget(epsilon=2, delta=1e-5), pool=1)]
    >>> stage = Stage(GaussianNoisyMax(60.0), (Pool(100, 100, ballot=1), Pool(100, 100, ballot=2)))
    >>> scheduled_meter(VotingSchedule((stage,)), groups, 2, Accounting.PUBLISHED).sure_queries
    72
    """
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
    """Return the meter of a public number of answers, each private at an epsilon by fresh randomness.

    Parameters
    ----------
    schedule : VotingSchedule
        Of one stage, in which everybody votes.
    group : Group
        Whose records.
    epsilon : float
        Privacy of one answer.
    queries : int
        Most answers.
    source : str
        What makes an answer private, for the guarantee.

    Raises
    ------
    BudgetError
        If that many answers do not fit.
    """
    one, queries = PureCost(epsilon), integer_between("max_labels", queries, 1)
    if not (one * queries).fits(group.budget):
        raise BudgetError(
            f"max_labels={queries} answers of epsilon={epsilon:g} each do not fit epsilon={group.budget.epsilon:g} "
            f"at delta={group.budget.delta:g}; ask for fewer."
        )
    analysis = (
        f"{source}; each answer is {epsilon:.6g}-private with fresh randomness, all of them by optimal composition "
        "(Kairouz, Oh and Viswanath 2017)"
    )
    return ScheduledMeter(schedule, (group,), ((one,),), (queries,), analysis)


def subsampled_meter(
    schedule: VotingSchedule, group: Group, cost: SubsampledCost, queries: int | None = None
) -> ScheduledMeter:
    """Return the meter of runs whose teachers hold a record by chance.

    Parameters
    ----------
    schedule : VotingSchedule
        Of one stage, in which everybody votes.
    group : Group
        Whose records.
    cost : SubsampledCost
        Of one answer.
    queries : int, optional
        All that will be asked; whether more would fit is then not found out.
    """
    analysis = (
        "worst case of the released labels, averaged over how many teachers hold a record, which any does with "
        f"probability {round_up(cost.held, 4):g} (advanced joint convexity: Balle, Barthe and Gaboardi 2018, Theorem 2)"
    )
    sure = (cost.most(group.budget, limit=queries),)
    return ScheduledMeter(schedule, (group,), ((cost,),), sure, analysis, points=12)


def vanishing_end(
    stage: Stage, groups: Sequence[Group], n_classes: int, accounting: Accounting = Accounting.EXACT
) -> tuple[Stage, ...]:
    """Return a schedule in which groups whose budget is spent drop out while the others go on.

    The noise falls with the sum of the remaining ballots, so that labels stay as good.

    Parameters
    ----------
    stage : Stage
        In which everybody takes part, without an end.
    groups : sequence of Group
        Each with a pool of its own.
    n_classes : int
        Number of declared classes.
    accounting : Accounting, default="exact"
        As for `worst_case_meter`, which then charges every stage in full.

    Returns
    -------
    tuple of Stage
        Each with its number of queries.

    Raises
    ------
    InvalidParameterError
        If groups share a pool, the law has a gate, or the stage has an end.
    BudgetError
        If a group cannot afford the first query.

    Examples
    --------
    >>> from dpensemble.budget import Budget
    >>> from dpensemble.voting_schedule import Pool
    >>> from dpensemble.laws import GaussianNoisyMax
    >>> groups = [Group("cautious", Budget(epsilon=1, delta=1e-5), pool=0),
    ...           Group("open", Budget(epsilon=2, delta=1e-5), pool=1)]
    >>> stage = Stage(GaussianNoisyMax(60.0), (Pool(100, 100), Pool(100, 100)))
    >>> [(s.n_queries, s.total, s.law.sigma) for s in vanishing_end(stage, groups, 2, Accounting.PUBLISHED)]
    [(74, 200, 60.0), (53, 100, 30.0)]
    """
    groups = check_groups([stage], groups)
    _require_vanishing(stage, groups)
    done: tuple[Stage, ...] = ()
    ones: tuple[tuple[PrivacyCost | None, ...], ...] = ()
    before, active = 0, {group.pool for group in groups if stage.pools[group.pool].participants}
    while active:
        left = Stage(
            stage.law,
            tuple(pool if i in active else replace(pool, participants=0) for i, pool in enumerate(stage.pools)),
        )
        if left.total < stage.total:
            left = replace(left, law=stage.law.scaled(left.total / stage.total))
        here = costs_of(prices_of(left, groups, n_classes, accounting))
        lengths = {
            group.pool: affordable_queries(
                (*done, left), [costs[i] for costs in (*ones, here)], group.pool, group.budget, accounting.conversion
            )
            - before
            for i, group in enumerate(groups)
            if group.pool in active
        }
        length = min(lengths.values())
        for group, one in zip(groups, here, strict=True):
            if not done and one is not None and lengths[group.pool] < 1:
                raise too_small(group, one, accounting.conversion)
        if length > 0:
            done, ones, before = (*done, replace(left, n_queries=length)), (*ones, here), before + length
        active -= {pool for pool, fitting in lengths.items() if fitting <= length}
    return done


def _require_vanishing(stage: Stage, groups: tuple[Group, ...]) -> None:
    if len({group.pool for group in groups}) < len(groups):
        raise InvalidParameterError(
            "groups must have a pool each to drop out, and under upsampling every teacher knows every group; use "
            "weighting or vanishing."
        )
    if stage.law.gated:
        raise InvalidParameterError(
            f"law={type(stage.law).__name__} answers a number of queries that is not known beforehand, so no "
            "group's end can be scheduled; use a law without a gate."
        )
    if stage.n_queries is not None:
        raise InvalidParameterError(f"n_queries={stage.n_queries} of the stage must be None.")
