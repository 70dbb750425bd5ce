"""The smallest noise at which a number of labels fits a budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from dpensemble.accounting import Meter
from dpensemble.budget import Budget
from dpensemble.cost import Conversion
from dpensemble.errors import BudgetError
from dpensemble.planning.ensemble import Ensemble

# Noise in votes that is tried; below the least, and above the most, answers hardly change any more.
_LEAST, _MOST = 0.01, 1e6
# Relative precision of the noise.
PRECISION = 5e-4
# Epsilon falls about with the first power of the noise, or faster.
_SLOPE, _FLATTEST, _STEEPEST = -1.1, -0.5, -4.0
_LONGEST_STEP = math.log(10)
# Composed exactly, answers need about this share of the noise that a Renyi curve asks for.
_EXACT_SHARE = 0.925


def calibrated(
    ensemble: Ensemble, labels: int, budget: Budget, start: float | None = None
) -> tuple[Ensemble, Meter]:
    """Return the ensemble with the smallest noise at which the labels fit, and its meter.

    Parameters
    ----------
    ensemble : Ensemble
        Its own noise plays no part.
    labels : int
        Labels wanted; for gated methods, if every query is answered.
    budget : Budget
        What may be spent.
    start : float, optional
        Noise near which to look first, in votes.

    Returns
    -------
    ensemble : Ensemble
        Its noise is at most a share `PRECISION` above the smallest that would do.
    meter : Meter
        Admits at least `labels`: the safe endpoint.

    Raises
    ------
    BudgetError
        If no noise up to a million votes is enough.
    """
    conversion = ensemble.conversion

    def epsilon_at(noise: float) -> float:
        # Read off after the meter is made, from the composition that it laid out and that a run will use.
        meter = ensemble.with_noise(noise).meter(budget)
        return (meter.one_query * labels).epsilon(budget.delta, conversion)

    noise = smallest_noise(
        epsilon_at, rough_noise(ensemble, labels, budget) if start is None else start, budget.epsilon
    )
    while noise is not None and noise <= _MOST:
        found = ensemble.with_noise(noise)
        meter = found.meter(budget)
        if meter.sure_queries >= labels:
            return found, meter
        noise *= 1 + PRECISION / 10
    raise _none_fits(ensemble, labels, budget)


def rough_noise(ensemble: Ensemble, labels: int, budget: Budget) -> float:
    """Return about the smallest noise at which the labels fit, without composing them exactly.

    Parameters
    ----------
    ensemble, labels, budget
        As for `calibrated`.

    Raises
    ------
    BudgetError
        If no noise up to a million votes is enough.
    """
    best = ensemble.conversion is Conversion.BEST
    # The optimal vote of more classes takes seconds to price, and two classes cost about as much.
    ensemble = ensemble if ensemble.has_published else replace(ensemble, n_classes=2)
    conversion = Conversion.IMPROVED if best else ensemble.conversion

    def epsilon_at(noise: float) -> float:
        return (ensemble.with_noise(noise).one_query() * labels).epsilon(budget.delta, conversion)

    noise = smallest_noise(epsilon_at, 1.0, budget.epsilon)
    if noise is None:
        raise _none_fits(ensemble, labels, budget)
    return max(_LEAST, noise * _EXACT_SHARE) if best else noise


def _none_fits(ensemble: Ensemble, labels: int, budget: Budget) -> BudgetError:
    gate = "" if ensemble.threshold_sigma is None else ", a larger threshold_sigma"
    return BudgetError(
        f"labels={labels} do not fit epsilon={budget.epsilon:g} at delta={budget.delta:g} with any noise up to "
        f"{_MOST:,.0f} votes; ask for fewer labels{gate} or a larger epsilon."
    )


def smallest_noise(epsilon_at: Callable[[float], float], start: float, epsilon: float) -> float | None:
    """Return the smallest noise, to a share `PRECISION`, whose epsilon is within a budget.

    The two last points, on logarithmic axes, give the next one; the answer stays between
    the largest noise seen to be too small and the smallest seen to be enough.

    Parameters
    ----------
    epsilon_at : callable
        Takes noise in votes, returns the epsilon that it needs.
    start : float
        Noise near which to look first.
    epsilon : float
        The budget.

    Returns
    -------
    float or None
        None if no noise up to a million votes is enough.
    """
    low, high, guess, slope = _LEAST, math.inf, start, _SLOPE
    last: tuple[float, float] | None = None
    while True:
        found = math.log(max(epsilon_at(guess), 1e-12) / epsilon)
        if found <= 0:
            high = guess
        else:
            low = guess
        if -PRECISION * abs(slope) / 2 <= found <= 0 or high <= low * (1 + PRECISION / 2):
            return high
        if low >= _MOST:
            return None
        here = math.log(guess)
        if last is not None and here != last[0]:
            slope = min(_FLATTEST, max(_STEEPEST, (found - last[1]) / (here - last[0])))
        last = (here, found)
        # Aim a little inside the budget, so that a good guess is a safe one.
        step = -found / slope + PRECISION / 4
        guess = math.exp(here + max(-_LONGEST_STEP, min(_LONGEST_STEP, step)))
        guess = min(max(guess, _LEAST), _MOST)
        if not low < guess < high:
            guess = math.sqrt(low * min(high, _MOST))
