"""Worst-case meters: the votes play no part in what they admit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpensemble.accounting.base import Accounting, Meter
from dpensemble.accounting.gates import GatedCost, gated_cost, published_gated_cost
from dpensemble.accounting.moments import published_cost
from dpensemble.accounting.worst_case import worst_case_cost
from dpensemble.budget import Budget
from dpensemble.cost import DEFAULT_ORDERS, Conversion, PrivacyCost, largest_count
from dpensemble.cost.conversion import classical_epsilon, improved_epsilon
from dpensemble.laws import ConfidentNoisyMax, LaplaceNoisyMax, ReleaseLaw
from dpensemble.relations import Basis
from dpensemble.votes import Votes


def worst_case_meter(
    law: ReleaseLaw,
    *,
    n_teachers: int,
    n_classes: int,
    votes_per_unit: int,
    budget: Budget,
    accounting: Accounting = Accounting.EXACT,
    ballot_weight: int = 1,
) -> Meter:
    """Return the data-independent meter of a law.

    Parameters
    ----------
    law : ReleaseLaw
        The law that answers.
    n_teachers, n_classes : int
        Sum of the ballots' weights (their number if each weighs 1), and number of declared classes.
    votes_per_unit : int
        Most ballots that one unit can change.
    budget : Budget
        What may be spent.
    accounting : Accounting, default="exact"
        What the label alone reveals, or the published bound.
    ballot_weight : int, default=1
        Weight of each ballot that one unit can change.

    Returns
    -------
    Meter
        `FilterMeter` for gated laws, else `WorstCaseMeter`.

    Examples
    --------
    >>> settings = dict(n_teachers=250, n_classes=2, votes_per_unit=1, budget=Budget(epsilon=1, delta=1e-5))
    >>> worst_case_meter(LaplaceNoisyMax(125), **settings, accounting=Accounting.PUBLISHED).sure_queries
    162
    """
    exact = accounting is Accounting.EXACT
    change = {"votes_per_unit": votes_per_unit, "ballot_weight": ballot_weight}
    reach = {"n_teachers": n_teachers, "n_classes": n_classes} | change
    if isinstance(law, ConfidentNoisyMax):
        gated = gated_cost(law, **reach) if exact else published_gated_cost(law, **change)
        return FilterMeter(gated, budget, accounting)
    one = worst_case_cost(law, **reach) if exact else published_cost(law, **change)
    source = (
        "Jordon et al. 2019, Theorems 1 and 3"
        if isinstance(law, LaplaceNoisyMax)
        else "Papernot et al. 2018, Proposition 8"
    )
    return WorstCaseMeter(one, budget, accounting, source)


class WorstCaseMeter(Meter):
    """Charges every query the most that it could cost.

    Parameters
    ----------
    one : PrivacyCost
        Largest cost of one answer.
    budget : Budget
        What may be spent.
    accounting : Accounting, default="exact"
        Where the cost comes from.
    source : str
        Paper and theorem of a published cost.
    """

    basis = Basis.WORST_CASE

    def __init__(
        self, one: PrivacyCost, budget: Budget, accounting: Accounting = Accounting.EXACT, source: str = ""
    ) -> None:
        super().__init__(budget, accounting.conversion)
        self._one, self._accounting, self._source = one, accounting, source
        self._admitted = 0
        self._affordable = largest_count(one, budget.epsilon, budget.delta, self.conversion)

    @property
    def accounting(self) -> str:
        """Name and source of the analysis."""
        if self._accounting is Accounting.PUBLISHED:
            return f"moments accountant, data-independent ({self._source})"
        _, conversion = self.cost.best(self.budget.delta)
        return f"exact worst case of the released labels over all votes, by {conversion.value}"

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
        """Cost of all admitted queries; public."""
        return self._one * self._admitted

    @property
    def one_query(self) -> PrivacyCost:
        """Cost of one query."""
        return self._one


class FilterMeter(Meter):
    """Charges a gated query for its check, and for its label only once one was given.

    Which queries pass is released, so the number of labels is a random,
    public quantity. A Renyi filter at one order, fixed beforehand, allows stopping on it: every query is
    charged in full when it is admitted, and what an unanswered one did not use is given back.

    Parameters
    ----------
    gated : GatedCost
        Largest cost of a check and of a label.
    budget : Budget
        What may be spent.
    accounting : Accounting, default="exact"
        Where the costs come from.

    References
    ----------
    V. Feldman and T. Zrnic, "Individual privacy accounting via a Renyi filter", NeurIPS 2021, Theorem 3.1
    (fully adaptive composition at one order).
    """

    basis = Basis.WORST_CASE

    def __init__(self, gated: GatedCost, budget: Budget, accounting: Accounting = Accounting.EXACT) -> None:
        conversion = Conversion.IMPROVED if accounting is Accounting.EXACT else accounting.conversion
        super().__init__(budget, conversion)
        self._gated, self._accounting = gated, accounting
        self._order = best_order(gated.check + gated.label, budget, conversion)
        at = int(np.searchsorted(DEFAULT_ORDERS, self._order))
        self._check, self._label = float(gated.check.rdp[at]), float(gated.label.rdp[at])
        self._allowed = allowance(self._order, budget, conversion)
        self._checks = self._labels = 0
        self._history: list[tuple[int, float]] = []

    @property
    def accounting(self) -> str:
        """Name and source of the analysis."""
        kind = "exact worst case of" if self._accounting is Accounting.EXACT else "published cost of"
        return (
            f"{kind} threshold checks and released labels over all votes, by a Renyi filter at order "
            f"{self._order:g} (Feldman and Zrnic 2021, Theorem 3.1)"
        )

    @property
    def sure_queries(self) -> int:
        """Number of queries that fit if every one is answered."""
        return int(self._allowed / (self._check + self._label))

    @property
    def most_queries(self) -> int:
        """Number of queries that fit if none is answered."""
        return int(self._allowed / self._check)

    def admit(self, votes: Votes) -> int:
        """Charge check and label of the leading queries that fit even if all are answered."""
        admitted = min(votes.n_queries, self.next_chunk(self._checks))
        self._checks += admitted
        self._labels += admitted
        return admitted

    def next_chunk(self, asked: int) -> int:  # noqa: ARG002
        """Return how many queries fit now even if all are answered."""
        left = self._allowed - self._checks * self._check - self._labels * self._label
        return max(0, int(left / (self._check + self._label)))

    def settle(self, outcomes: NDArray[Any], n_classes: int) -> None:
        """Give back what the unanswered of the queries just admitted did not use."""
        self._labels -= int(np.count_nonzero(outcomes == n_classes))
        if self._checks:
            self._history.append((self._checks, self.charged_epsilon))

    @property
    def public_spend(self) -> list[tuple[int, float]]:
        """Questions asked so far and the epsilon charged for their checks and labels, after each chunk."""
        return list(self._history)

    @property
    def cost(self) -> PrivacyCost:
        """Cost of all admitted queries at the filter's order; public."""
        spent = self._gated.check * self._checks + self._gated.label * self._labels
        at = int(np.searchsorted(DEFAULT_ORDERS, self._order))
        return PrivacyCost(rdp=spent.rdp[at : at + 1], orders=spent.orders[at : at + 1])

    @property
    def one_query(self) -> PrivacyCost:
        """Cost of a query that is answered."""
        return self._gated.check + self._gated.label

    @property
    def spent_epsilon(self) -> float:
        """The budget, once anything was asked: a filter's guarantee is for all that it would have allowed."""
        return self.budget.epsilon if self._checks else 0.0

    @property
    def charged_epsilon(self) -> float:
        """Epsilon of the checks and labels charged so far, at the filter's order."""
        charged = self.cost.epsilon(self.budget.delta, self.conversion) if self._checks else 0.0
        return min(self.budget.epsilon, charged)


def best_order(one: PrivacyCost, budget: Budget, conversion: Conversion) -> float:
    """Return the order at which most answered queries fit."""
    counts = [allowance(order, budget, conversion) / rdp for order, rdp in zip(one.orders, one.rdp, strict=True)]
    return float(one.orders[int(np.argmax(counts))])


def allowance(order: float, budget: Budget, conversion: Conversion) -> float:
    """Return the Renyi divergence at `order` that converts to the budget, rounded down; 0 if there is none."""
    convert = classical_epsilon if conversion is Conversion.CLASSICAL else improved_epsilon
    orders = np.array([order])
    tiny = 1e-300
    allowed = budget.epsilon - convert(np.array([tiny]), orders, budget.delta)
    allowed *= 1 - 1e-9
    if allowed <= 0 or convert(np.array([allowed]), orders, budget.delta) > budget.epsilon:
        return 0.0
    return allowed
