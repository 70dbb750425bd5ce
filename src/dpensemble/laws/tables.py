"""Laws without noise on counts: randomized response, and any table of probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import epsilon_of
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.laws.base import ReleaseLaw
from dpensemble.laws.sampling import least_mixing_weight


@dataclass(frozen=True, slots=True)
class RandomizedResponse(ReleaseLaw):
    """Release the class with the most votes with odds ``exp(epsilon)`` against each other class.

    Classes that tie for the most votes share its probability evenly.

    Parameters
    ----------
    epsilon : float
        Largest privacy loss of one answer, for all votes and any number of changed votes.

    Raises
    ------
    InvalidParameterError
        If `epsilon` is out of range.

    References
    ----------
    S. L. Warner, "Randomized response", JASA 1965. Kairouz, Oh and Viswanath 2014 for more than two classes.

    Examples
    --------
    >>> RandomizedResponse(epsilon=1.0).probabilities(np.array([[6, 4], [5, 5]])).round(3)
    array([[0.731, 0.269],
           [0.5  , 0.5  ]])
    """

    name: ClassVar[str] = "randomized-response"
    title: ClassVar[str] = "randomized response"
    symmetric: ClassVar[bool] = True

    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", epsilon_of(self.epsilon))

    def pure_epsilon(self, votes: int) -> float:  # noqa: ARG002
        """Return `epsilon`, for any number of changed votes."""
        return self.epsilon

    def mixing_weight(self, n_classes: int) -> float:
        """Return the weight that pays for rounding."""
        return least_mixing_weight(self.epsilon, n_classes)

    def probabilities(self, counts: NDArray[Any]) -> NDArray[np.float64]:
        """Return the probability of each class, shape (n_queries, n_classes)."""
        counts = np.asarray(counts, dtype=np.float64)
        other = np.exp(-self.epsilon) / (1 + (counts.shape[1] - 1) * np.exp(-self.epsilon))
        first = counts == counts.max(axis=1, keepdims=True)
        return other + first * ((1 - other * counts.shape[1]) / first.sum(axis=1, keepdims=True))


@dataclass(frozen=True, slots=True)
class TableLaw(ReleaseLaw):
    """Any law of two classes: row ``l`` holds the outcome probabilities when ``l`` ballots are for the second class.

    Parameters
    ----------
    table : tuple of tuples of float
        ``n_teachers + 1`` rows of probabilities that sum to 1.

    Raises
    ------
    InvalidParameterError
        If rows are not probabilities, or there are fewer than two.

    Examples
    --------
    Three teachers, never quite certain:

    >>> law = TableLaw(((0.9, 0.1), (0.6, 0.4), (0.4, 0.6), (0.1, 0.9)))
    >>> law.probabilities(np.array([[2, 1]]))
    array([[0.6, 0.4]])
    """

    title: ClassVar[str] = "table"

    table: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        widths = {len(row) for row in self.table}
        if len(self.table) < 2 or len(widths) != 1:
            raise InvalidParameterError("table must have at least two rows of one length.")
        rows = np.array(self.table, dtype=np.float64)
        if not (np.all(rows >= 0) and np.all(np.abs(rows.sum(axis=1) - 1) < 1e-12)):
            raise InvalidParameterError("table must have rows of probabilities that sum to 1.")
        # The sampler and the accounts treat rows as exact.
        rows /= rows.sum(axis=1, keepdims=True)
        object.__setattr__(self, "table", tuple(map(tuple, rows.tolist())))

    def settings(self) -> dict[str, Any]:
        """Return the law's title and its table."""
        return {"law": self.title, "table": [list(row) for row in self.table]}

    def check_ballots(self, ballots: int, n_classes: int) -> None:
        """Refuse more than two classes, and numbers of ballots for which the table lacks a count."""
        if (ballots, n_classes) != (len(self.table) - 1, 2):
            raise InvalidParameterError(
                f"law=TableLaw has {len(self.table)} rows, for two classes and {len(self.table) - 1} ballots, "
                f"but there are {n_classes} and {ballots}: give {ballots + 1} rows, or another law."
            )

    def probabilities(self, counts: NDArray[Any]) -> NDArray[np.float64]:
        """Return the row of each query, shape (n_queries, n_outcomes)."""
        counts = np.asarray(counts)
        if counts.shape[1] != 2 or np.any(counts.sum(axis=1) != len(self.table) - 1):
            raise DataError(f"a table of {len(self.table)} rows is for two classes and {len(self.table) - 1} ballots.")
        return np.array(self.table)[counts[:, 1].astype(np.int64)]
