"""Meters charge for answers before the answers are drawn. One of them fits a schedule and its groups."""

from __future__ import annotations

from collections.abc import Sequence

from dpensemble.accounting.base import Accounting, Group, Meter
from dpensemble.accounting.meters.data_dependent import DataDependentGroupMeter, PerRecordMeter
from dpensemble.accounting.meters.worst_case import FilterMeter, GroupMeter, scheduled_meter
from dpensemble.accounting.published import published_per_record_meter
from dpensemble.accounting.schedule import VotingSchedule
from dpensemble.allocation import Allocation
from dpensemble.errors import InvalidParameterError


def worst_case_meter(
    schedule: VotingSchedule,
    groups: Sequence[Group],
    *,
    n_classes: int,
    accounting: Accounting = Accounting.EXACT,
    queries: int | None = None,
) -> GroupMeter:
    """Return the meter that charges each group the most that its own ballots could cost, over all possible votes."""
    if any(stage.law.gated for stage in schedule.stages):
        return FilterMeter(schedule, groups, n_classes, accounting)
    return scheduled_meter(schedule, groups, n_classes, accounting, queries)


def data_dependent_meter(
    schedule: VotingSchedule,
    groups: Sequence[Group],
    allocation: Allocation,
    *,
    n_classes: int,
    accounting: Accounting = Accounting.EXACT,
    stop_when_spent: bool = False,
) -> Meter:
    """Return the meter that charges for the given votes: by record for one group, otherwise by group."""
    law, (first, *others) = schedule.law(0), groups
    if accounting is Accounting.PUBLISHED:
        if others:
            raise InvalidParameterError(
                "accounting='published' has no data-dependent meter for groups: the published bounds hold in one "
                "direction only; use accounting='exact', and published_group_rdp to compare."
            )
        return published_per_record_meter(law, allocation, first.budget, n_classes, stop_when_spent=stop_when_spent)
    if others:
        return DataDependentGroupMeter(schedule, groups, n_classes, stop_when_spent=stop_when_spent)
    return PerRecordMeter(law, allocation, first.budget, n_classes, stop_when_spent=stop_when_spent)
