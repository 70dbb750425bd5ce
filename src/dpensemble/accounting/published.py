"""The published bounds of noisy votes, for comparison and reproduction.

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
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, logsumexp

from dpensemble._checks import real_between
from dpensemble._entries import Floats
from dpensemble.accounting.neighbours import Change
from dpensemble.cost import DEFAULT_ORDERS, PrivacyCost
from dpensemble.errors import AccountingError, DataError, InvalidParameterError, SettingWarning
from dpensemble.laws import ByLaw, ConfidentNoisyMax, ExponentialVote, GaussianNoisyMax, LaplaceNoisyMax, ReleaseLaw

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


def published_cost(law: ReleaseLaw, change: Change) -> PrivacyCost:
    """Return the published data-independent cost of one label of a law without a gate."""
    return published(law, change)[0]


def published_source(law: ReleaseLaw) -> str:
    """Return paper and theorem of the published cost of a law."""
    return published(law, Change(ballots=1, classes=2))[1]


def published_gate_cost(sigma: float, votes: float) -> PrivacyCost:
    """Return the published cost of one noisy threshold check (Papernot et al. 2018, section 4.2)."""
    return PrivacyCost(rdp=DEFAULT_ORDERS / 2 * (votes / sigma) ** 2)


@ByLaw
def published(law: ReleaseLaw, change: Change) -> tuple[PrivacyCost, str]:  # noqa: ARG001
    """Return the published cost of a label, and its paper and theorem. Register a law here if it has one."""
    raise AccountingError(f"no published accounting covers {type(law).__name__}: use accounting='exact'.")


@published.register(LaplaceNoisyMax)
def _(law: LaplaceNoisyMax, change: Change) -> tuple[PrivacyCost, str]:
    return laplace_moments(law.scale, change.moved**2), "Jordon et al. 2019, Theorems 1 and 3"


@published.register(GaussianNoisyMax)
def _(law: GaussianNoisyMax, change: Change) -> tuple[PrivacyCost, str]:
    cost = PrivacyCost(rdp=DEFAULT_ORDERS * (change.moved / law.sigma) ** 2)
    return cost, "Papernot et al. 2018, Proposition 8"


@published.register(ExponentialVote)
def _(law: ExponentialVote, change: Change) -> tuple[PrivacyCost, str]:
    # An answer whose losses lie in a range of that width is width**2 / 8 zero-concentrated.
    width = law.pure_epsilon(change.moved)
    return PrivacyCost(rdp=DEFAULT_ORDERS * width**2 / 8), "Cesar and Rogers 2021, bounded range"


def has_published(law: ReleaseLaw) -> bool:
    """Return whether a published price covers the law, or the answer of a gated law."""
    kind = type(law.answer) if law.gated else type(law)  # type: ignore[attr-defined]
    return published.covers(kind)


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
