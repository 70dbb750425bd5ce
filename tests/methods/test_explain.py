"""`explain` of every method: contributions that add up, also after saving, and a refusal of the other methods."""

import copy
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from dpensemble import (
    AutoClassifier,
    DiscriminantClassifier,
    LabelMomentsClassifier,
    LabelMomentsRegressor,
    LabelMomentsSurvival,
    SoftVotesClassifier,
    SubsampleAggregateClassifier,
)
from dpensemble.errors import FileError, InvalidParameterError
from dpensemble.methods.encoded import EncodedClassifier
from dpensemble.moments import DirectionsMap, TableMap
from dpensemble.moments.maps.curved import CurvedMap
from dpensemble.persistence import load_classifier, save_classifier

# Made-up private rows differ from public ones, and seeded runs are no releases.
pytestmark = [
    pytest.mark.usefixtures("few_synthetic_rows"),
    pytest.mark.filterwarnings("ignore:public rows do not look:UserWarning"),
    pytest.mark.filterwarnings("ignore::dpensemble.errors.NotForReleaseWarning"),
]


def table(n, seed):
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, rng.integers(20, 90, n)),
            "ward": rng.choice(np.array(["a", "b", "c"], dtype=object), n),
            "dose": rng.normal(size=n),
        }
    )
    score = (rows["age"].fillna(50) - 55) / 10 + rows["dose"] + (rows["ward"] == "a")
    return rows, (score + rng.normal(size=n) > 0).astype(int).to_numpy(), score.to_numpy()


def numbers(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] ** 2 + X[:, 1] > 0.7).astype(int)


SETTINGS = {"epsilon": 5.0, "delta": 1e-4, "insecure_release_seed": 0}
CURVED = CurvedMap(DirectionsMap(TableMap(knots=(2, 3)), n_directions=10), n_landmarks=20)


@cache
def fitted(name):
    """A fitted method and rows to explain."""
    rows, y, score = table(900, 0)
    X, target = numbers(2000, 0)
    directions, discriminant = (
        DirectionsMap(TableMap(), n_directions=20),
        DiscriminantClassifier(classes=[0, 1], **SETTINGS),
    )
    if name in ("curved", "discriminant"):
        model = LabelMomentsClassifier(CURVED, classes=[0, 1], **SETTINGS) if name == "curved" else discriminant
        return model.fit(X[:1000], target[:1000], X_public=X[1000:]), X[:50]
    if name == "encoded":
        filled = rows.fillna({"age": 50.0}).assign(seen=np.where(np.arange(900) % 2, "2024-03-01", "2025-04-02"))
        return EncodedClassifier(discriminant).fit(filled[:600], y[:600], X_public=filled[600:]), filled[:50]
    if name == "three classes":
        y = y + (score > 1.5)
    model = {
        "two classes": LabelMomentsClassifier(TableMap(), classes=[0, 1], **SETTINGS),
        "three classes": LabelMomentsClassifier(classes=[0, 1, 2], **SETTINGS),
        "directions": LabelMomentsClassifier(directions, classes=[0, 1], **SETTINGS),
        "auto": AutoClassifier(classes=[0, 1], **SETTINGS),
    }[name]
    return model.fit(rows, y, X_public=table(250, 1)[0]), rows[:50]


NAMES = ("two classes", "three classes", "directions", "curved", "auto", "discriminant", "encoded")


def probabilities(found):
    """Probabilities by the logits of an explanation. Those of a model are whole multiples of 2**-24."""
    logits = found.logits
    return softmax(np.hstack([np.zeros_like(logits), logits]) if logits.shape[1] == 1 else logits, axis=1)


@pytest.mark.parametrize("name", NAMES)
def test_contributions_add_up_to_what_the_model_predicts(name, tmp_path):
    model, rows = fitted(name)
    found = model.explain(rows)
    np.testing.assert_allclose(found.base + found.contributions.sum(axis=1), found.logits, atol=1e-12)
    np.testing.assert_allclose(probabilities(found), model.predict_proba(rows), atol=1e-6)
    assert found.predicted.tolist() == model.predict(rows).tolist()
    if isinstance(rows, pd.DataFrame):
        # A column of dates or categories has one contribution, whatever is made of it.
        assert found.columns == list(rows)
    save_classifier(model.student_, tmp_path / "student.skops")
    loaded = load_classifier(tmp_path / "student.skops")
    again = loaded.explain(rows)
    np.testing.assert_array_equal(again.contributions, found.contributions)
    assert again.of_row(3) == found.of_row(3)
    assert again.waterfall(3) == found.waterfall(3)
    if name not in ("discriminant", "encoded"):
        assert loaded.effects_ == model.effects_ != []
        assert found.deviations.shape == found.contributions.shape
        assert found.deviations.min() >= 0 < found.deviations.max()
        assert model.explain(rows, bands=False).deviations is None


def test_attributions_name_what_is_approximate():
    found = {name: fitted(name)[0] for name in ("two classes", "directions", "curved", "discriminant")}
    rows = {name: table(3, 5)[0] if name in ("two classes", "directions") else numbers(3, 5)[0] for name in found}
    assert {name: model.explain(rows[name]).attribution for name, model in found.items()} == {
        "two classes": "exact",
        "directions": "exact sum, scaled by the length of the row",
        "curved": "approximate attribution, exact sum",
        "discriminant": "approximate attribution, exact sum",
    }
    assert {one["approximation"] for one in found["curved"].effects_} == {"partial dependence"}
    assert all("approximation" not in one for one in found["directions"].effects_)


def test_the_reference_is_that_of_public_rows_alone():
    """Other private rows change the coefficients, but nothing that contributions are relative to."""
    public = table(250, 1)[0]
    models = []
    for seed in (0, 7):
        rows, y, _ = table(900, seed)
        model = LabelMomentsClassifier(TableMap(), classes=[0, 1], **SETTINGS).fit(rows, y, X_public=public)
        models.append(model.student_.named_steps["student"])
    np.testing.assert_array_equal(models[0].reference_, models[1].reference_)
    expected = TableMap().fit(public).transform(public).mean(axis=0)
    np.testing.assert_allclose(models[0].reference_, np.asarray(expected).ravel())
    assert models[0].reference_rows_ == "public rows"


@pytest.mark.slow
def test_synthetic_rows_are_named_as_the_reference():
    rows, y, _ = table(900, 0)
    columns = {"age": (20, 90), "ward": ["a", "b", "c"], "dose": (-3, 3)}
    model = LabelMomentsClassifier(classes=[0, 1], declared_columns=columns, **SETTINGS).fit(rows, y)
    found = model.explain(rows[:20])
    assert found.reference == "the mean of the synthetic rows, which were drawn from released sums"
    assert found.attribution == "exact"
    np.testing.assert_allclose(probabilities(found), model.predict_proba(rows[:20]), atol=1e-6)


@cache
def fitted_number(kind, seed=0):
    """A model of a number, on its own scale or on a logarithm, and rows to explain."""
    rows, _, score = table(3400, 0)
    noise = np.random.default_rng(1).normal(size=len(rows))
    number = 500 + 30 * score + 20 * noise if kind == "mean" else np.exp(5 + 0.3 * score + 0.2 * noise)
    model = LabelMomentsRegressor(0, 1_000 if kind == "mean" else 50_000, **SETTINGS | {"insecure_release_seed": seed})
    return model.fit(rows[:3000], number[:3000], X_public=rows[3000:]), rows[:60]


@pytest.mark.parametrize("kind", ["mean", "logarithm"])
def test_contributions_add_up_to_a_number(kind, tmp_path):
    """On a logarithm they add up to that of a typical number, which is about the median."""
    model, rows = fitted_number(kind)
    found = model.explain(rows)
    assert (found.output, found.classes, found.contributions.shape) == (kind, ["number"], (60, 3, 1))
    np.testing.assert_allclose(found.predicted, model.predict(rows), rtol=1e-12)
    student = model.student_.named_steps["student"]
    number = found.logits[:, 0] if kind == "mean" else np.exp(found.logits[:, 0]) - student.shift_
    wanted = model.predict(rows) if kind == "mean" else model.predict_median(rows)
    np.testing.assert_allclose(number, wanted, rtol=1e-9 if kind == "mean" else 0.2)
    assert {part.column for part in found.parts(0)} == {"age", "ward", "dose"}
    assert found.deviations.max() > 0
    row = found.of_row(2)
    assert (row[kind], "class" in row, "logit" in row) == (pytest.approx(found.logits[2, 0]), False, False)
    assert str(found).startswith(f"Row 0 of 60: the explained {kind} is ")
    assert "What makes the number larger and smaller" in found.waterfall(0)
    save_classifier(model.student_, tmp_path / "student.skops")
    loaded = load_classifier(tmp_path / "student.skops")
    np.testing.assert_array_equal(loaded.explain(rows).contributions, found.contributions)


def test_the_hazard_of_an_event_is_divided_among_columns(tmp_path):
    rows, _, score = table(1400, 0)
    rng = np.random.default_rng(0)
    died, left = rng.exponential(np.exp(-score)), rng.uniform(0.2, 2, 1400)
    y = np.rec.fromarrays([died <= left, np.minimum(died, left)], names="event,time")
    model = LabelMomentsSurvival([0.25, 0.5, 1.0], **SETTINGS).fit(rows[:1000], y[:1000], X_public=rows[1000:])
    found = model.explain(rows[:50])
    assert (found.output, found.classes, found.contributions.shape) == ("log hazard", ["event"], (50, 3, 1))
    np.testing.assert_allclose(found.base + found.contributions.sum(axis=1), found.logits, atol=1e-12)
    hazards = np.log(model.predict_cumulative_hazard_function(rows[:50], return_array=True)[:, -1])
    np.testing.assert_allclose(found.logits[:, 0] - hazards, (found.logits[:, 0] - hazards).mean(), atol=1e-4)
    assert (found.deviations > 0).all()
    assert np.corrcoef(found.contributions[:, found.columns.index("dose"), 0], rows["dose"][:50])[0, 1] > 0.9
    save_classifier(model.student_, tmp_path / "s.skops")
    again = load_classifier(tmp_path / "s.skops").explain(rows[:50])
    np.testing.assert_array_equal(again.contributions, found.contributions)
    effects = {one["column"]: dict(one["points"]) for one in model.effects_}
    assert effects["ward"]["a"][0] > max(effects["ward"][name][0] for name in "bc")


def test_effects_of_a_number_are_in_its_units():
    """A deviation of the dose adds 30, and ward a adds 30 to what b and c have."""
    effects = {one["column"]: dict(one["points"]) for one in fitted_number("mean")[0].effects_}
    assert effects["ward"]["a"][0] - effects["ward"]["b"][0] == pytest.approx(30, abs=6)
    doses = sorted(effects["dose"])
    middle = [dose for dose in doses if abs(dose) < 1.2]
    slope = np.polyfit(middle, [effects["dose"][dose][0] for dose in middle], 1)[0]
    assert slope == pytest.approx(30, abs=6)


def test_bands_of_a_number_are_about_as_wide_as_noise_moves_contributions():
    """Twelve draws: a deviation is wrong by a factor of 2 with a chance of .002 for each of two columns (chi2)."""
    found = [fitted_number("mean", seed)[0].explain(fitted_number("mean")[1].iloc[:40]) for seed in range(12)]
    moved = np.std([one.contributions[..., 0] for one in found], axis=0, ddof=1)
    stated = np.mean([one.deviations[..., 0] for one in found], axis=0)
    for column in (1, 2):
        ratio = np.sqrt(np.mean(moved[:, column] ** 2) / np.mean(stated[:, column] ** 2))
        # Bands hold the sample of people too, which is the same in all draws.
        assert 0.3 < ratio < 1.5


def test_columns_are_found_by_name():
    model, rows = fitted("two classes")
    found, other = model.explain(rows), model.student_.explain(rows[["dose", "age", "ward"]])
    np.testing.assert_array_equal(found.contributions, other.contributions)


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (SubsampleAggregateClassifier(n_teachers=20, classes=[0, 1], epsilon=5, delta=1e-4), "LogisticRegression"),
        (SoftVotesClassifier(n_teachers=20, classes=[0, 1], epsilon=5, delta=1e-4), "LogisticRegression"),
        (LabelMomentsClassifier(student=LogisticRegression(), classes=[0, 1], **SETTINGS), "LogisticRegression"),
    ],
)
def test_other_students_are_refused(model, kind):
    X, y = numbers(800, 0)
    model.fit(X[:500], y[:500], X_public=X[500:])
    message = rf"^explain cannot divide the predictions of a {kind} among columns: use LabelMomentsClassifier .*\.$"
    with pytest.raises(InvalidParameterError, match=message) as caught:
        model.explain(X[:5])
    assert caught.value.parameter == "explain"


def test_maps_and_encoders_of_others_are_refused():
    X, y = numbers(800, 0)
    model = LabelMomentsClassifier(StandardScaler(), classes=[0, 1], **SETTINGS)
    model.fit(X[:500], y[:500], X_public=X[500:])
    with pytest.raises(InvalidParameterError, match="explain cannot divide the features of BoundedMap"):
        model.explain(X[:5])
    assert model.effects_ == []
    method = DiscriminantClassifier(classes=[0, 1], **SETTINGS)
    encoded = EncodedClassifier(method, encoder=StandardScaler(), in_batches=True)
    rows = pd.DataFrame(X, columns=["a", "b", "c"])
    encoded.fit(rows[:500], y[:500], X_public=rows[500:])
    with pytest.raises(InvalidParameterError, match="cannot trace what an encoder of your own makes of columns"):
        encoded.explain(rows[:5])


def test_a_file_with_other_types_is_still_refused(tmp_path):
    student = copy.deepcopy(fitted("two classes")[0].student_)
    student.named_steps["student"].uncertainty_ = {"basis": print}
    with pytest.raises(FileError, match="it holds a function"):
        save_classifier(student, tmp_path / "student.skops")
