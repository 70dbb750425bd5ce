"""The published data-dependent Renyi bounds of PATE's noisy votes, for whole tables of queries.

Every bound here is one-sided: it holds for ``D_order(M(D) || M(D'))``, where ``D`` is the data whose votes were
counted and ``D'`` is any neighbour, as Papernot et al. state it. The bounds are computed from private counts, so the
bounds are private too. `dpensemble.accounting.smooth.sensitivity` publishes a total of them.
"""

import numpy as np
from numpy.typing import ArrayLike

from dpensemble._arrays import Floats
from dpensemble._checks import real_between
from dpensemble.accounting.published.bounds import gaussian_rdp, laplace_rdp
from dpensemble.accounting.published.probabilities import (
    checked_orders,
    gnmax_log_error,
    lnmax_log_error,
    threshold_log_error,
)
from dpensemble.errors import DataError


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
    return gaussian_rdp(gnmax_log_error(counts, sigma), sigma / sensitivity, checked_orders(orders))


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
    log_error = threshold_log_error(counts, threshold, sigma)
    return gaussian_rdp(log_error, np.sqrt(2) * sigma / sensitivity, checked_orders(orders))


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
    return laplace_rdp(lnmax_log_error(counts, scale), 2 * sensitivity / scale, checked_orders(orders))


def conjectured_lnmax_rdp(counts: ArrayLike, scale: float, orders: ArrayLike, changed_votes: ArrayLike) -> Floats:
    """Return the personalised bound that the DPBag paper conjectures: for comparison, NOT a guarantee.

    Its authors state it without a proof ("note that we do not prove the following result - it is a
    conjecture"). No guarantee of this library rests on it, and none may.

    `changed_votes` are the most votes that the record can change in each query (``n_partitions * m(x; u)``). `scale` is
    ``n_partitions / lambda`` in the paper. Jordon et al. 2019, supplement, equation (3), a conjecture. The result is
    capped by their proven bound, made tight (`pure_rdp`).
    """
    log_error = lnmax_log_error(counts, scale)
    changed = np.asarray(changed_votes, dtype=np.float64)
    if changed.shape != log_error.shape or not np.all((changed >= 0) & (changed <= 1e9)):
        raise DataError("changed_votes must hold one number from 0 to 1e9 for each row of counts.")
    return laplace_rdp(log_error, 2 * changed / scale, checked_orders(orders))
