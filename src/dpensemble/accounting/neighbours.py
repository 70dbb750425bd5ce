"""What one unit can change of the votes on a query, and which tables and changes of counts an analysis must list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpensemble._arrays import Floats, Integers
from dpensemble._checks import integer_between
from dpensemble.laws import ReleaseLaw, mixed_probabilities
from dpensemble.laws.sampling import PROBABILITY_ERROR

# Tables over all counts stay within seconds and a gigabyte.
_MOST_BALLOTS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Ballots of one weight that one unit can move from any classes to any others. Public.

    Parameters
    ----------
    ballots : int
        Sum of the weights of all ballots, at most a million. When each weighs 1, this is their number.
    classes : int
        Number of declared classes.
    votes : int, default=1
        Most ballots that one unit can change.
    weight : int, default=1
        Weight of each of those ballots. Other units' ballots may have other weights.

    Raises
    ------
    InvalidParameterError
        If a number is out of range.

    Examples
    --------
    >>> Change(ballots=250, classes=2, votes=3, weight=2).moved
    6
    """

    ballots: int
    classes: int
    votes: int = 1
    weight: int = 1

    def __post_init__(self) -> None:
        integer_between("ballots", self.ballots, 1, _MOST_BALLOTS)
        integer_between("classes", self.classes, 2)
        integer_between("votes", self.votes, 1)
        integer_between("weight", self.weight, 1)
        # No more ballots of this weight fit into the sum of all.
        object.__setattr__(self, "votes", min(self.votes, max(1, self.ballots // self.weight)))

    @property
    def moved(self) -> int:
        """Weight of all ballots that can change."""
        return self.votes * self.weight


def second_class_table(law: ReleaseLaw, n_teachers: int) -> Floats:
    """Return the sampled law of two classes for 0 to `n_teachers` votes for the second class, one row each."""
    second = np.arange(n_teachers + 1)
    return mixed_probabilities(law, np.stack([n_teachers - second, second], axis=1))


def is_rising(table: Floats) -> bool:
    """Return whether there are two outcomes and the second one's chance never falls, so that far rows are worst."""
    return table.shape[1] == 2 and bool(np.all(np.diff(table[:, 1]) >= -PROBABILITY_ERROR))


def reachable_offsets(n_classes: int, votes: int, limit: int) -> Integers | None:
    """Return all changes of the counts by moving up to `votes` ballots, or None if there are more than `limit`."""
    source, target = np.nonzero(~np.eye(n_classes, dtype=bool))
    steps: NDArray[Any] = np.zeros((len(source), n_classes), dtype=np.int64)
    steps[np.arange(len(steps)), source] -= 1
    steps[np.arange(len(steps)), target] += 1
    offsets = np.zeros((1, n_classes), dtype=np.int64)
    for _ in range(votes):
        further = (offsets[:, None, :] + steps).reshape(-1, n_classes)
        offsets = np.unique(np.concatenate([offsets, further]), axis=0)
        if len(offsets) > limit + 1:
            return None
    return offsets[offsets.any(axis=1)]
