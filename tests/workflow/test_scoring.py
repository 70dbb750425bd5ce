"""Held-back units teach nothing, and what teaches scores nothing: parallel composition, in one charge.

Released quality in a run: groups, costs, test rows, the certificate, and requests that are refused.
"""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB

from dpensemble import LabelMomentsClassifier, LabelMomentsSurvival, PATEClassifier, WeightingPATEClassifier
from dpensemble._spending import Spending
from dpensemble.certificates import confirmed
from dpensemble.cli.train import _parse_groups
from dpensemble.cost import PrivacyCost
from dpensemble.errors import BudgetError, DataError, InvalidParameterError
from dpensemble.report.quality import quality_lines
from dpensemble.rows.source import BlockSource
from dpensemble.server import Ledger
from dpensemble.workflow import Tables, scoring, train
from dpensemble.workflow.private_rows import PrivateStream
from dpensemble.workflow.rehearsal import stand_ins
from dpensemble.workflow.scoring import _ASSUMPTIONS, QualityRequest, WithScore, hold_back
from dpensemble.workflow.tables import _declared_groups, _group_places
from dpensemble.workflow.targets import DeclaredTimes, TimesTarget

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")

SETTINGS = {"classes": ["no", "yes"], "epsilon": 3.0, "delta": 1e-4, "random_state": 3, "insecure_release_seed": 5}


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    table = pd.DataFrame({"x": x, "z": rng.normal(size=n)})
    return table, pd.Series(np.where(x + rng.normal(0, 0.4, n) > 0, "yes", "no"))


def tables(n=1500, units=None):
    X, y = rows(n)
    public, truth = rows(300, 1)
    return Tables(
        name="t", classes=["no", "yes"], X_private=X, y_private=y, X_public=public, y_public=truth, units=units
    )


@pytest.mark.parametrize("units", [None, np.repeat(np.arange(500), 3)])
def test_every_unit_either_teaches_or_scores(units):
    given = tables(units=units)
    kept, held = hold_back(given, PATEClassifier(**SETTINGS), 0.2)
    assert held.n_units == (300 if units is None else 100)
    assert len(kept.X_private) + len(held.X) == 1500
    together = pd.concat([kept.X_private, held.X])["x"].sort_values().to_numpy()
    assert np.array_equal(together, given.X_private["x"].sort_values().to_numpy())
    if units is not None:
        assert not set(kept.units) & set(units[held.X.index])
        assert np.bincount(held.unit_of).tolist() == [3] * 100


@pytest.mark.parametrize(("units", "limit"), [(None, "_MOST_RECORDS"), (np.arange(1500) // 2, "_MOST_UNITS")])
def test_a_score_needs_no_more_than_the_largest_number_of_units(units, limit, monkeypatch):
    monkeypatch.setattr(scoring, limit, 40)
    kept, held = hold_back(tables(units=units), PATEClassifier(**SETTINGS), 0.5)
    assert held.n_units == 40
    assert len(kept.X_private) == 1500 - len(held.X)


def test_a_record_changes_training_or_the_score_and_never_both():
    model = LabelMomentsClassifier(**SETTINGS)
    given = tables(400)
    _, held = hold_back(given, model, 0.25)
    before = train(given, model, holdout_score=0.25)
    inside, outside = held.X.index[0], next(i for i in range(400) if i not in held.X.index)
    changed = []
    for row in (inside, outside):
        X, y = given.X_private.copy(), given.y_private.copy()
        X.iloc[row], y.iloc[row] = [9.0, -9.0], "no" if y[row] == "yes" else "yes"
        after = train(replace(given, X_private=X, y_private=y), model, holdout_score=0.25)
        public = given.X_public
        changed.append(
            (
                not np.array_equal(after.classifier.predict_proba(public), before.classifier.predict_proba(public)),
                after.record.data["released_score"] != before.record.data["released_score"],
            )
        )
    # A changed student is scored again, on rows that are the same.
    assert changed[0] == (False, True)
    assert changed[1][0]


@pytest.mark.parametrize("model", [LabelMomentsClassifier(**SETTINGS), PATEClassifier(n_teachers=30, **SETTINGS)])
def test_the_score_is_close_and_the_guarantee_covers_it(model):
    given = replace(tables(3000, units=np.arange(3000) // 2), public_units=[f"p{i}" for i in range(300)])
    record = train(given, model, holdout_score=0.3).record
    score = record.data["released_score"]
    assert score["units"] == record.data["held_back"] == 450
    assert score["epsilon"] <= record.guarantee["epsilon"] <= 3.0
    assert score["delta"] == record.guarantee["delta"]
    assert set(_ASSUMPTIONS) <= set(record.guarantee["assumptions"])
    assert score["accuracy_low"] - 0.03 < record.data["public_truth"]["student"] < score["accuracy_high"] + 0.03
    assert score["auroc"] is None
    assert score["auroc_low"] < score["auroc_if_spread_as_public_rows"] < score["auroc_high"]
    assert score["auroc_if_spread_as_public_rows"] > 0.9


def test_a_blank_that_the_student_does_not_take_scores_nothing_and_stops_nothing():
    given = tables(400)
    _, held = hold_back(given, LabelMomentsClassifier(**SETTINGS), 0.25)
    model = LabelMomentsClassifier(student=GaussianNB(), on_bad_record="zero", **SETTINGS)
    X = given.X_private.copy()
    X.loc[held.X.index[:60], "x"] = np.nan
    scores = [train(replace(given, X_private=one), model, holdout_score=0.25) for one in (given.X_private, X)]
    # Of 100 held-back records 40 are left, of which as many are right.
    whole, blank = (np.sum(one.record.data["released_score"]["histograms"][0]["cells"]) for one in scores)
    assert blank < 0.6 * whole
    accuracies = [one.record.data["released_score"]["accuracy"] for one in scores]
    assert accuracies[0] == pytest.approx(accuracies[1], abs=0.15)
    assert scores[0].labels.equals(scores[1].labels)


def test_a_rehearsal_without_public_rows_has_no_blanks_that_the_student_does_not_take():
    given = tables(400)
    given = replace(given, X_public=given.X_public[:0], y_public=None, declared_columns={"x": [-3, 3], "z": [-3, 3]})
    taking, refusing = LabelMomentsClassifier(**SETTINGS), LabelMomentsClassifier(student=GaussianNB(), **SETTINGS)
    assert stand_ins(given, taking).X_private.isna().to_numpy().any()
    assert not stand_ins(given, refusing).X_private.isna().to_numpy().any()


@pytest.mark.parametrize(
    ("model", "changes", "share", "text"),
    [
        (PATEClassifier(**SETTINGS), {}, 0.6, "holdout_score=0.6 is not a number from 0 to 0.5"),
        (PATEClassifier(**SETTINGS), {}, 0.001, "would hold back 1, which is too few"),
        (PATEClassifier(relation="add-or-remove-one", **SETTINGS), {}, 0.2, "requires relation='replace-one'"),
        (PATEClassifier(analysis="until-spent", **SETTINGS), {}, 0.2, "requires analysis='worst-case'"),
        (
            WeightingPATEClassifier(classes=["no", "yes"]),
            {"budgets": np.full(1500, 1.0)},
            0.2,
            "cannot be used when records have their own budgets",
        ),
        (
            LabelMomentsClassifier(**SETTINGS),
            {"stream": PrivateStream(1500, None, BlockSource(lambda: iter(())))},
            0.2,
            "requires records with fixed places, which a database",
        ),
    ],
)
def test_what_is_not_proved_is_refused(model, changes, share, text):
    with pytest.raises(InvalidParameterError, match=text):
        hold_back(replace(tables(), **changes), model, share)


def test_a_fit_and_its_score_are_one_release_in_a_ledger(tmp_path, monkeypatch):
    monkeypatch.setenv("DPENSEMBLE_STATE", str(tmp_path / "state"))
    ledger = Ledger.create(tmp_path / "ledger.db")
    model = LabelMomentsClassifier(**SETTINGS | {"epsilon": 1.0, "delta": 1e-5})
    spent = []
    for name, share in (("alone", None), ("scored", 0.25)):
        account = ledger.open_account(name, epsilon=1.5, delta=1e-5)
        train(tables(400), model, holdout_score=share, ledger=account)
        spent.append(account.state().spent)
        # What a second one would take is not left, and then neither is made.
        with pytest.raises(BudgetError, match="nothing was charged"):
            train(tables(400), model, holdout_score=share, ledger=account)
    # A unit teaches or scores, so the larger of both is paid, and a score costs what noisy sums cost.
    assert spent[0] == spent[1]
    assert [one.what for one in account.history()] == ["LabelMomentsClassifier and its score"]


LOGISTIC = {"epsilon": 3.0, "delta": 1e-4, "random_state": 3, "insecure_release_seed": 5}
COSTS = {"false_negative": 4, "false_positive": 1}


def grouped_rows(n, seed=0, classes=("no", "yes")):
    rng = np.random.default_rng(seed)
    x, sex = rng.normal(size=n), rng.choice(["f", "m"], size=n)
    y = np.digitize(x + rng.normal(0, 0.5, n), [0.5, -0.5][: len(classes) - 1][::-1])
    return pd.DataFrame({"x": x, "z": rng.normal(size=n), "sex": sex}), pd.Series(np.array(classes)[y])


def grouped_tables(n=1500, classes=("no", "yes"), **more):
    X, y = grouped_rows(n, classes=classes)
    public, truth = grouped_rows(300, 1, classes)
    given = {"groups": {"sex": ("f", "m")}} | more
    return Tables(name="t", classes=list(classes), X_private=X, y_private=y, X_public=public, y_public=truth, **given)


@pytest.fixture(scope="module")
def outcome():
    X_test, y_test = grouped_rows(500, 2)
    given = grouped_tables(X_test=X_test, y_test=y_test)
    return train(given, LabelMomentsClassifier(**LOGISTIC), holdout_score=0.4, costs=COSTS)


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
    same = train(grouped_tables(), LabelMomentsClassifier(**LOGISTIC), holdout_score=0.4)
    X, _ = grouped_rows(50, 7)
    assert np.array_equal(same.classifier.predict_proba(X), outcome.classifier.predict_proba(X))
    assert "decision" not in same.record.data


@pytest.mark.parametrize(
    ("model", "more"),
    [(LabelMomentsClassifier, {}), (PATEClassifier, {"n_teachers": 30, "max_labels": 100})],
)
def test_the_verifier_confirms_fit_and_quality_together(tmp_path, model, more):
    settings = {name: value for name, value in LOGISTIC.items() if name != "insecure_release_seed"}
    run = train(grouped_tables(), model(**settings, **more), holdout_score=0.4, certificate=True)
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
    given = grouped_tables(3000, classes=("a", "b", "c"))
    run = train(given, LabelMomentsClassifier(**LOGISTIC), holdout_score=0.5)
    score = run.record.data["released_score"]
    assert [one["class"] for one in score["classes"]] == ["a", "b", "c"]
    assert [one["class"] for one in score["one_against_rest"]] == ["a", "b", "c"]
    assert set(score["groups"]["sex"][0]["recall"]) == {"a", "b", "c"}


def test_the_other_class_can_be_the_positive_one():
    run = train(
        grouped_tables(), LabelMomentsClassifier(**LOGISTIC), holdout_score=0.4, costs=COSTS, positive_class="no"
    )
    assert run.record.data["released_score"]["one_against_rest"][0]["class"] == "no"
    assert run.record.data["decision"]["positive_class"] == "no"
    assert run.record.data["released_score"]["auroc_if_spread_as_public_rows"] > 0.8


def test_costs_without_held_back_units_have_a_threshold_and_no_table():
    run = train(grouped_tables(groups=None), LabelMomentsClassifier(**LOGISTIC), costs=COSTS)
    assert run.record.data["decision"]["threshold"] == 0.2
    assert run.record.data["decision"]["per_1000"] == []


def test_a_record_of_an_undeclared_group_is_in_the_group_of_all_others():
    given = grouped_tables()
    X = given.X_private.assign(sex=np.where(np.arange(1500) % 3 == 0, "x", given.X_private["sex"]))
    _, held = hold_back(replace(given, private_groups=X[["sex"]]), LabelMomentsClassifier(**LOGISTIC), 0.2)
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
        X_test, y_test = grouped_rows(50, 2)
        changes = changes | {"X_test": X_test, "y_test": y_test}
    with pytest.raises(kind, match=text):
        train(
            grouped_tables(**changes),
            LabelMomentsClassifier(**LOGISTIC),
            holdout_score=0.2,
            ledger=Account(),
            **options,
        )


def test_groups_need_held_back_units_or_test_rows_and_costs_need_two_classes():
    with pytest.raises(InvalidParameterError, match="groups require held-back units or test rows"):
        train(grouped_tables(), LabelMomentsClassifier(**LOGISTIC))
    for options in ({"costs": COSTS}, {"positive_class": "a"}):
        with pytest.raises(InvalidParameterError, match="requires two classes, and there are 3"):
            train(grouped_tables(classes=("a", "b", "c"), groups=None), LabelMomentsClassifier(**LOGISTIC), **options)


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
    given = grouped_tables(groups={"sex": ("f", "m")})
    model = LabelMomentsClassifier(on_bad_record="zero", **LOGISTIC)
    _, held = hold_back(given, model, 0.4)
    y = given.y_private.copy()
    y.loc[held.y.index] = "undeclared"
    outcome = train(replace(given, y_private=y), model, holdout_score=0.4, costs=COSTS)
    assert outcome.record.data["released_score"]["accuracy"] is None
    texts = outcome.file_contents()
    assert "unknown" in texts["report.html"][0]
    assert list(quality_lines(outcome.record))


def test_a_score_costs_its_own_price_where_the_fit_costs_less(tmp_path, monkeypatch):
    monkeypatch.setenv("DPENSEMBLE_STATE", str(tmp_path / "state"))
    account = Ledger.create(tmp_path / "ledger.db").open_account("t", epsilon=3, delta=1e-5)
    paid = WithScore(account)
    free = PrivacyCost.zero()
    paid.one_release("a fit")([Spending(name="everyone", epsilon=1.0, delta=1e-5, find_cost=lambda: free)])
    assert account.state().spent.loss > 200_000
    paid.require_paid(1.0, 1e-5)
    for epsilon, delta in ((1.001, 1e-5), (1.0, 1.1e-5)):
        with pytest.raises(BudgetError, match="in parts"):
            paid.require_paid(epsilon, delta)


BINS = [100.0, 200.0, 400.0, 800.0]
OF_TIMES = {"bins": BINS, "epsilon": 5.0, "delta": 1e-4, "insecure_release_seed": 5}


def tables_of_times(n=1500, units=None):
    rng = np.random.default_rng(4)
    X, public = rows(n)[0], rows(100, 1)[0]
    died, left = rng.exponential(400 * np.exp(-X["x"])), rng.uniform(100, 900, n)
    declared = DeclaredTimes(time="days", event="status", events=["1"], censored=["0"], bins=BINS, at=[400.0, 800.0])
    y = pd.DataFrame({"event": (died <= left).astype(float), "time": np.minimum(died, left)})
    target = TimesTarget(declared)
    return Tables(name="t", classes=[], X_private=X, y_private=y, X_public=public, units=units, times=target)


def held_of_times(given, monkeypatch, share=0.3):
    monkeypatch.setattr(scoring, "public_entropy", lambda _: 7)
    return hold_back(given, LabelMomentsSurvival(**OF_TIMES), share)


@pytest.mark.parametrize("shuffled", [False, True])
def test_of_each_unit_with_times_its_first_event_or_last_time_counts(monkeypatch, shuffled):
    units = np.repeat(np.arange(500), 3)
    if shuffled:
        units = np.random.default_rng(0).permutation(units)
    given = tables_of_times(units=units)
    kept, held = held_of_times(given, monkeypatch)
    assert len(held.X) == len(held.cells) == held.layout.n_units == 150
    assert len(kept.X_private) == len(kept.y_private) == 1050
    owner = dict(zip(given.X_private["x"], units, strict=True))
    people = [owner[x] for x in held.X["x"]]
    assert not set(people) & set(kept.units)
    assert len(set(people)) == 150
    for person, x, cell in zip(people, held.X["x"], held.cells, strict=True):
        own = given.y_private[units == person]
        happened = own[own["event"] == 1]
        chosen = happened["time"].idxmin() if len(happened) else own["time"].idxmax()
        assert given.X_private["x"][chosen] == x
        time, n = own["time"][chosen], len(held.layout.ends)
        is_event = bool(len(happened)) and time <= held.layout.ends[-1]
        place = int(np.searchsorted(held.layout.ends, time, side="left" if is_event else "right"))
        assert cell == (place if is_event else n + place)


def test_a_record_with_times_changes_training_or_the_score_and_never_both(monkeypatch):
    given, model = tables_of_times(600), LabelMomentsSurvival(**OF_TIMES)
    _, held = held_of_times(given, monkeypatch)
    inside = int(np.flatnonzero(given.X_private["x"].isin(held.X["x"]))[3])
    outside = int(np.flatnonzero(~given.X_private["x"].isin(held.X["x"]))[3])

    def outcome(tables):
        made = train(tables, model, holdout_score=0.3)
        return made.classifier.predict_risk(given.X_public, BINS).tolist(), made.record.data["risk"]["score"]

    before, changed = outcome(given), []
    for row in (inside, outside):
        X, y = given.X_private.copy(), given.y_private.copy()
        X.iloc[row], y.iloc[row] = [9.0, -9.0], [1.0, 1.0]
        after = outcome(replace(given, X_private=X, y_private=y))
        changed.append(tuple(one != other for one, other in zip(after, before, strict=True)))
    assert changed[0] == (False, True)
    assert changed[1][0]
    cells = np.array(before[1]["cells"])
    # Only one cell of each of two vectors differs.
    X, y = given.X_private.copy(), given.y_private.copy()
    y.iloc[inside] = [np.nan, np.inf]
    bad = np.array(outcome(replace(given, X_private=X, y_private=y))[1]["cells"])
    X.iloc[inside] = [np.inf, 0.0]
    assert np.array_equal(bad, outcome(replace(given, X_private=X, y_private=y))[1]["cells"])
    assert np.sort((cells - bad).ravel()).round(9).tolist() == [0.0] * (cells.size - 1) + [1.0]


@pytest.mark.parametrize(
    ("changes", "asked", "text"),
    [
        ({}, {"share": 0.3, "costs": COSTS}, "costs is about labels"),
        ({}, {"positive_class": "1"}, "positive_class is about labels"),
        ({"groups": {"x": ("1",)}}, {"share": 0.3}, "groups is about labels"),
        ({"times": None}, {"share": 0.3}, "holdout_score is about labels"),
    ],
)
def test_scores_of_times_have_neither_costs_nor_groups(changes, asked, text):
    given = {"share": None, "costs": None, "positive_class": None} | asked
    with pytest.raises(InvalidParameterError, match=text):
        QualityRequest.of(**given).check(replace(tables_of_times(), **changes))
