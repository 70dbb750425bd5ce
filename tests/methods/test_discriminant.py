"""Discriminant analysis from noisy sums: sensitivities by brute force, rows read alone, and what it is for."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpensemble import DiscriminantClassifier, LabelMomentsClassifier, load_classifier, save_classifier
from dpensemble.certificates import certificate_of_fit
from dpensemble.cli import main
from dpensemble.errors import BudgetError, DataError
from dpensemble.moments.discriminant import ClassMeans, ClassProducts, OwnScore, PublicDirections, _exact_product
from dpensemble.moments.whole import UNIT, WHOLE, WholeBlock, bounded_features, partial_sums

N_CLASSES = 3
entries = st.floats(-1e6, 1e6)
records = st.lists(st.tuples(st.tuples(entries, entries), st.integers(0, N_CLASSES - 1)), min_size=1, max_size=4)


def one_unit(query, unit):
    """Return the exact sum of one unit's records, of weight 1 together."""
    rows, targets = np.array([row for row, _ in unit]), np.array([target for _, target in unit])
    features = np.tanh(rows[:, :1]) / 2 + 0.5 if isinstance(query, OwnScore) else bounded_features(rows)
    block = WholeBlock(features, targets, np.full(len(unit), 1 / len(unit)))
    return partial_sums(query, [block]).total.astype(float)


@pytest.mark.parametrize("query", [ClassMeans(N_CLASSES), ClassProducts(N_CLASSES), OwnScore()], ids=repr)
@given(one=records, other=records)
def test_no_unit_moves_a_sum_by_more_than_the_sensitivity(query, one, other):
    first, second = one_unit(query, one), one_unit(query, other)
    assert np.linalg.norm(first - second) <= query.replacing
    assert np.linalg.norm(first) <= query.removing


@pytest.mark.parametrize("query", [ClassMeans(N_CLASSES), ClassProducts(N_CLASSES)], ids=repr)
def test_the_sensitivity_is_not_far_above_what_happens(query):
    far = [one_unit(query, [((1e6, 0.0), label)]) for label in range(2)]
    assert np.linalg.norm(far[0] - far[1]) > 0.999 * query.replacing
    opposite = one_unit(ClassMeans(N_CLASSES), [((1e6, 0.0), 0)]) - one_unit(ClassMeans(N_CLASSES), [((-1e6, 0.0), 0)])
    assert 0.999 * np.sqrt(2) * WHOLE < np.linalg.norm(opposite) <= ClassMeans.replacing


def test_a_row_has_the_same_point_whichever_rows_are_beside_it():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 7)) @ rng.normal(size=(7, 7))
    public = PublicDirections.of(rows[:100])
    together = public.points(rows)
    for place in (0, 17, 499):
        assert np.array_equal(public.points(rows[place : place + 1])[0], together[place])
    assert np.linalg.norm(together, axis=1).max() <= UNIT
    product = _exact_product(rows, rng.normal(size=(7, 3)))
    assert product.shape == (500, 3)


def rings(n, seed):
    """Three classes of one mean and different spreads, which no line separates."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, N_CLASSES, n)
    return rng.normal(size=(n, 4)) * np.array([0.3, 1.0, 3.0])[y][:, None], y


def fitted(**settings):
    X, y = rings(6000, 0)
    model = DiscriminantClassifier(classes=[0, 1, 2], **{"insecure_release_seed": 0} | settings)
    return model.fit(X, y, X_public=rings(600, 1)[0])


@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
def test_curved_boundaries_are_learned_and_probabilities_hold(relation):
    model = fitted(relation=relation)
    X, y = rings(4000, 2)
    chances = model.predict_proba(X)
    assert model.score(X, y) > 0.75
    plain = LabelMomentsClassifier(classes=[0, 1, 2], insecure_release_seed=0)
    plain.fit(*rings(6000, 0), X_public=rings(600, 1)[0])
    log_loss = -np.log(chances[np.arange(len(y)), y]).mean()
    assert log_loss < -np.log(np.maximum(plain.predict_proba(X)[np.arange(len(y)), y], 1e-9)).mean()
    # Confidence is right about as often as it states.
    assert abs(chances.max(axis=1).mean() - (chances.argmax(axis=1) == y).mean()) < 0.05


def test_the_whole_budget_is_charged_before_noise_and_certified():
    model = fitted()
    assert [one.description for one in model.result_.releases] == [
        "the size and the mean of each class",
        "the spread of each class around its mean, and which columns go together there",
        "how far a record's class scores below the best class, on average, to calibrate probabilities",
    ]
    assert sum(1 / one["sigma"] ** 2 for one in model.charges_) == pytest.approx(
        model.design_.meter().mu ** 2, rel=1e-9
    )
    assert 0.999 < model.guarantee_.epsilon <= 1.0
    assert len(certificate_of_fit(model)["parts"][0]["body"]["rounds"]) == 3


def test_a_bad_record_adds_nothing_and_units_share_one_weight():
    X, y = rings(3000, 3)
    public = rings(300, 4)[0]
    units = np.arange(3000) // 3
    X[5], labels = np.inf, y.astype(object)
    model = DiscriminantClassifier(classes=[0, 1, 2], on_bad_record="zero", insecure_release_seed=1)
    model.fit(X, labels, X_public=public, units=units)
    assert model.guarantee_.unit == "unit"
    with pytest.raises(DataError, match="infinity"):
        DiscriminantClassifier(classes=[0, 1, 2]).fit(X, y, X_public=public)


def test_a_delta_above_one_over_the_records_is_refused():
    X, y = rings(100, 0)
    with pytest.raises(BudgetError, match="delta"):
        DiscriminantClassifier(classes=[0, 1, 2], delta=0.1).fit(X, y, X_public=rings(50, 1)[0])


@pytest.mark.parametrize("public", [np.zeros((5, 4)), np.ones((1, 4)), np.full((6, 4), 1e308)], ids=["0", "1", "large"])
def test_public_rows_without_any_spread_do_not_break_a_run(public):
    X, y = rings(500, 0)
    model = DiscriminantClassifier(classes=[0, 1, 2, 9], delta=1e-4, insecure_release_seed=0)
    chances = model.fit(X, y, X_public=public).predict_proba(X)
    assert np.isfinite(chances).all()


def test_a_saved_model_predicts_the_same(tmp_path):
    model = fitted()
    save_classifier(model.student_, tmp_path / "student.skops")
    X = rings(50, 5)[0]
    with pytest.warns(UserWarning, match="not for release|NOT FOR RELEASE|seed"):
        loaded = load_classifier(tmp_path / "student.skops")
    assert np.allclose(loaded.predict_proba(X), model.student_.predict_proba(X), rtol=0, atol=1e-12)


def test_the_command_trains_and_reports(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X, y = rings(3000, 0)
    pd.DataFrame(X, columns=list("abcd")).assign(y=y).to_csv("private.csv", index=False)
    pd.DataFrame(rings(300, 1)[0], columns=list("abcd")).to_csv("public.csv", index=False)
    line = "train discriminant --private private.csv --public public.csv --target y --classes 0,1,2 --out run --quiet"
    assert main(line.split()) == 0
    assert "The report lists them and their noise." in capsys.readouterr().out
    assert "the size and the mean of each class</th><td>5.561<" in Path("run/report.html").read_text(encoding="utf-8")
    assert main(["verify", "run/certificate.json"]) == 0
    assert main(["predict", "run", "public.csv", "--out", "labels.csv"]) == 0


@pytest.mark.parametrize("epsilon", [1e-6, 1.0, 1e5])
@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
def test_nothing_fails_or_warns_after_the_charge(recwarn, epsilon, size):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 30)) * 1e150, rng.integers(0, 2, 60)
    public = rng.normal(size=(7, 30)) * size
    model = DiscriminantClassifier(classes=list(range(20)), epsilon=epsilon, delta=1e-3, insecure_release_seed=0)
    chances = model.fit(X, y, X_public=public).predict_proba(X)
    assert np.isfinite(chances).all()
    assert not recwarn.list
