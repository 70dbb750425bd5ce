"""Public schedules of votes: who votes on which query, with what weight, by which law, and what the answers cost.

Records have separate costs: a group where its pool votes, each teacher's records where teachers take turns. Every
answer costs the most that it could cost, over all votes, so the cost of a schedule is known beforehand.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import integer_between, round_up
from dpensemble._random import Stream, seed_sequence
from dpensemble.accounting.base import EVERYONE, Accounting, Group, require_one_delta
from dpensemble.accounting.price import Price, price
from dpensemble.accounting.worst_case import Change
from dpensemble.cost import Conversion, Cost, PrivacyCost
from dpensemble.cost.composition import AdaptiveComposition, last_fitting
from dpensemble.errors import AccountingError, BudgetError, InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.laws import ReleaseLaw
from dpensemble.votes import Votes


@dataclass(frozen=True, slots=True)
class Pool:
    """Teachers with equal roles: `participants` of them vote on each query, in turns, with equal ballots."""

    n_teachers: int
    participants: int
    ballot: int = 1

    def __post_init__(self) -> None:
        integer_between("n_teachers", self.n_teachers, 1)
        integer_between("participants", self.participants, 0, self.n_teachers)
        integer_between("ballot", self.ballot, 1)

    def turns(self, n_queries: int) -> int:
        """Return the largest number of `n_queries` consecutive queries on which one teacher votes."""
        return -(-n_queries * self.participants // self.n_teachers)

    def queries(self, n_votings: int) -> int:
        """Return how many queries in a row give every teacher at most `n_votings` votings."""
        return n_votings * self.n_teachers // self.participants if self.participants else sys.maxsize


@dataclass(frozen=True, slots=True)
class Stage:
    """Consecutive queries that the same pools answer under one law of the sums of their ballots."""

    law: ReleaseLaw
    pools: tuple[Pool, ...]
    # None in the last stage, which lasts as long as the budget.
    n_queries: int | None = None

    @property
    def total(self) -> int:
        """Sum of all ballots on one query."""
        return sum(pool.participants * pool.ballot for pool in self.pools)

    def change_by(self, group: Group, n_classes: int) -> Change:
        """Return what a record of a group can do to the votes."""
        weight = self.pools[group.pool].ballot
        return Change(ballots=self.total, classes=n_classes, votes=group.votes, weight=weight)

    def prices(self, groups: Sequence[Group], n_classes: int, accounting: Accounting) -> tuple[Price | None, ...]:
        """Return the most that one answer costs a record of each group, or None where its pool sits out. Public."""
        return tuple(
            price(self.law, self.change_by(group, n_classes), accounting)
            if self.pools[group.pool].participants
            else None
            for group in groups
        )

    def costs(self, groups: Sequence[Group], n_classes: int, accounting: Accounting) -> tuple[PrivacyCost | None, ...]:
        """Return what a query costs each group if it is answered."""
        return tuple(None if one is None else one.answered for one in self.prices(groups, n_classes, accounting))


@dataclass(frozen=True, eq=False)
class VotingSchedule:
    """A public schedule of votes. All stages share their pools.

    Teachers are numbered pool after pool. Within a pool they are dealt to the queries like cards. After every full
    deck each has voted equally often. The next deck is shuffled again, so that no group of teachers stays
    together (Mühl and Boenisch 2022, definitions 7 and 8 and appendix B).
    """

    stages: tuple[Stage, ...]
    # Public seed of the dealing.
    entropy: int = 0
    _dealt: dict[tuple[int, int], list[NDArray[np.int64]]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        sizes = {tuple(pool.n_teachers for pool in stage.pools) for stage in self.stages}
        if len(sizes) != 1 or any(stage.total < 1 for stage in self.stages):
            raise InvalidParameterError("stages must share their pools, and have at least one voter each.")
        if any(stage.n_queries is None for stage in self.stages[:-1]):
            raise InvalidParameterError(
                "only the last stage may be without a number of queries: give one to every other stage."
            )

    @classmethod
    def everyone(cls, law: ReleaseLaw, n_teachers: int) -> VotingSchedule:
        """Return the schedule in which every teacher has one vote on every query."""
        return cls((Stage(law, (Pool(n_teachers, n_teachers),)),))

    @property
    def n_teachers(self) -> int:
        """Number of teachers in all pools."""
        return sum(pool.n_teachers for pool in self.stages[0].pools)

    @property
    def n_queries(self) -> int | None:
        """Number of queries in all stages, or None if the last stage has no end."""
        last = self.stages[-1].n_queries
        return None if last is None else sum(stage.n_queries or 0 for stage in self.stages)

    def stage_at(self, n_asked: int) -> tuple[int, int]:
        """Return the index of the next query's stage, and how many queries of that stage came before."""
        for index, stage in enumerate(self.stages[:-1]):
            if n_asked < (stage.n_queries or 0):
                return index, n_asked
            n_asked -= stage.n_queries or 0
        return len(self.stages) - 1, n_asked

    def law(self, n_asked: int) -> ReleaseLaw:
        """Return the law of the next query."""
        return self.stages[self.stage_at(n_asked)[0]].law

    def left_in_stage(self, n_asked: int, n_queries: int) -> int:
        """Return how many of the next queries, at most `n_queries`, are answered under the same law."""
        index, before = self.stage_at(n_asked)
        length = self.stages[index].n_queries
        return n_queries if length is None else max(0, min(n_queries, length - before))

    def ballots(self, n_asked: int, n_queries: int) -> NDArray[np.int64]:
        """Return each teacher's ballot weight on the next queries of one stage, shape (n_queries, n_teachers)."""
        # 0 if a teacher does not vote. The array may be a read-only view.
        index, before = self.stage_at(n_asked)
        pools = self.stages[index].pools
        columns = []
        for number, pool in enumerate(pools):
            if pool.participants in (0, pool.n_teachers):
                weight = pool.ballot if pool.participants else 0
                columns.append(np.broadcast_to(np.int64(weight), (n_queries, pool.n_teachers)))
                continue
            hands = self._hands(index, number, before + n_queries)[before : before + n_queries]
            column = np.zeros((n_queries, pool.n_teachers), dtype=np.int64)
            seats = np.array(hands, dtype=np.int64).reshape(n_queries, pool.participants)
            np.put_along_axis(column, seats, pool.ballot, axis=1)
            columns.append(column)
        return columns[0] if len(columns) == 1 else np.hstack(columns)

    def counts(self, votes: Votes, n_asked: int) -> NDArray[np.int64]:
        """Return the sum of the ballots for each class, shape (n_queries, n_classes). Private."""
        pools = self.stages[self.stage_at(n_asked)[0]].pools
        if all(pool.participants == pool.n_teachers and pool.ballot == 1 for pool in pools):
            return votes.counts
        return votes.weighted_counts(self.ballots(n_asked, votes.n_queries))

    def checked_groups(self, groups: Iterable[Group]) -> tuple[Group, ...]:
        """Return the groups if together they account for every ballot."""
        groups, n_pools = require_one_delta(groups), len(self.stages[0].pools)
        for group in groups:
            integer_between("pool", group.pool, 0, n_pools - 1)
            integer_between("votes", group.votes, 1, self.stages[0].pools[group.pool].n_teachers)
            turning = any(0 < (p := stage.pools[group.pool]).participants < p.n_teachers for stage in self.stages)
            if group.votes > 1 and turning:
                raise InvalidParameterError(
                    f"votes={group.votes} of group {group.name!r} must be 1 when the pool's teachers take turns."
                )
        orphans = [pool for pool in range(n_pools) if pool not in {group.pool for group in groups}]
        if any(stage.pools[pool].participants for stage in self.stages for pool in orphans):
            raise InvalidParameterError(
                f"groups must include pool {orphans[0]}, since a group must pay for its ballots."
            )
        return groups

    def cost(self, costs: Sequence[Cost | None], group: Group, n_queries: int) -> Cost:
        """Return what the first queries cost one group, where `costs` are those of one answer of each stage."""
        total: Cost = PrivacyCost.zero()
        for stage, one in zip(self.stages, costs, strict=True):
            here = n_queries if stage.n_queries is None else min(n_queries, stage.n_queries)
            if one is not None and here:
                here_cost = one * stage.pools[group.pool].turns(here)
                total = here_cost if total.parts == () else total + here_cost
            n_queries -= here
        return total

    def affordable_queries(
        self, costs: Sequence[PrivacyCost | None], group: Group, conversion: Conversion, queries: int | None = None
    ) -> int:
        """Return how many queries of the stages, in turn, a group's budget pays for, or `sys.maxsize`.

        `costs` are those of one answer of each stage to the group. `queries` is the total of a run, if one is known.
        """
        # A given total saves the search for more queries. Only the last stage may be endless.
        spent, before = PrivacyCost(rdp=0 * _curve(costs).rdp, orders=_curve(costs).orders, parts=()), 0
        for stage, one in zip(self.stages, costs, strict=True):
            length = stage.n_queries
            if one is not None:
                most = None if queries is None else stage.pools[group.pool].turns(max(0, queries - before))
                turns = None if length is None else stage.pools[group.pool].turns(length)
                if turns is None or not (spent + one * turns).fits(group.budget, conversion):
                    fitting = stage.pools[group.pool].queries(_votings(spent, one, group.budget, conversion, most))
                    # What pays for a larger number pays for a smaller one, even if the grid's rounding disagrees.
                    if length is None or fitting < length:
                        return before + fitting
                if turns:
                    spent += one * turns
            if length is None:
                return sys.maxsize
            before += length
        return before

    def spend_curve(
        self, costs: Sequence[tuple[Group, Sequence[Cost | None]]], conversion: Conversion, most: int, points: int
    ) -> list[tuple[int, tuple[float, ...]]]:
        """Return at most `points` numbers of queries from 1 to `most`, and the epsilon of these queries for each group.

        `costs` holds each group, and the cost to it of one answer of each stage. No budget limits the epsilons.
        """
        counts = np.unique(np.linspace(1, most, min(points, most)).astype(int)).tolist() if most else []
        curves = [
            _epsilons([self.cost(ones, group, count) for count in counts], group.budget.delta, conversion)
            for group, ones in costs
        ]
        return list(zip(counts, zip(*curves, strict=True), strict=True))

    def payers(self, groups: tuple[Group, ...]) -> _Payers:
        """Return the records of checked groups that take part in the same queries, group by group."""
        return _Payers.of(self, groups)

    def _hands(self, stage: int, pool: int, n_queries: int) -> list[NDArray[np.int64]]:
        """Return who votes on the first queries of a stage. Each deck is dealt to its last card."""
        size, hand_size = self.stages[stage].pools[pool].n_teachers, self.stages[stage].pools[pool].participants
        hands = self._dealt.setdefault((stage, pool), [])
        while len(hands) < n_queries:
            # From a fresh deck on, deal until a hand ends with a deck.
            generator = np.random.default_rng(
                seed_sequence(self.entropy, Stream.PARTICIPATION, len(hands) + (stage << 32) + (pool << 40))
            )
            cards = np.empty(0, dtype=np.int64)
            for _ in range(hand_size // int(np.gcd(size, hand_size))):
                rest = cards[len(cards) - len(cards) % hand_size :]
                deck = generator.permutation(size)
                held = np.isin(deck, rest)
                # Teachers that are in the unfinished hand go to the bottom of the deck.
                cards = np.concatenate([cards, deck[~held], deck[held]])
            hands.extend(cards.reshape(-1, hand_size))
        return hands


@dataclass(frozen=True, eq=False)
class _Payers:
    """Records that take part in the same queries, one number each: their group, and their teacher if they have one."""

    group: NDArray[np.intp]
    teacher: NDArray[np.intp]

    @classmethod
    def of(cls, schedule: VotingSchedule, groups: tuple[Group, ...]) -> _Payers:
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


def _composition(cost: PrivacyCost, delta: float) -> AdaptiveComposition | None:
    """Return the composition that converts answers of one kind, and fewer of them, or None if it cannot."""
    assert cost.parts is not None  # noqa: S101
    with suppress(AccountingError):
        return cost.layout(cost.parts[0].count, delta)
    return None


def _epsilons(costs: Sequence[Cost], delta: float, conversion: Conversion) -> list[float]:
    """Return the epsilon of each cost, of ever more answers. One composition serves all answers of one kind."""
    single = [one for cost in costs if cost.parts and len(cost.parts) == 1 and (one := cost.renyi) is not None]
    if conversion is not Conversion.BEST or not single:
        epsilons = [cost.epsilon(delta, conversion) for cost in costs]
    else:
        shared = _composition(single[-1], delta)
        epsilons = [
            min(cost.epsilon(delta, Conversion.IMPROVED), shared.epsilon(cost.parts[0].count, delta))
            if shared is not None and cost.parts and len(cost.parts) == 1
            else cost.epsilon(delta)
            for cost in costs
        ]
    # A bound for more queries holds for fewer.
    return np.minimum.accumulate(epsilons[::-1])[::-1].tolist() if epsilons else []


def too_small_for_one_label(group: Group, one: Cost, conversion: Conversion) -> BudgetError:
    """Return the error of a group that cannot afford one query."""
    needed = round_up(one.epsilon(group.budget.delta, conversion), 4)
    whose = "" if group.name == EVERYONE else f" of group {group.name!r}"
    return BudgetError(
        f"epsilon={group.budget.epsilon:g}{whose} at delta={group.budget.delta:g} is too small for one label; "
        f"the smallest epsilon that would do is {needed:g}, or use more teachers or larger noise."
    )
