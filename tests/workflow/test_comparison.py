"""Methods side by side: the same rows, the same budget, and rows that give reasons."""

import json
import math

import numpy as np
import pytest

from dpensemble.datasets import load_digit_images
from dpensemble.errors import InvalidParameterError
from dpensemble.workflow import compare
from dpensemble.workflow.comparison import COMPARED, METHODS, _fitting_trial, _further_measures, _of_one_step
from dpensemble.workflow.comparison_data import (
    ComparedDataset,
    ComparedRows,
    ComparisonData,
    _published_images,
    comparison_data,
)
from dpensemble.workflow.comparison_data import comparison_data as data_of
from dpensemble.workflow.learners import scores

WITHOUT_EXTRAS = ["label-moments", "bagging", "pate", "bagged-pate", "private-majority", "darrm"]
VOTES_AND_SUMS = [*WITHOUT_EXTRAS, "soft-votes"]
SEEDED = {"random_state": 0, "insecure_release_seed": 1, "n_jobs": 1}


def simulated(n_classes=2, n_private=2000):
    def split(seed):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n_private + 800, 3))
        y = np.clip(np.floor(X[:, 0] + n_classes / 2), 0, n_classes - 1).astype(int)
        private, public, test = np.split(np.arange(len(X)), [n_private, n_private + 300])
        return ComparedRows(
            X_private=X[private], y_private=y[private], X_public=X[public], X_test=X[test], y_test=y[test]
        )

    return ComparisonData(name="simulated", classes=tuple(range(n_classes)), split=split, how="simulated")


def by_name(found):
    return {row.method: row for row in (*found.methods, *found.references)}


@pytest.fixture(scope="module")
def at_large_delta():
    """Bagging can run here, and methods that vote have to lower delta."""
    return compare(simulated(), methods=VOTES_AND_SUMS, epsilon=2.0, delta=0.02, n_teachers=50, repeats=2, **SEEDED)


@pytest.mark.parametrize(("relation", "delta"), [("replace-one", 1e-4), ("add-or-remove-one", 4e-4)])
def test_a_delta_that_is_not_given_follows_from_the_private_records(monkeypatch, relation, delta):
    monkeypatch.setattr("dpensemble.guarantee._USUAL_DELTA", 4e-4)
    found = compare(simulated(), methods=["bagging"], relation=relation, repeats=1, **SEEDED)
    assert found.delta == delta
    # A given delta stays.
    assert compare(simulated(), methods=["bagging"], delta=3e-4, relation=relation, repeats=1, **SEEDED).delta == 3e-4


class TestRows:
    def test_every_method_states_no_more_than_the_budget(self, at_large_delta):
        for row in at_large_delta.methods:
            assert row.error is None, row
            assert 0 <= row.epsilon <= 2.0
            assert 0 < row.delta <= 0.02
            assert len(row.accuracies) == 2

    def test_what_the_budget_bought(self, at_large_delta):
        rows = by_name(at_large_delta)
        assert rows["bagging"].bought == {"subsample": 40, "models": 1}
        assert rows["bagging"].epsilon == 0
        assert rows["bagging"].released == "1 model"
        assert rows["label-moments"].released == "model"
        assert rows["label-moments"].text == "5 noisy sums"
        assert rows["soft-votes"].text == "300 averages"
        assert rows["soft-votes"].bought["spread"] > 0
        assert rows["soft-votes"].accuracy > 0.9
        assert rows["pate"].bought["teachers"] == 50
        assert rows["pate"].bought["labels"] < rows["bagged-pate"].bought["labels"]
        assert rows["pate"].text == f"{rows['pate'].bought['labels']} labels"
        assert rows["darrm"].bought["labels"] == 50
        assert rows["private-majority"].bought["labels"] > 50
        assert rows["private-majority"].released == "labels, student"

    def test_methods_that_vote_run_just_below_one_over_the_records_and_say_so(self, at_large_delta):
        rows = by_name(at_large_delta)
        assert rows["bagging"].note is None
        for name in ("pate", "bagged-pate", "private-majority", "darrm"):
            assert 0.99 / 2000 < rows[name].delta < 1 / 2000
            assert "ran at delta=0.0004995, just below one over the records" in rows[name].note

    def test_references_have_no_guarantee(self, at_large_delta):
        rows = by_name(at_large_delta)
        assert rows["no privacy"].accuracy > 0.95
        assert 0.4 < rows["commonest class"].accuracy < 0.6
        assert rows["no privacy"].epsilon is None

    def test_spread_is_that_of_repeats(self, at_large_delta):
        row = by_name(at_large_delta)["pate"]
        assert row.accuracy == pytest.approx(np.mean(row.accuracies))
        assert row.spread == pytest.approx(np.std(row.accuracies, ddof=1))

    def test_a_method_that_cannot_run_is_a_row_in_its_own_words(self):
        found = compare(simulated(3), methods=WITHOUT_EXTRAS, epsilon=0.01, n_teachers=20, repeats=1, random_state=0)
        rows = by_name(found)
        assert "delta=1e-05 is too small for bagging 2000" in rows["bagging"].error
        assert "too small for one label" in rows["pate"].error
        assert "too small for one label" in rows["bagged-pate"].error
        assert "proven for two classes only" in rows["darrm"].error
        # Sums of vectors, and models with noise, can be had at every budget.
        run = ("label-moments", "private-majority")
        assert all(rows[name].epsilon <= 0.01 for name in run)
        for name in [name for name in WITHOUT_EXTRAS if name not in run]:
            assert rows[name].accuracies == ()
            assert rows[name].text == "cannot run"
        assert rows["no privacy"].accuracy > 0.8

    def test_dp_sgd_without_gradients_or_its_extra_is_a_row(self, monkeypatch):
        import sys

        found = compare(simulated(), methods=["dp-sgd"], learner="naive-bayes", repeats=1)
        assert "learner='naive-bayes' is not trained by gradients" in found.methods[0].error
        monkeypatch.setitem(sys.modules, "opacus", None)
        found = compare(simulated(), methods=["dp-sgd"], repeats=1)
        assert "pip install" in found.methods[0].error

    def test_all_methods_get_the_same_split_and_repeats_get_others(self, monkeypatch):
        from dpensemble.errors import BudgetError
        from dpensemble.workflow import comparison
        from dpensemble.workflow.comparison import _REFERENCES, Reference

        seen = {name: [] for name in METHODS}

        def compared(name):
            def method(trial):
                seen[name].append((trial.rows, trial.seed))
                if len(seen[name]) == 3:
                    raise BudgetError("enough")
                return _REFERENCES["commonest class"].run(trial)

            return Reference(run=method)

        monkeypatch.setattr(comparison, "compared", compared)
        compare(simulated(), repeats=2, random_state=0)
        first = seen["bagging"]
        assert len(first) == 2
        assert first[0][1] != first[1][1]
        assert not np.array_equal(first[0][0].X_private, first[1][0].X_private)
        for name in METHODS:
            for (rows, seed), (expected, its_seed) in zip(seen[name], first, strict=True):
                assert rows is expected
                assert seed == its_seed

    def test_seeds_repeat_everything_but_the_time(self):
        def run(**seeds):
            found = compare(
                simulated(), methods=["bagging", "pate"], epsilon=2, delta=0.01, n_teachers=40, repeats=1, **seeds
            )
            return [row.accuracies for row in (*found.methods, *found.references)], found.for_release

        assert run(**SEEDED) == run(**SEEDED)
        assert run(**SEEDED)[1] is False
        assert run(random_state=0) != run(**SEEDED)

    def test_areas_and_squared_errors_stand_beside_accuracy(self, at_large_delta):
        rows = {row.method: row.measures for row in (*at_large_delta.methods, *at_large_delta.references)}
        assert rows["commonest class"] == {"auroc": 0.5}
        assert 0.9 < rows["no privacy"]["auroc"] <= 1
        assert 0 < rows["no privacy"]["brier"] < 0.15
        assert set(rows["label-moments"]) == {"auroc", "brier"}

    def test_json_has_the_schema(self, at_large_delta):
        found = json.loads(json.dumps(at_large_delta.to_dict()))
        assert list(found) == [
            "schema", "dataset", "how", "rows", "classes", "epsilon", "delta", "relation", "learner",
            "n_teachers", "repeats", "methods", "references", "for_release", "warning", "together",
        ]  # fmt: skip
        assert found["schema"] == 1
        assert found["rows"] == {"private": 2000, "public": 300, "test": 500}
        assert found["relation"] == "add-or-remove-one"
        assert [row["method"] for row in found["methods"]] == VOTES_AND_SUMS
        assert set(found["methods"][0]) == {
            "method", "accuracies", "measures", "accuracy", "spread", "epsilon", "delta", "bought", "text", "released",
            "seconds", "note", "error",
        }  # fmt: skip
        assert "add up" in found["warning"]


def test_whatever_votes_is_compared_with_any_law():
    names = ["saa", "dpbag", "pate:lnmax", "pate:optimal", "bagged-pate:optimal"]
    found = compare(simulated(), methods=names, epsilon=2.0, delta=1e-4, n_teachers=100, repeats=1, **SEEDED)
    rows = {row.method: row for row in found.methods}
    assert list(rows) == names
    for row in found.methods:
        assert row.error is None
        assert row.epsilon <= 2
        assert ("optimal vote" if "optimal" in row.method else "Laplace noisy-max") == row.bought["law"]


class TestRefusals:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"epsilon": 0}, "epsilon=0"),
            ({"epsilon": math.nan}, "epsilon=nan"),
            ({"delta": 1}, "delta=1"),
            ({"delta": 0}, "delta=0"),
            ({"methods": []}, "methods=''"),
            ({"methods": ["pate", "pate"]}, "methods='pate,pate'"),
            ({"methods": ["knn"]}, "methods='knn' cannot be compared: use bagged-pate, dpbag, pate"),
            ({"methods": ["bagging:optimal"]}, "methods='bagging:optimal' cannot be compared"),
            ({"methods": ["pate:loud"]}, "law='loud' is unknown"),
            ({"learner": "knn"}, "learner='knn' is unknown"),
            ({"learner": "cnn"}, "learner='cnn' is for images, but the data are simulated"),
            ({"n_teachers": 0}, "n_teachers=0"),
            ({"n_teachers": 2001}, "n_teachers=2001 is not an integer from 1 to 2000"),
            ({"relation": "swap"}, "relation='swap'"),
            ({"repeats": 0}, "repeats=0"),
            ({"random_state": -1}, "random_state=-1"),
            ({"insecure_release_seed": -1}, "insecure_release_seed=-1"),
        ],
    )
    def test_bad_settings(self, settings, message):
        with pytest.raises(InvalidParameterError, match=message) as caught:
            compare(simulated(), **{"methods": ["bagging"]} | settings)
        assert str(caught.value).count(". ") == 0

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((ComparedDataset.ADULT, (0, 1)), "is for images"),
            ((ComparedDataset.ADULT, None, 20_000), "public_rows=20000 is not an integer from 1 to 16281"),
            ((ComparedDataset.DIGITS, (3, 8), 120), "public_rows=120 is not an integer from 1 to 119"),
            ((ComparedDataset.DIGITS, (3, 8), 0), "public_rows=0"),
            ((ComparedDataset.DIGITS, (3, 11)), "classes=11"),
        ],
    )
    def test_bad_data(self, arguments, message):
        with pytest.raises(InvalidParameterError, match=message):
            comparison_data(*arguments)


class TestData:
    def test_thirds_do_not_overlap(self):
        rows = data_of(ComparedDataset.DIGITS, public_rows=200).split(0)
        assert [len(part) for part in (rows.X_private, rows.X_public, rows.X_test)] == [599, 200, 599]
        together = {row.tobytes() for part in (rows.X_private, rows.X_public, rows.X_test) for row in part}
        # The digits have no equal images.
        assert len(together) == 599 + 200 + 599

    def test_adult_is_encoded_by_its_public_rows(self):
        rows = data_of(ComparedDataset.ADULT, public_rows=2000).split(3)
        assert rows.X_public.shape[0] == 2000
        assert rows.X_private.shape[1] == rows.X_test.shape[1] == rows.X_public.shape[1]
        assert abs(rows.X_public[:, :6].mean()) < 1e-9

    def test_published_test_images_are_public_first(self):
        images = load_digit_images()
        rows = _published_images(images, 100).split(0)
        assert np.array_equal(rows.X_public, images.scaled(images.X_test)[:100])
        assert np.array_equal(rows.y_test, images.y_test[100:])
        assert len(rows.X_private) == len(images.X_train)
        assert len(_published_images(images, None).split(0).X_test) == 1
        with pytest.raises(InvalidParameterError, match="public_rows=355"):
            _published_images(images, 355)


class TestRelations:
    def test_replace_one_runs_every_method_within_the_budget(self):
        pytest.importorskip("torch", reason="DP-SGD needs PyTorch")
        pytest.importorskip("opacus", reason="DP-SGD needs Opacus")
        found = compare(
            simulated(),
            epsilon=2.0,
            delta=4e-4,
            n_teachers=50,
            relation="replace-one",
            methods=["pate", "bagged-pate", "private-majority", "darrm", "dp-sgd"],
            repeats=1,
            **SEEDED,
        )
        for row in found.methods:
            assert row.error is None, row
            assert 0 < row.epsilon <= 2.0
            assert 0 < row.delta <= 4e-4
        rows = by_name(found)
        assert rows["dp-sgd"].epsilon > 1.9
        assert "replacing one is both" in rows["dp-sgd"].note
        assert rows["dp-sgd"].accuracy > 0.9
        other = by_name(compare(simulated(), epsilon=2.0, delta=4e-4, methods=["dp-sgd"], repeats=1, **SEEDED))[
            "dp-sgd"
        ]
        assert other.note is None
        assert other.bought["noise_multiplier"] < rows["dp-sgd"].bought["noise_multiplier"] / 1.5

    @pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
    def test_two_steps_make_the_budget(self, epsilon):
        from dpensemble.guarantee import Budget

        one = _of_one_step(Budget(epsilon=epsilon, delta=1e-5))
        assert 2 * one.epsilon == epsilon
        assert (1 + math.exp(one.epsilon)) * one.delta == pytest.approx(1e-5)

    def test_delta_below_one_over_the_records_is_left_alone(self):
        class Trial:
            n_records = 100

            class budget:  # noqa: N801
                delta = 0.0099

        assert _fitting_trial(COMPARED["pate"], Trial) == (Trial, None)


def test_a_network_learns_images(monkeypatch):
    pytest.importorskip("torch", reason="networks need PyTorch")
    from dpensemble.workflow import comparison_data

    data = data_of(ComparedDataset.DIGITS, (3, 8))
    base = data.learner("cnn")
    assert base.alone(10).epochs == 100
    assert base.alone(60_000).epochs == 3
    monkeypatch.setattr(comparison_data, "_MOST", 30)
    found = compare(data, methods=["bagging"], learner="cnn", delta=0.5, repeats=1, **SEEDED)
    assert by_name(found)["bagging"].accuracy > 0.6
    assert by_name(found)["no privacy"].accuracy > 0.8


def test_two_classes_score_the_second():
    p = np.array([[0.9, 0.1], [0.6, 0.4], [0.35, 0.65], [0.2, 0.8]])
    found = scores(p, np.array(["a", "b", "a", "b"]), np.array(["a", "b"]))
    brier = (0.1**2 + 0.6**2 + 0.65**2 + 0.2**2) / 4
    assert found == {
        "accuracy": 0.5,
        "auroc": 0.75,
        "auprc": pytest.approx((1 + 2 / 3) / 2),
        "brier": pytest.approx(brier),
    }


def test_more_classes_are_averaged_over_those_that_occur():
    p = np.eye(4)[[0, 1, 2, 2]] * 0.9 + 0.025
    found = scores(p, np.array([0, 1, 2, 1]), np.arange(4))
    assert found["accuracy"] == 0.75
    assert 0.8 < found["auroc"] < 1


def test_a_single_class_has_no_areas():
    assert scores(np.array([[0.4, 0.6]]), np.array([1]), np.array([0, 1])) == {
        "accuracy": 1.0,
        "brier": pytest.approx(0.16),
    }


def test_measures_beside_accuracy():
    three, truth = np.arange(3), np.array([0, 0, 0, 1, 2])
    found = _further_measures(np.zeros(5, dtype=int), np.full((5, 3), 1 / 3), truth, three)
    assert found == {"balanced_accuracy": pytest.approx(1 / 3), "brier": pytest.approx(2 / 3)}
    assert _further_measures(np.array([1, 1]), None, np.array([0, 1]), np.array([0, 1])) == {"auroc": 0.5}
    assert _further_measures(np.array([0, 1]), None, np.array([0, 1]), np.array([0, 1])) == {}
