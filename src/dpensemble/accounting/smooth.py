"""Publishing a data-dependent epsilon: the cost plus noise scaled to its smooth sensitivity.

The cost of one query on a grid
-------------------------------
PATE's data-dependent cost of one query is a monotone step function that one teacher moves by a few steps.

One number sums up a vote: ``z``, for which ``(n_classes - 1) Phi(z)`` is the union bound ``q`` on the probability
of missing the plurality. A teacher moves each gap of the sorted counts by at most two votes, so each term
``u = Phi(-gap / (sqrt(2) sigma))`` becomes at most ``Phi(Phi^{-1}(u) + sqrt(2) / sigma)``. That map is concave in
``u`` (and its inverse convex), so by Jensen's inequality ``z`` moves by at most ``sqrt(2) / sigma``, its *global*
sensitivity. (Papernot et al. 2018 use the same two extremes, their B_U and B_L.)

The cost is therefore tabulated on a grid of ``z``, ``reach`` points to one change of a teacher. Rounding ``z``
up is allowed because Theorem 6 takes any upper bound on ``q``. For the same reason the smallest bound of all
points at or above may be taken, which makes the cost monotone by construction. All that smooth sensitivity
needs is then a maximum over finitely many integers, for every shape of the bound.

The cost of one query at every possible vote
--------------------------------------------

When all sorted histograms can be listed, the table needs no approximation. The cost of each is the published bound. Its
local sensitivity is the largest difference to a neighbour, and that at distance ``d`` is the largest within ``d`` steps
from neighbour to neighbour. The threshold uses the highest count only. A teacher moves that count by at most one, and
the count is at least the share of one class.

How far the cost moves when one teacher changes
-----------------------------------------------

The per-query cost is the published bound of GNMax and of the noisy threshold, at every possible vote (see above). When
these votes are too many, the cost is a step function of one number, rounded up to a grid so that it is monotone (see
above). The closed form of Papernot et al. 2018 rests on their conditions C5 and C6, which often fail. The maxima here
are taken over the list or grid itself and need neither condition.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtri, ndtri_exp

from dpensemble._checks import integer_between, real_between
from dpensemble._random import NoiseSource, SystemNoise
from dpensemble.accounting.published import checked_counts, gaussian_rdp, gnmax_log_error, warn_of_threshold
from dpensemble.errors import AccountingError, DataError, InvalidParameterError

# Grid points to one change of a teacher: fewer for many teachers, whose tables would grow large.
_FINEST, _COARSEST, _GRID_BUDGET = 64, 4, 100_000
# Wider than every rounding error of z, so that one teacher never moves a position by m + 1.
_SLACK = 1e-6
_TOWARDS_ZERO = 1.0 - 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class _CostTable:
    """One query's cost at every grid point, from the tie outwards, and how far one teacher can move it."""

    # Bounds in nats, non-increasing, and the most by which each differs from those within `reach`.
    cost: NDArray[np.float64]
    change: NDArray[np.float64]
    # Grid points that one teacher can move a query, and their distance in ``z``.
    reach: int
    width: float
    n_others: int

    def positions(self, log_error: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the grid point of each query: at its ``z`` or just on the tie's side of it. Private."""
        z = ndtri_exp(log_error - math.log(self.n_others))
        return np.clip(np.floor(-z * _TOWARDS_ZERO / self.width), 0, self.cost.size - 1).astype(np.int64)

    def spread(self, change: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the largest value that one teacher can move a query to."""
        from scipy.ndimage import maximum_filter1d  # noqa: PLC0415  takes long to import

        return maximum_filter1d(change, 2 * self.reach + 1, mode="nearest")


@lru_cache(maxsize=64)
def _tabulate(
    sigma: float, n_classes: int, order: float, farthest: float, n_teachers: int, both_directions: bool
) -> _CostTable:
    """Tabulate a query's bound from tie to clearest vote (Papernot et al. 2018, Thm. 6, Props. 7, 8 and 10). Public."""
    reach = min(_FINEST, max(_COARSEST, _GRID_BUDGET // n_teachers))
    width = math.sqrt(2) / sigma / reach * (1 + _SLACK)
    # No class can be farther behind the plurality than `farthest` votes.
    n_points = math.floor(farthest / (math.sqrt(2) * sigma) / width) + 2
    log_q = np.minimum(math.log(n_classes - 1) + log_ndtr(-width * np.arange(n_points)), math.log1p(-1 / n_classes))
    cost = np.minimum.accumulate(gaussian_rdp(log_q, sigma, np.array([order]))[:, 0])
    here = np.arange(n_points)
    if both_directions:
        # Every query is charged as if one teacher had already changed towards the tie.
        cost = cost[np.maximum(here - reach, 0)]
    outwards = cost - cost[np.minimum(here + reach, n_points - 1)]
    inwards = cost[np.maximum(here - reach, 0)] - cost
    return _CostTable(cost, np.maximum(outwards, inwards), reach, width, n_classes - 1)


# Moves from one sorted histogram to another: three classes up to 770 teachers, four up to 150.
_MOST_MOVES = 300_000


@dataclass(frozen=True, slots=True, eq=False)
class _ListedTable:
    """One query's cost at every state of the votes, in nats, and how far one teacher can move it from there."""

    cost: NDArray[np.float64]
    change: NDArray[np.float64]
    # States that one teacher turns each into, shape (n_states, n_moves), and their public numbers, ascending.
    moves: NDArray[np.int64]
    keys: NDArray[np.int64]
    # The numbers that the index of a vote is made of. None for the highest count.
    weights: NDArray[np.int64] | None

    def positions(self, counts: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the state of each query's counts. Private."""
        votes = -np.sort(-counts.astype(np.int64), axis=1)
        number = votes[:, 0] if self.weights is None else votes @ self.weights
        return np.searchsorted(self.keys, number)

    def spread(self, change: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the largest of each state's own value and those one teacher away."""
        return np.maximum(change, change[self.moves].max(axis=1))


@lru_cache(maxsize=16)
def _answer_table(
    sigma: float, n_classes: int, order: float, n_teachers: int, both_directions: bool
) -> _ListedTable | None:
    """Tabulate GNMax at all sorted histograms, or return None if they are too many. Public."""
    if _number_of_moves(n_teachers, n_classes) > _MOST_MOVES:
        return None
    rows = np.array(_sorted_histograms(n_teachers, n_classes, n_teachers), dtype=np.int64)
    weights = (n_teachers + 1) ** np.arange(n_classes - 1, -1, -1, dtype=np.int64)
    rows = rows[np.argsort(rows @ weights)]
    keys = rows @ weights
    moves = []
    for giver, taker in permutations(range(n_classes), 2):
        moved = rows.copy()
        moved[:, giver] -= 1
        moved[:, taker] += 1
        numbers = -np.sort(-moved, axis=1) @ weights
        # A class without votes has none to give.
        here = np.where(rows[:, giver] > 0, np.searchsorted(keys, numbers), np.arange(len(rows)))
        moves.append(here)
    return _table(gnmax_log_error(rows, sigma), sigma, order, np.stack(moves, axis=1), keys, weights, both_directions)


@lru_cache(maxsize=16)
def _threshold_table(
    threshold: float, threshold_sigma: float, n_classes: int, order: float, n_teachers: int, both_directions: bool
) -> _ListedTable:
    """Tabulate the noisy threshold at all highest counts. Public."""
    highest = np.arange(-(-n_teachers // n_classes), n_teachers + 1)
    log_error = np.maximum(log_ndtr(-np.abs(highest - threshold) / threshold_sigma), -1e15)
    here = np.arange(len(highest))
    moves = np.stack([np.maximum(here - 1, 0), np.minimum(here + 1, here[-1])], axis=1)
    # A teacher moves one count and not two: the threshold is a vote of two classes at sqrt(2) sigma.
    return _table(log_error, math.sqrt(2) * threshold_sigma, order, moves, highest, None, both_directions)


def _table(
    log_error: NDArray[np.float64],
    sigma: float,
    order: float,
    moves: NDArray[np.int64],
    keys: NDArray[np.int64],
    weights: NDArray[np.int64] | None,
    both_directions: bool,
) -> _ListedTable:
    likeliest = np.argsort(-log_error, kind="stable")
    cost = np.empty(len(keys))
    # The bound holds for any larger chance of missing, so the smallest of those may be taken.
    cost[likeliest] = np.minimum.accumulate(gaussian_rdp(log_error[likeliest], sigma, np.array([order]))[:, 0])
    if both_directions:
        # The neighbour's bound is charged, too.
        cost = np.maximum(cost, cost[moves].max(axis=1))
    change = np.abs(cost[:, None] - cost[moves]).max(axis=1)
    return _ListedTable(cost, change, moves, keys, weights)


def _number_of_moves(total: int, classes: int) -> float:
    """Return how many neighbours all sorted histograms have together, or infinity if the number would not fit."""
    if classes > 12 or math.comb(total + classes - 1, classes - 1) / math.factorial(classes) > _MOST_MOVES:
        return math.inf
    if (total + 1) ** classes >= 2**62:
        return math.inf
    # Partitions of the total into parts of bounded size.
    ways = np.zeros(total + 1)
    ways[0] = 1
    for size in range(1, classes + 1):
        for number in range(size, total + 1):
            ways[number] += ways[number - size]
    return float(ways[total]) * classes * (classes - 1)


def _sorted_histograms(total: int, classes: int, most: int) -> list[tuple[int, ...]]:
    if classes == 1:
        return [(total,)] if total <= most else []
    lowest = -(-total // classes)
    return [
        (first, *rest)
        for first in range(lowest, min(total, most) + 1)
        for rest in _sorted_histograms(total - first, classes - 1, first)
    ]


# One query's cost at all states of its votes, and the states that one teacher turns each into.
_Table = _CostTable | _ListedTable


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

    def _parts(self, counts: ArrayLike, answered: ArrayLike | None) -> list[tuple[_Table, NDArray[np.int64]]]:
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
        listed = _answer_table(self.sigma, self.n_classes, self.order, self.n_teachers, both)
        parts: list[tuple[_Table, NDArray[np.int64]]]
        if listed is not None:
            parts = [(listed, listed.positions(votes[charged]))]
        else:
            table = _tabulate(self.sigma, self.n_classes, self.order, float(self.n_teachers), self.n_teachers, both)
            parts = [(table, table.positions(gnmax_log_error(votes[charged], self.sigma)))]
        if self.threshold is not None and self.threshold_sigma is not None:
            warn_of_threshold(self.threshold, self.n_teachers)
            gate = _threshold_table(
                self.threshold, self.threshold_sigma, self.n_classes, self.order, self.n_teachers, both
            )
            parts.append((gate, gate.positions(votes)))
        return parts


def _largest_change(parts: list[tuple[_Table, NDArray[np.int64]]], rounding: float) -> float:
    return rounding + float(sum(table.change.max() * positions.size for table, positions in parts))


def _local_changes(parts: list[tuple[_Table, NDArray[np.int64]]], rounding: float) -> Iterator[float]:
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


# The published figure is a multiple of this: low bits of noisy floating-point numbers leak (Mironov, CCS 2012).
_PUBLISHED_STEP = 2.0**-20


@dataclass(frozen=True, slots=True)
class SmoothRelease:
    """A data-dependent guarantee that may be published, unless its noise came from a seed (`for_release` is False).

    Epsilon and delta hold for the labels and this release together. `labels_rdp`, in nats, is an upper bound on the
    labels' cost at `order`, except with probability `failure` over the noise. `release_rdp` pays for publishing it.
    """

    epsilon: float
    delta: float
    order: float
    labels_rdp: float
    release_rdp: float
    failure: float
    for_release: bool


def release_epsilon(
    cost: SmoothCost,
    counts: ArrayLike,
    *,
    delta: float,
    beta: float,
    noise_multiplier: float,
    failure: float = 0.01,
    answered: ArrayLike | None = None,
    noise: NoiseSource | None = None,
) -> SmoothRelease:
    """Publish an epsilon that was computed from the votes. The number of queries must be fixed in advance.

    The published number is ``total + S * noise_multiplier * (z + N(0, 1))`` with the smooth sensitivity ``S`` and
    the upper `failure` quantile ``z``. The mean moves up by ``z`` standard deviations *before* publishing, because
    ``S`` is secret too and cannot be used afterwards. `smooth_release_rdp` pays for the move.

    `beta` needs ``order * (1 - exp(-2 beta)) < 1``. If `answered` is given, it must not depend on the votes other than
    through the released threshold outcomes, and the guarantee then holds for that outcome. None (all) holds for every
    outcome.

    Papernot et al. 2018, appendix on smooth sensitivity (mechanism GNSS); conversion to epsilon: C. Canonne, G.
    Kamath and T. Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020, Proposition 12.
    """
    if not cost.both_directions:
        raise AccountingError(
            "both_directions=False bounds one direction only and gives no guarantee: use SmoothCost's default."
        )
    # The noise has 2**62 sizes. What its far tail misses lies below a thousandth of this.
    delta = real_between("delta", delta, 1e-9, 1 - 1e-9)
    failure = real_between("failure", failure, 1e-15, 0.5)
    beta = real_between("beta", beta, 1e-9, 10)
    offset = max(0.0, -float(ndtri(failure)))
    spent = smooth_release_rdp(cost.order, beta, noise_multiplier, offset)
    sensitivity = cost.smooth_sensitivity(counts, beta, answered)
    source = SystemNoise() if noise is None else noise
    noisy = cost.total(counts, answered) + sensitivity * noise_multiplier * (offset + _standard_normal(source))
    if not math.isfinite(noisy):
        raise AccountingError("the published cost must be finite, so nothing is released: use more noise in the votes.")
    n_charged = None if answered is None else int(np.count_nonzero(answered))
    worst = cost.worst_total(len(np.asarray(counts)), n_charged)
    # Both ends are public, so clipping and rounding cost nothing.
    labels = min(max(math.ceil(noisy / _PUBLISHED_STEP) * _PUBLISHED_STEP, 0.0), worst)
    epsilon = _epsilon(labels + spent, cost.order, delta)
    return SmoothRelease(epsilon, delta, cost.order, labels, spent, failure, source.for_release)


def smooth_release_rdp(order: float, beta: float, noise_multiplier: float, offset: float = 0.0) -> float:
    """Return the Renyi divergence of publishing a number with noise scaled to its smooth sensitivity."""
    # For ``f + S s (offset + N(0, 1))`` with a ``beta``-smooth bound ``S`` on the local sensitivity of ``f`` and noise
    # multiplier ``s``, at order ``a``, with ``t = exp(beta)``:
    # ``a (1 + s offset (t - 1))**2 / (2 s**2 (a - (a - 1) t**2)) - (2 a beta + log(1 - a (1 - t**-2))) / (2 (a - 1))``.
    # It is the divergence of two normal laws whose standard deviations differ by the factor ``t`` and whose means are
    # as far apart as both sensitivities allow. No smaller bound holds for all ``f``. Over all ratios of the two
    # standard deviations from ``1 / t`` to ``t`` both terms are largest at ``1 / t``.
    # The public research code of Papernot et al. 2018 gives
    # ``a t**2 / s**2 + (a beta - log(1 - 2 a beta) / 2) / (a - 1)`` for ``a < 1 / (2 beta)`` as their Theorem 23 (no
    # offset). That is exceeded by the exact divergence where ``a beta`` is near 1/2: 2.82 against 0.71 at order 10,
    # beta 0.049, multiplier 5. It is not used.
    # References: T. van Erven and P. Harremoes, "Renyi divergence and Kullback-Leibler divergence", IEEE Trans. Inf.
    # Theory 2014, equation (10) (normal laws); Nissim et al. 2007, Definition 2.1 (smooth bounds).
    order = real_between("order", order, 1, 1e12)
    beta = real_between("beta", beta, 1e-9, 10)
    noise_multiplier = real_between("noise_multiplier", noise_multiplier, 1e-9, 1e12)
    offset = real_between("offset", offset, 0, 10)
    narrowed = 1 + order * math.expm1(-2 * beta)
    if not (order > 1 and narrowed > 0):
        raise InvalidParameterError(f"beta={beta:g} must be below {_largest_beta(order):.3g} at order={order:g}.")
    apart = (1 + noise_multiplier * offset * math.expm1(beta)) / noise_multiplier
    means = order * apart**2 * math.exp(-2 * beta) / (2 * narrowed)
    spreads = -(2 * order * beta + math.log(narrowed)) / (2 * (order - 1))
    return (means + max(spreads, 0.0)) * (1 + 1e-9)


def _largest_beta(order: float) -> float:
    return -0.5 * math.log1p(-1 / order) if order > 1 else math.inf


def _epsilon(rdp: float, order: float, delta: float) -> float:
    """Convert by Canonne, Kamath and Steinke 2020, Proposition 12."""
    epsilon = rdp + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
    return max(epsilon, 0.0) * (1 + 1e-13)


def _standard_normal(source: NoiseSource) -> float:
    """Draw one normal variable: a bit for the sign, the other 62 for the size."""
    bits = int(source.uniform_bits(1)[0])
    size = -float(ndtri(((bits >> 1) + 0.5) / 2.0**63))
    return size if bits & 1 else -size
