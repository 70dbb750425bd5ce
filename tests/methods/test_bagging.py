import json
import pickle
from copy import copy

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from dpensemble import BaggingPrivacyClassifier, Basis, Guarantee, load_classifier, save_classifier, show_progress
from dpensemble.accounting import bagging_delta
from dpensemble.allocation import Allocation, BootstrapScheme
from dpensemble.errors import BudgetError, DataError, InvalidParameterError, TeacherError
from dpensemble.relations import Relation

SCHEMES = ["with-replacement", "distinct", "subsets"]
NEAREST = KNeighborsClassifier(1)


def bagging(*arguments, **settings):
    return BaggingPrivacyClassifier(*arguments, **{"classes": [0, 1]} | settings)


def drawn(model):
    """What nearest-neighbour models hold: their subsamples."""
    return [fitted._fit_X for fitted in model.models_]


@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_is_promised_is_the_chance_of_being_drawn(blobs, scheme, relation):
    X, y, _ = blobs
    model = bagging(n_teachers=3, subsample=10, scheme=scheme, relation=relation).fit(X, y)
    guarantee = model.guarantee_
    assert (guarantee.epsilon, guarantee.delta) == (0, bagging_delta(BootstrapScheme(scheme, 3, 10), 600))
    assert (guarantee.basis, guarantee.relation, guarantee.unit) == (Basis.WORST_CASE, relation, "record")
    assert (guarantee.n_units, guarantee.for_release, model.subsample_) == (600, True, 10)
    assert (model.published_ is None) == (scheme == "subsets")
    assert ("the paper's pair is epsilon = 0.0" in guarantee.accounting) == (scheme != "subsets")
    text = str(guarantee)
    assert f"any one record{' by any other' if relation == 'replace-one' else ''} changes the probability" in text
    assert "of every published result by at most 0.0" in text
    assert "WARNING: delta is not below 1 / 600" in text
    exposed = {"distinct": 30}.get(scheme, 29)
    assert f"a program that publishes about {exposed} of the 600 records in full" in text
    assert "Which records were drawn stays secret." in guarantee.assumptions
    assert "The subsamples hold at most 30 records" in text
    assert ("one more or one fewer" in text) == (relation == "add-or-remove-one")
    assert Guarantee.from_dict(json.loads(json.dumps(guarantee.to_dict()))) == guarantee


def test_delta_finds_the_subsample(blobs):
    X, y, public = blobs
    model = bagging(delta=0.1).fit(X, y)
    assert model.subsample_ == 63
    assert 0.0985 < model.guarantee_.delta <= 0.1
    assert bagging(delta=0.1, n_teachers=5, scheme="distinct").fit(X, y).subsample_ == 12
    assert np.mean(model.predict(X) == y) > 0.75
    assert model.predict_proba(public).shape == (300, 2)


def test_a_model_learns_its_subsample_and_nothing_else(blobs):
    X, y, _ = blobs
    rows = {row.tobytes() for row in X}
    model = bagging(NEAREST, n_teachers=4, subsample=50, scheme="distinct").fit(X, y)
    assert [len(held) for held in drawn(model)] == [50] * 4
    together = {row.tobytes() for held in drawn(model) for row in held}
    assert len(together) == 200
    assert together < rows
    model = bagging(NEAREST, subsample=5, scheme="subsets").fit(X, y, units=np.arange(600) // 3)
    assert len(drawn(model)[0]) == 15
    assert (model.guarantee_.unit, model.guarantee_.n_units) == ("unit", 200)
    assert "number of units is public." in str(model.guarantee_)


def test_equal_records_are_drawn_separately():
    """By content they would be one unit, and there are fewer of those than the public number of units."""
    X, y = np.zeros((100, 1)), np.arange(100) % 2
    for relation in ("replace-one", "add-or-remove-one"):
        model = bagging(NEAREST, subsample=60, scheme="subsets", relation=relation).fit(X, y)
        assert model.guarantee_.n_units == 100
        assert len(drawn(model)[0]) == 60


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_record_is_published_as_often_as_delta_says(scheme):
    """End to end: false-alarm rate 1e-4 at a fixed seed, and half that delta would alarm."""
    X, y = np.arange(10.0)[:, None], np.arange(10) % 2
    runs, found = 300, 0
    for seed in range(runs):
        # A constant subsample leaves no nearest neighbours. Its records are looked up by drawing again.
        allocation = BootstrapScheme(scheme, 2, 2).draw(range(10), relation=Relation.REPLACE_ONE, noise=_noise(seed))
        found += 0 in np.concatenate(allocation.shards)
        if seed % 10:
            continue
        model = bagging(NEAREST, n_teachers=2, subsample=2, scheme=scheme, insecure_release_seed=seed).fit(X, y)
        assert model.guarantee_.relation is Relation.REPLACE_ONE
        for fitted, shard in zip(model.models_, allocation.shards, strict=True):
            assert isinstance(fitted, DummyClassifier) or fitted._fit_X.ravel().tolist() == shard.tolist()
    delta = model.guarantee_.delta
    assert binomtest(int(found), runs, delta).pvalue > 1e-4
    assert binomtest(int(found), runs, 0.5 * delta).pvalue < 1e-4


def _noise(seed):
    from dpensemble._random import noise_source

    return noise_source(seed)


def test_the_public_seed_does_not_move_the_draw(blobs):
    X, y, _ = blobs
    settings = {"n_teachers": 2, "subsample": 20}
    # Equal draws of the system's generator have a probability below 1e-80.
    again = [bagging(NEAREST, **settings, random_state=0).fit(X, y) for _ in range(2)]
    assert not np.array_equal(*map(drawn, again))
    assert all(model.guarantee_.for_release for model in again)
    seeded = [bagging(NEAREST, **settings, random_state=s, insecure_release_seed=1).fit(X, y) for s in (0, 1, None)]
    assert all(np.array_equal(drawn(seeded[0]), drawn(model)) for model in seeded)
    assert not any(model.guarantee_.for_release for model in seeded)
    assert "NOT FOR RELEASE" in str(seeded[0].guarantee_)


def test_the_public_seed_decides_what_models_draw(blobs):
    X, y, _ = blobs
    tree = DecisionTreeClassifier(max_features=1, splitter="random")
    common = {"n_teachers": 2, "subsample": 60, "insecure_release_seed": 1}
    fitted = [bagging(tree, **common, random_state=s, n_jobs=j).fit(X, y) for s, j in ((0, 1), (0, 2), (1, 1))]
    states = [[model.random_state for model in bag.models_] for bag in fitted]
    assert states[0] == states[1] != states[2]
    assert states[0][0] != states[0][1]
    assert np.array_equal(fitted[0].predict(X), fitted[1].predict(X))


def test_nothing_tells_which_records_were_drawn(blobs, capsys):
    X, y, _ = blobs
    with show_progress():
        model = bagging(GaussianNB(), n_teachers=2, subsample=30).fit(X, y)
    learnt = {"result_", "published_", "n_features_in_"}
    assert set(vars(model)) == set(model.get_params(deep=False)) | learnt
    assert Allocation.__name__ not in pickle.dumps(model).decode("latin-1")
    assert "30 of" not in repr(model)
    assert "Fitting models" in capsys.readouterr().err
    # What is kept is as large as the models: no array as long as the draws or the records.
    sizes = [value.size for fitted in model.models_ for value in vars(fitted).values() if np.ndim(value)]
    assert max(sizes) <= 6
    back = pickle.loads(pickle.dumps(model))  # noqa: S301
    assert np.array_equal(back.predict(X), model.predict(X))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda X, y: (np.where(np.arange(len(X))[:, None] == 7, np.nan, X), y),
        lambda X, y: (X, np.where(np.arange(len(y)) == 7, 5, y)),
        lambda X, y: (np.full(X.shape, "ann"), y),
    ],
    ids=["NaN", "undeclared", "text"],
)
def test_bad_records_raise_before_anything_is_drawn(blobs, spoil, monkeypatch):
    X, y, _ = blobs

    def never(*_arguments, **_settings):
        raise AssertionError

    monkeypatch.setattr(BootstrapScheme, "draw", never)
    with pytest.raises(DataError, match=r"NaN|not among classes|entries that are not numbers") as caught:
        bagging(subsample=5).fit(*spoil(X, y))
    assert "ann" not in str(caught.value)
    with pytest.raises(DataError, match=r"^AssertionError was raised"):
        bagging(subsample=5).fit(X, y)


class Telling(LogisticRegression):
    """Raises with a record in its text."""

    def fit(self, X, y):
        raise ValueError(f"cannot fit {X[0]}")


class Choosy(GaussianNB):
    """Fits only where the majority is class 1."""

    def fit(self, X, y):
        if np.mean(y) < 0.5:
            raise ValueError
        return super().fit(X, y)


def test_errors_of_models_quote_no_records(blobs):
    X, y, _ = blobs
    model = bagging(Telling(), subsample=40)
    with pytest.raises(TeacherError, match=r"^no teacher could be fitted: Telling\.fit raised ValueError; on 200"):
        model.fit(X, y)
    assert not hasattr(model, "models_")


def test_a_constant_or_failed_model_is_an_ordinary_classifier(blobs, tmp_path):
    X, y, public = blobs
    model = bagging(classes=["no", "yes"], subsample=1, n_teachers=3).fit(X, np.array(["no", "yes"])[y])
    assert all(isinstance(fitted, DummyClassifier) for fitted in model.models_)
    assert all(set(fitted.predict(public)) <= {"no", "yes"} for fitted in model.models_)
    assert all(fitted.n_features_in_ == 3 for fitted in model.models_)
    save_classifier(model.models_[0], tmp_path / "model.skops")
    assert set(load_classifier(tmp_path / "model.skops").predict(public)) <= {"no", "yes"}
    mixed = bagging(Choosy(), n_teachers=20, subsample=9, insecure_release_seed=0).fit(X, y)
    kinds = {type(fitted) for fitted in mixed.models_}
    assert kinds == {DummyClassifier, Choosy}
    assert {fitted.predict(public)[0] for fitted in mixed.models_ if isinstance(fitted, DummyClassifier)} == {0}


def test_models_vote_and_ties_go_to_the_first_class(blobs):
    X, y, public = blobs
    for seed in range(40):
        model = bagging(classes=["a", "b", "c"], n_teachers=2, subsample=1, insecure_release_seed=seed)
        model.fit(X, np.array(["b", "c"])[y])
        if len({fitted.predict(public)[0] for fitted in model.models_}) == 2:
            break
    assert set(model.predict(public)) == {"b"}
    assert np.array_equal(model.predict_proba(public[:1]), [[0, 0.5, 0.5]])
    five = bagging(GaussianNB(), n_teachers=5, subsample=30).fit(X, y)
    votes = np.stack([fitted.predict(public) for fitted in five.models_])
    assert np.array_equal(five.predict(public), votes.mean(axis=0) > 0.5)
    assert np.allclose(five.predict_proba(public)[:, 1], votes.mean(axis=0))


def test_one_model_gives_its_own_probabilities(blobs):
    X, y, public = blobs
    model = bagging(GaussianNB(), classes=[0, 1, 2], subsample=50).fit(X, y)
    own = model.models_[0].predict_proba(public)
    assert np.array_equal(model.predict_proba(public), np.column_stack([own, np.zeros(len(public))]))
    margins = bagging(LinearSVC(), subsample=50).fit(X, y)
    assert np.array_equal(margins.predict_proba(public)[:, 1], margins.predict(public))


def test_it_clones_and_a_failed_fit_leaves_the_last_one(blobs):
    X, y, public = blobs
    model = bagging(GaussianNB(), subsample=20, random_state=3).fit(X, y)
    assert clone(model).get_params()["subsample"] == 20
    before = copy(vars(model))
    with pytest.raises(DataError):
        model.fit(X, y + 5)
    assert vars(model) == before
    assert model.predict(public).shape == (300,)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        (
            {},
            InvalidParameterError,
            r"^exactly one of subsample and delta must be given; got subsample=None and delta=None",
        ),
        (
            {"subsample": 5, "delta": 0.1},
            InvalidParameterError,
            "exactly one of .* must be given; got subsample=5 and delta=0.1",
        ),
        ({"subsample": 0}, InvalidParameterError, "subsample=0 is not an integer from 1"),
        ({"subsample": 2.0}, InvalidParameterError, r"subsample=2\.0"),
        (
            {"subsample": 601, "scheme": "subsets"},
            InvalidParameterError,
            "601 is more than the 600 private records",
        ),
        (
            {"subsample": 301, "n_teachers": 2, "scheme": "distinct"},
            InvalidParameterError,
            "makes 602 distinct draws",
        ),
        (
            {"subsample": 300, "n_teachers": 2, "scheme": "distinct"},
            BudgetError,
            "each of the 600 private records",
        ),
        ({"subsample": 30_000}, BudgetError, "with certainty, so delta would be 1: use a smaller subsample"),
        ({"delta": 1e-3}, BudgetError, "delta=0.001 is too small for bagging 600 .* need delta=0.001667"),
        ({"delta": 1}, InvalidParameterError, "delta=1 is not a number strictly between 0 and 1"),
        (
            {"delta": 0.1, "relation": "add-or-remove-one"},
            InvalidParameterError,
            "give subsample, or use relation=",
        ),
        ({"subsample": 5, "scheme": "poisson"}, InvalidParameterError, "scheme='poisson' is unknown"),
        ({"subsample": 5, "relation": "swap"}, InvalidParameterError, "relation='swap' is unknown"),
        ({"subsample": 5, "n_teachers": 0}, InvalidParameterError, "n_teachers=0"),
        ({"subsample": 5, "n_jobs": 0}, InvalidParameterError, "n_jobs=0"),
        ({"subsample": 5, "insecure_release_seed": -1}, InvalidParameterError, "insecure_release_seed=-1"),
        ({"subsample": 5, "random_state": "x"}, InvalidParameterError, "random_state='x'"),
        ({"subsample": 5, "classes": None}, InvalidParameterError, "must be declared"),
    ],
)
def test_settings_that_cannot_work_are_refused_in_one_sentence(blobs, settings, error, message):
    X, y, _ = blobs
    model = bagging(**settings)
    with pytest.raises(error, match=message) as caught:
        model.fit(X, y)
    assert str(caught.value).count("\n") == 0
    assert not hasattr(model, "models_")
