"""Every estimator with public rows warns the owner if these are private records, before anything is spent."""

import warnings

import numpy as np
import pandas as pd
import pytest

from dpensemble import (
    AutoClassifier,
    EncodedClassifier,
    LabelMomentsClassifier,
    PATEClassifier,
    SoftVotesClassifier,
    SubsampleAggregateClassifier,
)
from dpensemble.engine.run import uncounted
from dpensemble.errors import DataError, EqualRowsWarning

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3))
Y = (X[:, 0] > 0).astype(int)
SEEDED = {"classes": [0, 1], "insecure_release_seed": 0}
VOTES = SubsampleAggregateClassifier(n_teachers=10, epsilon=1, delta=1e-4, **SEEDED)
METHODS = [
    LabelMomentsClassifier(epsilon=1, delta=1e-4, **SEEDED),
    SoftVotesClassifier(n_teachers=10, epsilon=1, delta=1e-4, **SEEDED),
    PATEClassifier(n_teachers=10, epsilon=1, delta=1e-4, **SEEDED),
    VOTES,
    AutoClassifier(epsilon=1, delta=1e-4, **SEEDED),
    EncodedClassifier(VOTES),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_a_sample_of_the_records_is_reported_before_anything_is_spent(method):
    rows = pd.DataFrame(X, columns=list("abc"))
    with warnings.catch_warnings():
        # An error here ends the fit.
        warnings.simplefilter("error", EqualRowsWarning)
        with pytest.raises(EqualRowsWarning, match=r"200 of 200 public rows equal .* for the owner of the records"):
            method.fit(rows, Y, X_public=rows.sample(200, random_state=0))
        with pytest.raises(DataError, match="share memory"):
            method.fit(rows, Y, X_public=rows[:200])


def test_nothing_is_reported_inside_a_command():
    with uncounted(), warnings.catch_warnings():
        warnings.simplefilter("error", EqualRowsWarning)
        VOTES.fit(X, Y, X_public=X[:200].copy())


@pytest.mark.parametrize("method", [METHODS[0], VOTES], ids=lambda method: type(method).__name__)
def test_blocks_are_compared_in_the_first_pass(method):
    with pytest.warns(EqualRowsWarning, match="400 of 400"):
        method.fit_blocks(lambda: iter([(X[:150], Y[:150]), (X[150:], Y[150:])]), X_public=X.copy())
