"""Report-noisy-max: add noise to every count and release the class with the largest noisy count.

The noise is Laplace, Gaussian (GNMax) or, under the exponential mechanism, Gumbel.

Gated laws answer only when the teachers agree, or when they contradict the student.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from dpensemble._checks import integer_between, real_between
from dpensemble._entries import Floats
from dpensemble.errors import DataError, SettingWarning
from dpensemble.laws.base import ReleaseLaw
from dpensemble.laws.sampling import least_mixing_weight, mixed_probabilities

# A class trailing by this many scales wins with probability below 1e-17.
_NEGLIGIBLE_GAP = 40.0
_PIECE = 2.0
_BLOCK_CELLS = 4_000_000


@dataclass(frozen=True, slots=True)
class LaplaceNoisyMax(ReleaseLaw):
    """Add Laplace noise to the votes and release the winner.

    The answer is ``argmax_c n_c + Lap(scale)``.

    Parameters
    ----------
    scale : float
        Scale of the Laplace noise, in votes. It is ``n_partitions / lambda`` in the
        notation of the DPBag paper. Larger is more private.

    Raises
    ------
    InvalidParameterError
        If `scale` is not a number from 1e-9 to 1e12.

    References
    ----------
    Jordon et al. 2019, section 4, equation for the noisy classification. C. Dwork and A. Roth, "The algorithmic
    foundations of differential privacy" (2014), section 3.3.

    Examples
    --------
    >>> law = LaplaceNoisyMax(scale=2.0)
    >>> law.probabilities(np.array([[5, 5], [9, 1]])).round(3)
    array([[0.5  , 0.5  ],
           [0.973, 0.027]])
    """

    name: ClassVar[str] = "lnmax"
    title: ClassVar[str] = "Laplace noisy-max"
    symmetric: ClassVar[bool] = True
    in_votes: ClassVar[tuple[str, ...]] = ("scale",)
    # Papernot et al. 2017: gamma 0.05 at 250 teachers, a scale of 20 votes.
    usual: ClassVar[tuple[float, ...]] = (0.08,)

    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", real_between("scale", self.scale, 1e-9, 1e12))

    def pure_epsilon(self, votes: int) -> float:
        """Return ``2 votes / scale``: moved ballots change the counts by twice their number in the L1 norm."""
        return 2 * votes / self.scale

    def mixing_weight(self, n_classes: int) -> float:
        """Return the weight that pays for rounding when a single ballot changes.

        A changed ballot moves two counts by one vote, so the smallest loss that is ever accounted is ``2 / scale``.
        """
        return least_mixing_weight(2 / self.scale, n_classes)

    def probabilities(self, counts: NDArray[Any]) -> Floats:
        """Return the probability that each class wins, shape (n_queries, n_classes)."""
        counts = np.asarray(counts, dtype=np.float64)
        gaps = (counts.max(axis=1, keepdims=True) - counts) / self.scale
        if gaps.shape[1] == 2:
            return _two_classes(gaps)
        block = max(1, _BLOCK_CELLS // (_n_nodes(gaps.shape[1]) * gaps.shape[1] ** 2))
        parts = [_many_classes(gaps[start : start + block]) for start in range(0, len(gaps), block)]
        return np.concatenate(parts) if parts else np.empty(gaps.shape)


def _two_classes(gaps: Floats) -> Floats:
    """Integrate the difference of two Laplace variables in closed form."""
    gap = gaps.max(axis=1)
    trailing = (2 + gap) * np.exp(-gap) / 4
    probabilities = np.stack([1 - trailing, trailing], axis=1)
    leader_is_second = gaps[:, 0] > gaps[:, 1]
    probabilities[leader_is_second] = probabilities[leader_is_second, ::-1]
    return probabilities


def _n_nodes(n_classes: int) -> int:
    return 24 + 2 * n_classes


def _many_classes(gaps: Floats) -> Floats:
    """Integrate over the winning noisy count by Gauss-Legendre quadrature."""
    # With ``y`` the winning noisy count in scales above the leader's true count, ``P(c) = integral of f(y + gap_c)
    # prod_{j != c} F(y + gap_j) dy``. Between two neighbouring true counts the integrand is a sum of exponentials,
    # which the rule integrates to rounding. Above the leader it is a polynomial in ``t = exp(-y)``, integrated exactly.
    n_queries, n_classes = gaps.shape
    nodes, node_weights = np.polynomial.legendre.leggauss(_n_nodes(n_classes))
    nodes, node_weights = (nodes + 1) / 2, node_weights / 2

    probabilities = _integrate(
        gaps, -np.log(nodes)[None, :], np.broadcast_to(node_weights / nodes, (n_queries, nodes.size))
    )
    edges = -np.sort(np.minimum(gaps, _NEGLIGIBLE_GAP), axis=1)
    for upper, lower in zip(edges[:, :-1].T, edges[:, 1:].T, strict=True):
        probabilities += _integrate_between(gaps, lower, upper, nodes, node_weights)
    # Below the last true count every factor is an exponential, so all classes share one closed form.
    tail = 0.5**n_classes / n_classes * np.exp(np.sum(gaps - gaps.max(axis=1, keepdims=True), axis=1))
    probabilities += np.where(gaps.max(axis=1) < _NEGLIGIBLE_GAP, tail, 0.0)[:, None]
    return probabilities / probabilities.sum(axis=1, keepdims=True)


def _integrate_between(gaps: Floats, lower: Floats, upper: Floats, nodes: Floats, node_weights: Floats) -> Floats:
    total = np.zeros_like(gaps)
    pieces = np.ceil((upper - lower) / _PIECE).astype(np.int64)
    # Queries are grouped by their number of pieces. Queries whose counts are equal here have none.
    for n_pieces in np.unique(pieces[pieces > 0]).tolist():
        rows = pieces == n_pieces
        width = (upper - lower)[rows, None] / n_pieces
        for piece in range(n_pieces):
            points = lower[rows, None] + width * (piece + nodes[None, :])
            total[rows] += _integrate(gaps[rows], points, width * node_weights)
    return total


def _integrate(gaps: Floats, points: Floats, weights: Floats) -> Floats:
    """Sum ``weights * f(points + gap_c) * prod_{j != c} F(points + gap_j)`` over the points."""
    shifted = points[:, :, None] + gaps[:, None, :]
    tail = np.exp(-np.abs(shifted)) / 2
    below = np.where(shifted > 0, 1 - tail, tail)
    # The Laplace density equals its own tail, so the integrand is (product of all F) * tail_c / F_c.
    with np.errstate(under="ignore"):
        product = np.prod(below, axis=2, keepdims=True)
        total: Floats = np.einsum("qp,qpc->qc", weights, product * (tail / below))
    return total


# Noise beyond this many sigma has probability below 1e-18.
_REACH = 9.0


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


@dataclass(frozen=True, slots=True)
class GaussianGate:
    """A noisy threshold in votes: pass if ``statistic + N(0, sigma**2) >= threshold``.

    Examples
    --------
    >>> GaussianGate(threshold=200, sigma=50).passing(np.array([200.0, 250.0])).round(3)
    array([0.5  , 0.841])
    """

    threshold: float
    sigma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "threshold", real_between("threshold", self.threshold, -1e12, 1e12))
        object.__setattr__(self, "sigma", real_between("threshold_sigma", self.sigma, 1e-9, 1e12))

    def passing(self, statistic: ArrayLike) -> NDArray[np.float64]:
        """Return the probability of passing for each value of the statistic."""
        return ndtr((np.asarray(statistic, dtype=np.float64) - self.threshold) / self.sigma)


@dataclass(frozen=True, slots=True)
class ConfidentNoisyMax(ReleaseLaw):
    """Answer by Gaussian noisy-max if the highest count passes a noisy threshold (Confident-GNMax).

    The outcome after the last class is "no answer". That outcome is released and paid for, too.

    Parameters
    ----------
    threshold : float
        Threshold on the highest count, in votes. Far above the number of teachers, no query is ever answered.
    threshold_sigma : float
        Deviation of the noise on the check, in votes.
    sigma : float
        Deviation of answers' noise, in votes.

    References
    ----------
    Papernot et al. 2018, Algorithm 1.

    Examples
    --------
    >>> law = ConfidentNoisyMax(threshold=8, threshold_sigma=1, sigma=2)
    >>> law.probabilities(np.array([[9, 1], [5, 5]])).round(3)
    array([[0.839, 0.002, 0.159],
           [0.001, 0.001, 0.999]])
    """

    name: ClassVar[str] = "confident-gnmax"
    title: ClassVar[str] = "confident Gaussian noisy-max"
    symmetric: ClassVar[bool] = True
    in_votes: ClassVar[tuple[str, ...]] = ("sigma", "threshold_sigma", "threshold")
    # Papernot et al. 2018, MNIST at 250 teachers: sigma 40, threshold 200 with sigma 150.
    usual: ClassVar[tuple[float, ...]] = (0.16, 0.6, 0.8)
    gated: ClassVar[bool] = True

    threshold: float
    threshold_sigma: float
    sigma: float

    def __post_init__(self) -> None:
        gate = GaussianGate(self.threshold, self.threshold_sigma)
        object.__setattr__(self, "threshold", gate.threshold)
        object.__setattr__(self, "threshold_sigma", gate.sigma)
        object.__setattr__(self, "sigma", self.answer.sigma)

    @property
    def gate(self) -> GaussianGate:
        """The threshold check."""
        return GaussianGate(self.threshold, self.threshold_sigma)

    @property
    def answer(self) -> GaussianNoisyMax:
        """The law of the answer once the check is passed."""
        return GaussianNoisyMax(self.sigma)

    def with_noise(self, noise: float) -> Self:
        """Return the law with other noise on the answer and, in proportion, on the check."""
        return replace(self, sigma=noise, threshold_sigma=self.threshold_sigma / self.sigma * noise)

    def check_ballots(self, ballots: int, n_classes: int) -> None:  # noqa: ARG002
        """Warn if even all ballots together do not reach the threshold."""
        if self.threshold > ballots:
            warnings.warn(
                f"threshold={self.threshold:g} is above the number of teachers, {ballots}, so only noise lets a "
                "query pass: use a threshold of fewer votes.",
                SettingWarning,
                stacklevel=2,
            )

    def mixing_weight(self, n_classes: int) -> float:
        """Return the weight that pays for rounding when a single ballot changes."""
        return least_mixing_weight(0.25 / max(self.sigma, self.threshold_sigma), n_classes + 1)

    def probabilities(self, counts: NDArray[Any]) -> NDArray[np.float64]:
        """Return the probability of each class and of no answer, shape (n_queries, n_classes + 1)."""
        return _gated(self, counts, np.max(counts, axis=1, initial=0))


@dataclass(frozen=True, slots=True)
class InteractiveNoisyMax(ConfidentNoisyMax):
    """Answer by Gaussian noisy-max if the teachers seem to contradict the student (Interactive-GNMax).

    The threshold is on ``max_c (n_c - n_teachers * p_c)`` with the student's current class probabilities ``p``, which
    are public. `against` binds them. Until the first student exists (``p = 0``), the law is that of
    `ConfidentNoisyMax`.

    Parameters
    ----------
    threshold, threshold_sigma, sigma : float
        As for `ConfidentNoisyMax`. The threshold is on the surplus of votes over the student's expectation.
    batch_size : int, default=100
        Public number of queries between two fits of the student.
    student_confidence : float, default=0.9
        Least probability to keep a student's label, when the teachers gave none.

    References
    ----------
    Papernot et al. 2018, Algorithm 2.

    Examples
    --------
    >>> law = InteractiveNoisyMax(threshold=8, threshold_sigma=1, sigma=2)
    >>> law.against([[0.9, 0.1], [0.1, 0.9]]).probabilities(np.array([[9, 1], [9, 1]])).round(3)
    array([[0.   , 0.   , 1.   ],
           [0.499, 0.001, 0.5  ]])
    """

    name: ClassVar[str] = "interactive-gnmax"
    title: ClassVar[str] = "interactive Gaussian noisy-max"
    needs_student: ClassVar[bool] = True

    batch_size: int = 100
    student_confidence: float = 0.9

    def __post_init__(self) -> None:
        ConfidentNoisyMax.__post_init__(self)
        integer_between("batch_size", self.batch_size, 1)
        object.__setattr__(
            self, "student_confidence", real_between("student_confidence", self.student_confidence, 0.0, 1.0)
        )

    def against(self, predictions: ArrayLike) -> AgainstStudent:
        """Return the law for queries whose student probabilities are `predictions`.

        Parameters
        ----------
        predictions : array-like of shape (n_queries, n_classes)
            Public.
        """
        return AgainstStudent(self, tuple(map(tuple, np.asarray(predictions, dtype=np.float64).tolist())))


@dataclass(frozen=True, slots=True)
class AgainstStudent(ReleaseLaw):
    """An `InteractiveNoisyMax` for given queries, with the student's public class probabilities, one row a query."""

    title: ClassVar[str] = InteractiveNoisyMax.title
    gated: ClassVar[bool] = True
    needs_student: ClassVar[bool] = True

    law: InteractiveNoisyMax
    predictions: tuple[tuple[float, ...], ...]

    @property
    def gate(self) -> GaussianGate:
        """The threshold check of the law."""
        return self.law.gate

    @property
    def answer(self) -> GaussianNoisyMax:
        """The law of the answer once the check is passed."""
        return self.law.answer

    def settings(self) -> dict[str, Any]:
        """Return the settings of the law."""
        return self.law.settings()

    def mixing_weight(self, n_classes: int) -> float:
        """Return the mixing weight of the law."""
        return self.law.mixing_weight(n_classes)

    def probabilities(self, counts: NDArray[Any]) -> NDArray[np.float64]:
        """Return the probability of each class and of no answer, shape (n_queries, n_classes + 1)."""
        counts = np.asarray(counts, dtype=np.float64)
        predictions = np.array(self.predictions).reshape(-1, counts.shape[1])
        # Students round, so a value this close to a probability counts as one.
        if len(predictions) != len(counts) or not np.all((predictions >= -1e-9) & (predictions <= 1 + 1e-9)):
            raise DataError("predictions must be probabilities, one row per query and one column per class.")
        surplus = counts - counts.sum(axis=1, keepdims=True) * np.clip(predictions, 0, 1)
        return _gated(self.law, counts, np.max(surplus, axis=1, initial=-np.inf))


def _gated(law: ConfidentNoisyMax, counts: NDArray[Any], statistic: NDArray[np.float64]) -> NDArray[np.float64]:
    # The label is the mixed one, so that label and check can be priced separately.
    passing = law.gate.passing(statistic)[:, None]
    return np.hstack([passing * mixed_probabilities(law.answer, counts), 1 - passing])
