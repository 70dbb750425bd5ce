"""Profiles of a unit's votes, which determine what the unit could have changed and what it pays for a query.

Units whose teachers voted alike on a query cost the same there. A profile is a small integer that equal votes share.
So a query's costs are a short table over profiles and orders, and each unit only looks its own row up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpensemble._arrays import Ballots, Floats, Integers
from dpensemble.accounting.change import Change
from dpensemble.accounting.data_dependent import at_orders, largest_cost
from dpensemble.accounting.meters.published_by_record import changeable_votes
from dpensemble.accounting.worst_case.neighbours import FEW_ORDERS, move_rdp, second_class_table, shift_rdp
from dpensemble.laws import ReleaseLaw

# Profiles by unit and query, in the smallest type.
ProfileNumbers = NDArray[np.integer[Any]]


class Profiles(ABC):
    """What units of one kind, with `k` teachers each, can do to an answer."""

    #: Whether the figures are exact for the given votes rather than an upper bound.
    exact = True

    def __init__(self, law: ReleaseLaw, n_teachers: int, n_classes: int, k: int) -> None:
        self._law, self._n_teachers, self._n_classes, self._k = law, n_teachers, n_classes, k

    @abstractmethod
    def of_units(self, ballots_by_teacher: Ballots, memberships: Integers) -> ProfileNumbers:
        """Return the profile of each unit on each query, shape (n_units, n_queries). Private."""

    @abstractmethod
    def costs(self, counts: Integers) -> Floats:
        """Return each profile's cost in nats, shape (n_queries, n_profiles, n_orders), rounded up. Private."""

    @abstractmethod
    def of_added(self, ballots: Ballots) -> ProfileNumbers:
        """Return profiles that are worst for an added unit, given ballots of shape (n_queries, k, n_subsets)."""


class SecondClassVotes(Profiles):
    """Two classes: the profile is the number ``a`` of a unit's ``k`` teachers that voted for the second class.

    Whatever the unit's teachers vote instead, the votes ``l`` for that class stay within ``l - a`` and ``l + k - a``.
    """

    def of_units(self, ballots_by_teacher: Ballots, memberships: Integers) -> ProfileNumbers:
        """Count the teachers of each unit that voted for the second class."""
        small = np.min_scalar_type(self._k)
        says_second = ballots_by_teacher.astype(small)
        votes = np.zeros((len(memberships), ballots_by_teacher.shape[1]), dtype=small)
        for column in memberships.T:
            votes += says_second[column]
        return votes

    def costs(self, counts: Integers) -> Floats:
        """Price the larger of moving ``a`` votes down and ``k - a`` up, both orders of the pair."""
        table = second_class_table(self._law, self._n_teachers)
        down, up = shift_rdp(table, counts[:, 1], np.arange(self._k + 1), FEW_ORDERS)
        return np.maximum(down, up[:, ::-1])

    def of_added(self, ballots: Ballots) -> ProfileNumbers:
        """Return the fewest and the most teachers for the second class that an added unit could join."""
        # The cost of moving down rises with ``a`` and that of moving up falls, so one of the ends is worst.
        return np.stack([ballots.min(axis=2).sum(axis=1), ballots.max(axis=2).sum(axis=1)], axis=1, dtype=np.int64)


class OneBallot(Profiles):
    """One teacher a unit: the profile is the class that it voted for."""

    def of_units(self, ballots_by_teacher: Ballots, memberships: Integers) -> ProfileNumbers:
        """Look the ballot of each unit's teacher up."""
        return ballots_by_teacher[memberships[:, 0]]

    def costs(self, counts: Integers) -> Floats:
        """Price moving a ballot from each class to the class where the move reveals most."""
        return move_rdp(self._law, counts, FEW_ORDERS)

    def of_added(self, ballots: Ballots) -> ProfileNumbers:
        """Return all classes. Classes without votes cost nothing."""
        return np.tile(np.arange(self._n_classes), (len(ballots), 1))


class ChangeableVotes(Profiles):
    """Several teachers a unit and three or more classes: the profile is the number of votes that can change.

    If a unit whose teachers gave ``a_c`` votes to class ``c`` votes differently, the result equals moving at most
    ``k - min_c a_c`` ballots (Jordon et al. 2019, section 4.3). The price is the worst case over all votes.
    """

    exact = False

    def __init__(self, law: ReleaseLaw, n_teachers: int, n_classes: int, k: int) -> None:
        super().__init__(law, n_teachers, n_classes, k)
        fewest = k - k // n_classes
        self._curves = np.zeros((k + 1, len(FEW_ORDERS)))
        for votes in range(fewest, k + 1):
            change = Change(ballots=n_teachers, classes=n_classes, votes=votes)
            self._curves[votes] = at_orders(largest_cost(law, change), FEW_ORDERS)

    def of_units(self, ballots_by_teacher: Ballots, memberships: Integers) -> ProfileNumbers:
        """Count the votes that each unit can change."""
        return changeable_votes(ballots_by_teacher, memberships, self._n_classes)

    def costs(self, counts: Integers) -> Floats:
        """Return the worst case at each number of votes, the same for every query."""
        return np.broadcast_to(self._curves, (len(counts), *self._curves.shape))

    def of_added(self, ballots: Ballots) -> ProfileNumbers:
        """Return the most votes an added unit could change: in a partition it may avoid a class if any does."""
        avoiding = [(ballots != label).any(axis=2).sum(axis=1) for label in range(self._n_classes)]
        return np.max(avoiding, axis=0)[:, None]


def profiles_of(law: ReleaseLaw, n_teachers: int, n_classes: int, k: int) -> Profiles:
    """Return the kind of profiles that is exact where one is known."""
    if n_classes == 2:
        return SecondClassVotes(law, n_teachers, n_classes, k)
    return (OneBallot if k == 1 else ChangeableVotes)(law, n_teachers, n_classes, k)
