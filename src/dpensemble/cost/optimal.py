"""Optimal composition of answers when only an (epsilon, delta) is known of each."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from dpensemble._checks import delta_of, epsilon_of, integer_between, real_between
from dpensemble.cost.composition import MOST_EPSILON, ProductComposition
from dpensemble.cost.pairs import DominatingPairs
from dpensemble.cost.privacy_cost import Conversion, Cost
from dpensemble.errors import AccountingError


@dataclass(frozen=True, slots=True, eq=False)
class PureCost(Cost):
    """Privacy loss of answers that are private at one epsilon each, with fresh randomness, by optimal composition.

    Parameters
    ----------
    each : float
        Epsilon of one answer, at delta 0.
    count : int, default=1
        Number of answers.

    Examples
    --------
    >>> round((PureCost(0.1) * 100).epsilon(1e-5), 3)
    4.307
    """

    each: float
    count: int = 1

    def __post_init__(self) -> None:
        real_between("each", self.each, 0.0, 1e12)
        integer_between("count", self.count, 0, 2**62)

    def __mul__(self, count: int) -> PureCost:
        return replace(self, count=self.count * integer_between("count", count, 0, 2**62))

    def epsilon(self, delta: float, conversion: str = Conversion.BEST) -> float:  # noqa: ARG002
        """Return the smallest epsilon at `delta`, rounded up."""
        return optimal_composition([(self.each, 0.0)] * self.count, delta)


def optimal_composition(parts: Iterable[tuple[float, float]], delta: float) -> float:
    """Return the smallest known epsilon at `delta` of adaptively composed (epsilon, delta) answers.

    An (epsilon, delta)-private answer is dominated by one that reveals everything with probability delta and otherwise
    is randomized response at epsilon. If all epsilons agree, the composition is evaluated in closed form and is
    optimal. Otherwise the losses are rounded up on a fine grid (the exact optimum is #P-hard: J. Murtagh and S. Vadhan,
    TCC 2016).

    Parameters
    ----------
    parts : iterable of (float, float)
        Epsilon (at least 1e-9) and delta (0 to below 1) of each answer.
    delta : float
        Delta of the whole, above ``1 - prod(1 - delta_i)``.

    Returns
    -------
    float
        Rounded up. 0 for no parts.

    Raises
    ------
    AccountingError
        If the deltas of the parts already use up `delta`.

    References
    ----------
    P. Kairouz, S. Oh and P. Viswanath, "The composition theorem for differential privacy", IEEE
    Transactions on Information Theory 2017, Theorems 3.3 (equal parts) and 3.5 (unequal parts).

    Examples
    --------
    >>> round(optimal_composition([(0.1, 0.0)] * 100, 1e-5), 3)
    4.307
    """
    delta = delta_of(delta)
    pairs = [(epsilon_of(epsilon), real_between("delta", each, 0.0, 1 - 1e-9)) for epsilon, each in parts]
    if not pairs:
        return 0.0
    log_safe = math.fsum(math.log1p(-each) for _, each in pairs)
    # The delta that remains once the chances of revealing everything are paid for.
    allowed = -math.expm1(math.log1p(-delta) - log_safe) * (1 - 1e-12)
    if allowed <= 0:
        raise AccountingError(
            f"delta={delta:g} must exceed the parts' own deltas, which come to "
            f"{-math.expm1(log_safe):.6g}: use a larger delta."
        )
    epsilons = sorted(epsilon for epsilon, _ in pairs)
    if epsilons[0] == epsilons[-1]:
        return _equal_parts(epsilons[0], len(epsilons), allowed)
    ceiling = sum(epsilons)
    largest = _advanced(epsilons, allowed)
    if largest + max(epsilons) > MOST_EPSILON / 2:
        return min(ceiling, largest)
    kinds = [(_randomized_response(epsilon), epsilons.count(epsilon)) for epsilon in dict.fromkeys(epsilons)]
    return min(ceiling, ProductComposition(kinds, largest).epsilon(allowed))


def _equal_parts(epsilon: float, count: int, delta: float) -> float:
    """Return the optimum of `count` pure parts. The answers' loss is ``(count - 2 i) epsilon``."""
    count = integer_between("count", count, 1)
    n_lost = np.arange(count // 2 + 1)
    losses = (count - 2 * n_lost) * epsilon
    log_choose = np.array([math.lgamma(count + 1) - math.lgamma(i + 1) - math.lgamma(count - i + 1) for i in n_lost])
    log_p = log_choose + (count - n_lost) * epsilon - count * np.logaddexp(0.0, epsilon)
    # Between two possible losses delta is linear in exp(epsilon), so each piece is solved in closed form.
    slack = 1e-12 + 8e-15 * math.lgamma(count + 1)
    above_p = np.exp(np.logaddexp.accumulate(log_p) + slack)
    log_above_q = np.logaddexp.accumulate(log_p - losses) - slack
    if above_p[-1] - math.exp(log_above_q[-1]) <= delta:
        return 0.0
    for i in range(len(n_lost)):
        at_next = losses[i + 1] if i + 1 < len(n_lost) else 0.0
        # With the losses above i counted, the line crosses delta at this epsilon.
        if above_p[i] > delta:
            crossing = math.log(above_p[i] - delta) - log_above_q[i] + 1e-12
            if crossing >= at_next:
                return float(min(crossing, losses[i]))
    return 0.0


def _randomized_response(epsilon: float) -> DominatingPairs:
    table = np.array([[1.0, math.exp(-epsilon)]]) / (1 + math.exp(-epsilon))
    return DominatingPairs(table, table[:, ::-1])


def _advanced(epsilons: list[float], delta: float) -> float:
    """Return the bound of advanced composition, to lay the grid out (Dwork and Roth 2014, Theorem 3.20)."""
    drift = math.fsum(epsilon * math.tanh(epsilon / 2) for epsilon in epsilons)
    squares = math.fsum(epsilon**2 for epsilon in epsilons)
    return min(math.fsum(epsilons), math.sqrt(2 * math.log(1 / delta) * squares) + drift)
