"""Published students find columns by name, and state whether their run is a release, in memory and from a file."""

import copy
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from dpensemble import (
    AutoClassifier,
    BaggingPrivacyClassifier,
    DiscriminantClassifier,
    EncodedClassifier,
    LabelMomentsClassifier,
    PATEClassifier,
    load_classifier,
    methods,
    save_classifier,
)
from dpensemble.datasets import TablePreparation
from dpensemble.errors import DataError, FileError, InvalidParameterError, NotForReleaseWarning
from dpensemble.moments import DirectionsMap, ImageMap, TableMap
from dpensemble.student import (
    MARK,
    NamedPipeline,
    default_student,
    fit_soft_student,
    fit_student,
    publishable,
    release_mark,
    with_names,
)

from .estimators import PERSONALISED, estimators


@pytest.mark.parametrize("label", [1, 1.0, np.float64(0.5), "yes", True])
def test_labels_that_all_agree_make_a_constant_student(label):
    X = np.arange(6.0).reshape(3, 2)
    student = fit_student(default_student(), X, np.array([label] * 3), seed=0)
    assert student.predict(X).tolist() == [label] * 3


FITTING_RNG = np.random.default_rng(0)
ROWS = FITTING_RNG.normal(size=(400, 3))
CHANCES = 1 / (1 + np.exp(-2 * ROWS[:, 0]))
SOFT = np.stack([1 - CHANCES, CHANCES], axis=1)


def test_averages_outside_of_0_to_1_are_learned_without_bias():
    """Noise of mean 0 on soft labels. The mean of many students is close to the student without noise."""
    clean = fit_soft_student(None, ROWS, SOFT, np.array([0, 1]), 0, spread=0.01)
    found = []
    for seed in range(30):
        noise = np.random.default_rng(seed).normal(scale=0.5, size=400)
        noisy = SOFT + np.stack([-noise, noise], axis=1)
        assert noisy.min() < -0.4
        found.append(
            LogisticRegression(C=clean.C, max_iter=1000)
            .fit(np.repeat(ROWS, 2, axis=0), np.tile([0, 1], 400), sample_weight=noisy.ravel())
            .coef_[0]
        )
    assert np.mean(found, axis=0) == pytest.approx(clean.coef_[0], abs=0.35)


def test_more_noise_takes_a_stronger_penalty():
    found = []
    for spread in (0.01, 0.3, 3.0):
        noise = np.random.default_rng(1).normal(scale=spread, size=400)
        noisy = SOFT + np.stack([-noise, noise], axis=1)
        found.append(fit_soft_student(None, ROWS, noisy, np.array([0, 1]), 0, spread=spread).C)
    assert found[0] > 3 * found[1] > 9 * found[2]


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_penalty_does_about_as_well_as_the_best(n_classes):
    rng = np.random.default_rng(2)
    logits = ROWS @ rng.normal(size=(3, n_classes))
    truth = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    noise = rng.normal(scale=0.5, size=truth.shape)
    noisy = truth + noise - noise.mean(axis=1, keepdims=True)
    classes = np.arange(n_classes)

    def loss(model):
        return -np.mean((truth * model.predict_log_proba(ROWS)).sum(axis=1))

    weighted = {"sample_weight": noisy.ravel()}
    rows, labels = np.repeat(ROWS, n_classes, axis=0), np.tile(classes, 400)
    tried = [LogisticRegression(C=c, max_iter=1000).fit(rows, labels, **weighted) for c in 10.0 ** np.arange(-4, 2)]
    best = min(map(loss, tried))
    assert loss(fit_soft_student(None, ROWS, noisy, classes, 0, spread=0.5)) < best + 0.03


def test_constant_columns_leave_the_weakest_penalty():
    assert fit_soft_student(None, np.ones((9, 2)), SOFT[:9], np.array([0, 1]), 0).C == 10.0


pytestmark = pytest.mark.usefixtures("few_synthetic_rows")

RNG = np.random.default_rng(3)
NAMES = ["age", "dose", "weight"]
TABLE = pd.DataFrame(RNG.normal(size=(900, 3)) * [1.0, 3.0, 10.0] + [0.0, 5.0, -2.0], columns=NAMES)
PRIVATE, PUBLIC = TABLE[:600], TABLE[600:]
Y = np.where(PRIVATE["age"] + 0.1 * PRIVATE["dose"] > 0.5, 1, 0)
MOMENTS = {"classes": [0, 1], "epsilon": 8.0, "delta": 1e-4, "random_state": 0, "insecure_release_seed": 0}
SHARED = {**MOMENTS, "n_teachers": 30}
BUDGETS = np.where(np.arange(600) % 2, 4.0, 8.0)


def encoder():
    return ColumnTransformer([("numbers", StandardScaler(), [0, 1, 2])])


OWN = {
    "bagged-pate": {"subsample": 20},
    "bagging": {"subsample": 60},
    "dpbag": {"n_partitions": 1},
}
MODELS = estimators(MOMENTS, SHARED, OWN) | {
    "auto by votes": AutoClassifier(**MOMENTS | {"relation": "replace-one", "epsilon": 0.5}),
    "encoded by another": EncodedClassifier(PATEClassifier(**SHARED), encoder=encoder()),
    "label-moments of directions": LabelMomentsClassifier(DirectionsMap(TableMap()), **MOMENTS),
    "label-moments of images": LabelMomentsClassifier(ImageMap((1, 3)), **MOMENTS),
    "label-moments by another map": LabelMomentsClassifier(StandardScaler(), **MOMENTS),
    "label-moments with a student": LabelMomentsClassifier(None, DecisionTreeClassifier(max_depth=3), **MOMENTS),
    "pate with a pipeline": PATEClassifier(
        student=Pipeline([("columns", StandardScaler()), ("student", LogisticRegression())]), **SHARED
    ),
}
UNSAVED = {"label-moments by another map"}


def fitted(name, rows=PRIVATE, public=PUBLIC, **settings):
    model = clone(MODELS[name])
    if name.startswith("encoded"):
        model.set_params(**{f"method__{key}": value for key, value in settings.items()})
    else:
        model.set_params(**settings)
    if name == "bagging":
        return model.fit(rows, Y)
    budgets = {"budgets": BUDGETS} if name in PERSONALISED else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(rows, Y, X_public=public, **budgets)


def students(model):
    return model.models_ if isinstance(model, BaggingPrivacyClassifier) else [model.student_]


def from_a_file(student, path):
    """The student as read from a file, and whether it is marked as not for release."""
    save_classifier(student, path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loaded = load_classifier(path)
    return loaded, [one.category for one in caught] == [NotForReleaseWarning]


def test_every_method_is_here():
    made = {type(model).__name__ for model in MODELS.values()}
    assert made == set(methods.__all__)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
def test_columns_are_found_by_name(tmp_path, name):
    model = fitted(name)
    (student, *_) = students(model)
    found = [student] if name in UNSAVED else [student, from_a_file(student, tmp_path / "student.skops")[0]]
    for one in found:
        labels, chances = one.predict(PUBLIC), one.predict_proba(PUBLIC)
        assert len(np.unique(labels)) == 2
        assert np.array_equal(labels, one.predict(PUBLIC.to_numpy()))
        mixed = PUBLIC[["weight", "age", "dose"]]
        assert np.array_equal(one.predict(mixed), labels)
        assert np.array_equal(one.predict_proba(mixed), chances)
        assert one.score(mixed, labels) == 1
        more = PUBLIC.assign(height=1.0, id="7")[["id", *mixed, "height"]]
        assert np.array_equal(one.predict_proba(more), chances)
        with pytest.raises(DataError, match=r"it lacks 'dose'; rename or add columns\.$"):
            one.predict(PUBLIC.drop(columns="dose"))
        with pytest.raises(DataError, match="it lacks 'dose'"):
            one.predict(PUBLIC.rename(columns={"dose": "Dose"}))
        with pytest.raises(DataError, match="names a column twice"):
            one.predict(pd.concat([PUBLIC, PUBLIC[["age"]]], axis=1))
    require_columns_in_order(model)


def require_columns_in_order(model):
    """An estimator refuses columns in another order by a typed error, as scikit-learn asks for, or finds them."""
    labels, mixed = model.predict(PUBLIC), PUBLIC[["weight", "age", "dose"]]
    if isinstance(model, EncodedClassifier):
        assert np.array_equal(model.predict(mixed), labels)
        assert np.array_equal(model.predict_proba(mixed), model.predict_proba(PUBLIC))
    else:
        with pytest.raises(DataError, match="must be in the same order"):
            model.predict(mixed)
    with pytest.raises(DataError, match="dose"):
        model.predict(PUBLIC.drop(columns="dose"))
    with pytest.raises(DataError, match="height"):
        model.predict_proba(PUBLIC.assign(height=1.0))


def test_without_names_rows_are_read_by_position(tmp_path):
    model = fitted("pate", PRIVATE.to_numpy(), PUBLIC.to_numpy())
    assert type(model.student_) is LogisticRegression
    student, _ = from_a_file(model.student_, tmp_path / "student.skops")
    assert type(student) is LogisticRegression


def test_a_tool_for_any_model_may_forget_names_on_a_copy(tmp_path):
    """Some tools copy a model, set its names to None, and give arrays."""
    student = fitted("label-moments").student_
    copied = copy.deepcopy(student)
    copied.feature_names_in_ = None
    np.testing.assert_array_equal(copied.predict_proba(PUBLIC.to_numpy()), student.predict_proba(PUBLIC))
    assert list(copied.feature_names_in_) == NAMES
    with pytest.raises(InvalidParameterError, match="rename the columns"):
        copied.feature_names_in_ = ["a", "b", "c"]


def test_names_are_those_of_the_public_rows_when_private_rows_have_another_order():
    model = fitted("label-moments", PRIVATE[["weight", "dose", "age"]])
    plain = fitted("label-moments")
    assert np.array_equal(model.student_.predict(PUBLIC), plain.student_.predict(PUBLIC))


def test_a_student_of_an_earlier_version_finds_columns_by_name(tmp_path):
    """A file that holds a plain pipeline, as earlier versions wrote it."""
    student = fitted("label-moments").student_
    plain = Pipeline(student.steps)
    for step in (*dict(plain.steps).values(), plain):
        vars(step).pop(MARK, None)
    loaded, warned = from_a_file(plain, tmp_path / "student.skops")
    assert np.array_equal(loaded.predict(PUBLIC[NAMES[::-1]]), student.predict(PUBLIC))
    assert (loaded.for_release_, warned) == (None, False)


def test_columns_that_are_left_out_need_not_be_there():
    rows = PUBLIC.assign(note=[f"text {i}" for i in range(300)])
    preparation = TablePreparation().fit(rows)
    assert preparation.needed_columns == NAMES
    student = with_names(Pipeline([("table", preparation), ("student", LogisticRegression())]))
    assert list(student.in_order(PUBLIC[NAMES[::-1]])) == NAMES
    assert list(student.in_order(rows[["note", *NAMES]])) == [*NAMES, "note"]


def test_texts_for_numbers_are_not_quoted():
    student = publishable(LogisticRegression().fit(PRIVATE.to_numpy(), Y), for_release=True, names=NAMES)
    with pytest.raises(DataError, match="entries that are not numbers") as caught:
        student.predict(PUBLIC.assign(age="secret"))
    assert "secret" not in str(caught.value)


def test_a_named_pipeline_is_a_pipeline():
    student = publishable(LogisticRegression().fit(PRIVATE.to_numpy(), Y), for_release=True, names=NAMES)
    assert list(student.feature_names_in_) == NAMES
    assert student.classes_.tolist() == [0, 1]
    assert np.array_equal(student.decision_function(PUBLIC[NAMES[::-1]]) > 0, student.predict(PUBLIC) == 1)
    assert np.allclose(np.exp(student.predict_log_proba(PUBLIC[NAMES[::-1]])), student.predict_proba(PUBLIC))
    again = clone(student).fit(PRIVATE.to_numpy(), Y)
    assert again.names == NAMES
    assert isinstance(student[:1], NamedPipeline)
    assert not hasattr(NamedPipeline([("scale", StandardScaler())]), "predict_proba")


@pytest.mark.parametrize("name", MODELS)
def test_a_seeded_student_is_marked_and_a_release_is_not(tmp_path, name):
    for seed, stated in ((0, False), (None, True)):
        model = fitted(name, insecure_release_seed=seed)
        assert model.guarantee_.for_release is stated
        for student in students(model):
            assert release_mark(student) is stated
            assert student.for_release_ is stated
            # Neither another pipeline nor a part of this one loses the mark.
            assert release_mark(make_pipeline(OneHotEncoder(), student)) is stated
            if isinstance(student, Pipeline):
                assert release_mark(student[-1]) is stated
            if name not in UNSAVED:
                loaded, warned = from_a_file(student, tmp_path / "student.skops")
                assert (loaded.for_release_, warned) == (stated, not stated)
                # Saved once more, too.
                loaded, warned = from_a_file(loaded, tmp_path / "again.skops")
                assert (loaded.for_release_, warned) == (stated, not stated)


def test_a_student_without_a_mark_states_nothing(tmp_path):
    loaded, warned = from_a_file(LogisticRegression().fit(PRIVATE, Y), tmp_path / "student.skops")
    assert (loaded.for_release_, warned) == (None, False)


@pytest.mark.parametrize(
    ("attribute", "value", "match"),
    [
        (MARK, "yes", "for_release_ is neither true nor false"),
        (MARK, 1, "for_release_ is neither true nor false"),
        ("names", "age", "broken names"),
        ("names", ["age", 1, None], "broken names"),
        ("needed", {"age": 1}, "broken names"),
    ],
)
def test_broken_marks_and_names_are_refused(tmp_path, attribute, value, match):
    student = publishable(LogisticRegression().fit(PRIVATE.to_numpy(), Y), for_release=True, names=NAMES)
    setattr(student, attribute, value)
    with pytest.raises(FileError, match=match):
        save_classifier(student, tmp_path / "student.skops")


def test_rows_by_position_must_have_as_many_columns():
    rng = np.random.default_rng(0)
    X, public = rng.normal(size=(300, 3)), rng.normal(size=(300, 3))
    settings = {"classes": [0, 1], "epsilon": 5.0, "delta": 1e-4, "insecure_release_seed": 0}
    student = LabelMomentsClassifier(**settings).fit(X, (X[:, 0] > 0).astype(int), X_public=public).student_
    assert student.predict(public.tolist()).shape == (300,)
    for wrong in (public[:, :2], np.hstack([public, public])):
        with pytest.raises(DataError, match="columns, but the student was trained on 3"):
            student.predict(wrong)
    with pytest.raises(DataError, match="Expected 2D array, got 1D"):
        student.predict(public[0])


@pytest.mark.parametrize("kind", ["moments", "curved", "discriminant", "logistic", "encoded"])
def test_predictions_are_equal_to_the_bit_for_every_block_size(kind, monkeypatch):
    # With that many public rows there are landmarks.
    many = pd.DataFrame(RNG.normal(size=(1000, 3)) * [1.0, 3.0, 10.0] + [0.0, 5.0, -2.0], columns=NAMES)
    public = many if kind == "curved" else PUBLIC
    estimator = {
        "moments": LabelMomentsClassifier(**MOMENTS),
        "curved": LabelMomentsClassifier(**MOMENTS),
        "discriminant": DiscriminantClassifier(**MOMENTS),
        "logistic": PATEClassifier(**SHARED),
        "encoded": EncodedClassifier(PATEClassifier(**SHARED)),
    }[kind].fit(PRIVATE, Y, X_public=public)
    rows = TABLE[:400]
    methods = [estimator.predict, estimator.predict_proba, estimator.student_.predict, estimator.student_.predict_proba]
    if kind in {"moments", "curved", "discriminant"}:
        methods += [lambda X: estimator.explain(X).contributions]
    whole = [method(rows) for method in methods]
    for method, result in zip(methods, whole, strict=True):
        assert np.array_equal(np.concatenate([method(rows[i : i + 1]) for i in range(9)]), result[:9])
        assert np.array_equal(np.concatenate([method(rows[i : i + 7]) for i in range(0, 70, 7)]), result[:70])
    monkeypatch.setattr("dpensemble._entries._ROWS_AT_ONCE", 128)
    for method, result in zip(methods, whole, strict=True):
        assert np.array_equal(method(rows), result)


def test_all_rows_together_decide_which_entries_are_numbers(monkeypatch):
    monkeypatch.setattr("dpensemble._entries._ROWS_AT_ONCE", 64)
    codes = np.array(["a", "1.50", "1.5"], dtype=object)[np.arange(300) % 3]
    rows = np.column_stack([codes, np.arange(300)]).astype(object)
    public = pd.DataFrame({0: codes, 1: np.arange(300) + 0.5})
    model = LabelMomentsClassifier(**MOMENTS).fit(rows, Y[:300], X_public=public)
    rows[64:, 0] = Decimal("1.50")
    rows[200, 0] = np.nan
    # A whole block of decimals, which would be read as 1.5 in a block of their own.
    texts = rows.copy()
    texts[64:200, 0] = texts[201:, 0] = "1.50"
    for predict in (model.predict_proba, model.student_.predict_proba):
        assert np.array_equal(predict(rows), predict(texts))


def test_an_error_in_a_later_block_names_the_row_among_all(monkeypatch):
    monkeypatch.setattr("dpensemble._entries._ROWS_AT_ONCE", 64)
    model = EncodedClassifier(PATEClassifier(**SHARED)).fit(PRIVATE, Y, X_public=PUBLIC)
    bad = TABLE[:200].astype(object)
    bad.loc[150, "dose"] = "much"
    for rows in (bad, bad.to_numpy()):
        for predict in (model.predict, model.student_.predict_proba):
            with pytest.raises(DataError, match=r"row 150, counting from 0|text in the public table|numbers"):
                predict(rows)


def test_the_accuracy_is_that_of_predictions_in_blocks(monkeypatch):
    monkeypatch.setattr("dpensemble._entries._ROWS_AT_ONCE", 64)
    student = LabelMomentsClassifier(**MOMENTS).fit(PRIVATE, Y, X_public=PUBLIC).student_
    assert student.score(PRIVATE, Y) == np.mean(student.predict(PRIVATE) == Y)
