"""The meter that fits a schedule and its groups."""

from __future__ import annotations

from collections.abc import Sequence

from dpensemble.accounting.base import Accounting
from dpensemble.accounting.group_costs import is_gated
from dpensemble.accounting.group_data import GroupDataMeter
from dpensemble.accounting.group_filter import GroupFilterMeter
from dpensemble.accounting.groups import Group, GroupMeter
from dpensemble.accounting.scheduled_groups import ScheduledGroupMeter
from dpensemble.electorate import Electorate
from dpensemble.errors import InvalidParameterError


def grouped_meter(
    electorate: Electorate,
    groups: Sequence[Group],
    *,
    n_classes: int,
    accounting: Accounting = Accounting.EXACT,
    data_dependent: bool = False,
    stop_when_spent: bool = False,
) -> GroupMeter:
    """Return the meter that charges each group for its own ballots.

    Parameters
    ----------
    electorate : Electorate
        Who votes on which query, and by which law it is answered.
    groups : sequence of Group
        Whose records, and their budgets, all at one delta.
    n_classes : int
        Number of declared classes.
    accounting : Accounting, default="exact"
        What the label alone reveals, or the published bound.
    data_dependent : bool, default=False
        Charge for the votes at hand instead of the worst case; exact accounting only.
    stop_when_spent : bool, default=False
        Of data-dependent meters: admit fewer queries when a budget is used up, else raise.

    Returns
    -------
    GroupMeter
        `GroupDataMeter`, or `GroupFilterMeter` for gated laws, or `ScheduledGroupMeter`.

    Raises
    ------
    InvalidParameterError
        If published accounting is to be data-dependent, or groups and electorate do not match.

    Examples
    --------
    A record of the second group teaches two teachers, and has the larger budget:

    >>> from dpensemble.budget import Budget
    >>> from dpensemble.electorate import Pool, Stage
    >>> from dpensemble.laws import GaussianNoisyMax
    >>> electorate = Electorate((Stage(GaussianNoisyMax(60.0), (Pool(300, 300),)),))
    >>> groups = [Group("cautious", Budget(epsilon=1, delta=1e-5), pool=0),
    ...           Group("open", Budget(epsilon=2, delta=1e-5), pool=0, votes=2)]
    >>> grouped_meter(electorate, groups, n_classes=10, accounting=Accounting.PUBLISHED).sure_queries
    72
    """
    if data_dependent:
        if accounting is Accounting.PUBLISHED:
            raise InvalidParameterError(
                "accounting='published' has no data-dependent meter: the published bounds hold in one direction "
                "only; use accounting='exact', and published_group_rdp to compare."
            )
        return GroupDataMeter(electorate, groups, n_classes, stop_when_spent=stop_when_spent)
    if any(is_gated(stage) for stage in electorate.stages):
        return GroupFilterMeter(electorate, groups, n_classes, accounting)
    return ScheduledGroupMeter(electorate, groups, n_classes, accounting)
