"""The exponential mechanism on votes."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import real_between
from dpensemble.laws.base import ReleaseLaw
from dpensemble.laws.sampling import least_mixing_weight


@dataclass(frozen=True, slots=True)
class ExponentialVote(ReleaseLaw):
    """Release class ``c`` with probability proportional to ``exp(epsilon n_c / 2)``, where ``epsilon = 2 / scale``.

    A ballot that changes moves two counts by one vote, which changes every probability by at most a factor of
    ``exp(epsilon)``. Adding Gumbel noise of that scale to every count would release the same law.

    Parameters
    ----------
    scale : float
        In votes: ``2 / epsilon`` for the epsilon of one ballot. Larger is more private.

    Raises
    ------
    InvalidParameterError
        If `scale` is not a number from 1e-9 to 1e12.

    References
    ----------
    F. McSherry and K. Talwar, "Mechanism design via differential privacy", FOCS 2007, Theorem 6.

    Examples
    --------
    >>> ExponentialVote(scale=2.0).probabilities(np.array([[5, 5], [9, 1]])).round(3)
    array([[0.5  , 0.5  ],
           [0.982, 0.018]])
    """

    name: ClassVar[str] = "exponential"
    title: ClassVar[str] = "exponential mechanism"
    symmetric: ClassVar[bool] = True
    in_votes: ClassVar[tuple[str, ...]] = ("scale",)
    # As decisive far from a tie as Laplace noise with its usual scale.
    usual: ClassVar[tuple[float, ...]] = (0.08,)

    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", real_between("scale", self.scale, 1e-9, 1e12))

    def pure_epsilon(self, votes: int) -> float:
        """Return ``2 votes / scale``: numerator and sum change by a factor of ``exp(votes / scale)`` each."""
        return 2 * votes / self.scale

    def mixing_weight(self, n_classes: int) -> float:
        """Return the weight that pays for rounding when a single ballot changes, at a tie."""
        return least_mixing_weight(1 / self.scale, n_classes)

    def probabilities(self, counts: NDArray[Any]) -> NDArray[np.float64]:
        """Return the probability of each class, shape (n_queries, n_classes)."""
        counts = np.asarray(counts, dtype=np.float64)
        weights = np.exp((counts - counts.max(axis=1, keepdims=True)) / self.scale)
        return weights / weights.sum(axis=1, keepdims=True)
