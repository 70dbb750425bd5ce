r"""Three outcomes of a noisy maximum with standard Laplace noise, and bounds on their derivatives.

With ``f, F`` the Laplace density and distribution, three exact reductions leave a strip:

- *v below -s/2.* Both P and Q then have ``v <= 0``. Given that ``Z_b`` exceeds the distance, the excess is
  exponential for every distance. So the law at v is the mixture of those at 0 and at -infinity with weights
  ``exp(v)`` and ``1 - exp(v)``. Therefore the pair at v is a mixture of the pair at ``v = -s/2`` (P at -s, Q at 0) and
  the one at -infinity. There b never wins, and a single noisy comparison is left, whose ratio is at most ``exp(s)``:
  dominated by randomized response at ``s`` (Kairouz, Oh and Viswanath 2015), mixed or not. The same holds for u.
- *v above s/2* (so is u). All four gaps are positive, where the shift leaves ``P_other = exp(-u - v) / 4``
  unchanged and ``P_b = H - exp(-u - v) / 8`` with ``H = Pr[Z_b - Z_a > u - v]``. At given y the gains
  do not depend on v, and `lower` of a and b rise with v. So ``v = s/2`` is worst.
- *y above 20 + s/2.* a wins, up to 1e-16.

On the strip ``|v| <= s/2``, P has ``v <= 0 <= u`` and ``P_b = exp(v - u) (3 + 2 u) / 8``,
``P_other = exp(-u) / 2 - exp(v - u) / 4``. Q has ``v >= 0``, and ``u >= 0`` if ``y >= s/2``. Along the shift b
then gains ``exp(-|u - v|) (1 + |u - v|) / 2`` (v > 0) or ``exp(v - u) (1 + u) / 2`` (v < 0), the
others gain 0 or ``exp(-u) (1 - exp(v)) / 2``, convex in u. For ``y < s/2``, where a kink may lie in
the cell, P and Q are bounded one by one. ``|d2P_o/du2| <= P_o`` for any outcome, and every first
derivative is Lipschitz, which is all that interpolation needs. Scores are at most 2 (others: 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpensemble._arrays import Floats
from dpensemble.cost.pairs import DominatingPairs

_FAR = 20.0


@dataclass(frozen=True, slots=True)
class LaplaceGaps:
    """Gaps in scales. See `dpensemble.accounting.worst_case.two_gaps.covering.GapLaw`."""

    shift: float

    def regions(self) -> Floats:
        """Return the strip, cut where Q's leader falls behind."""
        half = self.shift / 2
        return np.array([[-half, half, 0.0, half], [-half, half, half, _FAR + half]])

    def beyond(self) -> list[DominatingPairs]:
        """Return randomized response, for a single noisy comparison."""
        odds = np.exp(self.shift * (1 + 1e-9))
        # Each outcome twice, to fill the table without zeros.
        p = np.array([[odds, odds, 1.0, 1.0]]) / (2 + 2 * odds)
        return [DominatingPairs(p, p[:, ::-1]).both_ways()]

    def probabilities(self, u: Floats, v: Floats) -> Floats:
        """Return the probabilities in closed form."""
        tail_u, tail_v = np.exp(-np.abs(u)) / 2, np.exp(-np.abs(v)) / 2
        below_u, below_v = np.where(u > 0, tail_u, 1 - tail_u), np.where(v > 0, tail_v, 1 - tail_v)
        return np.stack([_wins(v, u), _wins(u, v), below_u * below_v], axis=-1)

    def bends(self, cells: Floats) -> tuple[Floats, Floats]:
        """Bound the second derivatives that the module's docstring implies."""
        v0, v1, y0, y1 = cells.T
        s, half = self.shift, self.shift / 2
        kink = y0 < half
        u0, u1 = v0 + 2 * y0, v1 + 2 * y1
        nothing = np.zeros(len(cells))
        behind = np.exp(-2 * y0 - s) * np.maximum(2 * u1 + s - 1, 0.0) / 2
        least_p = np.exp(-u0 - half)
        lower = np.stack(
            [
                np.stack([nothing, np.where(kink, 4.0, 0.0)], axis=1),
                np.stack([nothing, behind], axis=1),
                np.stack([least_p / 2, 2 * least_p], axis=1),
            ],
            axis=-1,
        )
        nearest = np.minimum(u0 - half, 2 * y0 - s)
        smooth = s * 2 * np.maximum(1 - nearest, 0.0) * np.exp(-np.maximum(2 * y0 - s, 0.0))
        to_b = np.stack(
            [np.exp(-v0 - half - np.maximum(u0 - half, 0.0)) / 2, np.where(kink, 1 + behind, smooth)], axis=1
        )
        to_others = np.stack([least_p / 2, np.where(kink, 1 + 2 * least_p, 0.0)], axis=1)
        return lower, np.stack([to_b, to_others], axis=-1)

    def largest_scores(self, cells: Floats) -> Floats:
        """Return the constant bounds."""
        return np.broadcast_to(np.array([2.0, 2.0, 1.0]), (len(cells), 3))


def _wins(u: Floats, v: Floats) -> Floats:
    """Return ``Pr[v + Z_b > max(0, u + Z_a)]``: a mixture of gaps ahead and none."""
    ahead_u, ahead_v = np.maximum(u, 0.0), np.maximum(v, 0.0)
    gap = ahead_u - ahead_v
    tail = (2 + np.abs(gap)) * np.exp(-np.abs(gap)) / 4
    against_rival = np.where(gap > 0, tail, 1 - tail) - np.exp(-ahead_u - ahead_v) / 8
    alone = 1 - np.exp(-ahead_v) / 2
    reached = np.exp(np.minimum(u, 0.0))
    return np.exp(np.minimum(v, 0.0)) * ((1 - reached) * alone + reached * against_rival)
