"""Searches for the number of answers that fit a budget."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

from dpensemble.cost.composition import AdaptiveComposition, layout_number, layout_size


def answers_within(
    composition: Callable[[int], AdaptiveComposition | None], epsilon: float, delta: float, guess: int, most: int
) -> int:
    """Return how many answers fit, each number by the composition laid out for it, at most `most`.

    `composition` takes a size of a layout, and returns None if the size is out of range. Sizes are tried from the size
    of `guess`, in one direction, so the cost of a number of answers never depends on the search.
    """
    number, rising, falling = layout_number(max(1, guess)), False, False
    while number >= 0:
        top, bottom = layout_size(number), layout_size(number - 1)
        laid_out = composition(top)
        count = 0 if laid_out is None else laid_out.largest(epsilon, delta, min(top, most))
        if count >= min(top, most):
            if top >= most or falling:
                return min(top, most)
            number, rising = number + 1, True
        elif count > bottom:
            return count
        elif rising:
            return bottom
        else:
            number, falling = number - 1, True
    return 0


def gaussian_guess(variance: float, epsilon: float, delta: float) -> int:
    """Return about how many answers with losses of this variance fit, if the losses were Gaussian."""
    low, high = 0.0, 2.0
    while _gaussian_delta(high, epsilon) < delta:
        high *= 2
    low, _ = halved(lambda mu: _gaussian_delta(mu, epsilon) < delta, low, high, 50)
    return int(min(low**2 / variance, 2.0**50))


def _gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the delta of Gaussian noise (Balle and Wang 2018, Theorem 8)."""
    above, below = (math.erfc((epsilon / mu + sign * mu / 2) / math.sqrt(2)) / 2 for sign in (-1, 1))
    return above - (math.exp(min(epsilon, 700.0)) * below if below else 0.0)


def last_fitting(fits: Callable[[int], bool], within: int, growth: float, most: int | None = None) -> int:
    """Return the last count that fits, at most `most`, searched upwards from a count that fits."""
    limit = sys.maxsize if most is None else most

    def further(count: int) -> int:
        return min(limit, max(count + 1, math.ceil(count * growth)))

    if within >= limit:
        return limit
    beyond = further(within)
    while fits(beyond):
        if beyond >= limit:
            return limit
        within, beyond = beyond, further(beyond)
    return last_between(fits, within, beyond)


def last_between(fits: Callable[[int], bool], within: int, beyond: int) -> int:
    """Return the last count that fits, between a count that fits and one that does not."""
    while beyond - within > 1:
        middle = (within + beyond) // 2
        within, beyond = (middle, beyond) if fits(middle) else (within, middle)
    return within


def halved(fits: Callable[[float], bool], low: float, high: float, times: int) -> tuple[float, float]:
    """Return the interval in which `fits` stops to hold, after halving it `times` times."""
    for _ in range(times):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low, high
