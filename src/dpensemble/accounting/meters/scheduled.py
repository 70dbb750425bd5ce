"""Meters of public schedules of votes: the worst-case cost of answers to each group, and how many its budget pays for.

Records have separate costs: a group where its pool votes, each teacher's records where teachers take turns. The cost of
a schedule is known beforehand, so every answer is charged the most that it could cost. In a vanishing schedule groups
drop out when their budget is spent. A `Certificate` holds what a design or a meter states for a certificate.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import integer_between, round_up
from dpensemble.accounting.base import EVERYONE, Accounting, Group, Meter, require_one_delta
from dpensemble.accounting.neighbours import FEW_ORDERS, Change
from dpensemble.accounting.price import Price, price
from dpensemble.accounting.published import published_source
from dpensemble.accounting.schedule import Stage, VotingSchedule
from dpensemble.accounting.subsampling import SubsampledCost
from dpensemble.allocation import BootstrapScheme
from dpensemble.cost import Conversion, Cost, GatedComposition, PrivacyCost, PureCost
from dpensemble.cost.composition import AdaptiveComposition
from dpensemble.cost.privacy_cost import last_fitting
from dpensemble.errors import AccountingError, BudgetError, DataError, InvalidParameterError
from dpensemble.guarantee import Budget
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


def check_groups(stages: Sequence[Stage], groups: Iterable[Group]) -> tuple[Group, ...]:
    """Return the groups if together they account for every ballot."""
    groups, n_pools = require_one_delta(groups), len(stages[0].pools)
    for group in groups:
        integer_between("pool", group.pool, 0, n_pools - 1)
        integer_between("votes", group.votes, 1, stages[0].pools[group.pool].n_teachers)
        turning = any(0 < (p := stage.pools[group.pool]).participants < p.n_teachers for stage in stages)
        if group.votes > 1 and turning:
            raise InvalidParameterError(
                f"votes={group.votes} of group {group.name!r} must be 1 when the pool's teachers take turns."
            )
    orphans = [pool for pool in range(n_pools) if pool not in {group.pool for group in groups}]
    if any(stage.pools[pool].participants for stage in stages for pool in orphans):
        raise InvalidParameterError(f"groups must include pool {orphans[0]}, since a group must pay for its ballots.")
    return groups


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
                raise _too_small(group, one, self.conversion)

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


def _too_small(group: Group, one: Cost, conversion: Conversion) -> BudgetError:
    """Return the error of a group that cannot afford one query."""
    needed = round_up(one.epsilon(group.budget.delta, conversion), 4)
    whose = "" if group.name == EVERYONE else f" of group {group.name!r}"
    return BudgetError(
        f"epsilon={group.budget.epsilon:g}{whose} at delta={group.budget.delta:g} is too small for one label; "
        f"the smallest epsilon that would do is {needed:g}, or use more teachers or larger noise."
    )


def most_votings(n_votings: int, stage: Stage, pool: int) -> int:
    """Return how many queries in a row give every teacher of the pool at most `n_votings` votings."""
    taking_part = stage.pools[pool]
    if not taking_part.participants:
        return sys.maxsize
    return n_votings * taking_part.n_teachers // taking_part.participants


@dataclass(frozen=True, eq=False)
class Payers:
    """Records that take part in the same queries, one number each: their group, and their teacher if they have one."""

    group: NDArray[np.intp]
    teacher: NDArray[np.intp]

    @classmethod
    def of(cls, schedule: VotingSchedule, groups: tuple[Group, ...]) -> Payers:
        """Return the payers of checked groups, group by group."""
        sizes = [pool.n_teachers for pool in schedule.stages[0].pools]
        firsts = np.cumsum([0, *sizes])
        owner: list[int] = []
        teacher: list[int] = []
        for number, group in enumerate(groups):
            pools = [stage.pools[group.pool] for stage in schedule.stages]
            turning = any(pool.participants not in (0, pool.n_teachers) for pool in pools)
            size = sizes[group.pool] if turning else 1
            owner += [number] * size
            teacher += range(firsts[group.pool], firsts[group.pool] + size)
        return cls(np.array(owner, dtype=np.intp), np.array(teacher, dtype=np.intp))

    def taking_part(self, schedule: VotingSchedule, asked: int, n_queries: int) -> NDArray[np.bool_]:
        """Return which payers take part in the next queries of one stage, shape (n_queries, n_payers). Public."""
        if not n_queries:
            return np.zeros((0, len(self.group)), dtype=bool)
        return schedule.ballots(asked, n_queries)[:, self.teacher] > 0

    def largest(self, values: NDArray[np.float64], n_groups: int) -> tuple[float, ...]:
        """Return the largest non-negative value of any payer of each group."""
        maxima = np.zeros(n_groups)
        np.maximum.at(maxima, self.group, values)
        return tuple(maxima.tolist())


def prices_of(
    stage: Stage, groups: Sequence[Group], n_classes: int, accounting: Accounting
) -> tuple[Price | None, ...]:
    """Return the most that one answer costs a record of each group, or None where its pool sits out. Public."""
    return tuple(
        price(stage.law, change_by(stage, group, n_classes), accounting)
        if stage.pools[group.pool].participants
        else None
        for group in groups
    )


def change_by(stage: Stage, group: Group, n_classes: int) -> Change:
    """Return what a record of a group can do to the votes of a stage."""
    weight = stage.pools[group.pool].ballot
    return Change(ballots=stage.total, classes=n_classes, votes=group.votes, weight=weight)


def costs_of(prices: Sequence[Price | None]) -> tuple[PrivacyCost | None, ...]:
    """Return what a query costs each group if it is answered."""
    return tuple(None if one is None else one.answered for one in prices)


def affordable_queries(
    stages: Sequence[Stage],
    costs: Sequence[PrivacyCost | None],
    pool: int,
    budget: Budget,
    conversion: Conversion,
    queries: int | None = None,
) -> int:
    """Return how many queries of the stages, in turn, a group's budget pays for; `sys.maxsize` without a limit."""
    # A given total saves the search for more queries. Only the last stage may be endless.
    spent, before = PrivacyCost(rdp=0 * _curve(costs).rdp, orders=_curve(costs).orders, parts=()), 0
    for stage, one in zip(stages, costs, strict=True):
        length = stage.n_queries
        if one is not None:
            most = None if queries is None else stage.pools[pool].turns(max(0, queries - before))
            turns = None if length is None else stage.pools[pool].turns(length)
            if turns is None or not (spent + one * turns).fits(budget, conversion):
                fitting = most_votings(_votings(spent, one, budget, conversion, most), stage, pool)
                # What pays for a larger number pays for a smaller one, even if the grid's rounding disagrees.
                if length is None or fitting < length:
                    return before + fitting
            if turns:
                spent += one * turns
        if length is None:
            return sys.maxsize
        before += length
    return before


def _curve(costs: Sequence[PrivacyCost | None]) -> PrivacyCost:
    return next((one for one in costs if one is not None), PrivacyCost.zero())


def _votings(spent: PrivacyCost, one: PrivacyCost, budget: Budget, conversion: Conversion, most: int | None) -> int:
    """Return how many further votings fit, given what was spent in earlier stages, or `most` if no fewer do."""
    if not spent.rdp.any():
        return one.most(budget, conversion, most)

    def fits(count: int, how: Conversion) -> bool:
        return (spent + one * count).fits(budget, how)

    cheap = Conversion.IMPROVED if conversion is Conversion.BEST else conversion
    cheap_count = last_fitting(lambda count: fits(count, cheap), 0, 2.0)
    return cheap_count if cheap is conversion else last_fitting(lambda count: fits(count, conversion), cheap_count, 1.1)


def composition(cost: PrivacyCost, delta: float) -> AdaptiveComposition | None:
    """Return the composition that converts answers of one kind, and fewer of them, or None if it cannot."""
    assert cost.parts is not None  # noqa: S101
    with suppress(AccountingError):
        return cost.layout(cost.parts[0].count, delta)
    return None


_Curves = NDArray[np.float64]


def spread(most: int, points: int) -> list[int]:
    """Return at most `points` numbers from 1 to `most`, evenly spread, `most` among them."""
    return np.unique(np.linspace(1, most, min(points, most)).astype(int)).tolist() if most else []


def cost_of(stages: Sequence[Stage], costs: Sequence[Cost | None], group: Group, n_queries: int) -> Cost:
    """Return what the first queries cost one group, where `costs` are those of one answer of each stage."""
    total: Cost = PrivacyCost.zero()
    for stage, one in zip(stages, costs, strict=True):
        here = n_queries if stage.n_queries is None else min(n_queries, stage.n_queries)
        if one is not None and here:
            here_cost = one * stage.pools[group.pool].turns(here)
            total = here_cost if total.parts == () else total + here_cost
        n_queries -= here
    return total


def epsilons_of(costs: Sequence[Cost], delta: float, conversion: Conversion) -> list[float]:
    """Return the epsilon of each cost, of ever more answers. One composition serves all answers of one kind."""
    single = [one for cost in costs if cost.parts and len(cost.parts) == 1 and (one := cost.renyi) is not None]
    if conversion is not Conversion.BEST or not single:
        epsilons = [cost.epsilon(delta, conversion) for cost in costs]
    else:
        shared = composition(single[-1], delta)
        epsilons = [
            min(cost.epsilon(delta, Conversion.IMPROVED), shared.epsilon(cost.parts[0].count, delta))
            if shared is not None and cost.parts and len(cost.parts) == 1
            else cost.epsilon(delta)
            for cost in costs
        ]
    # A bound for more queries holds for fewer.
    return np.minimum.accumulate(epsilons[::-1])[::-1].tolist() if epsilons else []


def rounded_up(curve: _Curves) -> PrivacyCost:
    """Return the public worst case, above any sum of floating-point costs by more than its rounding."""
    return PrivacyCost(rdp=curve * (1 + 1e-9), orders=FEW_ORDERS)


def curve_epsilons(spent: _Curves, delta: float) -> _Curves:
    """Convert curves to epsilons as `dpensemble.cost.privacy_cost.improved_epsilon` does, one a row."""
    beyond = np.log1p(-1 / FEW_ORDERS) - (np.log(delta) + np.log(FEW_ORDERS)) / (FEW_ORDERS - 1)
    epsilons = (np.maximum((spent + beyond).min(axis=1), 0.0) + 1e-13) * (1 + 1e-13)
    return np.where(spent.any(axis=1), epsilons, 0.0)


def leading_fit(
    spent: _Curves, added: Callable[[int], _Curves], n_queries: int, epsilons: float | _Curves, delta: float
) -> tuple[int, _Curves]:
    """Return how many leading queries leave every curve within its epsilon, and the curves including these queries."""
    fitting, too_many, sums = 0, n_queries + 1, spent
    while too_many - fitting > 1:
        candidate = spent + added(n_queries)
        if np.all(curve_epsilons(candidate, delta) <= epsilons):
            fitting, sums = n_queries, candidate
        else:
            too_many = n_queries
        n_queries = (fitting + too_many) // 2
    return fitting, sums


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


def vanishing_end(
    stage: Stage, groups: Sequence[Group], n_classes: int, accounting: Accounting = Accounting.EXACT
) -> tuple[Stage, ...]:
    """Return stages in which groups drop out once their budget is spent. The noise falls with the remaining ballots."""
    groups = check_groups([stage], groups)
    _require_vanishing(stage, groups)
    stages: tuple[Stage, ...] = ()
    ones: tuple[tuple[PrivacyCost | None, ...], ...] = ()
    before, active = 0, {group.pool for group in groups if stage.pools[group.pool].participants}
    while active:
        remaining = Stage(
            stage.law,
            tuple(pool if i in active else replace(pool, participants=0) for i, pool in enumerate(stage.pools)),
        )
        if remaining.total < stage.total:
            remaining = replace(remaining, law=stage.law.scaled(remaining.total / stage.total))
        here = costs_of(prices_of(remaining, groups, n_classes, accounting))
        lengths = {
            group.pool: affordable_queries(
                (*stages, remaining),
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
            if not stages and one is not None and lengths[group.pool] < 1:
                raise _too_small(group, one, accounting.conversion)
        if length > 0:
            stages, ones, before = (*stages, replace(remaining, n_queries=length)), (*ones, here), before + length
        active -= {pool for pool, fitting in lengths.items() if fitting <= length}
    return stages


def _require_vanishing(stage: Stage, groups: tuple[Group, ...]) -> None:
    if len({group.pool for group in groups}) < len(groups):
        raise InvalidParameterError(
            "groups must have a pool each to drop out, and under upsampling every teacher learns from every group: "
            "use weighting or vanishing."
        )
    if stage.law.gated:
        raise InvalidParameterError(
            f"law={type(stage.law).__name__} answers an unknown number of queries, so the end of a group cannot "
            "be scheduled: use a law without a gate."
        )
    if stage.n_queries is not None:
        raise InvalidParameterError(f"n_queries={stage.n_queries} of the stage must be None.")
