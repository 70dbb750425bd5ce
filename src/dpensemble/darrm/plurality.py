r"""Answers of private teachers with three and more classes: the plurality of a few ballots, drawn at random.

The optimised gamma is for two classes. With more classes, ``m`` of ``K`` ballots are drawn, each choice equally likely
and independent for every query. The class with most of these ballots is released, and ties are broken by chance. Each
ballot is ``epsilon``-private (delta 0) and has randomness of its own. A unit can change `touched` of them.

*Several teachers touched.* Given which ballots are drawn, at most ``h = min(m, touched)`` of them are a unit's, and any
function of them loses at most ``h epsilon`` (composition). The choice is independent of the records, and a mixture with
the same weights on both sides loses at most as much as its worst part.

*One touched* (a partition) by randomised ballots. Its ballot is drawn with the chance ``q = m / K``. For any event,
let ``A`` be its chance when that ballot is not drawn, and ``B, B'`` its chances when it is, for a true vote ``x`` or
``x'`` of the unit's teacher. Randomised response makes a ballot's laws for any two true votes ``epsilon``-close, so
that ``B <= exp(epsilon) B'``. A choice with the teacher becomes one without it by taking another teacher, at random, in
its place. Then one true vote differs, so that ``B <= exp(epsilon) A``, too. With ``b = min(A, B')`` and ``P' = (1 - q)
A + q B' >= b``,

    P - P' = q (B - B') <= q (exp(epsilon) b - B') <= q (exp(epsilon) - 1) b <= q (exp(epsilon) - 1) P',

so the answer loses at most ``log(1 + q (exp(epsilon) - 1))`` (as in B. Balle, G. Barthe and M. Gaboardi, "Privacy
amplification by subsampling", NeurIPS 2018, for sampling without replacement). Votes of private models are not close
to those of other models, so those of a partition are charged ``epsilon``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import integer_between
from dpensemble.laws import ReleaseLaw

_ROUND_UP = 1 + 1e-12


@dataclass(frozen=True, slots=True)
class Plurality(ReleaseLaw):
    """Release the class with the most ballots, ties by chance. For ballots that are private by themselves.

    A plurality adds no noise and protects nothing: its answer is as private as the ballots.
    """

    title: ClassVar[str] = "plurality of the ballots"
    symmetric: ClassVar[bool] = True

    def probabilities(self, counts: NDArray[Any]) -> NDArray[np.float64]:
        """Return the probability of each class, shape (n_queries, n_classes)."""
        best = counts == counts.max(axis=1, keepdims=True)
        chances: NDArray[np.float64] = best / best.sum(axis=1, keepdims=True)
        return chances


def plurality_epsilon(drawn: int, n_teachers: int, *, touched: int, epsilon: float, randomised: bool) -> float:
    """Return the privacy loss, rounded up, of one answer by the plurality of a few ballots, drawn at random.

    One unit can change `touched` teachers. Each ballot has pure privacy `epsilon`: a true vote with randomised
    response, or the vote of a private model.
    """
    drawn = integer_between("drawn", drawn, 1, integer_between("n_teachers", n_teachers, 1))
    if touched == 1 and randomised:
        return math.log1p(drawn / n_teachers * math.expm1(epsilon)) * _ROUND_UP if drawn < n_teachers else epsilon
    return min(drawn, touched) * epsilon


def most_drawn(n_teachers: int, allowed: float, cost: Callable[[int], float]) -> int | None:
    """Return the largest number of ballots whose plurality costs at most `allowed`, or None if not even one does."""
    fits = [drawn for drawn in range(1, n_teachers + 1) if cost(drawn) <= allowed]
    return max(fits, default=None)
