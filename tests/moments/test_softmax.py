"""The closed form for several classes.

The softmax for several classes: its mode, its gradient, and probabilities that hold.

Class sums around the shares of the classes.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from dpensemble import LabelMomentsClassifier
from dpensemble.moments import Moments
from dpensemble.moments.fits import Fit, centres_of_rounds
from dpensemble.moments.learning import ClassSums, Residuals
from dpensemble.moments.public_rows import PublicRows
from dpensemble.moments.softmax import (
    _blended,
    _contrasts,
    _Errors,
    _fit_linear,
    _information,
    _Observed,
    _Posterior,
    _private_mean,
    _Seen,
    _shares_of,
    fit_rounds,
    fit_softmax,
)
from dpensemble.moments.softmax import _softmax as softmax_of_rows
from dpensemble.moments.whole import centres_and_weights, probabilities


def linear(rounds, public, n_units):
    seen = [_Seen.of(m, one) for m, one in zip(rounds, centres_of_rounds(rounds, public), strict=True)]
    even = np.full(public.n_classes, 1 / public.n_classes)
    return 10 * _fit_linear(seen, _contrasts(even), even, public, n_units=n_units).coefficients


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
        _Observed(
            rng.random((40, 1)).astype(np.float32) / 20,
            rng.normal(size=(6, 4)),
            _Errors(_contrasts(np.array([0.4, 0.3, 0.2, 0.1])), [factor * root, root]),
        )
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
    seen = _Seen(np.zeros((8, 3)), np.ones(8), np.full((50, 3), 1 / 3), np.ones(50))
    information = _information([_Errors([np.eye(3)], [np.eye(8)])], [seen], chances, sample)
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
    # Fits that end early differ by where they end.
    monkeypatch.setattr("dpensemble.moments.softmax._LEAST_GAIN", 1e-9)
    monkeypatch.setattr("dpensemble.moments.softmax._STEPS", 200)
    for most in (10, 9):
        monkeypatch.setattr("dpensemble.moments.public_rows._MANY_FEATURES", most)
        one = fit_rounds(start, [first], wide, n_units=2000, class_sums=False)
        later = replace(first, centre=one.coefficients, even_weight=1.0)
        fits += [one, fit_rounds(one, [first, later], wide, n_units=2000, class_sums=False)]
    for whole, some in zip(fits[:2], fits[2:], strict=True):
        assert some.coefficients == pytest.approx(whole.coefficients, abs=2e-3 * np.abs(whole.coefficients).max())
        assert some.scales == pytest.approx(whole.scales, rel=1e-3)
        assert (some.coefficients[[2, 5, 8]] == 0).all()


def test_means_with_linear_chances_have_both_at_equal_size():
    public, _, _, _ = made(3, 500, 1e-3)
    rng = np.random.default_rng(0)
    fits, others = rng.normal(size=(3, 8, 3)), 40 * rng.normal(size=(3, 8, 3))
    # The constant is determined by mean chances.
    parts = [(2 * blend - fit)[:-1] for blend, fit in zip(_blended(fits, others, public), fits, strict=True)]
    features, others = public.features[:, :-1], others[:, :-1]
    size = [np.linalg.norm((features @ one).std(axis=0)) for one in (fits[0][:-1], parts[0])]
    assert size[1] == pytest.approx(size[0])
    # All fits are multiplied by the same number.
    ratios = [(part / other).ravel() for part, other in zip(parts, others, strict=True)]
    assert np.ptp(ratios) == pytest.approx(0.0, abs=1e-9)


def test_means_with_linear_chances_keep_the_mean_chances():
    """The constant of linear chances differs from that of logits. With uneven classes, shares would differ."""
    public, _, _, _ = made(3, 500, 1e-3)
    rng = np.random.default_rng(0)
    fits, others = rng.normal(size=(3, 8, 3)), rng.normal(size=(3, 8, 3))
    fits[:, -1] = others[:, -1] = np.array([20.0, 0.0, -5.0])
    for blend, fit in zip(_blended(fits, others, public), fits, strict=True):
        means = [softmax(public.features @ one, axis=1).mean(axis=0) for one in (blend, fit)]
        assert means[0] == pytest.approx(means[1], rel=0.01)


def test_means_with_linear_chances_hold():
    public, truth, moments, _ = made(4, 20_000, 1e-4)
    alone, mean = (fit_softmax([moments], public, n_units=20_000, with_linear=linear) for linear in (False, True))
    errors = [np.abs(probabilities(public.features, fit.coefficients) - truth).mean() for fit in (alone, mean)]
    assert errors[1] < errors[0] + 0.02
    assert not np.array_equal(alone.coefficients, mean.coefficients)


SHARES = np.array([0.8, 0.15, 0.05])


@pytest.fixture
def rows_of_300():
    features = np.random.default_rng(0).normal(size=(300, 5)) / 5
    features[:, -1] = 0.2
    return PublicRows(features, np.array([0, 0, 0, 0, 1]), 3)


def seen_around(moments, shares, public, n_units):
    (about,) = centres_of_rounds([moments], public)
    return _Seen.of(moments, about).around_shares(moments, shares, public, n_units)


@pytest.mark.parametrize("shares", [[0.9, 0.1], [0.8, 0.15, 0.05], [0.4, 0.3, 0.2, 0.1], [0.25] * 4])
def test_contrasts_are_orthonormal_and_the_first_is_along_the_shares(shares):
    shares = np.array(shares)
    bases = _contrasts(shares)
    whole = np.hstack(bases)
    if np.ptp(shares):
        assert whole.T @ whole == pytest.approx(np.eye(len(shares) - 1), abs=1e-12)
        assert whole.sum(axis=0) == pytest.approx(0, abs=1e-12)
        assert bases[0] * np.linalg.norm(shares - 1 / len(shares)) == pytest.approx((shares - 1 / len(shares))[:, None])
    else:
        assert np.array_equal(whole, np.eye(4))


def test_the_noise_of_class_sums_around_shares_is_as_stated(rows_of_300):
    """10,000 draws: a standard deviation is known within 3 %, with a false alarm in 1 of 100,000 runs."""
    rng, spread, truth = np.random.default_rng(2), 0.01, np.outer(np.full(5, 0.1), SHARES)
    first, others = _contrasts(SHARES)
    for basis in (first, others):
        draws = []
        for _ in range(10_000 // basis.shape[1]):
            moments = ClassSums(3).read(truth + spread * rng.normal(size=truth.shape), spread)
            draws.append((moments.values - np.outer(moments.mean, SHARES - 1 / 3)) @ basis)
        # The whole sum takes the place of the mean. Its noise counts along the first contrast only.
        length = 1 + 3 * np.sum((SHARES - 1 / 3) ** 2) * (basis is first)
        assert np.std(np.concatenate(draws, axis=None)) == pytest.approx(spread * np.sqrt(length), rel=0.03)
    assert moments.mean_spread == pytest.approx(spread * np.sqrt(3))


@pytest.mark.parametrize(("n_classes", "spread"), [(2, 0.01), (3, 1e-4), (3, 0.01), (6, 0.01)])
def test_errors_around_shares_have_the_stated_covariance(n_classes, spread):
    """Labels do not depend on features. 1,000 draws of public rows, of private rows and of noise."""
    rng = np.random.default_rng(0)
    shares = np.array([2.0**-n for n in range(n_classes)])
    shares /= shares.sum()
    mixing = rng.normal(size=(3, 3)) / 6

    def features(n_rows):
        return np.column_stack([rng.normal(size=(n_rows, 3)) @ mixing, np.full(n_rows, 0.2)])

    first, draws, stated = _contrasts(shares)[0], [], []
    for number in range(1000):
        public, private = PublicRows(features(60), np.array([0, 0, 0, 1]), n_classes), features(90)
        labels = np.eye(n_classes)[rng.choice(n_classes, 90, p=shares)]
        sums = private.T @ labels / 90 + spread * rng.normal(size=(4, n_classes))
        seen = seen_around(ClassSums(n_classes).read(sums, spread), shares, public, 90)
        draws.append((seen.values @ first)[:, 0])
        if number < 40:
            chances = np.tile(shares, (60, 1))
            root = _Errors.of(seen, [first], chances, chances, public, 90).roots[0]
            stated.append(root @ root.T)
    stated = np.mean(stated, axis=0)
    whitened = np.linalg.solve(np.linalg.cholesky(stated), np.array(draws).T)
    assert whitened @ whitened.T / 1000 == pytest.approx(np.eye(4), abs=0.25)
    assert np.trace(whitened @ whitened.T) / 1000 == pytest.approx(4, rel=0.1)


def test_without_noise_the_mean_is_the_released_one_and_with_much_noise_that_of_public_rows(rows_of_300):
    own = rows_of_300.average(np.ones((300, 1)))[:, 0]
    released = own + np.array([0.01, -0.02, 0.0, 0.03, 0.0])
    known, unknown = _private_mean(released, 1e-7, rows_of_300, 300)
    assert known == pytest.approx(released, abs=1e-6)
    assert np.abs(unknown).max() < 1e-10
    known, unknown = _private_mean(released, 1e3, rows_of_300, 300)
    assert known == pytest.approx(own, abs=1e-6)
    of_rows = rows_of_300.sample.covariance(np.ones((300, 1)), 2 / 300, ridge=rows_of_300.ridge)
    assert unknown == pytest.approx(of_rows, abs=1e-8)


def test_the_mean_has_the_least_expected_error():
    """One feature, so that the weight is a number. A grid of weights has its least error at the same number."""
    rng, spread, errors, stated = np.random.default_rng(0), 0.01, [], []
    grid = np.linspace(0, 1, 101)
    for number in range(4000):
        features = np.column_stack([rng.normal(size=100) / 8, np.full(100, 0.2)])
        truth, own = rng.normal(size=300).mean() / 8, features[:, 0].mean()
        released = truth + spread * rng.normal()
        errors.append((own + grid * (released - own) - truth) ** 2)
        if number < 100:
            public = PublicRows(features, np.array([0, 1]), 2)
            known, unknown = _private_mean(np.array([own + 1, 0.2]), spread, public, 300)
            stated.append([known[0] - own, unknown[0, 0]])
    weight, error = np.mean(stated, axis=0)
    # The least error is flat.
    assert weight == pytest.approx(grid[np.mean(errors, axis=0).argmin()], abs=0.06)
    assert error == pytest.approx(np.mean(errors, axis=0).min(), rel=0.1)


def test_the_constant_keeps_its_noise(rows_of_300):
    """Public rows do not err on the constant, so that the sum of all classes adds no noise to it."""
    moments = ClassSums(3).read(np.outer(rows_of_300.features.mean(axis=0), SHARES), 0.01)
    assert seen_around(moments, SHARES, rows_of_300, 300).added[-1] == pytest.approx(np.zeros(5), abs=1e-9)


def test_rounds_of_residuals_stay_around_their_model(rows_of_300):
    moments = Residuals(3, np.zeros((5, 3))).read(np.full((5, 3), 0.01), 1e-3)
    seen = seen_around(moments, SHARES, rows_of_300, 300)
    assert seen.added is None
    assert np.array_equal(seen.values, moments.values)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_shares_are_those_of_the_constant(n_classes):
    shares = np.arange(1, n_classes + 1) / np.arange(1, n_classes + 1).sum()
    public = PublicRows(np.full((50, 2), 0.2), np.array([0, 1]), n_classes)
    moments = ClassSums(n_classes).read(np.outer([0.1, 0.2], shares), 1e-6)
    assert _shares_of([moments, moments], public) == pytest.approx(shares, abs=1e-6)
    assert _shares_of([replace(moments, mean=None)], public) == pytest.approx(np.full(n_classes, 1 / n_classes))
    noisy = ClassSums(n_classes).read(np.outer([0.1, 0.2], shares), 0.1)
    noisy = _shares_of([replace(noisy, values=-2 * noisy.values)], public)
    assert noisy.min() > 0
    assert noisy.sum() == pytest.approx(1)


def test_errors_are_solved_pulled_and_drawn_alike():
    rng = np.random.default_rng(0)
    bases = _contrasts(np.array([0.5, 0.3, 0.1, 0.1]))
    errors = _Errors(bases, [np.tril(rng.normal(size=(3, 3))) + 3 * np.eye(3) for _ in bases])
    values, units = rng.normal(size=(3, 4)), rng.normal(size=(3, 3))
    assert np.sum(errors.solved(values) * units) == pytest.approx(np.sum(values * errors.pulled(units)))
    assert errors.solved(errors.noise(units)) == pytest.approx(units)


def test_three_uneven_classes_are_better_than_their_shares_and_better_with_more_budget():
    """Log-loss was .38 at epsilon 3 around even shares, and that of the shares is .34."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(9500, 8)) @ (rng.normal(size=(8, 8)) * 0.3 + np.eye(8))
    logits = table @ rng.normal(size=(8, 3)) / 2 + np.array([3.9, 0.0, -0.6])
    chances = softmax(logits, axis=1)
    y = (chances.cumsum(axis=1) > rng.random((9500, 1))).argmax(axis=1)
    shares = np.bincount(y[:4000], minlength=3) / 4000
    losses = []
    for epsilon in (1, 3):
        model = LabelMomentsClassifier(classes=[0, 1, 2], epsilon=epsilon, insecure_release_seed=1)
        model.fit(table[:4000], y[:4000], X_public=table[4000:5500])
        losses.append(log_loss(np.eye(3)[y[5500:]], model.predict_proba(table[5500:])))
    assert losses[0] < log_loss(np.eye(3)[y[5500:]], shares) - 0.02
    assert losses[1] < losses[0]


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


def uneven_table(n_rows, seed):
    """A table of three uneven classes that depend on the difference of two columns that are nearly the same."""
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(n_rows, 6))
    table[:, 1] = table[:, 0] + 0.3 * table[:, 1]
    score = 3 * (table[:, 0] - table[:, 1]) + table[:, 2]
    chances = softmax(np.column_stack([np.zeros(n_rows), score - 3, -score - 3.5]), axis=1)
    return table, (chances.cumsum(axis=1) > rng.random((n_rows, 1))).argmax(axis=1)


def test_probabilities_by_made_up_rows_are_better_than_shares():
    """Log-loss was .72 where shares have .51, with constants of linear chances."""
    table, y = uneven_table(9500, 0)
    public = table[4000:5500] + np.array([0, 0, 0, 1.5, 0, 0])
    model = LabelMomentsClassifier(classes=[0, 1, 2], epsilon=3, insecure_release_seed=1)
    with pytest.warns(UserWarning, match="public rows do not look like the private ones"):
        model.fit(table[:4000], y[:4000], X_public=public)
    truth = np.eye(3)[y[5500:]]
    assert log_loss(truth, model.predict_proba(table[5500:])) < log_loss(truth, truth.mean(axis=0)) - 0.02


def test_rows_keep_their_order_where_shares_are_the_best_probabilities():
    """Labels of four classes that depend on nothing. Before, all rows had the same probabilities."""
    losses = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        table, labels = rng.normal(size=(1600, 6)), rng.integers(0, 4, 1000)
        model = LabelMomentsClassifier(classes=[0, 1, 2, 3], epsilon=3, insecure_release_seed=seed + 1)
        p = model.fit(table[:1000], labels, X_public=table[1000:1300]).predict_proba(table[1300:])
        assert len(np.unique(p[:, 0])) > 250
        losses.append(-np.log(p).mean())
    # What is learned from noise costs little on average, although the guard lets some of it pass.
    assert np.mean(losses) < np.log(4) + 0.01


def test_more_budget_does_not_make_a_fit_of_few_public_rows_worse():
    """About 400 features, some of which go together, by 500 public rows. Log-loss was 1.5 at epsilon 100."""
    table, y = uneven_table(5500, 3)
    losses = []
    for epsilon in (3, 30, 1000):
        model = LabelMomentsClassifier(classes=[0, 1, 2], epsilon=epsilon, insecure_release_seed=1)
        model.fit(table[:2000], y[:2000], X_public=table[2000:2500])
        losses.append(log_loss(np.eye(3)[y[2500:]], model.predict_proba(table[2500:])))
    assert losses[1] < losses[0] + 0.02
    assert losses[2] < losses[1] + 0.02
