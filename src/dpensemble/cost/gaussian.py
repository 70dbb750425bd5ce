r"""Costs of noisy sums of bounded vectors, in any number of adaptive rounds, by the exact trade-off of Gaussian noise.

One sum. Adding ``N(0, (sigma Delta)**2)`` to every entry of a sum that one unit moves by at most ``Delta`` (Euclidean
length) is ``mu``-Gaussian private with ``mu = 1 / sigma``, and that is tight. It is (epsilon, delta)-private exactly
if

    delta >= Phi(mu / 2 - epsilon / mu) - exp(epsilon) Phi(-mu / 2 - epsilon / mu)

(B. Balle and Y.-X. Wang, "Improving the Gaussian mechanism", ICML 2018, Theorem 8; J. Dong, A. Roth and W. Su,
"Gaussian differential privacy", JRSS B 2022, Corollary 2.13). Rounds, each chosen after the ones before it, compose
to ``mu**2 = sum of mu_k**2`` (Dong, Roth and Su, Corollary 3.3).

What is sampled. Sums are whole numbers ``s``, and the noise added is a discrete Gaussian of variance ``v`` (in squared
units). Compare ``s + discrete noise`` with the sum to which real noise ``N(0, v)`` was added and which was *then*
rounded. The latter is a function of the Gaussian mechanism's output, so it is no less private. At a distance ``k`` from
``s`` the ratio of both probabilities is, up to the two normalising constants,

    integral over abs(t) <= 1/2 of exp(-(2 k t + t**2) / (2 v)) dt,    from exp(-1 / (8 v)) to exp(k**2 / (8 v**2)),

since the integrand is symmetric in ``t`` and ``cosh(x) <= exp(x**2 / 2)``. Real noise sums to 1 and so does discrete
noise, so the ratio of the constants is a mean of the same ratios. It lies between ``exp(-1 / (8 v))`` and the mean of
``exp(k**2 / (8 v**2))``, which is below ``exp(1 / (7 v))`` for ``v >= 100``. For ``abs(k) <= 38 sqrt(v)`` the
logarithm of the ratio is therefore at most ``slack = 181 / v``. Beyond that lies a mass below 1e-300. Over all
entries of all rounds the slacks add up to ``eta``. The sampled mechanism is (epsilon, delta)-private wherever the
Gaussian mechanism is ``(epsilon - 2 eta, delta exp(-eta))``-private, up to 1e-290. Variances are above
``2**40``, mostly above ``2**60``, so ``eta`` is tiny.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import overload

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from dpensemble._checks import delta_of, integer_between, member, real_between
from dpensemble.cost.privacy_cost import DEFAULT_ORDERS, Conversion, Cost, PrivacyCost, bisection
from dpensemble.errors import AccountingError
from dpensemble.guarantee import Budget

# Pays for the rounding of the formula itself.
_ROUNDING = 1e-12


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the smallest delta of a `mu`-Gaussian private release at an epsilon, rounded up.

    Parameters
    ----------
    mu : float
        From 0. One over the noise in units of the sensitivity.
    epsilon : float
        From 0.

    Examples
    --------
    >>> round(gaussian_delta(1.0, 1.0), 6)
    0.126937
    """
    mu, epsilon = real_between("mu", mu, 0.0, 1e7), real_between("epsilon", epsilon, 0.0, 1e12)
    if mu == 0:
        return 0.0
    high = float(log_ndtr(mu / 2 - epsilon / mu))
    low = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    # Both logarithms lose digits in proportion to their size, and `low` to epsilon's.
    unsure = _ROUNDING * (1 + abs(high) + epsilon)
    return min(1.0, math.exp(high) * (-math.expm1(min(low - high, 0.0)) + unsure))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon of a `mu`-Gaussian private release at a delta, rounded up.

    The result is 0 if nothing was released.

    Examples
    --------
    >>> round(gaussian_epsilon(0.268, 1e-5), 3)
    1.0
    """
    delta = delta_of(delta)
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    low, high = 0.0, mu**2 / 2 + mu * math.sqrt(2 * math.log(1 / delta)) + 1.0
    return bisection(lambda epsilon: not gaussian_delta(mu, epsilon) <= delta, low, high, 200)[1]


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest `mu` whose Gaussian private release fits epsilon and delta, rounded down.

    Examples
    --------
    >>> round(1 / gaussian_mu(1.0, 1e-5), 4)
    3.7306
    """
    epsilon, delta = real_between("epsilon", epsilon, 0.0, 1e12), delta_of(delta)
    low, high = 0.0, 2 * math.sqrt(2 * epsilon) + 20.0
    return bisection(lambda mu: gaussian_delta(mu, epsilon) <= delta, low, high, 200)[0]


def pure_mu(epsilon: float) -> float:
    """Return the least `mu` at which every release private at epsilon and delta 0 is Gaussian private, rounded up.

    Randomized response is the least private such release (Kairouz, Oh and Viswanath 2015). Its trade-off is straight
    between (0, 1), (a, a) and (1, 0), with ``a = 1 / (1 + exp(epsilon))``. The Gaussian trade-off is convex and meets
    the two ends. It lies below all of the former as soon as it does so in the middle, from ``mu = -2 Phi^-1(a)`` on.

    Examples
    --------
    >>> round(pure_mu(1.0), 4)
    1.232
    """
    epsilon = real_between("epsilon", epsilon, 0.0, 1e12)
    # By the logarithm of `a`, which keeps precision when `a` is tiny.
    return -2 * float(ndtri_exp(-float(np.logaddexp(0.0, epsilon)))) * (1 + 1e-9)


# Logarithm of the ratio of rounded and discrete Gaussian noise, times the variance (see above).
_SLACK = 181.0
_SMALLEST_VARIANCE = 2**40
#: Far above the slack of any run, and far below any divergence that a run spends.
PROMISED_SLACK = 1e-6


@dataclass(frozen=True, slots=True, eq=False, init=False)
class GaussianCost(PrivacyCost):
    """Privacy loss of noisy sums, with its exact trade-off, which sums and multiples of such costs also have.

    Adding a cost of another kind leaves only the Renyi curve.

    Parameters
    ----------
    squares : float
        ``mu**2``, from 0. For one sum with noise of ``sigma`` sensitivities it is ``1 / sigma**2``.
    slack : float, default=0.0
        Logarithm of the factor by which discrete noise can change a probability.

    Examples
    --------
    >>> one = GaussianCost.of_sum(20.0, variance=2**60, entries=10)
    >>> one.most(Budget(epsilon=1, delta=1e-5)), round((one * 28).epsilon(1e-5), 3)
    (28, 0.986)
    """

    squares: float = 0.0
    slack: float = 0.0

    def __init__(self, squares: float, slack: float = 0.0) -> None:
        # Probabilities within a factor of exp(slack) on both sides: 2 order - 1 of them in the moment, so that a
        # divergence grows by (2 order - 1) / (order - 1) slacks, at most 3 from order 2 on.
        if not (slack >= 0 and squares >= 0):
            raise AccountingError(f"squares={squares!r} and slack={slack!r} of a cost must be at least 0.")
        PrivacyCost.__init__(self, rdp=DEFAULT_ORDERS * squares / 2 + 3 * slack)
        object.__setattr__(self, "squares", squares)
        object.__setattr__(self, "slack", slack)

    @classmethod
    def of_sum(cls, sigma: float, *, variance: int, entries: int, weight: float = 1.0) -> GaussianCost:
        """Return the cost of one noisy sum to a unit.

        Parameters
        ----------
        sigma : float
            Noise in sensitivities, at most the noise that is drawn.
        variance : int
            Variance of the discrete noise in squared whole units, from 2**40.
        entries : int
            Entries of the sum.
        weight : float, default=1.0
            Most sensitivities by which the unit moves the sum, from 0 to 1.
        """
        sigma, weight = real_between("sigma", sigma, 1e-9, 1e12), real_between("weight", weight, 0.0, 1.0)
        return cls(weight**2 / sigma**2, _slack_of(entries, variance))

    @property
    def mu(self) -> float | None:
        """Gaussian privacy, up to probabilities that change by at most a factor of ``exp(1e-6)``. None otherwise."""
        return math.sqrt(self.squares) if self.slack <= PROMISED_SLACK else None

    @property
    def renyi(self) -> PrivacyCost:
        """The Renyi curve without the trade-off."""
        return PrivacyCost(rdp=self.rdp)

    @overload
    def __add__(self, other: GaussianCost) -> GaussianCost: ...

    @overload
    def __add__(self, other: PrivacyCost) -> PrivacyCost: ...

    def __add__(self, other: PrivacyCost) -> PrivacyCost:
        if isinstance(other, GaussianCost):
            return GaussianCost(self.squares + other.squares, self.slack + other.slack)
        return PrivacyCost.__add__(self, other)

    __radd__ = __add__

    def __mul__(self, count: int) -> GaussianCost:
        count = integer_between("count", count, 0, 2**62)
        return GaussianCost(self.squares * count, self.slack * count)

    __rmul__ = __mul__

    def epsilon(self, delta: float, conversion: str = Conversion.BEST) -> float:
        """Convert to the epsilon that holds at `delta`: exactly, unless you request a Renyi conversion."""
        if member("conversion", conversion, Conversion) not in (Conversion.BEST, Conversion.EXACT):
            return self.renyi.epsilon(delta, conversion)
        delta = delta_of(delta)
        if not self.squares:
            return 0.0
        # Holds if the Gaussian mechanism is private at epsilon - 2 slack and delta exp(-slack) (see above).
        mu = math.sqrt(self.squares) * (1 + 1e-14)
        return gaussian_epsilon(mu, delta * math.exp(-self.slack)) + 2 * self.slack

    def best(self, delta: float) -> tuple[float, Conversion]:
        """Return the exact epsilon at `delta`."""
        return self.epsilon(delta), Conversion.EXACT

    # The exact epsilon, without the shortcut of a Renyi curve.
    fits = Cost.fits

    def most(self, budget: Budget, conversion: str = Conversion.BEST, limit: int | None = None) -> int:
        """Return how many such releases fit a budget, at most `limit`."""
        if member("conversion", conversion, Conversion) not in (Conversion.BEST, Conversion.EXACT):
            return self.renyi.most(budget, conversion, limit)
        if not self.squares:
            raise AccountingError("one release must cost something to be counted; this one fits any number of times.")
        # An estimate, which rounding and slack can only lower.
        estimate = int(gaussian_mu(budget.epsilon, budget.delta) ** 2 / self.squares * (1 + 1e-9)) + 1
        count = min(sys.maxsize >> 1 if limit is None else limit, estimate)
        while count and not (self * count).fits(budget):
            count = count - 1 if count < 100 else int(count * (1 - 1e-6))
        return count


def _slack_of(entries: int, variance: int) -> float:
    """Return the logarithm of the ratio by which a sum with discrete noise can differ from one with Gaussian noise."""
    integer_between("variance", variance, _SMALLEST_VARIANCE, 2**500)
    return _SLACK * integer_between("entries", entries, 1, 2**62) / variance


def noise_variance(sigma: float, sensitivity: int) -> int:
    """Return the whole variance of noise of `sigma` sensitivities, in squared whole units, rounded up."""
    variance = math.ceil((sigma * sensitivity) ** 2 * (1 + 1e-12))
    return max(variance, _SMALLEST_VARIANCE)
