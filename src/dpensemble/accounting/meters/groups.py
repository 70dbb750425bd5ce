"""Groups of records with budgets of their own, and what all their meters have in common.

Which record belongs to which group, and the groups' budgets, are public. Neighbours differ in one record of one
group, so each group is charged for what one of its own records can change, and for nothing else.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dpensemble._checks import integer_between
from dpensemble._rounding import round_up
from dpensemble.accounting.base import Meter
from dpensemble.budget import Budget
from dpensemble.cost import Conversion, PrivacyCost
from dpensemble.errors import BudgetError, DataError, InvalidParameterError
from dpensemble.votes import Votes
from dpensemble.voting_schedule import Stage, VotingSchedule

#: Name of the one group of a run that treats all records alike.
EVERYONE = "everyone"
#: What an answer costs each group, in the order of groups; None where its pool sits out.
Costs = tuple[PrivacyCost | None, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Records with one budget, and the ballots that each of them can change.

    Parameters
    ----------
    name : str
        Public name.
    budget : Budget
        What may be spent on each record of the group.
    pool : int
        Number of the pool whose teachers learn from the group, from 0.
    votes : int, default=1
        Teachers of that pool that learn from one record.

    Raises
    ------
    InvalidParameterError
        If a number is out of range.

    Examples
    --------
    >>> Group("cautious", Budget(epsilon=0.5, delta=1e-5), pool=0, votes=2).votes
    2
    """

    name: str
    budget: Budget
    pool: int
    votes: int = 1

    def __post_init__(self) -> None:
        integer_between("pool", self.pool, 0)
        integer_between("votes", self.votes, 1)


def check_groups(stages: Sequence[Stage], groups: Iterable[Group]) -> tuple[Group, ...]:
    """Return the groups if together they account for every ballot."""
    groups = tuple(groups)
    names, n_pools = [group.name for group in groups], len(stages[0].pools)
    if not groups or len(set(names)) != len(names):
        raise InvalidParameterError(f"groups={names!r} must be at least one, with names that differ.")
    if len({group.budget.delta for group in groups}) != 1:
        raise InvalidParameterError("groups must have budgets at one delta, and only epsilons that differ.")
    for group in groups:
        integer_between("pool", group.pool, 0, n_pools - 1)
        integer_between("votes", group.votes, 1, stages[0].pools[group.pool].n_teachers)
        turning = any(0 < (p := stage.pools[group.pool]).participants < p.n_teachers for stage in stages)
        if group.votes > 1 and turning:
            raise InvalidParameterError(
                f"votes={group.votes} of group {group.name!r} must be 1 where the pool's teachers take turns."
            )
    orphans = [pool for pool in range(n_pools) if pool not in {group.pool for group in groups}]
    if any(stage.pools[pool].participants for stage in stages for pool in orphans):
        raise InvalidParameterError(f"groups leave out pool {orphans[0]}, whose ballots somebody must pay for.")
    return groups


class GroupMeter(Meter):
    """Charges each group for what its own records can change, and stops before any group's budget is exceeded.

    Parameters
    ----------
    schedule : VotingSchedule
        Who votes on which query.
    groups : tuple of Group
        As `check_groups` returns them.
    conversion : Conversion
        How costs become epsilons.
    ones : tuple of Costs
        Most that one answer of each stage costs each group that takes part.
    sure : tuple of int
        Queries that each group can surely afford.

    Notes
    -----
    The budget is that of the most generous group, so the epsilon spent is the largest of the groups'.
    """

    def __init__(
        self,
        schedule: VotingSchedule,
        groups: tuple[Group, ...],
        conversion: Conversion,
        ones: tuple[Costs, ...],
        sure: tuple[int, ...],
    ) -> None:
        super().__init__(max((group.budget for group in groups), key=lambda budget: budget.epsilon), conversion)
        self.schedule, self.groups = schedule, groups
        self._ones, self._sure = ones, sure
        # Queries admitted so far, which decides whose turn it is.
        self._asked = 0
        self._closed = False

    @property
    @abstractmethod
    def group_epsilons(self) -> tuple[float, ...]:
        """What each group was charged, never above its own budget; private if `basis` is data-dependent."""

    @property
    def sure_queries(self) -> int:
        """Number of queries that every group can surely afford; public."""
        return min(self._sure)

    def next_chunk(self, asked: int) -> int:
        """Return how many queries to ask next, none of them beyond the present stage; public."""
        return self.schedule.left_in_stage(asked, super().next_chunk(asked))

    @property
    def one_query(self) -> PrivacyCost:
        """Most that a single query of any stage costs the group to which it costs most; public."""
        return max((one for costs in self._ones for one in costs if one is not None), key=lambda one: one.rdp[0])

    @property
    def spent_epsilon(self) -> float:
        """Largest epsilon of any group."""
        return max(self.group_epsilons)

    def require_one_query(self) -> None:
        """Refuse budgets of which one does not surely cover an answer.

        Raises
        ------
        BudgetError
            With the name of the group and the smallest epsilon that would do for it.
        """
        for group, one, sure in zip(self.groups, self._ones[0], self._sure, strict=True):
            if one is not None and sure < 1:
                raise too_small(group, one, self.conversion)

    def _admissible(self, votes: Votes) -> int:
        """Return how many leading queries of the chunk belong to the present stage, where all of them must."""
        if votes.n_teachers != self.schedule.n_teachers:
            raise DataError(f"votes must be those of all {self.schedule.n_teachers} teachers.")
        if self._closed or not votes.n_queries:
            return 0
        left = self.schedule.left_in_stage(self._asked, votes.n_queries)
        if left < votes.n_queries and self.schedule.stage_at(self._asked)[0] < len(self.schedule.stages) - 1:
            raise InvalidParameterError("votes must not reach beyond the present stage; ask for next_chunk only.")
        return left

    def _admit(self, admitted: int, n_queries: int) -> int:
        """Take note of what was admitted; after a query that did not fit nothing more is."""
        self._asked += admitted
        self._closed = self._closed or admitted < n_queries
        return admitted


def too_small(group: Group, one: PrivacyCost, conversion: Conversion) -> BudgetError:
    """Return the error of a group that cannot afford one query."""
    needed = round_up(one.epsilon(group.budget.delta, conversion), 4)
    whose = "" if group.name == EVERYONE else f" of group {group.name!r}"
    return BudgetError(
        f"epsilon={group.budget.epsilon:g}{whose} at delta={group.budget.delta:g} is too small for one label; "
        f"the smallest epsilon that would do is {needed:g}, or use more teachers or larger noise."
    )


def most_votings(n_votings: int, stage: Stage, pool: int) -> int:
    """Return how many queries in a row give no teacher of the pool more than so many votings."""
    taking_part = stage.pools[pool]
    if not taking_part.participants:
        return sys.maxsize
    return n_votings * taking_part.n_teachers // taking_part.participants
