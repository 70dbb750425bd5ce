"""The meter of teachers that are themselves private. Their models are paid for once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from dpensemble._checks import real_between
from dpensemble.accounting.base import EVERYONE, Group, Meter
from dpensemble.accounting.worst_case import pure_cost
from dpensemble.cost import DEFAULT_ORDERS, Conversion, PrivacyCost, optimal_composition
from dpensemble.errors import AccountingError, BudgetError, InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.votes import Votes

_ENDLESS = 2**31 - 1


class PrivateModelsMeter(Meter, spends=("pay",)):
    """Charges private models once. Any number of answers computed from them is free."""

    def __init__(
        self,
        models: Sequence[Sequence[tuple[float, float]]] | None,
        budget: Budget,
        zcdp: Sequence[Sequence[float]] | None = None,
    ) -> None:
        super().__init__((Group(EVERYONE, budget),), Conversion.BEST)
        self._worst: _Composed | None = None
        self._asked = 0
        if models is not None:
            self.pay(models, zcdp)

    def pay(
        self, models: Sequence[Sequence[tuple[float, float]]], zcdp: Sequence[Sequence[float]] | None = None
    ) -> None:
        """Charge for the models, before anything is computed from them, and refuse what does not fit."""
        rhos: Sequence[Sequence[float] | None] = [None] * len(models) if zcdp is None else zcdp
        if not models or len(rhos) != len(models):
            raise InvalidParameterError(
                f"models has {len(models)} sets and zcdp {len(rhos)}: give at least one set, and as many in both."
            )
        sets = {
            (tuple(touched), None if rho is None else tuple(rho)) for touched, rho in zip(models, rhos, strict=True)
        }
        worst = max((_composed(*one, self.budget) for one in sets), key=lambda total: total.epsilon)
        if worst.epsilon > self.budget.epsilon * (1 + 1e-12):
            raise BudgetError(
                f"the private teachers that one record touches have epsilon={worst.epsilon:.6g} together at "
                f"delta={self.budget.delta:g}, above the budget of {self.budget.epsilon:g}: use fewer teachers, "
                "more private ones, or a partition."
            )
        self._worst = worst

    def _require_payment(self) -> _Composed:
        """Return what the models cost together, or raise if they were not paid for."""
        if self._worst is None:
            raise AccountingError("the models must be paid for before they answer: call pay first.")
        return self._worst

    @property
    def accounting(self) -> str:
        """Name and source of the analysis."""
        worst = self._require_payment()
        how = (
            "by optimal composition (Kairouz, Oh and Viswanath 2017)"
            if worst.rho is None
            else f"zero-concentrated at rho={worst.rho:.6g} (Bun and Steinke 2016, Lemma 1.7)"
        )
        return (
            f"the private models themselves: a record touches {len(worst.touched)} of them, together {how}; "
            "answers are computed from them and cost nothing, however many"
        )

    @property
    def sure_queries(self) -> int:
        """As many as requested."""
        return _ENDLESS

    @property
    def most_queries(self) -> int:
        """As many as requested."""
        return _ENDLESS

    def admit(self, votes: Votes) -> int:
        """Admit all queries, once the models are paid for."""
        self._require_payment()
        self._asked += votes.n_queries
        return votes.n_queries

    @property
    def cost(self) -> PrivacyCost:
        """Cost of the models, if they are pure or zero-concentrated."""
        worst = self._require_payment()
        if worst.rho is not None:
            return PrivacyCost(rdp=worst.rho * DEFAULT_ORDERS)
        if any(delta for _, delta in worst.touched):
            raise AccountingError("models with a delta have no Renyi curve: see spent_epsilon.")
        total = PrivacyCost.zero()
        for epsilon, _ in worst.touched:
            total += pure_cost(epsilon)
        return total

    @property
    def one_query(self) -> PrivacyCost:
        """Zero, since the models are paid for."""
        return PrivacyCost.zero()

    @property
    def group_epsilons(self) -> tuple[float, ...]:
        """Epsilon of the models, the same for any number of answers."""
        return (min(self.budget.epsilon, self._require_payment().epsilon),)

    def spend_curve(self, points: int = 40) -> list[tuple[int, tuple[float, ...]]]:
        """Return a level line, since the models are paid for before they answer."""
        counts = sorted({1, self._asked}) if self._asked else []
        return [(count, (self.spent_epsilon,)) for count in counts[: max(1, points)]]


@dataclass(frozen=True, slots=True)
class _Composed:
    """What the models of one set cost together. `rho` is set if zero-concentrated composition gave the total."""

    epsilon: float
    touched: tuple[tuple[float, float], ...]
    rho: float | None = None


def _composed(touched: tuple[tuple[float, float], ...], rhos: tuple[float, ...] | None, budget: Budget) -> _Composed:
    """Return the smaller of two sound totals: by epsilons and deltas, and by zero-concentrated privacy."""
    if rhos is None:
        return _Composed(_of_pairs(touched, budget), touched)
    # Divergences of order a are at most rho a, and rho adds up (Bun and Steinke, TCC 2016, Lemma 1.7).
    rho = _added(rhos, len(touched))
    concentrated = PrivacyCost(rdp=rho * DEFAULT_ORDERS).epsilon(budget.delta, Conversion.IMPROVED)
    # In that case deltas that do not fit do not matter.
    with suppress(BudgetError):
        by_pairs = _of_pairs(touched, budget)
        if by_pairs <= concentrated:
            return _Composed(by_pairs, touched)
    return _Composed(concentrated, touched, rho)


def _added(rhos: tuple[float, ...], n_models: int) -> float:
    if len(rhos) != n_models:
        raise InvalidParameterError(
            f"zcdp must have one entry for every model of a set; got {len(rhos)} entries for {n_models} models."
        )
    return math.fsum(real_between("zcdp", rho, 0.0, 1e6) for rho in rhos) * (1 + 1e-15)


def _of_pairs(touched: tuple[tuple[float, float], ...], budget: Budget) -> float:
    if len(touched) == 1 and touched[0][1] <= budget.delta:
        return touched[0][0]
    try:
        return optimal_composition(touched, budget.delta)
    except AccountingError as error:
        raise BudgetError(f"the private teachers' deltas do not fit: {error}") from None
