"""The estimate of the share of the second class."""

import numpy as np
import pytest

from dpensemble import LabelMomentsClassifier
from dpensemble.moments.base_rate import BaseRate, within
from dpensemble.moments.model import probabilities


def mean(values):
    return float(values.mean())


@pytest.mark.parametrize(("estimate", "error"), [(0.3, 0.01), (-0.02, 0.01), (1.03, 0.02), (0.005, 0.01)])
def test_a_share_is_the_mean_of_a_normal_distribution_between_0_and_1(estimate, error):
    grid = np.linspace(0, 1, 200_001)
    density = np.exp(-((grid - estimate) ** 2) / (2 * error**2))
    assert within(estimate, error) == pytest.approx(density @ grid / density.sum(), rel=1e-3)


@pytest.mark.parametrize("estimate", [-3.0, -0.2, 0.0, 1.0, 1.2, 4.0])
def test_a_share_is_never_0_or_1(estimate):
    assert 0 < within(estimate, 0.01) < 1


def test_rounds_count_by_their_precision():
    p, gradient = np.full((4, 1), 0.1), np.ones((3, 1))
    rate = BaseRate.of(p, [0.02, 0.06], [0.001, 0.003], mean, gradient)
    assert rate.share == pytest.approx(0.1 + (0.02 * 9 + 0.06) / 10)


def test_the_slope_is_the_derivative_of_the_surprise():
    rng = np.random.default_rng(0)
    features, coefficients = rng.normal(size=(50, 3)) / 3, rng.normal(size=(3, 1))
    p = probabilities(features, coefficients)
    rate = BaseRate.of(p, [0.01], [0.01], mean, features.T @ (p * (1 - p)) / 50)
    for column in range(3):
        step = np.zeros((3, 1))
        step[column] = 1e-2
        change = rate.surprise(probabilities(features, coefficients + step)) - rate.surprise(p)
        assert -change[0, 0] / 1e-2 == pytest.approx(rate.slope[0, column], rel=0.02, abs=1e-3)


def test_even_classes_get_no_weight():
    p = np.full((4, 1), 0.5)
    assert BaseRate.of(p, [0.0], [0.01], mean, np.ones((3, 1))).root == pytest.approx(0.0, abs=1e-9)


def test_the_share_of_a_rare_class_is_that_of_the_records():
    """Without the estimate the mean probability of these three fits is more than twice the share."""
    ratios = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        table = rng.normal(size=(9000, 10)) @ (rng.normal(size=(10, 10)) * 0.4 + np.eye(10)) / 1.3
        logits = 0.9 * table @ np.random.default_rng(99).normal(size=10)
        y = (rng.random(9000) < 1 / (1 + np.exp(7.5 - logits))).astype(int)
        model = LabelMomentsClassifier(classes=[0, 1], epsilon=3, insecure_release_seed=seed)
        model.fit(table[:7000], y[:7000], X_public=table[7000:])
        ratios.append(model.predict_proba(table)[:, 1].mean() / y.mean())
    # The error of each ratio is about .15.
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.4)
