"""The cost of one answer: a registry of prices by law and change of votes, and laws with a price of their own.

The threshold check of Confident- and Interactive-GNMax
-------------------------------------------------------

A query is two answers: whether it passes, then (if so) a label. The highest count and the highest surplus over the
student's expectation both move by at most the weight of each ballot that changes. So the check releases one bit that
is 1 with probability ``Phi(y)`` at a real ``y`` that moves by at most ``s = votes / sigma``, where votes is the sum of
those weights.

Its operating points ``(Phi(y), Phi(y + s))`` lie on one concave curve. Between two neighbouring points the tangents
cross above the curve. Between two such crossings the curve lies below the tangent that joins them. So every point is
below a chord of two of them or of the ends, and (joint convexity) finitely many pairs dominate all ``|y| <= 8``. For
``y < -8`` and ``order * s <= 8`` the Renyi moment is at most ``1 + Phi(y + s)**order Phi(y)**(1 - order)``, which
rises in ``y`` (the inverse Mills ratio at ``y`` exceeds ``|y|`` and changes by at most ``s``), so it is largest at
-8. Beyond 8 the rare outcome loses mass and the divergence is below rounding. Post-processing of the Gaussian
mechanism caps everything at the published ``order * s**2 / 2`` (Papernot et al. 2018, section 4.2).

The sampler mixes the whole answer with the uniform law. This is a mixture with a law that rounding keeps within
``exp(0.6 / largest sigma)`` of uniform, which costs less than check and label.

A sparse noisy maximum
----------------------
Its cost is that of two gaps, and of what a class of a single vote can reveal.

The law (`dpensemble.laws.sparse`) adds noise ``Z_c`` to the counts of the classes ``supp(n)`` that have votes. The law
releases the class of the largest noisy count if that count is at least ``T``, and otherwise nothing. With a small
chance ``w`` it releases the outcome of a law of no votes: every class of the support with chance ``f``, nothing with
the rest.

*A fixed set.* For a set ``S`` that does not depend on the votes let ``M_S(n)`` do the same with the classes of ``S``,
for every table of counts. Let one ballot move from class a to class b, both in ``S``. Given the larger of ``T`` and the
largest noisy count of the others, which no ballot for a or b changes, either a wins, or b, or neither. That is the
reduction of `dpensemble.accounting.two_gaps`, with "nothing" among the others, so its pairs
dominate ``M_S(n), M_S(n')``, mixed with a law that leaves each of the three at least ``f``.

*The support.* Let ``S = supp(n) u supp(n')``. ``S`` has at most one class more than ``supp(n)``, b, and then ``n_b =
0``. ``S`` has at most one more than ``supp(n')``, a, and then ``n_a = 1``. With ``t0 = P(Z >= T)``, ``t1 = P(1 + Z >=
T)``:

- Given ``Z_b < T`` class b cannot win, and whether another wins no longer depends on b: ``M_S(n)`` given that event is
  ``M(n)``. So ``M(n)(o) <= M_S(n)(o) / (1 - t0)`` for every outcome. Mixing adds alike, but ``f`` more to "nothing".
- Without a in the race every other outcome is at least as likely: ``M(n')(o) >= M_S(n')(o)`` for ``o != a``.
- ``M(n)`` gives a with a chance of at most ``t1 + f``.

So up to a mass of ``t1 + 2 f`` the law on ``n`` is at most ``exp(eta)`` times that of ``M_S(n)``, ``eta = -log(1 -
t0)``, on outcomes other than a, where the law on ``n'`` is at least that of ``M_S(n')``. Both steps hold for each of
``Q`` answers given those before it. The masses add up, and so do the ``eta``. If ``Q`` answers of fixed sets have
``delta_S(epsilon)``, those of the sparse law are private with

    ``epsilon + Q eta``  and  ``exp(Q eta) (delta_S(epsilon) + exp(epsilon) Q rho) + Q (t1 + 2 f + rho)``,

where ``rho``, the number of voters and one times the error of a probability, bounds how far rounding moves a law in
total variation, on either side. (The project's own. Thresholds on what occurs go back to Korolova et al. 2009.)
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from dpensemble._checks import delta_of, integer_between
from dpensemble.accounting.base import Accounting
from dpensemble.accounting.published import published_price
from dpensemble.accounting.two_gaps import two_gap_pairs
from dpensemble.accounting.worst_case import Change, worst_case_cost
from dpensemble.cost import DEFAULT_ORDERS, Conversion, Cost, DominatingPairs, GatedCost, PrivacyCost
from dpensemble.cost.composition import last_fitting
from dpensemble.cost.gated import GatedComposition
from dpensemble.errors import AccountingError
from dpensemble.guarantee import Budget
from dpensemble.laws import ReleaseLaw
from dpensemble.laws.choice import is_proven
from dpensemble.laws.sampling import PROBABILITY_ERROR
from dpensemble.laws.sparse import SparseNoisyMax

_REACH, _GATE_CELLS = 8.0, 2000
_SMALLEST_GATE_SHIFT = 1e-5


# Deviations beyond which a check is almost certain, and middles of the points whose tangents bound it.
_FARTHEST, _TANGENTS = 9.0, (0.0, -0.5, -1.2, -2.5)
# When a vote moves the chance far, rare outcomes lose much more than others.
_MORE_TANGENTS, _MUCH = (0.0, -0.4, -0.8, -1.2, -1.6, -2.1, -2.7, -3.5, -4.6, -6.0), 0.02
_OUTWARDS = 1e-12
#: Chance of an outcome beyond these deviations, by which a check within them differs.
_BEYOND = float(ndtr(-_FARTHEST))


@dataclass(frozen=True, slots=True)
class Price:
    """Cost of a query: the check always, the label only when the law releases one.

    Parameters
    ----------
    label : PrivacyCost
        Cost of a label.
    check : PrivacyCost or None
        Further cost of revealing whether the query passed a gate. None for laws that always answer.
    corners : DominatingPairs or None
        Corners of a polygon around a check's chances, when check and label can be composed exactly.
    """

    label: PrivacyCost
    check: PrivacyCost | None = None
    corners: DominatingPairs | None = None

    @property
    def answered(self) -> PrivacyCost:
        """Cost of an answered query. For a gated query with finite outcomes, the cost under a purse."""
        if self.check is None:
            return self.label
        both = self.check + self.label
        if self.corners is None or self.label.parts is None:
            return both
        # Losses beyond the grid leave the Renyi curve.
        with suppress(AccountingError):
            composition = _gated_composition(self.corners, self.label.parts[0].pairs, _BEYOND)
            return GatedCost(rdp=both.rdp, orders=both.orders, composition=composition, queries=1)
        return both


def price(law: ReleaseLaw, change: Change, accounting: Accounting = Accounting.EXACT) -> Price:
    """Return the most that one answer can cost, over all votes and all neighbours.

    Parameters
    ----------
    law : ReleaseLaw
        The law that answers. A law that compares with a student is priced for every possible prediction of the student.
    change : Change
        What one unit can do to the votes.
    accounting : Accounting, default="exact"
        Charge for what the label alone reveals, or by the published bound.

    Returns
    -------
    Price
        Public.

    Raises
    ------
    AccountingError
        If no price exists. The message names a remedy.

    Examples
    --------
    Laplace noise costs a quarter of the published price here, since the noisy counts stay secret:

    >>> from dpensemble.laws import LaplaceNoisyMax
    >>> law, change = LaplaceNoisyMax(125), Change(ballots=250, classes=2)
    >>> exact, published = price(law, change), price(law, change, Accounting.PUBLISHED)
    >>> round(float(exact.label.rdp[0] / published.label.rdp[0]), 3)
    0.25
    """
    exact = accounting is Accounting.EXACT
    of_label = worst_case_cost if exact else _published_cost
    if not is_proven(law):
        _require_law(law, change)
    if not law.gated:
        return Price(of_label(law, change))
    check = _gate_cost if exact else _published_gate_cost
    label, sigma = of_label(law.answer, change), law.gate.sigma  # type: ignore[attr-defined]
    corners = _check_corners(sigma, change.moved) if exact and label.parts is not None else None
    if corners is None or not _rounding_is_paid(law, label, change, change.moved / sigma):
        corners = None
    return Price(label, check(sigma, change.moved), corners)


def _published_cost(law: ReleaseLaw, change: Change) -> PrivacyCost:
    """Return the published data-independent cost of one label of a law without a gate."""
    return published_price(law, change)[0]


@lru_cache(maxsize=64)
def _gate_cost(sigma: float, votes: float) -> PrivacyCost:
    """Return the worst-case cost of one noisy threshold check on any real statistic that moves by `votes`."""
    shift = votes / sigma
    published = DEFAULT_ORDERS * shift**2 / 2
    if not _SMALLEST_GATE_SHIFT <= shift <= 1:
        return PrivacyCost(rdp=published)
    # The law is symmetric, so complements of these points, reversed, are those above -shift / 2.
    y = np.linspace(-_REACH - shift, -shift / 2, _GATE_CELLS)
    q, p = ndtr(y), ndtr(y + shift)
    slope = np.exp(-shift * (y + shift / 2))
    # Tangents at neighbouring points cross between them and above the curve.
    meet = (p[1:] - p[:-1] + slope[:-1] * q[:-1] - slope[1:] * q[1:]) / (slope[:-1] - slope[1:])
    meet = np.clip(meet, q[:-1], q[1:])
    height = np.minimum(p[:-1] + slope[:-1] * (meet - q[:-1]), p[1:])
    meet, height = np.concatenate([q[:1], meet, q[-1:]]), np.concatenate([p[:1], height, p[-1:]])
    passing = DominatingPairs(np.stack([height, 1 - height], axis=1), np.stack([meet, 1 - meet], axis=1))
    largest = passing.both_ways().renyi(DEFAULT_ORDERS)
    with np.errstate(over="ignore"):
        log_tail = DEFAULT_ORDERS * log_ndtr(shift - _REACH) - (DEFAULT_ORDERS - 1) * log_ndtr(-_REACH)
        tail = np.log1p(np.exp(log_tail)) / (DEFAULT_ORDERS - 1)
    exact = np.where(DEFAULT_ORDERS * shift <= _REACH, np.maximum(largest, tail), published)
    return PrivacyCost(rdp=np.minimum(exact, published))


def _published_gate_cost(sigma: float, votes: float) -> PrivacyCost:
    """Return the published cost of one noisy threshold check (Papernot et al. 2018, section 4.2)."""
    return PrivacyCost(rdp=DEFAULT_ORDERS / 2 * (votes / sigma) ** 2)


@lru_cache(maxsize=64)
def _check_corners(sigma: float, votes: float) -> DominatingPairs | None:
    """Return corners around all chances to pass, except `_BEYOND`. None if a vote moves a check too little or much."""
    shift = votes / sigma
    if not _SMALLEST_GATE_SHIFT <= shift <= 1:
        return None
    middle = np.array(_MORE_TANGENTS if shift > _MUCH else _TANGENTS)
    y = middle - shift / 2
    q, p, slope = ndtr(y), ndtr(y + shift), np.exp(-shift * middle)
    # The curve is concave and starts at 0, so beyond its last point it lies below the ray from 0 through that point.
    q, p = np.append(q, 0.0), np.append(p, 0.0)
    slope = np.append(slope, ndtr(shift - _FARTHEST) / ndtr(-_FARTHEST))
    meet = (p[:-1] - p[1:] - slope[:-1] * q[:-1] + slope[1:] * q[1:]) / (slope[1:] - slope[:-1])
    height = np.maximum(p[:-1] + slope[:-1] * (meet - q[:-1]), p[1:] + slope[1:] * (meet - q[1:])) * (1 + _OUTWARDS)
    # Either order of the inputs, and either name of the outcomes.
    first, second = np.stack([height, 1 - height], axis=1), np.stack([meet, 1 - meet], axis=1)
    half = DominatingPairs(np.concatenate([first, second[:, ::-1]]), np.concatenate([second, first[:, ::-1]]))
    return half.both_ways()


def _rounding_is_paid(law: ReleaseLaw, label: PrivacyCost, change: Change, shift: float) -> bool:
    """Return whether a check and a label reveal more than rounding can do to a gated answer."""
    # The sampled answer mixes the exact one with a law whose outcomes are all within a share of uniform, since its
    # weight bears all rounding errors. That law is a check with such chances, then such a label.
    outcomes = change.classes + 1
    share = PROBABILITY_ERROR * outcomes / law.mixing_weight(change.classes)
    passing = change.classes / outcomes
    within = ndtr(ndtri(passing * (1 - share)) + shift) >= passing * (1 + share)
    return bool(within) and label.parts[0].pairs.dominate_randomized_response(4.1 * share)  # type: ignore[index]


def _require_law(law: ReleaseLaw, change: Change) -> None:
    """Refuse an object that does not satisfy the protocol of a law, and name the remedy."""
    name, n_outcomes, n = type(law).__name__, change.classes, change.ballots
    # A law that can change, or that equals a different law, would keep a stale price.
    dataclass_params = vars(type(law)).get("__dataclass_params__")
    if dataclass_params is None or not dataclass_params.frozen or not all(field.compare for field in fields(law)):  # type: ignore[arg-type]
        raise AccountingError(
            f"law={name} must be a frozen dataclass that compares all settings: declare it by @dataclass(frozen=True)."
        )
    if law.gated or law.needs_student:
        raise AccountingError(
            f"law={name} has a gate or needs a student, which only laws of the library may have: answer every query."
        )
    try:
        hash(law)
    except TypeError:
        raise AccountingError(
            f"law={name} has a setting that cannot be hashed, such as an array: use tuples."
        ) from None
    first = np.unique(np.linspace(0, n, 20).astype(int))[::-1]
    counts = np.zeros((len(first), change.classes), dtype=np.int64)
    counts[:, 0], counts[:, 1] = first, n - first
    counts.flags.writeable = False
    try:
        probabilities = np.asarray(law.probabilities(counts))
    except ValueError as error:
        raise AccountingError(f"law={name} fails on read-only counts: {str(error).rstrip('.')}.") from None
    if probabilities.shape != (len(first), n_outcomes):
        raise AccountingError(
            f"law={name} gives probabilities of shape {probabilities.shape} for {len(first)} queries and "
            f"{change.classes} classes: return one row a query and {n_outcomes} columns."
        )
    alone = np.concatenate([law.probabilities(row[None]) for row in counts])
    if np.abs(alone - probabilities).max() > 2 * PROBABILITY_ERROR:
        raise AccountingError(
            f"law={name} gives a query other probabilities beside other queries than alone: compute each row by itself "
            "(axis=1)."
        )


_OUTCOMES = round(SparseNoisyMax.MIXING / SparseNoisyMax.FLOOR)
#: Classes with votes, one more for a neighbour, and "nothing" share the mixing.
_MOST_VOTERS = _OUTCOMES - 1000
# Share of the remaining delta that pays for rounding on the other side.
_ROUNDING_SHARE = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class SparseCost(Cost):
    """Privacy loss of answers of sparse noisy maxima: fixed sets, plus an addition to epsilon and one to delta."""

    # No Renyi curve bounds these answers, since a class of a single vote can show itself.
    fixed: PrivacyCost
    eta: float
    lost: float
    rounding: float

    def __post_init__(self) -> None:
        if not all(0 <= value < np.inf for value in (self.eta, self.lost, self.rounding)):
            raise AccountingError("every number of a privacy cost must be finite and not negative.")

    def __add__(self, other: SparseCost) -> SparseCost:
        if not isinstance(other, SparseCost):
            return NotImplemented
        return SparseCost(
            self.fixed + other.fixed, self.eta + other.eta, self.lost + other.lost, self.rounding + other.rounding
        )

    def __mul__(self, count: int) -> SparseCost:
        count = integer_between("count", count, 0, 2**62)
        return SparseCost(self.fixed * count, count * self.eta, count * self.lost, count * self.rounding)

    __rmul__ = __mul__

    def epsilon(self, delta: float, conversion: str = Conversion.BEST) -> float:
        """Return the epsilon that holds at `delta`, rounded up. Infinite if the answers use up the delta."""
        if not (self.fixed.rdp.any() or self.eta or self.lost or self.rounding):
            return 0.0
        left = self._left(delta_of(delta))
        if left < 1e-300:
            return math.inf
        epsilon = self.fixed.epsilon(left, conversion)
        return epsilon + self.eta if self._pays_rounding(epsilon, left) else math.inf

    def fits(self, budget: Budget, conversion: str = Conversion.BEST) -> bool:
        """Return whether the answers fit a budget."""
        left, epsilon = self._left(budget.delta), budget.epsilon - self.eta
        if left < 1e-300 or epsilon < 1e-9:
            return False
        if self._pays_rounding(epsilon, left):
            return self.fixed.fits(Budget(epsilon=epsilon, delta=left), conversion)
        # At such a large epsilon, rounding weighs more than at the epsilon that is needed.
        return self.epsilon(budget.delta, conversion) <= budget.epsilon

    def most(self, budget: Budget, conversion: str = Conversion.BEST, limit: int | None = None) -> int:
        """Return how many of the same answers fit a budget, at most `limit`."""
        if not self.fits(budget, conversion):
            return 0
        ceiling = self.fixed.most(budget, conversion, limit)
        return last_fitting(lambda count: (self * count).fits(budget, conversion), 1, 2.0, ceiling) if ceiling else 0

    def _left(self, delta: float) -> float:
        """Return the delta that remains for the answers of fixed sets, or 0 if nothing remains."""
        left = (delta - self.lost) * math.exp(-self.eta) * (1 - 1e-12)
        return max(0.0, left) * (1 - _ROUNDING_SHARE)

    def _pays_rounding(self, epsilon: float, left: float) -> bool:
        spare = left / (1 - _ROUNDING_SHARE) * _ROUNDING_SHARE
        return math.exp(min(epsilon, 700.0)) * self.rounding <= spare


def sparse_cost(law: SparseNoisyMax, n_voters: int) -> SparseCost:
    """Return the cost of one answer of a `SparseNoisyMax` to at most 9,000 voters, one ballot a unit."""
    rounding = (integer_between("n_voters", n_voters, 1, _MOST_VOTERS) + 1) * SparseNoisyMax.ERROR
    appears = math.exp(float(log_ndtr(-law.threshold / law.sigma))) * (1 + 1e-9)
    vanishes = math.exp(float(log_ndtr((1 - law.threshold) / law.sigma))) * (1 + 1e-9)
    fixed = PrivacyCost.of(two_gap_pairs("gaussian", 1 / law.sigma, _OUTCOMES, SparseNoisyMax.MIXING))
    return SparseCost(fixed, -math.log1p(-appears), vanishes + 2 * SparseNoisyMax.FLOOR + rounding, rounding)


@lru_cache(maxsize=12)
def _gated_composition(checks: DominatingPairs, labels: DominatingPairs, missed: float) -> GatedComposition:
    """Return the composition of such queries. Recent compositions are cached."""
    return GatedComposition(checks, labels, missed)
