"""The probability that a noisy vote misses the plurality, as a logarithm, and checks that PATE's bounds share."""

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, logsumexp

from dpensemble._checks import real_between
from dpensemble.errors import DataError, InvalidParameterError, SettingWarning

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


def checked_orders(orders: ArrayLike) -> NDArray[np.float64]:
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


def lnmax_log_error(counts: ArrayLike, scale: float) -> NDArray[np.float64]:
    """Bound the log-probability that Laplace noisy-max misses the plurality. Private."""
    # The union bound ``q = sum over c != c* of (2 + g) exp(-g) / 4`` with the gap ``g = (n_c* - n_c) / scale``, and
    # never more than ``1 - 1 / n_classes`` (N. Papernot et al., "Semi-supervised knowledge transfer for deep learning
    # from private training data", ICLR 2017, Lemma 4, and Jordon et al. 2019, supplement, equation (2)).
    gaps = _gaps(checked_counts(counts)) / real_between("scale", scale, 1e-9, 1e12)
    return _union(np.log((2 + gaps) / 4) - gaps)


def threshold_log_error(counts: ArrayLike, threshold: float, sigma: float) -> NDArray[np.float64]:
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
