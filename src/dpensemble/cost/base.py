"""The interface of every cost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import StrEnum
from typing import Any

from dpensemble.budget import Budget
from dpensemble.cost.searching import last_fitting


class Conversion(StrEnum):
    """How a cost becomes an epsilon at a delta."""

    BEST = "best"
    EXACT = "exact adaptive composition"
    IMPROVED = "improved Renyi conversion"
    CLASSICAL = "classical Renyi conversion"
    PLD = "privacy loss distribution"


class Cost(ABC):
    """Privacy loss of releases. Costs add, and ``cost * 100`` is the cost of a hundred equal releases. Public."""

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        """Return the cost of both, if their kinds can be added."""
        return NotImplemented

    @abstractmethod
    def __mul__(self, count: int) -> Cost:
        """Return the cost of a number of equal releases."""

    @abstractmethod
    def epsilon(self, delta: float, conversion: str = Conversion.BEST) -> float:
        """Return the epsilon that holds at `delta`, rounded up, or infinity if no epsilon does.

        Parameters
        ----------
        delta : float
            Strictly between 0 and 1.
        conversion : Conversion or str, default="best"
            For a `PrivacyCost`. Other costs support one analysis only.
        """

    def fits(self, budget: Budget, conversion: str = Conversion.BEST) -> bool:
        """Return whether the cost stays within a budget."""
        return self.epsilon(budget.delta, conversion) <= budget.epsilon

    def most(self, budget: Budget, conversion: str = Conversion.BEST, limit: int | None = None) -> int:
        """Return how many equal costs fit a budget, at most `limit`."""
        return last_fitting(lambda count: (self * count).fits(budget, conversion), 0, 2.0, limit)

    @property
    def parts(self) -> tuple[Any, ...] | None:
        """The same releases as dominating pairs, or None where pairs are unknown."""
        return None

    @property
    def renyi(self) -> Any:
        """The cost as a `PrivacyCost` with a Renyi curve, or None where only epsilon and delta are known."""
        return None
