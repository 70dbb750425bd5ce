r"""Runs whose teachers hold a record by chance: bagging and a noisy vote together.

``B`` is the number of teachers that hold the record in question. Its law is public. Which teachers hold the record is
secret. Given ``B = b`` at most ``b`` ballots of every query change, and the whole run of adaptively chosen queries has
some ``delta_b(epsilon)``.

Let ``q = P(B >= 1)``. Let ``mu_0`` be the law of the released labels given that no teacher holds the record, and
``mu_1`` and ``mu_1'`` the laws given that some teacher holds it or its replacement. Then neighbouring data sets have
the laws ``(1 - q) mu_0 + q mu_1`` and ``(1 - q) mu_0 + q mu_1'`` (after a removal just ``mu_0``). For
``exp(epsilon') = 1 + q (exp(epsilon) - 1)`` advanced joint convexity (B. Balle, G. Barthe and M. Gaboardi,
"Privacy amplification by subsampling", NeurIPS 2018, Theorem 2) gives, with ``beta = exp(epsilon' - epsilon)``,

    ``delta(epsilon') = q H(mu_1 || (1 - beta) mu_0 + beta mu_1')``
    ``<= q ((1 - beta) H(mu_1 || mu_0) + beta H(mu_1 || mu_1')) <= sum over b >= 1 of P(B = b) delta_b(epsilon)``

where ``H`` is the hockey-stick divergence at ``epsilon``. The last step couples the draws. ``mu_1'`` uses the very same
draws. ``mu_0`` draws again, among the other records, wherever the record was drawn. Either way only the ``B`` teachers
that held the record change, and divergences are jointly convex in the coupled draws. All three schemes of
`dpensemble.allocation.Bootstrap` allow that coupling. The mixture is one of whole runs: the draws are made once, so
amplifying every query and composing would be wrong.

If a record is added, the first law is ``mu_0`` alone. Then ``H(mu_0 || (1 - q) mu_0 + q mu_1)`` at ``epsilon'`` is ``q
H(mu_0 || mu_1)`` at some ``exp(a) = (1 + q (x - 1)) / (1 - (1 - q) (x - 1))`` with ``x = exp(epsilon)``, or 0 if that
is not positive. And ``exp(a) >= x``, as the difference cross-multiplied is ``(1 - q) (x - 1)**2``. If all records are
drawn (``q = 1``), ``mu_0`` does not exist, ``beta`` is 1 and nothing is amplified. The pair of ``n`` and ``n + 1``
records costs less than that of ``n - 1`` and ``n``: its ``B`` is stochastically smaller, and ``delta_b`` rises with
``b``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from functools import lru_cache

import numpy as np

from dpensemble._arrays import Floats
from dpensemble._checks import delta_of, integer_between
from dpensemble._rounding import round_up
from dpensemble.accounting.change import Change
from dpensemble.accounting.price import price
from dpensemble.budget import Budget
from dpensemble.cost import DEFAULT_ORDERS, Conversion, Cost, PrivacyCost
from dpensemble.cost.composition import (
    MOST_EPSILON,
    AdaptiveComposition,
    composition_of,
    layout_number,
    layout_size,
)
from dpensemble.cost.conversion import improved_delta, improved_epsilon
from dpensemble.cost.searching import last_fitting
from dpensemble.errors import AccountingError
from dpensemble.laws import ReleaseLaw

# Far above the relative rounding of a binomial probability.
_ROUND_UP = 1 + 1e-9
# Numbers of holders that together are less likely than this share of delta are charged in full.
NEGLIGIBLE = 1e-4
# Numbers of holders that make up more than this share of delta are composed exactly, up to this many.
_MATTERS, _MOST_COMPOSED = 2e-3, 16
_PRECISION = 1e-9
_LARGEST = 1e6
# Beyond it `exp(epsilon) - 1` is `exp(epsilon)` to double precision.
_EXPONENTIAL = 40.0
#: More answers than any run asks for.
ENDLESS = 2**31 - 1


class SubsampledCost(Cost):
    """Privacy loss of a run of answers whose teachers hold a record by chance. Multiples share results of `refine`."""

    def __init__(self, one: Callable[[int], PrivacyCost], holders: Floats) -> None:
        chances = np.asarray(holders, dtype=np.float64)
        if not (np.all(chances >= 0) and abs(chances.sum() - 1) < 1e-10):
            raise AccountingError("holders must be the chances that 0, 1, 2, ... teachers hold a record, and sum to 1.")
        self._one = lru_cache(maxsize=None)(one)
        self._chances = chances * _ROUND_UP
        # Summed from the small end, so that no tail is lost.
        self._tails = np.cumsum(self._chances[::-1])[::-1]
        self._held = min(1.0, float(self._tails[1]))
        self._composed: dict[int, AdaptiveComposition] = {}
        self.answers = 1

    def __mul__(self, count: int) -> SubsampledCost:
        multiple = copy(self)
        multiple.answers = self.answers * integer_between("count", count, 0, 2**62)
        return multiple

    @property
    def held(self) -> float:
        """Chance that any teacher holds the record, rounded up."""
        return self._held

    def delta(self, epsilon: float, negligible: float = 1e-16) -> float:
        """Return the delta of the run at `epsilon`, rounded up. Holders rarer than `negligible` are charged in full."""
        if self.answers == 0 or self._held == 0:
            return 0.0
        inner = self.inner_epsilon(epsilon)
        last = self._last(negligible)
        total = self._tails[last + 1] if last + 1 < len(self._tails) else 0.0
        for ballots in range(1, last + 1):
            if self._chances[ballots]:
                total += self._chances[ballots] * self._delta_of(ballots, inner)
        return float(min(1.0, total * _ROUND_UP))

    def composed(self, epsilon: float, delta: float, negligible: float) -> list[tuple[float, AdaptiveComposition]]:
        """Return the chance of 1, 2, ... holders, each with a composition of about as many answers given that number.

        The list ends when holders are negligible, or when their answers cannot be composed.
        """
        compositions: list[tuple[float, AdaptiveComposition]] = []
        for ballots in range(1, self._last(negligible) + 1):
            composition = self._composed.get(ballots) or self._composition(ballots, epsilon, delta)
            if composition is None:
                break
            compositions.append((float(self._chances[ballots]), composition))
        return compositions

    def epsilon(self, delta: float, conversion: str = Conversion.BEST) -> float:  # noqa: ARG002
        """Return the smallest epsilon at which the run has at most `delta`, rounded up. Above a million it raises."""
        delta = delta_of(delta)

        def fits(epsilon: float) -> bool:
            return self.delta(epsilon, delta * NEGLIGIBLE) <= delta

        if fits(0.0):
            return 0.0
        low, high = 0.0, 1.0
        while not fits(high):
            low, high = high, 2 * high
            if high > _LARGEST:
                raise AccountingError(f"the answers cost an epsilon of more than {_LARGEST:g}: use more noise.")
        while high - low > _PRECISION * high:
            middle = (low + high) / 2
            low, high = (low, middle) if fits(middle) else (middle, high)
        return high

    def fits(self, budget: Budget, conversion: str = Conversion.BEST) -> bool:  # noqa: ARG002
        """Return whether the run fits a budget."""
        return self.delta(budget.epsilon, budget.delta * NEGLIGIBLE) <= budget.delta

    def most(self, budget: Budget, conversion: str = Conversion.BEST, limit: int | None = None) -> int:  # noqa: ARG002
        """Return how many answers fit a budget, at most `limit`. The cost is refined on the way."""
        if self.held <= budget.delta:
            # Even publishing the teachers fits.
            return ENDLESS if limit is None else limit

        def fits(count: int) -> bool:
            return (self * count).fits(budget)

        within = last_fitting(fits, 0, 2.0, limit)
        (self * (math.ceil(1.2 * within) + 1)).refine(budget.epsilon, budget.delta)
        return last_fitting(fits, within, 1.06, limit)

    @property
    def renyi(self) -> PrivacyCost | None:
        """The run as a Renyi curve, or None if some number of holders has no price."""
        if self.answers >= ENDLESS:
            return None
        # Few holders may have a price when all teachers have none.
        with suppress(AccountingError):
            return self._curve()
        return None

    def _curve(self) -> PrivacyCost:
        """Return the Renyi curve. ``exp((order - 1) * divergence)`` is jointly convex, so holders average it."""
        if self.answers == 0:
            return PrivacyCost.zero()
        exponents = DEFAULT_ORDERS - 1
        total = np.full_like(exponents, -np.inf)
        for ballots in np.flatnonzero(self._chances).tolist():
            curve = exponents * self.answers * self._one(ballots).rdp if ballots else 0.0
            total = np.logaddexp(total, math.log(self._chances[ballots]) + curve)
        return PrivacyCost(rdp=np.maximum(total, 0.0) / exponents)

    def inner_epsilon(self, epsilon: float) -> float:
        """Return the epsilon, given that some teacher holds the record, that becomes `epsilon`. Rounded down."""
        beyond = epsilon > _EXPONENTIAL
        grown = epsilon - math.log(self._held) if beyond else math.log1p(math.expm1(epsilon) / self._held)
        return grown * (1 - 1e-12)

    def refine(self, epsilon: float, delta: float) -> None:
        """Compose exactly from now on, for the numbers of holders that matter in about as many answers."""
        inner = self.inner_epsilon(epsilon)
        weights = {}
        for ballots in range(1, self._last(delta * NEGLIGIBLE) + 1):
            alone = self._delta_of(ballots, inner)
            if alone < 0.9 and self._chances[ballots] * alone > _MATTERS * delta:
                weights[ballots] = self._chances[ballots] * alone
        for ballots in sorted(weights, key=weights.__getitem__, reverse=True)[:_MOST_COMPOSED]:
            if ballots not in self._composed:
                composition = self._composition(ballots, epsilon, delta)
                # Losses too large for the grid stay with the Renyi curve.
                if composition is not None:
                    self._composed[ballots] = composition

    def _composition(self, ballots: int, epsilon: float, delta: float) -> AdaptiveComposition | None:
        """Return a composition of about as many answers, of which each can change `ballots` ballots, or None."""
        one = self._one(ballots)
        if one.parts is None:
            return None
        # The same layout for neighbouring questions.
        laid_out = layout_size(layout_number(max(1, self.answers)))
        ceiling = improved_epsilon(one.rdp * laid_out, one.orders, delta)
        largest = min(MOST_EPSILON / 2, round_up(1.1 * min(self.inner_epsilon(epsilon), ceiling), 1))
        try:
            return composition_of(one.parts[0].pairs, laid_out, largest)
        except AccountingError:
            return None

    def _last(self, tail: float) -> int:
        """Return the largest number of holders to price: all larger numbers together are less likely than `tail`."""
        return int(np.count_nonzero(self._tails > tail)) - 1

    def _delta_of(self, ballots: int, inner: float) -> float:
        one = self._one(ballots)
        delta = improved_delta(one.rdp * self.answers, one.orders, inner)
        if ballots in self._composed:
            delta = min(delta, self._composed[ballots].delta(self.answers, inner))
        return delta


def subsampled_cost(law: ReleaseLaw, holders: Floats, *, n_teachers: int, n_classes: int) -> SubsampledCost:
    """Return the cost of one answer of a law without a gate, all ballots weighing alike."""

    def one(ballots: int) -> PrivacyCost:
        return price(law, Change(ballots=n_teachers, classes=n_classes, votes=ballots)).label

    return SubsampledCost(one, holders)
