"""The meter of noisy sums of bounded vectors. `dpensemble.cost.gaussian` computes their cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dpensemble._checks import real_between
from dpensemble.accounting.base import BudgetMeter, Group, require_one_delta
from dpensemble.cost import GaussianCost, PrivacyCost, gaussian_mu
from dpensemble.cost.gaussian import PROMISED_SLACK
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.guarantee import Budget


def weighted_groups(names: Sequence[str], budgets: Sequence[Budget]) -> tuple[Group, ...]:
    """Return groups with weights at which noise on one sum uses up all budgets, the largest weight 1.

    Examples
    --------
    >>> groups = weighted_groups(["low", "high"], [Budget(epsilon=1, delta=1e-5), Budget(epsilon=2, delta=1e-5)])
    >>> [round(group.weight, 3) for group in groups]
    [0.534, 1.0]
    """
    allowed = [gaussian_mu(budget.epsilon, budget.delta) for budget in budgets]
    parts = [one / max(allowed) for one in allowed]
    return tuple(Group(name, budget, weight=part) for name, budget, part in zip(names, budgets, parts, strict=True))


class SumsMeter(BudgetMeter, spends=("charge",)):
    """Charges noisy sums before their noise is drawn. Refuses a sum that does not fit, and never refunds a charge.

    Parameters
    ----------
    groups : sequence of Group
        Groups whose units are charged, at one delta. A unit of weight ``a`` moves a sum by at most ``a`` sensitivities.

    Examples
    --------
    >>> meter = SumsMeter([Group("everyone", Budget(epsilon=1, delta=1e-5))])
    >>> meter.charge(meter.sigma(share=0.5), variance=2**54, entries=500)
    >>> meter.charge(meter.sigma(share=0.5), variance=2**54, entries=500)
    >>> round(meter.spent_epsilon, 6)
    1.0
    """

    def __init__(self, groups: Sequence[Group]) -> None:
        super().__init__(require_one_delta(groups))
        for group in self.groups:
            if group.pool or group.votes != 1:
                raise InvalidParameterError(
                    f"pool={group.pool} and votes={group.votes} of group {group.name!r} are for votes: "
                    "give weight for sums."
                )
        self._costs = tuple(GaussianCost(0.0) for _ in self.groups)
        self._most_slack = math.inf
        self._charges: list[dict[str, Any]] = []

    @property
    def mu(self) -> float:
        """Gaussian privacy that the budgets allow a unit of weight 1. A small reserve pays for the noise's rounding."""
        allowed = [
            gaussian_mu(group.budget.epsilon * (1 - 1e-7), group.budget.delta * (1 - 1e-7)) / group.weight
            for group in self.groups
            if group.weight
        ]
        return min(allowed, default=0.0)

    def sigma(self, share: float) -> float:
        """Return the noise, in sensitivities, of a sum that takes a share of the whole ``mu**2``."""
        # A relative 1e-12 keeps shares that add up to 1 from rounding above the budget.
        return (1 + 1e-12) / (self.mu * math.sqrt(real_between("share", share, 1e-9, 1.0)))

    def charge(self, sigma: float, *, variance: int, entries: int) -> None:
        """Charge for a sum before its noise is drawn.

        Parameters
        ----------
        sigma : float
            Noise in units of the sensitivity, at most the noise that is drawn.
        variance : int
            Variance of the discrete noise in squared whole units, from 2**40.
        entries : int
            Entries of the sum.

        Raises
        ------
        BudgetError
            If some group's budget does not cover it.
        """
        sigma = real_between("sigma", sigma, 1e-6, 1e12)
        costs = tuple(
            spent + GaussianCost.of_sum(sigma, variance=variance, entries=entries, weight=group.weight)
            for group, spent in zip(self.groups, self._costs, strict=True)
        )
        for group, cost in zip(self.groups, costs, strict=True):
            if not cost.fits(group.budget) or cost.slack > self._most_slack:
                raise BudgetError(
                    f"a sum with noise sigma={sigma:.6g} does not fit what is left of epsilon="
                    f"{group.budget.epsilon:g} at delta={group.budget.delta:g}: use more noise, or a smaller share."
                )
        self._costs = costs
        self._charges.append({"sigma": sigma, "variance": int(variance), "entries": int(entries)})

    def renyi_costs(self) -> tuple[PrivacyCost | None, ...]:
        """Return the most that each group can be charged. Discrete noise is checked against it from then on."""
        self._most_slack = PROMISED_SLACK
        mus = [gaussian_mu(group.budget.epsilon, group.budget.delta) * (1 + 1e-9) for group in self.groups]
        return tuple(GaussianCost(mu**2, PROMISED_SLACK) for mu in mus)

    @property
    def group_epsilons(self) -> tuple[float, ...]:
        """Epsilon of all sums charged so far, for each group."""
        pairs = zip(self.groups, self._costs, strict=True)
        return tuple(min(group.budget.epsilon, cost.epsilon(group.budget.delta)) for group, cost in pairs)

    @property
    def accounting(self) -> str:
        """Name and source of the analysis."""
        sums = "1 noisy sum" if len(self._charges) == 1 else f"{len(self._charges)} noisy sums"
        return (
            f"exact trade-off of the Gaussian mechanism, {sums} (Balle and Wang 2018, Theorem 8; Dong, Roth and Su "
            "2022, Corollary 3.3); the noise drawn is a discrete Gaussian, whose difference is charged"
        )

    def spend_curve(self) -> list[tuple[int, tuple[float, ...]]]:
        """Return the number of sums and what each group was charged for them."""
        return [(len(self._charges), self.group_epsilons)]

    @property
    def charges(self) -> tuple[dict[str, Any], ...]:
        """``sigma``, ``variance`` and ``entries`` of every sum charged so far. Public."""
        return tuple(self._charges)
