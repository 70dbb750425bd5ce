"""DP-GD of the arena: gradients in closed form, what a replaced record moves, and the noise for a budget."""

from dataclasses import replace
from math import exp

import numpy as np
import pytest
from scipy.stats import norm

from arena.dp_gd import LINEAR, NETWORK, Settings, dp_gd, far, mu_of
from arena.gradients import Model, scaled
from arena.metrics import merit

MODELS = [Model(4, 2), Model(4, 3), Model(4, 2, hidden=3), Model(4, 3, hidden=3)]


def _rows(count, classes, seed=0):
    draw = np.random.default_rng(seed)
    return np.column_stack([draw.normal(size=(count, 3)), np.ones(count)]), draw.integers(classes, size=count)


def _parameters(model, seed=1):
    draw = np.random.default_rng(seed)
    return [part + draw.normal(size=part.shape) for part in model.start(0)]


@pytest.mark.parametrize("model", MODELS)
def test_sums_are_derivatives_of_the_log_loss(model):
    X, y = _rows(5, model.classes)
    parameters = _parameters(model)

    def loss():
        return -np.log(model.probabilities(parameters, X)[np.arange(len(y)), y]).sum()

    for part, total in zip(parameters, model.clipped_sum(parameters, X, y, 1e9), strict=True):
        for place in np.ndindex(part.shape):
            held = part[place]
            part[place] = held + 1e-6
            above = loss()
            part[place] = held - 1e-6
            below = loss()
            part[place] = held
            assert total[place] == pytest.approx((above - below) / 2e-6, abs=1e-6)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("clip", [0.1, 1.0])
def test_a_replaced_record_moves_a_sum_by_at_most_twice_the_clip(model, clip):
    """Brute force over records: single rows of every class, far out and near, at parameters that are far out too."""
    parameters = [30 * part for part in _parameters(model)]
    X, y = _rows(40, model.classes)
    X[::2] *= 50.0
    singles = [
        np.concatenate([part.ravel() for part in model.clipped_sum(parameters, X[[i]], y[[i]], clip)])
        for i in range(len(y))
    ]
    longest = max(np.linalg.norm(one - other) for one in singles for other in singles)
    assert max(np.linalg.norm(one) for one in singles) <= clip * (1 + 1e-9)
    assert longest <= 2 * clip * (1 + 1e-9)
    total = np.concatenate([part.ravel() for part in model.clipped_sum(parameters, X, y, clip)])
    assert total == pytest.approx(np.sum(singles, axis=0))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_mu_spends_delta(epsilon):
    mu = mu_of(epsilon, 1e-5)
    spent = norm.cdf(mu / 2 - epsilon / mu) - exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    assert 0.999e-5 < spent <= 1e-5


def test_noise_of_all_steps_is_that_of_one_mechanism(monkeypatch):
    """Without gradients the parameters hold noise only. The mean of all steps has the deviation of one mechanism."""
    monkeypatch.setattr(Model, "clipped_sum", lambda self, parameters, *_: [0 * part for part in parameters])
    monkeypatch.setattr(Model, "probabilities", lambda self, parameters, X: parameters[0])
    X = np.ones((50, 40_000))
    settings = Settings(clip=0.5, way=1.0, steps=4)
    found = dp_gd(X, np.zeros(50, int), X, X, classes=2, epsilon=1.0, delta=1e-5, seed=0, settings=settings)
    # A replaced record moves a sum in clips by 2, and the mean of four such sums has mu = 2 / deviation.
    assert found.std() * 50 == pytest.approx(2 / mu_of(1.0, 1e-5), rel=0.03)


@pytest.mark.parametrize("settings", [LINEAR, NETWORK])
def test_descent_learns_and_can_be_repeated(settings):
    draw = np.random.default_rng(0)
    y = draw.integers(2, size=2_000)
    X = draw.normal(size=(2_000, 3)) + y[:, None]
    one, other = (
        dp_gd(X, y, X, X, classes=2, epsilon=3.0, delta=1e-5, seed=3, settings=replace(settings, steps=20))
        for _ in range(2)
    )
    assert np.array_equal(one, other)
    assert np.mean(one.argmax(axis=1) == y) > 0.75


def test_steps_lead_farther_with_more_records():
    model = Model(10, 2)
    ways = [far(1.0, 1e-5, np.ones((count, 10)), model, 1.5, 20.0) for count in (100, 1_000, 100_000)]
    assert ways == sorted(ways)
    assert (ways[0], ways[-1]) == (20.0, 300.0)


def test_rows_are_scaled_by_public_rows_only():
    public = np.array([[3.0, 4.0], [6.0, 8.0], [0.3, 0.4]])
    (rows,) = scaled(public, np.array([[5.0, 10.0]]))
    assert rows.tolist() == [[1.0, 2.0, 1.0]]


def test_settings_are_chosen_by_all_three_scores():
    y = np.array([0, 1])
    good, bad = np.array([[0.9, 0.1], [0.1, 0.9]]), np.array([[0.6, 0.4], [0.4, 0.6]])
    assert merit(good, y) > merit(bad, y)
