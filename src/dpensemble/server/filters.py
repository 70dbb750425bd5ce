"""What may be spent on a data set in its lifetime, in whole numbers, and how much of it a release takes.

Releases are chosen one after the other, depending on the results of earlier releases, and so is the time to stop. For
this case there are privacy filters: a filter admits a release while a sum of declared costs stays within a limit that
was fixed beforehand. A composed privacy-loss curve is not such a sum, and stopping by it is not private. Each release
here is a *grant*: a fit, or a fixed number of answers of one law. Answers inside a grant are composed exactly. Across
grants, four filters are offered.

*Renyi.* A grant declares its Renyi divergence at one order ``a``, fixed when the account is opened. While the sum of
the declared divergences is at most ``B``, all grants together have a divergence of at most ``B`` at ``a``, however the
choices depend on earlier results (V. Feldman and T. Zrnic, "Individual privacy accounting via a Renyi filter", NeurIPS
2021, Theorem 3.1). The proof for one order is short. Let ``L_k`` be the likelihood ratio of the first ``k`` grants.
Given the past, ``E'[L_k**a]`` grows by a factor of at most ``exp((a - 1) r_k)``. So
``L_k**a exp(-(a - 1) (r_1 + ... + r_k))`` is a supermartingale under the second law, and the exponent is bounded along
every path, stopping included. ``B`` is the divergence that converts to epsilon at delta (Canonne, Kamath and Steinke
2020, Proposition 12).

*A grant with known (epsilon, delta) only* is dominated by a mechanism that reveals everything with probability delta
and otherwise is randomized response at epsilon (Kairouz, Oh and Viswanath 2017, Theorem 3.5). The filter is charged the
divergence of that randomized response. The delta goes to a second sum. Let ``w`` be the probability, given the past,
that no grant so far has revealed everything. It is the same function of the past under both laws, so restricting both
to "nothing revealed" multiplies their densities alike, by at most 1. With ``p`` and ``q`` those of the grants that
reveal nothing, ``w (p - exp(epsilon) q)`` adds up to no more than the positive part of ``p - exp(epsilon) q`` does.
What is cut off has a probability of at most the second sum's limit under the first law. So epsilon holds at the delta
of the conversion plus that limit, under each filter but the last. The account reserves a share of its delta for that.

*zCDP.* A grant declares the least ``rho`` with which its divergence is at most ``rho * a`` at every tabled order. While
the sum is at most ``P``, the Renyi filter above holds at each order separately. So all grants together have a
divergence of at most ``P * a`` at every order, and not only at one (Feldman and Zrnic 2021, Theorem 3.1, order by
order; that such sums may be stopped at any time: also J. Whitehouse, A. Ramdas, R. Rogers and Z. S. Wu,
"Fully-adaptive composition in differential privacy", ICML 2023). ``P`` is the sum that converts to epsilon at delta at
the best order. It never admits more than the Renyi filter at that order, and depends on no order.

*GDP.* A grant declares that it is ``mu``-Gaussian private. While the sum of ``mu**2`` is at most ``m**2``, all grants
together are ``m``-Gaussian private (A. Smith and A. Thakurta, "Fully adaptive composition for Gaussian differential
privacy", arXiv 2210.17520, 2022). The proof is by induction from the end: what may still come after a grant, for
each result, is ``sqrt(m**2 - mu**2)``-Gaussian private. A composition of a ``mu`` with such a rest is ``m``-Gaussian
private (J. Dong, A. Roth and W. Su, "Gaussian differential privacy", 2022, Theorem 3.2 and Corollary 3.3). Losses are
whole numbers, so there is an end. The conversion is exact (Balle and Wang 2018, Theorem 8). Label moments and soft
votes declare it. Their noise is rounded: its probabilities are within a factor of ``exp(1e-6)`` of Gaussian noise's.
Each such grant takes at least 500 millionths, so there are at most ``n = 2000 m**2``, and the probabilities of all of
them together are within ``exp(s)``, ``s = 1e-6 n``. If Gaussian noise gives ``(e, d)``, they give ``(e + 2 s, d
exp(s))``. So ``m`` is the value that converts to ``(epsilon - 2 s, delta exp(-s))``, with the ``s`` of an ``m`` that is
larger. A grant with a known epsilon only is Gaussian private at the ``mu`` of `dpensemble.cost.pure_mu`.

*Basic.* Epsilons and deltas add up. That sum, too, may be stopped at any time (R. Rogers, A. Roth, J. Ullman and S.
Vadhan, "Privacy odometers and filters", NeurIPS 2016, section 3). It wastes more over many releases, but nothing on
one: a release of epsilon 1 fits an account of epsilon 1.

*Whole numbers.* Losses are counted in millionths, and deltas in units of 1e-18. What a release takes is rounded up,
what an account allows is rounded down, and integers add up exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from dpensemble._checks import member, real_between
from dpensemble._spending import Spending
from dpensemble.cost import DEFAULT_ORDERS, Conversion, PrivacyCost, gaussian_mu, pure_mu
from dpensemble.cost.privacy_cost import renyi_allowance
from dpensemble.errors import InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.relations import Relation

# Whole units in a loss of 1 and in a delta of 1.
_LOSS_UNITS, _DELTA_UNITS = 10**6, 10**18
# The least that a release with rounded Gaussian noise takes of a GDP filter, and its distance from Gaussian noise.
_LEAST_ROUNDED, _ROUNDED = 500, 1e-6
# An epsilon above that of every account.
_MOST_EPSILON = 1e6
#: More units than any account allows. Larger costs are written as this number.
TOO_MUCH = 2**62


class Filter(StrEnum):
    """How the costs of grants add up."""

    RENYI = "renyi"
    GDP = "gdp"
    ZCDP = "zcdp"
    BASIC = "basic"


@dataclass(frozen=True, slots=True)
class Amount:
    """A loss in millionths and a delta in units of 1e-18."""

    loss: int = 0
    delta: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.loss + other.loss, self.delta + other.delta)

    @property
    def plain_loss(self) -> float:
        """The loss in units of 1."""
        return self.loss / _LOSS_UNITS

    @property
    def plain_delta(self) -> float:
        """The delta in units of 1."""
        return self.delta / _DELTA_UNITS

    def within(self, limit: Amount) -> bool:
        """Return whether both parts are at most those of a limit."""
        return self.loss <= limit.loss and self.delta <= limit.delta


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Terms of an account, fixed when it is opened.

    Parameters
    ----------
    budget : Budget
        Epsilon and delta of all releases of the data set together.
    filter : Filter or str, default="renyi"
        How the costs of releases add up.
    order : float, optional
        Renyi order. By default the order at which Gaussian noise costs least.
    approximate : float, default=0.1
        Share of delta reserved for releases with known (epsilon, delta) only. Not for basic.
    relation : Relation or str, default="replace-one"
        Neighbouring relation of all releases, because losses under different relations do not add up.

    Examples
    --------
    >>> terms = Terms(budget=Budget(epsilon=3, delta=1e-5))
    >>> terms.order, terms.limit
    (8.0, Amount(loss=1770839, delta=1000000000000))
    """

    budget: Budget
    filter: Filter = Filter.RENYI
    order: float | None = None
    approximate: float = 0.1
    relation: Relation = Relation.REPLACE_ONE

    def __post_init__(self) -> None:
        object.__setattr__(self, "relation", member("relation", self.relation, Relation))
        object.__setattr__(self, "filter", member("filter", self.filter, Filter))
        object.__setattr__(self, "approximate", real_between("approximate", self.approximate, 0.0, 0.99))
        if self.filter is not Filter.RENYI:
            if self.order is not None:
                raise InvalidParameterError(f"order={self.order!r} is for filter='renyi': leave it out.")
        elif self.order is None:
            best = float(DEFAULT_ORDERS[int(np.argmax(_rho_by_order(self._converted)))])
            object.__setattr__(self, "order", best)
        elif self.order not in DEFAULT_ORDERS:
            raise InvalidParameterError(f"order={self.order!r} is not a whole number from 2 to 257.", parameter="order")
        if self.limit.loss < 1:
            at = "" if self.order is None else f" at order={self.order:g}"
            raise InvalidParameterError(
                f"epsilon={self.budget.epsilon:g} at delta={self.budget.delta:g} is too small for an account with "
                f"filter={self.filter.value!r}{at}; allow more, use a larger order (which the accounts of a data set "
                "share), or filter='basic'."
            )

    @property
    def _converted(self) -> Budget:
        return Budget(epsilon=self.budget.epsilon, delta=self.budget.delta * (1 - self.approximate) * (1 - 1e-12))

    @property
    def limit(self) -> Amount:
        """Total that may be taken, rounded down."""
        if self.filter is Filter.BASIC:
            return Amount(_down(self.budget.epsilon, _LOSS_UNITS), _down(self.budget.delta, _DELTA_UNITS))
        return Amount(
            _down(_allowed(self.filter, self.order, self._converted), _LOSS_UNITS),
            _down(self.budget.delta * self.approximate, _DELTA_UNITS),
        )

    @property
    def unit(self) -> str:
        """Unit of losses, in words."""
        if self.filter is Filter.RENYI:
            return f"Renyi divergence at order {self.order:g}"
        words = {Filter.BASIC: "epsilon", Filter.ZCDP: "zCDP loss (rho)", Filter.GDP: "Gaussian loss (mu squared)"}
        return words[self.filter]

    def price(self, spending: Spending) -> Amount:
        """Return how much a release takes, rounded up."""
        if self.filter is Filter.BASIC:
            return Amount(_up(spending.epsilon, _LOSS_UNITS), _up(spending.delta, _DELTA_UNITS))
        cost = spending.cost
        if cost is None and not (spending.epsilon or spending.delta):
            # What is (0, 0)-private depends on no record. Bounds of curves at epsilon 0 are a little above 0.
            return Amount(0, 0)
        loss = None if cost is None else self._loss_of_curve(cost)
        if loss is not None:
            return Amount(loss, 0)
        return Amount(self._of_randomized_response(spending.epsilon), _up(spending.delta, _DELTA_UNITS))

    def _loss_of_curve(self, cost: PrivacyCost) -> int | None:
        """Return the loss of a release with a known curve, or None if this filter cannot use the curve."""
        if self.filter is Filter.GDP:
            if cost.mu is None:
                return None
            # So that the number of releases is bounded, and with it the sum of the roundings of their noise.
            return max(_up(cost.mu**2, _LOSS_UNITS), _LEAST_ROUNDED)
        if self.filter is Filter.ZCDP:
            # Every order that may have determined the limit must be present.
            reaches = cost.orders[0] <= DEFAULT_ORDERS[0] and cost.orders[-1] >= DEFAULT_ORDERS[-1]
            return _up(float((cost.rdp / cost.orders).max()), _LOSS_UNITS) if reaches else None
        assert self.order is not None  # noqa: S101
        if cost.orders[-1] < self.order:
            return None
        # A divergence at a larger order is at least as large.
        return _up(float(cost.rdp[int(np.searchsorted(cost.orders, self.order))]), _LOSS_UNITS)

    def _of_randomized_response(self, epsilon: float) -> int:
        if self.filter is Filter.GDP:
            return _up(pure_mu(epsilon) ** 2, _LOSS_UNITS) if epsilon < _MOST_EPSILON else TOO_MUCH
        loss = self._loss_of_curve(PrivacyCost.pure(epsilon))
        assert loss is not None  # noqa: S101
        return loss

    def gaussian_left(self, left: Amount) -> float | None:
        """Return the ``mu`` of the largest fitting release by Gaussian noise, or None if epsilons add up."""
        if self.filter is Filter.BASIC:
            return None
        if self.filter is Filter.GDP:
            return math.sqrt(left.loss / _LOSS_UNITS) if left.loss >= _LEAST_ROUNDED else 0.0
        # Gaussian noise has a divergence of order * mu**2 / 2. A few millionths pay for noise in whole numbers.
        order = 1.0 if self.order is None else self.order
        return math.sqrt(2 * max(0, left.loss - 5) / _LOSS_UNITS / order)

    def to_dict(self) -> dict[str, Any]:
        """Return the terms as plain values."""
        return {
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "filter": self.filter.value,
            "order": self.order,
            "approximate": self.approximate,
            "relation": self.relation.value,
        }

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> Terms:
        """Return terms from the values of `to_dict`."""
        rest = {name: found[name] for name in ("filter", "order", "approximate", "relation")}
        return cls(budget=Budget(epsilon=found["epsilon"], delta=found["delta"]), **rest)


@lru_cache
def _allowed(kind: Filter, order: float | None, budget: Budget) -> float:
    """Return the total that may be taken if divergences add up."""
    if kind is Filter.ZCDP:
        return max(_rho_by_order(budget))
    if kind is Filter.GDP:
        most = gaussian_mu(budget.epsilon, budget.delta) ** 2 * _LOSS_UNITS / _LEAST_ROUNDED
        slack = _ROUNDED * math.ceil(most)
        epsilon, delta = budget.epsilon - 2 * slack, budget.delta * math.exp(-slack)
        return gaussian_mu(epsilon, delta) ** 2 * (1 - 1e-12) if epsilon > 0 else 0.0
    assert order is not None  # noqa: S101
    return renyi_allowance(order, budget, Conversion.IMPROVED)


def _rho_by_order(budget: Budget) -> list[float]:
    return [renyi_allowance(float(order), budget, Conversion.IMPROVED) / order for order in DEFAULT_ORDERS]


def _up(value: float, units: int) -> int:
    if not math.isfinite(value):
        return TOO_MUCH
    return min(TOO_MUCH, math.ceil(_exact(value) * units))


def _down(value: float, units: int) -> int:
    return min(TOO_MUCH - 1, math.floor(_exact(value) * units))


def _exact(value: float) -> Fraction:
    """Return the number as it was written, so that 0.4 and 0.6 make 1. It is within a rounding of the double."""
    return Fraction(repr(float(value)))
