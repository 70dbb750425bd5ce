"""The fit, from moments whose expectation and noise are known.

The closed form for several classes.

The softmax for several classes: its mode, its gradient, and probabilities that hold.

The estimate of the share of the second class.

Class sums of two classes around the share of the second class.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from dpensemble import LabelMomentsClassifier
from dpensemble.moments import Moments
from dpensemble.moments.fits import (
    _SCALES_OF_ONE,
    Fit,
    _around_share,
    _BaseRate,
    _best_centre,
    _blended,
    _error_of_rows,
    _fit_linear,
    _information,
    _Observed,
    _Posterior,
    _RoundsOfTwo,
    _scales_by_mixture,
    _within,
    fit_moments,
    fit_softmax,
)
from dpensemble.moments.fits import _softmax as softmax_of_rows
from dpensemble.moments.learning import ClassSums, Residuals
from dpensemble.moments.public_rows import PublicRows
from dpensemble.moments.whole import UNIT, centres_and_weights, probabilities


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


def linear(rounds, public, n_units):
    about = [centres_and_weights(m.centre, public.features, public.n_classes, m.even_weight) for m in rounds]
    return 10 * _fit_linear(rounds, about, public, n_units=n_units).coefficients


@pytest.mark.parametrize("n_classes", [3, 4, 6, 10])
def test_without_noise_nearly_every_row_gets_its_likeliest_class(made, n_classes):
    public, p, rounds = made(n_classes, spread=1e-7)
    guess = probabilities(public.features, linear(rounds, public, 1e9))
    lost = p.max(axis=1) - np.take_along_axis(p, guess.argmax(axis=1)[:, None], axis=1)[:, 0]
    # Linear chances are not the truth here, which is a softmax. Chance would lose most of the rest.
    assert lost.mean() < 0.1 * (p.max(axis=1) - 1 / n_classes).mean()


def test_more_noise_means_a_linear_model_that_says_less(made):
    found = []
    for spread in (1e-5, 3e-2, 30.0):
        public, p, rounds = made(4, spread)
        guess = probabilities(public.features, linear(rounds, public, 10_000))
        found.append(np.take_along_axis(p, guess.argmax(axis=1)[:, None], axis=1).mean())
    assert found[0] > found[1] > found[2]


def test_coefficients_of_all_classes_add_up_to_nothing(made):
    public, _, rounds = made(5, 1e-3)
    assert np.allclose(linear(rounds, public, 1000).sum(axis=1), 0, atol=1e-8)


def test_linear_fits_repeat(made):
    public, _, rounds = made(3, 1e-2)
    one, other = (linear(rounds, public, 1000) for _ in range(2))
    assert np.array_equal(one, other)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", range(2, 13))
def test_chances_are_those_of_scipy_to_the_last_bit(n_classes, kind):
    scores = (5 * np.random.default_rng(0).normal(size=(500, n_classes))).astype(kind)
    chances = softmax_of_rows(scores)
    assert chances.dtype == kind
    assert np.array_equal(chances, softmax(scores, axis=1))


def made(n_classes, n_units, noise, *, sharpness=4.0, n_features=8, n_public=1500, seed=0):
    """Return public rows, true chances of them, and one round of noisy class sums of as many private units."""
    rng = np.random.default_rng(seed)
    truth = sharpness * rng.normal(size=(n_features, n_classes))

    def rows(n):
        features = rng.normal(size=(n, n_features))
        features *= np.sqrt(1 - 0.25**2) / np.linalg.norm(features[:, :-1], axis=1, keepdims=True)
        features[:, -1] = 0.25
        return features

    private, public = rows(n_units), rows(n_public)
    chances = softmax(private @ truth, axis=1)
    labels = (chances.cumsum(axis=1) > rng.random((n_units, 1))).argmax(axis=1)
    sums = private.T @ np.eye(n_classes)[labels] / n_units
    moments = ClassSums(n_classes).read(sums + noise * rng.normal(size=sums.shape), noise)
    blocks = np.append(np.zeros(n_features - 1, dtype=np.int64), 1)
    return PublicRows(public, blocks, n_classes), softmax(public @ truth, axis=1), moments, (private, labels)


def log_loss(truth, guess):
    """Return the expected log-loss of guesses under true chances."""
    return -(truth * np.log(guess)).sum(axis=1).mean()


def best_factor(truth, public, coefficients):
    """Return by which factor the coefficients would have had the least expected log-loss."""
    factors = np.geomspace(0.2, 5, 101)
    return min(factors, key=lambda f: log_loss(truth, softmax(f * (public.features @ coefficients), axis=1) + 1e-12))


@pytest.mark.parametrize("n_classes", [3, 5])
def test_without_noise_the_fit_is_the_maximum_of_the_likelihood(n_classes):
    """Private rows stand for themselves, so that matching class sums is what maximum likelihood does."""
    _, _, moments, (private, labels) = made(n_classes, 4000, 1e-7, sharpness=2.0)
    rows = PublicRows(private, np.append(np.zeros(7, dtype=np.int64), 1), n_classes, kappa=0.0)
    fitted = fit_softmax([moments], rows, n_units=1e9)
    likeliest = LogisticRegression(C=1e9, fit_intercept=False, max_iter=2000).fit(private, labels)
    assert np.abs(probabilities(private, fitted.coefficients) - likeliest.predict_proba(private)).max() < 0.02


@pytest.mark.parametrize(("n_classes", "noise"), [(3, 0.002), (6, 0.005), (20, 0.002)])
def test_probabilities_are_neither_too_sharp_nor_too_cautious(n_classes, noise):
    """Of four draws with fixed seeds. The mean logarithm of the best factor would be far from 0 on either side."""
    logarithms, losses = [], []
    for seed in range(4):
        public, truth, moments, _ = made(n_classes, 3000, noise, seed=seed, n_features=12, n_public=600)
        coefficients = fit_softmax([moments], public, n_units=3000).coefficients
        factor = best_factor(truth, public, coefficients)
        logarithms.append(np.log(factor))
        guess = probabilities(public.features, coefficients)
        losses.append(
            log_loss(truth, guess) - log_loss(truth, softmax(factor * (public.features @ coefficients), axis=1))
        )
    assert abs(np.mean(logarithms)) < 0.3
    assert np.mean(losses) < 0.03


def test_sharper_and_flatter_coefficients_are_noticed():
    """The measure of the test above can fail on both sides."""
    public, truth, moments, _ = made(3, 3000, 0.002)
    coefficients = fit_softmax([moments], public, n_units=3000).coefficients
    assert np.log(best_factor(truth, public, 2 * coefficients)) < -0.4
    assert np.log(best_factor(truth, public, coefficients / 2)) > 0.4


def test_moments_of_noise_alone_lead_to_the_shares_of_the_classes():
    """Features without negative entries, as in runs, so that sums of features hold the shares."""
    excess = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        public, private = (np.sqrt(rng.dirichlet(np.ones(20), n)) for n in (600, 2000))
        public[:, -1] = private[:, -1] = 0.1
        labels = rng.choice(3, 2000, p=[0.7, 0.2, 0.1])
        sums = private.T @ np.eye(3)[labels] / 2000
        moments = ClassSums(3).read(sums + 0.004 * rng.normal(size=sums.shape), 0.004)
        rows = PublicRows(public, np.append(np.zeros(19, dtype=np.int64), 1), 3)
        guess = probabilities(public, fit_softmax([moments], rows, n_units=2000).coefficients)
        truth = np.tile([0.7, 0.2, 0.1], (600, 1))
        excess.append(log_loss(truth, guess) - log_loss(truth, truth))
    assert np.mean(excess) < 0.01


def test_a_declared_class_without_records_and_one_with_ten_keep_small_chances_above_zero():
    public, _, _, (private, labels) = made(5, 5000, 0.0, sharpness=2.0)
    labels = np.where(labels >= 3, labels - 3, labels)
    labels[:10] = 3
    rng = np.random.default_rng(1)
    sums = private.T @ np.eye(5)[labels] / 5000
    moments = ClassSums(5).read(sums + 2e-3 * rng.normal(size=sums.shape), 2e-3)
    guess = probabilities(public.features, fit_softmax([moments], public, n_units=5000).coefficients)
    assert guess.min() > 0
    assert guess[:, 3:].mean(axis=0).max() < 0.03
    assert np.abs(guess.mean(axis=0)[:3] - np.bincount(labels, minlength=5)[:3] / 5000).max() < 0.05


def test_two_classes_have_one_column_and_the_same_chances():
    public, truth, moments, _ = made(2, 20_000, 1e-4)
    fitted = fit_softmax([moments], public, n_units=20_000)
    assert fitted.coefficients.shape == (8, 1)
    assert np.abs(probabilities(public.features, fitted.coefficients)[:, 0] - truth[:, 1]).mean() < 0.02


def test_a_model_may_read_other_features_than_those_that_are_released():
    """Released are thirty rotated mixtures of the features that the model reads, so that nothing is lost."""
    public, truth, _, (private, labels) = made(4, 20_000, 0.0)
    mixing = np.linalg.qr(np.random.default_rng(2).normal(size=(30, 8)))[0].T
    sums = (private @ mixing).T @ np.eye(4)[labels] / 20_000
    rows = PublicRows(public.features, public.blocks, 4, released=public.features @ mixing)
    fitted = fit_softmax([ClassSums(4).read(sums, 1e-5)], rows, n_units=20_000)
    assert fitted.coefficients.shape == (8, 4)
    assert np.abs(probabilities(public.features, fitted.coefficients) - truth).mean() < 0.03


def test_the_gradient_is_that_of_the_loss():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(40, 3)).astype(np.float32)
    features = np.hstack([features, np.ones((40, 1), dtype=np.float32)])
    public = PublicRows(features, np.array([0, 0, 0, 1]), 4, released=rng.normal(size=(40, 6)))
    root = np.tril(rng.normal(size=(6, 6))) + 2 * np.eye(6)
    observed = [
        _Observed(rng.random((40, 1)).astype(np.float32) / 20, rng.normal(size=(6, 4)), factor * root)
        for factor in (1.0, 0.3)
    ]
    information = np.diag([1.0, 2.0, 3.0, 1.0])
    posterior = _Posterior.of(public.sample, observed, information, np.array([1.0, 2.0, 0.5, 1.0]))
    place = rng.normal(size=16)

    def loss(u):
        return posterior._loss(u.reshape(4, 4))[0]

    numeric = [(loss(place + step) - loss(place - step)) / 0.02 for step in 0.01 * np.eye(16)]
    assert posterior._loss(place.reshape(4, 4))[1] == pytest.approx(np.array(numeric), rel=1e-3, abs=0.01)


def test_rows_whose_class_is_certain_have_no_curvature():
    """Chances of single precision may add up to more than 1."""
    sample = made(3, 100, 1e-3, n_public=50)[0].sample
    chances = np.tile([1.0 + 1e-7, 0.0, 0.0], (50, 1))
    information = _information([np.eye(8)], [np.ones(50)], chances, sample)
    assert np.array_equal(information, np.zeros((8, 8)))


def test_fits_repeat():
    public, _, moments, _ = made(3, 2000, 1e-3)
    one, other = (fit_softmax([moments], public, n_units=2000).coefficients for _ in range(2))
    assert np.array_equal(one, other)


def test_rounds_of_residuals_and_of_class_sums_are_fitted_together():
    public, truth, moments, (private, labels) = made(3, 20_000, 1e-3)
    centre = fit_softmax([moments], public, n_units=20_000).coefficients
    c, omega = centres_and_weights(centre, private, 3, 1.0)
    sums = private.T @ (omega[:, None] * (np.eye(3)[labels] - c)) / 20_000
    later = Moments(values=sums, spread=1e-5, scale=np.ones(8), centre=centre)
    fitted = fit_softmax([moments, later], public, n_units=20_000)
    assert np.abs(probabilities(public.features, fitted.coefficients) - truth).mean() < 0.03


@pytest.mark.parametrize("n_classes", [2, 3])
def test_features_that_no_row_has_are_left_out_of_fits_of_many_and_change_nothing(monkeypatch, n_classes):
    public, _, moments, _ = made(n_classes, 2000, 3e-3, n_features=7, n_public=300)
    places, rng = np.array([0, 1, 3, 4, 6, 7, 9]), np.random.default_rng(1)
    features = np.zeros((300, 10))
    features[:, places] = public.features
    wide = PublicRows(features, np.array([0, 0, 0, 0, 1, 1, 1, 1, 1, 2]), n_classes)
    values = moments.spread * rng.normal(size=(10, moments.values.shape[1]))
    values[places] = moments.values
    first = replace(moments, values=values, scale=np.ones(10), mean=None)
    start, fits = Fit.start(wide), []
    for most in (10, 9):
        monkeypatch.setattr("dpensemble.moments.public_rows._MANY_FEATURES", most)
        one = start.to_rounds([first], wide, n_units=2000, class_sums=False)
        later = replace(first, centre=one.coefficients, even_weight=1.0)
        fits += [one, one.to_rounds([first, later], wide, n_units=2000, class_sums=False)]
    for whole, some in zip(fits[:2], fits[2:], strict=True):
        assert some.coefficients == pytest.approx(whole.coefficients, abs=2e-3 * np.abs(whole.coefficients).max())
        assert some.scales == pytest.approx(whole.scales, rel=1e-3)
        assert (some.coefficients[[2, 5, 8]] == 0).all()


def test_means_with_linear_chances_have_both_at_equal_size():
    public, _, _, _ = made(3, 500, 1e-3)
    rng = np.random.default_rng(0)
    fits, others = rng.normal(size=(3, 8, 3)), 40 * rng.normal(size=(3, 8, 3))
    parts = [2 * blend - fit for blend, fit in zip(_blended(fits, others, public), fits, strict=True)]
    size = [np.linalg.norm((public.features @ one).std(axis=0)) for one in (fits[0], parts[0])]
    assert size[1] == pytest.approx(size[0])
    # All fits are multiplied by the same number.
    ratios = [(part / other).ravel() for part, other in zip(parts, others, strict=True)]
    assert np.ptp(ratios) == pytest.approx(0.0, abs=1e-9)


def test_means_with_linear_chances_hold():
    public, truth, moments, _ = made(4, 20_000, 1e-4)
    alone, mean = (fit_softmax([moments], public, n_units=20_000, with_linear=linear) for linear in (False, True))
    errors = [np.abs(probabilities(public.features, fit.coefficients) - truth).mean() for fit in (alone, mean)]
    assert errors[1] < errors[0] + 0.02
    assert not np.array_equal(alone.coefficients, mean.coefficients)


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
    assert _within(estimate, error) == pytest.approx(density @ grid / density.sum(), rel=1e-3)


@pytest.mark.parametrize("estimate", [-3.0, -0.2, 0.0, 1.0, 1.2, 4.0])
def test_a_share_is_never_0_or_1(estimate):
    assert 0 < _within(estimate, 0.01) < 1


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


@pytest.fixture
def rows_of_300():
    features = np.random.default_rng(0).normal(size=(300, 5)) / 5
    features[:, -1] = 0.2
    return PublicRows(features, np.array([0, 0, 0, 0, 1]), 2)


def flat(rows_of_300):
    return np.full((300, 1), 0.5), np.ones(300)


def test_the_best_centre_is_the_one_that_a_grid_finds():
    for share, of_rows, of_noise in ((0.1, 1.0, 1.0), (0.02, 3.0, 0.2), (0.9, 0.5, 2.0)):
        grid = np.linspace(0, 1, 100_001)
        error = of_rows * (share - grid) ** 2 + of_noise * (1 + 4 * (0.5 - grid) ** 2)
        assert _best_centre(share, of_rows, of_noise) == pytest.approx(grid[error.argmin()], abs=1e-5)


def test_moments_without_noise_are_those_of_another_centre(rows_of_300):
    y = (np.random.default_rng(1).random(300) < 0.1).astype(float)
    sums = np.column_stack([rows_of_300.features.T @ (1 - y), rows_of_300.features.T @ y]) / 300
    moments, (centre, _) = _around_share(ClassSums(2).read(sums, 1e-9), flat(rows_of_300), rows_of_300, n_units=300)
    assert np.ptp(centre) == 0.0
    assert centre[0, 0] == pytest.approx(y.mean(), abs=1e-6)
    assert moments.values[:, 0] == pytest.approx(rows_of_300.features.T @ (y - centre[0, 0]) / 300)


def test_the_stated_noise_is_that_of_the_new_moments(rows_of_300):
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


def test_much_noise_keeps_one_half(rows_of_300):
    sums = np.column_stack([np.full(5, 0.19), np.full(5, 0.01)])
    moments, (centre, _) = _around_share(ClassSums(2).read(sums, 1e3), flat(rows_of_300), rows_of_300, n_units=300)
    assert centre[0, 0] == pytest.approx(0.5, abs=0.01)
    assert np.isfinite(moments.values).all()


def test_rounds_of_residuals_stay_as_they_are(rows_of_300):
    fit = Fit(np.zeros((5, 1)), np.ones(2))
    moments = Residuals(2, fit.coefficients).read(np.full((5, 1), 0.01), 1e-3)
    about = centres_and_weights(moments.centre, rows_of_300.features, 2, moments.even_weight)
    assert _around_share(moments, about, rows_of_300, n_units=300) == (moments, about)


def test_public_rows_err_as_means_of_samples_do(rows_of_300):
    """The mean squared distance of means of 300 and of 100 rows, over 2,000 pairs of samples."""
    rng = np.random.default_rng(3)
    varying = rows_of_300.features[:, :4]
    total = [
        np.sum((varying[rng.integers(300, size=300)].mean(0) - varying[rng.integers(300, size=100)].mean(0)) ** 2)
        for _ in range(2_000)
    ]
    assert np.mean(total) == pytest.approx(_error_of_rows(rows_of_300, n_units=100), rel=0.1)


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
    found = Fit.start(public).to_rounds([moments], public, n_units=2000, class_sums=False, screened=True)
    chances = public.probabilities(found.coefficients)[:, -1]
    assert np.count_nonzero(found.coefficients) <= 250
    assert abs(chances.mean() - 0.3) < 0.05
    assert chances.std() < 0.03
