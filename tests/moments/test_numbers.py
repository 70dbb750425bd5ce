"""The published model of a number: its outputs, the bound on noise, and what proven intervals rest on."""

import math

import numpy as np
import pytest

from dpensemble.errors import InvalidParameterError
from dpensemble.moments.numbers import NumberModel, bounds_of_prefixes, provable
from dpensemble.moments.residuals import NumberRange, Scale, residual_edges


def model_of(shift=None, spread=1.0, noise=0.0):
    """Return a model with one feature, whose residuals are normal, of 10,000 records."""
    rng = np.random.default_rng(0)
    edges = residual_edges(0.05, 6.0, 1.15)
    residuals = rng.normal(scale=spread, size=(2, 5000))
    counts = np.array(
        [np.bincount(np.searchsorted(edges, own, side="right"), minlength=len(edges) + 1) for own in residuals]
    ).astype(float)
    model = NumberModel(0.0, 100.0)
    scale = Scale(NumberRange(0.0, 100.0), 3.0 if shift else 50.0, 0.4 if shift else 10.0, shift)
    typical = np.linspace(-1, 1, 20)[None].repeat(2, axis=0)
    model.take(scale, np.array([2.0]), np.array([0.0]), edges, counts, np.array([5000.0, 5000.0]), noise, typical)
    return model


FEATURES = np.linspace(-1, 1, 9)[:, None]


def test_quantiles_medians_and_intervals_are_those_of_the_residuals():
    model = model_of()
    centre = 50 + 20 * FEATURES[:, 0]
    assert model.predict(FEATURES) == pytest.approx(centre, abs=0.05)
    assert model.predict_median(FEATURES) == pytest.approx(centre, abs=0.4)
    for q, z in ((0.1, -1.2816), (0.95, 1.6449)):
        assert model.predict_quantile(FEATURES, q) == pytest.approx(centre + 10 * z, abs=0.8)
    ends = model.predict_interval(FEATURES, 0.9)
    assert (ends[:, 1] - ends[:, 0]) == pytest.approx(np.full(9, 32.9), abs=2.0)


def test_a_mean_on_a_logarithm_is_above_the_median():
    model = model_of(shift=1.0)
    mean, median = model.predict(FEATURES), model.predict_median(FEATURES)
    inside = median < 40
    # The mean of a log-normal number: exp(0.4**2 / 2).
    assert (mean + 1)[inside] / (median + 1)[inside] == pytest.approx(math.exp(0.08), abs=0.04)


def test_quantiles_never_cross_and_intervals_are_nested():
    model = model_of(noise=30.0)
    values = np.array([model.predict_quantile(FEATURES, q) for q in np.linspace(0.01, 0.99, 40)])
    assert np.all(np.diff(values, axis=0) >= 0)
    widths = [np.diff(model.predict_interval(FEATURES, c)).mean() for c in (0.5, 0.8, 0.9, 0.95)]
    assert widths == sorted(widths)


def test_noise_makes_intervals_longer():
    assert (
        np.diff(model_of(noise=40.0).predict_interval(FEATURES)).mean()
        > np.diff(model_of().predict_interval(FEATURES)).mean()
    )


@pytest.mark.parametrize(
    ("ask", "name"),
    [
        (lambda model: model.predict_quantile(FEATURES, 0.0), "q"),
        (lambda model: model.predict_interval(FEATURES, 1.0), "coverage"),
        (lambda model: model.predict_interval(FEATURES, "wide"), "coverage"),
        (lambda model: model.predict_interval(FEATURES, guaranteed=True), "guaranteed"),
    ],
)
def test_what_no_release_can_answer_is_refused(ask, name):
    with pytest.raises(InvalidParameterError) as raised:
        ask(model_of())
    assert raised.value.parameter == name


def with_proof(inside, *, n_units=10_000.0, spread=1e-4, mu=0.268, count_error=0.0):
    model = model_of()
    levels = (0.1, 0.05, 0.02)
    model.nested_ = np.stack([model.ends(level) for level in levels])
    model.inside_ = np.array(inside)
    model.proof_ = {
        "squares": mu**2, "slack": 1e-9, "spread": spread, "n_units": n_units, "count_error": count_error,
    }  # fmt: skip
    return model


def test_the_narrowest_interval_that_proves_the_coverage_is_taken():
    # At epsilon 1, 6.1 % of own records outside prove 90 %.
    widths = [
        np.diff(with_proof(inside).predict_interval(FEATURES, 0.9, guaranteed=True)).mean()
        for inside in ([0.95, 0.97, 0.99], [0.93, 0.97, 0.99], [0.90, 0.93, 0.99])
    ]
    assert widths == sorted(widths)
    assert widths[0] < widths[-1]


@pytest.mark.parametrize(
    "of",
    [
        {"inside": [0.8, 0.85, 0.9]},
        {"inside": [0.95, 0.97, 0.99], "mu": 2.0},
        {"inside": [0.95, 0.97, 0.99], "spread": 0.02},
    ],
)
def test_a_coverage_without_proof_is_refused(of):
    with pytest.raises(InvalidParameterError, match="cannot be proven"):
        with_proof(**of).predict_interval(FEATURES, 0.9, guaranteed=True)


def test_an_unknown_number_of_units_makes_intervals_wider():
    known = with_proof([0.945, 0.955, 0.99]).predict_interval(FEATURES, 0.9, guaranteed=True)
    unknown = with_proof([0.945, 0.955, 0.99], count_error=20.0).predict_interval(FEATURES, 0.9, guaranteed=True)
    assert np.diff(unknown).mean() > np.diff(known).mean()


def test_a_proven_end_at_the_range_is_open():
    ends = with_proof([0.95, 0.97, 0.99]).predict_interval(np.array([[-1.0], [0.0], [1.0]]), 0.9, guaranteed=True)
    model = with_proof([0.95, 0.97, 0.99])
    model.middle_ = 95.0
    high = model.predict_interval(np.array([[0.4]]), 0.9, guaranteed=True)
    assert np.isfinite(ends).all()
    assert high[0, 1] == math.inf
    assert np.isfinite(high[0, 0])


def test_all_prefixes_keep_the_bound_as_often_as_stated():
    """False-alarm rate below 1e-6: 20,000 draws of 6 cells. At most 10 % may break a bound."""
    draws = np.random.default_rng(0).normal(size=(20_000, 6)).cumsum(axis=1)
    broken = (draws > bounds_of_prefixes(6, 1.0, 0.1)).any(axis=1).mean()
    # Chernoff's bound and the union are not tight, but half of the noise would break them.
    assert 0.003 < broken < 0.1
    assert (2 * draws > bounds_of_prefixes(6, 1.0, 0.1)).any(axis=1).mean() > 0.1


def test_what_can_be_proven_follows_from_public_settings():
    assert provable(0.9, 5000, 0.268, 0.15)
    assert not provable(0.9, 300, 0.268, 0.15)
    assert not provable(0.99, 2000, 0.268, 0.15)
    assert provable(0.99, 2_000_000, 0.268, 0.15)
