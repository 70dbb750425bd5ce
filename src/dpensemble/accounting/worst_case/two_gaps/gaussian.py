r"""Three outcomes of a noisy maximum with standard normal noise, and bounds on their derivatives.

With ``phi, Phi`` the normal density and distribution, ``x = (u + v) / 2``, ``y = (u - v) / 2``, let ``A = phi(u)
Phi(-v)``, ``A' = phi(v) Phi(-u)``, ``E = phi(u) phi(v)`` and ``B = phi(sqrt2 y) Phi(sqrt2 x) / sqrt2``, the flow
between a and b. Then ``dP_a/du = A + B``, ``dP_a/dv = -B``, ``P_other = Phi(-u) Phi(-v)``, and along the shift b gains
``2 B + A'`` and the others gain ``A - A'``. Second derivatives along ``v`` (y fixed: u and v alike) and along ``y`` (v
fixed: twice u) are written out below.

*Largest score.* In thresholds ``c = (-v, 2 y)``, b wins with the survival probability
``S(c) = Pr[Z_b > c1, Z_b - Z_a > c2]``. S is log-concave (Prekopa), and, the two being positively correlated
normals, log-supermodular (Karlin and Rinott 1980). So the hazard along c1 rises with c1 and falls with c2,
and vice versa. The score, first hazard plus twice the second, is at most their sum at the
worst corners. The same holds for a, with u and v swapped. For the others both hazards are explicit.

*Nothing is left out*, up to 1e-16 at ``8.3 + s/2``. For v above it the others never win and the pair is that
of two classes, constant in v. For y above it a wins. For v below, b never wins, and
one noisy comparison remains, ``Phi(u +- s/2)``. It is less extreme, on both sides, than the comparison
``Phi(u +- s/sqrt2)`` of two classes at ``y = |u| / sqrt2``, reversed if u < 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import log_ndtr, ndtr, owens_t

from dpensemble._arrays import Floats
from dpensemble.accounting.worst_case.two_gaps.covering import SLACK
from dpensemble.cost.pairs import DominatingPairs

Range = tuple[Floats, Floats]

_ROOT = math.sqrt(2)
_FAR = 8.3
# A long shift is bounded piece by piece.
_PIECE = 0.1
_NUDGE = 1e-20


@dataclass(frozen=True, slots=True)
class GaussianGaps:
    """Gaps in standard deviations. See `dpensemble.accounting.worst_case.two_gaps.covering.GapLaw`."""

    shift: float

    def regions(self) -> Floats:
        """Return one rectangle."""
        far = _FAR + self.shift / 2
        return np.array([[-far, far, 0.0, far]])

    def beyond(self) -> list[DominatingPairs]:
        """Return nothing. The module's docstring gives the reason."""
        return []

    def probabilities(self, u: Floats, v: Floats) -> Floats:
        """Return the probabilities by Owen's T function, to a few 1e-16."""
        return np.stack([_wins(v, u), _wins(u, v), ndtr(-u) * ndtr(-v)], axis=-1)

    def bends(self, cells: Floats) -> tuple[Floats, Floats]:
        """Bound every term of the second derivatives by its range over the cell."""
        half = self.shift / 2
        p, q = _Terms(cells, half, half), _Terms(cells, -half, -half)
        lower = np.stack([q.bends_of_a(), p.bends_of_b(), p.bends_of_others()], axis=-1)
        n_pieces = math.ceil(self.shift / _PIECE)
        ends = np.linspace(-half, half, n_pieces + 1)
        gain = np.zeros((len(cells), 2, 2))
        for start, end in pairwise(ends.tolist()):
            terms = _Terms(cells, start, end)
            gain += np.stack([terms.bends_of_flow_to_b(), terms.bends_of_flow_to_others()], axis=-1)
        return np.maximum(lower, 0.0), np.maximum(gain, 0.0) * self.shift / n_pieces

    def largest_scores(self, cells: Floats) -> Floats:
        """Add each hazard's bound at the corner where it is largest."""
        v0, v1, y0, y1 = cells.T + self.shift / 2 * np.array([[-1], [1], [-1], [1]])
        u0, u1 = cells[:, 0] + 2 * cells[:, 2] - self.shift / 2, cells[:, 1] + 2 * cells[:, 3] + self.shift / 2
        b = _hazard_at_zero(v0 + 2 * y0, v0) + _hazard_of_rival(v1 + 2 * y1, v1)
        a = _hazard_at_zero(u0 - 2 * y1, u0) + _hazard_of_rival(u1 - 2 * y0, u1)
        return np.stack([a, b, np.maximum(_mills(u1) - _mills(v0), 0.0)], axis=-1)


def _wins(u: Floats, v: Floats) -> Floats:
    """Return ``Pr[v + Z_b > max(0, u + Z_a)]`` (D. B. Owen 1956, equation 2.1)."""
    # Moves the removable singularities by less than any rounding.
    v = np.where(v == 0, _NUDGE, v)
    y = np.where(u == v, _NUDGE, (u - v) / 2)
    half = np.where(v * np.sign(y) > 0, 0.5, 0.0)
    return (ndtr(v) + ndtr(-_ROOT * y)) / 2 + owens_t(v, u / v) + owens_t(_ROOT * y, (u + v) / 2 / y) - half


def _density(z: Floats) -> Floats:
    return np.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def _mills(z: Floats) -> Floats:
    """Return the hazard ``phi(z) / Phi(-z)``."""
    return np.exp(-z * z / 2 - log_ndtr(-z)) / math.sqrt(2 * math.pi)


def _hazard_at_zero(u: Floats, v: Floats) -> Floats:
    return _over_wins(_density(v) * ndtr(-u), u, v)


def _hazard_of_rival(u: Floats, v: Floats) -> Floats:
    return _over_wins(_ROOT * _density((u - v) / _ROOT) * ndtr((u + v) / _ROOT), u, v)


def _over_wins(flow: Floats, u: Floats, v: Floats) -> Floats:
    """Divide by a lower bound of ``_wins``. The result is infinite where rounding leaves no positive bound."""
    wins = _wins(u, v) - SLACK
    return np.where(wins > SLACK, flow / np.maximum(wins, SLACK), np.inf)


class _Terms:
    """Ranges of A, A', B, E and their factors over cells shifted by every amount from `start` to `end`."""

    def __init__(self, cells: Floats, start: float, end: float) -> None:
        v0, v1, y0, y1 = cells.T
        self.u, self.v = (v0 + 2 * y0 + start, v1 + 2 * y1 + end), (v0 - end, v1 - start)
        self.y = y0 + start, y1 + end
        bell_u, bell_v = _bell(self.u), _bell(self.v)
        bell_y = _bell((_ROOT * self.y[0], _ROOT * self.y[1]))
        self.a = bell_u[0] * ndtr(-self.v[1]), bell_u[1] * ndtr(-self.v[0])
        self.b = bell_v[0] * ndtr(-self.u[1]), bell_v[1] * ndtr(-self.u[0])
        self.e = bell_u[0] * bell_v[0], bell_u[1] * bell_v[1]
        self.flow = bell_y[0] * ndtr(_ROOT * (v0 + y0)) / _ROOT, bell_y[1] * ndtr(_ROOT * (v1 + y1)) / _ROOT

    def bends_of_a(self) -> Floats:
        """Bound ``-u A - E`` and ``-4 y B + 2 E - 4 u A``."""
        outwards = _top(_scaled(self.u, -1), self.a)
        inwards = _top(_scaled(self.y, -4), self.flow)
        return _both(outwards - self.e[0], inwards + 2 * self.e[1] + 4 * outwards)

    def bends_of_b(self) -> Floats:
        """Bound ``-v A' - E`` and ``4 y B - 2 E``."""
        outwards = _top(_scaled(self.v, -1), self.b)
        return _both(outwards - self.e[0], _top(_scaled(self.y, 4), self.flow) - 2 * self.e[0])

    def bends_of_others(self) -> Floats:
        """Bound ``u A + v A' + 2 E`` and ``4 u A``."""
        outwards = _top(self.u, self.a)
        return _both(outwards + _top(self.v, self.b) + 2 * self.e[1], 4 * outwards)

    def bends_of_flow_to_b(self) -> Floats:
        """Bound ``(1 - v**2) A' + u E`` and ``4 (1 - 2 y**2) B + 4 y E``, minus those of ``2 B + A'``."""
        along_v = _top(_one_less(self.v, 1), self.b) + _top(self.u, self.e)
        along_y = 4 * _top(_one_less(self.y, 2), self.flow) + 4 * _top(self.y, self.e)
        return _both(along_v, along_y)

    def bends_of_flow_to_others(self) -> Floats:
        """Bound ``(1 - u**2) A - (1 - v**2) A' - 2 y E`` and ``4 (1 - u**2) A + 4 u E``, as for ``A - A'``."""
        outwards = _top(_one_less(self.u, 1), self.a)
        inwards = _top(_scaled(_one_less(self.v, 1), -1), self.b) + _top(_scaled(self.y, -2), self.e)
        return _both(outwards + inwards, 4 * outwards + 4 * _top(self.u, self.e))


def _squared(values: Range) -> Range:
    low, high = values
    across = (low < 0) & (high > 0)
    return np.where(across, 0.0, np.minimum(low**2, high**2)), np.maximum(low**2, high**2)


def _bell(values: Range) -> Range:
    """Return the range of the density."""
    nearest, farthest = _squared(values)
    return _density(np.sqrt(farthest)), _density(np.sqrt(nearest))


def _scaled(values: Range, factor: float) -> Range:
    low, high = factor * values[0], factor * values[1]
    return (low, high) if factor > 0 else (high, low)


def _one_less(values: Range, factor: float) -> Range:
    """Return the range of ``1 - factor * value**2``."""
    nearest, farthest = _squared(values)
    return 1 - factor * farthest, 1 - factor * nearest


def _top(coefficient: Range, term: Range) -> Floats:
    """Return the largest product of a coefficient and a positive term."""
    return np.where(coefficient[1] > 0, coefficient[1] * term[1], coefficient[1] * term[0])


def _both(along_v: Floats, along_y: Floats) -> Floats:
    return np.stack([along_v, along_y], axis=1)
