"""Publishing a data-dependent epsilon: the cost plus noise scaled to its smooth sensitivity."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from dpensemble._checks import real_between
from dpensemble._random import NoiseSource, SystemNoise
from dpensemble.accounting.smooth.sensitivity import SmoothCost
from dpensemble.errors import AccountingError, InvalidParameterError

# The published figure is a multiple of this: low bits of noisy floating-point numbers leak (Mironov, CCS 2012).
_PUBLISHED_STEP = 2.0**-20


@dataclass(frozen=True, slots=True)
class SmoothRelease:
    """A data-dependent guarantee that may be published, unless its noise came from a seed (`for_release` is False).

    Epsilon and delta hold for the labels and this release together. `labels_rdp`, in nats, is an upper bound on the
    labels' cost at `order`, except with probability `failure` over the noise. `release_rdp` pays for publishing it.
    """

    epsilon: float
    delta: float
    order: float
    labels_rdp: float
    release_rdp: float
    failure: float
    for_release: bool


def release_epsilon(
    cost: SmoothCost,
    counts: ArrayLike,
    *,
    delta: float,
    beta: float,
    noise_multiplier: float,
    failure: float = 0.01,
    answered: ArrayLike | None = None,
    noise: NoiseSource | None = None,
) -> SmoothRelease:
    """Publish an epsilon that was computed from the votes. The number of queries must be fixed in advance.

    The published number is ``total + S * noise_multiplier * (z + N(0, 1))`` with the smooth sensitivity ``S`` and
    the upper `failure` quantile ``z``. The mean moves up by ``z`` standard deviations *before* publishing, because
    ``S`` is secret too and cannot be used afterwards. `smooth_release_rdp` pays for the move.

    `beta` needs ``order * (1 - exp(-2 beta)) < 1``. If `answered` is given, it must not depend on the votes other than
    through the released threshold outcomes, and the guarantee then holds for that outcome. None (all) holds for every
    outcome.

    Papernot et al. 2018, appendix on smooth sensitivity (mechanism GNSS); conversion to epsilon: C. Canonne, G.
    Kamath and T. Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020, Proposition 12.
    """
    if not cost.both_directions:
        raise AccountingError(
            "both_directions=False bounds one direction only and gives no guarantee: use SmoothCost's default."
        )
    # The noise has 2**62 sizes. What its far tail misses lies below a thousandth of this.
    delta = real_between("delta", delta, 1e-9, 1 - 1e-9)
    failure = real_between("failure", failure, 1e-15, 0.5)
    beta = real_between("beta", beta, 1e-9, 10)
    offset = max(0.0, -float(ndtri(failure)))
    spent = smooth_release_rdp(cost.order, beta, noise_multiplier, offset)
    sensitivity = cost.smooth_sensitivity(counts, beta, answered)
    source = SystemNoise() if noise is None else noise
    noisy = cost.total(counts, answered) + sensitivity * noise_multiplier * (offset + _standard_normal(source))
    if not math.isfinite(noisy):
        raise AccountingError("the published cost must be finite, so nothing is released: use more noise in the votes.")
    n_charged = None if answered is None else int(np.count_nonzero(answered))
    worst = cost.worst_total(len(np.asarray(counts)), n_charged)
    # Both ends are public, so clipping and rounding cost nothing.
    labels = min(max(math.ceil(noisy / _PUBLISHED_STEP) * _PUBLISHED_STEP, 0.0), worst)
    epsilon = _epsilon(labels + spent, cost.order, delta)
    return SmoothRelease(epsilon, delta, cost.order, labels, spent, failure, source.for_release)


def smooth_release_rdp(order: float, beta: float, noise_multiplier: float, offset: float = 0.0) -> float:
    """Return the Renyi divergence of publishing a number with noise scaled to its smooth sensitivity."""
    # For ``f + S s (offset + N(0, 1))`` with a ``beta``-smooth bound ``S`` on the local sensitivity of ``f`` and noise
    # multiplier ``s``, at order ``a``, with ``t = exp(beta)``:
    # ``a (1 + s offset (t - 1))**2 / (2 s**2 (a - (a - 1) t**2)) - (2 a beta + log(1 - a (1 - t**-2))) / (2 (a - 1))``.
    # It is the divergence of two normal laws whose standard deviations differ by the factor ``t`` and whose means are
    # as far apart as both sensitivities allow. No smaller bound holds for all ``f``. Over all ratios of the two
    # standard deviations from ``1 / t`` to ``t`` both terms are largest at ``1 / t``.
    # The public research code of Papernot et al. 2018 gives
    # ``a t**2 / s**2 + (a beta - log(1 - 2 a beta) / 2) / (a - 1)`` for ``a < 1 / (2 beta)`` as their Theorem 23 (no
    # offset). That is exceeded by the exact divergence where ``a beta`` is near 1/2: 2.82 against 0.71 at order 10,
    # beta 0.049, multiplier 5. It is not used.
    # References: T. van Erven and P. Harremoes, "Renyi divergence and Kullback-Leibler divergence", IEEE Trans. Inf.
    # Theory 2014, equation (10) (normal laws); Nissim et al. 2007, Definition 2.1 (smooth bounds).
    order = real_between("order", order, 1, 1e12)
    beta = real_between("beta", beta, 1e-9, 10)
    noise_multiplier = real_between("noise_multiplier", noise_multiplier, 1e-9, 1e12)
    offset = real_between("offset", offset, 0, 10)
    narrowed = 1 + order * math.expm1(-2 * beta)
    if not (order > 1 and narrowed > 0):
        raise InvalidParameterError(f"beta={beta:g} must be below {_largest_beta(order):.3g} at order={order:g}.")
    apart = (1 + noise_multiplier * offset * math.expm1(beta)) / noise_multiplier
    means = order * apart**2 * math.exp(-2 * beta) / (2 * narrowed)
    spreads = -(2 * order * beta + math.log(narrowed)) / (2 * (order - 1))
    return (means + max(spreads, 0.0)) * (1 + 1e-9)


def _largest_beta(order: float) -> float:
    return -0.5 * math.log1p(-1 / order) if order > 1 else math.inf


def _epsilon(rdp: float, order: float, delta: float) -> float:
    """Convert by Canonne, Kamath and Steinke 2020, Proposition 12."""
    epsilon = rdp + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
    return max(epsilon, 0.0) * (1 + 1e-13)


def _standard_normal(source: NoiseSource) -> float:
    """Draw one normal variable: a bit for the sign, the other 62 for the size."""
    bits = int(source.uniform_bits(1)[0])
    size = -float(ndtri(((bits >> 1) + 0.5) / 2.0**63))
    return size if bits & 1 else -size
