"""Public weights of features before a later round, so that sensitivity is spent where signal is."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from dpensemble._arrays import Floats
from dpensemble.moments.evidence import Fit
from dpensemble.moments.public_rows import PublicRows

# Share of its present part that every block keeps.
_FLOOR = 0.2


def weights_of_features(fitted: Fit, public: PublicRows, feature_map: Any, spread: float) -> Floats:
    """Return factors for the features of the next round, from the model published so far.

    A block with squared length ``a`` of prior scale ``tau`` leaves an uncertainty of about ``sum of h tau**2 / (1 + a
    h**2 tau**2 / spread**2)`` over its features, where ``h`` is a feature's curvature. The squared lengths that make
    the sum over blocks least, and sum to what they do now, are found by bisection. A row that has no entry in a
    column has that column's whole length, as before, so that no row becomes longer than 1.
    """
    p = public.probabilities(fitted.coefficients)
    curvature = (p * (1 - p)).mean(axis=1)
    squared = public.features.power(2) if sparse.issparse(public.features) else public.features**2
    h = np.asarray(squared.T @ curvature).ravel() / len(p)
    now, blocks = feature_map.squares_, feature_map.blocks_
    gains = h**2 * fitted.scales[blocks] ** 2 / spread**2
    squares = _divided(h * fitted.scales[blocks] ** 2, gains / now[blocks], blocks, now)
    factors: Floats = np.sqrt(squares / now)[blocks]
    owners = feature_map.columns_of_blocks_
    for column, feature in enumerate(feature_map.missing_):
        factors[feature] = np.sqrt(squares[owners == column].sum() / now[owners == column].sum())
    return factors


def _divided(losses: Floats, gains: Floats, blocks: Any, now: Floats) -> Floats:
    """Return squared lengths of blocks, the last as it is, that minimise ``sum of losses / (1 + a gains)``."""
    total, least = 1 - now[-1], _FLOOR * now[:-1]

    def lengths(price: float) -> Floats:
        low, high = least.copy(), np.full(len(least), total)
        for _ in range(40):
            middle = np.sqrt(low * high)
            a = np.append(middle, now[-1])[blocks]
            worth = np.bincount(blocks, losses * gains / (1 + a * gains) ** 2)[:-1]
            low, high = np.where(worth > price, middle, low), np.where(worth > price, high, middle)
        return np.sqrt(low * high)

    cheap, dear = 1e-30, 1e30
    for _ in range(80):
        price = np.sqrt(cheap * dear)
        cheap, dear = (price, dear) if lengths(price).sum() > total else (cheap, price)
    best = lengths(dear)
    return np.append(best * total / best.sum(), now[-1])
