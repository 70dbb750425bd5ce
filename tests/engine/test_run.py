"""Fits of one process on the same records report their total cost."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

from dpensemble import (
    AutoClassifier,
    DiscriminantClassifier,
    EncodedClassifier,
    LabelMomentsClassifier,
    PATEClassifier,
    SoftVotesClassifier,
    SubsampleAggregateClassifier,
    total_spent,
)
from dpensemble._spending import listen
from dpensemble.datasets.columns import row_hashes
from dpensemble.engine import run
from dpensemble.errors import BudgetError, DPEnsembleError, MemoryShortageError, RepeatedReleaseWarning

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")

RNG = np.random.default_rng(0)
X, PUBLIC = RNG.normal(size=(600, 3)), RNG.normal(size=(200, 3))
Y = (X[:, 0] > 0).astype(int)
VOTES = SubsampleAggregateClassifier(n_teachers=20, classes=[0, 1], epsilon=1, delta=1e-4)


@pytest.fixture(autouse=True)
def nothing_seen():
    run._SEEN.forget()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RepeatedReleaseWarning)
        yield
    run._SEEN.forget()


def test_the_second_fit_says_what_both_cost_and_then_every_doubling():
    VOTES.fit(X, Y, X_public=PUBLIC)
    first = VOTES.guarantee_.epsilon
    assert total_spent().epsilon == pytest.approx(first)
    with pytest.warns(RepeatedReleaseWarning, match="2 private fits .* Together they cost epsilon .* and delta 0.0002"):
        VOTES.fit(X, Y, X_public=PUBLIC)
    VOTES.fit(X, Y, X_public=PUBLIC)
    with pytest.warns(RepeatedReleaseWarning, match="4 private fits"):
        VOTES.fit(X, Y, X_public=PUBLIC)
    assert total_spent().epsilon == pytest.approx(4 * first)
    assert total_spent().delta == pytest.approx(4e-4)


def test_the_warning_says_that_it_is_for_the_owner():
    VOTES.fit(X, Y, X_public=PUBLIC)
    with pytest.warns(RepeatedReleaseWarning, match="for the owner of the records only, because it depends on them"):
        VOTES.fit(X, Y, X_public=PUBLIC)


def test_folds_of_a_search_share_records():
    searched = GridSearchCV(VOTES, {"student": [None, LogisticRegression()]}, cv=3)
    with pytest.warns(RepeatedReleaseWarning) as caught:
        searched.fit(X, Y, X_public=PUBLIC)
    said = [str(one.message) for one in caught if one.category is RepeatedReleaseWarning]
    assert [int(text.split()[0]) for text in said] == [2, 4]
    # Every record is in the training part of two folds of three, twice each, and in the last fit.
    assert total_spent().delta == pytest.approx(5e-4)


def test_other_records_and_other_labels_are_others():
    VOTES.fit(X, Y, X_public=PUBLIC)
    VOTES.fit(X + 1, Y, X_public=PUBLIC)
    VOTES.fit(X, 1 - Y, X_public=PUBLIC)
    assert total_spent().delta == pytest.approx(1e-4)


@pytest.mark.parametrize(
    "model",
    [
        AutoClassifier(classes=[0, 1], delta=1e-4),
        LabelMomentsClassifier(classes=[0, 1], delta=1e-4),
        EncodedClassifier(VOTES),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_fit_within_a_fit_counts_once(model):
    table = pd.DataFrame(X, columns=list("abc"))
    model.fit(table, Y, X_public=pd.DataFrame(PUBLIC, columns=list("abc")))
    assert total_spent().delta == pytest.approx(1e-4)


def test_seeded_noise_is_no_release():
    for seed in range(3):
        VOTES.set_params(insecure_release_seed=seed).fit(X, Y, X_public=PUBLIC)
    VOTES.set_params(insecure_release_seed=None)
    assert total_spent() is None


def test_a_fit_that_fails_after_spending_counts_and_one_refused_before_does_not(monkeypatch):
    with pytest.raises(BudgetError):
        VOTES.set_params(epsilon=1e-9).fit(X, Y, X_public=PUBLIC)
    VOTES.set_params(epsilon=1)
    assert total_spent() is None
    monkeypatch.setattr("dpensemble.engine.voting.label_rows", None)
    with pytest.raises(TypeError):
        VOTES.fit(X, Y, X_public=PUBLIC)
    assert total_spent().epsilon == 1.0


def test_hashes_tell_rows_apart_in_whatever_form():
    rows = np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0], [0.0, 0.0]])
    for given in (rows, pd.DataFrame(rows, columns=["a", "b"]), rows.astype(object)):
        found = row_hashes(given, [0, 0, 0, 0])
        assert found[0] == found[2]
        assert len(set(found.tolist())) == 3
        assert row_hashes(given, [0, 0, 1, 0])[2] != found[2]
    assert row_hashes([1, 2, 3], [0, 0, 0]) is None
    many = np.arange(40_000.0).reshape(-1, 4)
    assert len(set(row_hashes(many, np.zeros(10_000)).tolist())) == 10_000


class Foreign(BaseEstimator):
    """A user's method without a seed, which fits one of ours and then fails."""

    on_bad_record = "raise"

    def fit(self, X, y, X_public=None):
        SubsampleAggregateClassifier(n_teachers=20, classes=[0, 1], epsilon=1, delta=1e-4).fit(X, y, X_public=X_public)
        raise RuntimeError("after the charge")


def test_a_fit_of_a_foreign_method_that_fails_after_its_charge_is_counted():
    with pytest.raises((RuntimeError, DPEnsembleError)):
        EncodedClassifier(Foreign(), encoder=StandardScaler()).fit(X, Y, X_public=PUBLIC)
    assert total_spent().epsilon == pytest.approx(1.0)


def test_a_run_without_enough_memory_is_refused_before_anything_is_announced(monkeypatch):
    monkeypatch.setattr("dpensemble._work.available_memory", lambda: 2**10)
    for model in (LabelMomentsClassifier, PATEClassifier, SoftVotesClassifier, DiscriminantClassifier):
        fitted, announced = model(classes=[0, 1], epsilon=5.0, delta=1e-4), []
        with pytest.raises(MemoryShortageError, match="fewer public rows"), listen(announced.extend):
            fitted.fit(X, Y, X_public=PUBLIC)
        assert announced == []
        assert not hasattr(fitted, "result_")


@pytest.mark.filterwarnings("ignore:the test cannot decide:UserWarning")
def test_an_estimate_of_memory_does_not_depend_on_how_many_records_a_unit_has(monkeypatch):
    """A unit may have any number of records, so a refusal that follows their number would state it."""
    rng, needed = np.random.default_rng(8), {}
    for more in (0, 3000):
        units = np.append(np.arange(400), np.zeros(more, dtype=int))
        rows = rng.normal(size=(len(units), 3))
        for model in (LabelMomentsClassifier, PATEClassifier, SoftVotesClassifier, DiscriminantClassifier):
            monkeypatch.setattr(
                "dpensemble.engine.run.require_memory",
                lambda count, _, name=model.__name__: needed.setdefault(name, []).append(count),
            )
            settings = {"n_teachers": 20} if hasattr(model(), "n_teachers") else {}
            fitted = model(**settings, classes=[False, True], epsilon=5.0, delta=1e-4, insecure_release_seed=0)
            fitted.fit(rows, rows[:, 0] > 0, X_public=PUBLIC, units=units)
    assert len(needed) == 4
    assert all(first == second for first, second in needed.values())


def test_an_estimate_of_memory_does_not_depend_on_a_private_number_of_records(monkeypatch):
    """Under add-or-remove-one the number of records is private, so a refusal must not state it."""
    rng, needed = np.random.default_rng(7), []
    monkeypatch.setattr("dpensemble.engine.run.require_memory", lambda count, _: needed.append(count))
    for relation in ("add-or-remove-one", "replace-one"):
        for n in (500, 9000):
            rows = rng.normal(size=(n, 3))
            settings = {"classes": [False, True], "epsilon": 5.0, "delta": 1e-5, "relation": relation}
            for model in (LabelMomentsClassifier, SoftVotesClassifier):
                model(**settings, insecure_release_seed=0).fit(rows, rows[:, 0] > 0, X_public=PUBLIC)
    assert needed[:2] == needed[2:4]
    # A run with synthetic rows, which may follow an alarm, needs the same with few records.
    assert needed[4] <= needed[6]
