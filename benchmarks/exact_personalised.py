"""Time exact per-record accounting at full size, beside the published meter on the same votes.

Simulated votes, from even to unanimous. By default 1,000 queries, 16,000 records, 100 partitions of 160 teachers.
Prints seconds, peak memory and what each accounting charges, and writes nothing.

Run ``python benchmarks/exact_personalised.py``.
"""

from __future__ import annotations

import argparse
import resource
from time import perf_counter

import numpy as np

from dpensemble.accounting import Change, price
from dpensemble.accounting.meters.data_dependent import PerRecordMeter
from dpensemble.accounting.published import PublishedPerRecordMeter
from dpensemble.allocation import partitions
from dpensemble.guarantee import Budget
from dpensemble.laws import LaplaceNoisyMax
from dpensemble.votes import Votes

BUDGET = Budget(epsilon=1e9, delta=1e-5)


def some_votes(n_queries: int, n_teachers: int) -> Votes:
    rng = np.random.default_rng(0)
    ballots = np.empty((n_queries, n_teachers), dtype=np.uint8)
    for row, share in zip(ballots, rng.beta(0.4, 0.4, n_queries), strict=True):
        row[:] = rng.random(n_teachers, dtype=np.float32) < share
    return Votes(ballots, 2)


def measure(name: str, build: type, law: LaplaceNoisyMax, allocation, votes: Votes) -> None:
    start = perf_counter()
    meter = build(law, allocation, BUDGET, 2, stop_when_spent=True)
    built = perf_counter()
    admitted = meter.admit(votes)
    stop = perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{name}: {built - start:.2f} s to set up, {stop - built:.2f} s for {admitted} queries; "
        f"peak_gb={peak:.2f}; epsilon {meter.spent_epsilon:.4f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=16_000)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--teachers", type=int, default=160, help="teachers a partition")
    options = parser.parse_args()
    k, n_teachers = options.partitions, options.teachers * options.partitions
    allocation = partitions(range(options.records), options.teachers, k)
    votes = some_votes(options.queries, n_teachers)
    law = LaplaceNoisyMax(n_teachers / 2)
    print(f"{options.records} records, {votes}; peak_gb before:", end=" ")
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f}")
    measure("exact, per record", PerRecordMeter, law, allocation, votes)
    measure("published, per record", PublishedPerRecordMeter, law, allocation, votes)
    worst = price(law, Change(ballots=n_teachers, classes=2, votes=k)).label * options.queries
    print(f"exact worst case: epsilon {worst.epsilon(BUDGET.delta, 'improved Renyi conversion'):.4f}")


if __name__ == "__main__":
    main()
