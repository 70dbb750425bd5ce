"""Any method behind an encoder that learns from public rows only."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.decomposition import TruncatedSVD
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from dpensemble import EncodedClassifier, PATEClassifier, SubsampleAggregateClassifier, load_classifier, save_classifier
from dpensemble.errors import DataError, InvalidParameterError, NotForReleaseWarning


def rows_of(n, seed=0):
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame({"ward": rng.choice(["A", "B", "C"], n), "age": rng.normal(size=n)})
    return rows, np.where((rows["ward"] == "A") | (rows["age"] > 1), "ill", "well")


ROWS, Y = rows_of(1500)
SEEDS = {"random_state": 0, "insecure_release_seed": 0}
METHOD = SubsampleAggregateClassifier(n_teachers=30, classes=["ill", "well"], epsilon=3, delta=1e-4, **SEEDS)


def fitted(model, rows=ROWS, **more):
    return model.fit(rows[:1000], Y[:1000], X_public=rows[1000:], **more)


def test_an_encoder_that_works_in_place_leaves_all_rows_as_they_are():
    rows = np.random.default_rng(0).normal(50, 9, size=(700, 3))
    private, public, y = rows[:600].copy(), rows[600:].copy(), np.where(rows[:600, 0] > 50, "ill", "well")
    answers = []
    for copy in (True, False):
        found = EncodedClassifier(METHOD, encoder=StandardScaler(copy=copy)).fit(private, y, X_public=public)
        answers.append(found.predict_proba(public))
    np.testing.assert_array_equal(*answers)
    np.testing.assert_array_equal(np.vstack([private, public]), rows)


def test_texts_are_learned_and_the_student_can_be_published(tmp_path):
    model = fitted(EncodedClassifier(METHOD), units=np.arange(1000) // 2)
    assert model.score(ROWS, Y) > 0.8
    assert model.predict_proba(ROWS[:3]).shape == (3, 2)
    assert model.guarantee_.unit == "unit"
    assert "transforms each row independently of the others" in model.guarantee_.assumptions[-1]
    save_classifier(model.student_, tmp_path / "student.skops")
    with pytest.warns(NotForReleaseWarning):
        student = load_classifier(tmp_path / "student.skops")
    assert np.array_equal(student.predict(ROWS), model.predict(ROWS))


def test_an_encoder_of_ones_own_sees_public_rows_only():
    encoder = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["ward"]), (StandardScaler(), ["age"]))
    teacher = make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=3))
    model = fitted(EncodedClassifier(METHOD.set_params(teacher=teacher), encoder=encoder))
    METHOD.set_params(teacher=None)
    scaler = model.encoder_.named_transformers_["standardscaler"]
    assert scaler.mean_[0] == pytest.approx(ROWS["age"][1000:].mean())
    assert model.score(ROWS, Y) > 0.75


def test_blanks_are_filled_in_from_public_rows():
    rows = ROWS.mask(np.random.default_rng(1).random(ROWS.shape) < 0.1)
    with pytest.raises(DataError, match="NaN"):
        fitted(EncodedClassifier(METHOD), rows)
    assert fitted(EncodedClassifier(METHOD, fill="median"), rows).score(rows, Y) > 0.7


def test_sparse_rows_are_refused_with_what_to_do_and_taken_behind_an_encoder():
    X = sparse.csr_matrix(np.random.default_rng(0).poisson(0.3, size=(900, 60)))
    y = (X[:, 0].toarray().ravel() > 0).astype(int)
    method = PATEClassifier(n_teachers=20, classes=[0, 1], epsilon=3, delta=1e-4, **SEEDS)
    with pytest.raises(DataError, match=r"sparse matrix.*EncodedClassifier\(method, encoder=TruncatedSVD\(100\)\)"):
        method.fit(X[:600], y[:600], X_public=X[600:])
    model = EncodedClassifier(method, encoder=TruncatedSVD(10, random_state=0)).fit(X[:600], y[:600], X_public=X[600:])
    assert model.predict(X[600:]).shape == (300,)


class Ranks(TransformerMixin, BaseEstimator):
    """What it makes of a row depends on the others."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.asarray(pd.DataFrame(X).rank(), dtype=float)


class Strict(TransformerMixin, BaseEstimator):
    """Quotes an entry that public rows do not have."""

    def fit(self, X, y=None):
        self.known_ = set(X["ward"])
        return self

    def transform(self, X):
        for entry in X["ward"]:
            if entry not in self.known_:
                raise ValueError(f"what is {entry}?")
        return X[["age"]].to_numpy()


def test_an_encoder_that_reads_rows_together_gets_each_private_row_by_itself():
    """What a record becomes does not depend on the records beside it."""
    seen = []

    class Watched(Ranks):
        def transform(self, X):
            seen.append(len(X))
            return super().transform(X)

    with pytest.warns(UserWarning, match="encodes a row differently beside other rows"):
        fitted(EncodedClassifier(METHOD, encoder=Watched()))
    assert seen.count(1) >= 1000
    seen.clear()
    with pytest.warns(UserWarning, match="encodes a row differently beside other rows"):
        fitted(EncodedClassifier(METHOD, encoder=Watched(), in_batches=True))
    assert seen.count(1) <= 20


def test_an_encoder_that_changes_itself_is_refused():
    class Counts(Ranks):
        def transform(self, X):
            self.n_seen_ = getattr(self, "n_seen_", 0) + len(X)
            return np.zeros((len(X), 1))

    with pytest.raises(InvalidParameterError, match="encoder=Counts changes its own state"):
        fitted(EncodedClassifier(METHOD, encoder=Counts()))


def test_bad_input():
    with pytest.raises(InvalidParameterError, match=r"method must be an estimator, .*; got None"):
        fitted(EncodedClassifier())
    with pytest.raises(InvalidParameterError, match="fill='nan' is a setting of the default encoder"):
        fitted(EncodedClassifier(METHOD, encoder=OneHotEncoder(), fill="nan"))
    with pytest.raises(DataError, match="X_public is missing or empty"):
        EncodedClassifier(METHOD).fit(ROWS, Y)
    with pytest.raises(DataError, match="X_public is missing or empty"):
        EncodedClassifier(METHOD).fit(ROWS, Y, X_public=ROWS[:0])
    odd = ROWS.copy()
    odd.loc[5, "ward"] = "Zaphod"
    with pytest.raises(DataError, match=r"cannot read the private rows \(ValueError\)") as caught:
        fitted(EncodedClassifier(METHOD, encoder=Strict()), odd)
    assert "Zaphod" not in str(caught.value)


@pytest.mark.parametrize("model", [METHOD, EncodedClassifier(METHOD)])
def test_weights_of_records_are_refused_and_why_is_said(model):
    X = ROWS if isinstance(model, EncodedClassifier) else ROWS[["age"]].to_numpy()
    with pytest.raises(InvalidParameterError, match="sample_weight is not supported: weights are usually"):
        fitted(model, X, sample_weight=np.ones(1000))
    fitted(model, X, sample_weight=None)
    with pytest.raises(TypeError, match="unexpected keyword argument 'shoe'"):
        fitted(model, X, shoe=1)
