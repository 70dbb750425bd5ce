r"""The most decisive law of two classes whose neighbouring answers obey a rule.

Let ``t(m)`` be the chance of the class that trails by ``2 m`` votes, and ``least(p)`` the smallest chance that
the rule allows beside ``p``. A unit that moves ``k`` votes requires

    ``t(m) >= least(t(m - k))`` for ``m >= k``, and ``t(m) >= least(1 - t(k - m))`` for ``m < k``.

*One vote.* Treating classes alike gives ``t(0) = 1/2`` (or, for an odd number of teachers, ``t(1/2)`` the fixed
point of ``least(1 - t)``). ``least`` rises, so equality everywhere is smallest at every margin at once, by
induction. The greedy law outwards from the tie is best for every prior, among all laws that treat classes alike.

*Several votes.* The chances at ``0 < m < k / 2`` are free, between the fixed point and 1/2. A smaller chance at
``m`` makes that at ``k - m`` larger. All else follows. Without a prior the free chances are spread evenly in
``arcsin(sqrt(t))``. With a prior a dynamic program over falling sequences on a grid finds the best.

The sampler's mixing puts the same uniform law on both sides of every pair, which lowers any divergence here
(joint convexity). So certainty at the far ends costs nothing more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpensemble._checks import delta_of, epsilon_of, integer_between, real_between
from dpensemble._entries import Floats
from dpensemble.errors import InvalidParameterError
from dpensemble.laws.tables import TableLaw

_GRID = 129
_HALVINGS = 64
_SMALLEST = 1e-300


class Rule(Protocol):
    """The condition on neighbouring answers, in both directions."""

    def least(self, p: Floats) -> Floats:
        """Return the smallest chance, at most `p`, that is allowed beside each `p`. It rises with `p`."""
        ...


@dataclass(frozen=True, slots=True)
class RenyiRule:
    """Neighbouring answers have Renyi divergence at most `cost`, in both directions.

    Parameters
    ----------
    order : float
        Above 1.
    cost : float
        In nats.

    Examples
    --------
    >>> RenyiRule(20.0, 0.01).least(np.array([0.5])).round(4)
    array([0.4837])
    """

    order: float
    cost: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", real_between("order", self.order, 1 + 1e-6, 1e5))
        object.__setattr__(self, "cost", real_between("cost", self.cost, 1e-12, 500.0))

    def least(self, p: Floats) -> Floats:
        """Return the smallest chance beside each `p`, by bisection of its logarithm, on the safe side."""
        low, high = np.full(p.shape, np.log(_SMALLEST)), np.log(np.maximum(p, _SMALLEST))
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            within = self._divergence(np.exp(middle), p) <= self.cost
            low, high = np.where(within, low, middle), np.where(within, middle, high)
        return np.exp(high)

    def _divergence(self, a: Floats, b: Floats) -> Floats:
        """Return the larger Renyi divergence of two coins over both directions."""
        up = np.log(a) - np.log(np.maximum(b, _SMALLEST))
        down = np.log1p(-a) - np.log1p(-np.minimum(b, 1 - 1e-16))
        rise = self.order - 1
        with np.errstate(over="ignore"):
            forth = a * np.expm1(rise * up) + (1 - a) * np.expm1(rise * down)
            back = b * np.expm1(-rise * up) + (1 - b) * np.expm1(-rise * down)
        return np.log1p(np.maximum(np.maximum(forth, back), 0.0)) / rise


@dataclass(frozen=True, slots=True)
class HockeyStickRule:
    """Neighbouring answers are ``(epsilon, delta)``-indistinguishable.

    Parameters
    ----------
    epsilon, delta : float
        Of one answer.

    Examples
    --------
    >>> HockeyStickRule(0.1, 1e-5).least(np.array([0.5])).round(4)
    array([0.4524])
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", epsilon_of(self.epsilon))
        object.__setattr__(self, "delta", delta_of(self.delta))

    def least(self, p: Floats) -> Floats:
        """Return the smallest chance beside each `p`."""
        beside = np.maximum((p - self.delta) * np.exp(-self.epsilon), p - self.delta - (1 - p) * np.expm1(self.epsilon))
        return np.maximum(beside, 0.0)


def decisive_law(rule: Rule, n_teachers: int, votes_per_unit: int = 1, prior: ArrayLike | None = None) -> TableLaw:
    """Return the most decisive law of two classes whose neighbouring answers obey a rule.

    Parameters
    ----------
    rule : Rule
        `RenyiRule`, `HockeyStickRule` or another rising rule that mirrors (allows ``p, p'`` when ``1 - p', 1 - p``).
    n_teachers : int
        Number of ballots, at most 100,000.
    votes_per_unit : int, default=1
        Most ballots that one unit can change.
    prior : array-like of shape (n_teachers + 1,), optional
        Weight of each margin by which the winner leads. With one vote a unit the law is best for every prior.

    Examples
    --------
    >>> law = decisive_law(RenyiRule(20.0, 0.01), n_teachers=50)
    >>> law.probabilities(np.array([[25, 25], [40, 10], [50, 0]])).round(3)
    array([[0.5  , 0.5  ],
           [0.725, 0.275],
           [0.841, 0.159]])
    """
    n_teachers = integer_between("n_teachers", n_teachers, 1, 100_000)
    votes = min(integer_between("votes_per_unit", votes_per_unit, 1), n_teachers)
    # Margins from the tie (or next to it) outwards, and their weights under the prior.
    margins = np.arange(n_teachers % 2, n_teachers + 1, 2)
    weights = None
    if prior is not None:
        weighted = np.asarray(prior, dtype=np.float64)
        if weighted.shape != (n_teachers + 1,) or not (np.all(weighted >= 0) and np.all(np.isfinite(weighted))):
            raise InvalidParameterError(f"prior must be {n_teachers + 1} weights, of margins from 0 to all votes.")
        weights = weighted[margins]
    trailing = _Outwards(rule, margins, votes, weights).trailing()
    rows = np.empty((n_teachers + 1, 2))
    ahead = (n_teachers + margins) // 2
    rows[ahead] = np.stack([trailing, 1 - trailing], axis=1)
    rows[n_teachers - ahead] = np.stack([1 - trailing, trailing], axis=1)
    rows[ahead[margins == 0]] = 0.5
    return TableLaw(tuple(map(tuple, rows.tolist())))


class _Outwards:
    """Builds the chance of the trailing class, margin after margin."""

    def __init__(self, rule: Rule, margins: NDArray[np.int64], votes: int, weights: Floats | None) -> None:
        self._rule, self._margins, self._votes, self._weights = rule, margins, votes, weights
        self._free = np.flatnonzero((margins > 0) & (margins < votes))

    def trailing(self) -> Floats:
        """Return the chance of the trailing class at every margin."""
        fixed = _fixed_point(lambda t: float(self._rule.least(np.array([1 - t]))[0]))
        if self._weights is None:
            # Even steps of the phase from the tie to the fixed point.
            low, tie = np.arcsin(np.sqrt(fixed)), np.pi / 4
            inner = np.sin(tie + (low - tie) * self._margins[self._free] / self._votes) ** 2
            return self._completed(fixed, inner[:, None])[:, 0]
        grid = np.linspace(fixed, 0.5, _GRID)
        errors = self._completed(fixed, np.broadcast_to(grid, (len(self._free), _GRID)))
        return self._completed(fixed, self._best(grid, errors)[:, None])[:, 0]

    def _completed(self, fixed: float, inner: Floats) -> Floats:
        """Return the law, one column for each column of free chances."""
        chances = np.empty((len(self._margins), inner.shape[1]))
        chances[self._margins == 0], chances[self._margins == self._votes] = 0.5, fixed
        chances[self._free] = inner
        for place in np.flatnonzero(self._margins > self._votes):
            near = self._margins[place] - 2 * self._votes
            beside = chances[(abs(near) - self._margins[0]) // 2]
            chances[place] = self._rule.least(beside if near >= 0 else 1 - beside)
        return chances

    def _best(self, grid: Floats, errors: Floats) -> Floats:
        """Return the free chances, falling with the margin, with least expected error."""
        assert self._weights is not None  # noqa: S101
        expected = self._weights[:, None] * errors
        cost = np.zeros((len(self._free), len(grid)))
        # The margins that follow from a free margin lie at its distance from multiples of twice the votes.
        remainder = self._margins % (2 * self._votes)
        for row, margin in enumerate(self._margins[self._free]):
            cost[row] = expected[np.isin(remainder, (margin, 2 * self._votes - margin))].sum(axis=0)
        choice = np.zeros(cost.shape, dtype=np.int64)
        best = np.zeros(len(grid))
        # From the largest margin inwards, the next chance may not be smaller.
        for row in range(len(cost) - 1, -1, -1):
            total = cost[row] + best
            lowest = np.minimum.accumulate(total)
            choice[row] = np.maximum.accumulate(np.where(total == lowest, np.arange(len(grid)), 0))
            best = lowest
        trailing = np.empty(len(cost))
        limit = len(grid) - 1
        for row in range(len(cost)):
            limit = choice[row][limit]
            trailing[row] = grid[limit]
        return trailing


def _fixed_point(falling: Callable[[float], float]) -> float:
    """Return the smallest value up to 1/2, on the safe side, that is at least its own image."""
    low, high = 0.0, 0.5
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if falling(middle) <= middle else (middle, high)
    return high
