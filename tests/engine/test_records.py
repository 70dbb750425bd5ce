"""Delta is compared with the number of units where that is public, and with a declared bound where it is private."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from dpensemble import (
    AutoClassifier,
    LabelMomentsClassifier,
    PATEClassifier,
    SoftVotesClassifier,
    SubsampleAggregateClassifier,
    WeightingPATEClassifier,
)
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.laws import LaplaceNoisyMax

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")

N = 137
RNG = np.random.default_rng(0)
X, LABELS, PUBLIC = RNG.normal(size=(N, 2)), np.arange(N) % 2, RNG.normal(size=(60, 2))
RUN = {"classes": [0, 1], "epsilon": 50.0, "random_state": 0, "insecure_release_seed": 0}
VOTES = RUN | {"n_teachers": 3, "law": LaplaceNoisyMax(0.5)}
BUDGETS = {"budgets": np.full(N, 50.0), "group_shares": {50.0: 1.0}}
MODELS = {
    "moments": (LabelMomentsClassifier(**RUN), {}),
    "auto": (AutoClassifier(**RUN), {}),
    "soft": (SoftVotesClassifier(n_teachers=3, **RUN), {}),
    "saa": (SubsampleAggregateClassifier(**VOTES), {}),
    "pate": (PATEClassifier(**VOTES), {}),
    "weighting": (WeightingPATEClassifier(**VOTES, rule="published"), BUDGETS),
}


def fit(name, delta, n_records=N, **more):
    model, given = MODELS[name]
    model = type(model)(**model.get_params(deep=False) | {"delta": delta, "relation": more.pop("relation")})
    given = given | ({"budgets": given["budgets"][:n_records]} if "budgets" in given else {})
    return model.fit(X[:n_records], LABELS[:n_records], X_public=PUBLIC, **given | more)


@pytest.mark.parametrize("name", MODELS)
def test_where_the_number_is_private_no_error_depends_on_it(name):
    """One record more or fewer, and a delta between one over both numbers."""
    delta = (1 / N + 1 / (N - 1)) / 2
    for n_records in (N, N - 1):
        fit(name, delta, n_records, relation="add-or-remove-one")
        fit(name, delta, n_records, relation="add-or-remove-one", fewest_units=100)
        with pytest.raises(BudgetError, match=r"N=150 private records at least") as caught:
            fit(name, delta, n_records, relation="add-or-remove-one", fewest_units=150)
        assert str(n_records) not in str(caught.value)


@pytest.mark.parametrize("name", MODELS)
def test_where_the_number_is_public_it_is_compared(name):
    with pytest.raises(BudgetError, match=f"N={N} private records"):
        fit(name, 1 / N, relation="replace-one")
    with pytest.raises(InvalidParameterError, match="fewest_units=100 is for relation='add-or-remove-one'"):
        fit(name, 1e-6, relation="replace-one", fewest_units=100)


@pytest.mark.parametrize("name", MODELS)
def test_a_bound_is_a_whole_number_from_1(name):
    for bound in (0, -3, 1.5, "many"):
        with pytest.raises(InvalidParameterError, match="fewest_units"):
            fit(name, 1e-6, relation="add-or-remove-one", fewest_units=bound)


def test_blocks_take_a_bound():
    model = LabelMomentsClassifier(**RUN, delta=0.01, relation="add-or-remove-one")
    model.fit_blocks(lambda: iter([(X, LABELS)]), X_public=PUBLIC)
    with pytest.raises(BudgetError, match="at least"):
        model.fit_blocks(lambda: iter([(X, LABELS)]), X_public=PUBLIC, fewest_units=100)
    with pytest.raises(InvalidParameterError, match="fewest_units=100 is for"):
        PATEClassifier(**VOTES, delta=1e-3).fit_blocks(lambda: iter([(X, LABELS)]), X_public=PUBLIC, fewest_units=100)


def test_more_teachers_than_units_tell_nothing_of_a_private_number():
    model = PATEClassifier(**VOTES | {"n_teachers": N + 1}, delta=1e-6)
    with pytest.raises(InvalidParameterError, match=f"use at most {N}"):
        model.fit(X, LABELS, X_public=PUBLIC)
    model.set_params(relation="add-or-remove-one").fit(X, LABELS, X_public=PUBLIC)


@pytest.mark.parametrize("name", MODELS)
def test_without_a_bound_delta_is_small(name):
    with pytest.raises(BudgetError, match=r"delta=0\.9 is above 0\.01"):
        fit(name, 0.9, relation="add-or-remove-one")


@pytest.mark.parametrize("name", MODELS)
def test_a_ledger_is_no_account(name):
    with pytest.raises(InvalidParameterError, match=r"ledger must be a data set's account, .*; got a str"):
        fit(name, 1e-6, relation="replace-one", ledger="ledger.db")


@pytest.mark.parametrize("make", [LabelMomentsClassifier, AutoClassifier])
def test_columns_of_decimals_are_numbers(make):
    public, private = (pd.DataFrame(rows, columns=["a", "b"]) for rows in (PUBLIC, X))
    plain = make(**RUN).fit(private, LABELS, X_public=public)
    exact = make(**RUN).fit(private.map(Decimal), LABELS, X_public=public.map(Decimal))
    assert np.array_equal(plain.predict_proba(private), exact.predict_proba(private))
