"""Meters: they charge for answers before the answers are drawn."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from dpensemble._rounding import round_up
from dpensemble.budget import Budget
from dpensemble.cost import PrivacyCost
from dpensemble.errors import BudgetError
from dpensemble.relations import Basis
from dpensemble.votes import Votes


class Meter(ABC):
    """Admits queries while the budget lasts and knows what they cost.

    A query is charged when it is admitted, before anything is drawn; an answer
    lost later stays paid. After the first query that does not fit, nothing more
    is admitted.

    Parameters
    ----------
    budget : Budget
        What may be spent.
    """

    #: What the resulting guarantee holds for.
    basis: Basis
    #: Name and source of the analysis, for the guarantee.
    accounting: str

    def __init__(self, budget: Budget) -> None:
        self.budget = budget

    @property
    @abstractmethod
    def sure_queries(self) -> int:
        """Number of queries that fit whatever the votes; public."""

    @property
    @abstractmethod
    def most_queries(self) -> int:
        """Number of queries beyond which none can fit whatever the votes; public."""

    @abstractmethod
    def admit(self, votes: Votes) -> int:
        """Charge for as many leading queries of the chunk as fit, and return how many."""

    @property
    @abstractmethod
    def cost(self) -> PrivacyCost:
        """Cost of all admitted queries; private if `basis` is data-dependent."""

    @property
    @abstractmethod
    def one_query(self) -> PrivacyCost:
        """Most that a single query can cost; public."""

    def require_one_query(self) -> None:
        """Refuse a budget that does not surely cover one answer.

        Raises
        ------
        BudgetError
            With the smallest epsilon that would do.
        """
        if self.sure_queries < 1:
            raise BudgetError(
                f"epsilon={self.budget.epsilon:g} at delta={self.budget.delta:g} is too small for one label; "
                f"the smallest epsilon that would do is {self.smallest_epsilon():g}, "
                "or use more teachers or a larger scale."
            )

    def smallest_epsilon(self) -> float:
        """Return the epsilon that one query needs, rounded up to four significant digits."""
        return round_up(self.one_query.epsilon(self.budget.delta), 4)


def largest_affordable(cost_of: Callable[[int], PrivacyCost], budget: Budget) -> int:
    """Return the largest amount whose cost fits a budget.

    Parameters
    ----------
    cost_of : callable
        Maps a non-negative integer amount to its cost; must not decrease.
    budget : Budget
        What may be spent.

    Returns
    -------
    int
        The amount; 0 if not even 1 fits. Its own cost was checked against the
        budget by the same code that reports the spend.

    Examples
    --------
    >>> from dpensemble.accounting import laplace_moments
    >>> largest_affordable(lambda n: laplace_moments(25.0, n), Budget(epsilon=1, delta=1e-3))
    10
    """

    def fits(amount: int) -> bool:
        return cost_of(amount).epsilon(budget.delta) <= budget.epsilon

    beyond = 1
    while fits(beyond):
        beyond *= 2
    within = beyond // 2
    while beyond - within > 1:
        middle = (within + beyond) // 2
        within, beyond = (middle, beyond) if fits(middle) else (within, middle)
    return within
