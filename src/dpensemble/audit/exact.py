"""Exact privacy loss between finite laws, and of one answer over all small votes, without the library's accounting.

"Exact" means without inequalities. Only the rounding of doubles remains, about one part in 1e13. Every array of
probabilities may hold one law, shape (n_outcomes,), or many, shape (..., n_outcomes). The worst case of one answer is
over every histogram of a small vote, against every neighbour.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from math import comb, prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from dpensemble._checks import integer_between, real_between
from dpensemble._entries import Floats, Integers
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


_MOST_PAIRS = 5 * 10**6
# The last digits do not refute a claim that is met with equality.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class LawAudit:
    """Exact worst case of one answer over all small histograms. Public, since it depends on no data.

    Parameters
    ----------
    epsilon : float
        Largest exact epsilon over all pairs at `delta`, or infinity if no epsilon holds.
    delta : float
        Delta at which `epsilon` was computed.
    counts, neighbour_counts : tuple of int
        A pair of histograms that attains `epsilon`.
    renyi : tuple of float
        Largest Renyi divergence over all pairs at each requested order, in the order of the request.
    n_pairs : int
        Number of pairs of different histograms that were compared.

    Notes
    -----
    The result is the cost of one answer for this law, number of teachers and number of movable ballots. The audit does
    not show that the pipeline moves no more ballots than that.
    """

    epsilon: float
    delta: float
    counts: tuple[int, ...]
    neighbour_counts: tuple[int, ...]
    renyi: tuple[float, ...]
    n_pairs: int

    def caught(self, claimed_epsilon: float) -> bool:
        """Return whether one answer costs more than `claimed_epsilon` at the same delta, beyond rounding.

        Parameters
        ----------
        claimed_epsilon : float
            Claim for a single answer, from 0 to infinity.

        Returns
        -------
        bool
            True refutes the claim. False means that the claim holds for one answer at these sizes.
        """
        claim = real_between("claimed_epsilon", claimed_epsilon, 0, np.inf)
        return self.epsilon > claim * (1 + _ROUNDING) + _ROUNDING


def audit_law(
    law: ReleaseLaw,
    n_teachers: int,
    n_classes: int,
    votes_per_unit: int = 1,
    *,
    delta: float = 0.0,
    orders: Sequence[float] = (),
) -> LawAudit:
    """Return the exact worst case of one answer over all votes of `n_teachers` and all their neighbours.

    The probabilities are those of the integers that the sampler draws from, so the audit includes mixing and rounding.
    Outcomes need not be classes. For example, a law may also give no answer.

    Parameters
    ----------
    law : ReleaseLaw
        Law to audit.
    n_teachers : int
        Number of ballots. The work grows like ``n_teachers**(n_classes - 1)``.
    n_classes : int
        Number of classes, at least 2.
    votes_per_unit : int, default=1
        Most ballots that one unit moves from one class to another.
    delta : float, default=0
        Delta at which epsilon is computed. 0 is pure differential privacy.
    orders : sequence of float, optional
        Orders above 1 at which to compute the largest Renyi divergence, too.

    Returns
    -------
    LawAudit
        May be published, since it depends on settings only.

    Raises
    ------
    InvalidParameterError
        If a setting is out of range, or more than 5 million pairs would have to be compared.

    Examples
    --------
    The published cost of an answer, ``2 / scale``, is nearly attained. The audit detects noise of half the size:

    >>> from dpensemble.laws import LaplaceNoisyMax
    >>> claim = 2 / 4.0
    >>> audit = audit_law(LaplaceNoisyMax(scale=4.0), n_teachers=40, n_classes=2)
    >>> round(audit.epsilon, 3), audit.caught(claim)
    (0.456, False)
    >>> audit_law(LaplaceNoisyMax(scale=2.0), n_teachers=40, n_classes=2).caught(claim)
    True
    """
    n_classes = integer_between("n_classes", n_classes, 2, 100)
    n_teachers = integer_between("n_teachers", n_teachers, 1, 100_000)
    moved = integer_between("votes_per_unit", votes_per_unit, 1, n_teachers)
    _require_few(n_teachers, n_classes, moved)
    histograms = _histograms(n_teachers, n_classes)
    laws = sampled_probabilities(law, histograms)
    worst, pair, n_pairs = -1.0, (0, 0), 0
    divergences = np.zeros(len(orders))
    for before, after in _neighbours(histograms, _moves(moved, n_classes)):
        losses = exact_epsilon(laws[before], laws[after], delta)
        n_pairs += len(losses)
        place = int(np.argmax(losses))
        if losses[place] > worst:
            worst, pair = float(losses[place]), (int(before[place]), int(after[place]))
        if len(orders):
            divergences = np.maximum(divergences, renyi_divergence(laws[before], laws[after], orders).max(axis=0))
    return LawAudit(
        epsilon=worst,
        delta=float(delta),
        counts=tuple(histograms[pair[0]].tolist()),
        neighbour_counts=tuple(histograms[pair[1]].tolist()),
        renyi=tuple(divergences.tolist()),
        n_pairs=n_pairs,
    )


def _require_few(n_teachers: int, n_classes: int, moved: int) -> None:
    """Refuse work that would not end, and histograms whose codes would not fit into 63 bits."""
    ways = comb(moved + n_classes - 1, n_classes - 1)
    pairs = comb(n_teachers + n_classes - 1, n_classes - 1) * ways**2 // 2
    if pairs > _MOST_PAIRS or (n_teachers + 1) ** n_classes >= 2**63:
        raise InvalidParameterError(
            f"n_teachers={n_teachers}, n_classes={n_classes} and votes_per_unit={moved} make too many pairs of "
            f"histograms to compare (over {_MOST_PAIRS:,}): audit fewer teachers or classes."
        )


def _histograms(n_votes: int, n_classes: int) -> Integers:
    """Return all counts that sum to `n_votes`, shape (n_histograms, n_classes), in rising order."""
    # Stars and bars: enumerate the bars' places among the stars.
    places = combinations(range(n_votes + n_classes - 1), n_classes - 1)
    bars = np.fromiter(chain.from_iterable(places), dtype=np.int64).reshape(-1, n_classes - 1)
    return np.diff(bars, axis=1, prepend=-1, append=n_votes + n_classes - 1) - 1


def _moves(moved: int, n_classes: int) -> Integers:
    """Return one of each pair of opposite differences that moving at most `moved` ballots makes."""
    ways = _histograms(moved, n_classes)
    differences = np.unique((ways[:, None] - ways[None, :]).reshape(-1, n_classes), axis=0)
    # The differences are sorted and symmetric about zero, which lies in the middle.
    return differences[len(differences) // 2 + 1 :]


def _neighbours(histograms: Integers, moves: Integers) -> Iterator[tuple[Integers, Integers]]:
    """Yield, for each move, the places of the histograms to which it applies and of the resulting histograms."""
    base = (int(histograms[0].sum()) + 1) ** np.arange(histograms.shape[1])[::-1]
    codes = histograms @ base
    for move in moves:
        before = np.flatnonzero(np.all(histograms + move >= 0, axis=1))
        if before.size:
            yield before, np.searchsorted(codes, codes[before] + move @ base)
