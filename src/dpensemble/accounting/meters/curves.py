"""Costs of numbers of answers, one after the other, and how many of the answers fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from dpensemble.accounting.group import Group
from dpensemble.accounting.meters.budget_search import composition
from dpensemble.accounting.worst_case.neighbours import FEW_ORDERS
from dpensemble.cost import Conversion, Cost, PrivacyCost
from dpensemble.voting_schedule import Stage

Curves = NDArray[np.float64]


def spread(most: int, points: int) -> list[int]:
    """Return at most `points` numbers from 1 to `most`, evenly spread, `most` among them."""
    return np.unique(np.linspace(1, most, min(points, most)).astype(int)).tolist() if most else []


def cost_of(stages: Sequence[Stage], costs: Sequence[Cost | None], group: Group, n_queries: int) -> Cost:
    """Return what the first queries cost one group, where `costs` are those of one answer of each stage."""
    total: Cost = PrivacyCost.zero()
    for stage, one in zip(stages, costs, strict=True):
        here = n_queries if stage.n_queries is None else min(n_queries, stage.n_queries)
        if one is not None and here:
            here_cost = one * stage.pools[group.pool].turns(here)
            total = here_cost if total.parts == () else total + here_cost
        n_queries -= here
    return total


def epsilons_of(costs: Sequence[Cost], delta: float, conversion: Conversion) -> list[float]:
    """Return the epsilon of each cost, of ever more answers. One composition serves all answers of one kind."""
    single = [one for cost in costs if cost.parts and len(cost.parts) == 1 and (one := cost.renyi) is not None]
    if conversion is not Conversion.BEST or not single:
        epsilons = [cost.epsilon(delta, conversion) for cost in costs]
    else:
        shared = composition(single[-1], delta)
        epsilons = [
            min(cost.epsilon(delta, Conversion.IMPROVED), shared.epsilon(cost.parts[0].count, delta))
            if shared is not None and cost.parts and len(cost.parts) == 1
            else cost.epsilon(delta)
            for cost in costs
        ]
    # A bound for more queries holds for fewer.
    return np.minimum.accumulate(epsilons[::-1])[::-1].tolist() if epsilons else []


def rounded_up(curve: Curves) -> PrivacyCost:
    """Return the public worst case, above any sum of floating-point costs by more than its rounding."""
    return PrivacyCost(rdp=curve * (1 + 1e-9), orders=FEW_ORDERS)


def curve_epsilons(spent: Curves, delta: float) -> Curves:
    """Convert curves to epsilons as `dpensemble.cost.conversion.improved_epsilon` does, one a row."""
    beyond = np.log1p(-1 / FEW_ORDERS) - (np.log(delta) + np.log(FEW_ORDERS)) / (FEW_ORDERS - 1)
    epsilons = (np.maximum((spent + beyond).min(axis=1), 0.0) + 1e-13) * (1 + 1e-13)
    return np.where(spent.any(axis=1), epsilons, 0.0)


def leading_fit(
    spent: Curves, added: Callable[[int], Curves], n_queries: int, epsilons: float | Curves, delta: float
) -> tuple[int, Curves]:
    """Return how many leading queries leave every curve within its epsilon, and the curves including these queries."""
    fitting, too_many, sums = 0, n_queries + 1, spent
    while too_many - fitting > 1:
        candidate = spent + added(n_queries)
        if np.all(curve_epsilons(candidate, delta) <= epsilons):
            fitting, sums = n_queries, candidate
        else:
            too_many = n_queries
        n_queries = (fitting + too_many) // 2
    return fitting, sums
