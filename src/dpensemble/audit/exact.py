"""Exact privacy loss between finite laws, independent of the library's accounting.

"Exact" means without inequalities. Only the rounding of doubles remains, about one part in 1e13. Every array of
probabilities may hold one law, shape (n_outcomes,), or many, shape (..., n_outcomes).
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from dpensemble._arrays import Floats
from dpensemble._checks import real_between
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import ReleaseLaw, integer_weights

_SUM_ERROR = 1e-9
_MOST_OUTCOMES = 10**7


def hockey_stick(p: ArrayLike, q: ArrayLike, epsilon: float) -> Floats:
    """Return the hockey-stick divergence, the least delta for which p is covered by q at `epsilon`.

    The divergence is ``sum_o max(p_o - exp(epsilon) q_o, 0)``. A mechanism is (epsilon, delta)-differentially private
    if and only if this is at most delta for every pair of neighbours, in both orders (G. Barthe and F. Olmedo, "Beyond
    differential privacy", ICALP 2013, Theorem 1).
    """
    p, q = _pairs(p, q)
    # Infinity times zero is set below: an impossible q leaves all of p.
    with np.errstate(over="ignore", invalid="ignore"):
        excess = p - np.exp(real_between("epsilon", epsilon, 0, np.inf)) * q
    return np.where(q > 0, np.maximum(excess, 0), p).sum(axis=-1)


def exact_epsilon(p: ArrayLike, q: ArrayLike, delta: float) -> Floats:
    """Return the smallest epsilon at which p and q cover each other up to `delta`.

    The hockey-stick divergence at ``t = exp(epsilon)`` is the largest of ``P(S) - t Q(S)`` over all sets S, attained at
    a set of outcomes of largest ratio p / q. The smallest t is the largest ``(P(S) - delta) / Q(S)`` of those sets,
    which a sort finds.

    Parameters
    ----------
    p, q : array-like of shape (..., n_outcomes)
        Probabilities. Each row sums to 1. As private as the votes that they come from.
    delta : float
        From 0 (pure differential privacy) to 1.

    Returns
    -------
    ndarray of shape (...)
        At least 0. Infinite if outcomes of p worth more than `delta` are impossible under q, or vice versa. A scalar
        for a single pair.

    Raises
    ------
    InvalidParameterError
        If p and q are not probabilities over the same outcomes, or `delta` is out of range.

    Examples
    --------
    >>> print(exact_epsilon([0.75, 0.25], [0.25, 0.75], 0.0).round(6))
    1.098612
    >>> print(exact_epsilon([1.0, 0.0], [0.9, 0.1], 0.01))
    inf
    """
    p, q = _pairs(p, q)
    delta = real_between("delta", delta, 0, 1)
    return np.maximum(_one_direction(p, q, delta), _one_direction(q, p, delta))


def _one_direction(p: Floats, q: Floats, delta: float) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.where(p > 0, p / q, 0.0)
        order = np.argsort(-ratio, axis=-1)
        mass_p = np.cumsum(np.take_along_axis(p, order, axis=-1), axis=-1)
        mass_q = np.cumsum(np.take_along_axis(q, order, axis=-1), axis=-1)
        # When Q(S) is 0, no finite factor covers more than delta.
        factor = np.where(mass_q > 0, (mass_p - delta) / mass_q, np.where(mass_p > delta, np.inf, 0.0))
    return np.log(np.maximum(factor.max(axis=-1), 1.0))


def renyi_divergence(p: ArrayLike, q: ArrayLike, orders: ArrayLike) -> Floats:
    """Return the larger Renyi divergence of the two directions at each order (I. Mironov, CSF 2017, Definition 3)."""
    p, q = _pairs(p, q)
    orders = np.asarray(orders, dtype=np.float64)
    if orders.ndim != 1 or not np.all((orders > 1) & (orders <= 1e6)):
        raise InvalidParameterError("orders must be a sequence of numbers above 1 and at most 1e6.")
    with np.errstate(divide="ignore"):
        log_p, log_q = np.log(p)[..., None, :], np.log(q)[..., None, :]
    return np.maximum(_moments(log_p, log_q, orders), _moments(log_q, log_p, orders))


def _moments(log_p: Floats, log_q: Floats, orders: Floats) -> Floats:
    order = orders[:, None]
    with np.errstate(invalid="ignore"):
        terms = np.where(np.isneginf(log_p), -np.inf, order * log_p - (order - 1) * log_q)
    # Rounding of the two sums can bring equal laws just below zero.
    return np.maximum(logsumexp(terms, axis=-1) / (orders - 1), 0.0)


def compose_outcomes(laws: Sequence[ArrayLike]) -> Floats:
    """Return the joint law of independent answers, for tiny cases.

    Parameters
    ----------
    laws : sequence of array-like of shape (n_outcomes,)
        One law for each answer. The numbers of outcomes may differ.

    Returns
    -------
    ndarray of shape (product of all n_outcomes,)
        Probability of each sequence of outcomes. The last answer varies fastest.

    Raises
    ------
    InvalidParameterError
        If `laws` is empty, an entry is not a single law, or there are more than 1e7 sequences.

    Examples
    --------
    >>> compose_outcomes([[0.75, 0.25], [0.5, 0.5]])
    array([0.375, 0.375, 0.125, 0.125])
    """
    rows = [np.asarray(law, dtype=np.float64) for law in laws]
    if not rows or any(row.ndim != 1 for row in rows) or prod(row.size for row in rows) > _MOST_OUTCOMES:
        raise InvalidParameterError(
            f"laws must be one vector of probabilities or more, with at most {_MOST_OUTCOMES:,} sequences of outcomes."
        )
    joint = np.ones(1)
    for row in rows:
        joint = np.outer(joint, row).ravel()
    return joint


def sampled_probabilities(law: ReleaseLaw, counts: ArrayLike) -> Floats:
    """Return the probabilities that the sampler really uses, including mixing and rounding.

    Parameters
    ----------
    law : ReleaseLaw
        Law to sample.
    counts : array-like of shape (n_queries, n_classes)
        Votes for each class. Private.

    Returns
    -------
    ndarray of shape (n_queries, n_outcomes)
        The integers of `dpensemble.laws.integer_weights` over 2**63. As private as the counts.

    Raises
    ------
    InvalidParameterError
        If the counts are not finite.

    Examples
    --------
    >>> from dpensemble.laws import LaplaceNoisyMax
    >>> sampled_probabilities(LaplaceNoisyMax(scale=2.0), [[9, 1]]).round(3)
    array([[0.973, 0.027]])
    """
    return integer_weights(law, np.asarray(counts)) / 2.0**63


def _pairs(p: Any, q: Any) -> tuple[Floats, Floats]:
    """Return both as doubles of one shape, refusing arrays that are not probabilities."""
    p, q = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)
    if p.ndim == 0 or q.ndim == 0 or p.shape[-1] != q.shape[-1]:
        raise InvalidParameterError("p and q must hold probabilities of the same outcomes in their last axis.")
    for name, law in (("p", p), ("q", q)):
        # In the positive form, so that NaN fails too.
        if not (np.all(law >= 0) and np.all(np.abs(law.sum(axis=-1) - 1) <= _SUM_ERROR)):
            raise InvalidParameterError(f"{name} must hold probabilities from 0 to 1 that sum to 1.")
    try:
        p, q = np.broadcast_arrays(p, q)
    except ValueError:
        raise InvalidParameterError("p and q must have shapes that broadcast against each other.") from None
    return p, q
