r"""Several classes in closed form: chances that are linear in the features, fitted to all rounds together.

The chance of class ``c`` in a row is modelled as ``1 / C + phi(x) . b_c``. Every released moment is then linear in
``b``. Its expectation is ``E[omega phi (1 / C + phi . b_c - c)]`` over public rows. So the most likely coefficients
under normal priors solve one linear system, which all classes share. The solution needs no iteration that could fail to
converge. Noise and the prior scales of blocks are as in `dpensemble.moments.evidence`. A linear chance may lie outside
0 to 1. `dpensemble.moments.softmax` starts from these coefficients.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dpensemble._arrays import Floats
from dpensemble.moments.evidence import Fit, inverted, positive_root
from dpensemble.moments.public_rows import PublicRows
from dpensemble.moments.queries import Moments

# Standard deviation of the constant's part of a chance, and bounds of all other prior scales, of linear chances.
_CONSTANT_CHANCE, _SMALLEST_SCALE, _LARGEST_SCALE = 1.0, 1e-3, 100.0
# Times the covariance of the moments is renewed at the present fit, and updates of the scales each time.
_TURNS, _UPDATES = 3, 12
# Least variance of a label that is assumed anywhere.
_LEAST_VARIANCE = 0.02


def fit_linear(
    rounds: Sequence[Moments], about: Sequence[tuple[Floats, Floats]], public: PublicRows, *, n_units: float
) -> Fit:
    """Fit linear chances of all classes to all rounds. `about` holds centres and weights of public rows."""
    n_classes = public.n_classes
    systems = [_system(m, c, omega, public) for m, (c, omega) in zip(rounds, about, strict=True)]
    scales = np.ones(int(public.blocks.max()) + 1)
    scales[-1] = _CONSTANT_CHANCE / public.constant
    fitted: Floats | None = None
    for _ in range(_TURNS):
        size = public.features.shape[1]
        information, target = np.zeros((size, size)), np.zeros((size, n_classes))
        for moments, (c, omega), (slope, rest) in zip(rounds, about, systems, strict=True):
            covariance = _covariance(fitted, c, omega, public, n_units)
            covariance[np.diag_indices_from(covariance)] += (moments.spread / moments.scale) ** 2
            weighted = linalg.cho_solve((positive_root(covariance), True), slope)
            information += slope.T @ weighted
            target += weighted.T @ rest
        coefficients, scales = _most_likely(information, target, public.blocks, scales)
        fitted = 1 / n_classes + np.asarray(public.features @ coefficients)
    return Fit(coefficients, scales)


def _system(moments: Moments, c: Floats, omega: Floats, public: PublicRows) -> tuple[Floats, Floats]:
    """Return how a round's moments grow with the coefficients, and the moments less their part without any."""
    fixed = public.average(omega[:, None] * (1 / public.n_classes - c))
    rest = moments.values / moments.scale[:, None] - fixed
    return public.slope(omega), rest - rest.mean(axis=1, keepdims=True)


def _covariance(fitted: Floats | None, c: Floats, omega: Floats, public: PublicRows, n_units: float) -> Floats:
    n_classes = public.n_classes
    if fitted is None:
        # Before the first fit the error of the centres is unknown.
        return public.curvature(omega**2 / n_classes / n_units)
    chances = fitted.clip(0.0, 1.0)
    chances = chances / np.maximum(chances.sum(axis=1, keepdims=True), 1e-6)
    return round_covariance(chances, fitted, c, omega, public, n_units)


def round_covariance(
    chances: Floats, fitted: Floats, centre: Floats, omega: Floats, public: PublicRows, n_units: float
) -> Floats:
    """Return the covariance of a round's moments along a contrast of classes, without that of the added noise.

    Labels vary by their `chances` in a sample of units. Public rows stand for private rows, which matters the more the
    more `fitted` values differ from the centre in some rows and not in others.
    """
    contrasts = public.n_classes - 1
    labels = np.maximum(1 - (chances**2).sum(axis=1), _LEAST_VARIANCE) / contrasts
    of_rows = public.covariance(omega[:, None] * (fitted - centre)) / contrasts
    return public.curvature(omega**2 * labels / n_units) + (1 / n_units + public.doubt) * of_rows


def _most_likely(
    information: Floats, target: Floats, blocks: NDArray[np.int64], scales: Floats
) -> tuple[Floats, Floats]:
    """Return the best coefficients under the prior, whose scales are moved to where the evidence is largest."""
    sizes, contrasts, of_constant = np.bincount(blocks), target.shape[1] - 1, scales[-1]
    for _ in range(_UPDATES):
        precision = 1 / scales[blocks] ** 2
        root, variances = inverted(information + np.diag(precision))
        coefficients = linalg.cho_solve((root, True), target)
        determined = np.maximum(sizes - np.bincount(blocks, variances * precision), 1e-3)
        squares = np.bincount(blocks, (coefficients**2).sum(axis=1)) / contrasts
        scales = np.sqrt(squares / determined).clip(_SMALLEST_SCALE, _LARGEST_SCALE)
        scales[-1] = of_constant
    return coefficients, scales
