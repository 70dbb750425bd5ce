r"""The one place that draws released outcomes, for every law.

Adding floating-point noise to counts leaks through the low bits (Mironov, "On significance of the least significant
bits for differential privacy", CCS 2012). Here no noise is added. A law's probability vector is mixed with the uniform
law, rounded to integers that sum to 2**63, and compared with 63 uniform bits.

Why rounding costs nothing
--------------------------
Let ``p`` and ``q`` be a law's exact outcome probabilities on two neighbouring count rows with ``p <= exp(e) q``. Let
``w`` be the mixing weight over ``C`` outcomes and ``h`` a bound on the absolute error of each integer weight relative
to 2**63. Mixing gives ``p' = (1 - w) p + w / C`` and

    ``exp(e) q' - p' >= (exp(e) - 1) w / C``,

so the sampled ``p' + h`` stays below ``exp(e) (q' - h)`` if ``h (exp(e) + 1) <= (exp(e) - 1) w / C``. This holds for
``w >= 2 h C / (1 - exp(-e))``. A law requires at least that weight at the smallest loss ``e`` at which it is accounted.
So the sampled integers obey every bound that the exact law obeys pointwise, over many answers too.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpensemble._random import NOISE_BITS, NoiseSource
from dpensemble.errors import InvalidParameterError
from dpensemble.laws.base import ReleaseLaw

# Bound on the error of one probability. The likeliest outcome carries the errors of all others.
PROBABILITY_ERROR = 1e-14
_TOTAL = 2**NOISE_BITS
_LARGEST_MIX = 0.01
# By how much a row of probabilities may miss a sum of one.
_OF_ONE = 1e-9


def least_mixing_weight(smallest_loss: float, n_outcomes: int) -> float:
    """Return the mixing weight that pays for rounding at every loss of at least `smallest_loss`.

    Parameters
    ----------
    smallest_loss : float
        Smallest non-zero privacy loss that the law is accounted at.
    n_outcomes : int
        Number of outcomes.

    Returns
    -------
    float
        At least 1e-6.

    Raises
    ------
    InvalidParameterError
        If more than 1 % of the answers would have to be uniform.
    """
    weight = max(1e-6, 2 * PROBABILITY_ERROR * n_outcomes**2 / -np.expm1(-smallest_loss))
    if not weight <= _LARGEST_MIX:
        raise InvalidParameterError(
            f"scale is so large that one vote changes the answer by a factor of only 1 + {smallest_loss:.1g}, "
            "which double precision cannot sample faithfully: use a smaller scale."
        )
    return float(weight)


def mixed_probabilities(law: ReleaseLaw, counts: NDArray[Any]) -> NDArray[np.float64]:
    """Return the sampled probabilities: those of the law, mixed with the uniform law.

    Accounting that needs more than the law's own bounds prices these probabilities.

    Parameters
    ----------
    law : ReleaseLaw
        Law to sample.
    counts : ndarray of shape (n_queries, n_classes)
        Votes for each class. Private.

    Returns
    -------
    ndarray of shape (n_queries, n_outcomes)
        Each within `PROBABILITY_ERROR` of the probability that is sampled.
    """
    # A user's law may change its counts, which must not affect the votes.
    protected = np.array(counts)
    protected.flags.writeable = False
    probabilities = law.probabilities(protected)
    if not (np.all(probabilities >= -_OF_ONE) and np.all(np.abs(probabilities.sum(axis=1) - 1) <= _OF_ONE)):
        finite = bool(np.all(np.isfinite(protected)))
        wrong = f"law={type(law).__name__} gives rows that are not probabilities: make each add up to 1."
        raise InvalidParameterError(wrong if finite else "counts must be finite numbers.")
    weight = law.mixing_weight(protected.shape[1])
    return (1 - weight) * np.clip(probabilities, 0, 1) + weight / probabilities.shape[1]


def integer_weights(law: ReleaseLaw, counts: NDArray[Any]) -> NDArray[np.uint64]:
    """Return the exact law that is sampled, as integers out of 2**63.

    Parameters
    ----------
    law : ReleaseLaw
        Law to sample.
    counts : ndarray of shape (n_queries, n_classes)
        Votes for each class. Private.

    Returns
    -------
    ndarray of shape (n_queries, n_outcomes)
        Each row sums to 2**63 exactly.
    """
    return _whole_weights(mixed_probabilities(law, counts))


def _whole_weights(mixed: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return rows of probabilities as integers that sum to 2**63."""
    # Truncating keeps the sum of the others below 2**63. The likeliest outcome takes the remainder.
    weights = (mixed * _TOTAL).astype(np.uint64)
    rows = np.arange(len(weights))
    likeliest = np.argmax(mixed, axis=1)
    weights[rows, likeliest] = 0
    weights[rows, likeliest] = np.uint64(_TOTAL) - weights.sum(axis=1, dtype=np.uint64)
    return weights


def sample(law: ReleaseLaw, counts: NDArray[Any], noise: NoiseSource) -> NDArray[np.int64]:
    """Draw one outcome for each query.

    Parameters
    ----------
    law : ReleaseLaw
        Law to sample.
    counts : ndarray of shape (n_queries, n_classes)
        Votes for each class. Private.
    noise : NoiseSource
        Source of the random bits.

    Returns
    -------
    ndarray of shape (n_queries,)
        Outcome indices. May be published at the cost that accounting charged.
    """
    return _sample_weights(integer_weights(law, counts), noise)


def sample_probabilities(mixed: NDArray[np.float64], noise: NoiseSource) -> NDArray[np.int64]:
    """Draw one outcome for each row of probabilities that are mixed already."""
    return _sample_weights(_whole_weights(mixed), noise)


def _sample_weights(weights: NDArray[np.uint64], noise: NoiseSource) -> NDArray[np.int64]:
    """Draw one outcome for each row of integers that sum to 2**63."""
    cumulative = np.cumsum(weights, axis=1, dtype=np.uint64)[:, :-1]
    return np.count_nonzero(noise.uniform_bits(len(cumulative))[:, None] >= cumulative, axis=1)
