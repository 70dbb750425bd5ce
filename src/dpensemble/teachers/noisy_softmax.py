r"""Noisy gradient descent on the loss of several classes, in whole numbers.

As in `dpensemble.teachers.noisy_descent`, which has the proof, except for the gradient. A record with the row ``z``, of
length at most ``L = sqrt(5 / 4)``, and the class ``y`` has the gradient ``z outer (p - e_y)`` of ``-log p_y``. Here
``p`` are chances: not negative, and together at most 1. So with ``q = 1 - p_y``, and the other chances together at most
``q``,

    |p - e_y|**2 = q**2 + sum of the others' squares <= 2 q**2 <= 2,

and a record's gradient is at most ``sqrt(2) L`` long, for all weights. Nothing else changes: replacing a unit
moves a sum by at most ``2 sqrt(2) L``, adding or removing one by at most half of that.

Scores are exact whole numbers. A table gives the odds by how far a class is behind the best, in whole steps of
``2**-8``. Chances are odds over their sum, rounded down to whole numbers of ``1 / CHANCE`` in whole arithmetic. So
what a record adds depends on that record and on released weights only, to the last digit.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dpensemble._arrays import Floats, Integers
from dpensemble.releases.sums import DiscreteNoise
from dpensemble.teachers.noisy_descent import (
    CHANCE,
    ROW,
    WEIGHT,
    descend,
    number_of_units,
    require_few,
    shared_by_units,
    signed_records,
)

# Squared length of a gradient: twice that of a record.
_SQUARED_LENGTH = Fraction(5, 2)
# Steps of scores in 1, and odds at a number of steps behind the best class, in whole numbers.
_STEPS = 2**8
_ODDS: Integers = np.rint(2.0**20 * np.exp(-np.arange(_STEPS * 20) / _STEPS)).astype(np.int64)


def noisy_softmax_descent(
    rows: Floats,
    classes: Integers,
    n_classes: int,
    *,
    clip: float,
    rho: float,
    n_steps: int,
    noise: DiscreteNoise,
    units: Integers | None = None,
) -> Floats:
    """Return the mean weights of the later half of the steps, which may be published.

    The shape is (n_features + 1, n_classes).

    Rows and class ids are private. The other parameters are those of `dpensemble.teachers.noisy_descent.noisy_descent`.
    """
    require_few(rows)
    records = signed_records(rows, np.ones(len(rows)), clip)
    shared = shared_by_units(records, units)
    return descend(
        lambda weights: softmax_sum(records, classes, weights, shared),
        (rows.shape[1] + 1, n_classes),
        n_units=number_of_units(rows, units),
        squared_length=_SQUARED_LENGTH,
        rho=rho,
        n_steps=n_steps,
        noise=noise,
    )


def softmax_sum(records: Floats, classes: Integers, weights: Floats, shared: Floats) -> Floats:
    """Return the exact sum of the gradients in whole units. `shared` is what each record adds."""
    scores = (records @ np.rint(weights * WEIGHT)).astype(np.int64)
    behind = (scores.max(axis=1, keepdims=True) - scores) // (ROW * WEIGHT // _STEPS)
    odds = np.where(behind < len(_ODDS), _ODDS[np.minimum(behind, len(_ODDS) - 1)], 0)
    chances = odds * CHANCE // odds.sum(axis=1, keepdims=True)
    chances[np.arange(len(classes)), classes] -= CHANCE
    total: Floats = shared.T @ chances.astype(np.float64)
    return total
