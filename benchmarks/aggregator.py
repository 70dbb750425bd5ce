"""How long an answer from given votes takes, and how many answers fresh sampling allows.

Run ``python benchmarks/aggregator.py``.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from dpensemble import Aggregator, Budget
from dpensemble.accounting import GaussianSum
from dpensemble.laws import ExponentialVote, GaussianNoisyMax, LaplaceNoisyMax, SparseNoisyMax

BUDGET = Budget(epsilon=1000, delta=1e-5)
REPEATS = 50


def timed(name: str, aggregator: Aggregator, **votes: Any) -> None:
    aggregator.answer(**votes)
    taken = []
    for _ in range(REPEATS):
        start = perf_counter()
        aggregator.answer(**votes)
        taken.append(perf_counter() - start)
    print(f"  {name:44s}{1e3 * np.median(taken):9.2f} ms{1e3 * np.quantile(taken, 0.95):9.2f} ms")


def made(law: Any, classes: int, n_voters: int, **given: Any) -> Aggregator:
    settings = {"relation": "replace-one", "budget": BUDGET, "answers": 2 * (REPEATS + 1)} | given
    return Aggregator(law, classes, n_voters, **settings)


def speed() -> None:
    print("time of an answer: median, 95th percentile")
    rng = np.random.default_rng(0)
    sparse = made(SparseNoisyMax(20.0, 130.0), 50_000, 200)
    timed("50,000 tokens, 200 voters of 180 tokens", sparse, ballots=rng.choice(180, 200, replace=True))
    timed("50,000 tokens, 200 voters who agree", sparse, ballots=[17] * 180 + list(range(20)))
    timed("2 classes, 250 voters", made(GaussianNoisyMax(60.0), 2, 250), counts=[70, 180])
    timed("10 classes, 250 voters", made(GaussianNoisyMax(60.0), 10, 250), counts=[25] * 10)
    log_probs = np.log(rng.dirichlet(np.ones(1000), 50))
    timed("log-probabilities of 1,000 classes, 50 voters", made(ExponentialVote(10.0), 1000, 50, clip=10.0),
          log_probs=log_probs)  # fmt: skip
    timed("mean of probabilities of 100 classes, 50 voters", made(GaussianSum(5.0), 100, 50),
          log_probs=np.log(rng.dirichlet(np.ones(100), 50)))  # fmt: skip


def fresh() -> None:
    print("answers of ten voters, Laplace scale 3, epsilon 3, delta 1e-5")
    budget = Budget(epsilon=3, delta=1e-5)
    for classes in (2, 10):
        for relation in ("add-or-remove-one", "replace-one"):
            for rate in (None, 0.1, 0.02):
                start = perf_counter()
                sampling = {} if rate is None else {"sampling": "fresh", "rate": rate}
                aggregator = Aggregator(LaplaceNoisyMax(3.0), classes, 10, relation=relation, budget=budget, **sampling)
                what = "fixed" if rate is None else f"fresh, rate {rate}"
                print(f"  {classes:2d} classes, {relation:18s}{what:18s}{aggregator.remaining():8,}"
                      f"{perf_counter() - start:8.1f} s")  # fmt: skip


if __name__ == "__main__":
    speed()
    fresh()
