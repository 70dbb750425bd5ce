"""Output perturbation: coefficients of known sensitivity, rounded and given discrete noise."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import delta_of, epsilon_of
from dpensemble._random import noise_source
from dpensemble.cost import DEFAULT_ORDERS
from dpensemble.cost.privacy_cost import improved_epsilon
from dpensemble.errors import InvalidParameterError
from dpensemble.releases.sums import DiscreteNoise

# Steps of the released coefficients in one sensitivity.
_FINENESS = 2**16
_ROUND_UP = 1 + 1e-9


def released(
    weights: NDArray[np.float64], sensitivity: float, epsilon: float, delta: float, seed: int | None
) -> tuple[NDArray[np.float64], float | None]:
    """Return coefficients with noise, by their Euclidean sensitivity, and ``rho`` if the noise is Gaussian."""
    step = 2.0 ** math.floor(math.log2(sensitivity / _FINENESS))
    n = len(weights)
    # Rounding moves each of the two vectors by at most half a step.
    moved = (sensitivity / step + math.sqrt(n)) * _ROUND_UP
    steps = [int(value) for value in np.rint(weights / step)]
    noise = DiscreteNoise(noise_source(seed))
    if delta == 0:
        scale = math.ceil(Fraction(moved * math.sqrt(n) * _ROUND_UP) / Fraction(epsilon))
        return np.array([k + noise.laplace(scale) for k in steps], dtype=np.float64) * step, None
    variance = math.ceil(moved**2 / (2 * concentrated_for(epsilon, delta)) * _ROUND_UP)
    return (
        np.array([k + noise.gaussian(variance) for k in steps], dtype=np.float64) * step,
        moved**2 / (2 * variance) * _ROUND_UP,
    )


def concentrated_for(epsilon: float, delta: float) -> float:
    """Return the largest zero-concentrated privacy loss that converts to (epsilon, delta), rounded down."""
    epsilon, delta = epsilon_of(epsilon), delta_of(delta)
    low, high = 1e-18, epsilon
    if improved_epsilon(low * DEFAULT_ORDERS, DEFAULT_ORDERS, delta) > epsilon:
        raise InvalidParameterError(
            f"epsilon={epsilon:g} is too small for delta={delta:g}: use a larger epsilon, or delta=0."
        )
    for _ in range(100):
        middle = math.sqrt(low * high)
        fits = improved_epsilon(middle * DEFAULT_ORDERS, DEFAULT_ORDERS, delta) <= epsilon
        low, high = (middle, high) if fits else (low, middle)
    return low
