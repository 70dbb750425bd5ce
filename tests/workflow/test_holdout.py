"""Held-back units teach nothing, and what teaches scores nothing: parallel composition."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB

from dpensemble import LabelMomentsClassifier, PATEClassifier, WeightingPATEClassifier
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.rows.source import BlockSource
from dpensemble.server import Ledger
from dpensemble.workflow import Tables, holdout, train
from dpensemble.workflow.holdout import ASSUMPTIONS, hold_back
from dpensemble.workflow.private_rows import PrivateStream
from dpensemble.workflow.rehearsal import stand_ins

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
    monkeypatch.setattr(holdout, limit, 40)
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
    assert set(ASSUMPTIONS) <= set(record.guarantee["assumptions"])
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
