"""From the probability of a miss to a Renyi divergence: the theorems behind PATE's data-dependent bounds.

A `log_error` is the logarithm of an upper bound on the probability of a miss, below 0 and finite, one for each query.
`log_error` is secret, and so are the bounds, of shape (n_queries, n_orders).
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from dpensemble._arrays import Floats
from dpensemble.accounting.published.probabilities import checked_orders
from dpensemble.errors import InvalidParameterError

# Above the rounding of the few operations below, whose logarithms go up to some thousands.
_ROUND_UP = 1.0 + 1e-9
_LEAST_COST = float(np.finfo(np.float64).tiny)
# Queries whose tables fit into the cache together.
_BLOCK = 1024


def pure_rdp(epsilon: ArrayLike, orders: ArrayLike) -> Floats:
    """Return the largest Renyi divergence that a purely differentially private answer can have."""
    # The bound is that of randomized response, ``log(cosh((order - 1/2) epsilon) / cosh(epsilon / 2)) / (order - 1)``.
    # It is below both ``epsilon`` and ``epsilon**2 * order / 2``, and attained, so no smaller bound holds in general.
    # References: M. Bun and T. Steinke, "Concentrated differential privacy", TCC 2016, Proposition 3.3 and its proof.
    # I. Mironov, "Renyi differential privacy", CSF 2017, Proposition 5 (randomized response).
    loss = np.asarray(epsilon, dtype=np.float64)
    if not np.all((loss >= 0) & (loss <= 1e22)):
        raise InvalidParameterError("epsilon must hold numbers from 0 to 1e22.")
    alpha, loss = checked_orders(orders), loss[..., None]
    # The ratio of the two cosh differs from 1 by a product of sinh, which keeps every digit of a tiny loss.
    small = np.minimum(alpha * loss, 1.0) / alpha
    excess = 2 * np.sinh(alpha * small / 2) * np.sinh((alpha - 1) * small / 2) / np.cosh(small / 2)
    large = (alpha - 1) * loss + np.log1p(np.exp(-(2 * alpha - 1) * loss)) - np.log1p(np.exp(-loss))
    return np.where(alpha * loss <= 1, np.log1p(excess), large) / (alpha - 1)


def gaussian_rdp(log_error: Floats, sigma: float, orders: Floats) -> Floats:
    """Bound the divergence, at most ``order / sigma**2``, of an answer that seldom misses its likeliest outcome."""
    # Papernot et al. 2018, Theorem 6 with the two higher orders of Proposition 10, and Proposition 8.
    return _in_blocks(lambda some: _gaussian_block(log_error[some], sigma, orders), len(log_error), len(orders))


def _gaussian_block(log_error: Floats, sigma: float, orders: Floats) -> Floats:
    bound = np.tile(orders / sigma**2, (len(log_error), 1))
    second = sigma * np.sqrt(-log_error)
    rows = np.flatnonzero((second > 1) & (log_error + second / sigma**2 < 0))
    log_q, mu = log_error[rows, None], second[rows, None]
    limit = (mu - 1) * mu / sigma**2 - mu * (np.log1p(1 / mu) + np.log1p(1 / (mu - 1)))
    # The paper's A is the change of the likeliest outcome, B that of all others.
    log_a = _log1mexp(log_q) - _log1mexp((log_q + mu / sigma**2) * (1 - 1 / mu))
    log_b = (mu + 1) / sigma**2 - log_q / mu
    tight = _mixture(log_q, log_a, log_b, orders)
    applies = (log_q <= limit) & (orders <= mu + 1)
    bound[rows] = np.where(applies, np.minimum(tight, bound[rows]), bound[rows])
    return bound


def laplace_rdp(log_error: Floats, epsilon: float | Floats, orders: Floats) -> Floats:
    """Bound the divergence of purely private answers that seldom miss their likeliest outcome."""
    # Papernot et al. 2017, Theorem 3, whose moments are ``alpha(l) = l * rdp(l + 1)``.
    # A loss that all queries share is computed once.
    bound = np.broadcast_to(pure_rdp(epsilon, orders), (len(log_error), len(orders))).copy()
    epsilon = np.broadcast_to(epsilon, log_error.shape)
    _in_blocks(lambda some: _laplace_block(log_error[some], epsilon[some], orders, bound[some]), *bound.shape)
    return bound


def _laplace_block(log_error: Floats, epsilon: Floats, orders: Floats, bound: Floats) -> Floats:
    """Lower the bounds where the theorem applies."""
    # The theorem asks for q < (e^eps - 1) / (e^(2 eps) - 1) = 1 / (e^eps + 1).
    rows = np.flatnonzero(log_error < -np.logaddexp(0.0, epsilon))
    log_q, loss = log_error[rows, None], epsilon[rows, None]
    log_a = _log1mexp(log_q) - _log1mexp(log_q + loss)
    bound[rows] = np.minimum(bound[rows], _mixture(log_q, log_a, loss, orders))
    return bound


def _in_blocks(bound: Callable[[slice], Floats], n_queries: int, n_orders: int) -> Floats:
    """Return the bounds of all queries, computed for as many at a time as fit into the cache."""
    blocks = [bound(slice(start, start + _BLOCK)) for start in range(0, n_queries, _BLOCK)]
    return np.concatenate(blocks) if blocks else np.empty((0, n_orders))


def _mixture(log_q: Floats, log_a: Floats, log_b: Floats, orders: Floats) -> Floats:
    """Return ``log((1 - q) A**(order - 1) + q B**(order - 1)) / (order - 1)``, rounded up."""
    likeliest = _log1mexp(log_q) + (orders - 1) * log_a
    total = np.logaddexp(likeliest, log_q + (orders - 1) * log_b) / (orders - 1)
    # A value that underflows is below the smallest normal number, but never free.
    return np.maximum(total * _ROUND_UP, _LEAST_COST)


def _log1mexp(x: Floats) -> Floats:
    """Return ``log(1 - exp(x))`` for negative `x` without cancellation."""
    near = x > -0.5
    return np.where(near, np.log(-np.expm1(np.where(near, x, -1.0))), np.log1p(-np.exp(np.where(near, -1.0, x))))
