"""The fit, from moments whose expectation and noise are known."""

import numpy as np
import pytest
from scipy import sparse

from dpensemble.moments import Moments
from dpensemble.moments.evidence import fit_moments, starting_fit
from dpensemble.moments.model import probabilities
from dpensemble.moments.public_rows import PublicRows
from dpensemble.moments.whole import UNIT


def test_without_noise_the_truth_is_found(made):
    public, p, rounds = made(2, spread=1e-7)
    fit = fit_moments(rounds, public, starting_fit(public), n_units=1e9)
    assert np.abs(probabilities(public.features, fit.coefficients) - p).mean() < 0.01


def test_more_noise_means_a_model_that_says_less(made):
    errors, sizes = [], []
    for spread in (1e-5, 3e-2, 30.0):
        public, p, rounds = made(2, spread)
        fit = fit_moments(rounds, public, starting_fit(public), n_units=10_000)
        guess = probabilities(public.features, fit.coefficients)
        errors.append(np.abs(guess - p).mean())
        sizes.append(np.abs(guess - 0.5).mean())
    assert errors[0] < 0.02
    assert errors[0] < errors[1]
    assert np.isfinite(sizes).all()


def test_fits_by_evidence_repeat(made):
    public, _, rounds = made(2, 1e-2)
    one, other = (fit_moments(rounds, public, starting_fit(public), n_units=1000) for _ in range(2))
    assert np.array_equal(one.coefficients, other.coefficients)
    assert np.array_equal(one.scales, other.scales)


@pytest.mark.parametrize("as_rows", [np.asarray, sparse.csr_matrix])
def test_public_rows_have_the_probabilities_of_the_published_model(as_rows):
    rng = np.random.default_rng(0)
    features = as_rows(np.trunc(rng.normal(size=(50, 4)) / 2 * UNIT) / UNIT)
    public = PublicRows(features, np.array([0, 0, 1, 2]), 2)
    for coefficients in rng.normal(size=(2, 4, 1)):
        assert np.array_equal(public.probabilities(coefficients), probabilities(features, coefficients))


def rows_with_a_short_constant(n_rows=2000, n_features=9):
    features = np.random.default_rng(0).normal(size=(n_rows, n_features)) / 3
    features[:, -1] = 0.1
    return PublicRows(features, np.append(np.zeros(n_features - 1, dtype=np.int64), 1), 2)


def test_a_rare_class_has_its_base_rate_though_the_constant_is_short():
    public = rows_with_a_short_constant()
    features = public.features
    p = probabilities(features, np.append(np.zeros(8), -46.0)[:, None])
    values = features.T @ (p - 0.5) / len(features)
    moments = Moments(values=values, spread=1e-5, scale=np.ones(9), centre=None)
    fit = fit_moments([moments], public, starting_fit(public), n_units=1e3)
    assert probabilities(features, fit.coefficients).mean() == pytest.approx(p.mean(), rel=0.1)


def test_few_public_rows_do_not_hide_the_base_rate():
    """The error of public rows is none on the constant, however far a centre is from the truth."""
    public = rows_with_a_short_constant(n_rows=150)
    off = np.full((150, 1), 0.45)
    covariance = public.covariance(off)
    assert covariance[-1, -1] == pytest.approx(0.0, abs=1e-7)
    assert np.linalg.eigvalsh(covariance).min() > -1e-7
    some = public.in_memory
    expected = np.cov((off * some.features).T, aweights=some.shares, bias=True)
    assert covariance == pytest.approx(expected, abs=1e-5)


def test_the_covariance_adds_up_over_columns():
    public = rows_with_a_short_constant(n_rows=60)
    off = np.random.default_rng(1).normal(size=(60, 3))
    apart = sum(public.covariance(column[:, None]) for column in off.T)
    assert public.covariance(off) == pytest.approx(apart, abs=1e-7)


def test_noise_does_not_set_the_scale_of_a_small_block():
    """A block of one coefficient that is all noise is held near the scale of the others."""
    rng = np.random.default_rng(3)
    features = np.hstack([rng.normal(size=(3000, 12)) / 4, np.full((3000, 1), 0.2)])
    blocks = np.array([0, *[1] * 11, 2])
    public = PublicRows(features, blocks, 2)
    scales = []
    for seed in range(30):
        noise = np.random.default_rng(seed).normal(size=(13, 1)) * 0.05
        moments = Moments(values=noise, spread=0.05, scale=np.ones(13), centre=None)
        scales.append(fit_moments([moments], public, starting_fit(public), n_units=1e4).scales)
    ratio = np.array(scales)[:, 0] / np.array(scales)[:, 1]
    assert ratio.max() < 4
