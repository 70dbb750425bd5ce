"""Which teachers vote on which query, with what weight, and the law of each answer. All of this is public."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import integer_between
from dpensemble._random import Stream, seed_sequence
from dpensemble.errors import InvalidParameterError
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
