"""Full-batch gradient descent with Gaussian noise, and its exact privacy when one record is replaced."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import exp, sqrt

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from arena.gradients import Model, scaled


@dataclass(frozen=True)
class Settings:
    """How to descend: how far steps lead in all where gradients have length `clip`, and hidden units.

    Without `way` it follows from public facts (`far`), by settings of development tables.
    """

    clip: float
    way: float | None = None
    hidden: int = 0
    steps: int = 60


#: Chosen on development tables and on splits of the arena's tables that are not reported.
LINEAR, NETWORK = Settings(clip=1.0), Settings(clip=3.0, hidden=16)
_WAYS = (10.0, 30.0, 100.0, 300.0, 1_000.0)
LINEAR_GRID = tuple(Settings(clip, way) for clip in (0.3, 1.0) for way in _WAYS)
NETWORK_GRID = tuple(Settings(clip, way, hidden=16) for clip in (1.0, 3.0) for way in _WAYS)


def dp_gd(
    private: np.ndarray,
    y: np.ndarray,
    public: np.ndarray,
    test: np.ndarray,
    *,
    classes: int,
    epsilon: float,
    delta: float,
    seed: int,
    settings: Settings,
) -> np.ndarray:
    """Return class probabilities of test rows.

    Every step sees all rows. A record that is replaced moves a sum of clipped gradients by at most twice the clip. So
    `steps` sums with Gaussian noise of deviation s are one Gaussian mechanism with mu = 2 clip sqrt(steps) / s. Source:
    Dong, Roth and Su 2022, "Gaussian differential privacy", Corollary 3.3. The number of rows is public.
    """
    rows, test_rows = scaled(public, private, test)
    model = Model(rows.shape[1], classes, settings.hidden)
    parameters, noise = model.start(seed), np.random.default_rng((seed, 1))
    deviation = 2 * sqrt(settings.steps) / mu_of(epsilon, delta)
    by_rule = far(epsilon, delta, rows, model, *((1.0, 10.0) if settings.hidden else (1.5, 20.0)))
    pace = (settings.way or by_rule) / settings.steps / len(rows)
    for _ in range(settings.steps):
        sums = model.clipped_sum(parameters, rows, y, settings.clip)
        parameters = [
            held - pace * (part / settings.clip + noise.normal(scale=deviation, size=part.shape))
            for held, part in zip(parameters, sums, strict=True)
        ]
    return model.probabilities(parameters, test_rows)


def far(epsilon: float, delta: float, rows: np.ndarray, model: Model, factor: float, least: float) -> float:
    """Return how far steps lead in all: farther where rows outweigh noise, by public facts, and at most 300."""
    signal = mu_of(epsilon, delta) * len(rows) / sqrt(model.columns * model.outputs)
    return float(np.clip(factor * signal, least, 300.0))


@cache
def mu_of(epsilon: float, delta: float) -> float:
    """Return the largest shift, in deviations, at which the Gaussian mechanism is (epsilon, delta)-private.

    Its delta is increasing in the shift (Balle and Wang 2018, "Improving the Gaussian mechanism", Theorem 8).
    """

    def excess(mu: float) -> float:
        return norm.cdf(mu / 2 - epsilon / mu) - exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu) - delta

    # A little below the root, so that the search errs on the safe side.
    return brentq(excess, 1e-6, 100.0, xtol=1e-12) * (1 - 1e-9)
