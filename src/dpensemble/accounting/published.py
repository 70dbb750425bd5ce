"""The published bounds of noisy votes, for comparison and reproduction, and the published meter of DPBag.

Data-dependent bounds of PATE
-----------------------------
They lead from the probability that a noisy vote misses the plurality to a Renyi divergence.

A `log_error` is the logarithm of an upper bound on the probability of a miss, below 0 and finite, one for each query.
`log_error` is secret, and so are the bounds, of shape (n_queries, n_orders).

Every bound of PATE here is one-sided: it holds for ``D_order(M(D) || M(D'))``, where ``D`` is the data whose votes were
counted and ``D'`` is any neighbour, as Papernot et al. state it. The bounds are computed from private counts, so the
bounds are private too. `dpensemble.accounting.smooth` publishes a total of them.

The bounds at each group's sensitivity are for comparison only, never a charge. They hold for one order of the pair,
too.

Data-independent costs
----------------------
They charge for noisy counts that are never published.

The personalised moments accountant of DPBag
--------------------------------------------
It is data-dependent, and its state is one number a unit.

A unit whose ``k`` teachers gave ``a_c`` votes to class ``c`` can change at most ``k - min_c a_c`` votes in a way that
matters. However its teachers vote instead, the counts move by at most ``2 (k - min_c a_c)`` in the L1 norm. The paper
writes this as ``m = max_c (1 - a_c / k)``. The moments of all queries are
``2 / scale**2 * l (l + 1) * sum over queries of (k - min_c a_c)**2``, so one exact integer a unit is the whole state,
and no floating-point array over units and queries is built.

An added unit is charged like the rest. Under position-based partitions it joins the next free slot (the paper's
record ``*``). Under identity-based partitions it may join any subset, so each query is charged at the largest change
over all combinations of subsets. For two classes this is nearly always the data-independent cost.

References
----------
Jordon et al. 2019, section 4.3, Theorems 4 (removal), 5 (addition), 2 (composition) and 3 (conversion).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, logsumexp

from dpensemble._checks import real_between
from dpensemble._entries import Ballots, Floats, Integers
from dpensemble.accounting.base import EVERYONE, Accounting, Group, Meter
from dpensemble.accounting.worst_case import Change
from dpensemble.allocation import Allocation
from dpensemble.cost import DEFAULT_ORDERS, PrivacyCost
from dpensemble.errors import AccountingError, DataError, InvalidParameterError, SettingWarning
from dpensemble.guarantee import Budget
from dpensemble.laws import ByLaw, ConfidentNoisyMax, ExponentialVote, GaussianNoisyMax, LaplaceNoisyMax, ReleaseLaw
from dpensemble.relations import Basis
from dpensemble.votes import Votes

# Far below any vote of interest. An upper bound on q may be raised, and -inf would break the arithmetic.
_LEAST_LOG_ERROR = -1e15


def checked_counts(counts: ArrayLike) -> NDArray[np.float64]:
    """Return counts as a 2-D float array, refusing impossible votes. The error text never includes a count."""
    try:
        array = np.asarray(counts, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError("counts must be an array of numbers of shape (n_queries, n_classes).") from None
    if array.ndim != 2 or array.shape[1] < 2:
        raise DataError(f"counts must have shape (n_queries, n_classes) with two or more classes; got {array.shape}.")
    if not np.all((array >= 0) & (array <= 1e15)):
        raise DataError("counts must be finite, not negative and at most 1e15 everywhere.")
    return array


def _checked_orders(orders: ArrayLike) -> NDArray[np.float64]:
    """Return Renyi orders as a 1-D float array, refusing any that is not above 1."""
    try:
        array = np.asarray(orders, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidParameterError("orders must be a sequence of numbers above 1.") from None
    if array.ndim != 1 or array.size == 0:
        raise InvalidParameterError(f"orders must be a sequence of numbers above 1; got shape {array.shape}.")
    if not np.all((array > 1) & (array <= 1e12)):
        raise InvalidParameterError("orders must be numbers above 1 and at most 1e12.")
    return array


def gnmax_log_error(counts: ArrayLike, sigma: float) -> NDArray[np.float64]:
    """Bound the log-probability that Gaussian noisy-max misses the plurality. Private."""
    # The union bound ``q = sum over c != c* of Pr[N(0, 2 sigma**2) > n_c* - n_c]``, and never more than
    # ``1 - 1 / n_classes``, since no class is likelier than the plurality (N. Papernot et al., "Scalable private
    # learning with PATE", ICLR 2018, Proposition 7).
    gaps = _gaps(checked_counts(counts)) / real_between("sigma", sigma, 1e-9, 1e12)
    return _union(log_ndtr(-gaps / math.sqrt(2)))


def _lnmax_log_error(counts: ArrayLike, scale: float) -> NDArray[np.float64]:
    """Bound the log-probability that Laplace noisy-max misses the plurality. Private."""
    # The union bound ``q = sum over c != c* of (2 + g) exp(-g) / 4`` with the gap ``g = (n_c* - n_c) / scale``, and
    # never more than ``1 - 1 / n_classes`` (N. Papernot et al., "Semi-supervised knowledge transfer for deep learning
    # from private training data", ICLR 2017, Lemma 4, and Jordon et al. 2019, supplement, equation (2)).
    gaps = _gaps(checked_counts(counts)) / real_between("scale", scale, 1e-9, 1e12)
    return _union(np.log((2 + gaps) / 4) - gaps)


def _threshold_log_error(counts: ArrayLike, threshold: float, sigma: float) -> NDArray[np.float64]:
    """Return ``log min(Pr[answered], Pr[not])`` of Confident-GNMax (Papernot et al. 2018, Algorithm 1). Private."""
    votes = checked_counts(counts)
    threshold = real_between("threshold", threshold, -1e15, 1e15)
    sigma = real_between("sigma", sigma, 1e-9, 1e12)
    if len(votes):
        warn_of_threshold(threshold, float(votes.sum(axis=1).max()))
    log_error = log_ndtr(-np.abs(votes.max(axis=1) - threshold) / sigma)
    return np.maximum(log_error, _LEAST_LOG_ERROR)


def warn_of_threshold(threshold: float, n_votes: float) -> None:
    """Warn if a threshold is above the largest possible number of votes."""
    if threshold > n_votes:
        text = f"threshold={threshold:g} is above the number of votes, so hardly any query will be answered."
        warnings.warn(text, SettingWarning, stacklevel=4)


def _gaps(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far every class except the plurality is behind the plurality."""
    return np.sort(counts.max(axis=1, keepdims=True) - counts, axis=1)[:, 1:]


def _union(log_errors: NDArray[Any]) -> NDArray[np.float64]:
    """Sum the classes' probabilities of beating the plurality, within the range a probability can take."""
    highest = math.log1p(-1 / (log_errors.shape[1] + 1))
    # logsumexp cannot take a row of only -inf, which a gap of 1e154 standard deviations would give.
    raised = np.maximum(log_errors, _LEAST_LOG_ERROR)
    return np.minimum(logsumexp(raised, axis=1), highest) if len(raised) else np.empty(0)


# Above the rounding of the few operations below, whose logarithms go up to some thousands.
_ROUND_UP = 1.0 + 1e-9
_LEAST_COST = float(np.finfo(np.float64).tiny)
# Queries whose tables fit into the cache together.
_BLOCK = 1024


def _pure_rdp(epsilon: ArrayLike, orders: ArrayLike) -> Floats:
    """Return the largest Renyi divergence that a purely differentially private answer can have."""
    # The bound is that of randomized response, ``log(cosh((order - 1/2) epsilon) / cosh(epsilon / 2)) / (order - 1)``.
    # It is below both ``epsilon`` and ``epsilon**2 * order / 2``, and attained, so no smaller bound holds in general.
    # References: M. Bun and T. Steinke, "Concentrated differential privacy", TCC 2016, Proposition 3.3 and its proof.
    # I. Mironov, "Renyi differential privacy", CSF 2017, Proposition 5 (randomized response).
    loss = np.asarray(epsilon, dtype=np.float64)
    if not np.all((loss >= 0) & (loss <= 1e22)):
        raise InvalidParameterError("epsilon must hold numbers from 0 to 1e22.")
    alpha, loss = _checked_orders(orders), loss[..., None]
    # The ratio of the two cosh differs from 1 by a product of sinh, which keeps every digit of a tiny loss.
    small = np.minimum(alpha * loss, 1.0) / alpha
    excess = 2 * np.sinh(alpha * small / 2) * np.sinh((alpha - 1) * small / 2) / np.cosh(small / 2)
    large = (alpha - 1) * loss + np.log1p(np.exp(-(2 * alpha - 1) * loss)) - np.log1p(np.exp(-loss))
    return np.where(alpha * loss <= 1, np.log1p(excess), large) / (alpha - 1)


def gaussian_rdp(log_error: Floats, sigma: float, orders: Floats) -> Floats:
    """Bound the divergence, at most ``order / sigma**2``, of an answer that seldom misses its likeliest outcome."""
    # Papernot et al. 2018, Theorem 6 with the two higher orders of Proposition 10, and Proposition 8.
    return _in_blocks(lambda some: _gaussian_block(log_error[some], sigma, orders), len(log_error), len(orders))


def _gaussian_block(log_error: Floats, sigma: float, orders: Floats) -> Floats:
    bound = np.tile(orders / sigma**2, (len(log_error), 1))
    second = sigma * np.sqrt(-log_error)
    rows = np.flatnonzero((second > 1) & (log_error + second / sigma**2 < 0))
    log_q, mu = log_error[rows, None], second[rows, None]
    limit = (mu - 1) * mu / sigma**2 - mu * (np.log1p(1 / mu) + np.log1p(1 / (mu - 1)))
    # The paper's A is the change of the likeliest outcome, B that of all others.
    log_a = _log1mexp(log_q) - _log1mexp((log_q + mu / sigma**2) * (1 - 1 / mu))
    log_b = (mu + 1) / sigma**2 - log_q / mu
    tight = _mixture(log_q, log_a, log_b, orders)
    applies = (log_q <= limit) & (orders <= mu + 1)
    bound[rows] = np.where(applies, np.minimum(tight, bound[rows]), bound[rows])
    return bound


def _laplace_rdp(log_error: Floats, epsilon: float | Floats, orders: Floats) -> Floats:
    """Bound the divergence of purely private answers that seldom miss their likeliest outcome."""
    # Papernot et al. 2017, Theorem 3, whose moments are ``alpha(l) = l * rdp(l + 1)``.
    # A loss that all queries share is computed once.
    bound = np.broadcast_to(_pure_rdp(epsilon, orders), (len(log_error), len(orders))).copy()
    epsilon = np.broadcast_to(epsilon, log_error.shape)
    _in_blocks(lambda some: _laplace_block(log_error[some], epsilon[some], orders, bound[some]), *bound.shape)
    return bound


def _laplace_block(log_error: Floats, epsilon: Floats, orders: Floats, bound: Floats) -> Floats:
    """Lower the bounds where the theorem applies."""
    # The theorem asks for q < (e^eps - 1) / (e^(2 eps) - 1) = 1 / (e^eps + 1).
    rows = np.flatnonzero(log_error < -np.logaddexp(0.0, epsilon))
    log_q, loss = log_error[rows, None], epsilon[rows, None]
    log_a = _log1mexp(log_q) - _log1mexp(log_q + loss)
    bound[rows] = np.minimum(bound[rows], _mixture(log_q, log_a, loss, orders))
    return bound


def _in_blocks(bound: Callable[[slice], Floats], n_queries: int, n_orders: int) -> Floats:
    """Return the bounds of all queries, computed for as many at a time as fit into the cache."""
    blocks = [bound(slice(start, start + _BLOCK)) for start in range(0, n_queries, _BLOCK)]
    return np.concatenate(blocks) if blocks else np.empty((0, n_orders))


def _mixture(log_q: Floats, log_a: Floats, log_b: Floats, orders: Floats) -> Floats:
    """Return ``log((1 - q) A**(order - 1) + q B**(order - 1)) / (order - 1)``, rounded up."""
    likeliest = _log1mexp(log_q) + (orders - 1) * log_a
    total = np.logaddexp(likeliest, log_q + (orders - 1) * log_b) / (orders - 1)
    # A value that underflows is below the smallest normal number, but never free.
    return np.maximum(total * _ROUND_UP, _LEAST_COST)


def _log1mexp(x: Floats) -> Floats:
    """Return ``log(1 - exp(x))`` for negative `x` without cancellation."""
    near = x > -0.5
    return np.where(near, np.log(-np.expm1(np.where(near, x, -1.0))), np.log1p(-np.exp(np.where(near, -1.0, x))))


def gnmax_rdp(counts: ArrayLike, sigma: float, orders: ArrayLike, sensitivity: float = 1.0) -> Floats:
    """Bound the Renyi divergence of each Gaussian noisy-max answer from its own counts.

    Parameters
    ----------
    counts : array-like of shape (n_queries, n_classes)
        Votes for each class. Weighted counts may be real. Private.
    sigma : float
        Standard deviation of the noise on each count, in votes.
    orders : array-like of shape (n_orders,)
        Renyi orders above 1.
    sensitivity : float
        The most by which one unit can move a count, in votes: its number of teachers, or its ballot's weight.

    Returns
    -------
    ndarray of shape (n_queries, n_orders)
        Upper bounds in nats, at most ``order * (sensitivity / sigma)**2``. Private.

    Raises
    ------
    DataError
        If `counts` cannot be votes.
    InvalidParameterError
        If `sigma` or `sensitivity` is not a number from 1e-9 to 1e12, or an order is not above 1.

    Notes
    -----
    The noise decides how likely a wrong answer is. The ratio of noise to sensitivity decides how much a neighbour can
    change that probability. So the probability is taken at `sigma`, and only the rest at ``sigma / sensitivity``.

    References
    ----------
    Papernot et al. 2018, Propositions 7, 8 and 10, Theorem 6. Mühl and Boenisch 2022, Lemma 5 (sensitivities).

    Examples
    --------
    A split vote pays the full price ``order / sigma**2``. A clear vote pays almost nothing:

    >>> gnmax_rdp([[130, 120], [210, 40]], sigma=40.0, orders=[2, 8]).round(6)
    array([[0.00125 , 0.005   ],
           [0.000364, 0.00046 ]])
    """
    sensitivity = real_between("sensitivity", sensitivity, 1e-9, 1e12)
    return gaussian_rdp(gnmax_log_error(counts, sigma), sigma / sensitivity, _checked_orders(orders))


def threshold_rdp(
    counts: ArrayLike, threshold: float, sigma: float, orders: ArrayLike, sensitivity: float = 1.0
) -> Floats:
    """Bound the Renyi divergence of asking whether the largest noisy count reaches a threshold.

    Parameters
    ----------
    counts : array-like of shape (n_queries, n_classes)
        Votes for each class. Weighted counts may be real. Private.
    threshold : float
        Votes that ``max_c n_c + N(0, sigma**2)`` must reach for the query to be answered.
    sigma : float
        Standard deviation of the noise on the largest count, in votes.
    orders : array-like of shape (n_orders,)
        Renyi orders above 1.
    sensitivity : float
        The most by which one unit can move the largest count, in votes.

    Returns
    -------
    ndarray of shape (n_queries, n_orders)
        Upper bounds in nats, at most ``order * (sensitivity / sigma)**2 / 2``, due whether or not it is answered.
        Private.

    Raises
    ------
    DataError
        If `counts` cannot be votes.
    InvalidParameterError
        If a setting is not a number in range, or an order is not above 1.

    Warns
    -----
    UserWarning
        If `threshold` is above the number of votes, so that hardly any query will be answered.

    References
    ----------
    Papernot et al. 2018, Algorithm 1 and Theorem 6, with ``sqrt(2) sigma`` for ``sigma``, since a vote moves one count
    and not two.

    Examples
    --------
    >>> threshold_rdp([[150, 100], [210, 40]], threshold=150, sigma=20.0, orders=[2]).round(6)
    array([[0.0025  ],
           [0.000538]])
    """
    sensitivity = real_between("sensitivity", sensitivity, 1e-9, 1e12)
    log_error = _threshold_log_error(counts, threshold, sigma)
    return gaussian_rdp(log_error, np.sqrt(2) * sigma / sensitivity, _checked_orders(orders))


def lnmax_rdp(counts: ArrayLike, scale: float, orders: ArrayLike, sensitivity: float = 1.0) -> Floats:
    """Bound the Renyi divergence of each Laplace noisy-max answer from its own counts.

    Parameters
    ----------
    counts : array-like of shape (n_queries, n_classes)
        Votes for each class. Weighted counts may be real. Private.
    scale : float
        Scale of the Laplace noise on each count, in votes.
    orders : array-like of shape (n_orders,)
        Renyi orders above 1.
    sensitivity : float
        Most votes that one unit can change. The answer is ``2 sensitivity / scale``-differentially private.

    Returns
    -------
    ndarray of shape (n_queries, n_orders)
        Upper bounds in nats, at most ``pure_rdp(2 * sensitivity / scale, orders)``. Private.

    Raises
    ------
    DataError
        If `counts` cannot be votes.
    InvalidParameterError
        If `scale` or `sensitivity` is not a number from 1e-9 to 1e12, or an order is not above 1.

    References
    ----------
    Papernot et al. 2017, Theorem 3 and Lemma 4 (``l = order - 1``). Jordon et al. 2019, supplement, (1) and (2).

    Examples
    --------
    >>> lnmax_rdp([[130, 120], [190, 60]], scale=20.0, orders=[2, 8]).round(5)
    array([[0.00996, 0.03672],
           [0.00067, 0.0008 ]])
    """
    sensitivity = real_between("sensitivity", sensitivity, 1e-9, 1e12)
    return _laplace_rdp(_lnmax_log_error(counts, scale), 2 * sensitivity / scale, _checked_orders(orders))


def conjectured_lnmax_rdp(counts: ArrayLike, scale: float, orders: ArrayLike, changed_votes: ArrayLike) -> Floats:
    """Return the personalised bound that the DPBag paper conjectures: for comparison, NOT a guarantee.

    Its authors state it without a proof ("note that we do not prove the following result - it is a
    conjecture"). No guarantee of this library rests on it, and none may.

    `changed_votes` are the most votes that the record can change in each query (``n_partitions * m(x; u)``). `scale` is
    ``n_partitions / lambda`` in the paper. Jordon et al. 2019, supplement, equation (3), a conjecture. The result is
    capped by their proven bound, made tight (`_pure_rdp`).
    """
    log_error = _lnmax_log_error(counts, scale)
    changed = np.asarray(changed_votes, dtype=np.float64)
    if changed.shape != log_error.shape or not np.all((changed >= 0) & (changed <= 1e9)):
        raise DataError("changed_votes must hold one number from 0 to 1e9 for each row of counts.")
    return _laplace_rdp(log_error, 2 * changed / scale, _checked_orders(orders))


def laplace_moments(scale: float, squared_votes: int) -> PrivacyCost:
    """Return the published cost of Laplace noisy-max answers in which one unit can change some votes.

    If ``a`` ballots of an answer may change, the counts move by at most ``2 a`` in the L1 norm. So the answer is
    ``2 a / scale``-differentially private. An ``e``-differentially private answer has Renyi divergence at most ``e**2
    order / 2``. The moments are thus ``2 (a / scale)**2 l (l + 1)`` an answer, and ``squared_votes`` is the sum of
    ``a**2`` over the answers.

    Jordon et al. 2019, Theorem 1 (pure privacy) and section 4.3 (moments). M. Bun and T. Steinke, "Concentrated
    differential privacy", TCC 2016, Proposition 3.3.
    """
    return PrivacyCost(rdp=2.0 * float(squared_votes) / scale**2 * DEFAULT_ORDERS)


@ByLaw
def published_price(law: ReleaseLaw, change: Change) -> tuple[PrivacyCost, str]:  # noqa: ARG001
    """Return the published cost of a label, and its paper and theorem. Register a law here if it has one."""
    raise AccountingError(f"no published accounting covers {type(law).__name__}: use accounting='exact'.")


@published_price.register(LaplaceNoisyMax)
def _(law: LaplaceNoisyMax, change: Change) -> tuple[PrivacyCost, str]:
    return laplace_moments(law.scale, change.moved**2), "Jordon et al. 2019, Theorems 1 and 3"


@published_price.register(GaussianNoisyMax)
def _(law: GaussianNoisyMax, change: Change) -> tuple[PrivacyCost, str]:
    cost = PrivacyCost(rdp=DEFAULT_ORDERS * (change.moved / law.sigma) ** 2)
    return cost, "Papernot et al. 2018, Proposition 8"


@published_price.register(ExponentialVote)
def _(law: ExponentialVote, change: Change) -> tuple[PrivacyCost, str]:
    # An answer whose losses lie in a range of that width is width**2 / 8 zero-concentrated.
    width = law.pure_epsilon(change.moved)
    return PrivacyCost(rdp=DEFAULT_ORDERS * width**2 / 8), "Cesar and Rogers 2021, bounded range"


def has_published(law: ReleaseLaw) -> bool:
    """Return whether a published price covers the law, or the answer of a gated law."""
    kind = type(law.answer) if law.gated else type(law)  # type: ignore[attr-defined]
    return published_price.covers(kind)


@dataclass(frozen=True, eq=False, slots=True)
class PublishedRdp:
    """Published costs of each query to one group, shape (n_queries, n_orders): label and threshold check. Private."""

    label: NDArray[np.float64]
    check: NDArray[np.float64]


def published_group_rdp(law: ReleaseLaw, counts: ArrayLike, orders: ArrayLike, sensitivity: float) -> PublishedRdp:
    """Return the published tight bounds of each query, capped by the loose ones, for one group. Private.

    The bounds hold for one order of the pair, in nats, and are for comparison only. `sensitivity` is the weight of all
    ballots that a record of the group can change. It is 0 where the group sits out, which costs nothing.

    Papernot et al. 2018, Propositions 7, 8 and 10 and Theorem 6. Mühl and Boenisch 2022, Lemma 5.
    """
    if sensitivity == 0:
        free = np.zeros((len(np.asarray(counts)), len(np.asarray(orders))))
        return PublishedRdp(free, free)
    return _of_law(law, counts, orders, sensitivity)


@ByLaw
def _of_law(law: ReleaseLaw, counts: ArrayLike, orders: ArrayLike, sensitivity: float) -> PublishedRdp:  # noqa: ARG001
    raise AccountingError(
        f"no published data-dependent bound covers {type(law).__name__}: use LaplaceNoisyMax, GaussianNoisyMax or "
        "ConfidentNoisyMax."
    )


@_of_law.register(LaplaceNoisyMax)
def _(law: LaplaceNoisyMax, counts: ArrayLike, orders: ArrayLike, sensitivity: float) -> PublishedRdp:
    label = lnmax_rdp(counts, law.scale, orders, sensitivity)
    return PublishedRdp(label, np.zeros_like(label))


@_of_law.register(GaussianNoisyMax)
def _(law: GaussianNoisyMax, counts: ArrayLike, orders: ArrayLike, sensitivity: float) -> PublishedRdp:
    label = gnmax_rdp(counts, law.sigma, orders, sensitivity)
    return PublishedRdp(label, np.zeros_like(label))


@_of_law.register(ConfidentNoisyMax)
def _(law: ConfidentNoisyMax, counts: ArrayLike, orders: ArrayLike, sensitivity: float) -> PublishedRdp:
    label = gnmax_rdp(counts, law.sigma, orders, sensitivity)
    return PublishedRdp(label, threshold_rdp(counts, law.threshold, law.threshold_sigma, orders, sensitivity))


# Units and queries in one block: its counts stay in the cache.
_UNITS = 2048
_QUERIES = 256


class PublishedPerRecordMeter(Meter):
    """Charges each unit for what its own teachers could have changed. The spend and the end depend on secret votes."""

    basis = Basis.DATA_DEPENDENT
    accounting = "personalised moments accountant, data-dependent (Jordon et al. 2019, Theorems 2 to 5)"

    def __init__(
        self, law: LaplaceNoisyMax, allocation: Allocation, budget: Budget, n_classes: int, *, stop_when_spent: bool
    ) -> None:
        self._scale, self._k = law.scale, allocation.votes_per_unit
        super().__init__((Group(EVERYONE, budget, votes=self._k),), Accounting.PUBLISHED.conversion)
        self._memberships = allocation.memberships
        self._n_subsets = allocation.n_teachers // self._k
        self._any_slot = allocation.next_slot is None
        self._spent = np.zeros(len(self._memberships), dtype=np.int64)
        self._spent_by_addition = 0
        self._affordable = self._cost_of(1).most(budget, self.conversion)
        # The smallest vote share is at most 1/C, so no query costs less than this.
        self._cheapest = (self._k - self._k // n_classes) ** 2
        self._closed = False
        self.fixed_number = not stop_when_spent

    def _cost_of(self, squared_votes: int) -> PrivacyCost:
        return laplace_moments(self._scale, squared_votes)

    @property
    def sure_queries(self) -> int:
        """Number of queries that fit even if every one costs the most."""
        return self._affordable // self._k**2

    @property
    def most_queries(self) -> int:
        """Number of queries that fit if every one costs the least."""
        return self._affordable // self._cheapest

    def admit(self, votes: Votes) -> int:
        """Charge every unit for the leading queries that fit, and return how many."""
        admitted = 0
        for start in range(0, votes.n_queries, _QUERIES):
            if self._closed:
                break
            block = votes.ballots[start : start + _QUERIES]
            fitting = int(np.count_nonzero(self._running_maximum(block, votes.n_classes) <= self._affordable))
            self._closed = fitting < len(block)
            self._charge(block[:fitting], votes.n_classes)
            admitted += fitting
        return self._fixed(admitted, votes.n_queries)

    @property
    def cost(self) -> PrivacyCost:
        """Largest cost of any present or added unit. Private."""
        return self._cost_of(max(int(self._spent.max(initial=0)), self._spent_by_addition))

    @property
    def group_epsilons(self) -> tuple[float, ...]:
        """Largest epsilon of any present or added unit. Private."""
        return (min(self.budget.epsilon, self.cost.epsilon(self.budget.delta, self.conversion)),)

    @property
    def one_query(self) -> PrivacyCost:
        """Most that a single query can cost. Public."""
        return self._cost_of(self._k**2)

    def _running_maximum(self, ballots: Ballots, n_classes: int) -> Integers:
        """Return, after each query, the largest sum of squared votes over all units."""
        running = self._spent_by_addition + np.cumsum(self._added(ballots, n_classes))
        for rows, squares in self._squares(ballots, n_classes):
            sums = np.cumsum(squares, axis=1, dtype=np.int64) + self._spent[rows, None]
            np.maximum(running, sums.max(axis=0), out=running)
        return running

    def _charge(self, ballots: Ballots, n_classes: int) -> None:
        self._spent_by_addition += int(self._added(ballots, n_classes).sum())
        for rows, squares in self._squares(ballots, n_classes):
            self._spent[rows] += squares.sum(axis=1, dtype=np.int64)

    def _squares(self, ballots: Ballots, n_classes: int) -> Iterator[tuple[slice, Ballots]]:
        """Yield blocks of units with the square of the votes each can change, one column a query."""
        by_teacher = np.ascontiguousarray(ballots.T)
        for start in range(0, len(self._memberships), _UNITS):
            rows = slice(start, start + _UNITS)
            yield rows, changeable_votes(by_teacher, self._memberships[rows], n_classes) ** 2

    def _added(self, ballots: Ballots, n_classes: int) -> Integers:
        """Return the square of the votes that an added unit could change, one a query."""
        if not self._any_slot:
            return np.zeros(len(ballots), dtype=np.int64)
        by_partition = ballots.reshape(len(ballots), self._k, self._n_subsets, order="C")
        votes = np.zeros(len(ballots), dtype=np.int64)
        for label in range(n_classes):
            can_avoid = (by_partition != label).any(axis=2).sum(axis=1)
            np.maximum(votes, can_avoid, out=votes)
        return votes**2


@ByLaw
def published_per_record_meter(
    law: ReleaseLaw,
    allocation: Allocation,  # noqa: ARG001
    budget: Budget,  # noqa: ARG001
    n_classes: int,  # noqa: ARG001
    *,
    stop_when_spent: bool,  # noqa: ARG001
) -> PublishedPerRecordMeter:
    """Return the published data-dependent meter of a law."""
    raise InvalidParameterError(
        f"accounting='published' has no data-dependent meter for {type(law).__name__}: the published bounds hold in "
        "one direction only; use accounting='exact', and gnmax_rdp and similar functions to compare."
    )


published_per_record_meter.register(LaplaceNoisyMax)(PublishedPerRecordMeter)


def changeable_votes(ballots_by_teacher: Ballots, memberships: Integers, n_classes: int) -> Ballots:
    """Return ``k - min_c a_c`` for each unit and query, in the smallest type whose square fits. Private."""
    n_units, k = memberships.shape
    shape = (n_units, ballots_by_teacher.shape[1])
    small = np.min_scalar_type(k)
    fewest = np.full(shape, k, dtype=small)
    remaining = np.full(shape, k, dtype=small)
    for label in range(n_classes - 1):
        says_label = (ballots_by_teacher == label).astype(small)
        count = np.zeros(shape, dtype=small)
        for column in memberships.T:
            count += says_label[column]
        remaining -= count
        np.minimum(fewest, count, out=fewest)
    np.minimum(fewest, remaining, out=fewest)
    return (k - fewest.astype(np.min_scalar_type(k**2))).astype(np.min_scalar_type(k**2))
