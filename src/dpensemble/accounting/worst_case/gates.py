r"""The threshold check of Confident- and Interactive-GNMax, and the cost of a gated query.

A query is two answers: whether it passes, then (if so) a label. The highest count and the highest surplus over the
student's expectation both move by at most the weight of each ballot that changes. So the check releases one bit that
is 1 with probability ``Phi(y)`` at a real ``y`` that moves by at most ``s = votes / sigma``, where votes is the sum of
those weights.

Its operating points ``(Phi(y), Phi(y + s))`` lie on one concave curve. Between two neighbouring points the tangents
cross above the curve. Between two such crossings the curve lies below the tangent that joins them. So every point is
below a chord of two of them or of the ends, and (joint convexity) finitely many pairs dominate all ``|y| <= 8``. For
``y < -8`` and ``order * s <= 8`` the Renyi moment is at most ``1 + Phi(y + s)**order Phi(y)**(1 - order)``, which
rises in ``y`` (the inverse Mills ratio at ``y`` exceeds ``|y|`` and changes by at most ``s``), so it is largest at
-8. Beyond 8 the rare outcome loses mass and the divergence is below rounding. Post-processing of the Gaussian
mechanism caps everything at the published ``order * s**2 / 2`` (Papernot et al. 2018, section 4.2).

The sampler mixes the whole answer with the uniform law. This is a mixture with a law that rounding keeps within
``exp(0.6 / largest sigma)`` of uniform, which costs less than check and label.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr, ndtr

from dpensemble.cost import DEFAULT_ORDERS, DominatingPairs, PrivacyCost

_REACH, _CELLS = 8.0, 2000
_SMALLEST_SHIFT = 1e-5


# Deviations beyond which a check is almost certain, and middles of the points whose tangents bound it.
_FARTHEST, _TANGENTS = 9.0, (0.0, -0.5, -1.2, -2.5)
# When a vote moves the chance far, rare outcomes lose much more than others.
_MORE_TANGENTS, _MUCH = (0.0, -0.4, -0.8, -1.2, -1.6, -2.1, -2.7, -3.5, -4.6, -6.0), 0.02
_OUTWARDS = 1e-12
#: Chance of an outcome beyond these deviations, by which a check within them differs.
BEYOND = float(ndtr(-_FARTHEST))


@lru_cache(maxsize=64)
def check_corners(sigma: float, votes: float) -> DominatingPairs | None:
    """Return corners around all chances to pass, except `BEYOND`. None if a vote moves a check too little or much."""
    shift = votes / sigma
    if not _SMALLEST_SHIFT <= shift <= 1:
        return None
    middle = np.array(_MORE_TANGENTS if shift > _MUCH else _TANGENTS)
    y = middle - shift / 2
    q, p, slope = ndtr(y), ndtr(y + shift), np.exp(-shift * middle)
    # The curve is concave and starts at 0, so beyond its last point it lies below the ray from 0 through that point.
    q, p = np.append(q, 0.0), np.append(p, 0.0)
    slope = np.append(slope, ndtr(shift - _FARTHEST) / ndtr(-_FARTHEST))
    meet = (p[:-1] - p[1:] - slope[:-1] * q[:-1] + slope[1:] * q[1:]) / (slope[1:] - slope[:-1])
    height = np.maximum(p[:-1] + slope[:-1] * (meet - q[:-1]), p[1:] + slope[1:] * (meet - q[1:])) * (1 + _OUTWARDS)
    # Either order of the inputs, and either name of the outcomes.
    first, second = np.stack([height, 1 - height], axis=1), np.stack([meet, 1 - meet], axis=1)
    half = DominatingPairs(np.concatenate([first, second[:, ::-1]]), np.concatenate([second, first[:, ::-1]]))
    return half.both_ways()


@lru_cache(maxsize=64)
def gate_cost(sigma: float, votes: float) -> PrivacyCost:
    """Return the worst-case cost of one noisy threshold check on any real statistic that moves by `votes`."""
    shift = votes / sigma
    published = DEFAULT_ORDERS * shift**2 / 2
    if not _SMALLEST_SHIFT <= shift <= 1:
        return PrivacyCost(rdp=published)
    # The law is symmetric, so complements of these points, reversed, are those above -shift / 2.
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
