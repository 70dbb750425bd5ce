"""What every release law provides."""

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import real_between
from dpensemble.errors import InvalidParameterError


class ReleaseLaw(ABC):
    """A randomised answer to one query, as a probability vector.

    A law is a frozen value: its settings are public, and the counts are
    arguments. The same probabilities are sampled (`dpensemble.laws.sample`)
    and accounted (`dpensemble.accounting`), so the two cannot drift apart.
    """

    @abstractmethod
    def probabilities(self, counts: NDArray[Any]) -> NDArray[np.float64]:
        """Return the probability of each outcome.

        Parameters
        ----------
        counts : ndarray of shape (n_queries, n_classes)
            Votes for each class; weighted counts may be real, if one ballot
            never weighs less than 1. Private.

        Returns
        -------
        ndarray of shape (n_queries, n_outcomes)
            Rows sum to 1 up to rounding; absolute error at most 1e-14 an entry.
        """

    @abstractmethod
    def mixing_weight(self, n_classes: int) -> float:
        """Return the weight of the uniform law that the sampler mixes in.

        It must be large enough to pay for the rounding of `probabilities`; see
        `dpensemble.laws.sampling`.
        """

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return the law's name and public settings as plain values."""

    def scaled(self, factor: float) -> Self:
        """Return the law that answers counts which are `factor` times as large in the same way.

        Parameters
        ----------
        factor : float
            Counts in new units per count in old ones; from 1e-12 to 1e12.

        Returns
        -------
        ReleaseLaw
            Of the same type; ``law.scaled(f).probabilities(f * counts)`` is ``law.probabilities(counts)``.

        Raises
        ------
        InvalidParameterError
            If `factor` is out of range, or the law has no noise and no threshold on counts.

        Examples
        --------
        >>> from dpensemble.laws import ConfidentNoisyMax
        >>> ConfidentNoisyMax(threshold=200, threshold_sigma=150, sigma=40).scaled(0.5)
        ConfidentNoisyMax(threshold=100.0, threshold_sigma=75.0, sigma=20.0)
        """
        return self._scaled(real_between("factor", factor, 1e-12, 1e12))

    def _scaled(self, factor: float) -> Self:  # noqa: ARG002
        raise InvalidParameterError(
            f"law={type(self).__name__} cannot be scaled; LaplaceNoisyMax, OptimalVote, GaussianNoisyMax, "
            "ConfidentNoisyMax and InteractiveNoisyMax can."
        )
