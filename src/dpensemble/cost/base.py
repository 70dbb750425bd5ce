"""What every cost answers, whatever is known of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from dpensemble.budget import Budget

if TYPE_CHECKING:
    from dpensemble.cost.privacy_cost import PrivacyCost


class Cost(Protocol):
    """Privacy loss of releases: costs add, and ``cost * 100`` is a hundred of the same. Public."""

    def __mul__(self, count: int, /) -> Cost:
        """Return the cost of a number of the same releases."""

    def epsilon(self, delta: float) -> float:
        """Return the epsilon that holds at `delta`, rounded up; infinite if there is none."""

    def fits(self, budget: Budget) -> bool:
        """Return whether the cost stays within a budget."""

    def most(self, budget: Budget, *, limit: int | None = None) -> int:
        """Return how many of the same cost fit a budget, at most `limit`."""

    @property
    def renyi(self) -> PrivacyCost | None:
        """The cost as a Renyi curve; None where only epsilon and delta are known."""
