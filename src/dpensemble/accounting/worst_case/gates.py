r"""The threshold check of Confident- and Interactive-GNMax, and what a gated query costs.

A query is two answers: whether it passes, then (if so) a label. Both the
highest count and the highest surplus over the student's expectation move by at
most the weight of each ballot that changes, so the check releases one bit that is 1 with probability ``Phi(y)``
at a real ``y`` that moves by at most ``s = votes / sigma``, votes being the sum of those weights.

Its operating points ``(Phi(y), Phi(y + s))`` lie on one concave curve. Between two neighbouring points the tangents
cross above the curve; between two such crossings the curve lies below the tangent that joins them, so every point is
below a chord of two of them or of the ends, and (joint convexity) finitely many pairs dominate all ``|y| <= 8``. For
``y < -8`` and ``order * s <= 8`` the Renyi moment is at most ``1 + Phi(y + s)**order Phi(y)**(1 - order)``, which
rises in ``y`` (the inverse Mills ratio at ``y`` exceeds ``|y|`` and changes by at most ``s``), so it is largest at
-8; beyond 8 the rare outcome loses mass and the divergence is below rounding. Post-processing of the Gaussian
mechanism caps everything at the published ``order * s**2 / 2`` (Papernot et al. 2018, section 4.2).

The sampler's mixing of the whole answer with the uniform law is a mixture with a
law that its rounding keeps within ``exp(0.6 / largest sigma)`` of uniform, which costs less than check and label.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr, ndtr

from dpensemble.cost import DEFAULT_ORDERS, DominatingPairs, PrivacyCost

_REACH, _CELLS = 8.0, 2000
_SMALLEST_SHIFT = 1e-5


@lru_cache(maxsize=64)
def gate_cost(sigma: float, votes: float) -> PrivacyCost:
    """Return the worst-case cost of one noisy threshold check on any real statistic that moves by `votes`."""
    shift = votes / sigma
    published = DEFAULT_ORDERS * shift**2 / 2
    if not _SMALLEST_SHIFT <= shift <= 1:
        return PrivacyCost(rdp=published)
    # The law is symmetric: complements of these points, reversed, are the ones above -shift / 2.
    y = np.linspace(-_REACH - shift, -shift / 2, _CELLS)
    q, p = ndtr(y), ndtr(y + shift)
    slope = np.exp(-shift * (y + shift / 2))
    # Tangents at neighbouring points cross between them and above the curve.
    meet = (p[1:] - p[:-1] + slope[:-1] * q[:-1] - slope[1:] * q[1:]) / (slope[:-1] - slope[1:])
    meet = np.clip(meet, q[:-1], q[1:])
    height = np.minimum(p[:-1] + slope[:-1] * (meet - q[:-1]), p[1:])
    meet, height = np.concatenate([q[:1], meet, q[-1:]]), np.concatenate([p[:1], height, p[-1:]])
    passing = DominatingPairs(np.stack([height, 1 - height], axis=1), np.stack([meet, 1 - meet], axis=1))
    largest = passing.both_ways().renyi(DEFAULT_ORDERS)
    with np.errstate(over="ignore"):
        log_tail = DEFAULT_ORDERS * log_ndtr(shift - _REACH) - (DEFAULT_ORDERS - 1) * log_ndtr(-_REACH)
        tail = np.log1p(np.exp(log_tail)) / (DEFAULT_ORDERS - 1)
    exact = np.where(DEFAULT_ORDERS * shift <= _REACH, np.maximum(largest, tail), published)
    return PrivacyCost(rdp=np.minimum(exact, published))
