"""What every release law provides."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray


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
