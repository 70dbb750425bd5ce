"""Meters that charge each group the most that an answer could cost, over all possible votes.

Where every query is answered, the cost of a public schedule is known beforehand. Gated laws are charged for a label
only when a label was released. The budget of a gated run is fixed before the run starts: each group has units of a
purse, or a Renyi divergence at one order.

A `Certificate` holds what a design or a meter states for a certificate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import integer_between
from dpensemble.accounting.base import Accounting, Group, Meter
from dpensemble.accounting.price import Price
from dpensemble.accounting.published import published_price
from dpensemble.accounting.schedule import VotingSchedule, too_small_for_one_label
from dpensemble.accounting.subsampling import SubsampledCost
from dpensemble.accounting.worst_case import Change
from dpensemble.allocation import BootstrapScheme
from dpensemble.cost import DEFAULT_ORDERS, Conversion, Cost, GatedComposition, GatedCost, PrivacyCost
from dpensemble.cost.privacy_cost import renyi_allowance
from dpensemble.errors import AccountingError, DataError, InvalidParameterError
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


class _RenyiFilter:
    """One group's order, allowance and prices. A group whose pool sits out pays nothing.

    V. Feldman and T. Zrnic, "Individual privacy accounting via a Renyi filter", NeurIPS 2021, Theorem 3.1.
    """

    def __init__(self, group: Group, gated: Price | None, conversion: Conversion) -> None:
        self.group, self._conversion = group, conversion
        self.one = None if gated is None else gated.answered
        self.order, self.check, self.label, self.allowed = float(DEFAULT_ORDERS[0]), 0.0, 0.0, 0.0
        if gated is not None:
            assert gated.check is not None  # noqa: S101
            self.order = _best_order(gated.answered, group.budget, conversion)
            at = int(np.searchsorted(DEFAULT_ORDERS, self.order))
            self.check, self.label = float(gated.check.rdp[at]), float(gated.label.rdp[at])
            self.allowed = renyi_allowance(self.order, group.budget, conversion)

    @property
    def words(self) -> str:
        """Return the filter's name, for the guarantee."""
        return f"a Renyi filter at order {self.order:g} (Feldman and Zrnic 2021, Theorem 3.1)"

    def certify(self, certificate: Certificate, law: ReleaseLaw, change: Change) -> None:  # noqa: ARG002
        """Refuse to certify: a verifier cannot check a Renyi filter."""
        raise AccountingError(
            "a Renyi filter admits these gated queries, and only a purse can be certified: use more noise on the check "
            "or a larger epsilon, for which a purse may pay for more."
        )

    def votings(self, each: float) -> int | None:
        """Return how many votings at a price fit, or None where votings are free."""
        return int(self.allowed / each) if each else None

    def cost(self, spent: float) -> PrivacyCost:
        """Return the cost of all runs that spend at most `spent`."""
        return PrivacyCost(rdp=np.array([spent]), orders=np.array([self.order]))

    def epsilon(self, spent: float) -> float:
        """Convert what was spent, never above the budget."""
        budget = self.group.budget
        return min(budget.epsilon, self.cost(spent).epsilon(budget.delta, self._conversion))


class _UnitBudget(_RenyiFilter):
    """One group's purse, whose runs are composed exactly by `dpensemble.cost.gated`."""

    def __init__(self, group: Group, gated: Price, composition: GatedComposition) -> None:
        assert gated.check is not None  # noqa: S101
        self.group, self.one, self.composition = group, gated.answered, composition
        self._of_check, self._of_query = gated.check.rdp, gated.check.rdp + gated.label.rdp
        self.check, self.label = float(composition.check_units), float(composition.label_units)
        #: How many answered queries the purse pays for.
        self.within = composition.largest(group.budget.epsilon, group.budget.delta)
        self.allowed = float(self.within * composition.query_units)

    @property
    def words(self) -> str:
        """Return the purse in words, for the guarantee."""
        return (
            f"a purse of {self.allowed:,.0f} units, of which a check costs {self.check:g} and a label {self.label:g}, "
            "composed exactly"
        )

    def certify(self, certificate: Certificate, law: ReleaseLaw, change: Change) -> None:
        """State what the units pay for."""
        certificate.add_gated(self.group.budget, law, change, self.composition, self.within)

    def cost(self, spent: float) -> PrivacyCost:
        """Return the cost of all runs that spend at most `spent`."""
        # A sum of divergences that is bounded for every sequence of answers bounds the divergence of the run (Feldman
        # and Zrnic 2021, Theorem 3.1). The sum is largest if every query is answered, or none.
        queries = self.composition.queries(int(spent))
        rdp = np.maximum(queries * self._of_query, spent / self.check * self._of_check)
        return GatedCost(rdp=rdp, composition=self.composition, queries=queries)

    def epsilon(self, spent: float) -> float:
        """Convert what was spent, never above the budget."""
        return min(self.group.budget.epsilon, self.cost(spent).epsilon(self.group.budget.delta))


def _filter_of(group: Group, gated: Price | None, conversion: Conversion) -> _RenyiFilter:
    """Return the purse of a group, or its Renyi filter if the filter pays for at least as many answered queries."""
    renyi = _RenyiFilter(group, gated, conversion)
    if gated is None or renyi.one is None or renyi.one.composition is None:
        return renyi
    purse = _UnitBudget(group, gated, renyi.one.composition)
    answered, by_renyi = purse.votings(purse.check + purse.label), renyi.votings(renyi.check + renyi.label)
    return purse if (answered or 0) > (by_renyi or 0) else renyi


def _best_order(one: PrivacyCost, budget: Budget, conversion: Conversion) -> float:
    """Return the order at which the most answered queries fit."""
    counts = [renyi_allowance(order, budget, conversion) / rdp for order, rdp in zip(one.orders, one.rdp, strict=True)]
    return float(one.orders[int(np.argmax(counts))])


# Points of the spend curve in one chunk.
_POINTS = 10
# Queries whose turns are examined at once.
_AHEAD = 4096


class FilterMeter(GroupMeter):
    """Charges the records that take part in a gated query for its check, and for its label only once it was released.

    Which queries pass is released, so the number of labels is a random, public quantity. A purse of units, whose runs
    are composed exactly, allows stopping on that number. So does a Renyi filter at one order, fixed beforehand. Each
    group has the one that pays for more answered queries. Every query is charged in full when it is admitted,
    and the part that an unanswered query did not use is given back. Where the teachers of a pool take turns, every
    teacher's records have a filter. A query is admitted only if it fits all filters of the records that take part in
    it, even if all admitted queries are answered.

    V. Feldman and T. Zrnic, "Individual privacy accounting via a Renyi filter", NeurIPS 2021, Theorem 3.1. The purse is
    the project's own: `dpensemble.cost.gated`.
    """

    def __init__(
        self,
        schedule: VotingSchedule,
        groups: Sequence[Group],
        n_classes: int,
        accounting: Accounting = Accounting.EXACT,
    ) -> None:
        if len(schedule.stages) != 1:
            raise InvalidParameterError(
                f"stages={len(schedule.stages)} under a gate must be one: when a stage ends would depend "
                "on the answers."
            )
        groups, stage = schedule.checked_groups(groups), schedule.stages[0]
        conversion = accounting.conversion
        filters = [
            _filter_of(group, gated, conversion)
            for group, gated in zip(groups, stage.prices(groups, n_classes, accounting), strict=True)
        ]
        sure = tuple(_within(schedule, f.group.pool, f.votings(f.check + f.label)) for f in filters)
        super().__init__(schedule, groups, conversion, (tuple(f.one for f in filters),), sure)
        self._most = min(_within(schedule, f.group.pool, f.votings(f.check)) for f in filters)
        self._accounting, self._filters, self._n_classes = accounting, filters, n_classes
        self._payers = schedule.payers(groups)
        table = np.array([[f.allowed, f.check, f.label] for f in filters])[self._payers.group]
        self._allowed, self._check, self._label = table.T
        self._checks = np.zeros(len(table), dtype=np.int64)
        self._labels = self._checks.copy()
        # Admitted queries whose outcomes are still unknown.
        self._pending = 0
        self._history: list[tuple[int, tuple[float, ...]]] = []

    @property
    def accounting(self) -> str:
        """Name and source of the analysis."""
        kind = "exact worst case of" if self._accounting is Accounting.EXACT else "published cost of"
        ways = dict.fromkeys(f.words for f in self._filters)
        how = "" if len(self.groups) == 1 else "for each group "
        return f"{kind} threshold checks and released labels over all votes, {how}by {'; by '.join(ways)}"

    @property
    def filters(self) -> tuple[_RenyiFilter, ...]:
        """The filters that admit the queries of each group."""
        return tuple(self._filters)

    def certify(self, certificate: Certificate, labels: int) -> None:
        """State what each group's filter admits. See `dpensemble.certificates`."""
        (stage,) = self.schedule.stages
        for one in self._filters:
            if one.check and stage.pools[one.group.pool].turns(labels):
                one.certify(certificate, stage.law, stage.change_by(one.group, self._n_classes))

    @property
    def most_queries(self) -> int:
        """Number of queries that fit if none of them is answered."""
        return max(self._most, self.sure_queries)

    def next_chunk(self, asked: int) -> int:
        """Return how many queries fit now even if all are answered."""
        return self._fitting(self.schedule.left_in_stage(asked, _AHEAD))

    def admit(self, votes: Votes) -> int:
        """Charge check and label of the leading queries that fit even if all are answered."""
        here = self._admissible(votes)
        admitted = 0
        while admitted < here:
            ahead = min(_AHEAD, here - admitted)
            fitting = self._fitting(ahead, admitted)
            votings = self._payers.taking_part(self.schedule, self._asked + admitted, fitting).sum(axis=0)
            self._checks += votings
            self._labels += votings
            admitted += fitting
            if fitting < ahead:
                break
        self._pending += admitted
        return self._admit(admitted, votes.n_queries)

    def settle(self, outcomes: NDArray[Any], n_classes: int) -> None:
        """Give back what unanswered queries, among those just admitted, did not use, to the records that took part."""
        if len(outcomes) != self._pending:
            raise AccountingError(f"outcomes must be those of the {self._pending} queries admitted last.")
        before = self._asked - self._pending
        taking_part = self._payers.taking_part(self.schedule, before, self._pending)
        answered = taking_part & (np.asarray(outcomes) != n_classes)[:, None]
        checks, labels = self._checks - taking_part.sum(axis=0), self._labels - taking_part.sum(axis=0)
        # The curve has a few points within a chunk, since the first chunk may be most of the run.
        for place in np.unique(np.linspace(self._pending, 0, _POINTS, endpoint=False).astype(int)).tolist():
            if place:
                self._checks = checks + taking_part[:place].sum(axis=0)
                self._labels = labels + answered[:place].sum(axis=0)
                self._history.append((before + place, self.charged_group_epsilons))
        self._pending = 0

    @property
    def group_epsilons(self) -> tuple[float, ...]:
        """Budgets of the groups, once any query was asked. A filter's guarantee is for all it would allow."""
        return tuple(f.group.budget.epsilon if self._asked and f.check else 0.0 for f in self._filters)

    @property
    def charged_group_epsilons(self) -> tuple[float, ...]:
        """Largest epsilon charged so far for checks and labels of each group's records, by its filter."""
        spent = zip(self._filters, self._spent(), strict=True)
        return tuple(f.epsilon(amount) for f, amount in spent)

    @property
    def charged_epsilon(self) -> float:
        """Largest epsilon charged so far to any group."""
        return max(self.charged_group_epsilons)

    def spend_curve(self, points: int = 40) -> list[tuple[int, tuple[float, ...]]]:
        """Return the charge of each group after every settled chunk. Public."""
        points = min(integer_between("points", points, 1), len(self._history))
        places = np.unique(np.linspace(len(self._history) - 1, 0, points).astype(int)).tolist() if points else []
        return [self._history[place] for place in places]

    @property
    def cost(self) -> PrivacyCost:
        """Cost of all admitted queries by its filter, for the group with the largest epsilon. Public."""
        number = int(np.argmax(self.charged_group_epsilons))
        return self._filters[number].cost(self._spent()[number])

    def renyi_costs(self) -> tuple[PrivacyCost | None, ...]:
        """Return what each filter admits, at its own order or at all orders."""
        return tuple(one.cost(one.allowed) for one in self._filters)

    def _spent(self) -> tuple[float, ...]:
        """Return the most that any record of each group was charged, in its filter's currency."""
        return self._payers.largest(self._checks * self._check + self._labels * self._label, len(self.groups))

    def _fitting(self, ahead: int, skipped: int = 0) -> int:
        """Return how many of the queries ahead fit even if all are answered."""
        left = self._allowed - self._checks * self._check - self._labels * self._label
        each = self._check + self._label
        # Groups that never take part need no filter.
        votings = np.floor(np.divide(left, each, out=np.full(len(each), np.inf), where=each > 0))
        for number, group in enumerate(self.groups):
            # In that many queries every teacher of the pool surely votes more often than the smallest filter allows.
            least = votings[self._payers.group == number].min()
            if least < ahead:
                enough = self.schedule.stages[0].pools[group.pool].queries(max(0, int(least)) + 2) + 1
                ahead = min(ahead, enough)
        taking_part = self._payers.taking_part(self.schedule, self._asked + skipped, ahead)
        too_many = (np.cumsum(taking_part, axis=0) > np.maximum(votings, 0)).any(axis=1)
        return int(np.argmax(too_many)) if too_many.any() else ahead


def _within(schedule: VotingSchedule, pool: int, votings: int | None) -> int:
    """Return how many queries, up to the schedule's end, take at most `votings` votings of each teacher."""
    queries = schedule.left_in_stage(0, 2**62)
    return queries if votings is None else min(queries, schedule.stages[0].pools[pool].queries(votings))
