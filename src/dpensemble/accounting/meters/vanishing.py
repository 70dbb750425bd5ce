"""Schedules in which groups drop out when their budget is spent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpensemble.accounting.base import Accounting
from dpensemble.accounting.group import Group
from dpensemble.accounting.meters.budget_search import affordable_queries, costs_of, prices_of
from dpensemble.accounting.meters.group_meter import check_groups, too_small
from dpensemble.cost import PrivacyCost
from dpensemble.errors import InvalidParameterError
from dpensemble.voting_schedule import Stage


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
                raise too_small(group, one, accounting.conversion)
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
