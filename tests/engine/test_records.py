"""Delta is compared with the number of units where that is public, and with a declared bound where it is private."""

import pickle
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from dpensemble import (
    AutoClassifier,
    DiscriminantClassifier,
    LabelMomentsClassifier,
    PATEClassifier,
    SoftVotesClassifier,
    SubsampleAggregateClassifier,
    WeightingPATEClassifier,
    guarantee,
)
from dpensemble._spending import Spending, listen
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.laws import GaussianNoisyMax, LaplaceNoisyMax
from dpensemble.server import Ledger

from ..estimators import estimators

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


@pytest.fixture
def small_numbers_count(monkeypatch):
    """So that a fifth over the number of records here is below the usual delta."""
    monkeypatch.setattr(guarantee, "_USUAL_DELTA", 0.009)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.usefixtures("small_numbers_count")
def test_a_chosen_delta_follows_a_public_number(name):
    announced = []
    with listen(announced.extend):
        stated = fit(name, None, relation="replace-one").guarantee_
    assert stated.delta == 0.001
    assert stated.delta_rule == (
        f"the smaller of 0.009 and 0.2/n, rounded down to one digit, where n = {N} is the number of records in the fit"
    )
    assert {(one["delta"], one["delta_rule"]) for one in map(Spending.to_dict, announced)} == {
        (stated.delta, stated.delta_rule)
    }
    given = fit(name, 0.002, relation="replace-one").guarantee_
    assert (given.delta, given.delta_rule) == (0.002, "given")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.usefixtures("small_numbers_count")
def test_a_chosen_delta_does_not_follow_a_private_number(name):
    """One record more or fewer, on both sides of a number at which a fifth over it has another first digit."""
    for bound, delta in ((None, 0.009), (100, 0.002)):
        stated = [
            fit(name, None, n, relation="add-or-remove-one", fewest_units=bound).guarantee_ for n in (101, 100, 99)
        ]
        assert {one.delta for one in stated} == {delta}
        assert len({one.delta_rule for one in stated}) == 1


@pytest.mark.parametrize("name", ["moments", "auto", "soft", "saa", "pate"])
@pytest.mark.usefixtures("small_numbers_count")
def test_a_chosen_delta_follows_a_number_of_units_that_no_entry_changes(name):
    model, given = MODELS[name]
    units = np.array([f"u{place // 2}" for place in range(100)], dtype=object)
    blank = units.copy()
    blank[-2:] = None

    def stated(units, on_bad_record):
        fitted = clone(model).set_params(on_bad_record=on_bad_record)
        fitted.fit(X[:100], LABELS[:100], X_public=PUBLIC, units=units, **given)
        return fitted.guarantee_.delta, fitted.guarantee_.delta_rule

    assert stated(units, "raise")[0] == 0.004
    assert "n = 50 is the number of units in the fit" in stated(units, "raise")[1]
    # Neighbours: somebody's records name nobody, so there are 49 units.
    assert stated(units, "zero") == stated(blank, "zero")
    assert stated(units, "zero")[0] == 0.009


DRAWN = {"subsample": 5, "max_labels": 5, "law": GaussianNoisyMax(0.5)}
EVERY = estimators(RUN, RUN | {"n_teachers": 3}, {"bagged-pate": DRAWN, "bagging": {"subsample": 3}})


@pytest.mark.parametrize("name", [name for name in EVERY if name != "bagging"])
@pytest.mark.usefixtures("small_numbers_count")
def test_every_method_chooses_delta_by_the_same_rule(name):
    model = EVERY[name]
    at = "method__" if name == "encoded" else ""
    assert model.get_params()[f"{at}delta"] is None
    deltas = {
        (relation, n): clone(model)
        .set_params(**{f"{at}relation": relation})
        .fit(X[:n], LABELS[:n], X_public=PUBLIC)
        .guarantee_.delta
        for relation in ("replace-one", "add-or-remove-one")
        for n in (101, 100)
    }
    assert list(deltas.values()) == [0.001, 0.002, 0.009, 0.009]


@pytest.mark.parametrize("make", [LabelMomentsClassifier, PATEClassifier, DiscriminantClassifier])
@pytest.mark.usefixtures("small_numbers_count")
def test_an_estimator_keeps_that_no_delta_was_given(make):
    settings = VOTES if make is PATEClassifier else RUN
    model = make(**settings).fit(X, LABELS, X_public=PUBLIC)
    assert model.get_params()["delta"] is None
    assert clone(model).delta is None
    assert model.guarantee_.delta == 0.001
    # The noise is that of the delta, as if it had been given.
    other = make(**settings, delta=0.001).fit(X, LABELS, X_public=PUBLIC)
    assert model.design_.settings() == other.design_.settings()
    assert np.array_equal(model.predict_proba(X), other.predict_proba(X))
    # A pickled estimator, and one that fits other records.
    copied = pickle.loads(pickle.dumps(clone(model)))  # noqa: S301
    again = copied.fit(X[:30], LABELS[:30], X_public=PUBLIC)
    assert again.guarantee_.delta == 0.006


@pytest.mark.parametrize("make", [LabelMomentsClassifier, PATEClassifier])
@pytest.mark.usefixtures("small_numbers_count")
def test_blocks_have_the_delta_of_all_records_together(make):
    settings = VOTES if make is PATEClassifier else RUN
    blocks = make(**settings).fit_blocks(
        lambda: ((X[at : at + 50], LABELS[at : at + 50]) for at in (0, 50, 100)), X_public=PUBLIC
    )
    together = make(**settings).fit(X, LABELS, X_public=PUBLIC)
    assert blocks.guarantee_ == together.guarantee_
    assert blocks.guarantee_.delta == 0.001
    assert np.array_equal(blocks.predict_proba(X), together.predict_proba(X))


@pytest.mark.usefixtures("small_numbers_count")
def test_what_a_ledger_has_left_does_not_change_the_chosen_delta(tmp_path):
    account = Ledger.create(tmp_path / "ledger.db").open_account("people", epsilon=200, delta=0.0015, filter="basic")
    assert fit("soft", None, relation="replace-one", ledger=account).guarantee_.delta == 0.001
    assert account.state().spent.plain_delta == pytest.approx(0.001)
    with pytest.raises(BudgetError, match=r"takes a delta of 0\.001, but 0\.0005 is left"):
        fit("soft", None, relation="replace-one", ledger=account)
    assert fit("soft", 0.0004, relation="replace-one", ledger=account).guarantee_.delta == 0.0004


@pytest.mark.usefixtures("small_numbers_count")
def test_personal_epsilons_share_the_chosen_delta():
    epsilons = np.where(np.arange(N) % 3, 50.0, 20.0)
    for name in ("moments", "soft"):
        fitted = fit(name, None, relation="replace-one", personal_epsilons=epsilons)
        assert {group.budget.delta for group in fitted.design_.groups} == {fitted.guarantee_.delta} == {0.001}


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
