"""The meter that fits a schedule and its groups."""

from __future__ import annotations

from collections.abc import Sequence

from dpensemble.accounting.base import Accounting, Meter
from dpensemble.accounting.group import Group
from dpensemble.accounting.meters.by_group import DataDependentGroupMeter
from dpensemble.accounting.meters.by_record import PerRecordMeter
from dpensemble.accounting.meters.filter import FilterMeter
from dpensemble.accounting.meters.group_meter import GroupMeter
from dpensemble.accounting.meters.published_by_record import published_per_record_meter
from dpensemble.accounting.meters.scheduled import scheduled_meter
from dpensemble.allocation import Allocation
from dpensemble.errors import InvalidParameterError
from dpensemble.voting_schedule import VotingSchedule


def worst_case_meter(
    schedule: VotingSchedule,
    groups: Sequence[Group],
    *,
    n_classes: int,
    accounting: Accounting = Accounting.EXACT,
    queries: int | None = None,
) -> GroupMeter:
    """Return the meter that charges each group the most that its own ballots could cost, whatever the votes are.

    Parameters
    ----------
    schedule : VotingSchedule
        Who votes on which query, and by which law it is answered.
    groups : sequence of Group
        Whose records, and their budgets, all at one delta; one group where all records are treated alike.
    n_classes : int
        Number of declared classes.
    accounting : Accounting, default="exact"
        What the label alone reveals, or the published bound.
    queries : int, optional
        All that will be asked, which saves the search for how many more would fit.

    Returns
    -------
    GroupMeter
        `FilterMeter` for gated laws, else `ScheduledMeter`.

    Raises
    ------
    InvalidParameterError
        If groups and schedule do not match.

    Examples
    --------
    A record of the second group teaches two teachers, and has the larger budget:

    >>> from dpensemble.budget import Budget
    >>> from dpensemble.voting_schedule import Pool, Stage
    >>> from dpensemble.laws import GaussianNoisyMax
    >>> schedule = VotingSchedule((Stage(GaussianNoisyMax(60.0), (Pool(300, 300),)),))
    >>> groups = [Group("cautious", Budget(epsilon=1, delta=1e-5), pool=0),
    ...           Group("open", Budget(epsilon=2, delta=1e-5), pool=0, votes=2)]
    >>> worst_case_meter(schedule, groups, n_classes=10, accounting=Accounting.PUBLISHED).sure_queries
    72
    """
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
    """Return the meter that charges for the votes at hand.

    Parameters
    ----------
    schedule, groups, n_classes
        As for `worst_case_meter`.
    allocation : Allocation
        Which records teach which teachers; one group is charged record by record.
    accounting : Accounting, default="exact"
        The published analysis is for one group and Laplace noise.
    stop_when_spent : bool, default=False
        Admit fewer queries when a budget is used up, else raise.

    Returns
    -------
    Meter
        `PerRecordMeter` or `PublishedPerRecordMeter` for one group, `DataDependentGroupMeter` for several.

    Raises
    ------
    InvalidParameterError
        If no published data-dependent analysis covers the law.
    AccountingError
        If the law also depends on a student, or nothing is known about it.
    """
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
