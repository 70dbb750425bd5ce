"""Teachers that answer with vectors."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from dpensemble.allocation import partitions
from dpensemble.errors import InvalidParameterError
from dpensemble.teachers import SoftTeacherEnsemble
from dpensemble.teachers.soft import require_linear

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
QUERIES = RNG.normal(size=(7, 3))
BY_SGD = SGDClassifier(loss="log_loss", random_state=0)
ONE_BY_ONE = LogisticRegression(solver="liblinear")


def labels(n_classes):
    return (X @ RNG.normal(size=(3, n_classes))).argmax(axis=1) if n_classes > 2 else (X[:, 0] > 0).astype(int)


def soft(teacher, y, n_classes=2, n_teachers=4, rows=X):
    allocation = partitions(range(len(rows)), n_teachers, entropy=1)
    ensemble = SoftTeacherEnsemble(teacher, allocation, np.arange(n_classes), entropy=4)
    return ensemble.fit(rows, y, lambda _: None), allocation.shards


def chances(ensemble):
    return np.concatenate(list(ensemble.probabilities(QUERIES)))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("teacher", [LogisticRegression(), GaussianNB(), DecisionTreeClassifier(max_depth=2)])
def test_probabilities_are_those_of_one_estimator_a_shard(teacher, n_classes):
    y = labels(n_classes)
    ensemble, shards = soft(teacher, y, n_classes)
    found = chances(ensemble)
    assert found.shape == (4, 7, n_classes)
    for one, shard in zip(found, shards, strict=True):
        if isinstance(teacher, DecisionTreeClassifier):
            assert set(np.unique(one)) <= set(np.linspace(0, 1, 61).round(9)) or one.sum() == pytest.approx(7)
            continue
        expected = teacher.fit(X[shard], y[shard]).predict_proba(QUERIES)
        assert one == pytest.approx(expected, abs=2e-3)


def test_a_class_that_a_shard_lacks_gets_nothing_and_columns_keep_their_places():
    y = np.array([0, 2] * 60)
    for teacher in (LogisticRegression(), GaussianNB()):
        found = chances(soft(teacher, y, 3)[0])
        assert np.all(found[:, :, 1] == 0)
        assert found.sum(axis=2) == pytest.approx(1)
        assert found[:, :, 2].max() > 0.1


@pytest.mark.parametrize("teacher", [LogisticRegression(), GaussianNB()])
def test_one_class_and_empty_shards_tell_shares(teacher):
    found = chances(soft(teacher, np.zeros(120, dtype=int))[0])
    assert found[..., 0] == pytest.approx(31 / 32)
    allocation = partitions(range(4), 4, relation="add-or-remove-one", entropy=1)
    empty = [t for t, shard in enumerate(allocation.shards) if not len(shard)]
    assert empty
    ensemble = SoftTeacherEnsemble(teacher, allocation, np.arange(2), entropy=4)
    found = chances(ensemble.fit(X[:4], np.array([0, 1, 0, 1]), lambda _: None))
    assert found[empty] == pytest.approx(0.5)


class Odd(ClassifierMixin, BaseEstimator):
    """Answers wrongly, in the requested way."""

    def __init__(self, how="nan"):
        self.how = how

    def fit(self, X, y):
        if self.how == "fails" and len(X) == 31:
            raise RuntimeError("a record")
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.zeros(len(X), dtype=int)

    def predict_proba(self, X):
        if self.how == "raises":
            raise RuntimeError("a record")
        value = {"nan": np.nan, "huge": 1e300, "negative": -1.0}.get(self.how, 0.5)
        found = np.full((len(X), 2), value)
        return found[:, :1] if self.how == "narrow" else found


@pytest.mark.parametrize(
    ("how", "expected"),
    [("nan", None), ("raises", None), ("huge", 1.0), ("negative", 0.0), ("narrow", 0.5)],
)
def test_whatever_a_teacher_says_is_made_finite_and_bounded(how, expected):
    y = (X[:, 0] > 0).astype(int)
    ensemble, shards = soft(Odd(how), y)
    for one, shard in zip(chances(ensemble), shards, strict=True):
        shares = (np.bincount(y[shard], minlength=2) + 1) / (len(shard) + 2)
        assert one == pytest.approx(np.tile(shares if expected is None else [expected] * 2, (7, 1)))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("teacher", [LogisticRegression(), ONE_BY_ONE, BY_SGD], ids=["batched", "alone", "sgd"])
def test_parameters_score_as_the_teachers_do(teacher, n_classes):
    if n_classes > 2 and teacher is ONE_BY_ONE:
        teacher = LogisticRegression(solver="sag", max_iter=5000, tol=1e-8)
    y = labels(n_classes)
    ensemble, shards = soft(teacher, y, n_classes)
    found = ensemble.parameters()
    assert found.shape == (4, 1 if n_classes == 2 else 3, 4)
    for own, shard in zip(found, shards, strict=True):
        scores = QUERIES @ own[:, :-1].T + own[:, -1]
        if teacher is BY_SGD:
            assert np.isfinite(scores).all()
            continue
        expected = teacher.fit(X[shard], y[shard]).decision_function(QUERIES).reshape(7, -1)
        expected = expected - expected.mean(axis=1, keepdims=True) if n_classes > 2 else expected
        assert scores == pytest.approx(expected, abs=0.02)


def test_parameters_of_few_classes_are_finite_and_rank_absent_ones_last():
    y = np.array([0, 2] * 60)
    for teacher in (LogisticRegression(), BY_SGD):
        own = soft(teacher, y, 3)[0].parameters()
        assert np.isfinite(own).all()
        assert own.sum(axis=1) == pytest.approx(0, abs=1e-9)
        scores = QUERIES @ own[0, :, :-1].T + own[0, :, -1]
        assert not np.any(scores.argmax(axis=1) == 1)
    constant = soft(LogisticRegression(), np.ones(120, dtype=int))[0].parameters()
    assert constant[:, 0, :-1] == pytest.approx(0)
    assert constant[:, 0, -1] == pytest.approx(np.log(31))


@pytest.mark.parametrize("teacher", [LogisticRegression(), GaussianNB(), DecisionTreeClassifier(), BY_SGD])
def test_changing_one_unit_changes_one_answer(teacher):
    y = labels(2)
    before, shards = soft(teacher, y)
    other_rows, other_y = X.copy(), y.copy()
    # All records of one unit, since a tree may not notice a single record.
    changed = shards[2]
    other_rows[changed[5]], other_y[changed] = [50.0, -80.0, 1e6], 1 - y[changed]
    after, _ = soft(teacher, other_y, rows=other_rows)
    linear = hasattr(teacher, "intercept_scaling") or teacher is BY_SGD
    for first, second in [(before.parameters(), after.parameters())] if linear else [(chances(before), chances(after))]:
        same = [np.array_equal(one, other) for one, other in zip(first, second, strict=True)]
        assert same == [True, True, False, True]


@pytest.mark.parametrize("n_classes", [2, 4])
def test_linear_teachers_are_told_from_others(n_classes):
    require_linear(LogisticRegression(), 3, n_classes)
    require_linear(BY_SGD, 3, n_classes)
    for other in (GaussianNB(), DecisionTreeClassifier(), SVC(kernel="rbf")):
        with pytest.raises(InvalidParameterError, match=r"coef_.*answers='probabilities'"):
            require_linear(other, 3, n_classes)


@pytest.mark.parametrize("step", [StandardScaler(copy=False), MinMaxScaler(copy=False), SimpleImputer(copy=False)])
def test_a_teacher_that_writes_into_its_rows_changes_no_other_answer(step):
    """One record is replaced. Only its own teacher may answer otherwise, with probabilities and with ballots."""
    teacher, y = make_pipeline(step, LogisticRegression()), labels(2)
    rows = np.where(RNG.random(X.shape) < 0.1, np.nan, X) if isinstance(step, SimpleImputer) else X
    other, queries = rows.copy(), np.where(RNG.random((40, 3)) < 0.2, np.nan, RNG.normal(size=(40, 3)))
    queries = queries if isinstance(step, SimpleImputer) else np.nan_to_num(queries)
    changed = int(soft(teacher, y, rows=rows)[1][0][0])
    other[changed] = [1e4, -1e4, 1e4]
    answers = []
    for given in (rows, other):
        ensemble, _ = soft(teacher, y, rows=given)
        before = queries.copy()
        answers.append((np.concatenate(list(ensemble.probabilities(queries))), ensemble.vote(queries).ballots))
        np.testing.assert_array_equal(queries, before)
    np.testing.assert_array_equal(answers[0][0][1:], answers[1][0][1:])
    np.testing.assert_array_equal(answers[0][1][:, 1:], answers[1][1][:, 1:])
    assert not np.array_equal(answers[0][0][0], answers[1][0][0])
