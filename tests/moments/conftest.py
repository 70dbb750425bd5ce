"""Moments whose expectation and noise are known."""

import numpy as np
import pytest

from dpensemble.moments import Moments
from dpensemble.moments.learning import _even_weight
from dpensemble.moments.public_rows import PublicRows
from dpensemble.moments.whole import centres_and_weights, probabilities


@pytest.fixture
def made():
    """A function that makes public rows, true probabilities, and rounds of moments."""
    return _made


def _made(n_classes, spread, n_rounds=2, n_features=5, seed=0):
    """Public rows, true coefficients, and rounds of moments with noise of that spread."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(3000, n_features))
    features[:, -1] = 1.0
    features /= np.linalg.norm(features, axis=1).max()
    width = 1 if n_classes == 2 else n_classes
    truth = 3 * rng.normal(size=(n_features, width))
    truth -= truth.mean(axis=1, keepdims=True) if width > 1 else 0
    p, weight = probabilities(features, truth), _even_weight(n_classes)
    rounds = []
    for number in range(n_rounds):
        centre = truth * 0.5 if number else None
        c, omega = centres_and_weights(centre, features, n_classes, weight)
        values = features.T @ (omega[:, None] * (p - c)) / len(features) + spread * rng.normal(size=truth.shape)
        rounds.append(
            Moments(values=values, spread=spread, scale=np.ones(n_features), centre=centre, even_weight=weight)
        )
    blocks = np.append(np.zeros(n_features - 1, dtype=np.int64), 1)
    return PublicRows(features, blocks, n_classes), p, rounds
