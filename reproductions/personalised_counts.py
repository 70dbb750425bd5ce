"""How many labels an ensemble by group gives within its budgets: by the paper's account, and by the library's own."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpensemble._random import SeededNoise
from dpensemble.accounting import Accounting, Meter
from dpensemble.accounting.meters import worst_case_meter
from dpensemble.accounting.meters.data_dependent import DataDependentGroupMeter
from dpensemble.accounting.published import published_group_rdp
from dpensemble.accounting.schedule import VotingSchedule
from dpensemble.design import ByGroup
from dpensemble.engine.voting import Questions, label_rows
from dpensemble.errors import BudgetError
from dpensemble.laws import sample
from dpensemble.votes import Votes

HISTORY = (100, 500, 1000, 2000)
# Votings of figure 4.
VOTINGS = 4000
DELTA = 1e-5
_ORDERS = np.arange(2.0, 51.0)


@contextmanager
def high_threshold() -> Iterator[None]:
    """Take a threshold above the number of teachers without a warning, as the paper has one."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "threshold=.* is above the number of")
        yield


@dataclass(frozen=True)
class Counted:
    """Rows that got a label within the budget, their labels, and what some labels, and all votings, cost each group."""

    asked: NDArray[np.int64]
    labels: NDArray[np.int64]
    history: list[dict[int, float]]
    at_end: list[float]


def by_the_paper(votes: Votes, design: ByGroup, voting: int) -> Counted:
    """Answer until a group's (with turns, a teacher's) published data-dependent cost exceeds its budget."""
    stage, n_queries = design.seats.stage, votes.n_queries
    schedule = VotingSchedule((stage,), voting)
    order = np.random.default_rng(voting).permutation(n_queries)
    shuffled = Votes(votes.ballots[order], votes.n_classes)
    counts, ballots = schedule.counts(shuffled, 0), schedule.ballots(0, n_queries)
    outcomes = sample(stage.law, counts, SeededNoise(voting))
    answered = outcomes < votes.n_classes
    ends = np.searchsorted(np.cumsum(answered), HISTORY)
    first = np.cumsum([0, *(pool.n_teachers for pool in stage.pools)])
    last, history, at_end = n_queries, [], []
    for group in design.groups:
        pool = stage.pools[group.pool]
        cost = published_group_rdp(stage.law, counts, _ORDERS, group.votes * pool.ballot)
        each = cost.check + answered[:, None] * cost.label
        turns = pool.participants < pool.n_teachers
        spent = np.zeros(n_queries)
        for teacher in range(first[group.pool], first[group.pool + 1] if turns else first[group.pool] + 1):
            epsilon = _running(each * (ballots[:, teacher, None] > 0))
            np.maximum(spent, epsilon, out=spent)
        last = min(last, int(np.count_nonzero(spent <= group.budget.epsilon)))
        at_end.append(float(spent[min(VOTINGS, n_queries) - 1]))
        history.append({n: float(spent[end]) for n, end in zip(HISTORY, ends, strict=True) if end < n_queries})
    kept = answered[:last]
    return Counted(order[:last][kept], outcomes[:last][kept], history, at_end)


def _running(rdp: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the epsilon after each query by the classical conversion."""
    epsilons: NDArray[np.float64] = (np.cumsum(rdp, axis=0) + np.log(1 / DELTA) / (_ORDERS - 1)).min(axis=1)
    return epsilons


def by_meter(
    votes: Votes,
    design: ByGroup,
    voting: int,
    accounting: Accounting = Accounting.EXACT,
    *,
    data_dependent: bool = False,
) -> int:
    """Count the labels that the library's own loop releases."""
    schedule = VotingSchedule((design.seats.stage,), voting)
    order = np.random.default_rng(voting).permutation(votes.n_queries)
    rows = np.arange(votes.n_queries, dtype=np.float64)[:, None]

    def vote(chunk: NDArray[np.float64]) -> Votes:
        return Votes(votes.ballots[chunk[:, 0].astype(int)], votes.n_classes)

    meter: Meter = worst_case_meter(schedule, design.groups, n_classes=votes.n_classes, accounting=accounting)
    if data_dependent:
        meter = DataDependentGroupMeter(schedule, design.groups, votes.n_classes, stop_when_spent=True)
    try:
        meter.require_one_query()
    except BudgetError:
        return 0
    questions = Questions(vote, rows, order, votes.n_teachers)
    return len(label_rows(questions, schedule, meter, SeededNoise(voting)).answered)
