"""Report-noisy-max with Gaussian noise (GNMax)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dpensemble._checks import real_between
from dpensemble.laws.base import ReleaseLaw
from dpensemble.laws.sampling import least_mixing_weight

# Noise beyond this many sigma has probability below 1e-18.
_REACH = 9.0
_BLOCK_CELLS = 4_000_000


@dataclass(frozen=True, slots=True)
class GaussianNoisyMax(ReleaseLaw):
    """Add Gaussian noise to the votes and release the winner.

    The answer is ``argmax_c n_c + N(0, sigma**2)``.

    Parameters
    ----------
    sigma : float
        Deviation of the Gaussian noise, in votes. Larger is more private.

    Raises
    ------
    InvalidParameterError
        If `sigma` is not a number from 1e-9 to 1e12.

    References
    ----------
    N. Papernot, S. Song, I. Mironov, A. Raghunathan, K. Talwar and U. Erlingsson, "Scalable
    private learning with PATE", ICLR 2018, section 4.1 (GNMax).

    Examples
    --------
    >>> law = GaussianNoisyMax(sigma=2.0)
    >>> law.probabilities(np.array([[5, 5], [9, 1]])).round(3)
    array([[0.5  , 0.5  ],
           [0.998, 0.002]])
    """

    name: ClassVar[str] = "gnmax"
    title: ClassVar[str] = "Gaussian noisy-max"
    symmetric: ClassVar[bool] = True
    in_votes: ClassVar[tuple[str, ...]] = ("sigma",)
    # Papernot et al. 2018, table 1: sigma 40 at 250 teachers of MNIST.
    usual: ClassVar[tuple[float, ...]] = (0.16,)

    sigma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", real_between("sigma", self.sigma, 1e-9, 1e12))

    def mixing_weight(self, n_classes: int) -> float:
        """Return the weight that pays for rounding when a single ballot changes.

        At a tie a changed ballot has a loss of about ``1.1 / sigma``.
        """
        return least_mixing_weight(0.25 / self.sigma, n_classes)

    def probabilities(self, counts: NDArray[Any]) -> NDArray[np.float64]:
        """Return the probability that each class wins, shape (n_queries, n_classes)."""
        counts = np.asarray(counts, dtype=np.float64)
        ahead = (counts - counts.max(axis=1, keepdims=True)) / self.sigma
        if ahead.shape[1] == 2:
            return ndtr((ahead - ahead[:, ::-1]) / np.sqrt(2))
        block = max(1, int(_BLOCK_CELLS * _step(ahead.shape[1]) / (2 * _REACH * ahead.shape[1])))
        parts = [_winning(ahead[start : start + block]) for start in range(0, len(ahead), block)]
        return np.concatenate(parts) if parts else np.empty(ahead.shape)


def _step(n_classes: int) -> float:
    return 0.1 * min(1.0, (100 / n_classes) ** 0.5)


def _winning(ahead: NDArray[np.float64]) -> NDArray[np.float64]:
    """Integrate over the winning noisy count ``x``, in sigmas above the leader's true count."""
    # ``P(c) = integral of phi(x - a_c) prod_{j != c} Phi(x - a_j) dx``. The integrand is entire and falls off like a
    # Gaussian, so the trapezoidal rule converges faster than any power of its step. Here its error is below rounding.
    step = _step(ahead.shape[1])
    x = np.arange(-_REACH, _REACH + step / 2, step)
    # Counts are few whole numbers, so the distribution function is tabulated once for each count.
    values, place = np.unique(ahead, return_inverse=True)
    shifted = x - values[:, None]
    below = ndtr(shifted)
    # All arguments are above -9, so no factor vanishes.
    hazard = np.exp(-(shifted**2) / 2) * (step / np.sqrt(2 * np.pi)) / below
    place = place.reshape(ahead.shape)
    won: NDArray[np.float64] = np.einsum("qx,qcx->qc", below[place].prod(axis=1), hazard[place])
    return won / won.sum(axis=1, keepdims=True)
