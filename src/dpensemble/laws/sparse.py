r"""A noisy maximum with a threshold over all classes that have votes, for label sets of any size.

Noise is added to the counts of classes with at least one vote. The largest is released if it reaches the threshold.
Otherwise there is no answer. Which classes have votes is private. So `dpensemble.accounting.price` charges for what
a class with votes of only one unit could reveal, and the threshold has to lie well above one vote.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from dpensemble._checks import real_between
from dpensemble._entries import Floats
from dpensemble._random import NoiseSource
from dpensemble.laws.sampling import sample_probabilities

# Noise beyond this many sigma has probability below 1e-18.
_REACH = 9.0
_PANEL = 0.5
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)


@dataclass(frozen=True, slots=True)
class SparseNoisyMax:
    """Release the class with the largest noisy count if it reaches a threshold. Only classes with votes compete.

    For label sets as large as a language model's. The time of an answer is proportional to the number of different
    classes that voters named. A SparseNoisyMax is not a `ReleaseLaw`, because the possible outcomes depend on the
    votes.

    Parameters
    ----------
    sigma : float
        Standard deviation of the Gaussian noise on each count, in votes, from 0.25 to 10,000.
    threshold : float
        Least noisy count that is released, in votes, above 1. See `threshold_for`.

    References
    ----------
    The idea of a threshold on counts of what occurs: A. Korolova, K. Kenthapadi, N. Mishra and A. Ntoulas, "Releasing
    search queries and clicks privately", WWW 2009. Price and proof: `dpensemble.accounting.price`.

    Examples
    --------
    >>> law = SparseNoisyMax(sigma=4.0, threshold=25.0)
    >>> law.probabilities(np.array([60, 3])).round(6), law.probabilities(np.array([25])).round(6)
    (array([1., 0., 0.]), array([0.5, 0.5]))
    """

    name: ClassVar[str] = "sparse-gnmax"
    title: ClassVar[str] = "sparse Gaussian noisy-max with a threshold"
    #: Share of the answers that are drawn from a law of no votes, and the chance that this law gives to each class.
    MIXING: ClassVar[float] = 1e-7
    FLOOR: ClassVar[float] = MIXING / 10_000
    #: Bound on the error of one probability.
    ERROR: ClassVar[float] = 2e-14

    sigma: float
    threshold: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", real_between("sigma", self.sigma, 0.25, 1e4))
        object.__setattr__(self, "threshold", real_between("threshold", self.threshold, 1.0, 1e9))

    @classmethod
    def threshold_for(cls, sigma: float, delta: float) -> float:
        """Return the threshold that a class of one vote reaches with a probability of `delta`.

        Parameters
        ----------
        sigma : float
            Noise, in votes.
        delta : float
            Delta of one answer. For example, a third of the budget's delta divided by the number of answers.

        Examples
        --------
        >>> round(SparseNoisyMax.threshold_for(4.0, 1e-8), 2)
        23.45
        """
        low, high = 0.0, 40.0
        goal = np.log(real_between("delta", delta, 1e-300, 0.5))
        while high - low > 1e-12 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if log_ndtr(-middle) <= goal else (middle, high)
        return 1 + real_between("sigma", sigma, 0.25, 1e4) * high

    def probabilities(self, counts: NDArray[Any]) -> Floats:
        """Return the probability of each class with votes, and in the last place that of no answer.

        Parameters
        ----------
        counts : ndarray of shape (n_named,)
            Votes of the classes that have votes, each at least 1. Private.

        Returns
        -------
        ndarray of shape (n_named + 1,)
            Absolute error at most 2e-14 an entry. Private.
        """
        counts = np.asarray(counts, dtype=np.float64)
        values, place, times = np.unique(counts, return_inverse=True, return_counts=True)
        top = float(values[-1]) if len(values) else 0.0
        none = float(np.exp(np.sum(times * log_ndtr((self.threshold - values) / self.sigma))))
        low, high = max(self.threshold, top - _REACH * self.sigma), top + _REACH * self.sigma
        if low >= high:
            return np.append(np.zeros(len(counts)), 1.0)
        edges = np.linspace(low, high, int(np.ceil((high - low) / self.sigma / _PANEL)) + 1)
        half = (edges[1] - edges[0]) / 2
        points = ((edges[:-1] + half)[:, None] + half * _NODES).ravel()
        shifted = (points - values[:, None]) / self.sigma
        below = log_ndtr(shifted)
        # For a class that wins, its own distribution function is replaced by its density.
        others = times @ below - below
        density = np.exp(others - shifted**2 / 2) / (np.sqrt(2 * np.pi) * self.sigma)
        each = density @ np.tile(half * _WEIGHTS, len(edges) - 1)
        return np.append(each[place.ravel()], none)

    def mixed_probabilities(self, counts: NDArray[Any]) -> Floats:
        """Return the sampled probabilities, mixed with a law that gives every class the same small chance."""
        chances = (1 - SparseNoisyMax.MIXING) * self.probabilities(counts)
        chances[:-1] += SparseNoisyMax.FLOOR
        chances[-1] += SparseNoisyMax.MIXING - SparseNoisyMax.FLOOR * (len(chances) - 1)
        return chances

    def sample(self, counts: NDArray[Any], noise: NoiseSource) -> int:
        """Draw the place of a class among those with votes. The number of these classes stands for no answer."""
        return int(sample_probabilities(self.mixed_probabilities(counts)[None], noise)[0])

    def settings(self) -> dict[str, Any]:
        """Return the title and the settings as plain values."""
        return {"law": self.title} | asdict(self)

    def words(self) -> str:
        """Return the title and the numbers in words."""
        return f"{self.title}, sigma {self.sigma:.6g} votes, threshold {self.threshold:.6g} votes"
