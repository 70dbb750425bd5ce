"""Records that teachers hold by chance: bagging, bagged teachers with noisy votes, and voters drawn for each query.

Bagging without noise
---------------------
The law of the subsamples hardly depends on any one record.

Let ``S`` be all subsamples together, ``D`` a data set of ``n`` units, ``u`` one of them, and ``delta`` the
probability that ``u`` is drawn at all (`BootstrapScheme.inclusion_probability`). All units are equally likely,
so given that ``u`` is not drawn, ``S`` follows its law on ``D - u``::

    P(D) = (1 - delta) P(D - u) + delta R(u),      where every outcome of R(u) holds u.

- *Removal*: ``P(D - u)`` never holds ``u``, so the two parts are disjoint, and the mass of ``P(D)`` beyond
  ``e**epsilon P(D - u)`` is ``delta`` at every ``epsilon >= 0``. In the other direction that mass is
  ``max(0, 1 - e**epsilon (1 - delta))``, which is ``delta`` at epsilon 0 and less above.
- *Replacement* of ``u`` by ``v``: both laws share ``(1 - delta) P(D - u)`` and the rest is disjoint, which is
  ``delta`` in both directions at every epsilon.
- *Addition*: the pair of ``n`` and ``n + 1`` units has the delta of ``n + 1``, which is smaller. So with ``n``
  public the pair of ``n`` and ``n - 1`` is worst.

So ``(0, delta)`` holds under either relation. At epsilon 0 delta is the total variation distance. For a base
learner that distinguishes its records, no smaller delta holds at any epsilon (Theorems 5 and 6). Models, their
votes, and everything computed from them are post-processing of ``S``.

*Source.* "On the Intrinsic Differential Privacy of Bagging" (Liu, Jia and Gong), Theorems 3 to 6. The case of epsilon 0
and independent subsets are the project's own.

Bagging and a noisy vote together
---------------------------------

``B`` is the number of teachers that hold the record in question. Its law is public. Which teachers hold the record is
secret. Given ``B = b`` at most ``b`` ballots of every query change, and the whole run of adaptively chosen queries has
some ``delta_b(epsilon)``.

Let ``q = P(B >= 1)``. Let ``mu_0`` be the law of the released labels given that no teacher holds the record, and
``mu_1`` and ``mu_1'`` the laws given that some teacher holds it or its replacement. Then neighbouring data sets have
the laws ``(1 - q) mu_0 + q mu_1`` and ``(1 - q) mu_0 + q mu_1'`` (after a removal just ``mu_0``). For
``exp(epsilon') = 1 + q (exp(epsilon) - 1)`` advanced joint convexity (B. Balle, G. Barthe and M. Gaboardi,
"Privacy amplification by subsampling", NeurIPS 2018, Theorem 2) gives, with ``beta = exp(epsilon' - epsilon)``,

    ``delta(epsilon') = q H(mu_1 || (1 - beta) mu_0 + beta mu_1')``
    ``<= q ((1 - beta) H(mu_1 || mu_0) + beta H(mu_1 || mu_1')) <= sum over b >= 1 of P(B = b) delta_b(epsilon)``

where ``H`` is the hockey-stick divergence at ``epsilon``. The last step couples the draws. ``mu_1'`` uses the very same
draws. ``mu_0`` draws again, among the other records, wherever the record was drawn. Either way only the ``B`` teachers
that held the record change, and divergences are jointly convex in the coupled draws. All three schemes of
`dpensemble.allocation.Bootstrap` allow that coupling. The mixture is one of whole runs: the draws are made once, so
amplifying every query and composing would be wrong.

If a record is added, the first law is ``mu_0`` alone. Then ``H(mu_0 || (1 - q) mu_0 + q mu_1)`` at ``epsilon'`` is ``q
H(mu_0 || mu_1)`` at some ``exp(a) = (1 + q (x - 1)) / (1 - (1 - q) (x - 1))`` with ``x = exp(epsilon)``, or 0 if that
is not positive. And ``exp(a) >= x``, as the difference cross-multiplied is ``(1 - q) (x - 1)**2``. If all records are
drawn (``q = 1``), ``mu_0`` does not exist, ``beta`` is 1 and nothing is amplified. The pair of ``n`` and ``n + 1``
records costs less than that of ``n - 1`` and ``n``: its ``B`` is stochastically smaller, and ``delta_b`` rises with
``b``.

Records drawn again for every query
-----------------------------------
This is Poisson sampling, accounted query by query.

For every query each unit is drawn with probability ``r``, independently, and goes to one voter. Draws stay secret and
are independent between queries. Fix the draws of all other units. Let ``n`` be the votes without unit ``x``, ``n1``
those with ``x`` drawn, and ``L`` the law that is sampled, mixing and rounding included. ``n1`` differs from ``n`` in
one ballot, so the pair ``(L(n1), L(n))`` is among those that dominate one answer.

*Adding or removing x.* With ``x`` in the data the answer has the law ``(1 - r) L(n) + r L(n1)``, averaged over the
other draws. Without ``x`` it has the law ``L(n)``, averaged over the same draws. Divergences are jointly convex, so
some one pair ``((1 - r) Q + r P, Q)`` is at least as bad, in either direction, where ``(P, Q) = (L(n1), L(n))``. Any
channel that turns a dominating pair into ``(P, Q)`` turns its mixture into this mixture.
So the pairs of the law itself, mixed in this way, dominate. When all pairs of votes are listed and a drawn unit always
goes to the same voter, no smaller cost is true. Privacy that may come from dealing units to voters at random is not
counted.

*Replacing x by y.* The laws are ``(1 - r) L(n) + r L(n1)`` and ``(1 - r) L(n) + r L(n2)``. Here ``n``, ``n1`` and
``n2`` differ in the ballot of one voter. With two classes that ballot takes two values, so ``n`` equals ``n1`` or
``n2``, and the pairs are those above. With more, advanced joint convexity (B. Balle, G. Barthe and M. Gaboardi,
"Privacy amplification by subsampling", NeurIPS 2018, Theorem 2) bounds the hockey-stick divergence at ``log(1 + r
(exp(e) - 1))`` by ``r`` times the largest that the law has at ``e >= 0``, since all of ``L(n)``, ``L(n1)``, ``L(n2)``
are neighbours in one ballot. That is what ``((1 - r) Q + r P, Q)`` has there, and ``(Q, (1 - r) Q + r P)`` has the
matching value where the likelihood ratio is below 1. The divergence of a concave hull of curves is the largest of
theirs, so the one pair whose curve is that hull dominates.

Draws of different queries are independent, so each query is an answer of its own and answers compose as usual, also
when queries are chosen by earlier answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import delta_of, integer_between, member, real_between, round_up
from dpensemble._entries import Floats
from dpensemble.accounting.price import price
from dpensemble.accounting.worst_case import Change
from dpensemble.allocation import Bootstrap, BootstrapScheme
from dpensemble.cost import DEFAULT_ORDERS, Conversion, Cost, DominatingPairs, PrivacyCost
from dpensemble.cost.composition import MOST_EPSILON, AdaptiveComposition, last_between, last_fitting
from dpensemble.cost.privacy_cost import improved_epsilon
from dpensemble.errors import AccountingError, BudgetError, InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.laws import ReleaseLaw
from dpensemble.relations import Relation

# Sixteen units in the last place; the formulas' rounding errors come to about four.
_SLACK = 2.0**-48
_MOST = 2**31 - 1


def bagging_delta(scheme: BootstrapScheme, n_units: int) -> float:
    """Return the smallest delta at which bagging is (0, delta)-differentially private for every base learner.

    Replacing, adding or removing one unit changes the probability of any event computed from the models by at most
    delta. When the base learner distinguishes its records, as nearest neighbours do, no smaller delta holds at any
    epsilon, against replacement and removal.

    Parameters
    ----------
    scheme : BootstrapScheme
        How the subsamples are drawn.
    n_units : int
        Number of private records (or units). Public, under add-or-remove-one too.

    Returns
    -------
    float
        From ``1 / n_units`` to 1, rounded up.

    Raises
    ------
    InvalidParameterError
        If the scheme needs more units.

    References
    ----------
    "On the Intrinsic Differential Privacy of Bagging", Theorems 3 to 6. The proof at epsilon 0 is in this module.

    Examples
    --------
    >>> bagging_delta(BootstrapScheme("with-replacement", n_models=1, subsample=10_000), 60_000)
    0.1535...
    """
    return scheme.inclusion_probability(n_units)


def bagging_delta_below_one(scheme: BootstrapScheme, n_units: int) -> float:
    """Return `bagging_delta`, refusing a scheme that draws every unit with certainty, which gives no privacy."""
    delta = bagging_delta(scheme, n_units)
    if delta >= 1:
        raise BudgetError(
            f"subsample={scheme.subsample} for {scheme.n_models} {_models(scheme.n_models)} draws each of the "
            f"{n_units} private records (or units) with certainty, so delta would be 1: use a smaller subsample."
        )
    return delta


def published_bagging(scheme: BootstrapScheme, n_units: int) -> tuple[float, float] | None:
    """Return the paper's pair of epsilon and delta, which is implied by epsilon 0 at the same delta.

    Parameters
    ----------
    scheme : BootstrapScheme
        How the subsamples are drawn.
    n_units : int
        Number of private records (or units). Public.

    Returns
    -------
    (float, float) or None
        Epsilon, rounded up, and `bagging_delta`; None for independent subsets, which the paper does not cover.

    Raises
    ------
    InvalidParameterError
        If the scheme needs more units.

    References
    ----------
    "On the Intrinsic Differential Privacy of Bagging", Theorem 3 with replacement, Theorem 4 for distinct draws
    (its abstract has a stray factor in the latter).

    Examples
    --------
    >>> published_bagging(BootstrapScheme("distinct", n_models=3, subsample=100), 60_000)
    (0.00501..., 0.005)
    """
    delta = bagging_delta(scheme, n_units)
    if scheme.scheme is Bootstrap.SUBSETS:
        return None
    draws, more = scheme.n_draws, n_units + 1
    if scheme.scheme is Bootstrap.WITH_REPLACEMENT:
        epsilon = draws * math.log1p(1 / n_units)
    else:
        # Accurate at both ends: a quotient near 1, and one that subtraction would spoil.
        epsilon = -math.log1p(-draws / more) if 2 * draws <= more else math.log(more / (more - draws))
    return epsilon * (1 + _SLACK), delta


def largest_subsample(
    delta: float, n_units: int, n_models: int = 1, scheme: Bootstrap | str = Bootstrap.WITH_REPLACEMENT
) -> int:
    """Return the largest subsample of each model whose `bagging_delta` is at most `delta`.

    The size depends on the number of units, which neighbouring data sets share under replace-one only. Under
    add-or-remove-one, choose the size beforehand.

    Parameters
    ----------
    delta : float
        Allowed; strictly between 0 and 1, and at least about ``n_models / n_units``.
    n_units : int
        Number of private records (or units). Public.
    n_models : int, default=1
        Number of models.
    scheme : Bootstrap or str, default="with-replacement"
        How subsamples are drawn.

    Returns
    -------
    int
        At least 1.

    Raises
    ------
    BudgetError
        If one unit a model is too many. The message names the smallest delta.
    InvalidParameterError
        If a setting is out of range.

    References
    ----------
    "On the Intrinsic Differential Privacy of Bagging", Theorems 3 and 4, solved for the size of the subsample.

    Examples
    --------
    >>> largest_subsample(0.005, 60_000)
    300
    """
    delta, scheme = delta_of(delta), member("scheme", scheme, Bootstrap)
    n_units, n_models = integer_between("n_units", n_units, 1), integer_between("n_models", n_models, 1)

    def fits(subsample: int) -> bool:
        return bagging_delta(BootstrapScheme(scheme, n_models, subsample), n_units) <= delta

    most = {
        Bootstrap.WITH_REPLACEMENT: _MOST,
        Bootstrap.DISTINCT: n_units // n_models,
        Bootstrap.SUBSETS: min(n_units, _MOST),
    }[scheme]
    if most < 1 or not fits(1):
        raise _too_small(delta, n_units, n_models, scheme)
    return last_between(fits, 1, most + 1)


def _too_small(delta: float, n_units: int, n_models: int, scheme: Bootstrap) -> BudgetError | InvalidParameterError:
    """Return the error for a delta that one unit a model exceeds, with the remedy."""
    one = BootstrapScheme(scheme, n_models, 1)
    try:
        smallest = bagging_delta(one, n_units)
    except InvalidParameterError as error:
        return error
    models = f"{n_models} {_models(n_models)}"
    remedy = "more records" if smallest >= 1 else "at least that, or more records"
    return BudgetError(
        f"delta={delta:g} is too small for bagging {n_units} private records (or units), where {models} of one "
        f"record each need delta={round_up(smallest, 4):g} at any epsilon: use {remedy}."
    )


def _models(number: int) -> str:
    return "model" if number == 1 else "models"


# Far above the relative rounding of a binomial probability.
_ROUND_UP = 1 + 1e-9
# Numbers of holders that together are less likely than this share of delta are charged in full.
_NEGLIGIBLE = 1e-4
# Numbers of holders that make up more than this share of delta are composed exactly, up to this many.
_MATTERS, _MOST_COMPOSED = 2e-3, 16
_PRECISION = 1e-9
_LARGEST = 1e6
# Beyond it `exp(epsilon) - 1` is `exp(epsilon)` to double precision.
_EXPONENTIAL = 40.0
#: More answers than any run asks for.
_ENDLESS = 2**31 - 1


class SubsampledCost(Cost):
    """Privacy loss of a run of answers whose teachers hold a record by chance. Multiples share results of `refine`."""

    def __init__(self, one: Callable[[int], PrivacyCost], holders: Floats) -> None:
        chances = np.asarray(holders, dtype=np.float64)
        if not (np.all(chances >= 0) and abs(chances.sum() - 1) < 1e-10):
            raise AccountingError("holders must be the chances that 0, 1, 2, ... teachers hold a record, and sum to 1.")
        self._one = lru_cache(maxsize=None)(one)
        self._chances = chances * _ROUND_UP
        # Summed from the small end, so that no tail is lost.
        self._tails = np.cumsum(self._chances[::-1])[::-1]
        self._held = min(1.0, float(self._tails[1]))
        self._composed: dict[int, AdaptiveComposition] = {}
        self.answers = 1

    def __mul__(self, count: int) -> SubsampledCost:
        multiple = copy(self)
        multiple.answers = self.answers * integer_between("count", count, 0, 2**62)
        return multiple

    @property
    def held(self) -> float:
        """Chance that any teacher holds the record, rounded up."""
        return self._held

    def delta(self, epsilon: float, negligible: float = 1e-16) -> float:
        """Return the delta of the run at `epsilon`, rounded up. Holders rarer than `negligible` are charged in full."""
        if self.answers == 0 or self._held == 0:
            return 0.0
        inner = self.inner_epsilon(epsilon)
        last = self._last(negligible)
        total = self._tails[last + 1] if last + 1 < len(self._tails) else 0.0
        for ballots in range(1, last + 1):
            if self._chances[ballots]:
                total += self._chances[ballots] * self._delta_of(ballots, inner)
        return float(min(1.0, total * _ROUND_UP))

    def composed(self, epsilon: float, delta: float, negligible: float) -> list[tuple[float, AdaptiveComposition]]:
        """Return the chance of 1, 2, ... holders, each with a composition of about as many answers given that number.

        The list ends when holders are negligible, or when their answers cannot be composed.
        """
        compositions: list[tuple[float, AdaptiveComposition]] = []
        for ballots in range(1, self._last(negligible) + 1):
            composition = self._composed.get(ballots) or self._composition(ballots, epsilon, delta)
            if composition is None:
                break
            compositions.append((float(self._chances[ballots]), composition))
        return compositions

    def epsilon(self, delta: float, conversion: str = Conversion.BEST) -> float:  # noqa: ARG002
        """Return the smallest epsilon at which the run has at most `delta`, rounded up. Above a million it raises."""
        delta = delta_of(delta)

        def fits(epsilon: float) -> bool:
            return self.delta(epsilon, delta * _NEGLIGIBLE) <= delta

        if fits(0.0):
            return 0.0
        low, high = 0.0, 1.0
        while not fits(high):
            low, high = high, 2 * high
            if high > _LARGEST:
                raise AccountingError(f"the answers cost an epsilon of more than {_LARGEST:g}: use more noise.")
        while high - low > _PRECISION * high:
            middle = (low + high) / 2
            low, high = (low, middle) if fits(middle) else (middle, high)
        return high

    def fits(self, budget: Budget, conversion: str = Conversion.BEST) -> bool:  # noqa: ARG002
        """Return whether the run fits a budget."""
        return self.delta(budget.epsilon, budget.delta * _NEGLIGIBLE) <= budget.delta

    def most(self, budget: Budget, conversion: str = Conversion.BEST, limit: int | None = None) -> int:  # noqa: ARG002
        """Return how many answers fit a budget, at most `limit`. The cost is refined on the way."""
        if self.held <= budget.delta:
            # Even publishing the teachers fits.
            return _ENDLESS if limit is None else limit

        def fits(count: int) -> bool:
            return (self * count).fits(budget)

        within = last_fitting(fits, 0, 2.0, limit)
        (self * (math.ceil(1.2 * within) + 1)).refine(budget.epsilon, budget.delta)
        return last_fitting(fits, within, 1.06, limit)

    @property
    def renyi(self) -> PrivacyCost | None:
        """The run as a Renyi curve, or None if some number of holders has no price."""
        if self.answers >= _ENDLESS:
            return None
        # Few holders may have a price when all teachers have none.
        with suppress(AccountingError):
            return self._curve()
        return None

    def _curve(self) -> PrivacyCost:
        """Return the Renyi curve. ``exp((order - 1) * divergence)`` is jointly convex, so holders average it."""
        if self.answers == 0:
            return PrivacyCost.zero()
        exponents = DEFAULT_ORDERS - 1
        total = np.full_like(exponents, -np.inf)
        for ballots in np.flatnonzero(self._chances).tolist():
            curve = exponents * self.answers * self._one(ballots).rdp if ballots else 0.0
            total = np.logaddexp(total, math.log(self._chances[ballots]) + curve)
        return PrivacyCost(rdp=np.maximum(total, 0.0) / exponents)

    def inner_epsilon(self, epsilon: float) -> float:
        """Return the epsilon, given that some teacher holds the record, that becomes `epsilon`. Rounded down."""
        beyond = epsilon > _EXPONENTIAL
        grown = epsilon - math.log(self._held) if beyond else math.log1p(math.expm1(epsilon) / self._held)
        return grown * (1 - 1e-12)

    def refine(self, epsilon: float, delta: float) -> None:
        """Compose exactly from now on, for the numbers of holders that matter in about as many answers."""
        inner = self.inner_epsilon(epsilon)
        weights = {}
        for ballots in range(1, self._last(delta * _NEGLIGIBLE) + 1):
            alone = self._delta_of(ballots, inner)
            if alone < 0.9 and self._chances[ballots] * alone > _MATTERS * delta:
                weights[ballots] = self._chances[ballots] * alone
        for ballots in sorted(weights, key=weights.__getitem__, reverse=True)[:_MOST_COMPOSED]:
            if ballots not in self._composed:
                composition = self._composition(ballots, epsilon, delta)
                # Losses too large for the grid stay with the Renyi curve.
                if composition is not None:
                    self._composed[ballots] = composition

    def _composition(self, ballots: int, epsilon: float, delta: float) -> AdaptiveComposition | None:
        """Return a composition of about as many answers, of which each can change `ballots` ballots, or None."""
        one = self._one(ballots)
        if one.parts is None:
            return None
        # The same layout for neighbouring questions.
        laid_out = AdaptiveComposition.answers_laid_out(max(1, self.answers))
        ceiling = improved_epsilon(one.rdp * laid_out, one.orders, delta)
        largest = min(MOST_EPSILON / 2, round_up(1.1 * min(self.inner_epsilon(epsilon), ceiling), 1))
        try:
            return AdaptiveComposition.laid_out_for(one.parts[0].pairs, laid_out, largest)
        except AccountingError:
            return None

    def _last(self, tail: float) -> int:
        """Return the largest number of holders to price: all larger numbers together are less likely than `tail`."""
        return int(np.count_nonzero(self._tails > tail)) - 1

    def _delta_of(self, ballots: int, inner: float) -> float:
        one = self._one(ballots)
        delta = _improved_delta(one.rdp * self.answers, one.orders, inner)
        if ballots in self._composed:
            delta = min(delta, self._composed[ballots].delta(self.answers, inner))
        return delta


def fresh_cost(law: ReleaseLaw, change: Change, rate: float, relation: Relation) -> PrivacyCost:
    """Return the most that one answer can cost when its units are drawn for it alone, each with probability `rate`.

    Parameters
    ----------
    law : ReleaseLaw
        The law that answers, without a gate.
    change : Change
        What one drawn unit can do to the votes.
    rate : float
        Probability that a unit is drawn, from 1e-6 to 1, at most the rate of the draw itself. Public.
    relation : Relation
        Neighbouring relation.

    Returns
    -------
    PrivacyCost
        Public. Contains the finite outcomes that exact composition needs.

    Raises
    ------
    AccountingError
        If the law has a gate, or only a Renyi curve is available for it.

    Examples
    --------
    Ten voters, Laplace noise of three votes:

    >>> from dpensemble.guarantee import Budget
    >>> from dpensemble.laws import LaplaceNoisyMax
    >>> law, change = LaplaceNoisyMax(3.0), Change(ballots=10, classes=2)
    >>> fixed = price(law, change).label
    >>> fresh = fresh_cost(law, change, 0.02, Relation.ADD_OR_REMOVE_ONE)
    >>> [round(float(cost.rdp[0]), 6) for cost in (fixed, fresh)]
    [0.10481, 4.4e-05]
    >>> fixed.most(Budget(epsilon=3, delta=1e-5))
    6
    """
    rate = real_between("rate", rate, 1e-6, 1.0)
    if law.gated:
        raise AccountingError(
            f"law={law.name or type(law).__name__!r} has a gate, and fresh sampling is for laws that always answer: "
            "use 'gnmax', or sampling='fixed'."
        )
    return amplified(price(law, change).label, rate, relation, two_values=change.classes == 2 and change.votes == 1)


@lru_cache(maxsize=64)
def amplified(one: PrivacyCost, rate: float, relation: Relation, *, two_values: bool) -> PrivacyCost:
    """Return the cost of an answer whose units are drawn by chance, from one that holds for both orders of a pair."""
    # `two_values`: a unit can make only two different rows of votes, one of them its absence (see above).
    if one.parts is None or len(one.parts) != 1 or one.parts[0].count != 1:
        raise AccountingError(
            "fresh sampling needs the finite outcomes of an answer, and this law has only a Renyi curve with "
            "these settings: use less noise, one vote a unit, or sampling='fixed'."
        )
    pairs = one.parts[0].pairs
    # The set also holds a pair for the reverse, which may be tighter than this pair reversed.
    mixed_q, mixed_p = (1 - rate) * pairs.q + rate * pairs.p, (1 - rate) * pairs.p + rate * pairs.q
    both = DominatingPairs(np.concatenate([mixed_q, pairs.p]), np.concatenate([pairs.q, mixed_p]))
    if relation is Relation.REPLACE_ONE and not two_values:
        both = both.single()
    return PrivacyCost.of(both)


def _improved_delta(rdp: NDArray[np.float64], orders: NDArray[np.float64], epsilon: float) -> float:
    """Return the delta that holds at `epsilon`, rounded up: the inverse of `improved_epsilon`."""
    if not rdp.any():
        return 0.0
    logs = (orders - 1) * (rdp - epsilon + np.log1p(-1 / orders)) - np.log(orders)
    # The terms of the sum are of the size of the largest order, so their rounding grows with it.
    slack = 1e-13 * (1 + (orders - 1) * (rdp + abs(epsilon)))
    return float(math.exp(min(0.0, np.min(logs + slack))))
