r"""Noisy maxima over three and more classes when a unit changes several votes: a Renyi curve.

Moving `k` ballots changes the counts by some vector ``d`` that sums to 0 and whose positive part sums to at most ``k``.
Such vectors are mixtures ``sum_i w_i d_i`` of those that move all ``k`` from one class to one other. The latter are
worst at every order (the project's own). Proof: the chance ``P_o(u)`` that class ``o`` wins at real counts ``u`` is
the mass that log-concave noise has in a convex cone moved by ``u``. Therefore ``P_o(u)`` is log-concave in ``u`` (A.
Prékopa, "On logarithmic concave measures and functions", Acta Sci. Math. 34, 1973, Theorems 2 and 6). So with ``Q =
P(u + d)``, ``Q_i = P(u + d_i)`` and an order ``a > 1``

    ``sum_o P_o**a Q_o**(1-a) <= sum_o prod_i (P_o**a Q_io**(1-a))**w_i <= prod_i (sum_o P_o**a Q_io**(1-a))**w_i``

by Hölder's inequality, which is at most the largest of the factors. This holds for moments, not for the hockey-stick
function, so the result is a curve without pairs.

From a mixed law to the law itself
----------------------------------
`dpensemble.accounting.worst_case.two_gaps` bounds the moment of ``d_i`` for laws mixed with the uniform one. As there,
an outcome adds ``f(l, g)``, convex in its smaller probability ``l``. Mixing adds some ``c`` to that, which lowers it by
at most ``c a (a-1) x**(a-2) (x-1)**2 / 2``, where ``x`` is the larger ratio of both probabilities and ``a >= 2``.

- Laplace noise: ``x <= exp(2 s)`` for a shift of ``s`` scales.
- Gaussian noise: an outcome is an event under a shift of ``m = sqrt(2) s`` deviations, so its larger probability is at
  most ``Phi(Phi^{-1}(l) + m)``. For ``l >= Phi(y)`` this bounds ``x``. For smaller ``l`` all of ``f`` counts, which is
  at most ``Phi(y+m)**a Phi(y)**(1-a)`` or ``(a-1) Phi(y+m)``. The former rises in ``y`` while ``a m <= -y`` (the
  inverse Mills ratio at ``y`` exceeds ``-y`` and changes by at most ``m``).

The sampled law is a mixture of the law, the uniform law and, for rounding, a law near uniform. Moments are jointly
convex, so the larger of the law's and the rounding's is enough.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np
from scipy.special import log_ndtr

from dpensemble._arrays import Floats
from dpensemble.accounting.worst_case.two_gaps import two_gap_pairs
from dpensemble.cost import DEFAULT_ORDERS

# The smallest shift that the covering of two gaps supports.
_MIXED = 1e-7
# Tails beyond which a Gaussian outcome is charged in full. The best of them is taken.
_TAILS = -np.arange(4.0, 20.0, 1.0)
_ROUND_UP = 1 + 1e-9


@lru_cache(maxsize=128)
def several_votes_rdp(noise: Literal["gaussian", "laplace"], shift: float, n_classes: int, rounding: float) -> Floats:
    """Return an upper bound on the Renyi divergence of one noisy maximum at `DEFAULT_ORDERS`.

    The shift is in units of the noise.
    """
    orders = DEFAULT_ORDERS
    mixed = two_gap_pairs(noise, shift, n_classes, _MIXED).renyi(orders)
    added = _MIXED / n_classes / (1 - _MIXED)
    with np.errstate(over="ignore", invalid="ignore"):
        mixing_loss = _laplace(orders, shift, added) if noise == "laplace" else _gaussian(orders, shift, added)
        moment = np.expm1((orders - 1) * mixed) / (1 - _MIXED) + 3 * mixing_loss
        divergences = np.log1p(moment) / (orders - 1)
    # RR at a pure epsilon: Bun and Steinke 2016, Proposition 3.3.
    divergences = np.maximum(np.where(np.isfinite(divergences), divergences, np.inf), orders * rounding**2 / 2)
    return divergences * _ROUND_UP


def _laplace(orders: Floats, shift: float, added: float) -> Floats:
    return added * _slope(orders, 2 * shift)


def _gaussian(orders: Floats, shift: float, added: float) -> Floats:
    moved = np.sqrt(2) * shift
    best = np.full_like(orders, np.inf)
    for tail in _TAILS.tolist():
        low, high = float(log_ndtr(tail)), float(log_ndtr(tail + moved))
        near = added * _slope(orders, high - low)
        far = np.maximum(np.exp(orders * high + (1 - orders) * low), (orders - 1) * np.exp(high))
        here = np.where(orders * moved <= -tail, np.maximum(near, far), np.inf)
        best = np.minimum(best, here)
    return best


def _slope(orders: Floats, loss: float) -> Floats:
    """Return ``a (a-1) x**(a-2) (x-1)**2 / 2`` at a ratio ``x = exp(loss)``."""
    return orders * (orders - 1) / 2 * np.exp((orders - 2) * loss) * np.expm1(loss) ** 2
