"""The smallest noise at which a number of labels fits the budgets of all groups."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from dpensemble._checks import integer_between
from dpensemble.cost import Conversion
from dpensemble.design.base import VotingDesign
from dpensemble.errors import BudgetError, InvalidParameterError

AnyDesign = TypeVar("AnyDesign", bound=VotingDesign)

# Range of noise in votes to try. Below and above it, answers hardly change.
_LEAST, _MOST = 0.01, 1e6
# Relative precision of the noise.
PRECISION, _NEAR = 5e-4, 2e-3
# Epsilon falls about with the first power of the noise, or faster.
_SLOPE, _FLATTEST, _STEEPEST = -1.1, -0.5, -4.0
_LONGEST_STEP = math.log(10)
# With exact composition, answers need about this share of the noise that a Renyi curve requires.
_EXACT_SHARE = 0.925


def with_least_noise(design: AnyDesign, labels: int, start: float | None = None) -> AnyDesign:
    """Return the run with the smallest noise at which `labels` labels fit the budgets of all groups.

    Its noise is about a share `PRECISION` above the smallest. Its checked meter admits at least `labels`, even if a
    gate lets every query pass. The search begins at `start`.
    """
    labels = integer_between("labels", labels, 1)
    if not design.choice.noise_is_open:
        raise InvalidParameterError(
            f"labels={labels} and the noise of {design.law!r:.80} cannot both be given: leave one out, and the library "
            "finds it."
        )
    start = rough_noise(design, labels) if start is None else start
    design = design.with_noise(start).settled()
    noise = smallest_noise(lambda noise: share_spent(design.with_noise(noise), labels), start, 1.0)
    # The meter may round differently from the search. Growing steps end for every difference.
    step = PRECISION / 10
    while noise is not None and noise <= _MOST:
        candidate = design.with_noise(noise)
        if candidate.meter(labels).sure_queries >= labels:
            return candidate
        noise, step = noise * (1 + step), 2 * step
    raise _none_fits(design, labels)


def rough_noise(design: VotingDesign, labels: int) -> float:
    """Return about the smallest noise at which `labels` labels fit, without composing them exactly."""
    best = design.conversion is Conversion.BEST
    design = quickly_priced(design) if best else design
    conversion = Conversion.IMPROVED if best else design.conversion
    noise = smallest_noise(lambda noise: share_spent(design.with_noise(noise), labels, conversion), 1.0, 1.0)
    if noise is None:
        raise _none_fits(design, labels)
    return max(_LEAST, noise * _EXACT_SHARE) if best else noise


def near_noise(design: VotingDesign, labels: int, hopeless: Callable[[float], bool]) -> float:
    """Return the smallest noise at which `labels` labels fit, to a share `_NEAR`, or less if already hopeless."""
    quick, rough = quickly_priced(design), rough_noise(design, labels)
    noise = smallest_noise(lambda noise: share_spent(quick.with_noise(noise), labels), rough, 1.0, _NEAR, hopeless)
    if noise is None:
        raise _none_fits(design, labels)
    return noise


def quickly_priced(design: AnyDesign) -> AnyDesign:
    """Return the run with two classes, which cost about as much, if listing more classes could take seconds."""
    return replace(design, n_classes=2) if design.n_classes > 2 else design


def _none_fits(design: VotingDesign, labels: int) -> BudgetError:
    gate = ", a larger threshold_sigma" if design.gated else ""
    budget = design.groups[0].budget
    return BudgetError(
        f"labels={labels} do not fit epsilon={budget.epsilon:g} at delta={budget.delta:g} with any noise up to "
        f"{_MOST:,.0f} votes: ask for fewer labels{gate} or a larger epsilon."
    )


def share_spent(design: VotingDesign, labels: int, conversion: Conversion | None = None) -> float:
    """Return the largest share of any group's budget that `labels` labels take."""
    spent = design.spent(labels, conversion)
    return max(epsilon / group.budget.epsilon for epsilon, group in zip(spent, design.groups, strict=True))


def smallest_noise(
    epsilon_at: Callable[[float], float],
    start: float,
    epsilon: float,
    precision: float = PRECISION,
    hopeless: Callable[[float], bool] = lambda _: False,
) -> float | None:
    """Return the smallest noise, to a share `precision`, whose epsilon is within a budget, or None above 1e6 votes.

    A noise that is too small and `hopeless` nevertheless is returned at once.
    """
    # The last two points, on logarithmic axes, give the next one. The answer stays between the largest noise that was
    # too small and the smallest that was enough.
    low, high, guess, slope = _LEAST, math.inf, start, _SLOPE
    last: tuple[float, float] | None = None
    while True:
        log_ratio = math.log(max(epsilon_at(guess), 1e-12) / epsilon)
        if log_ratio <= 0:
            high = guess
        elif hopeless(guess):
            return guess
        else:
            low = guess
        if -precision * abs(slope) / 2 <= log_ratio <= 0 or high <= low * (1 + precision / 2):
            return high
        if low >= _MOST:
            return None
        here = math.log(guess)
        if last is not None and here != last[0]:
            slope = min(_FLATTEST, max(_STEEPEST, (log_ratio - last[1]) / (here - last[0])))
        last = (here, log_ratio)
        # Aim slightly inside the budget, so that a good guess is a safe one.
        step = -log_ratio / slope + precision / 4
        guess = math.exp(here + max(-_LONGEST_STEP, min(_LONGEST_STEP, step)))
        guess = min(max(guess, _LEAST), _MOST)
        if not low < guess < high:
            guess = math.sqrt(low * min(high, _MOST))
