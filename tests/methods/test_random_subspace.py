"""Teachers that see some columns: drawn without a look at records, at the price of one partition."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from dpensemble import PATEClassifier, RandomSubspaceClassifier
from dpensemble.engine import voting
from dpensemble.errors import InvalidParameterError
from dpensemble.methods.random_subspace import OnColumns

SETTINGS = {"classes": [0, 1], "n_teachers": 30, "epsilon": 3.0, "random_state": 0, "insecure_release_seed": 1}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X, public = rng.normal(size=(900, 8)), rng.normal(size=(80, 8))
    return X, (X[:, 0] + X[:, 1] > 0).astype(int), public


def fitted(model, rows):
    X, y, public = rows
    return model.fit(X, y, X_public=public)


def test_all_columns_are_pate_label_for_label(rows):
    tree = DecisionTreeClassifier(min_samples_leaf=5)
    plain = fitted(PATEClassifier(tree, **SETTINGS), rows)
    found = fitted(RandomSubspaceClassifier(tree, **SETTINGS, columns=1.0), rows)
    assert np.array_equal(found.labels_.labels, plain.labels_.labels)
    assert found.guarantee_ == plain.guarantee_


@pytest.mark.parametrize("secret", [False, True])
@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
def test_the_price_is_that_of_one_partition_whatever_the_columns(rows, secret, relation):
    plain = fitted(PATEClassifier(**SETTINGS, relation=relation), rows)
    found = fitted(RandomSubspaceClassifier(**SETTINGS, relation=relation, secret_columns=secret, columns=0.3), rows)
    assert found.guarantee_ == plain.guarantee_
    assert len(found.labels_) == len(plain.labels_)
    # Everything public about the run is in its settings.
    assert found.design_.settings() == plain.design_.settings() | {
        "method": "random-subspace",
        "title": "Random subspace voting",
        "columns": 0.3,
        "secret_columns": secret,
    }


def test_columns_follow_from_the_seed_alone():
    rng = np.random.default_rng(0)
    fits = [
        OnColumns(DecisionTreeClassifier(), 0.3, random_state=seed).fit(rng.normal(size=(20, 10)), [0, 1] * 10)
        for seed in (5, 5, 6)
    ]
    assert [len(one.columns_) for one in fits] == [3, 3, 3]
    assert np.array_equal(fits[0].columns_, fits[1].columns_)
    assert not np.array_equal(fits[0].columns_, fits[2].columns_)


@pytest.mark.parametrize(("secret", "distinct"), [(False, 1), (True, 3)])
def test_secret_columns_come_from_elsewhere_than_the_public_seed(rows, monkeypatch, secret, distinct):
    seen = []

    class Watched(voting.TeacherEnsemble):
        def __init__(self, *args, entropy, **rest):
            seen.append(entropy)
            super().__init__(*args, entropy=entropy, **rest)

    monkeypatch.setattr(voting, "TeacherEnsemble", Watched)
    for _ in range(2):
        fitted(RandomSubspaceClassifier(**SETTINGS | {"insecure_release_seed": None}, secret_columns=secret), rows)
    assert len({*seen, SETTINGS["random_state"]}) == distinct


@pytest.mark.parametrize("columns", [0, -0.5, 1.5, np.nan, "half"])
def test_shares_that_are_none_are_refused(rows, columns):
    with pytest.raises(InvalidParameterError, match="columns="):
        fitted(RandomSubspaceClassifier(**SETTINGS, columns=columns), rows)
