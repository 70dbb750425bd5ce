"""Groups on a schedule whose cost is known beforehand: every answer is charged the most that it could cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpensemble._checks import integer_between
from dpensemble.accounting.base import Accounting
from dpensemble.accounting.group_costs import affordable_queries, answer_costs, composition, is_gated
from dpensemble.accounting.groups import Costs, Group, GroupMeter, check_groups, too_small
from dpensemble.cost import Conversion, PrivacyCost
from dpensemble.electorate import Electorate, Stage
from dpensemble.errors import InvalidParameterError
from dpensemble.relations import Basis
from dpensemble.votes import Votes


class ScheduledGroupMeter(GroupMeter):
    """Charges every group the most that the answers it had a part in could cost; the votes play no part.

    Parameters
    ----------
    electorate : Electorate
        Who votes on which query, under laws without a gate.
    groups : sequence of Group
        Whose records.
    n_classes : int
        Number of declared classes.
    accounting : Accounting, default="exact"
        What the label alone reveals, or the published bound.

    Notes
    -----
    A record's teachers vote on no more than `Pool.turns` of the queries of a stage, and only those answers depend
    on the record; the schedule is public.

    Examples
    --------
    >>> from dpensemble.budget import Budget
    >>> from dpensemble.electorate import Pool
    >>> from dpensemble.laws import GaussianNoisyMax
    >>> groups = [Group("cautious", Budget(epsilon=1, delta=1e-5), pool=0),
    ...           Group("open", Budget(epsilon=2, delta=1e-5), pool=1)]
    >>> stage = Stage(GaussianNoisyMax(60.0), (Pool(100, 100, ballot=1), Pool(100, 100, ballot=2)))
    >>> meter = ScheduledGroupMeter(Electorate((stage,)), groups, 2, Accounting.PUBLISHED)
    >>> meter.sure_queries
    72
    """

    basis = Basis.WORST_CASE

    def __init__(
        self,
        electorate: Electorate,
        groups: Sequence[Group],
        n_classes: int,
        accounting: Accounting = Accounting.EXACT,
    ) -> None:
        groups = check_groups(electorate.stages, groups)
        ones = tuple(answer_costs(stage, groups, n_classes, accounting) for stage in electorate.stages)
        sure = tuple(
            affordable_queries(electorate.stages, costs, group.pool, group.budget, accounting.conversion)
            for group, costs in zip(groups, zip(*ones, strict=True), strict=True)
        )
        super().__init__(electorate, groups, accounting.conversion, ones, sure)
        self._accounting = accounting

    @property
    def accounting(self) -> str:
        """Name and source of the analysis."""
        if self._accounting is Accounting.PUBLISHED:
            return (
                "moments accountant, data-independent, each group at its own sensitivity (Mühl and Boenisch 2022)"
            )
        _, conversion = self.cost.best(self.budget.delta)
        return (
            "exact worst case of the released labels over all votes, each group for its own ballots, "
            f"by {conversion.value}"
        )

    @property
    def most_queries(self) -> int:
        """The same number as surely fit: the votes play no part."""
        return self.sure_queries

    def admit(self, votes: Votes) -> int:
        """Charge for the leading queries that fit."""
        fitting = min(self._admissible(votes), self.sure_queries - self._asked)
        return self._admit(fitting, votes.n_queries)

    def next_chunk(self, asked: int) -> int:
        """Return how many queries of the present stage fit."""
        return self.electorate.left_in_stage(asked, max(0, self.sure_queries - asked))

    @property
    def group_epsilons(self) -> tuple[float, ...]:
        """What each group was charged, never above its own budget; public."""
        return self._epsilons(self._asked)

    @property
    def cost(self) -> PrivacyCost:
        """Cost of all admitted queries for the group with the largest epsilon; public."""
        return self._cost(int(np.argmax(self.group_epsilons)), self._asked)

    def spend_curve(self, points: int = 40) -> list[tuple[int, tuple[float, ...]]]:
        """Return numbers of admitted queries and the epsilons that each group was charged for them; public."""
        points = min(integer_between("points", points, 1), self._asked)
        counts = np.unique(np.linspace(1, self._asked, points).astype(int)).tolist() if points else []
        curves = [self._curve(number, counts) for number in range(len(self.groups))]
        return list(zip(counts, zip(*curves, strict=True), strict=True))

    def _cost(self, number: int, n_queries: int) -> PrivacyCost:
        """Return what the first queries cost one group."""
        found = PrivacyCost.zero()
        for stage, costs in zip(self.electorate.stages, self._ones, strict=True):
            here = n_queries if stage.n_queries is None else min(n_queries, stage.n_queries)
            one, pool = costs[number], stage.pools[self.groups[number].pool]
            if one is not None and here:
                found += one * pool.turns(here)
            n_queries -= here
        return found

    def _curve(self, number: int, counts: list[int]) -> list[float]:
        """Return one group's epsilon after each number of queries, ascending."""
        budget, costs = self.groups[number].budget, [self._cost(number, count) for count in counts]
        single = [cost for cost in costs if cost.parts and len(cost.parts) == 1]
        if self.conversion is not Conversion.BEST or not single:
            found = [cost.epsilon(budget.delta, self.conversion) for cost in costs]
        else:
            # Answers of one kind share the composition that is laid out for most of them.
            shared = composition(single[-1], budget.delta)
            found = [
                min(
                    cost.epsilon(budget.delta, Conversion.IMPROVED),
                    shared.epsilon(cost.parts[0].count, budget.delta),
                )
                if shared is not None and cost.parts and len(cost.parts) == 1
                else cost.epsilon(budget.delta)
                for cost in costs
            ]
        # A bound for more queries holds for fewer.
        return np.minimum(np.minimum.accumulate(found[::-1])[::-1], budget.epsilon).tolist()

    def _epsilons(self, n_queries: int) -> tuple[float, ...]:
        return tuple(
            min(group.budget.epsilon, self._cost(i, n_queries).epsilon(group.budget.delta, self.conversion))
            for i, group in enumerate(self.groups)
        )


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
        As for `ScheduledGroupMeter`, which then charges every stage in full.

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
    >>> from dpensemble.electorate import Pool
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
    ones: tuple[Costs, ...] = ()
    before, active = 0, {group.pool for group in groups if stage.pools[group.pool].participants}
    while active:
        left = Stage(
            stage.law,
            tuple(pool if i in active else replace(pool, participants=0) for i, pool in enumerate(stage.pools)),
        )
        if left.total < stage.total:
            left = replace(left, law=stage.law.scaled(left.total / stage.total))
        here = answer_costs(left, groups, n_classes, accounting)
        lengths = {
            group.pool: affordable_queries(
                (*done, left),
                [costs[i] for costs in (*ones, here)],
                group.pool,
                group.budget,
                accounting.conversion,
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
    if is_gated(stage):
        raise InvalidParameterError(
            f"law={type(stage.law).__name__} answers a number of queries that is not known beforehand, so no "
            "group's end can be scheduled; use a law without a gate."
        )
    if stage.n_queries is not None:
        raise InvalidParameterError(f"n_queries={stage.n_queries} of the stage must be None.")
