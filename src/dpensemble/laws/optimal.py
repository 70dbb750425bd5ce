r"""The optimal vote, which is certain at a finite margin, where noise on counts still errs.

A law of two classes answers ``p(m)`` for the second class if that class leads by ``m`` votes. One vote reveals
the step between two neighbouring probabilities. If every step must stay within a rule ``p' <= G(p)``, the most
decisive law starts at the tie with 1/2 and steps outwards as far as ``G`` allows. No law within the rule that
treats both classes alike is nearer to certainty at any margin (`dpensemble.laws.decisive`).

Which rule? Small steps in proportion to ``(p (1 - p))**(1 - shape)`` integrate to a quantile function of the
symmetric beta distribution,

    ``p(m) = quantile of Beta(shape, shape) at 1/2 + m / (2 reach)``.

- ``shape = 1/2`` is ``sin**2(pi / 4 (1 + m / reach))``. Every vote reveals equally much to second order (Fisher
  information), which is optimal for many answers and gentle steps.
- Smaller shapes take smaller steps near certainty. An analyst who may choose later queries by earlier answers gains
  most from rare outcomes. So for a whole budget shapes from 0.2 to 0.4 do better, and larger ones for many labels.
- ``shape -> 0`` is the logistic law of the exponential mechanism. Gaussian noise is close to 0.2.

With three and more classes every two of them hold such a vote, and the tournament is repeated until one class
wins all its matches. ``p_c`` is proportional to the product over the others of the chances to beat them. When
all but two classes are far behind, that is the law of two classes.

No privacy claim rests on this. The law is priced like any other, on all neighbouring counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import beta, betaincinv

from dpensemble._checks import real_between
from dpensemble.laws.base import ReleaseLaw
from dpensemble.laws.sampling import least_mixing_weight

# These shapes do well for a whole budget at all margins.
_SHAPE_OF_TWO, _SHAPE_OF_MANY = 0.25, 0.3
_SHAPES = 0.1, 0.5


@dataclass(frozen=True, slots=True)
class OptimalVote(ReleaseLaw):
    """Release the plurality with a chance that reaches certainty at a finite margin.

    Every two classes hold a vote. The label is the class that wins all of its votes, repeated until there is one.

    Parameters
    ----------
    reach : float
        Lead, in votes, that makes an answer certain (except for the sampler's mixing). Larger is more private.
    shape : float, default=0.25
        How fast the steps shrink towards certainty, from 0.1 to 0.5. The shape 0.5 is ``sin**2``.

    See Also
    --------
    dpensemble.design.with_least_error : Finds both settings for a budget.

    Examples
    --------
    >>> law = OptimalVote(reach=100.0, shape=0.5)
    >>> law.probabilities(np.array([[50, 50], [100, 50], [150, 40]])).round(3)
    array([[0.5  , 0.5  ],
           [0.854, 0.146],
           [1.   , 0.   ]])
    """

    name: ClassVar[str] = "optimal"
    title: ClassVar[str] = "optimal vote"
    symmetric: ClassVar[bool] = True
    in_votes: ClassVar[tuple[str, ...]] = ("reach",)
    # As decisive near a tie as Gaussian noise with its usual sigma.
    usual: ClassVar[tuple[float, ...]] = (0.74,)
    # Many labels and clear votes need large shapes.
    variants: ClassVar[dict[str, tuple[Any, ...]]] = {
        "shape": (0.1, 0.125, 0.15, 0.175, 0.2, 0.225, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)
    }

    reach: float
    shape: float = _SHAPE_OF_TWO

    def __post_init__(self) -> None:
        object.__setattr__(self, "reach", real_between("reach", self.reach, 1e-9, 1e12))
        object.__setattr__(self, "shape", real_between("shape", self.shape, *_SHAPES))

    @classmethod
    def default(cls, ballots: int, n_classes: int) -> Self:
        """Return the law with its usual reach for a number of ballots, and shape for a number of classes."""
        return cls(cls.usual[0] * ballots, _SHAPE_OF_TWO if n_classes == 2 else _SHAPE_OF_MANY)

    def mixing_weight(self, n_classes: int) -> float:
        """Return the weight that pays for rounding when a single ballot changes, at a tie."""
        # A changed ballot moves the margin by two votes, and half of that is the loss of the likelier class.
        return least_mixing_weight(self.steepness, n_classes)

    @property
    def steepness(self) -> float:
        """How fast the logarithm of a chance of 1/2 changes with the margin, at a tie, per vote."""
        return 4 ** (self.shape - 1) * float(beta(self.shape, self.shape)) / self.reach

    def probabilities(self, counts: NDArray[Any]) -> NDArray[np.float64]:
        """Return the probability of each class, shape (n_queries, n_classes)."""
        counts = np.asarray(counts, dtype=np.float64)
        chances = np.ones(counts.shape)
        for one in range(counts.shape[1]):
            for other in range(one):
                wins, loses = self._match(counts[:, one] - counts[:, other])
                chances[:, one] *= wins
                chances[:, other] *= loses
        # The leader never has less than even odds, so the sum is positive. Two classes already add up to 1.
        return chances if counts.shape[1] == 2 else chances / chances.sum(axis=1, keepdims=True)

    def _match(self, margin: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the chances of a class that leads another by some margins, and of that other class."""
        # The smaller probability is the accurate one. Mirrored votes mirror it exactly.
        behind = np.clip(0.5 - np.abs(margin) / (2 * self.reach), 0.0, 0.5)
        trailing = np.where(margin == 0, 0.5, betaincinv(self.shape, self.shape, behind))
        leading = 1 - trailing
        return np.where(margin > 0, leading, trailing), np.where(margin > 0, trailing, leading)
