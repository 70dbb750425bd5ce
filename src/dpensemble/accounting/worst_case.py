"""The exact worst case of one answer: the most that the released label alone can reveal, over all votes.

A `Change` states what one unit can change of the votes on a query.

The published bounds charge for noisy counts that are never published. Here the price is that of the law that is
sampled, mixing included:

- *Two classes*: the reachable counts are finitely many, so all neighbouring pairs of rows are listed. When the chance
  of one label rises with its count, the row furthest away dominates all nearer ones (its operating point lies above
  theirs). Many such pairs are covered in blocks.
- *Three or more classes, few teachers*: all histograms are listed, and similar neighbours are grouped behind one pair.
  This is worthwhile only if counts are near, in units of the noise.
- *Three or more classes, one vote*: `dpensemble.accounting.two_gaps`, as if counts could lie at any distance.
- *Three or more classes, several votes*: a Renyi curve from the same two gaps, and pure privacy of Laplace noise or
  the Gaussian mechanism's own curve. The latter two also serve for noise beyond the range of that analysis.
- *Three or more classes, optimal vote*: all histograms are listed.
- *Gates*: `dpensemble.accounting.price` adds the cost of the threshold check.

Many counts of two classes
--------------------------
Few pairs dominate all neighbours on a long lattice of counts.

When the chance T of the second label rises with its count, neighbours are ``(T[l + s], T[l])`` for all counts
``l``, each of which is one operating point ``(T[l], T[l + s])`` above the diagonal. Points in a block lie below
the line that is parallel to the chord of its extremes and touches the block from above. The curve through the two
ends of that line is a law of three outcomes. It lies nowhere below the curve of any pair of the block, so it
dominates them (Blackwell). Blocks are halved until they stay close to the largest divergence of an actual pair
at several orders, or hold one pair only. These orders decide how tight the result is, never whether it holds.

Three and more classes by listing
---------------------------------
All histograms of few teachers are listed, and all moves of ballots.

For laws that treat all classes alike sorted histograms suffice. An analysis that allows for counts at any distance
overcharges Laplace noise of half the teachers by a third, since in truth a class with no votes still wins sometimes.
So listing is used when it takes seconds.

Three and more classes when a unit changes several votes
--------------------------------------------------------
The result is a Renyi curve.

Moving `k` ballots changes the counts by some vector ``d`` that sums to 0 and whose positive part sums to at most ``k``.
Such vectors are mixtures ``sum_i w_i d_i`` of those that move all ``k`` from one class to one other. The latter are
worst at every order (the project's own). Proof: the chance ``P_o(u)`` that class ``o`` wins at real counts ``u`` is
the mass that log-concave noise has in a convex cone moved by ``u``. Therefore ``P_o(u)`` is log-concave in ``u`` (A.
Prékopa, "On logarithmic concave measures and functions", Acta Sci. Math. 34, 1973, Theorems 2 and 6). So with ``Q =
P(u + d)``, ``Q_i = P(u + d_i)`` and an order ``a > 1``

    ``sum_o P_o**a Q_o**(1-a) <= sum_o prod_i (P_o**a Q_io**(1-a))**w_i <= prod_i (sum_o P_o**a Q_io**(1-a))**w_i``

by Hölder's inequality, which is at most the largest of the factors. This holds for moments, not for the hockey-stick
function, so the result is a curve without pairs.

*From a mixed law to the law itself.* `dpensemble.accounting.two_gaps` bounds the moment of ``d_i`` for laws mixed with
the uniform one. As there, an outcome adds ``f(l, g)``, convex in its smaller probability ``l``. Mixing adds some ``c``
to that, which lowers it by at most ``c a (a-1) x**(a-2) (x-1)**2 / 2``, where ``x`` is the larger ratio of both
probabilities and ``a >= 2``.

- Laplace noise: ``x <= exp(2 s)`` for a shift of ``s`` scales.
- Gaussian noise: an outcome is an event under a shift of ``m = sqrt(2) s`` deviations, so its larger probability is at
  most ``Phi(Phi^{-1}(l) + m)``. For ``l >= Phi(y)`` this bounds ``x``. For smaller ``l`` all of ``f`` counts, which is
  at most ``Phi(y+m)**a Phi(y)**(1-a)`` or ``(a-1) Phi(y+m)``. The former rises in ``y`` while ``a m <= -y`` (the
  inverse Mills ratio at ``y`` exceeds ``-y`` and changes by at most ``m``).

The sampled law is a mixture of the law, the uniform law and, for rounding, a law near uniform. Moments are jointly
convex, so the larger of the law's and the rounding's is enough.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, permutations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from dpensemble._checks import integer_between, real_between
from dpensemble._entries import Floats, Integers
from dpensemble.accounting.two_gaps import two_gap_pairs
from dpensemble.cost import DEFAULT_ORDERS, DominatingPairs, PrivacyCost
from dpensemble.cost.pairs import ranks
from dpensemble.errors import AccountingError
from dpensemble.laws import (
    ByLaw,
    ExponentialVote,
    GaussianNoisyMax,
    LaplaceNoisyMax,
    RandomizedResponse,
    ReleaseLaw,
    mixed_probabilities,
)
from dpensemble.laws.choice import is_proven
from dpensemble.laws.sampling import PROBABILITY_ERROR

# Tables over all counts stay within seconds and a gigabyte.
_MOST_BALLOTS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Ballots of one weight that one unit can move from any classes to any others. Public.

    Parameters
    ----------
    ballots : int
        Sum of the weights of all ballots, at most a million. When each weighs 1, this is their number.
    classes : int
        Number of declared classes.
    votes : int, default=1
        Most ballots that one unit can change.
    weight : int, default=1
        Weight of each of those ballots. Other units' ballots may have other weights.

    Raises
    ------
    InvalidParameterError
        If a number is out of range.

    Examples
    --------
    >>> Change(ballots=250, classes=2, votes=3, weight=2).moved
    6
    """

    ballots: int
    classes: int
    votes: int = 1
    weight: int = 1

    def __post_init__(self) -> None:
        integer_between("ballots", self.ballots, 1, _MOST_BALLOTS)
        integer_between("classes", self.classes, 2)
        integer_between("votes", self.votes, 1)
        integer_between("weight", self.weight, 1)
        # No more ballots of this weight fit into the sum of all.
        object.__setattr__(self, "votes", min(self.votes, max(1, self.ballots // self.weight)))

    @property
    def moved(self) -> int:
        """Weight of all ballots that can change."""
        return self.votes * self.weight


def second_class_table(law: ReleaseLaw, n_teachers: int) -> tuple[Floats, bool]:
    """Return the sampled law of two classes for 0 to `n_teachers` votes for the second class, and whether it rises.

    The law has one row for each number of votes. It rises when there are two outcomes and the second one's chance never
    falls, so that far rows are worst.
    """
    second = np.arange(n_teachers + 1)
    table = mixed_probabilities(law, np.stack([n_teachers - second, second], axis=1))
    return table, table.shape[1] == 2 and bool(np.all(np.diff(table[:, 1]) >= -PROBABILITY_ERROR))


def reachable_offsets(n_classes: int, votes: int, limit: int) -> Integers | None:
    """Return all changes of the counts by moving up to `votes` ballots, or None if there are more than `limit`."""
    source, target = np.nonzero(~np.eye(n_classes, dtype=bool))
    steps: NDArray[Any] = np.zeros((len(source), n_classes), dtype=np.int64)
    steps[np.arange(len(steps)), source] -= 1
    steps[np.arange(len(steps)), target] += 1
    offsets = np.zeros((1, n_classes), dtype=np.int64)
    for _ in range(votes):
        further = (offsets[:, None, :] + steps).reshape(-1, n_classes)
        offsets = np.unique(np.concatenate([offsets, further]), axis=0)
        if len(offsets) > limit + 1:
            return None
    return offsets[offsets.any(axis=1)]


# Up to this many counts all pairs are listed.
_MOST_LISTED = 20_000
_ORDERS = np.concatenate([2.0 ** np.arange(1, 12.25, 0.25), [2.0**14, 2.0**17, 1e6]])
# Points that matter only at tiny epsilons may be looser.
_TOLERANCES = np.select([_ORDERS < 1000, _ORDERS < 5000, _ORDERS < 20_000], [1e-3, 3e-3, 0.1], 1.0)
_LARGEST_BLOCK = 1024
# The share of the chance of the likeliest outcome's complement that a block may use up.
_LEAST_REST = 0.5
_LEAST_EXTENT = 1e-9


def _block_pairs(second: Floats, step: int) -> DominatingPairs:
    """Return pairs that dominate moving a count up or down by at most `step`, both ways. `second` must not fall."""
    last = len(second) - 1
    here = np.arange(last)
    low, high = second[here], second[np.minimum(here + step, last)]
    size = min(_LARGEST_BLOCK, 2 ** int(np.log2(max(1, last))))
    starts = np.arange(0, last, size)
    best = np.zeros(len(_ORDERS))
    kept_p, kept_q = [], []
    while size >= 1:
        # Beyond the end the last pair is repeated.
        members = np.minimum(starts[:, None] + np.arange(size), last - 1)
        first = members[:, 0]
        best = np.maximum(best, _divergences(_laws(high[first]), _laws(low[first])).max(axis=0))
        p, q = _touching(low[members], high[members])
        rest = _LEAST_REST * (1 - high[members].max(axis=1))
        possible = p[:, 2] >= rest
        fine = possible.copy()
        fine[possible] = np.all(_divergences(p[possible], q[possible]) <= best * (1 + _TOLERANCES), axis=1)
        if size == 1:
            fine[:] = True
        kept_p.append(p[fine])
        kept_q.append(q[fine])
        size //= 2
        starts = (starts[~fine][:, None] + np.array([0, size])).ravel()
        starts = starts[starts < last]
        if not starts.size:
            break
    return DominatingPairs(np.concatenate(kept_p), np.concatenate(kept_q)).both_ways()


def _touching(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return one pair of laws for each row of operating points, above all of them."""
    left, right = low.min(axis=1), low.max(axis=1)
    bottom, top = high.min(axis=1), high.max(axis=1)
    slope = np.divide(top - bottom, right - left, out=np.zeros_like(left), where=right > left)
    line = bottom[:, None] + slope[:, None] * (low - left[:, None])
    raised = np.maximum((high - line).max(axis=1), 0.0)
    start, end = bottom + raised, top + raised
    # If the line is hardly longer than rounding, the corner above and to the left of all points replaces it.
    corner = (right - left < _LEAST_EXTENT) | (end - start < _LEAST_EXTENT)
    start, end, right = np.where(corner, top, start), np.where(corner, top, end), np.where(corner, left, right)
    p = np.stack([start, end - start, 1 - end], axis=1)
    return p, np.stack([left, right - left, 1 - right], axis=1)


def _laws(chances: Floats) -> Floats:
    return np.stack([chances, 1 - chances], axis=1)


def _divergences(p: Floats, q: Floats) -> Floats:
    """Return each pair's larger divergence of the two directions."""
    if not len(p):
        return np.zeros((0, len(_ORDERS)))
    pairs = DominatingPairs(p, q)
    return np.maximum(pairs.renyi_of_each(_ORDERS), DominatingPairs(q, p).renyi_of_each(_ORDERS))


# Pairs of histograms that can be listed within seconds.
_MOST_PAIRS, _MOST_CHANGES, _MOST_LISTED_BALLOTS = 1_000_000, 10_000, 5_000
_N_LEVELS, _OFF = 100, 1e-11
# Pairs that can be listed and grouped within a few seconds, and by how much groups may exceed the worst of them.
_MOST_SOON, _TOLERANCE = 200_000, 0.003
_MOST_CHECKED = 3_000_000


def _can_list(law: ReleaseLaw, change: Change) -> bool:
    """Return whether the pairs of histograms are few enough to list."""
    return _changes(law, change) is not None


def _changes(law: ReleaseLaw, change: Change) -> NDArray[np.int64] | None:
    """Return all changes of the counts, or None if they give too many pairs."""
    if change.ballots > _MOST_LISTED_BALLOTS:
        return None
    offsets = reachable_offsets(change.classes, change.votes, _MOST_CHANGES)
    if offsets is None:
        return None
    every = math.comb(change.ballots + change.classes - 1, change.classes - 1)
    n_rows = _n_sorted(change.ballots, change.classes) if law.symmetric else every
    # The declared symmetry of a user's law is checked on all histograms.
    checkable = is_proven(law) or every <= _MOST_CHECKED
    return change.weight * offsets if n_rows * len(offsets) <= _MOST_PAIRS and checkable else None


@lru_cache(maxsize=16)
def _listed_cost(law: ReleaseLaw, change: Change) -> PrivacyCost:
    """Return the exact worst-case cost of one answer, over all histograms and all neighbours. Requires `_can_list`."""
    # All whole counts are treated as reachable, for all weights of other ballots.
    changes = _changes(law, change)
    assert changes is not None  # noqa: S101
    pairs = _pairs(law, change.ballots, change.classes, changes)
    # The law of the sorted row and the sampled one are each within the error of the exact law.
    return PrivacyCost.of(_side_by_side(pairs).inflated(2 * PROBABILITY_ERROR))


def _is_listed_soon(law: ReleaseLaw, change: Change, widest: float) -> bool:
    """Return whether counts are few, and so near each other that an analysis of all gaps would charge much more.

    `widest` is the largest gap between two counts, in units of the noise, that is near.
    """
    near = is_proven(law) and change.ballots <= widest * law.noise
    changes = _changes(law, change) if near else None
    return changes is not None and _n_sorted(change.ballots, change.classes) * len(changes) <= _MOST_SOON


@lru_cache(maxsize=16)
def _gathered_cost(law: ReleaseLaw, change: Change) -> PrivacyCost:
    """Return the cost of one answer as `_listed_cost` does, from few pairs that each stand for similar pairs."""
    changes = _changes(law, change)
    assert changes is not None  # noqa: S101
    pairs = _pairs(law, change.ballots, change.classes, changes).inflated(2 * PROBABILITY_ERROR)
    return PrivacyCost.of(pairs.few(_TOLERANCE, math.inf))


def _n_sorted(total: int, n_parts: int) -> int:
    """Return the number of partitions of `total` into at most `n_parts` parts."""
    ways = [1] + [0] * total
    for part in range(1, n_parts + 1):
        for sum_ in range(part, total + 1):
            ways[sum_] += ways[sum_ - part]
    return ways[total]


def sorted_histograms(total: int, n_classes: int) -> NDArray[np.int64]:
    """Return all rows of counts with that sum, each falling from the first class to the last."""
    rows, left = np.zeros((1, 0), dtype=np.int64), np.array([total])
    for place in range(n_classes):
        highest = np.minimum(left, rows[:, -1]) if place else left
        # The remaining classes can hold at most as much as this class.
        lowest = -(-left // (n_classes - place))
        n_values = np.maximum(highest - lowest + 1, 0)
        parent = np.repeat(np.arange(len(rows)), n_values)
        value = highest[parent] - (np.arange(len(parent)) - (np.cumsum(n_values) - n_values)[parent])
        rows, left = np.column_stack([rows[parent], value]), left[parent] - value
    return rows


def histograms(total: int, n_classes: int) -> NDArray[np.int64]:
    """Return all rows of counts with that sum."""
    bars = np.array(list(combinations(range(total + n_classes - 1), n_classes - 1)))[::-1]
    ends = np.column_stack([np.full(len(bars), -1), bars, np.full(len(bars), total + n_classes - 1)])
    return np.diff(ends, axis=1) - 1


def _pairs(law: ReleaseLaw, n_teachers: int, n_classes: int, changes: NDArray[np.int64]) -> DominatingPairs:
    """Return the law of every listed histogram beside that of each neighbour, in the classes' own order."""
    rows = (sorted_histograms if law.symmetric else histograms)(n_teachers, n_classes)
    radix = (n_teachers + 1) ** np.arange(n_classes, dtype=np.int64)
    order_of_keys = np.argsort(rows @ radix)
    keys = (rows @ radix)[order_of_keys]
    if np.any(np.diff(keys) <= 0):
        raise AccountingError(
            f"n_classes={n_classes} is too large to list the histograms of {n_teachers} teachers: use 'gnmax'."
        )
    probabilities = mixed_probabilities(law, rows)
    if law.symmetric and not is_proven(law):
        _require_symmetry(law, rows, probabilities)
    here, there = [], []
    for change in changes:
        moved = rows + change
        possible = moved.min(axis=1) >= 0
        order = np.argsort(-moved[possible] if law.symmetric else 0 * moved[possible], axis=1, kind="stable")
        place = order_of_keys[np.searchsorted(keys, np.take_along_axis(moved[possible], order, axis=1) @ radix)]
        there.append(_by_class(probabilities[place], order))
        here.append(probabilities[possible])
    # Changes include their opposites, so both orders of every pair are among these.
    return DominatingPairs(np.concatenate(here), np.concatenate(there))


def _by_class(probabilities: NDArray[np.float64], order: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return outcomes of sorted rows in the classes' own order. Outcomes after the classes stay in place."""
    n_classes = order.shape[1]
    outcomes = probabilities.copy()
    outcomes[:, :n_classes] = np.take_along_axis(probabilities[:, :n_classes], np.argsort(order, axis=1), axis=1)
    return outcomes


def _require_symmetry(law: ReleaseLaw, rows: NDArray[np.int64], probabilities: NDArray[np.float64]) -> None:
    """Refuse a law that declares symmetry and lacks it, by trying every order of every sorted row."""
    n_classes = rows.shape[1]
    for order in permutations(range(n_classes)):
        turned = list(order)
        actual = mixed_probabilities(law, rows[:, turned])
        expected = np.column_stack([probabilities[:, turned], probabilities[:, n_classes:]])
        if np.abs(actual - expected).max() > 2 * PROBABILITY_ERROR:
            raise AccountingError(
                f"law={type(law).__name__} declares symmetric=True but does not treat classes alike: set it to False."
            )


def _side_by_side(pairs: DominatingPairs) -> DominatingPairs:
    """Put pairs next to those with nearly the same curve, which lets exact composition group them."""
    corners = pairs.vertices()
    # Levels are not halfway between chances that laws have by symmetry, and rounding decides no tie.
    levels = np.round(corners[:, 1, 0] * _N_LEVELS + _OFF)
    order = np.lexsort((ranks(corners[:, 2, 0], _OFF / _N_LEVELS), levels))
    return DominatingPairs(pairs.p[order], pairs.q[order])


# The smallest shift that the covering of two gaps supports.
_MIXED = 1e-7
# Tails beyond which a Gaussian outcome is charged in full. The best of them is taken.
_TAILS = -np.arange(4.0, 20.0, 1.0)
_ROUND_UP = 1 + 1e-9


@lru_cache(maxsize=128)
def _several_votes_rdp(noise: Literal["gaussian", "laplace"], shift: float, n_classes: int, rounding: float) -> Floats:
    """Return an upper bound on the Renyi divergence of one noisy maximum at `DEFAULT_ORDERS`.

    The shift is in units of the noise.
    """
    orders = DEFAULT_ORDERS
    mixed = two_gap_pairs(noise, shift, n_classes, _MIXED).renyi(orders)
    added = _MIXED / n_classes / (1 - _MIXED)
    with np.errstate(over="ignore", invalid="ignore"):
        mixing_loss = _laplace(orders, shift, added) if noise == "laplace" else _gaussian(orders, shift, added)
        moment = np.expm1((orders - 1) * mixed) / (1 - _MIXED) + 3 * mixing_loss
        divergences = np.log1p(moment) / (orders - 1)
    # RR at a pure epsilon: Bun and Steinke 2016, Proposition 3.3.
    divergences = np.maximum(np.where(np.isfinite(divergences), divergences, np.inf), orders * rounding**2 / 2)
    return divergences * _ROUND_UP


def _laplace(orders: Floats, shift: float, added: float) -> Floats:
    return added * _slope(orders, 2 * shift)


def _gaussian(orders: Floats, shift: float, added: float) -> Floats:
    moved = np.sqrt(2) * shift
    best = np.full_like(orders, np.inf)
    for tail in _TAILS.tolist():
        low, high = float(log_ndtr(tail)), float(log_ndtr(tail + moved))
        near = added * _slope(orders, high - low)
        far = np.maximum(np.exp(orders * high + (1 - orders) * low), (orders - 1) * np.exp(high))
        here = np.where(orders * moved <= -tail, np.maximum(near, far), np.inf)
        best = np.minimum(best, here)
    return best


def _slope(orders: Floats, loss: float) -> Floats:
    """Return ``a (a-1) x**(a-2) (x-1)**2 / 2`` at a ratio ``x = exp(loss)``."""
    return orders * (orders - 1) / 2 * np.exp((orders - 2) * loss) * np.expm1(loss) ** 2


# Beyond this pure epsilon a probability of randomized response is lost to rounding.
_LARGEST_EPSILON = 500.0
# Range of one vote in units of the noise for which three and more classes are analysed.
_SMALLEST_SHIFT, _LARGEST_SHIFT = 1e-4, 4.0
# Counts farther apart than this are priced as if they could be at any distance, which costs little there.
_LARGEST_GAP_LAPLACE, _LARGEST_GAP_GAUSSIAN = 12.0, 4.0
# Cells for the start of a bounded range.
_CELLS = 1024


def worst_case_cost(law: ReleaseLaw, change: Change) -> PrivacyCost:
    """Return the most that one answer can cost, over all votes and all neighbours. Public."""
    # With two classes all whole counts up to the sum of weights are treated as reachable. They contain every sum of
    # ballots, for all weights of the other ballots, so the bound holds.
    refuse_students(law)
    general = _of_any_classes(law, change)
    if general is not None:
        return general
    cost = _two_classes(law, change) if change.classes == 2 else _many_classes(law, change)
    if not is_proven(law):
        _refuse_false(law, change, cost)
    return cost


def _declared(law: ReleaseLaw, change: Change) -> float | None:
    """Return the pure epsilon that a law declares, unless a parent with other probabilities declared it."""
    ancestors = type(law).__mro__
    claim, answers = (
        next(place for place, kind in enumerate(ancestors) if name in vars(kind))
        for name in ("pure_epsilon", "probabilities")
    )
    return law.pure_epsilon(change.moved) if claim <= answers else None


def _refuse_false(law: ReleaseLaw, change: Change, cost: PrivacyCost) -> None:
    """Refuse a user's law whose declared pure epsilon is false for the pairs that were listed."""
    declared_epsilon = _declared(law, change)
    if declared_epsilon is None or cost.parts is None:
        return
    pairs = cost.parts[0].pairs
    largest_loss = float(np.log(pairs.p / pairs.q).max())
    if not largest_loss <= declared_epsilon * (1 + 1e-6) + 1e-6:
        raise AccountingError(
            f"law={type(law).__name__} declares pure_epsilon={declared_epsilon:g} of {change.moved} votes and loses "
            f"{largest_loss:.6g}: declare an epsilon that holds, or nothing."
        )


@ByLaw
def _of_any_classes(law: ReleaseLaw, change: Change) -> PrivacyCost | None:  # noqa: ARG001
    """Return a price that holds for any number of classes, two included. Register a law here if it has one."""
    return None


@_of_any_classes.register(RandomizedResponse)
def _(law: RandomizedResponse, change: Change) -> PrivacyCost | None:
    # For every winner, a changed winner swaps two probabilities. Ties are averages of such laws.
    other = np.exp(-law.epsilon) / (1 + (change.classes - 1) * np.exp(-law.epsilon))
    rest = (change.classes - 2) * other
    table = np.array([[1 - rest - other, other, rest]])
    return PrivacyCost.of(DominatingPairs(table, table[:, [1, 0, 2]]))


@lru_cache(maxsize=64)
def _two_classes(law: ReleaseLaw, change: Change) -> PrivacyCost:
    if change.ballots > _MOST_LISTED:
        table, rising = second_class_table(law, change.ballots)
        if rising:
            return PrivacyCost.of(_block_pairs(table[:, 1], change.moved).inflated(PROBABILITY_ERROR))
    return PrivacyCost.of(_table_pairs(law, change))


def _table_pairs(law: ReleaseLaw, change: Change) -> DominatingPairs:
    """Return all neighbouring pairs of the sampled laws of two classes, in both directions up to the labels' names."""
    refuse_students(law)
    second = np.arange(change.ballots + 1)
    table, rising = second_class_table(law, change.ballots)
    # If a law does not rise, or has further outcomes, a smaller change may be worse.
    shifts = [change.votes] if rising else range(1, change.votes + 1)
    # If a law treats the classes alike, moving down is moving up with the labels swapped.
    uneven = float(np.abs(table - table[::-1, [1, 0, *range(2, table.shape[1])]]).max())
    alike = uneven <= PROBABILITY_ERROR
    steps = [shift * change.weight * sign for shift in shifts for sign in ((1,) if alike else (1, -1))]
    moved = np.concatenate([np.clip(second + step, 0, change.ballots) for step in steps])
    here = np.tile(second, len(steps))
    apart = moved != here
    error = PROBABILITY_ERROR + (uneven if alike else 0.0)
    return DominatingPairs(table[moved[apart]], table[here[apart]]).inflated(error)


@ByLaw
def _many_classes(law: ReleaseLaw, change: Change) -> PrivacyCost:
    """Return the price for three and more classes. A law that is not registered is listed, or pure."""
    if _can_list(law, change):
        return _listed_cost(law, change)
    declared_epsilon = _declared(law, change)
    if declared_epsilon is None:
        raise AccountingError(_no_price(law, change))
    epsilon = real_between("pure_epsilon", declared_epsilon, 1e-9, 1e12)
    # The mixing must pay for what the sampler's rounding may add.
    least_weight = 2 * PROBABILITY_ERROR * change.classes**2 / -np.expm1(-epsilon)
    if law.mixing_weight(change.classes) < least_weight:
        raise AccountingError(
            f"law={type(law).__name__} has a mixing_weight too small for its pure_epsilon={epsilon:g}: return "
            "dpensemble.laws.least_mixing_weight of that epsilon, or use less noise."
        )
    return PrivacyCost.pure(epsilon)


def _no_price(law: ReleaseLaw, change: Change) -> str:
    """Return the error text for a law without a price, with its remedies."""
    own = "" if is_proven(law) else ", or define pure_epsilon"
    return (
        f"law={law.name or type(law).__name__!r} cannot be accounted for with n_classes={change.classes} and "
        f"{change.ballots:,} {'teachers' if change.moved == 1 else 'ballots'}: use law='gnmax', two classes or fewer "
        f"teachers{own}."
    )


@_many_classes.register(LaplaceNoisyMax)
def _(law: LaplaceNoisyMax, change: Change) -> PrivacyCost:
    if _is_listed_soon(law, change, _LARGEST_GAP_LAPLACE):
        return _gathered_cost(law, change)
    if change.votes == 1 and _covered(change.weight / law.scale):
        return _noisy_max("laplace", law, change.weight / law.scale, change.classes)
    pure = PrivacyCost.pure(law.pure_epsilon(change.moved))
    return _with_curve(pure, "laplace", law, change.moved / law.scale, change.classes)


@_many_classes.register(GaussianNoisyMax)
def _(law: GaussianNoisyMax, change: Change) -> PrivacyCost:
    if change.votes == 1 and _covered(change.weight / law.sigma):
        curve_cost = _noisy_max("gaussian", law, change.weight / law.sigma, change.classes)
    else:
        # Papernot et al. 2018, Proposition 8: two counts move by at most the ballots' weight each.
        published = PrivacyCost(rdp=DEFAULT_ORDERS * (change.moved / law.sigma) ** 2)
        curve_cost = _with_curve(published, "gaussian", law, change.moved / law.sigma, change.classes)
    if not _is_listed_soon(law, change, _LARGEST_GAP_GAUSSIAN):
        return curve_cost
    # Between the orders at which groups are compared, groups may exceed the known curve, which is close here.
    listed = _gathered_cost(law, change)
    return PrivacyCost(rdp=np.minimum(curve_cost.rdp, listed.rdp), parts=listed.parts)


def _with_curve(
    known: PrivacyCost, noise: Literal["gaussian", "laplace"], law: ReleaseLaw, shift: float, n_classes: int
) -> PrivacyCost:
    """Return a cost with the smaller of its Renyi curve and that of several votes, if the latter exists."""
    if not _covered(shift):
        return known
    rounding = 5 * PROBABILITY_ERROR * n_classes**2 / law.mixing_weight(n_classes)
    several = _several_votes_rdp(noise, shift, n_classes, rounding)
    return PrivacyCost(rdp=np.minimum(known.rdp, several), parts=known.parts)


@_many_classes.register(ExponentialVote)
def _(law: ExponentialVote, change: Change) -> PrivacyCost:
    if _can_list(law, change):
        return _listed_cost(law, change)
    # Losses of one answer lie in a range of that width, whose start depends on the votes. The price covers every start
    # (Dong, Durfee and Rogers 2020, section 3).
    mixed = law.mixing_weight(change.classes)
    return bounded_range_cost(law.pure_epsilon(change.moved), 2 * PROBABILITY_ERROR * change.classes**2 / mixed)


@lru_cache(maxsize=64)
def bounded_range_cost(width: float, slack: float) -> PrivacyCost:
    """Price answers whose losses lie in a range of some width, widened by a slack that pays for rounding.

    Losses between two values are dominated by the pair of laws that takes those two alone. Ranges that start in the
    same cell share a pair that covers them all.
    """
    if width > _LARGEST_EPSILON:
        return PrivacyCost.pure(width)
    starts = np.linspace(0.0, width, _CELLS + 1)
    high, low = starts[1:] + slack, starts[:-1] - width - slack
    likelier = -np.expm1(low) / -np.expm1(low - high)
    p = np.stack([likelier, 1 - likelier], axis=1)
    return PrivacyCost.of(DominatingPairs(p, p * np.exp(-np.stack([high, low], axis=1))))


@lru_cache(maxsize=64)
def _noisy_max(noise: Literal["gaussian", "laplace"], law: ReleaseLaw, shift: float, n_classes: int) -> PrivacyCost:
    """Price noisy-max over two gaps. Half of the sampler's mixing pays for its rounding."""
    # The sampled law is a mixture. With weight ``w / 2`` it is a law within a factor ``exp(eta)`` of uniform (all
    # rounding errors, spread over that half), which randomized response at ``eta`` dominates. Otherwise it is the other
    # half's mixture, which the pairs dominate.
    weight = law.mixing_weight(n_classes)
    pairs = two_gap_pairs(noise, shift, n_classes, weight / 2)
    eta = 5 * PROBABILITY_ERROR * n_classes**2 / weight
    if not pairs.dominate_randomized_response(eta):
        raise AccountingError("the noise must be smaller, since the sampler's rounding outweighs it: use less noise.")
    return PrivacyCost.of(pairs)


def refuse_students(law: ReleaseLaw) -> None:
    """Refuse a law whose answers depend on a student's predictions as well as on the counts."""
    if law.needs_student:
        raise AccountingError(
            f"{type(law).__name__} depends on a student too, so counts alone cannot price it, and it has no "
            "data-dependent analysis: use price, in the worst case."
        )


def _covered(shift: float) -> bool:
    return _SMALLEST_SHIFT <= shift <= _LARGEST_SHIFT
