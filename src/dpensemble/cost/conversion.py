"""Conversion of a Renyi curve to epsilon at a delta."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

# Far above the rounding of the few operations here, far below any figure that is shown.
_ROUND_UP = 1.0 + 1e-13


def classical_epsilon(rdp: NDArray[np.float64], orders: NDArray[np.float64], delta: float) -> float:
    """Return ``min rdp + log(1/delta) / (order - 1)``, rounded up (Mironov 2017, Prop. 3). 0 if nothing was spent."""
    if not rdp.any():
        return 0.0
    return float(np.min(rdp + math.log(1 / delta) / (orders - 1))) * _ROUND_UP


def improved_epsilon(rdp: NDArray[np.float64], orders: NDArray[np.float64], delta: float) -> float:
    """Return ``min rdp + log((order - 1) / order) - (log delta + log order) / (order - 1)``, at least 0."""
    # C. Canonne, G. Kamath and T. Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020, Proposition
    # 12. It is never above the classical conversion.
    if not rdp.any():
        return 0.0
    epsilons = rdp + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
    # The improved form may lie above the classical one through rounding only.
    return max(0.0, min(float(np.min(epsilons)) + 1e-13, classical_epsilon(rdp, orders, delta)) * _ROUND_UP)


def improved_delta(rdp: NDArray[np.float64], orders: NDArray[np.float64], epsilon: float) -> float:
    """Return the delta that holds at `epsilon`, rounded up: the inverse of `improved_epsilon`."""
    if not rdp.any():
        return 0.0
    logs = (orders - 1) * (rdp - epsilon + np.log1p(-1 / orders)) - np.log(orders)
    # The terms of the sum are of the size of the largest order, so their rounding grows with it.
    slack = 1e-13 * (1 + (orders - 1) * (rdp + abs(epsilon)))
    return float(math.exp(min(0.0, np.min(logs + slack))))
