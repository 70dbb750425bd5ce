"""The common base of all meters of scheduled votes by groups."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence

from dpensemble._checks import integer_between
from dpensemble._rounding import round_up
from dpensemble.accounting.base import Meter
from dpensemble.accounting.group import EVERYONE, Group, require_one_delta
from dpensemble.cost import Conversion, Cost
from dpensemble.errors import BudgetError, DataError, InvalidParameterError
from dpensemble.votes import Votes
from dpensemble.voting_schedule import Stage, VotingSchedule

#: Cost of an answer to each group, in the order of groups. None where the group's pool sits out.
Costs = tuple[Cost | None, ...]


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
        ones: Sequence[Costs],
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
                raise too_small(group, one, self.conversion)

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


def too_small(group: Group, one: Cost, conversion: Conversion) -> BudgetError:
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
