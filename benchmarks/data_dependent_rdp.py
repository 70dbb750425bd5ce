"""Time PATE's data-dependent bounds: whole tables at once against a loop over queries and orders, in one run.

The loop is the straightforward way: per query the probability of missing the plurality, then per order the
theorem in plain Python floats. It is run on the first queries only, and its time is scaled to all of them.
Prints seconds and ratios, and writes nothing.

Run ``python benchmarks/data_dependent_rdp.py``.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from time import perf_counter

import numpy as np
from scipy.special import log_ndtr

from dpensemble.accounting.published import gnmax_rdp, lnmax_rdp, threshold_rdp

SIGMA, SCALE, THRESHOLD = 40.0, 20.0, 150.0


def some_votes(n_queries: int, n_classes: int, n_teachers: int = 250) -> np.ndarray:
    """Return votes from evenly split to nearly unanimous."""
    rng = np.random.default_rng(0)
    agreement = rng.beta(4, 1, n_queries)
    leader = rng.binomial(n_teachers, agreement)
    rest = rng.multinomial(n_teachers - leader, np.full(n_classes - 1, 1 / (n_classes - 1)))
    return np.column_stack([leader, rest])


def log1mexp(x: float) -> float:
    return math.log1p(-math.exp(x)) if x < -1 else math.log(-math.expm1(x))


def add_logs(terms: list[float]) -> float:
    top = max(terms)
    return top + math.log(sum(math.exp(term - top) for term in terms))


def gaussian_one(log_q: float, sigma: float, order: float) -> float:
    """Theorem 6 of Papernot et al. 2018 at one order."""
    independent = order / sigma**2
    mu2 = sigma * math.sqrt(-log_q)
    mu1 = mu2 + 1
    if mu2 <= 1 or order > mu1:
        return independent
    loss1, loss2 = mu1 / sigma**2, mu2 / sigma**2
    limit = (mu2 - 1) * loss2 - mu2 * (math.log1p(1 / (mu1 - 1)) + math.log1p(1 / (mu2 - 1)))
    if log_q > limit or -log_q <= loss2:
        return independent
    log_a = (order - 1) * (log1mexp(log_q) - log1mexp((log_q + loss2) * (1 - 1 / mu2)))
    log_b = (order - 1) * (loss1 - log_q / (mu1 - 1))
    return min(independent, add_logs([log1mexp(log_q) + log_a, log_q + log_b]) / (order - 1))


def laplace_one(log_q: float, loss: float, order: float) -> float:
    """Theorem 3 of Papernot et al. 2017 at one order, capped by randomized response."""
    excess = 2 * math.sinh(order * loss / 2) * math.sinh((order - 1) * loss / 2) / math.cosh(loss / 2)
    independent = math.log1p(excess) / (order - 1)
    if log_q >= -math.log1p(math.exp(loss)):
        return independent
    stays = log1mexp(log_q) + (order - 1) * (log1mexp(log_q) - log1mexp(log_q + loss))
    return min(independent, add_logs([stays, log_q + loss * (order - 1)]) / (order - 1))


def gnmax_loop(counts: np.ndarray, orders: np.ndarray) -> list[list[float]]:
    rows = []
    for row in counts.tolist():
        top = row.index(max(row))
        gaps = [row[top] - count for index, count in enumerate(row) if index != top]
        log_q = add_logs([float(log_ndtr(-gap / (SIGMA * math.sqrt(2)))) for gap in gaps])
        log_q = min(log_q, math.log(1 - 1 / len(row)))
        rows.append([gaussian_one(log_q, SIGMA, order) for order in orders.tolist()])
    return rows


def threshold_loop(counts: np.ndarray, orders: np.ndarray) -> list[list[float]]:
    rows = []
    for row in counts.tolist():
        log_q = float(log_ndtr(-abs(max(row) - THRESHOLD) / SIGMA))
        rows.append([gaussian_one(log_q, math.sqrt(2) * SIGMA, order) for order in orders.tolist()])
    return rows


def lnmax_loop(counts: np.ndarray, orders: np.ndarray) -> list[list[float]]:
    rows = []
    for row in counts.tolist():
        top = row.index(max(row))
        gaps = [(row[top] - count) / SCALE for index, count in enumerate(row) if index != top]
        log_q = min(add_logs([math.log((2 + gap) / 4) - gap for gap in gaps]), math.log(1 - 1 / len(row)))
        rows.append([laplace_one(log_q, 2 / SCALE, order) for order in orders.tolist()])
    return rows


def seconds(work: Callable[[], object], repeats: int) -> tuple[float, object]:
    """Return the median time of some runs, and the last result."""
    times, result = [], None
    for _ in range(repeats):
        start = perf_counter()
        result = work()
        times.append(perf_counter() - start)
    return float(np.median(times)), result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--orders", type=int, default=50)
    parser.add_argument("--loop-queries", type=int, default=1_000, help="queries that the loop is timed on")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each way (median is quoted)")
    options = parser.parse_args()
    counts = some_votes(options.queries, options.classes)
    orders = np.arange(2.0, options.orders + 2)
    few = counts[: options.loop_queries]
    print(f"{len(counts)} queries x {options.classes} classes x {len(orders)} orders;", end=" ")
    print(f"the loop is timed on {len(few)} queries and scaled to {len(counts)}")
    ways = {
        "gnmax": (lambda votes: gnmax_rdp(votes, SIGMA, orders), gnmax_loop),
        "lnmax": (lambda votes: lnmax_rdp(votes, SCALE, orders), lnmax_loop),
        "threshold": (lambda votes: threshold_rdp(votes, THRESHOLD, SIGMA, orders), threshold_loop),
    }
    for name, (table, loop) in ways.items():
        fast, _ = seconds(lambda table=table: table(counts), options.repeats)
        slow, looped = seconds(lambda loop=loop: loop(few, orders), options.repeats)
        slow *= len(counts) / len(few)
        apart = np.max(np.abs(table(few) / np.array(looped) - 1))
        print(f"{name}: {fast:.3f} s at once, {slow:.2f} s by the loop: {slow / fast:.0f} times as fast", end="; ")
        print(f"largest relative difference {apart:.1e}")


if __name__ == "__main__":
    main()
