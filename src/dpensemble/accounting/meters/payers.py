"""Records with separate costs: a group where its pool votes, each teacher's records where teachers take turns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpensemble.accounting.group import Group
from dpensemble.voting_schedule import VotingSchedule


@dataclass(frozen=True, eq=False)
class Payers:
    """Records that take part in the same queries, one number each: their group, and their teacher if they have one."""

    group: NDArray[np.intp]
    teacher: NDArray[np.intp]

    @classmethod
    def of(cls, schedule: VotingSchedule, groups: tuple[Group, ...]) -> Payers:
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
