"""The cost of answers to each group in the worst case, and how many of a public schedule its budget pays for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress

from dpensemble.accounting.base import Accounting
from dpensemble.accounting.change import Change
from dpensemble.accounting.group import Group
from dpensemble.accounting.meters.group_meter import most_votings
from dpensemble.accounting.price import Price, price
from dpensemble.budget import Budget
from dpensemble.cost import Conversion, PrivacyCost
from dpensemble.cost.composition import AdaptiveComposition
from dpensemble.cost.searching import last_fitting
from dpensemble.errors import AccountingError
from dpensemble.voting_schedule import Stage


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
