"""The published composition of (epsilon, delta) answers, for comparing methods at equal total loss."""

from __future__ import annotations

from math import e, expm1, inf, log, log1p, sqrt

from dpensemble._checks import epsilon_of, integer_between, real_between


def general_composition(epsilon: float, delta: float, times: int, slack: float) -> tuple[float, float]:
    """Return the privacy of `times` adaptive answers by the closed form of Kairouz, Oh and Viswanath.

    `dpensemble.cost.optimal_composition` gives the exact optimum. This form is the one of the paper's tables.
    `slack` is an additional delta. 0 gives simple composition. The form is Theorem 3.4 of "The composition theorem for
    differential privacy", quoted as Theorem 2.3 of "Optimized Tradeoffs for Private Prediction with Majority
    Ensembling".
    """
    epsilon, delta = epsilon_of(epsilon), real_between("delta", delta, 0, 1)
    times, slack = integer_between("times", times, 1), real_between("slack", slack, 0, 1)
    simple = times * epsilon
    # Rounded up, without the cancellation that would lose a tiny delta.
    log_kept = -inf if 1 in (delta, slack) else times * log1p(-delta) + log1p(-slack)
    total_delta = min(1.0, -expm1(log_kept) * (1 + 1e-12))
    # Beyond this simple composition is smaller, and the exponential would overflow.
    if slack == 0 or epsilon > 100:
        return simple, total_delta
    drift = simple * expm1(epsilon) / (expm1(epsilon) + 2)
    widths = (log(e + sqrt(times) * epsilon / slack), log(1 / slack))
    return min(simple, *(drift + epsilon * sqrt(2 * times * width) for width in widths)), total_delta
