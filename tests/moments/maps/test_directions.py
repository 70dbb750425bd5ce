"""Principal directions of a table's features."""

import warnings

import numpy as np
import pandas as pd
import pytest

from dpensemble.methods import LabelMomentsClassifier
from dpensemble.moments import DirectionsMap, TableMap
from dpensemble.moments.effects import column_effects


@pytest.fixture
def public():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {"x": rng.normal(size=500), "name": rng.choice(["a", "b"], size=500), "y": rng.normal(size=500)}
    )


def test_rows_have_length_one_and_are_read_for_themselves(public):
    fitted = DirectionsMap(TableMap(), n_directions=30).fit(public)
    together = fitted.transform(public)
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-9)
    assert fitted.reads_rows_alone
    alone = np.vstack([fitted.transform(public.iloc[i : i + 1]) for i in range(40)])
    assert np.array_equal(together[:40], alone)


def test_directions_are_uncorrelated_and_whitening_makes_them_alike(public):
    def spreads(whitening):
        base = DirectionsMap(TableMap(), n_directions=10, whitening=whitening).fit(public)
        rows = np.asarray(base.base_.transform(public) @ base.directions_)
        covariance = np.cov(rows.T)
        # Directions are rounded to whole numbers of about 2**-26 of their length.
        assert np.allclose(covariance, np.diag(covariance.diagonal()), atol=1e-7)
        return covariance.diagonal()

    plain, half, full = spreads(0.0), spreads(0.5), spreads(1.0)
    assert plain[0] > 1.5 * plain[-1]
    assert np.allclose(half, np.sqrt(plain), rtol=1e-2)
    assert np.allclose(full, 1, rtol=1e-2)


def test_no_more_directions_than_rows_can_tell(public):
    fitted = DirectionsMap(TableMap(), n_directions=100).fit(public.iloc[:5])
    assert fitted.n_features_out_ <= 6
    constant = pd.DataFrame({"x": np.ones(50)})
    assert DirectionsMap(TableMap()).fit(constant).transform(constant).shape == (50, 1)


def test_effects_of_columns_follow_the_coefficients(public):
    fitted = DirectionsMap(TableMap(), n_directions=40).fit(public)
    features = fitted.transform(public)
    wanted = np.where(public["name"] == "a", 2.0, -2.0) + 0.5 * public["x"]
    coefficients = np.linalg.lstsq(features, wanted, rcond=None)[0][:, None]
    found = column_effects(fitted, coefficients, public)
    assert found[0]["column"] == "name"
    pushes = {name: values[0] for name, values in found[0]["points"]}
    assert pushes["a"] - pushes["b"] == pytest.approx(4.0, rel=0.1)
    assert set(pushes) == {"a", "b"}
    by_column = {one["column"]: one for one in found}
    line = [values[0] for _, values in by_column["x"]["points"]]
    assert line[-1] > line[0]
    assert by_column["y"]["importance"] < 0.2 * found[0]["importance"]


def test_directions_of_many_features_come_from_products_of_rows(public, monkeypatch):
    """The same directions, up to their signs, without a square matrix of features."""
    twice = pd.concat([public, public.rename(columns=lambda name: f"{name} again")], axis=1).iloc[:30]
    wanted = DirectionsMap(TableMap(), n_directions=20).fit(twice)
    monkeypatch.setattr("dpensemble.moments.maps.directions._MOST_FEATURES_SQUARED", 5)
    monkeypatch.setattr("dpensemble.moments.maps.directions._of_features", None)
    found = DirectionsMap(TableMap(), n_directions=20).fit(twice)
    assert found.base_.n_features_out_ > len(twice)
    assert found.n_features_out_ == wanted.n_features_out_ > 5
    assert np.allclose(np.abs(found.transform(twice)), np.abs(wanted.transform(twice)), atol=1e-6)


def test_few_public_rows_of_many_columns_are_fitted_by_directions():
    """Features of 2,500 columns would need square matrices of more than 5,000."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2500))
    y = (X[:, 0] > 0).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LabelMomentsClassifier(classes=[0, 1], delta=1e-3, insecure_release_seed=0).fit(
            X, y, X_public=X[:80] + 0.1
        )
    assert isinstance(model.model_[0], DirectionsMap)
    assert model.moments_[0].values.shape[0] <= 81
    assert len(model.effects_) == 2500


def test_very_many_features_are_made_in_blocks_of_rows(public, monkeypatch):
    fitted = DirectionsMap(TableMap(), n_directions=30).fit(public)
    whole, sizes, real = fitted.transform(public), [], TableMap.for_products
    monkeypatch.setattr("dpensemble.moments.maps.directions._FEATURES_AT_ONCE", 40 * fitted.directions_.shape[0])
    monkeypatch.setattr(TableMap, "for_products", lambda self, X: sizes.append(len(X)) or real(self, X))
    assert np.array_equal(fitted.transform(public), whole)
    assert sizes == [40] * 12 + [20]
