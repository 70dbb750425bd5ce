"""The meter of noisy sums of bounded vectors; their cost: `dpensemble.cost.gaussian`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dpensemble._checks import real_between
from dpensemble._original import Original
from dpensemble.budget import Budget
from dpensemble.cost import GaussianCost, PrivacyCost, gaussian_epsilon, gaussian_mu, slack_of
from dpensemble.cost.gaussian import PROMISED_SLACK
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.relations import Basis


@dataclass(frozen=True, slots=True)
class WeightedGroup:
    """Units with one budget, whose vectors have one weight.

    Parameters
    ----------
    name : str
        Public name.
    budget : Budget
        What may be spent on each unit.
    weight : float, default=1.0
        Length of its units' vectors in those of weight 1; from 0 to 1.
    """

    name: str
    budget: Budget
    weight: float = 1.0

    def __post_init__(self) -> None:
        real_between("weight", self.weight, 0.0, 1.0)


def weighted_groups(names: Sequence[str], budgets: Sequence[Budget]) -> tuple[WeightedGroup, ...]:
    """Return groups with weights at which noise on one sum uses up all budgets, the largest weight 1.

    Examples
    --------
    >>> found = weighted_groups(["low", "high"], [Budget(epsilon=1, delta=1e-5), Budget(epsilon=2, delta=1e-5)])
    >>> [round(group.weight, 3) for group in found]
    [0.534, 1.0]
    """
    allowed = [gaussian_mu(budget.epsilon, budget.delta) for budget in budgets]
    parts = [one / max(allowed) for one in allowed]
    return tuple(map(WeightedGroup, names, budgets, parts))


class SumsMeter(Original, spends=("charge",)):
    """Charges noisy sums before their noise is drawn; what does not fit is refused, and what was charged stays charged.

    Parameters
    ----------
    groups : sequence of WeightedGroup
        Whose units are charged, at one delta. A unit of weight ``a`` moves a sum by ``a`` sensitivities at most.

    Examples
    --------
    >>> meter = SumsMeter([WeightedGroup("everyone", Budget(epsilon=1, delta=1e-5))])
    >>> meter.charge(meter.sigma(share=0.5), variance=2**54, entries=500)
    >>> meter.charge(meter.sigma(share=0.5), variance=2**54, entries=500)
    >>> round(meter.spent_epsilon, 6)
    1.0
    """

    #: What the resulting guarantee holds for, and that secrets play no part in how much is released.
    basis = Basis.WORST_CASE
    fixed_number = True

    def __init__(self, groups: Sequence[WeightedGroup]) -> None:
        if not groups or len({group.budget.delta for group in groups}) != 1:
            raise InvalidParameterError("groups must be at least one, with budgets at one delta.")
        self.groups = tuple(groups)
        self._squares, self._slack, self._most_slack = 0.0, 0.0, math.inf
        self._charges: list[dict[str, Any]] = []

    @property
    def mu(self) -> float:
        """Gaussian privacy that the budgets allow to a unit of weight 1; a little is kept for the noise's rounding."""
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
            Noise in units of the sensitivity; at most what is drawn.
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
        squares = self._squares + 1 / sigma**2
        slack = self._slack + slack_of(entries, variance)
        for group in self.groups:
            if self._epsilon(group, squares, slack) > group.budget.epsilon or slack > self._most_slack:
                raise BudgetError(
                    f"a sum with noise sigma={sigma:.6g} does not fit what is left of epsilon="
                    f"{group.budget.epsilon:g} at delta={group.budget.delta:g}; use more noise, or a smaller share."
                )
        self._squares, self._slack = squares, slack
        self._charges.append({"sigma": sigma, "variance": int(variance), "entries": int(entries)})

    def renyi_costs(self) -> tuple[PrivacyCost | None, ...]:
        """Return the most that each group can be charged; discrete noise is held to it from then on."""
        self._most_slack = PROMISED_SLACK
        mus = [gaussian_mu(group.budget.epsilon, group.budget.delta) * (1 + 1e-9) for group in self.groups]
        return tuple(GaussianCost(mu**2, PROMISED_SLACK) for mu in mus)

    def _epsilon(self, group: WeightedGroup, squares: float, slack: float) -> float:
        if not group.weight or not squares:
            return 0.0
        mu = group.weight * math.sqrt(squares) * (1 + 1e-14)
        return gaussian_epsilon(mu, group.budget.delta * math.exp(-slack)) + 2 * slack

    @property
    def budget(self) -> Budget:
        """The largest budget of any group."""
        return max((group.budget for group in self.groups), key=lambda budget: budget.epsilon)

    @property
    def group_epsilons(self) -> tuple[float, ...]:
        """Epsilon of all sums charged so far, for each group."""
        return tuple(
            min(group.budget.epsilon, self._epsilon(group, self._squares, self._slack)) for group in self.groups
        )

    @property
    def spent_epsilon(self) -> float:
        """Epsilon of all sums charged so far: the largest of any group."""
        return max(self.group_epsilons)

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
        """``sigma``, ``variance`` and ``entries`` of every sum charged so far; public."""
        return tuple(self._charges)
