r"""Several classes: a softmax that is fitted to noisy moments of labels, with calibrated probabilities.

The likelihood of a softmax depends on the labels only through the class sums, the means of ``phi 1{y = c}``. A round
releases such moments with noise. Each moment is a normal observation with mean ``E[omega phi (p_c - centre_c)]``, an
average over public rows, and a known covariance. Coefficients of a block of features have a normal prior. The prior
scale of each block is set by evidence, as in `dpensemble.moments.evidence`, with the mean curvature over classes. The
most likely coefficients come from a quasi-Newton method that starts at `dpensemble.moments.linear`.

Where rounds are residuals, as for images, logits are averaged with those of linear chances. The two fits err in
different ways. Linear chances were better on MNIST, whose classes can almost be separated.

A factor of all coefficients is fitted last, since shrinkage makes probabilities too cautious. The coefficients are
fitted to the same noise as the factor, so that the bare likelihood would make probabilities too sharp. The expected
excess is the covariance of noise and prediction (B. Efron, "The estimation of prediction error: covariance penalties
and cross-validation", JASA 2004). Two more fits, to moments with noise added and subtracted, estimate the covariance
(S. Ramani, T. Blu and M. Unser, "Monte-Carlo SURE", IEEE Transactions on Image Processing 2008). A factor of 0 leads
to the shares of the classes. All of this reads released quantities and public rows only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize

from dpensemble._arrays import Floats
from dpensemble.moments.evidence import Fit, inverted, positive_root
from dpensemble.moments.linear import fit_linear, round_covariance
from dpensemble.moments.model import columns, expected
from dpensemble.moments.public_rows import CONSTANT_LOGIT, PublicRows
from dpensemble.moments.queries import Moments
from dpensemble.moments.recentring import around_share
from dpensemble.moments.uncertainty import Information

Singles = NDArray[np.float32]
_Floating = TypeVar("_Floating", np.float32, np.float64)

# Logits of the first coefficients, in multiples of the linear chances. The fit moves them.
_FIRST_SHARPNESS = 8.0
# Bounds of prior scales, in logits.
_SMALLEST_SCALE, _LARGEST_SCALE = 0.03, 300.0
# Fits with renewed covariances and scales, updates of scales in each, and quasi-Newton steps of each.
_TURNS, _UPDATES, _STEPS = 5, 4, 20
# Least share of a class that is assumed.
_LEAST_SHARE = 1e-6
# Factors that are compared, and standard errors by which a factor must be better than the bare shares.
_FACTORS, _CAUTION = (0.0, *np.geomspace(0.05, 5.0, 80).tolist()), 0.5
# Up to this number, numpy adds the numbers of a row one after another, as `reduce` does, but much more slowly.
_FEW_CLASSES = 7


def softmax(scores: NDArray[_Floating]) -> NDArray[_Floating]:
    """Return the softmax of each row, shape (n_rows, n_classes)."""
    few = scores.shape[1] <= _FEW_CLASSES
    largest = reduce(np.maximum, scores.T)[:, None] if few else scores.max(axis=1, keepdims=True)
    powers = np.exp(scores - largest)
    return powers / _row_sums(powers)


def _row_sums(values: NDArray[_Floating]) -> NDArray[_Floating]:
    """Return the sum of each row, shape (n_rows, 1)."""
    sums: NDArray[_Floating]
    sums = reduce(np.add, values.T)[:, None] if values.shape[1] <= _FEW_CLASSES else values.sum(axis=1, keepdims=True)
    return sums


def fit_softmax(rounds: Sequence[Moments], public: PublicRows, *, n_units: float, with_linear: bool = False) -> Fit:
    """Fit calibrated coefficients of several classes to all rounds together.

    If `with_linear`, logits are the mean of those of the softmax and of those of linear chances, at equal size.
    """
    of_two = columns(public.n_classes) == 1
    about = [expected(m.centre, public.features, public.n_classes, m.even_weight) for m in rounds]
    if of_two:
        pairs = [around_share(m, one, public, n_units) for m, one in zip(rounds, about, strict=True)]
        rounds = [_of_both(m) for m, _ in pairs]
        about = [(np.hstack([1 - c, c]), omega) for _, (c, omega) in pairs]
    linear = fit_linear(rounds, about, public, n_units=n_units)
    coefficients, scales = _FIRST_SHARPNESS * linear.coefficients, _FIRST_SHARPNESS * linear.scales
    scales[-1] = CONSTANT_LOGIT / public.constant
    for turn in range(_TURNS):
        chances = softmax(np.asarray(public.features @ coefficients)).astype(np.float64)
        observed = [_observed(m, c, w, chances, public, n_units) for m, (c, w) in zip(rounds, about, strict=True)]
        information = _information(observed, chances, public)
        if turn:
            scales = _likeliest_scales(information, coefficients, public.blocks, scales)
        posterior = _Posterior.of(public.in_memory.features, observed, information, scales[public.blocks])
        coefficients = posterior.most_likely(coefficients)
    draws = np.random.default_rng(0)
    noise = [draws.standard_normal(one.values.shape, dtype=np.float32) for one in observed]
    fits = [coefficients, *(posterior.moved(noise, sign).most_likely(coefficients) for sign in (1.0, -1.0))]
    if with_linear:
        moved = ([_moved(*parts, sign) for parts in zip(rounds, observed, noise, strict=True)] for sign in (1.0, -1.0))
        others = [linear, *(fit_linear(moments, about, public, n_units=n_units) for moments in moved)]
        fits = _blended(fits, [other.coefficients for other in others], public)
    factor, fitted = _calibrated(posterior, fits, noise, public.in_memory.shares)
    # A logit less the mean logit of C classes has (1 - 1 / C) of the variance of one column, and a difference of two
    # logits has twice that variance.
    of_column = 2.0 if of_two else 1 - 1 / public.n_classes
    curvatures = np.ones(1) if of_two else _curvatures(chances, public)
    certain = Information(information, scales[public.blocks], curvatures, factor**2 * of_column)
    return Fit(fitted[:, 1:] - fitted[:, :1] if of_two else fitted, scales, certain)


def _curvatures(chances: Floats, public: PublicRows) -> Floats:
    """Return the curvature of each class, as a multiple of the mean curvature in `_information`."""
    some = public.in_memory
    each = some.shares @ (chances[some.rows] * (1 - chances[some.rows]))
    return np.asarray(each * public.n_classes / each.sum())


def _of_both(moments: Moments) -> Moments:
    """Return moments of two classes with a column for each. Moments of one column have the noise of a contrast."""
    values = np.hstack([-moments.values, moments.values])
    return replace(moments, values=values, spread=moments.spread * math.sqrt(2))


@dataclass(frozen=True, eq=False)
class _Observed:
    """A round in units of its own noise: the moments, and how chances of public rows lead to their expectation."""

    weights: Singles
    values: Singles
    # Root of the covariance of the moments.
    root: Floats

    def surprise(self, chances: Singles) -> Singles:
        """Return how far moments are from what chances lead to, shape (n_released, n_classes)."""
        return self.values - self.weights.T @ chances


def _observed(
    moments: Moments, centre: Floats, omega: Floats, chances: Floats, public: PublicRows, n_units: float
) -> _Observed:
    covariance = round_covariance(chances, chances, centre, omega, public, n_units)
    covariance[np.diag_indices_from(covariance)] += (moments.spread / moments.scale) ** 2
    root = positive_root(covariance)
    whitening = linalg.solve_triangular(root, np.eye(len(root)), lower=True, check_finite=False)
    some = public.in_memory
    weights = (some.released @ whitening.T.astype(np.float32)) * (omega[some.rows] * some.shares)[:, None]
    weights = weights.astype(np.float32)
    values = whitening @ (moments.values / moments.scale[:, None])
    return _Observed(weights, (values + weights.T @ centre[some.rows]).astype(np.float32), root)


def _information(observed: Sequence[_Observed], chances: Floats, public: PublicRows) -> Floats:
    """Return the precision of the coefficients of a class by the rounds, with the mean curvature over classes."""
    some = public.in_memory
    curvature = (1 - (chances[some.rows] ** 2).sum(axis=1)) / (public.n_classes - 1)
    curved = some.features * curvature[:, None].astype(np.float32)
    slopes = [(one.weights.T @ curved).astype(np.float64) for one in observed]
    return np.asarray(sum(slope.T @ slope for slope in slopes))


def _likeliest_scales(information: Floats, coefficients: Floats, blocks: NDArray[np.int64], scales: Floats) -> Floats:
    """Return prior scales of blocks, moved to where the evidence is largest."""
    sizes, of_constant = np.bincount(blocks), scales[-1]
    squares = np.bincount(blocks, (coefficients**2).sum(axis=1)) / (coefficients.shape[1] - 1)
    for _ in range(_UPDATES):
        _, variances = inverted(information + np.diag(1 / scales[blocks] ** 2))
        determined = np.maximum(sizes - np.bincount(blocks, variances) / scales**2, 1e-3)
        scales = np.sqrt(squares / determined).clip(_SMALLEST_SCALE, _LARGEST_SCALE)
        scales[-1] = of_constant
    return scales


@dataclass(frozen=True, eq=False)
class _Posterior:
    """Information on the coefficients, with a basis in which the loss has about the same curvature everywhere."""

    features: Singles
    observed: tuple[_Observed, ...]
    precisions: Singles
    root: Floats
    basis: Singles

    @classmethod
    def of(cls, features: Singles, observed: Sequence[_Observed], information: Floats, scales: Floats) -> _Posterior:
        """Return the posterior under prior scales of features."""
        root = positive_root(information + np.diag(1 / scales**2))
        basis = linalg.solve_triangular(root.T, np.eye(len(root)), lower=False, check_finite=False)
        precisions = (1 / scales**2)[:, None].astype(np.float32)
        return cls(features, tuple(observed), precisions, root, basis.astype(np.float32))

    def moved(self, noise: Sequence[Singles], sign: float) -> _Posterior:
        """Return the same with noise on the moments."""
        shifted = [replace(one, values=one.values + sign * e) for one, e in zip(self.observed, noise, strict=True)]
        return replace(self, observed=tuple(shifted))

    def most_likely(self, start: Floats) -> Floats:
        """Return the most likely coefficients, shape (n_features, n_classes)."""
        # The basis is the inverse of this root, transposed.
        first = self.root.T @ start
        steps = optimize.minimize(
            lambda u: self._loss(u.reshape(start.shape).astype(np.float32)),
            first.ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": _STEPS, "maxcor": 15},
        )
        return np.asarray(self.basis.astype(np.float64) @ steps.x.reshape(start.shape))

    def _loss(self, place: Singles) -> tuple[float, Floats]:
        """Return minus the log posterior at a place in the basis, and the gradient."""
        coefficients = self.basis @ place
        chances = softmax(self.features @ coefficients)
        loss = 0.5 * float((self.precisions * coefficients**2).sum(dtype=np.float64))
        pull = np.zeros_like(chances)
        for one in self.observed:
            surprise = one.surprise(chances)
            loss += 0.5 * float((surprise**2).sum(dtype=np.float64))
            pull -= one.weights @ surprise
        slopes = chances * (pull - _row_sums(chances * pull))
        gradient = self.basis.T @ (self.features.T @ slopes + self.precisions * coefficients)
        return loss, gradient.astype(np.float64).ravel()


def _moved(moments: Moments, observed: _Observed, noise: Singles, sign: float) -> Moments:
    """Return moments with noise on them, which is given in units of their error."""
    added = (observed.root @ noise) * moments.scale[:, None]
    return replace(moments, values=moments.values + sign * added)


def _blended(fits: Sequence[Floats], others: Sequence[Floats], public: PublicRows) -> list[Floats]:
    """Return means of two kinds of fits. The first pair determines how other fits are multiplied to equal size."""
    sizes = [float(np.linalg.norm(np.asarray(public.features @ kind[0]).std(axis=0))) for kind in (fits, others)]
    multiple = sizes[0] / max(sizes[1], 1e-12)
    return [(fit + multiple * other) / 2 for fit, other in zip(fits, others, strict=True)]


def _calibrated(
    posterior: _Posterior, fits: Sequence[Floats], noise: Sequence[Singles], shares: Floats
) -> tuple[float, Floats]:
    """Return the factor of least expected error, between the classes' shares and sharper chances, and coefficients.

    `fits` are coefficients by the moments, and by the moments with `noise` added and subtracted.
    """
    scores, more, less = (posterior.features @ fit.astype(np.float32) for fit in fits)
    logarithms = np.log(np.maximum(shares @ softmax(scores), _LEAST_SHARE)).astype(np.float32)

    def expectations(factor: float, scores: Singles) -> list[Singles]:
        chances = softmax(np.float32(factor) * scores + np.float32(1 - factor) * logarithms)
        return [one.weights.T @ chances for one in posterior.observed]

    shares_alone = expectations(0.0, scores)

    def error(factor: float) -> float:
        """Return the expected error of a factor, and what chance may make of how much better it is than shares."""
        fits = (expectations(factor, one) for one in (scores, more, less))
        parts = zip(posterior.observed, noise, *fits, shares_alone, strict=True)
        total = distance = 0.0
        for one, e, here, above, below, alone in parts:
            total += 0.5 * float(((one.values - here) ** 2).sum(dtype=np.float64))
            total += 0.5 * float((e * (above - below)).sum(dtype=np.float64))
            distance += float(((here - alone) ** 2).sum(dtype=np.float64))
        return total + _CAUTION * math.sqrt(distance)

    factor = min(_FACTORS, key=error)
    scaled = factor * fits[0]
    # The constant is the last feature, the same in every row.
    scaled[-1] += (1 - factor) * logarithms / posterior.features[0, -1]
    return factor, scaled
