"""The meter of runs whose teachers hold a record by chance."""

from __future__ import annotations

import math

from dpensemble._rounding import round_up
from dpensemble.accounting.meters.prepaid import PublicNumberMeter
from dpensemble.accounting.subsampled import NEGLIGIBLE, SubsampledCost
from dpensemble.budget import Budget
from dpensemble.cost import PrivacyCost
from dpensemble.cost.privacy_cost import last_fitting
from dpensemble.errors import AccountingError

#: A number of queries that nobody asks.
ENDLESS = 2**31 - 1


class SubsampledMeter(PublicNumberMeter):
    """Charges a public number of queries for what teachers that hold a record by chance can reveal.

    Parameters
    ----------
    cost : SubsampledCost
        Of any number of answers.
    budget : Budget
        What may be spent.
    queries : int, optional
        All that will be asked; whether more would fit is then not found out.

    Attributes
    ----------
    subsampled : SubsampledCost
        Of any number of answers.
    """

    def __init__(self, cost: SubsampledCost, budget: Budget, queries: int | None = None) -> None:
        super().__init__(budget, affordable(cost, budget, queries))
        self.subsampled = cost

    @property
    def accounting(self) -> str:
        """Name and source of the analysis."""
        held = round_up(self.subsampled.held, 4)
        return (
            "worst case of the released labels, averaged over how many teachers hold a record, which any does "
            f"with probability {held:g} (advanced joint convexity: Balle, Barthe and Gaboardi 2018, Theorem 2)"
        )

    @property
    def cost(self) -> PrivacyCost:
        """Renyi curve of all admitted queries; converted it is above `spent_epsilon`."""
        return self.subsampled.renyi(self._admitted)

    def renyi_costs(self) -> tuple[PrivacyCost | None, ...] | None:
        """Return what all queries that can be admitted cost; None where some number of holders has no price."""
        if self.sure_queries == ENDLESS:
            return None
        try:
            return (self.subsampled.renyi(self.sure_queries),)
        except AccountingError:
            # Few holders may be priced where all teachers are not.
            return None

    @property
    def one_query(self) -> PrivacyCost:
        """Renyi curve of a run of one query; curves of several queries do *not* follow from it."""
        return self.subsampled.renyi(1)

    def spend_curve(self, points: int = 12) -> list[tuple[int, tuple[float, ...]]]:
        """Return numbers of queries and the epsilon of so many, up to those admitted; public."""
        return super().spend_curve(points)

    def smallest_epsilon(self) -> float:
        """Return the epsilon that one query needs, rounded up to four significant digits."""
        return round_up(self._total(1), 4)

    def _total(self, answers: int) -> float:
        return self.subsampled.epsilon(answers, self.budget.delta)


def affordable(cost: SubsampledCost, budget: Budget, queries: int | None = None) -> int:
    """Return how many answers fit a budget, of those of interest; the cost is refined on the way."""

    def fits(answers: int) -> bool:
        return cost.delta(answers, budget.epsilon, budget.delta * NEGLIGIBLE) <= budget.delta

    if cost.held <= budget.delta:
        # Even publishing the teachers fits.
        return ENDLESS if queries is None else queries
    within = last_fitting(fits, 0, 2.0, queries)
    cost.refine(math.ceil(1.2 * within) + 1, budget.epsilon, budget.delta)
    return last_fitting(fits, within, 1.06, queries)
