"""Released quality in a run: groups, costs, test rows, the certificate, and requests that are refused."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from dpensemble import LabelMomentsClassifier, PATEClassifier
from dpensemble.certificates import confirmed
from dpensemble.cli.train import _parse_groups
from dpensemble.errors import BudgetError, DataError, InvalidParameterError
from dpensemble.report.quality import quality_lines
from dpensemble.workflow import Tables, train
from dpensemble.workflow.scoring import hold_back
from dpensemble.workflow.tables import _declared_groups, _group_places

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")

SETTINGS = {"epsilon": 3.0, "delta": 1e-4, "random_state": 3, "insecure_release_seed": 5}
COSTS = {"false_negative": 4, "false_positive": 1}


def rows(n, seed=0, classes=("no", "yes")):
    rng = np.random.default_rng(seed)
    x, sex = rng.normal(size=n), rng.choice(["f", "m"], size=n)
    y = np.digitize(x + rng.normal(0, 0.5, n), [0.5, -0.5][: len(classes) - 1][::-1])
    return pd.DataFrame({"x": x, "z": rng.normal(size=n), "sex": sex}), pd.Series(np.array(classes)[y])


def tables(n=1500, classes=("no", "yes"), **more):
    X, y = rows(n, classes=classes)
    public, truth = rows(300, 1, classes)
    given = {"groups": {"sex": ("f", "m")}} | more
    return Tables(name="t", classes=list(classes), X_private=X, y_private=y, X_public=public, y_public=truth, **given)


@pytest.fixture(scope="module")
def outcome():
    X_test, y_test = rows(500, 2)
    given = tables(X_test=X_test, y_test=y_test)
    return train(given, LabelMomentsClassifier(**SETTINGS), holdout_score=0.4, costs=COSTS)


def test_a_run_releases_quality_by_group_and_a_threshold(outcome):
    data = outcome.record.data
    score, decision = data["released_score"], data["decision"]
    assert [one["group"] for one in score["groups"]["sex"]] == ["f", "m", "other"]
    assert score["most_common"]["class"] in ("no", "yes")
    (curves,) = score["one_against_rest"]
    assert curves["class"] == data["positive_class"] == decision["positive_class"] == "yes"
    assert decision["formula"] == 0.2
    assert 0.2 in [one["threshold"] for one in curves["thresholds"]]
    assert decision["per_1000"][0]["threshold"] == decision["threshold"]
    # Exact figures on test rows are withheld as the other exact scores are.
    assert "test_quality" in outcome.record.unprotected_data
    exact = data["test_quality"]
    assert exact["sigma"] == 0
    assert exact["accuracy"] == pytest.approx(outcome.record.student["accuracy"])
    # On test rows the area is that of the rows, and a released one is an interval without a value.
    assert exact["auroc"] == pytest.approx(outcome.record.student["auroc"])
    assert exact["auroc_low"] < exact["auroc"] < exact["auroc_high"]
    assert score["auroc"] is None
    assert score["auroc_low"] < outcome.record.student["auroc"] < score["auroc_high"]
    assert len(curves["thresholds"]) >= 3
    assert score["accuracy_low"] - 0.05 < exact["accuracy"] < score["accuracy_high"] + 0.05
    assert json.dumps(outcome.record.to_dict(), allow_nan=False)


def test_the_student_and_its_probabilities_do_not_depend_on_costs(outcome):
    same = train(tables(), LabelMomentsClassifier(**SETTINGS), holdout_score=0.4)
    X, _ = rows(50, 7)
    assert np.array_equal(same.classifier.predict_proba(X), outcome.classifier.predict_proba(X))
    assert "decision" not in same.record.data


@pytest.mark.parametrize(
    ("model", "more"),
    [(LabelMomentsClassifier, {}), (PATEClassifier, {"n_teachers": 30, "max_labels": 100})],
)
def test_the_verifier_confirms_fit_and_quality_together(tmp_path, model, more):
    settings = {name: value for name, value in SETTINGS.items() if name != "insecure_release_seed"}
    run = train(tables(), model(**settings, **more), holdout_score=0.4, certificate=True)
    path = tmp_path / "certificate.json"
    assert [part["kind"] for part in run.certificate["parts"]][-1] == "sums"
    path.write_text(json.dumps(run.certificate))
    yes, sentence = confirmed(path)
    assert yes, sentence
    # Less noise than was charged is not confirmed.
    (charge,) = run.certificate["parts"][-1]["body"]["rounds"]
    charge["sigma"] = repr(float(charge["sigma"]) * 0.9)
    path.write_text(json.dumps(run.certificate))
    assert not confirmed(path)[0]


def test_three_classes_have_decisions_and_each_class_against_the_rest():
    given = tables(3000, classes=("a", "b", "c"))
    run = train(given, LabelMomentsClassifier(**SETTINGS), holdout_score=0.5)
    score = run.record.data["released_score"]
    assert [one["class"] for one in score["classes"]] == ["a", "b", "c"]
    assert [one["class"] for one in score["one_against_rest"]] == ["a", "b", "c"]
    assert set(score["groups"]["sex"][0]["recall"]) == {"a", "b", "c"}


def test_the_other_class_can_be_the_positive_one():
    run = train(tables(), LabelMomentsClassifier(**SETTINGS), holdout_score=0.4, costs=COSTS, positive_class="no")
    assert run.record.data["released_score"]["one_against_rest"][0]["class"] == "no"
    assert run.record.data["decision"]["positive_class"] == "no"
    assert run.record.data["released_score"]["auroc_if_spread_as_public_rows"] > 0.8


def test_costs_without_held_back_units_have_a_threshold_and_no_table():
    run = train(tables(groups=None), LabelMomentsClassifier(**SETTINGS), costs=COSTS)
    assert run.record.data["decision"]["threshold"] == 0.2
    assert run.record.data["decision"]["per_1000"] == []


def test_a_record_of_an_undeclared_group_is_in_the_group_of_all_others():
    given = tables()
    X = given.X_private.assign(sex=np.where(np.arange(1500) % 3 == 0, "x", given.X_private["sex"]))
    _, held = hold_back(replace(given, private_groups=X[["sex"]]), LabelMomentsClassifier(**SETTINGS), 0.2)
    assert np.array_equal(held.groups["sex"] == 2, held.X.index % 3 == 0)


@pytest.mark.parametrize(
    ("changes", "options", "kind", "text"),
    [
        ({}, {"costs": {"false_negative": 0, "false_positive": 1}}, InvalidParameterError, "cost_false_negative=0"),
        ({}, {"costs": {"false_negative": 1}}, InvalidParameterError, "must have false_negative and false_positive"),
        ({}, {"positive_class": "maybe"}, InvalidParameterError, "positive_class='maybe' is not a declared class"),
        ({"groups": {"ward": ("a",)}}, {}, DataError, "groups='ward' is not a column of the private table"),
        (
            {"private_groups": pd.DataFrame({"ward": ["a"] * 1500}), "groups": {"ward": ("a",)}},
            {},
            DataError,
            "groups='ward' is not a column of the test table",
        ),
        (
            dict.fromkeys(["groups"], dict.fromkeys(["sex", "x", "z"], tuple("abcdefghijklmnopqrst"))),
            {},
            BudgetError,
            "declare fewer groups",
        ),
    ],
)
def test_what_cannot_be_served_is_refused_before_anything_is_charged(changes, options, kind, text):
    class Account:
        def one_release(self, what):
            raise AssertionError(what)

    if "private_groups" in changes:
        X_test, y_test = rows(50, 2)
        changes = changes | {"X_test": X_test, "y_test": y_test}
    with pytest.raises(kind, match=text):
        train(tables(**changes), LabelMomentsClassifier(**SETTINGS), holdout_score=0.2, ledger=Account(), **options)


def test_groups_need_held_back_units_or_test_rows_and_costs_need_two_classes():
    with pytest.raises(InvalidParameterError, match="groups require held-back units or test rows"):
        train(tables(), LabelMomentsClassifier(**SETTINGS))
    for options in ({"costs": COSTS}, {"positive_class": "a"}):
        with pytest.raises(InvalidParameterError, match="requires two classes, and there are 3"):
            train(tables(classes=("a", "b", "c"), groups=None), LabelMomentsClassifier(**SETTINGS), **options)


def test_groups_are_read_from_text():
    assert _parse_groups(None) == {}
    assert _parse_groups("sex = f | m , ward") == {"sex": ("f", "m"), "ward": None}
    for bad in ("", "sex,sex", "=f", "sex="):
        with pytest.raises(InvalidParameterError, match="is not a list of columns"):
            _parse_groups(bad)


def test_values_of_groups_come_from_public_rows_unless_they_are_declared():
    public = pd.DataFrame({"sex": ["m", "f", None, "m"], "level": [1.0, 2.0, 2.0, 1.0], "x": np.arange(4) / 7})
    assert _declared_groups({"sex": None, "level": None}, public) == {"sex": ("f", "m"), "level": ("1", "2")}
    assert _declared_groups({"other column": ["a"]}, None) == {"other column": ("a",)}
    many = pd.DataFrame({"x": np.arange(30)})
    for groups, table, text in (
        ({"ward": None}, public, "not a column of the public table"),
        ({"ward": None}, None, "not a column of the public table"),
        ({"x": None}, many, "1 to 20 different values, and has 30"),
        ({"sex": ("1", "1.0")}, public, "different values"),
        ({"sex": ("f", "other")}, public, "group of all other values"),
    ):
        with pytest.raises(InvalidParameterError, match=text):
            _declared_groups(groups, table)


def test_each_entry_is_compared_alone_as_text_or_as_a_number():
    entries = pd.Series(["f", " m ", "M", None, 1, 1.0, "1.00", np.nan, "nan"], dtype=object)
    assert _group_places(entries, ("f", "m", "1")).tolist() == [0, 1, 3, 3, 2, 2, 2, 3, 3]
    for place in range(len(entries)):
        alone = _group_places(entries[place : place + 1], ("f", "m", "1"))
        assert alone.tolist() == [[0, 1, 3, 3, 2, 2, 2, 3, 3][place]]


def test_held_back_records_that_are_all_bad_cost_no_release():
    """A page, a card and lines are made even if noise hides everything."""
    given = tables(groups={"sex": ("f", "m")})
    model = LabelMomentsClassifier(on_bad_record="zero", **SETTINGS)
    _, held = hold_back(given, model, 0.4)
    y = given.y_private.copy()
    y.loc[held.y.index] = "undeclared"
    outcome = train(replace(given, y_private=y), model, holdout_score=0.4, costs=COSTS)
    assert outcome.record.data["released_score"]["accuracy"] is None
    texts = outcome.file_contents()
    assert "unknown" in texts["report.html"][0]
    assert list(quality_lines(outcome.record))
