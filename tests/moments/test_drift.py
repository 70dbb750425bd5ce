"""Whether public rows look like private ones."""

import warnings

import numpy as np
import pytest

from dpensemble import LabelMomentsClassifier
from dpensemble.moments.drift import drift


@pytest.mark.parametrize("n_rows", [60, 2000])
def test_alarms_without_drift_are_as_rare_as_stated(n_rows):
    # 300 draws at a rate of at most 1e-3: more than 4 happen with a probability below 2e-5.
    rng, alarms = np.random.default_rng(0), 0
    for _ in range(300):
        private = rng.normal(size=(3000, 8)) / 4
        mean = private.mean(axis=0) + 0.01 * rng.normal(size=8)
        alarms += drift(mean, 0.01, rng.normal(size=(n_rows, 8)) / 4, 3000).alarm
    assert alarms <= 4


def test_a_shift_larger_than_chance_and_noise_is_found():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(1000, 8)) / 4
    assert drift(features.mean(axis=0) + 0.1, 0.01, features, 3000).alarm
    assert not drift(features.mean(axis=0) + 0.1, 1.0, features, 3000).alarm


@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
@pytest.mark.parametrize("n_public", [300, 1500])
def test_people_are_warned_within_the_same_budget(relation, n_public):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 3))
    y = (X[:, 0] > 0).astype(int)
    model = LabelMomentsClassifier(classes=[0, 1], relation=relation, epsilon=2.0, insecure_release_seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y, X_public=rng.normal(size=(n_public, 3)))
    assert not model.drift_.alarm
    assert 1.99 < model.guarantee_.epsilon <= 2.0
    with pytest.warns(UserWarning, match="public rows do not look like the private ones"):
        model.fit(X, y, X_public=rng.normal(loc=[0, 1.5, 0], size=(n_public, 3)))
    assert model.drift_.alarm
    assert 1.99 < model.guarantee_.epsilon <= 2.0
