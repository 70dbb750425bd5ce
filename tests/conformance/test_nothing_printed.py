"""For all private rows, no method prints or quotes them, or warns about them."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
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
)
from dpensemble.errors import DPEnsembleError, LibraryWarning
from dpensemble.laws import LaplaceNoisyMax
from dpensemble.teachers.private_logistic import (
    GradientPerturbedLogisticRegression,
    OutputPerturbedLogisticRegression,
    _PrivateLinearClassifier,
)

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")

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
