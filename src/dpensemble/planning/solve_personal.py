"""Influences at which the budgets of all groups run out on the same query, under the accounting in use."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpensemble.accounting import Accounting, Group
from dpensemble.accounting.group_costs import affordable_queries, answer_costs, gated_costs, is_gated
from dpensemble.cost import Conversion, PrivacyCost
from dpensemble.electorate import Pool, Stage
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import ReleaseLaw
from dpensemble.planning.personal import (
    Census,
    Personalisation,
    Personalised,
    Rule,
    personalised,
    published_influence,
)

_MOST_ROUNDS = 12
# Rounds with exact composition, which takes seconds where a Renyi curve takes milliseconds.
_EXACT_ROUNDS = 2
# Groups whose queries differ by less run out together.
_CLOSE = 0.002


def group_cost(stage: Stage, group: Group, n_classes: int, accounting: Accounting) -> PrivacyCost:
    """Return the most that an answered query can cost a record of a group that takes part in it.

    Parameters
    ----------
    stage : Stage
        Who votes.
    group : Group
        Whose cost; its pool must take part.
    n_classes : int
        Declared classes.
    accounting : Accounting
        What the label alone reveals, or the published bound at the group's sensitivity.

    Returns
    -------
    PrivacyCost
        Of the check too, under a gate. Public.
    """
    if is_gated(stage):
        (gated,) = gated_costs(stage, (group,), n_classes, accounting)
        found = None if gated is None else gated.check + gated.label
    else:
        (found,) = answer_costs(stage, (group,), n_classes, accounting)
    if found is None:
        raise InvalidParameterError(f"group={group.name!r} takes no part in the stage; ask about one that does.")
    return found


def queries_of_groups(
    design: Personalised, n_classes: int, accounting: Accounting, conversion: Conversion | None = None
) -> tuple[int, ...]:
    """Return how many queries each group's budget pays for, if all of them are answered.

    Parameters
    ----------
    design : Personalised
        The ensemble.
    n_classes : int
        Declared classes.
    accounting : Accounting
        As for `group_cost`.
    conversion : Conversion, optional
        How costs become epsilons; that of the accounting by default.

    Returns
    -------
    tuple of int
        In the order of the groups.
    """
    how = conversion_of(design.stage, accounting) if conversion is None else conversion
    return tuple(
        affordable_queries(
            [design.stage],
            [group_cost(design.stage, group, n_classes, accounting)],
            group.pool,
            group.budget,
            how,
        )
        for group in design.groups
    )


def conversion_of(stage: Stage, accounting: Accounting) -> Conversion:
    """Return how costs become epsilons; a filter works on a Renyi curve."""
    return Conversion.IMPROVED if is_gated(stage) and accounting is Accounting.EXACT else accounting.conversion


@dataclass
class _Search:
    """Adjusts influences until all groups run out together, and keeps the best design met."""

    kind: Personalisation
    law: ReleaseLaw
    n_teachers: int
    census: Census
    n_classes: int
    accounting: Accounting
    precision: float | None
    influence: NDArray[np.float64]
    best: Personalised | None = None
    best_queries: int = -1
    seen: set[Personalised] = field(default_factory=set)

    def rounds(self, most: int, conversion: Conversion) -> None:
        """Adjust and build in turn, at most so many times."""
        self.best_queries, self.seen = -1, set()
        for _ in range(most):
            try:
                design = personalised(
                    self.kind, self.law, self.n_teachers, self.census, self.influence, self.precision
                )
            except InvalidParameterError:
                # Unless a precision was asked for, an adjustment that cannot be built ends the search.
                if self.best is None or self.precision is not None:
                    raise
                return
            queries = np.array(queries_of_groups(design, self.n_classes, self.accounting, conversion))
            if queries.min() > self.best_queries:
                self.best, self.best_queries = design, int(queries.min())
                best_influence = self.influence
            if queries.max() <= queries.min() * (1 + _CLOSE) or design in self.seen:
                break
            self.seen.add(design)
            power = 1.0 if self.kind is Personalisation.VANISHING else 0.5
            self.influence = self.influence * np.maximum(queries, 0.5) ** power
            self.influence /= self.influence.max()
        self.influence = best_influence


def personalise(
    kind: Personalisation,
    law: ReleaseLaw,
    n_teachers: int,
    census: Census,
    *,
    n_classes: int,
    accounting: Accounting,
    rule: Rule = Rule.SOLVED,
    precision: float | None = None,
    fast: bool = False,
) -> Personalised:
    """Return the personalised ensemble by either rule.

    Parameters
    ----------
    kind, law, n_teachers, census, precision
        As for `personalised`.
    n_classes : int
        Declared classes.
    accounting : Accounting
        Accounting under which the budgets are to run out.
    rule : Rule, default="solved"
        Solve for it, or take the paper's rule of thumb.
    fast : bool, default=False
        Solve on Renyi curves alone; exact composition moves the solution by a few per cent.

    Returns
    -------
    Personalised
    """
    if rule is Rule.PUBLISHED:
        return personalised(kind, law, n_teachers, census, published_influence(kind, census), precision)
    return solved(
        kind, law, n_teachers, census, n_classes=n_classes, accounting=accounting, precision=precision, fast=fast
    )


def solved(
    kind: Personalisation,
    law: ReleaseLaw,
    n_teachers: int,
    census: Census,
    *,
    n_classes: int,
    accounting: Accounting,
    precision: float | None = None,
    fast: bool = False,
) -> Personalised:
    """Return the ensemble whose groups run out of budget on the same query, as nearly as whole numbers allow.

    The cost of a query grows about with the square of a weight or number of copies, and in
    proportion to a frequency; influences are multiplied by the number of queries that each group could still
    afford, to the matching power, until they agree.

    Parameters
    ----------
    kind, law, n_teachers, census, precision
        As for `personalised`.
    n_classes : int
        Declared classes.
    accounting : Accounting
        Accounting under which the budgets are to run out.
    fast : bool, default=False
        As for `personalise`.

    Returns
    -------
    Personalised
        The one met on the way in which the first group to run out lasts longest.

    Examples
    --------
    >>> from dpensemble.budget import Budget
    >>> from dpensemble.laws import GaussianNoisyMax
    >>> census = Census(names=("high", "low"), shares=(1, 1),
    ...                 budgets=(Budget(epsilon=0.5, delta=1e-5), Budget(epsilon=1.5, delta=1e-5)))
    >>> found = solved(Personalisation.WEIGHTING, GaussianNoisyMax(160.0), 1000, census, n_classes=2,
    ...                accounting=Accounting.PUBLISHED)
    >>> [round(weight, 2) for weight in found.weights]
    [0.51, 1.49]
    >>> queries_of_groups(found, 2, Accounting.PUBLISHED)
    (528, 527)
    """
    search = _Search(
        kind, law, n_teachers, census, n_classes, accounting, precision, published_influence(kind, census)
    )
    conversion = conversion_of(Stage(law, (Pool(1, 1),)), accounting)
    search.rounds(_MOST_ROUNDS, Conversion.IMPROVED if conversion is Conversion.BEST else conversion)
    if conversion is Conversion.BEST and len(census.budgets) > 1 and not fast:
        search.rounds(_EXACT_ROUNDS, conversion)
    assert search.best is not None  # noqa: S101
    return search.best
