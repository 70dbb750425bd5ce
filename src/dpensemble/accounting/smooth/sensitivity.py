"""How far the data-dependent cost of PATE can move when one teacher changes, near the given votes.

The per-query cost is the published bound of GNMax and of the noisy threshold, at every possible vote
(`dpensemble.accounting.smooth.listed`). When these votes are too many, the cost is a step function of one number,
rounded up to a grid so that it is monotone (`dpensemble.accounting.smooth.grid`). The same function is bounded here and
published by `dpensemble.accounting.smooth.release`. The closed form of Papernot et al. 2018 rests on their conditions
C5 and C6, which often fail. The maxima here are taken over the list or grid itself and need neither condition.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpensemble._checks import integer_between, real_between
from dpensemble.accounting.published.probabilities import checked_counts, gnmax_log_error, warn_of_threshold
from dpensemble.accounting.smooth.grid import CostTable, tabulate
from dpensemble.accounting.smooth.listed import ListedTable, answer_table, threshold_table
from dpensemble.errors import DataError, InvalidParameterError

# One query's cost at all states of its votes, and the states that one teacher turns each into.
Table = CostTable | ListedTable


@dataclass(frozen=True, slots=True)
class SmoothCost:
    """The data-dependent cost of a fixed set of GNMax or Confident-GNMax queries at one Renyi order.

    All settings are public and must be chosen without looking at the votes. The same holds for the number of queries.
    The neighbouring relation is one teacher changing its votes in every query arbitrarily, which covers replacing
    one record when each record has one teacher.

    The published theorem bounds ``D(M(D) || M(D'))`` for the given data ``D`` only. By default ``D'`` is charged for
    too: every query is taken as if one teacher had already changed towards the tie. ``both_directions=False`` is for
    comparison with the paper, not for a guarantee.

    Papernot et al. 2018, Theorem 6, Propositions 7, 8 and 10, and the appendix on smooth sensitivity.
    """

    sigma: float
    order: float
    n_teachers: int
    n_classes: int
    threshold: float | None = None
    threshold_sigma: float | None = None
    both_directions: bool = True

    def __post_init__(self) -> None:
        real_between("sigma", self.sigma, 1e-9, 1e12)
        if real_between("order", self.order, 1, 1e12) == 1:
            raise InvalidParameterError(f"order={self.order!r} must be above 1.")
        integer_between("n_teachers", self.n_teachers, 1, 10**6)
        integer_between("n_classes", self.n_classes, 2)
        if (self.threshold is None) != (self.threshold_sigma is None):
            raise InvalidParameterError("threshold and threshold_sigma must be given together or not at all.")
        if self.threshold is not None:
            # Such a threshold never lets a query pass. Refusing it bounds the table's size.
            real_between("threshold", self.threshold, 0, 2 * self.n_teachers)
            real_between("threshold_sigma", self.threshold_sigma, 1e-9, 1e12)

    def total(self, counts: ArrayLike, answered: ArrayLike | None = None) -> float:
        """Return the published cost in nats: the sum of every query's bound. Private.

        The sum is rounded up when votes are too many to list. `answered` marks the queries that passed the threshold
        and were charged for GNMax as well. None charges all, which always holds.
        """
        return float(sum(table.cost[positions].sum() for table, positions in self._parts(counts, answered)))

    def worst_total(self, n_queries: int, n_answered: int | None = None) -> float:
        """Return an upper bound on `total` over all votes (Papernot et al. 2018, Proposition 8). Public."""
        queries = integer_between("n_queries", n_queries, 0)
        charged = queries if n_answered is None else integer_between("n_answered", n_answered, 0, queries)
        asked = 0.0 if self.threshold_sigma is None else queries * self.order / (2 * self.threshold_sigma**2)
        return charged * self.order / self.sigma**2 + asked

    def local_sensitivity(self, counts: ArrayLike, answered: ArrayLike | None = None) -> NDArray[np.float64]:
        """Bound how far `total` moves with one teacher, at votes a given number of teachers away. Private.

        Entry ``d`` bounds the local sensitivity of `total` at all votes in which at most ``d`` teachers differ. The
        last entry holds at every larger distance too. Entry ``d`` for one set of votes is never above entry ``d + 1``
        for a neighbour, which smoothness rests on.
        """
        return np.array(list(_local_changes(self._parts(counts, answered), self._rounding(counts))))

    def smooth_sensitivity(self, counts: ArrayLike, beta: float, answered: ArrayLike | None = None) -> float:
        """Return a `beta`-smooth upper bound on the local sensitivity of `total`, in nats. Private.

        ``max over d of exp(-beta d) * local_sensitivity[d]``. Neighbours differ by a factor of at most ``exp(beta)``.
        K. Nissim, S. Raskhodnikova and A. Smith, "Smooth sensitivity and sampling in private data analysis", STOC 2007,
        Definition 2.2 and Claim 3.2 (any bound that grows in this way with the distance).
        """
        beta = real_between("beta", beta, 1e-9, 10)
        parts = self._parts(counts, answered)
        rounding, smooth = self._rounding(counts), 0.0
        largest = _largest_change(parts, rounding)
        for distance, local in enumerate(_local_changes(parts, rounding)):
            smooth = max(smooth, math.exp(-beta * distance) * local)
            # Farther away, not even the largest change of all counts for more.
            if math.exp(-beta * (distance + 1)) * largest <= smooth:
                break
        return smooth

    def _rounding(self, counts: ArrayLike) -> float:
        """Bound by how much the sum of two neighbours may differ through rounding alone. Public."""
        return 1e-12 * self.worst_total(len(np.asarray(counts)))

    def _parts(self, counts: ArrayLike, answered: ArrayLike | None) -> list[tuple[Table, NDArray[np.int64]]]:
        """Return the table and the queries' positions in it for the answer and for the threshold."""
        votes = checked_counts(counts)
        if votes.shape[1] != self.n_classes or not np.array_equal(votes, np.floor(votes)):
            raise DataError(f"counts must hold whole votes for each of the n_classes={self.n_classes} classes.")
        if not np.all(votes.sum(axis=1) == self.n_teachers):
            raise DataError(f"every row of counts must add up to n_teachers={self.n_teachers}.")
        charged = np.ones(len(votes), dtype=bool) if answered is None else np.asarray(answered)
        if charged.shape != (len(votes),) or charged.dtype != bool:
            raise DataError("answered must hold one boolean for each row of counts.")
        both = self.both_directions
        listed = answer_table(self.sigma, self.n_classes, self.order, self.n_teachers, both)
        parts: list[tuple[Table, NDArray[np.int64]]]
        if listed is not None:
            parts = [(listed, listed.positions(votes[charged]))]
        else:
            table = tabulate(self.sigma, self.n_classes, self.order, float(self.n_teachers), self.n_teachers, both)
            parts = [(table, table.positions(gnmax_log_error(votes[charged], self.sigma)))]
        if self.threshold is not None and self.threshold_sigma is not None:
            warn_of_threshold(self.threshold, self.n_teachers)
            gate = threshold_table(
                self.threshold, self.threshold_sigma, self.n_classes, self.order, self.n_teachers, both
            )
            parts.append((gate, gate.positions(votes)))
        return parts


def _largest_change(parts: list[tuple[Table, NDArray[np.int64]]], rounding: float) -> float:
    return rounding + float(sum(table.change.max() * positions.size for table, positions in parts))


def _local_changes(parts: list[tuple[Table, NDArray[np.int64]]], rounding: float) -> Iterator[float]:
    """Yield the change of the total at distance 0, 1, ... and end with the largest there is."""
    largest = _largest_change(parts, rounding)
    changes = [table.change for table, _ in parts]
    total = -1.0
    # The margin covers sums of equal numbers that round differently. The last entry is the true maximum.
    while total < largest * (1 - 1e-12):
        total = rounding + float(sum(c[positions].sum() for c, (_, positions) in zip(changes, parts, strict=True)))
        yield total
        changes = [table.spread(c) for c, (table, _) in zip(changes, parts, strict=True)]
    yield largest
