"""DP-BandMF by jax-privacy: descent with correlated noise (Choquette-Choo et al. 2023, arXiv 2306.08153)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache

import numpy as np

from arena.dp_gd import far
from arena.gradients import Model, scaled
from arena.rival_side.split import Split

#: Steps, the longest gradient, and groups: settings of development tables.
STEPS, CLIP, BANDS = 64, 1.0, 4


@dataclass(frozen=True)
class Plan:
    """The package's plan at a budget: who is in which batch, and the noise of every step."""

    batches: object
    noise: object


def banded_linear(split: Split, *, classes: int, epsilon: float, delta: float, seed: int) -> np.ndarray:
    """Return class probabilities of test rows by logistic regression."""
    return descended(*split.matrices("matrices"), split.y, classes=classes, epsilon=epsilon, delta=delta, seed=seed)


def descended(
    private: np.ndarray,
    public: np.ndarray,
    test: np.ndarray,
    y: np.ndarray,
    *,
    classes: int,
    epsilon: float,
    delta: float,
    seed: int,
    bands: int = BANDS,
    way: float | None = None,
) -> np.ndarray:
    """Return class probabilities of test rows.

    Rows are in one of `bands` groups, which take turns, so a group has a batch of its own. Gradients are clipped in
    closed form. The strategy, its noise, the groups and the accounting are the package's.
    """
    rows, test_rows = scaled(public, private, test)
    model = Model(rows.shape[1], classes)
    (parameters,) = model.start(seed)
    plan = planned(epsilon, delta, bands, seed)
    state = plan.noise.init(parameters)
    pace = (way or far(epsilon, delta, rows, model, 1.5, 20.0)) / STEPS / (len(rows) / bands)
    for batch in plan.batches.batch_iterator(len(rows), rng=seed):
        (total,) = model.clipped_sum([parameters], rows[batch], y[batch], CLIP)
        noisy, state = plan.noise.update(total.astype(np.float32), state)
        parameters = parameters - pace * np.asarray(noisy, dtype=float)
    return model.probabilities([parameters], test_rows)


@cache
def _strategy(bands: int) -> np.ndarray:
    from jax_privacy.matrix_factorization import toeplitz  # noqa: PLC0415

    return np.asarray(toeplitz.optimize_banded_toeplitz(n=STEPS, bands=bands))


@cache
def _deviation(epsilon: float, delta: float, bands: int) -> float:
    """Return the deviation of noise before it is correlated, for replacing a record whose gradient is at most 1 long.

    The accountant of dp-accounting 0.6 already counts a replaced record as a move of 2. The plan of jax-privacy 2.0
    multiplies the noise by the sensitivity of 2 once more, so the arena makes the plan from this multiplier instead.
    """
    import dp_accounting  # noqa: PLC0415
    from jax_privacy.experimental.accounting import amplified_bandmf_event  # noqa: PLC0415

    relation = dp_accounting.NeighboringRelation.REPLACE_ONE
    return dp_accounting.calibrate_dp_mechanism(
        make_fresh_accountant=lambda: dp_accounting.pld.PLDAccountant(relation),
        make_event_from_param=lambda sigma: amplified_bandmf_event(
            noise_multiplier=sigma, iterations=STEPS, num_bands=bands, sampling_prob=1.0
        ),
        target_epsilon=epsilon,
        target_delta=delta,
    )


def planned(epsilon: float, delta: float, bands: int, seed: int) -> Plan:
    """Return the plan at a budget."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    from jax_privacy import batch_selection, noise_addition  # noqa: PLC0415
    from jax_privacy.matrix_factorization import toeplitz  # noqa: PLC0415

    strategy = _strategy(bands)
    return Plan(
        batch_selection.CyclicPoissonSampling(sampling_prob=1.0, iterations=STEPS, cycle_length=bands),
        noise_addition.matrix_factorization_privatizer(
            toeplitz.inverse_as_streaming_matrix(strategy),
            stddev=_deviation(epsilon, delta, bands) * CLIP * float(np.linalg.norm(strategy)),
            prng_key=seed,
        ),
    )
