"""The private descent on times until an event: its gradient, what a replaced person moves, and all of its noise."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import survival_rivals
from arena.dp_gd import mu_of
from survival_rivals import Settings, cells_of, clipped_sum, descent

ENDS = np.array([1.0, 2.0, 3.0, 4.0])
PIECES = np.eye(2).repeat(2, axis=0)


def _people(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)), rng.uniform(0, 5, n), rng.random(n) < 0.5


def test_a_person_is_at_risk_until_the_event_or_in_bins_that_the_person_survived():
    times = np.array([1.5, 1.0, 2.5, 3.0, 9.0, 9.0])
    is_event = np.array([True, True, False, False, True, False])
    nan = np.nan
    expected = [
        [0, 1, nan, nan],
        [1, nan, nan, nan],
        [0, 0, nan, nan],
        [0, 0, 0, nan],
        [0, 0, 0, 0],
        [0, 0, 0, 0],
    ]
    np.testing.assert_array_equal(cells_of(times, is_event, ENDS), expected)


def test_sums_are_derivatives_of_the_pooled_loss():
    rows, *of_times = _people(9)
    cells, parameters = cells_of(*of_times, ENDS), np.random.default_rng(1).normal(size=5)

    def loss(at):
        hazards = expit(PIECES @ at[:2] + (rows @ at[2:])[:, None])
        return -np.nansum(np.log(np.where(cells == 1, hazards, 1 - hazards)) + 0 * cells)

    slopes = [(loss(parameters + step) - loss(parameters - step)) / 2e-6 for step in 1e-6 * np.eye(5)]
    assert clipped_sum(parameters, rows, PIECES, cells, 1e9) == pytest.approx(slopes, abs=1e-6)


@pytest.mark.parametrize("clip", [0.1, 1.0])
def test_a_replaced_person_moves_a_sum_by_at_most_twice_the_clip(clip):
    """Brute force over people in every cell, with near and far rows, at parameters that are far out."""
    parameters = 5 * np.random.default_rng(1).normal(size=5)
    rows = np.repeat(np.concatenate([_people(5)[0], 50 * _people(5)[0]]), 10, axis=0)
    ends = list(product([0.5, 1.5, 2.5, 3.5, 9.0], [True, False])) * 10
    cells = cells_of(*map(np.array, zip(*ends, strict=True)), ENDS)
    singles = [clipped_sum(parameters, rows[[i]], PIECES, cells[[i]], clip) for i in range(len(rows))]
    longest = max(np.linalg.norm(one - other) for one in singles for other in singles)
    assert 1.9 * clip < longest <= 2 * clip * (1 + 1e-9)
    assert clipped_sum(parameters, rows, PIECES, cells, clip) == pytest.approx(np.sum(singles, axis=0))


def test_noise_of_all_steps_is_that_of_one_mechanism(monkeypatch):
    """Without gradients the last parameters of four steps hold noise only: three steps to the third, four to the last.

    The result is the mean of both, so its variance is that of one step times 3 + 1 / 4. Four deviations are allowed.
    """
    monkeypatch.setattr(survival_rivals, "clipped_sum", lambda parameters, *_: 0 * parameters)
    monkeypatch.setattr(survival_rivals, "encoded", lambda *tables: tables)
    monkeypatch.setattr(survival_rivals, "scaled", lambda _, *tables: [np.c_[one, np.ones(len(one))] for one in tables])
    X, settings = np.eye(400), Settings(clip=0.5, pieces=2, way=1.0, steps=4)
    # Scores of unit rows are parameters.
    scores, _ = descent(X, X, X, np.zeros((400, 4)), epsilon=1.0, delta=1e-5, seed=0, settings=settings)
    of_step = 2 * np.sqrt(4) / mu_of(1.0, 1e-5) / 4 / 400
    assert scores.std() == pytest.approx(of_step * np.sqrt(3.25), rel=0.15)


def test_descent_learns_and_can_be_repeated():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(3_000, 2)), columns=["a", "b"])
    died, left = rng.exponential(2 * np.exp(-rows["a"])), rng.uniform(0, 6, 3_000)
    cells = cells_of(np.minimum(died, left), died <= left, ENDS)
    more = {"epsilon": 3.0, "delta": 1e-5, "seed": 3, "settings": Settings(clip=1.0, pieces=2)}
    (scores, free), (again, _) = (descent(rows[:500], rows, rows, cells, **more) for _ in range(2))
    assert np.array_equal(scores, again)
    assert np.corrcoef(scores, rows["a"])[0, 1] > 0.9
    assert free[:, 1].mean() == pytest.approx((died > 2).mean(), abs=0.05)
