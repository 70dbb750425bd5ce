"""A guarantee in an attacker's terms: how much better than guessing an attacker can distinguish neighbouring data sets.

The attacker knows all records but one unit's, has two candidates for that unit, and raises an alarm for one of them.
Under add-or-remove-one, the question is instead whether the unit is there at all: exchanging it would be two changes.
For every attack, the share of right alarms (true positives) is bounded by the share of false alarms (false positives).
A guarantee of (epsilon, delta) gives ``TPR <= min(exp(epsilon) FPR + delta, 1 - exp(-epsilon) (1 - delta - FPR))``
(P. Kairouz, S. Oh and P. Viswanath, ICML 2015, Theorem 2.1, rearranged). If all releases are Gaussian sums, they
obey the exact curve ``TPR <= Phi(Phi^-1(FPR) + mu)`` (J. Dong, A. Roth and W. Su, JRSS B 2022, Definition 2.6), which
is lower.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

from dpensemble.accounting import gaussian_mu
from dpensemble.relations import Basis
from dpensemble.report.record import RunRecord

_FALSE_ALARMS = (0.001, 0.01, 0.1)
# `gaussian_mu` is rounded down. This margin is far more than the rounding can have lost.
_ROUNDING = 1 + 1e-9
_NORMAL = NormalDist()


def attack(record: RunRecord) -> dict[str, Any]:
    """Return the largest advantage, and pairs of false and right alarms, as shares, rounded up."""
    epsilon, delta = float(record.guarantee["epsilon"]), float(record.guarantee["delta"])
    mu = gaussian_mu(epsilon, delta) * _ROUNDING if record.released_sums else None
    pairs = [(alarm, hits(alarm, epsilon, delta, mu)) for alarm in _FALSE_ALARMS]
    return {
        "is_exact": mu is not None,
        "advantage": _up(advantage(epsilon, delta, mu)),
        "hits": [[alarm, _up(hit)] for alarm, hit in pairs],
    }


def risk_view(record: RunRecord) -> dict[str, Any]:
    """Return the advantage over guessing, and hits at some false-alarm rates, rounded up, in per cent."""
    bounds = attack(record)
    return {
        "is_exact": bounds["is_exact"],
        "advantage": _percent(bounds["advantage"]),
        "condition": condition(record),
        "rows": [(f"{100 * alarm:g}%", _percent(hit)) for alarm, hit in bounds["hits"]],
    }


def condition(record: RunRecord) -> str:
    """Return when limits on attacks hold if a guarantee depends on the data. Empty for a worst-case guarantee."""
    stated = record.statement()
    if stated.basis is Basis.WORST_CASE:
        return ""
    if stated.fixed_number:
        return (
            "This holds only for the private records of this run, and only while the privacy that was actually spent "
            "stays secret."
        )
    return (
        "This holds only for the private records of this run, and only for the labels, given their number. It does not "
        "cover the number of labels, and an attacker may learn more from that number."
    )


def hits(false_alarms: float, epsilon: float, delta: float, mu: float | None = None) -> float:
    """Return the largest share of right alarms of any attack with this share of false alarms."""
    grow = math.exp(min(epsilon, 700.0))
    bound = min(1.0, grow * false_alarms + delta, 1 - (1 - delta - false_alarms) / grow)
    return bound if mu is None else min(bound, _NORMAL.cdf(_NORMAL.inv_cdf(false_alarms) + mu))


def advantage(epsilon: float, delta: float, mu: float | None = None) -> float:
    """Return the largest difference of right and false alarms of any attack: 0 is guessing, 1 is certainty."""
    # The difference is largest where both bounds meet.
    bound = min(1.0, math.tanh(epsilon / 2) + 2 * delta / (1 + math.exp(min(epsilon, 700.0))))
    return bound if mu is None else min(bound, 2 * _NORMAL.cdf(mu / 2) - 1)


def _up(share: float) -> float:
    """Round a share up to three decimals."""
    return math.ceil(min(share, 1.0) * 1000 - 1e-9) / 1000


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"
