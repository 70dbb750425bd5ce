"""The meter of runs whose teachers hold a record by chance."""

from __future__ import annotations

import math

import numpy as np

from dpensemble._rounding import round_up
from dpensemble.accounting.base import Meter
from dpensemble.accounting.subsampled import NEGLIGIBLE, SubsampledCost
from dpensemble.budget import Budget
from dpensemble.cost import Conversion, PrivacyCost
from dpensemble.cost.privacy_cost import last_fitting
from dpensemble.relations import Basis
from dpensemble.votes import Votes

#: A number of queries that nobody asks.
ENDLESS = 2**31 - 1


class SubsampledMeter(Meter):
    """Charges a public number of queries for what teachers that hold a record by chance can betray.

    Parameters
    ----------
    cost : SubsampledCost
        Of any number of answers.
    budget : Budget
        What may be spent.

    Attributes
    ----------
    subsampled : SubsampledCost
        Of any number of answers.
    """

    basis = Basis.WORST_CASE
    additive = False

    def __init__(self, cost: SubsampledCost, budget: Budget) -> None:
        super().__init__(budget, Conversion.BEST)
        self.subsampled = cost
        self._admitted = 0
        self._affordable = affordable(cost, budget)

    @property
    def accounting(self) -> str:
        """Name and source of the analysis."""
        held = round_up(self.subsampled.held, 4)
        return (
            "worst case of the released labels, averaged over how many teachers hold a record, which any does "
            f"with probability {held:g} (advanced joint convexity: Balle, Barthe and Gaboardi 2018, Theorem 2)"
        )

    @property
    def sure_queries(self) -> int:
        """Number of queries that fit the budget."""
        return self._affordable

    @property
    def most_queries(self) -> int:
        """The same number: the votes play no part."""
        return self._affordable

    def admit(self, votes: Votes) -> int:
        """Charge for the leading queries that fit."""
        admitted = min(votes.n_queries, self._affordable - self._admitted)
        self._admitted += admitted
        return admitted

    @property
    def cost(self) -> PrivacyCost:
        """Renyi curve of all admitted queries; converted it is above `spent_epsilon`."""
        return self.subsampled.renyi(self._admitted)

    @property
    def one_query(self) -> PrivacyCost:
        """Renyi curve of a run of one query; curves of several queries do *not* follow from it."""
        return self.subsampled.renyi(1)

    @property
    def spent_epsilon(self) -> float:
        """Epsilon of all admitted queries together."""
        return min(self.budget.epsilon, self.subsampled.epsilon(self._admitted, self.budget.delta))

    @property
    def public_spend(self) -> list[tuple[int, float]]:
        """Queries and the epsilon of so many, up to those admitted."""
        if not self._admitted:
            return []
        counts = np.unique(np.linspace(1, self._admitted, min(12, self._admitted)).astype(int)).tolist()
        return [(n, min(self.budget.epsilon, self.subsampled.epsilon(n, self.budget.delta))) for n in counts]

    def smallest_epsilon(self) -> float:
        """Return the epsilon that one query needs, rounded up to four significant digits."""
        return round_up(self.subsampled.epsilon(1, self.budget.delta), 4)


def affordable(cost: SubsampledCost, budget: Budget) -> int:
    """Return how many answers fit a budget; the cost is refined on the way.

    Parameters
    ----------
    cost : SubsampledCost
        Of any number of answers.
    budget : Budget
        What may be spent.
    """

    def fits(answers: int) -> bool:
        return cost.delta(answers, budget.epsilon, budget.delta * NEGLIGIBLE) <= budget.delta

    if cost.held <= budget.delta:
        # Even publishing the teachers fits.
        return ENDLESS
    within = last_fitting(fits, 0, 2.0)
    cost.refine(math.ceil(1.2 * within) + 1, budget.epsilon, budget.delta)
    return last_fitting(fits, within, 1.06)
