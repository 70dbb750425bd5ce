r"""Few pairs that dominate all neighbours on a long lattice of counts of two classes.

When the chance T of the second label rises with its count, neighbours are ``(T[l + s], T[l])`` for all counts
``l``, each of which is one operating point ``(T[l], T[l + s])`` above the diagonal. Points in a block lie below
the line that is parallel to the chord of its extremes and touches the block from above. The curve through the two
ends of that line is a law of three outcomes. It lies nowhere below the curve of any pair of the block, so it
dominates them (Blackwell). Blocks are halved until they stay close to the largest divergence of an actual pair
at several orders, or hold one pair only. These orders decide how tight the result is, never whether it holds.
"""

from __future__ import annotations

import numpy as np

from dpensemble._arrays import Floats
from dpensemble.cost.pairs import DominatingPairs

# Up to this many counts all pairs are listed.
MOST_LISTED = 20_000
_ORDERS = np.concatenate([2.0 ** np.arange(1, 12.25, 0.25), [2.0**14, 2.0**17, 1e6]])
# Points that matter only at tiny epsilons may be looser.
_TOLERANCES = np.select([_ORDERS < 1000, _ORDERS < 5000, _ORDERS < 20_000], [1e-3, 3e-3, 0.1], 1.0)
_LARGEST_BLOCK = 1024
# The share of the chance of the likeliest outcome's complement that a block may use up.
_LEAST_REST = 0.5
_LEAST_EXTENT = 1e-9


def block_pairs(second: Floats, step: int) -> DominatingPairs:
    """Return pairs that dominate moving a count up or down by at most `step`, both ways. `second` must not fall."""
    last = len(second) - 1
    here = np.arange(last)
    low, high = second[here], second[np.minimum(here + step, last)]
    size = min(_LARGEST_BLOCK, 2 ** int(np.log2(max(1, last))))
    starts = np.arange(0, last, size)
    best = np.zeros(len(_ORDERS))
    kept_p, kept_q = [], []
    while size >= 1:
        # Beyond the end the last pair is repeated.
        members = np.minimum(starts[:, None] + np.arange(size), last - 1)
        first = members[:, 0]
        best = np.maximum(best, _divergences(_laws(high[first]), _laws(low[first])).max(axis=0))
        p, q = _touching(low[members], high[members])
        rest = _LEAST_REST * (1 - high[members].max(axis=1))
        possible = p[:, 2] >= rest
        fine = possible.copy()
        fine[possible] = np.all(_divergences(p[possible], q[possible]) <= best * (1 + _TOLERANCES), axis=1)
        if size == 1:
            fine[:] = True
        kept_p.append(p[fine])
        kept_q.append(q[fine])
        size //= 2
        starts = (starts[~fine][:, None] + np.array([0, size])).ravel()
        starts = starts[starts < last]
        if not starts.size:
            break
    return DominatingPairs(np.concatenate(kept_p), np.concatenate(kept_q)).both_ways()


def _touching(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return one pair of laws for each row of operating points, above all of them."""
    left, right = low.min(axis=1), low.max(axis=1)
    bottom, top = high.min(axis=1), high.max(axis=1)
    slope = np.divide(top - bottom, right - left, out=np.zeros_like(left), where=right > left)
    line = bottom[:, None] + slope[:, None] * (low - left[:, None])
    raised = np.maximum((high - line).max(axis=1), 0.0)
    start, end = bottom + raised, top + raised
    # If the line is hardly longer than rounding, the corner above and to the left of all points replaces it.
    corner = (right - left < _LEAST_EXTENT) | (end - start < _LEAST_EXTENT)
    start, end, right = np.where(corner, top, start), np.where(corner, top, end), np.where(corner, left, right)
    p = np.stack([start, end - start, 1 - end], axis=1)
    return p, np.stack([left, right - left, 1 - right], axis=1)


def _laws(chances: Floats) -> Floats:
    return np.stack([chances, 1 - chances], axis=1)


def _divergences(p: Floats, q: Floats) -> Floats:
    """Return each pair's larger divergence of the two directions."""
    if not len(p):
        return np.zeros((0, len(_ORDERS)))
    pairs = DominatingPairs(p, q)
    return np.maximum(pairs.renyi_of_each(_ORDERS), DominatingPairs(q, p).renyi_of_each(_ORDERS))
