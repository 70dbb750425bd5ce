"""Gated noisy-max: answer only when the teachers agree, or when they contradict the student."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from dpensemble._checks import integer_between, real_between
from dpensemble.errors import DataError, SettingWarning
from dpensemble.laws.base import ReleaseLaw
from dpensemble.laws.noisy_max import GaussianNoisyMax
from dpensemble.laws.sampling import least_mixing_weight, mixed_probabilities


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
