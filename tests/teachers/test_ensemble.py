"""Teachers of any kind: the labels that they receive, and the messages about failures.

Teachers that answer with vectors.
"""

from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from dpensemble import PATEClassifier
from dpensemble.allocation import partitions
from dpensemble.errors import InvalidParameterError, TeacherError
from dpensemble.laws import GaussianNoisyMax
from dpensemble.relations import Relation
from dpensemble.teachers import SoftTeacherEnsemble, TeacherEnsemble
from dpensemble.teachers.ensemble import _constant_voters, _evenly, _rehearsed


class Spy(ClassifierMixin, BaseEstimator):
    """Votes the seed's parity where it saw few rows, and notes the largest table it was ever shown."""

    def __init__(self, random_state=None, fail_on=None):
        self.random_state = random_state
        self.fail_on = fail_on

    def fit(self, X, y):
        if self.fail_on is not None and np.any(X[:, 0] == self.fail_on):
            raise RuntimeError(f"cannot digest record {X[0]}")
        self.classes_ = np.unique(y)
        self.n_rows_, self.base_ = len(X), None if X.base is None else len(X.base)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[self.random_state % len(self.classes_)])


class GlobalDrawer(Spy):
    """Uses the global generator as often as its labels require."""

    def fit(self, X, y):
        super().fit(X, y)
        self.random_state = int(np.random.randint(2, size=1 + y.sum())[-1])
        return self


def fitted(estimator, allocation, X, y, classes=(0, 1), **settings):
    done = []
    ensemble = TeacherEnsemble(estimator, allocation, np.array(classes), entropy=4, **settings)
    ensemble.fit(X, y, done.append)
    assert sum(done) == pytest.approx(allocation.n_teachers)
    return ensemble


@pytest.mark.parametrize("teacher", [GaussianNB(), LogisticRegression()])
def test_votes_are_those_of_one_estimator_a_shard(teacher, blobs):
    X, y, public = blobs
    allocation = partitions(range(len(X)), 12, 3, entropy=1)
    votes = fitted(teacher, allocation, X, y).vote(public)
    by_hand = np.stack([teacher.fit(X[s], y[s]).predict(public) for s in allocation.shards], axis=1)
    assert votes.ballots.shape == (len(public), 36)
    assert np.mean(votes.ballots == by_hand) > 0.999


def test_a_worker_is_sent_its_own_shard_and_its_own_seed(blobs):
    X, y, _public = blobs
    allocation = partitions(range(len(X)), 20, 2)
    ensemble = fitted(Spy(), allocation, X, y)
    models = ensemble._fitted[0].models
    assert [m.n_rows_ for m in models] == [len(s) for s in allocation.shards]
    assert all(m.base_ is None or m.base_ <= m.n_rows_ for m in models)
    assert len({m.random_state for m in models}) == 40


@pytest.mark.usefixtures("has_a_deadline")
@pytest.mark.parametrize("backend", ["loky", "threading", "sequential"])
def test_every_backend_gives_the_same_votes(backend, blobs):
    X, y, public = blobs
    allocation = partitions(range(len(X)), 40, 1)
    expected = fitted(DecisionTreeClassifier(max_features=1), allocation, X, y).vote(public).ballots
    with joblib.parallel_config(backend=backend, n_jobs=2):
        found = fitted(DecisionTreeClassifier(max_features=1), allocation, X, y).vote(public).ballots
    assert np.array_equal(found, expected)


def test_changing_one_record_touches_its_own_teachers_only(blobs):
    X, y, public = blobs
    allocation = partitions(range(len(X)), 15, 4)
    changed = X.copy(), y.copy()
    changed[0][7], changed[1][7] = 1e6, 1 - y[7]
    for teacher in (DecisionTreeClassifier(max_features=1), LogisticRegression()):
        before = fitted(teacher, allocation, X, y).vote(public).ballots
        after = fitted(teacher, allocation, *changed).vote(public).ballots
        moved = np.flatnonzero((before != after).any(axis=0))
        assert set(moved) <= set(allocation.teachers_of(7))


def test_constant_voters_look_at_their_own_records_only():
    y = np.array([1, 1, 0, 1, 0])
    shards = (np.array([0, 1]), np.array([], dtype=int), np.array([2, 3]), np.array([4]), np.array([], dtype=int))
    assert _constant_voters(y, shards, 3).tolist() == [1, 1, -1, 0, 1]
    assert _constant_voters(y, (np.array([], dtype=int),) * 4, 3).tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize("teacher", [DecisionTreeClassifier(), LogisticRegression()])
def test_one_class_and_empty_shards_vote(teacher):
    X = np.arange(12.0)[:, None]
    y = np.array([0] * 9 + [2] * 3)
    allocation = partitions([f"p{i}" for i in range(12)], 10, 3, relation=Relation.ADD_OR_REMOVE_ONE, entropy=2)
    assert min(len(s) for s in allocation.shards) == 0
    ensemble = fitted(teacher, allocation, X, y, classes=(0, 1, 2))
    ballots = ensemble.vote(X).ballots
    for t, shard in enumerate(allocation.shards):
        if len(shard) == 0:
            assert np.all(ballots[:, t] == t % 3)
        elif len(set(y[shard])) == 1:
            assert np.all(ballots[:, t] == y[shard[0]])
    assert ensemble.n_constant == sum(len(set(y[s])) < 2 for s in allocation.shards)


def test_a_failing_teacher_votes_its_own_majority(blobs):
    X, y, public = blobs
    X = X.copy()
    X[5, 0] = 99.0
    allocation = partitions(range(len(X)), 30, 1)
    ensemble = fitted(Spy(fail_on=99.0), allocation, X, y)
    assert ensemble.n_failed == 1
    teacher = allocation.teachers_of(5)[0]
    majority = np.bincount(y[allocation.shards[teacher]]).argmax()
    assert np.all(ensemble.vote(public).ballots[:, teacher] == majority)


def test_a_teacher_that_cannot_answer_votes_its_own_majority(blobs):
    X, y, public = blobs
    allocation = partitions(range(len(X)), 200, 1)
    ballots = fitted(KNeighborsClassifier(5), allocation, X, y).vote(public).ballots
    for t, shard in enumerate(allocation.shards):
        assert np.all(ballots[:, t] == np.bincount(y[shard]).argmax())


@pytest.mark.parametrize("seed", [0, 7])
def test_teachers_do_not_share_a_generator(blobs, seed):
    """A splitter without a seed draws from numpy's global generator, as much as its own records make it."""
    X, y, public = blobs
    allocation = partitions(range(len(X)), 12, 1)
    search = GridSearchCV(GaussianNB(), {"var_smoothing": [1e-9, 1.0]}, cv=StratifiedShuffleSplit(3), verbose=1)
    for teacher in (search, GlobalDrawer()):
        ballots = []
        for changed in (y, np.where(np.isin(np.arange(len(y)), allocation.shards[0]), 0, y)):
            np.random.seed(seed)
            ballots.append(fitted(teacher, allocation, X, changed).vote(public).ballots)
        assert np.array_equal(ballots[0][:, 1:], ballots[1][:, 1:])


def test_when_all_fail_the_message_names_the_error_and_quotes_no_record(blobs):
    X, y, _ = blobs
    X = X.copy()
    X[:, 0] = 99.0
    with pytest.raises(TeacherError, match=r"Spy.fit raised RuntimeError") as caught:
        fitted(Spy(fail_on=99.0), partitions(range(len(X)), 30, 1), X, y)
    assert "99" not in str(caught.value)


@pytest.mark.usefixtures("has_a_deadline")
def test_nothing_about_a_shard_is_printed(blobs, capfd, recwarn):
    X, y, _public = blobs
    X = np.hstack([X, X])  # collinear, so that discriminant analysis warns
    fitted(LinearDiscriminantAnalysis(), partitions(range(len(X)), 60, 1), X, y, n_jobs=2)
    fitted(LogisticRegression(max_iter=1), partitions(range(len(X)), 60, 1), X, y)
    assert capfd.readouterr() == ("", "")
    assert len(recwarn) == 0


def test_dask(blobs):
    distributed = pytest.importorskip("distributed", reason="Dask is an optional extra")

    X, y, public = blobs
    allocation = partitions(range(len(X)), 40, 1)
    expected = fitted(DecisionTreeClassifier(max_features=1), allocation, X, y).vote(public).ballots
    with distributed.Client(processes=False, dashboard_address=None), joblib.parallel_config(backend="dask"):
        found = fitted(DecisionTreeClassifier(max_features=1), allocation, X, y).vote(public).ballots
    assert np.array_equal(found, expected)


class Stray(Spy):
    """Answers an undeclared class."""

    def predict(self, X):
        return np.full(len(X), self.random_state % 3 * 0.5)


def test_answers_outside_the_declared_classes_fall_back(blobs):
    X, y, public = blobs
    allocation = partitions(range(len(X)), 30, 1)
    ensemble = fitted(Stray(), allocation, X, y)
    ballots = ensemble.vote(public).ballots
    for t, (model, shard) in enumerate(zip(ensemble._fitted[0].models, allocation.shards, strict=True)):
        answer = model.random_state % 3 * 0.5
        assert np.all(ballots[:, t] == (np.bincount(y[shard]).argmax() if answer == 0.5 else answer))


class FitsAll(Spy):
    """Fits all teachers itself."""

    def fit_together(self, X, y, shards, *, on_done, **_settings):
        on_done(len(shards))
        return SimpleNamespace(n_failed=0, vote=lambda X: np.full((len(X), len(shards)), 1, dtype=np.uint8))


class FitsOtherwise(FitsAll):
    """Has a fit of its own, of which the method it inherits knows nothing."""

    def fit(self, X, y):
        return super().fit(X, y)


def test_an_estimator_may_fit_all_teachers_itself(blobs):
    X, y, public = blobs
    allocation = partitions(range(len(X)), 20, 1)
    ensemble = fitted(FitsAll(), allocation, X, y)
    assert np.all(ensemble.vote(public).ballots == 1)


def test_a_fit_of_its_own_is_never_passed_over(blobs):
    X, y, _public = blobs
    assert len(fitted(FitsOtherwise(), partitions(range(len(X)), 20, 1), X, y)._fitted[0].models) == 20


@pytest.mark.parametrize("n_teachers", [1, 7, 20, 250])
def test_progress_moves_in_the_same_steps_however_many_teachers_vote_a_constant(n_teachers):
    seen = set()
    for n_constant in range(n_teachers + 1):
        steps = []
        report = _evenly(steps.append, n_teachers, n_constant)
        report(n_constant)
        for _ in range(n_teachers - n_constant):
            report(1)
        assert sum(steps) == n_teachers
        seen.add(tuple(steps))
    assert len(seen) == 1


CLASSES = ["high", "low", "middle"]


def boosted(name):
    if name == "xgboost":
        return pytest.importorskip("xgboost").XGBClassifier(n_estimators=5, max_depth=2, n_jobs=1)
    if name == "lightgbm":
        return pytest.importorskip("lightgbm").LGBMClassifier(n_estimators=5, min_child_samples=3, n_jobs=1)
    return HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=3)


@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "scikit-learn"])
def test_boosted_trees_learn_labels_that_are_texts(name):
    """Some shards lack a class, which these libraries know only as 0, 1, ... without a gap."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(640, 3))
    y = np.array(CLASSES)[np.digitize(X[:, 0], [-0.2, 1.6])]
    public = rng.normal(size=(30, 3))
    model = PATEClassifier(
        boosted(name), classes=CLASSES, n_teachers=8, law=GaussianNoisyMax(0.5), epsilon=1e6, random_state=0, n_jobs=1
    )
    model.fit(X, y, X_public=public)
    truth = np.array(CLASSES)[np.digitize(public[model.labels_.indices, 0], [-0.2, 1.6])]
    assert set(model.labels_.labels) <= set(CLASSES)
    assert np.mean(model.labels_.labels == truth) > 0.8


class Noting(ClassifierMixin, BaseEstimator):
    """Learns that classes are numbers from 0, and answers the last one."""

    def __init__(self, classes=None):
        self.classes = classes

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        expected = np.arange(len(self.classes_)) if self.classes is None else sorted(set(y))
        if self.classes_.tolist() != list(expected):
            raise ValueError
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[-1])


@pytest.mark.parametrize("told", [None, CLASSES])
def test_a_shard_without_a_class_counts_from_0_unless_all_classes_were_told(told):
    rng = np.random.default_rng(0)
    y = np.array(["high", "middle"])[rng.integers(2, size=400)]
    model = PATEClassifier(
        Noting(told), classes=CLASSES, n_teachers=10, law=GaussianNoisyMax(0.5), epsilon=1e6, n_jobs=1
    )
    model.fit(rng.normal(size=(400, 2)), y, X_public=rng.normal(size=(20, 2)))
    assert set(model.labels_.labels) == {"middle"}


RECORD = "Erika Mustermann"


class Failing(DecisionTreeClassifier):
    """Quotes what it was given, private or made up."""

    def fit(self, X, y, **more):
        raise ValueError(f"cannot learn\nfrom {RECORD if X.max() > 50 else 'these rows'}")


def failing(teacher):
    rng = np.random.default_rng(0)
    X = rng.normal(100, 1, size=(200, 2))
    model = PATEClassifier(teacher, classes=["a", "b"], n_teachers=50, n_jobs=1)
    with pytest.raises(TeacherError) as caught:
        model.fit(X, rng.choice(["a", "b"], 200), X_public=rng.normal(size=(20, 2)))
    return str(caught.value)


def test_a_teacher_that_fails_says_why_on_made_up_rows_alone():
    said = failing(Failing())
    assert said.endswith("Failing.fit raised ValueError; on 200 made-up rows it says: cannot learn from these rows")
    assert RECORD not in said
    assert "The 'max_depth' parameter of DecisionTreeClassifier must be" in failing(
        DecisionTreeClassifier(max_depth=-3)
    )


def test_a_teacher_that_only_lacks_records_is_told_apart():
    class Greedy(KNeighborsClassifier):
        def fit(self, X, y):
            if len(X) < 100:
                raise ValueError
            return super().fit(X, y)

    assert "use fewer teachers" in _rehearsed(Greedy(), 2, 2)


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
    SoftTeacherEnsemble.require_linear(LogisticRegression(), 3, n_classes)
    SoftTeacherEnsemble.require_linear(BY_SGD, 3, n_classes)
    for other in (GaussianNB(), DecisionTreeClassifier(), SVC(kernel="rbf")):
        with pytest.raises(InvalidParameterError, match=r"coef_.*answers='probabilities'"):
            SoftTeacherEnsemble.require_linear(other, 3, n_classes)


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
