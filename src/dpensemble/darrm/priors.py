"""Beliefs about the teachers' votes. They decide which private majority is best, not what is private."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from dpensemble._checks import real_between
from dpensemble.errors import InvalidParameterError

# For quadrature over an interval on which the chance of a count changes by about a factor of e.
_NODES = 16


class VotePrior(Protocol):
    """The interface of a prior."""

    def lead(self, n_teachers: int) -> NDArray[np.float64]:
        """Return ``Pr[L = l] - Pr[L = K - l]`` for ``l > K / 2``; ``L`` counts votes for the likelier class.

        Parameters
        ----------
        n_teachers : int
            ``K``.

        Returns
        -------
        ndarray of shape ((K + 1) // 2,)
            Value of releasing the majority at each count. Not negative.
        """


@dataclass(frozen=True, slots=True)
class IndependentTeachers:
    """Each teacher's probability is drawn independently on one side of 1/2, with one mean.

    Then only the mean matters: the votes are Binomial(K, mean). Uniform on [1/2, 1] has mean 0.75. If probabilities
    straddle 1/2, the resulting expected errors are lower bounds.

    Parameters
    ----------
    mean : float
        In [0, 1]. At 1/2 both classes are equally likely.

    Raises
    ------
    InvalidParameterError
        If the mean is out of range.

    Examples
    --------
    >>> IndependentTeachers(0.75).lead(3).round(4)
    array([0.2812, 0.4062])
    """

    mean: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", real_between("prior mean", self.mean, 0, 1))

    def lead(self, n_teachers: int) -> NDArray[np.float64]:
        """Return ``Pr[L = l] - Pr[L = K - l]`` for ``l > K / 2``."""
        return _lead(n_teachers, max(self.mean, 1 - self.mean))


@dataclass(frozen=True, slots=True)
class AlikeTeachers:
    """All teachers share one probability, drawn from an interval or from a histogram.

    Parameters
    ----------
    low, high : float, default=0.0, 1.0
        Ends of the interval on which the common probability is uniform. Not used with a histogram.
    probabilities, weights : tuple of float, optional
        Values of the common probability, and how likely each is. Weights sum to 1.

    Raises
    ------
    InvalidParameterError
        If these settings are out of range, of different lengths, or do not sum to 1.

    Examples
    --------
    >>> AlikeTeachers().lead(3).round(4)
    array([0.1875, 0.4375])
    >>> AlikeTeachers(probabilities=(0.2, 0.9), weights=(0.5, 0.5)).lead(1).round(4)
    array([0.7])
    """

    low: float = 0.0
    high: float = 1.0
    probabilities: tuple[float, ...] = ()
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        low, high = real_between("prior low", self.low, 0, 1), real_between("prior high", self.high, 0, 1)
        if not low < high:
            raise InvalidParameterError(f"prior low={low:g} must be below high={high:g}.")
        _check_histogram(self.probabilities, self.weights)

    def lead(self, n_teachers: int) -> NDArray[np.float64]:
        """Return ``Pr[L = l] - Pr[L = K - l]`` for ``l > K / 2``."""
        if self.probabilities:
            pairs = zip(self.probabilities, self.weights, strict=True)
            return np.sum([weight * _lead(n_teachers, max(p, 1 - p)) for p, weight in pairs], axis=0)
        # A class is likelier on each side of 1/2. The side below is reversed.
        sides = [(max(self.low, 0.5), max(self.high, 0.5)), (1 - min(self.high, 0.5), 1 - min(self.low, 0.5))]
        wide = sum(high - low for low, high in sides)
        return np.sum([_integrated_lead(n_teachers, *side) / wide for side in sides], axis=0)


def prior_of(prior: Any) -> VotePrior:
    """Return a prior. A plain number is the mean of independent teachers."""
    if hasattr(prior, "lead") and not isinstance(prior, type):
        return prior
    return IndependentTeachers(prior)


def _lead(n_teachers: int, chance: float) -> NDArray[np.float64]:
    from scipy.stats import binom  # noqa: PLC0415  takes long to import

    votes = np.arange(n_teachers // 2 + 1, n_teachers + 1)
    if chance == 0.5:
        # Set to zero, which the rounding of two equal terms might miss.
        return np.zeros(len(votes))
    return np.maximum(binom.pmf(votes, n_teachers, chance) - binom.pmf(n_teachers - votes, n_teachers, chance), 0)


def _integrated_lead(n_teachers: int, low: float, high: float) -> NDArray[np.float64]:
    """Integrate the lead over probabilities from `low` to `high`, both at least 1/2, by incomplete betas."""
    votes = np.arange(n_teachers // 2 + 1, n_teachers + 1)
    if (high - low) * (n_teachers + 1) <= 1:
        # Incomplete betas agree in most digits here. Quadrature integrates a polynomial that hardly bends.
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        chances = (low + high) / 2 + (high - low) / 2 * nodes
        leads = [weight * _lead(n_teachers, float(p)) for p, weight in zip(chances, weights, strict=True)]
        return np.sum(leads, axis=0) * ((high - low) / 2)

    def integrated(count: NDArray[np.int64]) -> NDArray[np.float64]:
        shape = (count + 1, n_teachers - count + 1)
        return (betainc(*shape, high) - betainc(*shape, low)) / (n_teachers + 1)

    return np.maximum(integrated(votes) - integrated(n_teachers - votes), 0)


def _check_histogram(probabilities: Any, weights: Any) -> None:
    if not (isinstance(probabilities, tuple) and isinstance(weights, tuple) and len(probabilities) == len(weights)):
        raise InvalidParameterError("prior probabilities and weights must be tuples of one length.")
    for p, weight in zip(probabilities, weights, strict=True):
        real_between("prior probability", p, 0, 1)
        real_between("prior weight", weight, 0, 1)
    if weights and not abs(sum(weights) - 1) < 1e-9:
        raise InvalidParameterError(f"prior weights must sum to 1; got {sum(weights):g}.")
