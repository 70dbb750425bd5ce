"""Groups of records (or units) with a budget of their own, and what one of them can change.

The group of each record and the groups' budgets are public. Neighbouring data sets differ in one record of one
group, so each group is charged for what one of its own records can change, and for nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dpensemble._checks import integer_between, real_between
from dpensemble.budget import Budget
from dpensemble.errors import InvalidParameterError

#: Name of the one group of a run that treats all records alike.
EVERYONE = "everyone"


@dataclass(frozen=True, slots=True)
class Group:
    """Records with one budget, and the ballots that each of them can change, or how far each can move a sum.

    Parameters
    ----------
    name : str
        Public name.
    budget : Budget
        The most that may be spent on each record of the group.
    pool : int, default=0
        For votes: number of the pool whose teachers learn from the group, from 0.
    votes : int, default=1
        For votes: how many teachers of that pool learn from one record.
    weight : float, default=1.0
        For sums: length of the group's vectors as a share of the sensitivity, from 0 to 1.

    Raises
    ------
    InvalidParameterError
        If a number is out of range.

    Examples
    --------
    >>> Group("cautious", Budget(epsilon=0.5, delta=1e-5), votes=2).votes
    2
    """

    name: str
    budget: Budget
    pool: int = 0
    votes: int = 1
    weight: float = 1.0

    def __post_init__(self) -> None:
        integer_between("pool", self.pool, 0)
        integer_between("votes", self.votes, 1)
        real_between("weight", self.weight, 0.0, 1.0)


def require_one_delta(groups: Iterable[Group]) -> tuple[Group, ...]:
    """Return the groups: at least one, with names that differ and budgets at one delta."""
    groups = tuple(groups)
    names = [group.name for group in groups]
    if not groups or len(set(names)) != len(names):
        raise InvalidParameterError(f"groups={names!r} must be at least one, with names that differ.")
    if len({group.budget.delta for group in groups}) != 1:
        raise InvalidParameterError("groups must have budgets at one delta, and only epsilons that differ.")
    return groups
