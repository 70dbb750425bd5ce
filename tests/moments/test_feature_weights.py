"""Public weights of features: what they may depend on, and that no row becomes longer."""

import numpy as np
import pandas as pd
import pytest

from dpensemble.moments import TableMap
from dpensemble.moments.fits import Fit, starting_fit
from dpensemble.moments.learning import _weights_of_features
from dpensemble.moments.public_rows import PublicRows
from dpensemble.moments.whole import UNIT, whole_features


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    numbers = np.where(rng.random((n, 2)) < 0.2, np.nan, rng.normal(size=(n, 2)))
    return pd.DataFrame(
        {"a": numbers[:, 0], "b": numbers[:, 1], "c": rng.choice(["x", "y", None], n), "d": rng.choice(["p", "q"], n)}
    )


@pytest.fixture(scope="module")
def fitted():
    feature_map = TableMap().fit(table(200))
    features = whole_features(feature_map.transform(table(200))) / UNIT
    return feature_map, PublicRows(features, feature_map.blocks_, 2)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("spread", [1e-4, 1e-2, 10.0])
def test_weighted_rows_stay_within_length_one(fitted, seed, spread):
    feature_map, public = fitted
    rng = np.random.default_rng(seed)
    start = starting_fit(public)
    scales = start.scales * np.exp(rng.normal(scale=1.5, size=len(start.scales)))
    fit = Fit(3 * rng.normal(size=start.coefficients.shape), scales)
    factors = _weights_of_features(fit, public, feature_map, spread)
    assert np.isfinite(factors).all()
    assert factors.min() > 0
    # Also for rows that no public row is like.
    rows = table(500, seed + 1)
    rows.loc[0] = [np.nan, np.nan, None, None]
    rows.loc[1] = [1e12, -1e12, "other", "other"]
    weighted = feature_map.transform(rows).multiply(factors)
    lengths = np.sqrt(np.asarray(weighted.power(2).sum(axis=1)).ravel())
    assert lengths == pytest.approx(np.ones(500), abs=1e-9)


def test_sensitivity_goes_where_signal_is(fitted):
    feature_map, public = fitted
    start = starting_fit(public)
    scales = np.full_like(start.scales, 0.3)
    owners = feature_map.columns_of_blocks_
    scales[owners == 1] = 30.0
    factors = _weights_of_features(Fit(start.coefficients, scales), public, feature_map, 1e-2)
    mean = [factors[owners[feature_map.blocks_] == column].mean() for column in range(4)]
    assert mean[1] > 1 > max(mean[0], mean[2], mean[3])
    assert factors[-1] == 1
