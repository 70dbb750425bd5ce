"""Every estimator reads frames of every library as it reads tables of pandas: columns by name, to the last bit."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sklearn
from sklearn.base import clone
from sklearn.decomposition import PCA

from dpensemble import AutoClassifier, LabelMomentsClassifier, methods
from dpensemble.errors import DataError

from ..estimators import PERSONALISED, estimators

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("few_synthetic_rows")]

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"self": RNG.normal(size=120), "y": RNG.normal(size=120), "rows": RNG.integers(0, 2**54, 120)})
X, PUBLIC = TABLE[:80], TABLE[80:].reset_index(drop=True)
MIXED = PUBLIC[["rows", "self", "y"]]
Y = pd.Series((X["self"] > 0).astype(int))
UNITS = pd.Series(np.arange(80) // 2 + 2**60)
EPSILONS = pd.Series(np.where(np.arange(80) // 2 % 2, 16.0, 32.0))
SUMS = {"classes": [0, 1], "epsilon": 1e4, "delta": 1e-3, "random_state": 0, "insecure_release_seed": 0}
VOTES = {"n_teachers": 5, **SUMS}
OWN = {"bagging": {"subsample": 20}, "dpbag": {"n_partitions": 2}, "private-majority": {"n_teachers": 5}}
ESTIMATORS = estimators(SUMS, VOTES, OWN) | {
    "auto of budgets": AutoClassifier(**SUMS),
    "moments of a map": LabelMomentsClassifier(PCA(2), **SUMS),
}
# What has an entry for each record, beside the labels.
MORE = {name: {"units": UNITS} for name in ESTIMATORS} | {"bagging": {}}
MORE |= {name: {"personal_epsilons": EPSILONS} for name in ("auto of budgets", "moments of a map")}
MORE |= {name: {"budgets": EPSILONS} for name in PERSONALISED}


SETTINGS = {
    "pandas": {"transform_output": "pandas"},
    "polars": {"transform_output": "polars", "display": "text"},
    "others": {"enable_metadata_routing": True, "assume_finite": True, "print_changed_only": False},
}


class OnlyArrow:
    """A frame or series of a library that nobody knows."""

    def __init__(self, values):
        self._values = values

    def __arrow_c_stream__(self, requested_schema=None):
        return self._values.__arrow_c_stream__(requested_schema)


def polars(values):
    frames = pytest.importorskip("polars")
    return frames.from_pandas(values)


def arrow(values):
    if isinstance(values, pd.DataFrame):
        return pa.Table.from_pandas(values, preserve_index=False)
    return pa.chunked_array([values[:7], values[7:]])


def batch(values):
    return pa.RecordBatch.from_pandas(values, preserve_index=False) if values.ndim == 2 else pa.array(values)


def narwhals(values):
    import narwhals as nw

    return nw.from_native(values, allow_series=True)


KINDS = {
    "arrow": arrow,
    "batch": batch,
    "polars": polars,
    "narwhals": narwhals,
    "PyCapsule": lambda values: OnlyArrow(arrow(values)),
    "extension types": lambda values: values.convert_dtypes(),
    "types of Arrow": lambda values: values.convert_dtypes(dtype_backend="pyarrow"),
}


def fitted(name, of=lambda values: values):
    given = {key: of(values) for key, values in MORE[name].items()}
    if name != "bagging":
        given["X_public"] = of(MIXED)
    return clone(ESTIMATORS[name]).fit(of(X), of(Y), **given)


@pytest.fixture(scope="module")
def of_pandas():
    models = {}

    def of(name):
        if name not in models:
            model = fitted(name)
            models[name] = model, answers(model, PUBLIC)
        return models[name]

    return of


def answers(model, rows):
    if not hasattr(model, "predict_proba"):
        return model.predict(rows)
    return model.predict_proba(rows)


def test_every_method_is_here():
    assert {type(model).__name__ for model in ESTIMATORS.values()} >= set(methods.__all__)


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("kind", ["arrow", "polars"])
def test_frames_are_read_as_tables_of_pandas(of_pandas, name, kind):
    of = KINDS[kind]
    model, expected = of_pandas(name)
    other = fitted(name, of)
    assert np.array_equal(answers(other, PUBLIC), expected)
    assert np.array_equal(answers(model, of(PUBLIC)), expected)
    assert other.score(of(X), of(Y)) == model.score(X, Y)
    if name != "encoded":
        with pytest.raises(DataError, match="must be in the same order"):
            model.predict(of(MIXED))
    with pytest.raises(DataError, match=r"feature names should match[\s\S]*more"):
        model.predict(of(PUBLIC.assign(more=1.0)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["auto of budgets", "pate"])
def test_kinds_of_frames(of_pandas, name, kind):
    of = KINDS[kind]
    model, expected = of_pandas(name)
    other = fitted(name, of)
    assert np.array_equal(answers(other, of(PUBLIC)), expected)
    mixed = of(MIXED.assign(more="text")[["more", *MIXED]])
    assert np.array_equal(other.student_.predict(mixed), model.student_.predict(PUBLIC))


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_settings_of_scikit_learn_change_nothing(of_pandas, name, setting):
    model, expected = of_pandas(name)
    with sklearn.config_context(**SETTINGS[setting]):
        other = fitted(name)
        assert np.array_equal(answers(other, PUBLIC), expected)
        assert np.array_equal(answers(model, PUBLIC), expected)
        if hasattr(model, "student_") and hasattr(model.student_, "names"):
            assert np.array_equal(model.student_.predict(PUBLIC), model.predict(PUBLIC))
        if hasattr(model, "result_"):
            assert other.result_.learners == model.result_.learners
