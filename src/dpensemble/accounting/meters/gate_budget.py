"""The budget of a gated run: units of a purse, or a Renyi divergence at one order, fixed before the run starts."""

from __future__ import annotations

import numpy as np

from dpensemble.accounting.certifying import Certificate
from dpensemble.accounting.change import Change
from dpensemble.accounting.group import Group
from dpensemble.accounting.price import Price
from dpensemble.budget import Budget
from dpensemble.cost import DEFAULT_ORDERS, Conversion, GatedComposition, GatedCost, PrivacyCost
from dpensemble.cost.conversion import classical_epsilon, improved_epsilon
from dpensemble.errors import AccountingError
from dpensemble.laws import ReleaseLaw


class RenyiFilter:
    """One group's order, allowance and prices. A group whose pool sits out pays nothing.

    V. Feldman and T. Zrnic, "Individual privacy accounting via a Renyi filter", NeurIPS 2021, Theorem 3.1.
    """

    def __init__(self, group: Group, gated: Price | None, conversion: Conversion) -> None:
        self.group, self._conversion = group, conversion
        self.one = None if gated is None else gated.answered
        self.order, self.check, self.label, self.allowed = float(DEFAULT_ORDERS[0]), 0.0, 0.0, 0.0
        if gated is not None:
            assert gated.check is not None  # noqa: S101
            self.order = best_order(gated.answered, group.budget, conversion)
            at = int(np.searchsorted(DEFAULT_ORDERS, self.order))
            self.check, self.label = float(gated.check.rdp[at]), float(gated.label.rdp[at])
            self.allowed = allowance(self.order, group.budget, conversion)

    @property
    def words(self) -> str:
        """Return the filter's name, for the guarantee."""
        return f"a Renyi filter at order {self.order:g} (Feldman and Zrnic 2021, Theorem 3.1)"

    def certify(self, certificate: Certificate, law: ReleaseLaw, change: Change) -> None:  # noqa: ARG002
        """Refuse to certify: a verifier cannot check a Renyi filter."""
        raise AccountingError(
            "a Renyi filter admits these gated queries, and only a purse can be certified: use more noise on the check "
            "or a larger epsilon, for which a purse may pay for more."
        )

    def votings(self, each: float) -> int | None:
        """Return how many votings at a price fit, or None where votings are free."""
        return int(self.allowed / each) if each else None

    def cost(self, spent: float) -> PrivacyCost:
        """Return the cost of all runs that spend at most `spent`."""
        return PrivacyCost(rdp=np.array([spent]), orders=np.array([self.order]))

    def epsilon(self, spent: float) -> float:
        """Convert what was spent, never above the budget."""
        budget = self.group.budget
        return min(budget.epsilon, self.cost(spent).epsilon(budget.delta, self._conversion))


class UnitBudget(RenyiFilter):
    """One group's purse, whose runs are composed exactly by `dpensemble.cost.gated`."""

    def __init__(self, group: Group, gated: Price, composition: GatedComposition) -> None:
        assert gated.check is not None  # noqa: S101
        self.group, self.one, self.composition = group, gated.answered, composition
        self._of_check, self._of_query = gated.check.rdp, gated.check.rdp + gated.label.rdp
        self.check, self.label = float(composition.check_units), float(composition.label_units)
        #: How many answered queries the purse pays for.
        self.within = composition.largest(group.budget.epsilon, group.budget.delta)
        self.allowed = float(self.within * composition.query_units)

    @property
    def words(self) -> str:
        """Return the purse in words, for the guarantee."""
        return (
            f"a purse of {self.allowed:,.0f} units, of which a check costs {self.check:g} and a label {self.label:g}, "
            "composed exactly"
        )

    def certify(self, certificate: Certificate, law: ReleaseLaw, change: Change) -> None:
        """State what the units pay for."""
        certificate.add_gated(self.group.budget, law, change, self.composition, self.within)

    def cost(self, spent: float) -> PrivacyCost:
        """Return the cost of all runs that spend at most `spent`."""
        # A sum of divergences that is bounded for every sequence of answers bounds the divergence of the run (Feldman
        # and Zrnic 2021, Theorem 3.1). The sum is largest if every query is answered, or none.
        queries = self.composition.queries(int(spent))
        rdp = np.maximum(queries * self._of_query, spent / self.check * self._of_check)
        return GatedCost(rdp=rdp, composition=self.composition, queries=queries)

    def epsilon(self, spent: float) -> float:
        """Convert what was spent, never above the budget."""
        return min(self.group.budget.epsilon, self.cost(spent).epsilon(self.group.budget.delta))


def filter_of(group: Group, gated: Price | None, conversion: Conversion) -> RenyiFilter:
    """Return the purse of a group, or its Renyi filter if the filter pays for at least as many answered queries."""
    renyi = RenyiFilter(group, gated, conversion)
    if gated is None or renyi.one is None or renyi.one.composition is None:
        return renyi
    purse = UnitBudget(group, gated, renyi.one.composition)
    answered, by_renyi = purse.votings(purse.check + purse.label), renyi.votings(renyi.check + renyi.label)
    return purse if (answered or 0) > (by_renyi or 0) else renyi


def best_order(one: PrivacyCost, budget: Budget, conversion: Conversion) -> float:
    """Return the order at which the most answered queries fit."""
    counts = [allowance(order, budget, conversion) / rdp for order, rdp in zip(one.orders, one.rdp, strict=True)]
    return float(one.orders[int(np.argmax(counts))])


def allowance(order: float, budget: Budget, conversion: Conversion) -> float:
    """Return the Renyi divergence at `order` that converts to the budget, rounded down, or 0 if nothing does."""
    convert = classical_epsilon if conversion is Conversion.CLASSICAL else improved_epsilon
    orders = np.array([order])
    tiny = 1e-300
    allowed = budget.epsilon - convert(np.array([tiny]), orders, budget.delta)
    allowed *= 1 - 1e-9
    if allowed <= 0 or convert(np.array([allowed]), orders, budget.delta) > budget.epsilon:
        return 0.0
    return allowed
