"""Class sums of two classes around the share of the second class."""

import numpy as np
import pytest

from dpensemble import LabelMomentsClassifier
from dpensemble.moments.fits import Fit, _around_share, _best_centre, _error_of_rows
from dpensemble.moments.model import expected
from dpensemble.moments.public_rows import PublicRows
from dpensemble.moments.queries import ClassSums, Residuals


@pytest.fixture
def rows():
    features = np.random.default_rng(0).normal(size=(300, 5)) / 5
    features[:, -1] = 0.2
    return PublicRows(features, np.array([0, 0, 0, 0, 1]), 2)


def flat(rows):
    return np.full((300, 1), 0.5), np.ones(300)


def test_the_best_centre_is_the_one_that_a_grid_finds():
    for share, of_rows, of_noise in ((0.1, 1.0, 1.0), (0.02, 3.0, 0.2), (0.9, 0.5, 2.0)):
        grid = np.linspace(0, 1, 100_001)
        error = of_rows * (share - grid) ** 2 + of_noise * (1 + 4 * (0.5 - grid) ** 2)
        assert _best_centre(share, of_rows, of_noise) == pytest.approx(grid[error.argmin()], abs=1e-5)


def test_moments_without_noise_are_those_of_another_centre(rows):
    y = (np.random.default_rng(1).random(300) < 0.1).astype(float)
    sums = np.column_stack([rows.features.T @ (1 - y), rows.features.T @ y]) / 300
    moments, (centre, _) = _around_share(ClassSums(2).read(sums, 1e-9), flat(rows), rows, n_units=300)
    assert np.ptp(centre) == 0.0
    assert centre[0, 0] == pytest.approx(y.mean(), abs=1e-6)
    assert moments.values[:, 0] == pytest.approx(rows.features.T @ (y - centre[0, 0]) / 300)


def test_the_stated_noise_is_that_of_the_new_moments(rows):
    """10,000 draws: the standard deviation is known within 3 %, with a false alarm in 1 of 100,000 runs."""
    rng, spread = np.random.default_rng(2), 1e-3
    truth = np.column_stack([np.full(5, 0.1), np.full(5, 0.004)])
    draws = []
    centre = 0.05
    for _ in range(10_000):
        moments = ClassSums(2).read(truth + spread * rng.normal(size=truth.shape), spread)
        draws.append(moments.values[0, 0] + (0.5 - centre) * moments.mean[0])
    stated = np.hypot(moments.spread, (0.5 - centre) * moments.mean_spread)
    assert np.std(draws) == pytest.approx(stated, rel=0.03)


def test_much_noise_keeps_one_half(rows):
    sums = np.column_stack([np.full(5, 0.19), np.full(5, 0.01)])
    moments, (centre, _) = _around_share(ClassSums(2).read(sums, 1e3), flat(rows), rows, n_units=300)
    assert centre[0, 0] == pytest.approx(0.5, abs=0.01)
    assert np.isfinite(moments.values).all()


def test_rounds_of_residuals_stay_as_they_are(rows):
    fit = Fit(np.zeros((5, 1)), np.ones(2))
    moments = Residuals(2, fit.coefficients).read(np.full((5, 1), 0.01), 1e-3)
    about = expected(moments.centre, rows.features, 2, moments.even_weight)
    assert _around_share(moments, about, rows, n_units=300) == (moments, about)


def test_public_rows_err_as_means_of_samples_do(rows):
    """The mean squared distance of means of 300 and of 100 rows, over 2,000 pairs of samples."""
    rng = np.random.default_rng(3)
    varying = rows.features[:, :4]
    total = [
        np.sum((varying[rng.integers(300, size=300)].mean(0) - varying[rng.integers(300, size=100)].mean(0)) ** 2)
        for _ in range(2_000)
    ]
    assert np.mean(total) == pytest.approx(_error_of_rows(rows, n_units=100), rel=0.1)


def test_a_rare_class_is_learned_with_landmarks():
    """AUROC was .77 around one half."""
    rng = np.random.default_rng(1)
    table = rng.normal(size=(9000, 10)) @ (rng.normal(size=(10, 10)) * 0.4 + np.eye(10)) / 1.3
    logits = 0.9 * table @ np.random.default_rng(99).normal(size=10)
    y = (rng.random(9000) < 1 / (1 + np.exp(8.0 - logits))).astype(int)
    model = LabelMomentsClassifier(classes=[0, 1], epsilon=3, insecure_release_seed=1)
    model.fit(table[:7000], y[:7000], X_public=table[7000:])
    p, ranks = model.predict_proba(table)[:, 1], np.argsort(np.argsort(model.predict_proba(table)[:, 1]))
    auroc = (ranks[y == 1].mean() - (y.sum() - 1) / 2) / (y == 0).sum()
    assert auroc > 0.9
    assert p.mean() == pytest.approx(y.mean(), abs=0.4 * y.mean())
