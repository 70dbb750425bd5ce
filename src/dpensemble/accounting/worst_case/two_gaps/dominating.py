r"""Finitely many pairs that dominate one released label of a noisy maximum over three or more classes.

The mechanism releases ``argmax_c n_c + Z_c``. A ballot of weight D moves from class a to class
b. The bound is a certified supremum over all histograms (the project's own). Proof, in three steps:

1. *Three outcomes.* Fix the largest noisy count ``M`` of the other classes, whose law no ballot for a or b changes.
   Then either a wins, or b, or another class, and which other class wins depends on neither.
   With ``u = (n_a - M) / scale``, ``v = (n_b - M) / scale`` and ``s = D / scale`` the pair of label laws is a mixture
   of three-outcome pairs, at ``(u, v)`` and at ``(u - s, v + s)``. Every functional ``F = sum_o Q_o k(P_o / Q_o)``
   with convex ``k`` is jointly convex, so it is at most its supremum over real ``(u, v)``. Two classes are the limit
   ``M -> -infinity``. Mixing with the uniform law leaves every outcome at least ``w / C`` from either input. Any
   further mass that mixing adds is alike under both and can only lower F.
2. *Half of the plane.* Swapping a and b reverses a pair, so ``u >= v`` at the
   midpoint and both orders of each pair suffice.
3. *Cells.* `dpensemble.accounting.worst_case.two_gaps.covering` bounds F on every cell of a
   partition by F at a few explicit pairs. The laws' own modules explain why the cells leave nothing out.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from dpensemble._checks import integer_between, real_between
from dpensemble.accounting.worst_case.two_gaps.covering import GapLaw, dominating_pairs
from dpensemble.accounting.worst_case.two_gaps.gaussian import GaussianGaps
from dpensemble.accounting.worst_case.two_gaps.laplace import LaplaceGaps
from dpensemble.cost.pairs import DominatingPairs
from dpensemble.errors import InvalidParameterError

_MOST_CLASSES = 10_000


def two_gap_pairs(
    noise: Literal["gaussian", "laplace"], shift: float, n_classes: int, mixing_weight: float
) -> DominatingPairs:
    """Return pairs that dominate one noisy maximum, for all votes.

    Parameters
    ----------
    noise : {"gaussian", "laplace"}
        Law of the independent noise on every count.
    shift : float
        Weight of the ballot that moves, in standard deviations (Gaussian) or scales (Laplace) of noise, from 1e-4 to 4.
    n_classes : int
        From 3 to 10,000. Two classes have exact tables of their own.
    mixing_weight : float
        Share of answers drawn uniformly, from 1e-7 to 0.01. See `dpensemble.laws.sampling`.

    Returns
    -------
    DominatingPairs
        Pairs of four outcomes, both ways. The same object for the same arguments.

    Raises
    ------
    InvalidParameterError
        If an argument is outside its range.

    Examples
    --------
    The published order-2 bound is ``2 * shift**2``. The exact supremum is 0.64 of that:

    >>> pairs = two_gap_pairs("gaussian", shift=1 / 40, n_classes=10, mixing_weight=1e-6)
    >>> round(float(pairs.renyi([2.0])[0]) / (2 * (1 / 40) ** 2), 3)
    0.64
    """
    if noise not in {"gaussian", "laplace"}:
        raise InvalidParameterError(f"noise={str(noise)[:60]!r} is unknown: use 'gaussian' or 'laplace'.")
    return _covered(
        noise,
        real_between("shift", shift, 1e-4, 4.0),
        integer_between("n_classes", n_classes, 3, _MOST_CLASSES),
        real_between("mixing_weight", mixing_weight, 1e-7, 0.01),
    )


@lru_cache(maxsize=64)
def _covered(noise: str, shift: float, n_classes: int, mixing_weight: float) -> DominatingPairs:
    law: GapLaw = GaussianGaps(shift) if noise == "gaussian" else LaplaceGaps(shift)
    pairs = dominating_pairs(law, mixing_weight, mixing_weight / n_classes)
    return DominatingPairs.union([pairs.both_ways(), *law.beyond()])
