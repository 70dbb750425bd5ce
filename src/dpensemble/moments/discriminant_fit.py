"""From the released sums of `DiscriminantClassifier` to its model: covariances, and the sharpness of probabilities."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp, softmax

from dpensemble._arrays import Floats, Integers
from dpensemble.moments.class_sums import Means, Spreads
from dpensemble.moments.discriminant import DiscriminantModel
from dpensemble.moments.public_directions import LEAST_VARIANCE, PublicDirections
from dpensemble.moments.whole import UNIT

# Radius of the second sum in root mean squares, and the lowest score that is distinguished.
_RADIUS, _LOWEST = 1.2, 15.0
# Sharpness that is tried, and steps towards released shares for each.
_SHARPNESS, _SHIFTS = np.geomspace(0.02, 1.5, 40), 30


def common_whitening(public: PublicDirections, points: Floats, sums: Means) -> Floats:
    """Return the matrix that whitens differences within classes: the spread of public rows less that between means."""
    scaled = points * (public.radius / UNIT)
    means, shares = sums.means * public.radius, sums.sizes / sums.sizes.sum()
    within = scaled.T @ scaled / len(points) - (means.T * shares) @ means
    variances, vectors = np.linalg.eigh(within)
    return vectors / np.sqrt(np.maximum(variances, LEAST_VARIANCE))


def squared_radius(n_directions: int) -> float:
    """Return the squared length to which whitened differences are cut for `ClassProducts`."""
    return _RADIUS**2 * n_directions


def covariances(sums: Means, spreads: Spreads) -> Floats:
    """Return the covariance of each class, shrunk towards that of all classes, and that towards a multiple of 1."""
    size = spreads.moments.shape[1]
    unit = squared_radius(size)
    each = spreads.moments * unit / sums.sizes[:, None, None]
    noise = (spreads.noise * unit / sums.sizes) ** 2
    shares = sums.sizes / sums.sizes.sum()
    common = np.einsum("c,cij->ij", shares, each)
    level = np.eye(size) * max(float(np.trace(common)) / size, LEAST_VARIANCE)
    common = level + _kept(common - level, np.array([shares**2 @ noise]))[0] * (common - level)
    apart = each - np.einsum("c,cij->ij", shares, each)
    return np.stack([_positive(common + part * own) for part, own in zip(_kept(apart, noise), apart, strict=True)])


def _kept(values: Floats, noise: Floats) -> Floats:
    """Return the share of each value that is kept: its variance beside that of its noise."""
    signal = max(float(np.mean((values**2).mean(axis=(-2, -1)) - noise)), 0.0)
    part: Floats = signal / (signal + np.maximum(noise, 1e-300))
    return part


def _positive(matrix: Floats) -> Floats:
    variances, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(variances, 2 * LEAST_VARIANCE)) @ vectors.T


def with_covariances(model: DiscriminantModel, matrices: Floats) -> DiscriminantModel:
    """Return the model with a covariance of each class, in whitened differences."""
    common = model.whitening_
    roots = np.linalg.cholesky(np.linalg.inv(matrices))
    model.whitening_ = common @ roots
    model.offsets_ = model.offsets_ - np.linalg.slogdet(matrices)[1] / 2
    return model


def own_scores(model: DiscriminantModel, points: Floats, targets: Integers) -> Floats:
    """Return the number from 0 to 1 that each record adds to `OwnScore`, shape (n_records, 1). Private."""
    scores = model.scores(points)[np.arange(len(points)), targets]
    return 1 + scores[:, None] / _LOWEST


def calibrated(model: DiscriminantModel, total: float, sums: Means, public: Floats) -> DiscriminantModel:
    """Return the model with the sharpness of greatest likelihood."""
    shares = sums.sizes / sums.sizes.sum()
    own = min(0.0, (total / sums.sizes.sum() - 1) * _LOWEST)
    scores = model.scores(public)
    best = -np.inf
    for sharpness in _SHARPNESS:
        shift = _matching_shift(sharpness * scores, shares)
        likelihood = sharpness * own + shares @ shift - logsumexp(sharpness * scores + shift, axis=1).mean()
        if likelihood > best:
            best, model.sharpness_, model.shift_ = likelihood, float(sharpness), shift
    return model


def _matching_shift(scores: Floats, shares: Floats) -> Floats:
    """Return the shift of scores that brings mean probabilities of public rows near released shares."""
    shift = np.zeros(len(shares))
    for _ in range(_SHIFTS):
        shift = shift + np.log(shares / (softmax(scores + shift, axis=1).mean(axis=0) + 1e-9))
    return shift
