"""Time personalised label production: 250 teachers, three groups, from 875 to 7,000 queries, 49 Renyi orders.

Simulated votes. Each variant is timed on the same votes. The variants are the published data-dependent costs of every
group at 49 orders with the drawing of labels, the exact data-dependent meter with the same, and the straightforward
way, one query, group and order at a time with the published loose bound. Prints seconds, the growth from one size
to the next (2 is linear), and writes nothing.

Run ``python benchmarks/personalised_labels.py``.
"""

from __future__ import annotations

import argparse
import math
from time import perf_counter

import numpy as np

from dpensemble._random import SeededNoise
from dpensemble.accounting import Accounting
from dpensemble.accounting.meters.data_dependent import DataDependentGroupMeter
from dpensemble.accounting.published import published_group_rdp
from dpensemble.accounting.schedule import VotingSchedule
from dpensemble.design import ByGroup, Census, InfluenceRule, Personalisation
from dpensemble.engine.voting import Questions, label_rows
from dpensemble.guarantee import Budget
from dpensemble.laws import GaussianNoisyMax, LawChoice, sample
from dpensemble.votes import Votes

ORDERS = np.arange(2.0, 51.0)
# No budget stops a run.
CENSUS = Census(
    names=("high", "medium", "low"),
    budgets=tuple(Budget(epsilon=epsilon, delta=1e-5) for epsilon in (1e5, 2e5, 4e5)),
    shares=(0.5, 0.3, 0.2),
)


def some_votes(n_queries: int, n_teachers: int) -> Votes:
    rng = np.random.default_rng(0)
    shares = rng.beta(0.4, 0.4, n_queries)
    return Votes((rng.random((n_queries, n_teachers)) < shares[:, None]).astype(np.uint8), 2)


def published(votes: Votes, design: ByGroup) -> None:
    """Charge all groups at all orders by the published bounds, and draw the labels."""
    schedule = VotingSchedule((design.seats.stage,))
    counts = schedule.counts(votes, 0)
    ballots = schedule.ballots(0, votes.n_queries)
    first = np.cumsum([0, *(pool.n_teachers for pool in design.seats.stage.pools)])
    for group in design.groups:
        pool = design.seats.stage.pools[group.pool]
        cost = published_group_rdp(design.seats.stage.law, counts, ORDERS, group.votes * pool.ballot)
        turns = pool.participants < pool.n_teachers
        last = first[group.pool + 1] if turns else first[group.pool] + 1
        taken = (ballots[:, first[group.pool] : last] > 0).T @ cost.label
        (taken + math.log(1e5) / (ORDERS - 1)).min(axis=1).max()
    sample(design.seats.stage.law, counts, SeededNoise(0))


def exactly(votes: Votes, design: ByGroup) -> None:
    """Let the library's loop label all rows under exact data-dependent accounting."""
    schedule = VotingSchedule((design.seats.stage,))
    meter = DataDependentGroupMeter(schedule, design.groups, 2, stop_when_spent=True)
    rows = np.arange(votes.n_queries, dtype=np.float64)[:, None]
    questions = Questions(
        lambda chunk: Votes(votes.ballots[chunk[:, 0].astype(int)], 2),
        rows,
        np.arange(len(rows)),
        votes.n_teachers,
    )
    released = label_rows(questions, schedule, meter, SeededNoise(0))
    assert len(released.answered) == votes.n_queries  # noqa: S101


def one_by_one(votes: Votes, design: ByGroup) -> None:
    """Count, charge and draw one query at a time, as a first script would."""
    rng = np.random.default_rng(0)
    schedule, sigma = VotingSchedule((design.seats.stage,)), design.seats.stage.law.settings()["sigma"]
    ballots = schedule.ballots(0, votes.n_queries)
    spent = [[0.0] * len(ORDERS) for _ in design.groups]
    for query in range(votes.n_queries):
        counts = [0.0, 0.0]
        for vote, weight in zip(votes.ballots[query].tolist(), ballots[query].tolist(), strict=True):
            counts[vote] += weight
        for number, group in enumerate(design.groups):
            sensitivity = group.votes * design.seats.stage.pools[group.pool].ballot
            for place, order in enumerate(ORDERS.tolist()):
                spent[number][place] += order * (sensitivity / sigma) ** 2
        np.argmax([count + rng.normal(0, sigma) for count in counts])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=7_000)
    parser.add_argument("--teachers", type=int, default=250)
    options = parser.parse_args()
    law = GaussianNoisyMax(0.16 * options.teachers)
    heads = (
        ("queries", 9),
        ("published s", 13),
        ("growth", 8),
        ("exact s", 9),
        ("growth", 8),
        ("one by one s", 14),
    )
    print(f"{'variant':<12}" + "".join(f"{name:>{width}}" for name, width in heads))
    for kind in Personalisation:
        design = ByGroup(
            name=f"{kind.value}-pate",
            kind=kind,
            choice=LawChoice.of(law),
            n_teachers=options.teachers,
            census=CENSUS,
            accounting=Accounting.PUBLISHED,
            rule=InfluenceRule(published=True),
        )
        before: list[float] = []
        for n_queries in (options.queries // 8, options.queries // 4, options.queries // 2, options.queries):
            votes = some_votes(n_queries, design.seats.n_teachers)
            seconds = []
            for way in (published, exactly, one_by_one):
                start = perf_counter()
                way(votes, design)
                seconds.append(perf_counter() - start)
            growth = (
                [f"{now / then:.1f}" for now, then in zip(seconds, before, strict=True)] if before else ["", "", ""]
            )
            print(
                f"{kind.value:<12}{n_queries:>9}{seconds[0]:>13.2f}{growth[0]:>8}{seconds[1]:>9.2f}{growth[1]:>8}"
                f"{seconds[2]:>14.2f}",
                flush=True,
            )
            before = seconds


if __name__ == "__main__":
    main()
