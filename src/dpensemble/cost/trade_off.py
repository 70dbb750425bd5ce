r"""The exact cost of Gaussian noise: its trade-off, and from it epsilon, delta and ``mu``.

One sum. Adding ``N(0, (sigma Delta)**2)`` to every entry of a sum that one unit moves by at most ``Delta`` (Euclidean
length) is ``mu``-Gaussian private with ``mu = 1 / sigma``, and that is tight. It is (epsilon, delta)-private exactly
if

    delta >= Phi(mu / 2 - epsilon / mu) - exp(epsilon) Phi(-mu / 2 - epsilon / mu)

(B. Balle and Y.-X. Wang, "Improving the Gaussian mechanism", ICML 2018, Theorem 8; J. Dong, A. Roth and W. Su,
"Gaussian differential privacy", JRSS B 2022, Corollary 2.13). Rounds, each chosen after the ones before it, compose
to ``mu**2 = sum of mu_k**2`` (Dong, Roth and Su, Corollary 3.3).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from dpensemble._checks import delta_of, real_between
from dpensemble.cost.searching import halved

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
    return halved(lambda epsilon: not gaussian_delta(mu, epsilon) <= delta, low, high, 200)[1]


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest `mu` whose Gaussian private release fits epsilon and delta, rounded down.

    Examples
    --------
    >>> round(1 / gaussian_mu(1.0, 1e-5), 4)
    3.7306
    """
    epsilon, delta = real_between("epsilon", epsilon, 0.0, 1e12), delta_of(delta)
    low, high = 0.0, 2 * math.sqrt(2 * epsilon) + 20.0
    return halved(lambda mu: gaussian_delta(mu, epsilon) <= delta, low, high, 200)[0]


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
