"""Queries that are answered by a noisy sum, and the descriptions of released sums."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

from dpensemble._arrays import Floats
from dpensemble.relations import Relation

Outcome = TypeVar("Outcome")


@dataclass(frozen=True, slots=True)
class ReleasedTable:
    """Released statistics for people to read. Public.

    Parameters
    ----------
    title : str
        Heading of the table.
    rows : tuple of (str, float, float)
        Label, value, and standard deviation of the noise on the value.
    """

    title: str
    rows: tuple[tuple[str, float, float], ...]


@dataclass(frozen=True, slots=True)
class ReleasedSum:
    """Description of a released sum. Public. `dataclasses.asdict` makes it JSON.

    Parameters
    ----------
    description : str
        What was released. For example, "the mean of the features".
    table : ReleasedTable, optional
        Statistics to show.
    noise : float, optional
        Standard deviation of the Gaussian noise on each entry, in sensitivities of the sum.
    """

    description: str
    table: ReleasedTable | None = None
    noise: float | None = None


class SumQuery(ABC, Generic[Outcome]):
    """One noisy sum over units: how far one unit can move the sum, and how to interpret the noisy sum.

    A new kind of released sum is one subclass. The exact sum is computed elsewhere, in one place or in parts.
    """

    @property
    @abstractmethod
    def description(self) -> str:
        """What is released, as reports print it. For example, "the mean of the features"."""

    @property
    @abstractmethod
    def unit(self) -> int:
        """Whole units in 1 of the sum."""

    @property
    @abstractmethod
    def replacing(self) -> int:
        """Most whole units by which the sum moves when a unit of weight 1 is replaced by another."""

    @property
    @abstractmethod
    def removing(self) -> int:
        """Most whole units by which the sum moves when a unit of weight 1 is added or removed."""

    def sensitivity(self, relation: Relation) -> int:
        """Return the most whole units by which neighbouring data sets can move the sum."""
        return self.removing if relation is Relation.ADD_OR_REMOVE_ONE else max(self.replacing, self.removing)

    @abstractmethod
    def read(self, sums: Floats, spread: float) -> Outcome:
        """Return the result, from noisy sums per unit of weight and the standard deviation of their noise."""

    def table(self, outcome: Outcome) -> ReleasedTable | None:  # noqa: ARG002
        """Return released statistics for people to read, or None (the default)."""
        return None
