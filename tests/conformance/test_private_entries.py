"""Private entries in every estimator and in every argument with an entry for each record.

Masked, complex and unreadable entries are refused with a typed error that names the argument and shows no entry, also
not in the error's context. For all private rows, no method prints or quotes them, or warns about them.
"""

import warnings
from contextlib import suppress
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.preprocessing import StandardScaler

from dpensemble import (
    AutoClassifier,
    BaggedPATEClassifier,
    BaggingPrivacyClassifier,
    DPBaggingClassifier,
    EncodedClassifier,
    LabelMomentsClassifier,
    PATEClassifier,
    PrivateMajorityClassifier,
    RandomSubspaceClassifier,
    SoftVotesClassifier,
    SubsampleAggregateClassifier,
    WeightingPATEClassifier,
    methods,
    neural,
    teachers,
)
from dpensemble.datasets import TableEncoder
from dpensemble.errors import BudgetError, DataError, DPEnsembleError, LibraryWarning
from dpensemble.laws import LaplaceNoisyMax
from dpensemble.neural import DPSGDClassifier, TorchClassifier
from dpensemble.teachers import GradientPerturbedLogisticRegression, OutputPerturbedLogisticRegression
from dpensemble.teachers.private_logistic import _PrivateLinearClassifier

from ..estimators import estimators

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")

RNG = np.random.default_rng(0)
X, PUBLIC = RNG.normal(size=(60, 2)), RNG.normal(size=(40, 2))
Y = (X[:, 0] > 0).astype(int)
ROW = 7
SEEDS = {"random_state": 0, "insecure_release_seed": 0}
SUMS = {"classes": [0, 1], "epsilon": 1e4, "delta": 1e-3, **SEEDS}
VOTES = {"n_teachers": 3, **SUMS}
OWN = {"bagging": {"subsample": 20}, "dpbag": {"n_partitions": 2}, "private-majority": {"n_teachers": 3}}
TEACHERS = {
    "output-perturbed": OutputPerturbedLogisticRegression(classes=[0, 1]),
    "gradient-perturbed": GradientPerturbedLogisticRegression(classes=[0, 1], epsilon=1.0, delta=1e-3),
    "dp-sgd": DPSGDClassifier(classes=[0, 1], delta=1e-3, epochs=1),
    "torch": TorchClassifier(classes=[0, 1], epochs=1),
}
ESTIMATORS = TEACHERS | estimators(SUMS, VOTES, OWN)
WITHOUT_PUBLIC_ROWS = {"bagging", *TEACHERS}
NEURAL = {"dp-sgd": "opacus", "torch": "torch"}

# Digits that no other message has, so that an entry that is shown is found.
SHOWN = "86753"
ENTRIES = {
    "complex": complex(8.6753, 1.0),
    "numpy-complex": np.complex64(complex(8.6753, 1.0)),
    "huge": 86753 * 10**400,
    "unwritable": 86753 * 10**5000,
    "signaling": Decimal("sNaN86753"),
    "masked": np.ma.masked,
}
# No category of pandas.
UNHASHABLE = {id(ENTRIES["signaling"]), id(ENTRIES["masked"])}
MISSING = {
    "nan": float("nan"),
    "float32-nan": np.float32("nan"),
    "none": None,
    "decimal-nan": Decimal("NaN86753"),
    "pandas-na": pd.NA,
    "pandas-nat": pd.NaT,
}


def with_entry(values, entry):
    """Return values as objects, one of which is the entry."""
    found = np.asarray(values).astype(object)
    # One by one: NumPy would unwrap a masked entry.
    found.reshape(len(found), -1)[ROW, -1] = entry
    return found


def forms(values):
    """Return the same values in the forms that people have them in."""
    yield values
    yield list(values)
    if values.ndim == 2:
        yield values.tolist()
        yield pd.DataFrame(values)
        # Old releases of pandas make no category of a number that no float can hold.
        with suppress(OverflowError):
            if not UNHASHABLE & set(map(id, values.ravel().tolist())):
                yield pd.DataFrame(values, columns=["a", "b"]).astype("category")
    else:
        yield pd.Series(values)


def bad(values, also=()):
    """Yield a name and values from which no model can learn."""
    yield "masked array", np.ma.masked_array(values, mask=np.asarray(values) == np.asarray(values).ravel()[ROW])
    yield "complex array", np.asarray(values) + 8.6753j
    if np.ndim(values) == 2:
        yield "complex columns", pd.DataFrame(np.asarray(values) + 8.6753j)
        yield "masked rows", [np.ma.masked_array(row, mask=[True, False]) for row in values]
    for name, entry in (ENTRIES | dict(also)).items():
        for form in forms(with_entry(values, entry)):
            # pandas writes what is masked as NaN.
            if name != "masked" or not hasattr(form, "iloc"):
                yield f"{name} in a {type(form).__name__}", form


def refusal(what, call, *args, **kwargs):
    """Return the error of a call, in which, and in whose context, no entry is shown."""
    with pytest.raises(DPEnsembleError) as caught:
        call(*args, **kwargs)
    error = caught.value
    while error is not None:
        assert SHOWN not in str(error).replace(".", ""), what
        assert "rray(" not in str(error), what
        error = error.__context__
    return caught.value


def needs(name):
    if name in NEURAL:
        pytest.importorskip(NEURAL[name])


def fit(name, rows=X, labels=Y, public=PUBLIC, **more):
    if name not in WITHOUT_PUBLIC_ROWS:
        more["X_public"] = public
    return clone(ESTIMATORS[name]).fit(rows, labels, **more)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ESTIMATORS)
class TestEveryEstimator:
    def test_private_rows(self, name):
        needs(name)
        for what, rows in bad(X):
            error = refusal(what, fit, name, rows=rows)
            assert isinstance(error, DataError), what
            assert "X" in str(error).split("(")[0], what
            wanted = "Complex data not supported" if "complex" in what else "masked" if "masked" in what else "no float"
            assert wanted in str(error), what

    def test_public_rows(self, name):
        if name in WITHOUT_PUBLIC_ROWS:
            pytest.skip("takes no public rows")
        for what, rows in bad(PUBLIC):
            own = pd.DataFrame(X, columns=rows.columns) if hasattr(rows, "columns") else X
            assert "X_public" in str(refusal(what, fit, name, rows=own, public=rows)), what

    def test_labels(self, name):
        needs(name)
        for what, labels in bad(Y):
            error = refusal(what, fit, name, labels=labels)
            assert isinstance(error, DataError), what
            assert "y" in str(error).split("(")[0].replace(":", "").split(), what

    @pytest.mark.parametrize("missing", MISSING)
    def test_missing_labels_are_reported_as_such(self, name, missing):
        needs(name)
        for labels in forms(with_entry(Y, MISSING[missing])):
            error = refusal(missing, fit, name, labels=labels)
            assert isinstance(error, DataError)
            assert str(error).startswith(f"y has a missing label (NaN or None, the first in row {ROW}, ")

    def test_units(self, name):
        if name in NEURAL:
            pytest.skip("takes no units")
        for what, units in bad(np.arange(60), also=MISSING):
            error = refusal(what, fit, name, units=units)
            assert isinstance(error, DataError), what
            assert "units" in str(error), what

    def test_rows_to_classify(self, name):
        needs(name)
        model = fit(name)
        for what, rows in bad(X):
            for method in (model.predict, model.predict_proba):
                assert isinstance(refusal(what, method, rows), DataError), what

    def test_labels_that_are_scored(self, name):
        needs(name)
        model = fit(name)
        for what, labels in bad(Y, also=MISSING):
            assert isinstance(refusal(what, model.score, X, labels), DataError), what
        assert 0 <= model.score(X, Y, sample_weight=np.ones(60)) <= 1

    def test_rows_in_one_dimension_are_not_printed(self, name):
        needs(name)
        for rows in (np.full(60, 8.6753), [8.6753] * 60):
            assert isinstance(refusal("one dimension", fit, name, rows=rows), DataError)


@pytest.mark.filterwarnings("ignore")
def test_every_estimator_is_here():
    known = {type(one).__name__ for one in ESTIMATORS.values()}
    offered = {*methods.__all__, *neural.__all__, *teachers.__all__}
    assert {name for name in offered if name.endswith(("Classifier", "Regression"))} <= known


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["upsampling-pate", "vanishing-pate", "weighting-pate"])
def test_budgets_of_records(name):
    for what, budgets in bad(np.full(60, 1e4), also=MISSING):
        error = refusal(what, fit, name, budgets=budgets)
        assert isinstance(error, (DataError, BudgetError)), what
        assert "budgets" in str(error), what


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["label-moments", "soft-votes"])
def test_personal_epsilons(name):
    for what, epsilons in bad(np.full(60, 1e4), also=MISSING):
        error = refusal(what, fit, name, personal_epsilons=epsilons)
        assert isinstance(error, (DataError, BudgetError)), what


@pytest.mark.filterwarnings("ignore")
def test_consent_levels():
    groups = np.array(["low", "high"] * 30, dtype=object)
    masked = np.ma.masked_array(groups, mask=groups == "low")
    entries = [with_entry(groups, entry) for entry in (ENTRIES | MISSING).values()]
    for levels in (masked, *entries):
        error = refusal("levels", fit, "upsampling-pate", budgets=levels, levels={"low": 1e4, "high": 5e3})
        assert isinstance(error, (DataError, BudgetError))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["saa", "label-moments"])
def test_blocks(name):
    for what, rows in bad(X):
        blocks = [(rows[:5], Y[:5]), (rows[5:], Y[5:])]
        model = clone(ESTIMATORS[name])
        public = pd.DataFrame(PUBLIC, columns=rows.columns) if hasattr(rows, "columns") else PUBLIC
        error = refusal(what, model.fit_blocks, lambda blocks=blocks: iter(blocks), X_public=public)
        assert isinstance(error, DataError), what
        if " in a " in what and "masked" not in what:
            assert f"in row {ROW}, column 1," in str(error), what
    labels = Y.astype(float)
    labels[ROW] = np.nan
    blocks = [(X[:5], labels[:5]), (X[5:], labels[5:])]
    error = refusal("labels", clone(ESTIMATORS[name]).fit_blocks, lambda: iter(blocks), X_public=PUBLIC)
    assert f"y has a missing label (NaN or None, the first in row {ROW}," in str(error)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["saa", "pate", "soft-votes", "label-moments", "auto", "private-majority", "bagging"])
@pytest.mark.parametrize("where", ["X", "y", "units"])
def test_one_record_stops_no_run_that_takes_bad_records(name, where):
    model = clone(ESTIMATORS[name]).set_params(on_bad_record="zero")
    more = {} if name in WITHOUT_PUBLIC_ROWS else {"X_public": PUBLIC}
    given = {"X": X, "y": Y, "units": np.arange(60)}
    for entry in (ENTRIES | MISSING).values():
        changed = given | {where: with_entry(given[where], entry)}
        model.fit(changed["X"], changed["y"], units=changed["units"], **more)
        assert model.predict(X).shape == (60,)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["label-moments", "auto"])
def test_one_text_stops_no_run_that_takes_bad_records(name):
    model = clone(ESTIMATORS[name]).set_params(on_bad_record="zero")
    words = RNG.choice(["a", "b"], (60, 1))
    rows = np.hstack([X.astype(object), words])
    public = pd.DataFrame(PUBLIC, columns=["a", "b"]).assign(words=["a", "b"] * 20)
    for entry in (ENTRIES | MISSING).values():
        changed = pd.DataFrame(with_entry(rows, entry), columns=public.columns)
        assert model.fit(changed, Y, X_public=public).predict(public).shape == (40,)


@pytest.mark.filterwarnings("ignore")
def test_complex_sparse_rows_for_an_encoder():
    rows = sparse.csr_matrix(X + 8.6753j)
    error = refusal("sparse", fit, "encoded", rows=rows, public=sparse.csr_matrix(PUBLIC))
    assert "Complex data not supported" in str(error)


@pytest.mark.filterwarnings("ignore")
def test_a_table_encoder():
    for what, rows in bad(X):
        assert isinstance(refusal(what, TableEncoder().fit, rows), DataError), what


@pytest.mark.filterwarnings("ignore")
def test_a_published_student_that_knows_its_columns():
    rows, public = pd.DataFrame(X, columns=["a", "b"]), pd.DataFrame(PUBLIC, columns=["a", "b"])
    for name in ("pate", "label-moments", "auto"):
        student = fit(name, rows=rows, public=public).student_
        for entry in [entry for which, entry in ENTRIES.items() if which != "masked"]:
            changed = pd.DataFrame(with_entry(X, entry), columns=["a", "b"])
            assert isinstance(refusal(name, student.predict, changed), DataError)
        assert "y has a missing label" in str(refusal(name, student.score, public, with_entry(Y[:40], None)))


SECRET = 7315.25
N = 40
HOSTILE_RNG = np.random.default_rng(0)
PUBLIC_ROWS, HOSTILE = HOSTILE_RNG.normal(size=(300, 2)), HOSTILE_RNG.normal(size=(N, 2))
LABELS = np.arange(N) % 2
RUN = {"classes": [0, 1], "epsilon": 50.0, "delta": 1e-3, "insecure_release_seed": 1}
FEW_VOTES = RUN | {"n_teachers": 3, "law": LaplaceNoisyMax(0.5), "random_state": 0}


class Talkative(TransformerMixin, BaseEstimator):
    """Reports what it sees, in every way except printing."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        rows = np.asarray(X, dtype=float)
        if (np.abs(rows) > 1e3).any():
            warnings.warn(f"large: {rows}", RuntimeWarning, stacklevel=2)
            np.divide(rows * 1e308, 1e-308)
            raise OverflowError(f"large: {rows}")
        return rows


MODELS = {
    "label moments": LabelMomentsClassifier(**RUN),
    "label moments of a scaler": LabelMomentsClassifier(StandardScaler(), **RUN),
    "label moments of a talkative map": LabelMomentsClassifier(Talkative(), **RUN),
    "auto": AutoClassifier(**RUN),
    "saa": SubsampleAggregateClassifier(**FEW_VOTES),
    "dpbag": DPBaggingClassifier(**FEW_VOTES, n_partitions=2),
    "pate": PATEClassifier(**FEW_VOTES),
    "random subspace": RandomSubspaceClassifier(**FEW_VOTES),
    "bagged pate": BaggedPATEClassifier(**FEW_VOTES, max_labels=3),
    "weighting": WeightingPATEClassifier(**FEW_VOTES, rule="published"),
    "soft votes": SoftVotesClassifier(n_teachers=3, random_state=0, **RUN),
    "private majority": PrivateMajorityClassifier(n_teachers=3, random_state=0, **RUN),
    "bagging": BaggingPrivacyClassifier(classes=[0, 1], n_teachers=3, subsample=12, insecure_release_seed=1),
    "encoded": EncodedClassifier(PATEClassifier(**FEW_VOTES), encoder=Talkative()),
    "output perturbation": OutputPerturbedLogisticRegression(classes=[0, 1], epsilon=5.0, insecure_release_seed=1),
    "gradient perturbation": GradientPerturbedLogisticRegression(
        classes=[0, 1], epsilon=5.0, delta=1e-5, insecure_release_seed=1
    ),
}


def _with(entry, dtype=object):
    rows = HOSTILE.astype(dtype)
    rows[7, 1] = entry
    return rows


ROWS = {
    "large": _with(SECRET * 1e304, float),
    "too large for what follows": _with(SECRET, float),
    "infinite": _with(np.inf, float),
    "text": _with(f"ann {SECRET}"),
    "complex": _with(complex(SECRET, 1.0), complex),
    "object": _with({SECRET: 1}),
    "frame of texts": pd.DataFrame(_with(f"ann {SECRET}")),
    "flat": np.full(N, SECRET),
    "deep": np.full((N, 2, 2), SECRET),
}
TARGETS = {
    "text": np.where(np.arange(N) == 7, f"ann {SECRET}", LABELS.astype(str)),
    "number": np.where(np.arange(N) == 7, SECRET, LABELS),
    "object": np.where(np.arange(N) == 7, {SECRET: 1}, LABELS.astype(object)),
    "two columns": np.full((N, 2), SECRET),
}
CASES = {f"rows: {name}": (rows, LABELS) for name, rows in ROWS.items()}
CASES |= {f"labels: {name}": (HOSTILE, labels) for name, labels in TARGETS.items()}


def _fit(model, rows, labels):
    more = {}
    if isinstance(model, WeightingPATEClassifier):
        more["budgets"] = np.where(np.arange(N) % 2, 25.0, 50.0)
    if not isinstance(model, BaggingPrivacyClassifier | _PrivateLinearClassifier):
        more["X_public"] = PUBLIC_ROWS
    model.fit(rows, labels, **more)


def _error_of(name, case):
    """Return the error of a fit, None if there was none."""
    try:
        _fit(MODELS[name], *CASES[case])
    except DPEnsembleError as error:
        return error
    return None


def _quotes(text):
    return any(part in text for part in (str(SECRET), "7315", "7.31", "ann "))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", MODELS)
def test_no_private_row_is_printed_warned_of_or_quoted(name, case, capfd):
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="print"):
        warnings.simplefilter("always")
        error = _error_of(name, case)
    while error is not None:
        assert not _quotes(str(error))
        error = error.__context__
    assert [one for one in caught if not issubclass(one.category, LibraryWarning)] == []
    assert not any(_quotes(str(one.message)) for one in caught)
    assert capfd.readouterr() == ("", "")
