""""""

import threading
import warnings

import joblib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.datasets import load_digits, make_classification
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, SGDClassifier
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from dpensemble.teachers import logistic
from dpensemble.teachers.logistic import BatchedLogistic


def fit(X, y, shards, *, n_classes=2, constant_votes=None, n_jobs=1, on_done=None, **params):
    estimator = LogisticRegression(**params)
    assert BatchedLogistic.supports(estimator)
    if constant_votes is None:
        constant_votes = np.full(len(shards), -1)
    return BatchedLogistic.fit(
        estimator,
        X,
        y,
        shards,
        n_classes=n_classes,
        constant_votes=constant_votes,
        n_jobs=n_jobs,
        on_done=on_done,
    )


def one_by_one(X, y, shards, **params):
    models = []
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        for shard in shards:
            models.append(LogisticRegression(**params).fit(X[shard], y[shard]))
    return models


def agreement(data, **params):
    """Return the share of votes equal to scikit-learn's, as it comes and run to the optimum."""
    X, y, shards, queries, n_classes = data
    votes = fit(X, y, shards, n_classes=n_classes, **params).vote(queries)
    shares = []
    for precision in ({}, {"tol": 1e-8, "max_iter": 20_000}):
        models = one_by_one(X, y, shards, **params, **precision)
        shares.append(np.mean(votes == np.column_stack([model.predict(queries) for model in models])))
    return shares


def split(n_records, n_subsets, n_partitions=1, seed=0):
    rng = np.random.default_rng(seed)
    return [shard for _ in range(n_partitions) for shard in np.array_split(rng.permutation(n_records), n_subsets)]


def classified(n_features, n_classes=2, seed=0, rows_a_shard=60):
    X, y = make_classification(
        4000,
        n_features=n_features,
        n_informative=max(3, n_features // 3),
        n_redundant=0,
        n_classes=n_classes,
        flip_y=0.1,
        random_state=seed,
    )
    return X[:2000], y[:2000], split(2000, 2000 // rows_a_shard), X[2000:], n_classes


def one_hot(seed=0, rows_a_shard=100):
    """Categories and skewed numbers, so that features are sparse and collinear with the intercept."""
    rng = np.random.default_rng(seed)
    numbers = np.column_stack([rng.normal(size=4000), rng.exponential(size=4000) * (rng.random(4000) < 0.1)])
    levels = [np.minimum(rng.geometric(0.25, size=4000) - 1, 15) for _ in range(6)]
    X = np.column_stack([numbers, *(np.eye(16)[level] for level in levels)])
    y = (X @ rng.normal(size=X.shape[1]) + rng.logistic(size=4000) > 1).astype(np.int64)
    return X[:2000], y[:2000], split(2000, 2000 // rows_a_shard, 2), X[2000:], 2


def digits(n_subsets, n_partitions=1):
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order] / 16, y[order]
    return X[:1200], y[:1200], split(1200, n_subsets, n_partitions), X[1200:], 10


def duplicated():
    X, y, shards, queries, n_classes = classified(20)
    return X, y, [np.repeat(shard, 3) for shard in shards], queries, n_classes


def few_classes():
    X, y, _, queries, n_classes = digits(1)
    order = np.argsort(y, kind="stable")
    shards = [order[start : start + 60] for start in range(0, 1140, 20)]
    return X, y, [shard for shard in shards if len(np.unique(y[shard])) > 1], queries, n_classes


SUPPORTED = [
    {},
    {"C": 0.01},
    {"C": np.float32(3)},
    {"C": 10},
    {"fit_intercept": False},
    {"class_weight": "balanced"},
    {"solver": "newton-cg"},
    {"solver": "newton-cholesky"},
    {"tol": 1e-8, "max_iter": 1000},
    {"random_state": 3},
    {"penalty": "l2"},
    {"l1_ratio": None},
    {"l1_ratio": 0},
]
UNSUPPORTED = [
    {"penalty": None},
    {"penalty": "l1", "solver": "saga"},
    {"penalty": "elasticnet", "l1_ratio": 0.5, "solver": "saga"},
    {"l1_ratio": 0.5, "solver": "saga"},
    {"l1_ratio": 1},
    {"C": np.inf},
    {"C": np.nan},
    {"C": 0.0},
    {"C": -1.0},
    {"C": "1"},
    {"C": np.ones(2)},
    {"solver": "liblinear"},
    {"solver": "sag"},
    {"solver": "saga"},
    {"dual": True, "solver": "liblinear"},
    {"dual": True},
    {"warm_start": True},
    {"class_weight": {0: 1.0, 1: 2.0}},
    {"class_weight": "other"},
    {"fit_intercept": None},
    {"tol": 0.1},
    {"max_iter": 3},
]


@pytest.mark.parametrize("params", SUPPORTED, ids=str)
def test_supports_settings_it_reproduces(params):
    assert BatchedLogistic.supports(LogisticRegression(**params))


@pytest.mark.parametrize("params", UNSUPPORTED, ids=str)
def test_leaves_other_settings_alone(params):
    assert not BatchedLogistic.supports(LogisticRegression(**params))


def test_leaves_other_estimators_alone():
    class Derived(LogisticRegression):
        pass

    others = [Derived(), LogisticRegressionCV(), SGDClassifier(), make_pipeline(LogisticRegression())]
    others += [LogisticRegression, None, "lr"]
    assert not any(BatchedLogistic.supports(other) for other in others)


PLAIN = {
    "few features": (classified(8), {}),
    "four classes": (classified(20, n_classes=4), {}),
    "duplicated rows": (duplicated(), {}),
    "one-hot": (one_hot(), {}),
    "one-hot, strong penalty": (one_hot(), {"C": 0.01}),
    "one-hot, balanced": (one_hot(), {"class_weight": "balanced"}),
    "one-hot, no intercept": (one_hot(), {"fit_intercept": False}),
    "one-hot, newton-cg": (one_hot(), {"solver": "newton-cg"}),
    "one-hot, fewer rows than features": (one_hot(rows_a_shard=40), {}),
    "digits, fewer rows than features": (digits(20, 2), {}),
    "digits, balanced": (digits(20), {"class_weight": "balanced"}),
    "digits, five rows a shard": (digits(240), {}),
    "digits, two to four classes a shard": (few_classes(), {}),
}
SEPARABLE = {
    "more features than rows": (classified(200), {}),
    "more features than rows, weak penalty": (classified(200), {"C": 100.0}),
    "one-hot, weak penalty": (one_hot(), {"C": 100.0}),
    "digits, weak penalty": (digits(24), {"C": 10.0, "fit_intercept": False}),
}


@pytest.mark.parametrize(("data", "params"), PLAIN.values(), ids=PLAIN.keys())
def test_votes_as_scikit_learn(data, params):
    as_it_comes, at_the_optimum = agreement(data, **params)
    assert as_it_comes >= 0.999
    assert at_the_optimum >= 0.9995


@pytest.mark.parametrize(("data", "params"), SEPARABLE.values(), ids=SEPARABLE.keys())
def test_votes_as_the_optimum_where_scikit_learn_stops_short(data, params):
    # Nearly separable shards: scikit-learn's default tolerance is its own largest error here.
    as_it_comes, at_the_optimum = agreement(data, **params)
    assert at_the_optimum >= 0.999
    assert at_the_optimum >= as_it_comes


@pytest.mark.parametrize("data", [classified(8), one_hot(), classified(10, n_classes=3)])
@pytest.mark.parametrize("params", [{}, {"class_weight": "balanced", "C": 0.3}, {"fit_intercept": False}])
def test_tight_tolerance_gives_scikit_learns_coefficients(data, params):
    X, y, shards, _, n_classes = data
    params = {**params, "tol": 1e-8, "max_iter": 20_000}
    ours = fit(X, y, shards, n_classes=n_classes, **params)
    theirs = one_by_one(X, y, shards, **params)
    np.testing.assert_allclose(ours.coef, [model.coef_ for model in theirs], atol=3e-4)
    np.testing.assert_allclose(ours.intercept, [model.intercept_ for model in theirs], atol=3e-4)


def test_sparse_and_dense_forms_agree(monkeypatch):
    X, y, shards, queries, _ = one_hot()
    models = []
    for density in (0.0, 2.0):
        monkeypatch.setattr(logistic, "_SPARSE_DENSITY", density)
        models.append(fit(X, y, shards, tol=1e-8))
    np.testing.assert_allclose(models[0].coef, models[1].coef, atol=1e-4)
    assert np.mean(models[0].vote(queries) == models[1].vote(queries)) > 0.9999


WILD = {
    "other records": lambda X: np.random.default_rng(2).normal(size=X.shape),
    "large": lambda X: 1e8 * X,
    "huge": lambda X: 1e160 * X,
    "overflowing": lambda X: np.where(X > 0, 1e300, -1e300),
    "tiny": lambda X: 1e-300 * X,
    "constant": lambda X: np.full_like(X, 5.0),
    "not a number": lambda X: np.full_like(X, np.nan),
}


@pytest.mark.parametrize("wild", WILD.values(), ids=WILD.keys())
@pytest.mark.parametrize(("n_classes", "density"), [(2, 0.1), (2, 1.0), (4, 0.1), (4, 1.0)])
def test_a_shard_cannot_move_another_teacher(n_classes, density, wild):
    rng = np.random.default_rng(1)
    # Sizes differ, so that blocks are padded.
    shards = np.split(rng.permutation(1500), np.cumsum(rng.integers(3, 60, size=40)))
    X = rng.normal(size=(1500, 12)) * (rng.random((1500, 12)) < density)
    y = (X[:, :n_classes] + rng.normal(size=(1500, n_classes))).argmax(axis=1)
    queries = rng.normal(size=(100, 12))
    before = fit(X, y, shards, n_classes=n_classes)
    changed = 7
    X[shards[changed]] = wild(X[shards[changed]])
    y[shards[changed]] = rng.integers(n_classes, size=len(shards[changed]))
    after = fit(X, y, shards, n_classes=n_classes, n_jobs=2)
    others = np.arange(len(shards)) != changed
    # Bitwise: every array operation works on teachers one at a time, in a shape set by their own records.
    np.testing.assert_array_equal(after.coef[others], before.coef[others])
    np.testing.assert_array_equal(after.intercept[others], before.intercept[others])
    np.testing.assert_array_equal(after.vote(queries)[:, others], before.vote(queries)[:, others])


@pytest.mark.parametrize("data", [one_hot(), digits(24)])
def test_a_teacher_is_the_same_alone_and_in_any_block(data, monkeypatch):
    X, y, shards, _, n_classes = data
    together = fit(X, y, shards, n_classes=n_classes)
    for teacher in (0, 5):
        alone = fit(X, y, [shards[teacher]], n_classes=n_classes)
        np.testing.assert_array_equal(alone.coef[0], together.coef[teacher])
    monkeypatch.setattr(logistic, "_BLOCK_BYTES", 2**16)
    np.testing.assert_array_equal(fit(X, y, shards, n_classes=n_classes, n_jobs=2).coef, together.coef)


@pytest.mark.usefixtures("has_a_deadline")
@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_obeys_the_configured_number_of_jobs(backend):
    X, y, shards, _, _ = one_hot()
    with joblib.parallel_config(backend, n_jobs=2):
        threads = fit(X, y, shards, n_jobs=None)
    np.testing.assert_array_equal(threads.coef, fit(X, y, shards, n_jobs=1).coef)


numbers = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, 1.0, 1e6, -1e155])


@given(
    X=arrays(np.float64, (12, 2), elements=numbers),
    y=arrays(np.int64, 12, elements=st.integers(0, 2)),
    cut=st.integers(0, 12),
    n_classes=st.sampled_from([2, 3]),
    params=st.sampled_from([{}, {"C": 1e-300}, {"C": 1e300}, {"class_weight": "balanced"}, {"fit_intercept": False}]),
)
def test_no_data_makes_it_raise(X, y, cut, n_classes, params):
    y = np.minimum(y, n_classes - 1)
    shards = [np.arange(cut), np.arange(cut, 12)]
    model = fit(X, y, shards, n_classes=n_classes, **params)
    assert np.isfinite(model.coef).all()
    votes = model.vote(np.array([[0.0, 0.0], [1.0, -1.0]]))
    for teacher, shard in enumerate(shards):
        if shard.size:
            assert set(votes[:, teacher]) <= set(y[shard])


def test_separable_shards_get_finite_coefficients():
    X = np.linspace(-1, 1, 40)[:, None] * np.ones((1, 3))
    y = (X[:, 0] > 0).astype(np.int64)
    model = fit(X, y, [np.arange(40)], C=1e12, tol=1e-8)
    assert np.isfinite(model.coef).all()
    np.testing.assert_array_equal(model.vote(X)[:, 0], y)


def test_constant_columns_get_no_weight():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=60), np.full(60, 0.1), np.zeros(60)])
    y = (X[:, 0] > 0.3).astype(np.int64)
    model = fit(X, y, [np.arange(60)], C=1e10)
    np.testing.assert_array_equal(model.coef[0, 0, 1:], 0.0)


def test_a_teacher_without_finite_coefficients_votes_for_its_majority():
    X = np.full((5, 2), np.nan)
    model = fit(X, np.array([0, 2, 1, 2, 2]), [np.arange(5)], n_classes=3)
    np.testing.assert_array_equal(model.vote(np.ones((4, 2))), 2)


@pytest.mark.parametrize("n_classes", [2, 5])
def test_constant_voters_are_obeyed_and_absent_classes_get_no_votes(n_classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4))
    y = rng.integers(2, size=90) * (n_classes - 1)
    shards = [np.arange(30), np.arange(30, 60), np.arange(60, 90), np.arange(0)]
    constants = np.array([-1, 1, -1, n_classes - 1])
    model = fit(X, y, shards, n_classes=n_classes, constant_votes=constants)
    votes = model.vote(100 * rng.normal(size=(500, 4)))
    assert np.all(votes[:, 1] == 1)
    assert np.all(votes[:, 3] == n_classes - 1)
    assert set(votes[:, [0, 2]].ravel()) == {0, n_classes - 1}


def test_reports_progress_in_the_calling_thread():
    X, y, shards, _, _ = one_hot()
    constants = np.full(len(shards), -1)
    constants[:3] = 0
    steps, threads = [], set()

    def on_done(count):
        steps.append(count)
        threads.add(threading.get_ident())

    fit(X, y, shards, constant_votes=constants, n_jobs=2, on_done=on_done)
    assert sum(steps) == len(shards)
    assert steps[0] == 3
    assert threads == {threading.get_ident()}


def test_no_shards_give_no_teachers():
    X = np.zeros((3, 2))
    model = fit(X, np.zeros(3, dtype=np.int64), [])
    assert model.vote(X).shape == (3, 0)


@pytest.mark.parametrize("n_outputs", [1, 3, 300])
def test_votes_are_the_smallest_type_column_major_and_the_same_in_chunks(n_outputs, monkeypatch):
    rng = np.random.default_rng(0)
    model = BatchedLogistic(rng.normal(size=(20, n_outputs, 4)), rng.normal(size=(20, n_outputs)))
    X = rng.normal(size=(50, 4))
    votes = model.vote(X)
    assert votes.shape == (50, 20)
    assert votes.flags.f_contiguous
    assert votes.dtype == (np.uint16 if n_outputs == 300 else np.uint8)
    scores = np.einsum("tof,qf->qto", model.coef, X) + model.intercept
    np.testing.assert_array_equal(votes, scores[..., 0] > 0 if n_outputs == 1 else scores.argmax(axis=2))
    monkeypatch.setattr(logistic, "_VOTE_BYTES", 3 * 8 * 50)
    np.testing.assert_array_equal(model.vote(X), votes)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_ties_go_to_the_lowest_class(n_outputs):
    model = BatchedLogistic(np.zeros((2, n_outputs, 4)), np.zeros((2, n_outputs)))
    np.testing.assert_array_equal(model.vote(np.ones((3, 4))), 0)
