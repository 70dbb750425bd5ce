"""Groups with a budget of their own, and the meters that charge them before anything is drawn.

The group of each record and the groups' budgets are public. Neighbouring data sets differ in one record of one
group, so each group is charged for what one of its own records can change, and for nothing else. A meter charges
for releases before the releases are drawn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from numpy.typing import NDArray

from dpensemble._checks import integer_between, real_between, round_up
from dpensemble._spending import Original
from dpensemble.cost import Conversion, Cost, PrivacyCost
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.relations import Basis
from dpensemble.votes import Votes

#: Name of the one group of a run that treats all records alike.
EVERYONE = "everyone"


@dataclass(frozen=True, slots=True)
class Group:
    """Records with one budget, and the ballots that each of them can change, or how far each can move a sum.

    Parameters
    ----------
    name : str
        Public name.
    budget : Budget
        The most that may be spent on each record of the group.
    pool : int, default=0
        For votes: number of the pool whose teachers learn from the group, from 0.
    votes : int, default=1
        For votes: how many teachers of that pool learn from one record.
    weight : float, default=1.0
        For sums: length of the group's vectors as a share of the sensitivity, from 0 to 1.

    Raises
    ------
    InvalidParameterError
        If a number is out of range.

    Examples
    --------
    >>> Group("cautious", Budget(epsilon=0.5, delta=1e-5), votes=2).votes
    2
    """

    name: str
    budget: Budget
    pool: int = 0
    votes: int = 1
    weight: float = 1.0

    def __post_init__(self) -> None:
        integer_between("pool", self.pool, 0)
        integer_between("votes", self.votes, 1)
        real_between("weight", self.weight, 0.0, 1.0)


def require_one_delta(groups: Iterable[Group]) -> tuple[Group, ...]:
    """Return the groups: at least one, with names that differ and budgets at one delta."""
    groups = tuple(groups)
    names = [group.name for group in groups]
    if not groups or len(set(names)) != len(names):
        raise InvalidParameterError(f"groups={names!r} must be at least one, with names that differ.")
    if len({group.budget.delta for group in groups}) != 1:
        raise InvalidParameterError("groups must have budgets at one delta, and only epsilons that differ.")
    return groups


class Accounting(StrEnum):
    """The analysis that prices an answer: what the label alone reveals, or the published bounds."""

    EXACT = "exact"
    PUBLISHED = "published"

    @property
    def conversion(self) -> Conversion:
        """How costs become an epsilon. The published bounds use the classical conversion."""
        return Conversion.BEST if self is Accounting.EXACT else Conversion.CLASSICAL


class BudgetMeter(Original, ABC):
    """Charges groups of records for releases, and refuses a release that some group's budget does not cover."""

    #: What the resulting guarantee holds for.
    basis: Basis = Basis.WORST_CASE
    #: Whether secrets play no part in how much is released. A run that does not fit is then refused.
    fixed_number: bool = True

    def __init__(self, groups: tuple[Group, ...]) -> None:
        self.groups = groups

    @property
    def budget(self) -> Budget:
        """The largest budget of any group."""
        return max((group.budget for group in self.groups), key=lambda budget: budget.epsilon)

    @property
    @abstractmethod
    def accounting(self) -> str:
        """Name and source of the analysis, for the guarantee."""

    @property
    @abstractmethod
    def group_epsilons(self) -> tuple[float, ...]:
        """Epsilon charged to each group, never above its own budget. Private if `basis` is data-dependent."""

    @property
    def spent_epsilon(self) -> float:
        """Largest epsilon of any group."""
        return max(self.group_epsilons)

    @property
    def charges(self) -> tuple[dict[str, Any], ...]:
        """Settings of each noisy sum that was charged. Empty for answers, which are all alike. Public."""
        return ()

    def renyi_costs(self) -> tuple[PrivacyCost | None, ...] | None:
        """Return the most that each group can be charged, as Renyi curves where curves exist. Public."""
        return None


class Meter(BudgetMeter, spends=("admit", "settle")):
    """Admits queries while the budget lasts and computes their cost.

    A query is charged when it is admitted, before anything is drawn. An answer that is lost later stays charged. After
    the first query that does not fit, nothing more is admitted.

    Parameters
    ----------
    groups : tuple of Group
        Whose records, and their budgets at one delta.
    conversion : Conversion
        How the cost becomes an epsilon.
    """

    def __init__(self, groups: tuple[Group, ...], conversion: Conversion) -> None:
        super().__init__(groups)
        self.conversion = conversion

    @property
    @abstractmethod
    def sure_queries(self) -> int:
        """Number of queries that fit for every possible table of votes. Public."""

    @property
    @abstractmethod
    def most_queries(self) -> int:
        """Number of queries that no table of votes can exceed. Public."""

    @abstractmethod
    def admit(self, votes: Votes) -> int:
        """Charge for as many leading queries of the chunk as fit, and return how many."""

    def next_chunk(self, asked: int) -> int:
        """Return how many queries to ask next. Public."""
        # The first queries surely fit. Later chunks are small, since votes beyond the budget are wasted.
        return self.sure_queries - asked if asked < self.sure_queries else self.sure_queries // 4

    def settle(self, outcomes: NDArray[Any], n_classes: int) -> None:
        """Record the outcomes of the queries just admitted, for meters whose cost depends on outcomes."""

    @property
    @abstractmethod
    def cost(self) -> Cost:
        """Cost of all admitted queries. Private if `basis` is data-dependent."""

    @property
    @abstractmethod
    def one_query(self) -> Cost:
        """The most that a single query can cost. Public."""

    @property
    def charged_epsilon(self) -> float:
        """Epsilon charged so far, for the owner of the data only. The guarantee states `spent_epsilon`."""
        return self.spent_epsilon

    def spend_curve(self, points: int = 40) -> list[tuple[int, tuple[float, ...]]] | None:
        """Return numbers of admitted queries and the epsilons that each group was charged for them.

        Parameters
        ----------
        points : int, default=40
            Largest number of points.

        Returns
        -------
        list of (int, tuple of float) or None
            Ascending. The last one is the current spend. None where the spend is secret.
        """
        integer_between("points", points, 1)
        return None

    def require_one_query(self) -> None:
        """Refuse a budget that does not surely cover one answer.

        Raises
        ------
        BudgetError
            If the budget is too small. The message names the smallest epsilon that suffices.
        """
        if self.sure_queries < 1:
            raise BudgetError(
                f"epsilon={self.budget.epsilon:g} at delta={self.budget.delta:g} is too small for one label; "
                f"the smallest epsilon that would do is {self.smallest_epsilon():g}, "
                "or use more teachers or more noise."
            )

    def smallest_epsilon(self) -> float:
        """Return the epsilon that one query needs, rounded up to four significant digits."""
        return round_up(self.one_query.epsilon(self.budget.delta, self.conversion), 4)

    def _fixed(self, admitted: int, asked: int) -> int:
        """Return how many queries the votes admit. If the number is fixed, return all of them or refuse."""
        if self.fixed_number and admitted < asked:
            raise BudgetError(
                f"the labels asked for cost more than epsilon={self.budget.epsilon:g} on these records, so nothing was "
                "released: ask for fewer (max_labels), a larger epsilon, or analysis='until-spent', whose stopping "
                "time is not covered."
            )
        return admitted
