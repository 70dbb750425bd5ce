"""What answers cost each group in the worst case, and how many of a public schedule its budget pays for."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from contextlib import suppress

from dpensemble.accounting.base import Accounting
from dpensemble.accounting.gates import GatedCost, gated_cost, published_gated_cost
from dpensemble.accounting.groups import Costs, Group, most_votings
from dpensemble.accounting.moments import published_cost
from dpensemble.accounting.worst_case import worst_case_cost
from dpensemble.budget import Budget
from dpensemble.cost import Conversion, PrivacyCost, largest_count
from dpensemble.cost.composition import MOST_ANSWERS, MOST_EPSILON, AdaptiveComposition, composition_of
from dpensemble.cost.conversion import improved_epsilon
from dpensemble.cost.privacy_cost import last_fitting
from dpensemble.electorate import Stage
from dpensemble.errors import AccountingError, InvalidParameterError
from dpensemble.laws import AgainstStudent, ConfidentNoisyMax


def answer_costs(stage: Stage, groups: Sequence[Group], n_classes: int, accounting: Accounting) -> Costs:
    """Return the most that one answer of an ungated law costs a record of each group.

    Parameters
    ----------
    stage : Stage
        Who votes, with what weight, and by which law.
    groups : sequence of Group
        Whose records.
    n_classes : int
        Number of declared classes.
    accounting : Accounting
        What the label alone reveals, or the published bound.

    Returns
    -------
    tuple of PrivacyCost or None
        In the order of groups; None where the pool sits out. Public.
    """
    if is_gated(stage):
        raise InvalidParameterError(
            f"law={type(stage.law).__name__} has a gate, so its answers are not all alike."
        )
    return tuple(_answer_cost(stage, group, n_classes, accounting) for group in groups)


def _answer_cost(stage: Stage, group: Group, n_classes: int, accounting: Accounting) -> PrivacyCost | None:
    pool = stage.pools[group.pool]
    if not pool.participants:
        return None
    if accounting is Accounting.PUBLISHED:
        return published_cost(stage.law, group.votes, pool.ballot)
    change = {"votes_per_unit": group.votes, "ballot_weight": pool.ballot}
    return worst_case_cost(stage.law, n_teachers=stage.total, n_classes=n_classes, **change)


def gated_costs(
    stage: Stage, groups: Sequence[Group], n_classes: int, accounting: Accounting
) -> tuple[GatedCost | None, ...]:
    """Return the most that a check and a label of a gated law cost a record of each group, as `answer_costs`."""
    found: list[GatedCost | None] = []
    for group in groups:
        pool = stage.pools[group.pool]
        change = {"votes_per_unit": group.votes, "ballot_weight": pool.ballot}
        if not pool.participants:
            found.append(None)
        elif accounting is Accounting.PUBLISHED:
            found.append(published_gated_cost(stage.law, **change))
        else:
            found.append(gated_cost(stage.law, n_teachers=stage.total, n_classes=n_classes, **change))
    return tuple(found)


def is_gated(stage: Stage) -> bool:
    """Tell whether the stage's law checks a threshold before it answers."""
    return isinstance(stage.law, ConfidentNoisyMax | AgainstStudent)


def affordable_queries(
    stages: Sequence[Stage],
    costs: Sequence[PrivacyCost | None],
    pool: int,
    budget: Budget,
    conversion: Conversion,
) -> int:
    """Return how many queries of the stages, in turn, a group's budget pays for.

    Parameters
    ----------
    stages : sequence of Stage
        In turn; only the last one may be without an end.
    costs : sequence of PrivacyCost or None
        Most that one answer of each stage costs the group.
    pool : int
        Number of the group's pool.
    budget : Budget
        The group's own.
    conversion : Conversion
        How costs become an epsilon.

    Returns
    -------
    int
        Whole stages as far as they fit, and the part of the next one that does; `sys.maxsize` without a limit.

    Examples
    --------
    Two of three teachers vote on each query, so 33 votings of each last for 49 queries:

    >>> from dpensemble.electorate import Pool
    >>> from dpensemble.laws import GaussianNoisyMax
    >>> stage, budget = Stage(GaussianNoisyMax(40.0), (Pool(3, 2),)), Budget(epsilon=1, delta=1e-5)
    >>> one = published_cost(stage.law, 1)
    >>> largest_count(one, 1.0, 1e-5, "classical Renyi conversion")
    33
    >>> affordable_queries([stage], [one], 0, budget, Conversion.CLASSICAL)
    49
    """
    spent, before = PrivacyCost(rdp=0 * _curve(costs).rdp, orders=_curve(costs).orders, parts=()), 0
    for stage, one in zip(stages, costs, strict=True):
        length = stage.n_queries
        if one is not None:
            turns = None if length is None else stage.pools[pool].turns(length)
            if turns is None or not (spent + one * turns).fits(budget.epsilon, budget.delta, conversion):
                fitting = most_votings(_votings(spent, one, budget, conversion), stage, pool)
                # What a larger number affords a smaller one does, even where the grid's rounding says otherwise.
                if length is None or fitting < length:
                    return before + fitting
            if turns:
                spent += one * turns
        if length is None:
            return sys.maxsize
        before += length
    return before


def _curve(costs: Sequence[PrivacyCost | None]) -> PrivacyCost:
    return next((one for one in costs if one is not None), PrivacyCost.zero())


def _votings(spent: PrivacyCost, one: PrivacyCost, budget: Budget, conversion: Conversion) -> int:
    """Return how many further votings fit, given what was spent in earlier stages."""
    if not spent.rdp.any():
        return largest_count(one, budget.epsilon, budget.delta, conversion)

    def fits(count: int, how: Conversion) -> bool:
        return (spent + one * count).fits(budget.epsilon, budget.delta, how)

    cheap = Conversion.IMPROVED if conversion is Conversion.BEST else conversion
    found = last_fitting(lambda count: fits(count, cheap), 0, 2.0)
    return found if cheap is conversion else last_fitting(lambda count: fits(count, conversion), found, 1.1)


def composition(cost: PrivacyCost, delta: float) -> AdaptiveComposition | None:
    """Return the composition that converts answers of one kind, and fewer of them; None if it cannot.

    Parameters
    ----------
    cost : PrivacyCost
        Of one kind of answers.
    delta : float
        Of the guarantee.
    """
    assert cost.parts is not None  # noqa: S101
    pairs, count = cost.parts[0].pairs, cost.parts[0].count
    # Laid out as `PrivacyCost.best` does, which then finds it ready.
    laid_out = 2 ** math.ceil(math.log2(count))
    ceiling = improved_epsilon(cost.rdp / count * laid_out, cost.orders, delta)
    if laid_out > MOST_ANSWERS:
        return None
    with suppress(AccountingError):
        return composition_of(pairs, laid_out, min(ceiling, MOST_EPSILON / 2))
    return None
