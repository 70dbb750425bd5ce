"""Columns of a number, and figures that follow from released counts."""

import numpy as np
import pandas as pd
import pytest

from dpensemble import LabelMomentsRegressor
from dpensemble.errors import InvalidParameterError
from dpensemble.workflow.numbers import NumberColumns, _Mixture

N, LOW, HIGH = 6000, 0.0, 200.0


def made(n, seed):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n)})
    return X, np.clip(80 + 12 * X["a"] + 6 * X["b"] + 8 * rng.normal(size=n), LOW, HIGH).to_numpy()


@pytest.fixture(scope="module")
def fitted():
    model = LabelMomentsRegressor(LOW, HIGH, epsilon=8, delta=1e-5, insecure_release_seed=3)
    return model.fit(*made(N, 0), X_public=made(1000, 1)[0])


def test_figures_of_released_counts_are_those_of_new_records(fitted):
    figures = _Mixture.of(fitted.student_.steps[-1][1]).figures()
    X, y = made(20_000, 2)
    error = np.abs(y - fitted.predict_median(X)).mean()
    of_median = np.abs(y - np.median(y)).mean()
    assert figures["error"] == pytest.approx(error, rel=0.08)
    assert figures["error_of_median"] == pytest.approx(of_median, rel=0.08)
    assert figures["width_of_all"] == pytest.approx(np.diff(np.quantile(y, [0.05, 0.95]))[0], rel=0.1)
    r2 = figures["r2"]
    assert r2["low"] <= fitted.score(X, y) <= r2["high"]
    assert r2["high"] - r2["low"] < 0.4


def test_true_numbers_of_groups_rise_with_predictions(fitted):
    groups = _Mixture.of(fitted.student_.steps[-1][1]).figures()["groups"]
    assert len(groups) == 5
    assert sum(group["share"] for group in groups) == pytest.approx(1)
    medians = [group["numbers"][2] for group in groups]
    assert medians == sorted(medians)
    X, y = made(20_000, 2)
    predicted = fitted.predict_median(X)
    # The middle half of the middle group, by records whose predictions are in its middle 80 %.
    low, _, high = groups[2]["predicted"]
    inside = y[(low <= predicted) & (predicted <= high)]
    np.testing.assert_allclose(groups[2]["numbers"][1:4], np.quantile(inside, [0.25, 0.5, 0.75]), atol=2.5)


def test_columns_of_a_number(fitted):
    X = made(5, 4)[0]
    columns = NumberColumns(0.5, (0.1,)).of(fitted, X)
    assert list(columns) == ["mean", "median", "low", "high", "quantile 0.1"]
    np.testing.assert_array_equal(np.column_stack([columns["low"], columns["high"]]), fitted.predict_interval(X, 0.5))
    np.testing.assert_array_equal(columns["quantile 0.1"], fitted.predict_quantile(X, 0.1))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"coverage": 1.0}, "coverage=1.0"),
        ({"coverage": np.nan}, "coverage=nan"),
        ({"quantiles": (0.0,)}, "quantiles=0.0"),
        ({"quantiles": (0.5, 0.5)}, "names one twice"),
    ],
)
def test_columns_that_mean_nothing_are_refused(settings, sentence):
    with pytest.raises(InvalidParameterError, match=sentence):
        NumberColumns(**settings)


def test_proven_columns_need_a_run_that_paid_for_them(fitted):
    with pytest.raises(InvalidParameterError, match="train with --proven-coverage"):
        NumberColumns(proven=True).of(fitted, made(2, 5)[0])
