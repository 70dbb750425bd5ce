"""The fit of two classes, from moments whose expectation and noise are known.

The estimate of the share of the second class.
"""

import numpy as np
import pytest
from scipy import sparse

from dpensemble import LabelMomentsClassifier
from dpensemble.moments import Moments
from dpensemble.moments.fits import (
    _SCALES_OF_ONE,
    Fit,
    _BaseRate,
    _RoundsOfTwo,
    _scales_by_mixture,
    fit_clear,
    fit_moments,
    within_0_and_1,
)
from dpensemble.moments.public_rows import PublicRows
from dpensemble.moments.whole import UNIT, probabilities


def test_without_noise_the_truth_is_found(made):
    public, p, rounds = made(2, spread=1e-7)
    fit = fit_moments(rounds, public, Fit.start(public), n_units=1e9)
    assert np.abs(probabilities(public.features, fit.coefficients) - p).mean() < 0.01


def test_more_noise_means_a_model_that_says_less(made):
    errors, sizes = [], []
    for spread in (1e-5, 3e-2, 30.0):
        public, p, rounds = made(2, spread)
        fit = fit_moments(rounds, public, Fit.start(public), n_units=10_000)
        guess = probabilities(public.features, fit.coefficients)
        errors.append(np.abs(guess - p).mean())
        sizes.append(np.abs(guess - 0.5).mean())
    assert errors[0] < 0.02
    assert errors[0] < errors[1]
    assert np.isfinite(sizes).all()


def test_fits_by_evidence_repeat(made):
    public, _, rounds = made(2, 1e-2)
    one, other = (fit_moments(rounds, public, Fit.start(public), n_units=1000) for _ in range(2))
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
    fit = fit_moments([moments], public, Fit.start(public), n_units=1e3)
    assert probabilities(features, fit.coefficients).mean() == pytest.approx(p.mean(), rel=0.1)


def test_few_public_rows_do_not_hide_the_base_rate():
    """The error of public rows is none on the constant, however far a centre is from the truth."""
    public = rows_with_a_short_constant(n_rows=150)
    off = np.full((150, 1), 0.45)
    covariance = public.sample.covariance(off)
    assert covariance[-1, -1] == pytest.approx(0.0, abs=1e-7)
    assert np.linalg.eigvalsh(covariance).min() > -1e-7
    some = public.sample
    expected = np.cov((off * some.features).T, aweights=some.shares, bias=True)
    assert covariance == pytest.approx(expected, abs=1e-5)


def test_the_covariance_adds_up_over_columns():
    public = rows_with_a_short_constant(n_rows=60)
    off = np.random.default_rng(1).normal(size=(60, 3))
    apart = sum(public.sample.covariance(column[:, None]) for column in off.T)
    assert public.sample.covariance(off) == pytest.approx(apart, abs=1e-7)


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
        scales.append(fit_moments([moments], public, Fit.start(public), n_units=1e4).scales)
    ratio = np.array(scales)[:, 0] / np.array(scales)[:, 1]
    assert ratio.max() < 4


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


def rate_at(rounds, rows, coefficients, n_units):
    """The share by all rounds, as seen from coefficients, and a function that looks at a place."""
    seen = _RoundsOfTwo.of(rounds, rows, n_units)

    def place(at):
        return seen.at(rows.features @ at)

    return _BaseRate.of(seen, place(coefficients)), place


@pytest.mark.parametrize(("estimate", "error"), [(0.3, 0.01), (-0.02, 0.01), (1.03, 0.02), (0.005, 0.01)])
def test_a_share_is_the_mean_of_a_normal_distribution_between_0_and_1(estimate, error):
    grid = np.linspace(0, 1, 200_001)
    density = np.exp(-((grid - estimate) ** 2) / (2 * error**2))
    assert within_0_and_1(estimate, error) == pytest.approx(density @ grid / density.sum(), rel=1e-3)


@pytest.mark.parametrize("estimate", [-3.0, -0.2, 0.0, 1.0, 1.2, 4.0])
def test_a_share_is_never_0_or_1(estimate):
    assert 0 < within_0_and_1(estimate, 0.01) < 1


def test_constants_of_rounds_count_by_their_precision(rows):
    """The estimate does not depend on where the fit stands."""
    p, start = probabilities(rows.features, COEFFICIENTS), np.array([[0.0], [0.0], [0.0], [-3.4]])
    rounds = [
        round_of(rows, p, omega=1.0, spread=1e-4, noise=2e-4),
        round_of(rows, p, omega=0.5, spread=3e-4, noise=-3e-4),
    ]
    rate, _ = rate_at(rounds, rows, start, n_units=1e12)
    precisions = np.array([(0.25 / 1e-4) ** 2, (0.5 * 0.25 / 3e-4) ** 2])
    shifts = np.array([2e-4 / 0.25, -3e-4 / 0.25 / 0.5])
    assert rate.share == pytest.approx(p.mean() + precisions @ shifts / precisions.sum(), rel=1e-6)


def test_the_slope_is_the_derivative_of_the_surprise(rows):
    p = probabilities(rows.features, COEFFICIENTS)
    moments = round_of(rows, p, omega=1.0, spread=1e-3)
    rate, place = rate_at([moments], rows, COEFFICIENTS, n_units=1e4)
    for column in range(4):
        step = np.zeros((4, 1))
        step[column] = 0.1
        below, above = (rate.surprise(place(COEFFICIENTS + s * step)) for s in (-1, 1))
        assert (below - above)[0, 0] / 0.2 == pytest.approx(rate.slope[0, column], rel=0.01)


def test_even_classes_get_no_weight(rows):
    even = np.full((400, 1), 0.5)
    rate, _ = rate_at([round_of(rows, even, omega=1.0, spread=1e-3)], rows, np.zeros((4, 1)), n_units=1e4)
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


def by_mixture(values, deviation, typical=1.0):
    """Return the posterior mean of each value that the scales of the mixture lead to."""
    precision = np.full(len(values), deviation**-2)
    scales = _scales_by_mixture(precision, values * precision, np.full(len(values), typical))
    return values * scales**2 / (scales**2 + deviation**2)


def test_few_large_coefficients_stay_large_and_noise_becomes_small():
    draws = np.random.default_rng(0)
    truth = np.append(np.full(20, 6.0), np.zeros(980))
    left = by_mixture(truth + draws.normal(size=1000), 1.0)
    assert np.abs(left[:20] - truth[:20]).mean() < 1.5
    # A normal prior of the same variance leaves 0.4 of each value: an error of 0.17 without effect.
    assert np.mean(left[20:] ** 2) < 0.05


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_coefficients_that_are_all_alike_have_their_posterior_mean(scale):
    draws = np.random.default_rng(1)
    values = scale * draws.normal(size=4000) + draws.normal(size=4000)
    wanted = values * scale**2 / (scale**2 + 1)
    assert np.mean((by_mixture(values, 1.0) - wanted) ** 2) < 0.1 * np.mean(wanted**2)


def test_the_posterior_mean_is_that_of_an_integral():
    """With shares that follow from a first half of values, the mean is found by integration over the coefficient."""
    draws = np.random.default_rng(2)
    values = np.where(np.arange(300) < 30, 5, 0) + draws.normal(size=300)
    scales = np.array(_SCALES_OF_ONE)
    grid = np.linspace(-40, 40, 16001)
    shares = np.full(len(scales), 1 / len(scales))
    alone = np.exp(-0.5 * values[:, None] ** 2 / (1 + scales**2)) / np.sqrt(1 + scales**2)
    for _ in range(200):
        chances = alone * shares / (alone @ shares)[:, None]
        shares = chances.sum(axis=0) + np.where(scales == 0, 10.0, 0.0)
        shares /= shares.sum()
    density = sum(
        share * np.exp(-0.5 * (grid / scale) ** 2) / scale for share, scale in zip(shares[1:], scales[1:], strict=True)
    ) / np.sqrt(2 * np.pi)
    step = grid[1] - grid[0]
    for value, found in list(zip(values, by_mixture(values, 1.0), strict=True))[:40]:
        likelihood = np.exp(-0.5 * (value - grid) ** 2)
        norm = (likelihood * density).sum() * step + shares[0] * np.exp(-0.5 * value**2)
        assert found == pytest.approx((likelihood * density * grid).sum() * step / norm, abs=1e-3)


def test_moments_of_noise_alone_in_very_many_features_lead_to_the_share():
    draws = np.random.default_rng(3)
    features = draws.normal(size=(500, 600))
    features *= 0.99 / np.linalg.norm(features, axis=1, keepdims=True)
    public = PublicRows(np.hstack([features, np.full((500, 1), 0.1)]), np.arange(601), 2)
    values = draws.normal(size=(601, 1)) * 3e-3
    values[-1] = 0.1 * (0.3 - 0.5)
    moments = Moments(values=values, spread=3e-3, scale=np.ones(601), centre=None)
    found = fit_clear([moments], public, Fit.start(public), n_units=2000)
    chances = public.probabilities(found.coefficients)[:, -1]
    assert np.count_nonzero(found.coefficients) <= 250
    assert abs(chances.mean() - 0.3) < 0.05
    assert chances.std() < 0.03
