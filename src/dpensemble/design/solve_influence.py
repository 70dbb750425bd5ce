"""Influences at which the budgets of all groups run out on the same query, under the accounting in use."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpensemble.accounting import Accounting
from dpensemble.accounting.meters.scheduled import affordable_queries, costs_of, prices_of
from dpensemble.cost import Conversion
from dpensemble.design.influence import Census, Personalisation, Seats, published_influence, seated
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import ReleaseLaw

_MOST_ROUNDS = 12
# Rounds with exact composition, which takes seconds while a Renyi curve takes milliseconds.
_EXACT_ROUNDS = 2
# Groups whose numbers of queries differ by less run out together.
_CLOSE = 0.002


def queries_of_groups(seats: Seats, n_classes: int, accounting: Accounting, conversion: Conversion) -> tuple[int, ...]:
    """Return how many queries each group's budget pays for, if all of them are answered."""
    costs = costs_of(prices_of(seats.stage, seats.groups, n_classes, accounting))
    return tuple(
        affordable_queries([seats.stage], [one], group.pool, group.budget, conversion)
        for group, one in zip(seats.groups, costs, strict=True)
    )


@dataclass
class _Search:
    """Adjusts influences until all groups run out together, and keeps the best seats seen."""

    kind: Personalisation
    law: ReleaseLaw
    n_teachers: int
    census: Census
    n_classes: int
    accounting: Accounting
    precision: float | None
    influence: NDArray[np.float64]
    best: Seats | None = None
    best_queries: int = -1
    seen: set[Seats] = field(default_factory=set)

    def rounds(self, most: int, conversion: Conversion) -> None:
        """Adjust and build in turn, at most `most` times."""
        self.best_queries, self.seen = -1, set()
        for _ in range(most):
            try:
                design = seated(self.kind, self.law, self.n_teachers, self.census, self.influence, self.precision)
            except InvalidParameterError:
                # Without a requested precision, an adjustment that cannot be built ends the search.
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


def solved(
    kind: Personalisation,
    law: ReleaseLaw,
    n_teachers: int,
    census: Census,
    *,
    n_classes: int,
    accounting: Accounting,
    conversion: Conversion,
    precision: float | None = None,
    fast: bool = False,
) -> Seats:
    """Return the seats at which all groups run out of budget on the same query, as nearly as whole numbers allow.

    The cost of a query grows about with the square of a weight or number of copies, and in proportion to a frequency.
    Each round multiplies influences by the number of queries that each group could still afford, to the matching power,
    until these numbers agree. Of all rounds, the seats are returned at which the first group to run out lasts longest.
    With `fast` only Renyi curves are used, which moves the solution by a few per cent.
    """
    search = _Search(kind, law, n_teachers, census, n_classes, accounting, precision, published_influence(kind, census))
    search.rounds(_MOST_ROUNDS, Conversion.IMPROVED if conversion is Conversion.BEST else conversion)
    if conversion is Conversion.BEST and len(census.budgets) > 1 and not fast:
        search.rounds(_EXACT_ROUNDS, conversion)
    assert search.best is not None  # noqa: S101
    return search.best
