"""The estimate of the share of the second class."""

import numpy as np
import pytest

from dpensemble import LabelMomentsClassifier
from dpensemble.moments import Moments
from dpensemble.moments.fits import _base_rate, _within
from dpensemble.moments.model import probabilities
from dpensemble.moments.public_rows import PublicRows

COEFFICIENTS = np.array([[1.0], [-2.0], [0.5], [-6.0]])


@pytest.fixture
def rows():
    features = np.random.default_rng(0).normal(size=(400, 4)) / 4
    features[:, -1] = 0.25
    return PublicRows(features, np.array([0, 0, 0, 1]), 2)


def round_of(rows, p, *, omega, spread, noise=0.0):
    """One round around even shares, whose constant has this noise."""
    values = rows.features.T @ (omega * (p - 0.5)) / len(p)
    values[-1] += noise
    return Moments(values=values, spread=spread, scale=np.ones(4), centre=None, even_weight=omega)


@pytest.mark.parametrize(("estimate", "error"), [(0.3, 0.01), (-0.02, 0.01), (1.03, 0.02), (0.005, 0.01)])
def test_a_share_is_the_mean_of_a_normal_distribution_between_0_and_1(estimate, error):
    grid = np.linspace(0, 1, 200_001)
    density = np.exp(-((grid - estimate) ** 2) / (2 * error**2))
    assert _within(estimate, error) == pytest.approx(density @ grid / density.sum(), rel=1e-3)


@pytest.mark.parametrize("estimate", [-3.0, -0.2, 0.0, 1.0, 1.2, 4.0])
def test_a_share_is_never_0_or_1(estimate):
    assert 0 < _within(estimate, 0.01) < 1


def test_constants_of_rounds_count_by_their_precision(rows):
    """The estimate does not depend on where the fit stands."""
    p, start = probabilities(rows.features, COEFFICIENTS), np.full((400, 1), 0.3)
    flat = np.full((400, 1), 0.5)
    rounds = [
        round_of(rows, p, omega=1.0, spread=1e-4, noise=2e-4),
        round_of(rows, p, omega=0.5, spread=3e-4, noise=-3e-4),
    ]
    about = [(flat, np.full(400, 1.0)), (flat, np.full(400, 0.5))]
    rate = _base_rate(rounds, about, rows, start, n_units=1e12)
    precisions = np.array([(0.25 / 1e-4) ** 2, (0.5 * 0.25 / 3e-4) ** 2])
    shifts = np.array([2e-4 / 0.25, -3e-4 / 0.25 / 0.5])
    assert rate.share == pytest.approx(p.mean() + precisions @ shifts / precisions.sum(), rel=1e-6)


def test_the_slope_is_the_derivative_of_the_surprise(rows):
    p = probabilities(rows.features, COEFFICIENTS)
    moments = round_of(rows, p, omega=1.0, spread=1e-3)
    rate = _base_rate([moments], [(np.full((400, 1), 0.5), np.ones(400))], rows, p, n_units=1e4)
    for column in range(4):
        step = np.zeros((4, 1))
        step[column] = 0.1
        below, above = (rate.surprise(probabilities(rows.features, COEFFICIENTS + s * step)) for s in (-1, 1))
        assert (below - above)[0, 0] / 0.2 == pytest.approx(rate.slope[0, column], rel=0.01)


def test_even_classes_get_no_weight(rows):
    even = np.full((400, 1), 0.5)
    rate = _base_rate([round_of(rows, even, omega=1.0, spread=1e-3)], [(even, np.ones(400))], rows, even, n_units=1e4)
    assert rate.root == pytest.approx(0.0, abs=1e-6)


def test_a_rare_class_has_the_share_that_its_records_have():
    """Without the estimate the mean probability is .037 instead of .017."""
    rng = np.random.default_rng(1)
    numbers = rng.normal(size=(9000, 10)) @ (rng.normal(size=(10, 10)) * 0.4 + np.eye(10)) / 1.3
    logits = 0.9 * numbers @ np.random.default_rng(99).normal(size=10)
    y = (rng.random(9000) < 1 / (1 + np.exp(8.0 - logits))).astype(int)
    # A column of categories, so that there are no landmarks.
    table = np.column_stack([numbers, rng.integers(0, 4, 9000)])
    model = LabelMomentsClassifier(classes=[0, 1], epsilon=3, insecure_release_seed=1)
    model.fit(table[:7000], y[:7000], X_public=table[7000:])
    assert model.predict_proba(table)[:, 1].mean() == pytest.approx(y.mean(), abs=0.4 * y.mean())
