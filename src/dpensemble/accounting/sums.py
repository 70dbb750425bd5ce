r"""What Gaussian sums of bounded vectors cost, exactly, in any number of adaptive rounds.

One sum. Adding ``N(0, (sigma Delta)**2)`` to every entry of a sum that one unit moves by at most ``Delta`` (Euclidean
length) is ``mu``-Gaussian private with ``mu = 1 / sigma``, and that is tight: it is (epsilon, delta)-private exactly
for

    delta >= Phi(mu / 2 - epsilon / mu) - exp(epsilon) Phi(-mu / 2 - epsilon / mu)

(B. Balle and Y.-X. Wang, "Improving the Gaussian mechanism", ICML 2018, Theorem 8; J. Dong, A. Roth and W. Su,
"Gaussian differential privacy", JRSS B 2022, Corollary 2.13). Rounds, each chosen after the ones before it, compose
to ``mu**2 = sum of mu_k**2`` (Dong, Roth and Su, Corollary 3.3).

What is sampled. Sums are whole numbers ``s``, and the noise added is a discrete Gaussian of variance ``v`` (in squared
units). Compare ``s + discrete noise`` with the sum to which real noise ``N(0, v)`` was added and which was *then*
rounded: a function of the Gaussian mechanism's output, so no less private. At a distance ``k`` from ``s`` the ratio of
both probabilities is, up to the two normalising constants,

    integral over abs(t) <= 1/2 of exp(-(2 k t + t**2) / (2 v)) dt,    from exp(-1 / (8 v)) to exp(k**2 / (8 v**2)),

since the integrand is symmetric in ``t`` and ``cosh(x) <= exp(x**2 / 2)``. Real noise sums to 1 and so does discrete
noise, so the ratio of the constants is a mean of the same ratios: it lies between ``exp(-1 / (8 v))`` and the mean of
``exp(k**2 / (8 v**2))``, which is below ``exp(1 / (7 v))`` for ``v >= 100``. For ``abs(k) <= 38 sqrt(v)`` the
logarithm of the ratio is therefore at most ``slack = 181 / v``; beyond that lies a mass below 1e-300. Over all
entries of all rounds the slacks add up to ``eta``, and what is sampled is (epsilon, delta)-private wherever the
Gaussian mechanism is ``(epsilon - 2 eta, delta exp(-eta))``-private, up to 1e-290. Variances are above
``2**40``, mostly above ``2**60``, so ``eta`` is tiny.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from dpensemble._checks import delta_of, integer_between, real_between
from dpensemble._original import Original
from dpensemble.budget import Budget
from dpensemble.cost import DEFAULT_ORDERS, PrivacyCost
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.relations import Basis

# Logarithm of the ratio of rounded and discrete Gaussian noise, times the variance; see above.
_SLACK = 181.0
# Pays for the rounding of the formula itself.
_ROUNDING = 1e-12
_SMALLEST_VARIANCE = 2**40
# Far above the slack of any run, and far below any divergence that is spent.
_PROMISED_SLACK = 1e-6


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the smallest delta of a `mu`-Gaussian private release at an epsilon, rounded up.

    Parameters
    ----------
    mu : float
        From 0; one over the noise in units of the sensitivity.
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
    """Return the smallest epsilon of a `mu`-Gaussian private release at a delta, rounded up; 0 if nothing was released.

    Examples
    --------
    >>> round(gaussian_epsilon(0.268, 1e-5), 3)
    1.0
    """
    delta = delta_of(delta)
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    low, high = 0.0, mu**2 / 2 + mu * math.sqrt(2 * math.log(1 / delta)) + 1.0
    for _ in range(200):
        middle = (low + high) / 2
        if gaussian_delta(mu, middle) <= delta:
            high = middle
        else:
            low = middle
    return high


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest `mu` whose Gaussian private release fits epsilon and delta, rounded down.

    Examples
    --------
    >>> round(1 / gaussian_mu(1.0, 1e-5), 4)
    3.7306
    """
    epsilon, delta = real_between("epsilon", epsilon, 0.0, 1e12), delta_of(delta)
    low, high = 0.0, 2 * math.sqrt(2 * epsilon) + 20.0
    for _ in range(200):
        middle = (low + high) / 2
        if gaussian_delta(middle, epsilon) <= delta:
            low = middle
        else:
            high = middle
    return low


def pure_mu(epsilon: float) -> float:
    """Return the least `mu` at which every release private at epsilon alone is Gaussian private, rounded up.

    Randomized response is the least private such release (Kairouz, Oh and Viswanath 2015). Its trade-off is straight
    between (0, 1), (a, a) and (1, 0), with ``a = 1 / (1 + exp(epsilon))``; the Gaussian one is convex, meets the two
    ends, and lies below all of it as soon as it does so in the middle, from ``mu = -2 Phi^-1(a)`` on.

    Examples
    --------
    >>> round(pure_mu(1.0), 4)
    1.232
    """
    epsilon = real_between("epsilon", epsilon, 0.0, 1e12)
    # By the logarithm of `a`, so that nothing is lost where it is tiny.
    return -2 * float(ndtri_exp(-float(np.logaddexp(0.0, epsilon)))) * (1 + 1e-9)


def slack_of(entries: int, variance: int) -> float:
    """Return the logarithm of the ratio by which a sum with discrete noise can differ from one with Gaussian noise."""
    integer_between("variance", variance, _SMALLEST_VARIANCE, 2**500)
    return _SLACK * integer_between("entries", entries, 1, 2**62) / variance


@dataclass(frozen=True, slots=True)
class WeightedGroup:
    """Units with one budget, whose vectors have one weight.

    Parameters
    ----------
    name : str
        Public name.
    budget : Budget
        What may be spent on each unit.
    weight : float, default=1.0
        Length of its units' vectors in those of weight 1; from 0 to 1.
    """

    name: str
    budget: Budget
    weight: float = 1.0

    def __post_init__(self) -> None:
        real_between("weight", self.weight, 0.0, 1.0)


def weighted_groups(names: Sequence[str], budgets: Sequence[Budget]) -> tuple[WeightedGroup, ...]:
    """Return groups with weights at which noise on one sum uses up all budgets, the largest weight 1.

    Examples
    --------
    >>> found = weighted_groups(["low", "high"], [Budget(epsilon=1, delta=1e-5), Budget(epsilon=2, delta=1e-5)])
    >>> [round(group.weight, 3) for group in found]
    [0.534, 1.0]
    """
    allowed = [gaussian_mu(budget.epsilon, budget.delta) for budget in budgets]
    parts = [one / max(allowed) for one in allowed]
    return tuple(map(WeightedGroup, names, budgets, parts))


class SumsMeter(Original, spends=("charge",)):
    """Charges noisy sums before their noise is drawn; what does not fit is refused, and what was charged stays charged.

    Parameters
    ----------
    groups : sequence of WeightedGroup
        Whose units are charged, at one delta. A unit of weight ``a`` moves a sum by ``a`` sensitivities at most.

    Examples
    --------
    >>> meter = SumsMeter([WeightedGroup("everyone", Budget(epsilon=1, delta=1e-5))])
    >>> meter.charge(meter.sigma(share=0.5), variance=2**54, entries=500)
    >>> meter.charge(meter.sigma(share=0.5), variance=2**54, entries=500)
    >>> round(meter.spent_epsilon, 6)
    1.0
    """

    #: What the resulting guarantee holds for, and that secrets play no part in how much is released.
    basis = Basis.WORST_CASE
    fixed_number = True

    def __init__(self, groups: Sequence[WeightedGroup]) -> None:
        if not groups or len({group.budget.delta for group in groups}) != 1:
            raise InvalidParameterError("groups must be at least one, with budgets at one delta.")
        self.groups = tuple(groups)
        self._squares, self._slack, self._most_slack = 0.0, 0.0, math.inf
        self._charges: list[dict[str, Any]] = []

    @property
    def mu(self) -> float:
        """Gaussian privacy that the budgets allow to a unit of weight 1; a little is kept for the noise's rounding."""
        allowed = [
            gaussian_mu(group.budget.epsilon * (1 - 1e-7), group.budget.delta * (1 - 1e-7)) / group.weight
            for group in self.groups
            if group.weight
        ]
        return min(allowed, default=0.0)

    def sigma(self, share: float) -> float:
        """Return the noise, in sensitivities, of a sum that takes a share of the whole ``mu**2``."""
        # A relative 1e-12 keeps shares that add up to 1 from rounding above the budget.
        return (1 + 1e-12) / (self.mu * math.sqrt(real_between("share", share, 1e-9, 1.0)))

    def charge(self, sigma: float, *, variance: int, entries: int) -> None:
        """Charge for a sum before its noise is drawn.

        Parameters
        ----------
        sigma : float
            Noise in units of the sensitivity; at most what is drawn.
        variance : int
            Variance of the discrete noise in squared whole units, from 2**40.
        entries : int
            Entries of the sum.

        Raises
        ------
        BudgetError
            If some group's budget does not cover it.
        """
        sigma = real_between("sigma", sigma, 1e-6, 1e12)
        squares = self._squares + 1 / sigma**2
        slack = self._slack + slack_of(entries, variance)
        for group in self.groups:
            if self._epsilon(group, squares, slack) > group.budget.epsilon or slack > self._most_slack:
                raise BudgetError(
                    f"a sum with noise sigma={sigma:.6g} does not fit what is left of epsilon="
                    f"{group.budget.epsilon:g} at delta={group.budget.delta:g}; use more noise, or a smaller share."
                )
        self._squares, self._slack = squares, slack
        self._charges.append({"sigma": sigma, "variance": int(variance), "entries": int(entries)})

    def renyi_costs(self) -> tuple[PrivacyCost | None, ...]:
        """Return the most that each group can be charged, as Renyi curves; discrete noise is held to them from then on.

        Probabilities within a factor of ``exp(slack)`` on both sides add ``(2 order - 1) / (order - 1)`` slacks to a
        divergence, at most 3 from order 2 on.
        """
        self._most_slack = _PROMISED_SLACK
        mus = [gaussian_mu(group.budget.epsilon, group.budget.delta) * (1 + 1e-9) for group in self.groups]
        return tuple(PrivacyCost(rdp=DEFAULT_ORDERS * mu**2 / 2 + 3 * _PROMISED_SLACK, mu=mu) for mu in mus)

    def _epsilon(self, group: WeightedGroup, squares: float, slack: float) -> float:
        if not group.weight or not squares:
            return 0.0
        mu = group.weight * math.sqrt(squares) * (1 + 1e-14)
        return gaussian_epsilon(mu, group.budget.delta * math.exp(-slack)) + 2 * slack

    @property
    def budget(self) -> Budget:
        """The largest budget of any group."""
        return max((group.budget for group in self.groups), key=lambda budget: budget.epsilon)

    @property
    def group_epsilons(self) -> tuple[float, ...]:
        """Epsilon of all sums charged so far, for each group."""
        return tuple(
            min(group.budget.epsilon, self._epsilon(group, self._squares, self._slack)) for group in self.groups
        )

    @property
    def spent_epsilon(self) -> float:
        """Epsilon of all sums charged so far: the largest of any group."""
        return max(self.group_epsilons)

    @property
    def accounting(self) -> str:
        """Name and source of the analysis."""
        sums = "1 noisy sum" if len(self._charges) == 1 else f"{len(self._charges)} noisy sums"
        return (
            f"exact trade-off of the Gaussian mechanism, {sums} (Balle and Wang 2018, Theorem 8; Dong, Roth and Su "
            "2022, Corollary 3.3); the noise drawn is a discrete Gaussian, whose difference is charged"
        )

    def spend_curve(self) -> list[tuple[int, tuple[float, ...]]]:
        """Return the number of sums and what each group was charged for them."""
        return [(len(self._charges), self.group_epsilons)]

    @property
    def charges(self) -> tuple[dict[str, Any], ...]:
        """``sigma``, ``variance`` and ``entries`` of every sum charged so far; public."""
        return tuple(self._charges)


def noise_variance(sigma: float, sensitivity: int) -> int:
    """Return the whole variance of noise of `sigma` sensitivities, in squared whole units, rounded up."""
    variance = math.ceil((sigma * sensitivity) ** 2 * (1 + 1e-12))
    return max(variance, _SMALLEST_VARIANCE)
