"""The teachers' answers. They are private, and never shown or logged."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import integer_between
from dpensemble.errors import DataError


def ballot_dtype(n_classes: int) -> np.dtype[np.unsignedinteger]:
    """Return the smallest unsigned integer type that holds class ids below `n_classes`."""
    return np.dtype(np.min_scalar_type(n_classes - 1))


@dataclass(frozen=True, eq=False, repr=False)
class Votes:
    """Ballots of all teachers on a chunk of queries. They are private, so the ``repr`` shows only the shape.

    `ballots` of shape (n_queries, n_teachers) are class ids. They are stored in the smallest unsigned type and
    column-major, so that one teacher's votes are adjacent.
    """

    ballots: NDArray[np.unsignedinteger]
    n_classes: int

    def __post_init__(self) -> None:
        integer_between("n_classes", self.n_classes, 2)
        ballots = np.asarray(self.ballots)
        if ballots.ndim != 2 or ballots.dtype.kind not in "iu":
            raise DataError("ballots must be a two-dimensional array of class ids.")
        if ballots.size and (ballots.min() < 0 or ballots.max() >= self.n_classes):
            raise DataError(f"ballots must be class ids in 0..{self.n_classes - 1}.")
        object.__setattr__(self, "ballots", np.asfortranarray(ballots, dtype=ballot_dtype(self.n_classes)))

    def __repr__(self) -> str:
        return f"Votes(n_queries={self.n_queries}, n_teachers={self.n_teachers}, n_classes={self.n_classes})"

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return int(self.ballots.shape[0])

    @property
    def n_teachers(self) -> int:
        """Number of teachers."""
        return int(self.ballots.shape[1])

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Number of teachers voting for each class, shape (n_queries, n_classes)."""
        counts = np.empty((self.n_queries, self.n_classes), dtype=np.int64)
        for label in range(self.n_classes - 1):
            counts[:, label] = np.count_nonzero(self.ballots == label, axis=1)
        counts[:, -1] = self.n_teachers - counts[:, :-1].sum(axis=1)
        return counts

    def weighted_counts(self, ballots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sum of the teachers' weights `ballots` (whole numbers, 0: no ballot) for each class. Private."""
        counts = np.empty((self.n_queries, self.n_classes), dtype=np.int64)
        for label in range(self.n_classes - 1):
            counts[:, label] = np.sum(ballots, axis=1, where=self.ballots == label)
        counts[:, -1] = ballots.sum(axis=1) - counts[:, :-1].sum(axis=1)
        return counts
