"""What a number adds to sums, the law and link of clipped residuals, and the fit to them."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpensemble.errors import InvalidParameterError
from dpensemble.moments import DirectionsMap, TableMap
from dpensemble.moments.fits import Fit
from dpensemble.moments.public_rows import PublicRows, PublicUnits
from dpensemble.moments.residuals import (
    ClippedRound,
    Law,
    NumberRange,
    Scale,
    fit_residuals,
    predicted,
    quantile_of_cells,
    residual_edges,
    target_edges,
    with_total,
)
from dpensemble.moments.whole import UNIT, bounded_features


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.floats(-3e6, 3e6))
def test_codes_keep_numbers_and_the_side_on_which_they_leave_the_range(low, width, value):
    declared = NumberRange.of(low, low + max(width, 2e-6 * abs(low)))
    code = declared.codes(np.array([value]))
    assert declared.numbers(code)[0] == pytest.approx(
        np.clip(value, declared.low, declared.high), abs=1e-9 * declared.width
    )
    assert (code[0] == 0) == (value < declared.low)
    assert (code[0] > 2**40 + 1) == (value > declared.high)


def test_numbers_that_are_not_finite_are_bad():
    assert NumberRange(0, 1).codes(np.array([math.nan, math.inf, -math.inf, 0.5])).tolist()[:3] == [-1, -1, -1]


@pytest.mark.parametrize(
    ("low", "high", "name"),
    [
        (1, 1, "high"),
        (2, 1, "high"),
        (1e9, 1e9 + 1, "high"),
        (math.nan, 1, "low"),
        (0, math.inf, "high"),
        ("a", 1, "low"),
    ],
)
def test_a_range_without_numbers_is_refused(low, high, name):
    with pytest.raises(InvalidParameterError, match=name) as raised:
        NumberRange.of(low, high)
    assert raised.value.parameter == name


@pytest.mark.parametrize("shift", [None, 3.0])
def test_a_scale_is_inverted_and_keeps_the_order(shift):
    scale = Scale(NumberRange(-10, 90), 2.0, 0.5, shift)
    numbers = np.linspace(-10, 90, 200)
    along = scale.of_codes(scale.range.codes(numbers))
    assert np.all(np.diff(along) > 0)
    assert scale.numbers(along) == pytest.approx(numbers, abs=1e-4)
    assert scale.numbers(np.array([-1e9, 1e9])).tolist() == [-10, 90]


def test_a_range_that_is_a_hundred_times_too_wide_still_has_cells_where_numbers_are():
    edges = target_edges(NumberRange(0, 10_000))
    assert np.count_nonzero(edges < 100) >= 2
    assert np.all(np.diff(edges) > 0)
    # Zero is not an end here, and cells become narrow around it.
    assert np.abs(target_edges(NumberRange(-1000, 1000))).min() == 0


def test_quantiles_of_cells_are_those_of_the_numbers():
    declared, rng = NumberRange(0, 100), np.random.default_rng(0)
    numbers, edges = rng.normal(50, 10, 20_000), target_edges(NumberRange(0, 100))
    counts = np.bincount(np.searchsorted(edges, numbers, side="right"), minlength=len(edges) + 1)
    for q in (0.1, 0.5, 0.9):
        assert quantile_of_cells(q, counts, edges, declared) == pytest.approx(np.quantile(numbers, q), abs=1.5)


def test_the_law_keeps_the_mass_of_tails_that_noise_hides():
    edges = residual_edges(0.1, 10, 1.4)
    counts = np.zeros(len(edges) + 1)
    counts[len(counts) // 2 - 3 : len(counts) // 2 + 3] = 1000
    counts[-3:] = 20
    law = Law.of(counts, edges, noise=50.0)
    assert law.chances.sum() == pytest.approx(1)
    assert law.chances[law.points > 0.2].sum() == pytest.approx(60 / 6060, rel=1e-6)
    noise = np.random.default_rng(0).normal(scale=50, size=len(counts))
    assert np.isfinite(Law.of(noise, edges, 50.0).chances).all()


@pytest.mark.parametrize("tau", [0.05, 0.7, 4.0])
def test_the_link_is_the_mean_of_clipped_residuals(tau):
    law, apart = Law.normal(1.0), np.array([-3.0, -0.4, 0.0, 1.1])
    mean, slope, variance = law.link(tau).at(apart)
    draws = np.random.default_rng(0).normal(size=200_000)
    clipped = np.clip((apart[:, None] + draws) / tau, -1, 1)
    # Six standard deviations of a mean of 200,000 draws, and the points of the law.
    assert mean == pytest.approx(clipped.mean(axis=1), abs=0.02)
    assert variance == pytest.approx(clipped.var(axis=1), abs=0.02)
    inside = (np.abs(apart[:, None] + draws) < tau).mean(axis=1) / tau
    assert slope == pytest.approx(inside, abs=0.06)


def world(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    feature_map = DirectionsMap(TableMap(), n_directions=25, constant=0.2).fit(X)
    features = bounded_features(feature_map.transform(X)) / UNIT
    rows = PublicRows.behind(feature_map, features, X, 2, PublicUnits())
    coefficients = rng.normal(size=features.shape[1])
    target = features @ coefficients + 0.5 * rng.normal(size=n)
    return rows, features, coefficients, target


def test_the_fit_finds_the_function_at_a_small_and_a_large_limit():
    rows, features, coefficients, target = world()
    true, errors = features @ coefficients, {}
    for tau in (1.5, 5.0):
        values = features.T @ np.clip(target / tau, -1, 1) / len(target)
        found = fit_residuals(
            [ClippedRound(None, tau, values, 1e-4)], rows, Law.normal(0.5), Fit.start(rows), n_units=len(target)
        )
        errors[tau] = np.sqrt(np.mean((predicted(features, found.coefficients) - true) ** 2))
        assert 5 < found.n_effective <= features.shape[1]
    assert max(errors.values()) < 0.1 * true.std()


def test_a_law_that_is_too_wide_misleads_the_fit():
    """The link matters: with another law clipped residuals mean something else."""
    rows, features, coefficients, target = world()
    values = features.T @ np.clip(target / 0.3, -1, 1) / len(target)
    one = [ClippedRound(None, 0.3, values, 1e-4)]
    wide = fit_residuals(one, rows, Law.normal(2.0), Fit.start(rows), n_units=len(target))
    slope = np.polyfit(features @ coefficients, predicted(features, wide.coefficients), 1)[0]
    assert slope > 1.5


def test_a_small_limit_is_taken_where_noise_is_large():
    law = Law.normal(1.0)
    limits = [law.limit(noise, 50, 20.0, 1000.0) for noise in (1e-5, 1e-2, 1.0)]
    assert limits == sorted(limits, reverse=True)
    assert limits[0] > 1.5 * limits[-1]


def test_counts_get_their_total():
    assert with_total(np.array([3.0, -1.0, 5.0]), 10.0).tolist() == pytest.approx([4.0, 0.0, 6.0])
