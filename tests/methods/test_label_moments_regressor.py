"""The private regressor: what it predicts, whom it protects, and what it refuses."""

import copy
import json
import math
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import dpensemble
from dpensemble import LabelMomentsRegressor, Ledger, load_classifier, save_classifier
from dpensemble.certificates import certificate_of_fit, confirmed
from dpensemble.errors import BudgetError, DataError, InvalidParameterError, NotForReleaseWarning, UnlikeRowsWarning
from dpensemble.server.filters import Amount

RUN = {"epsilon": 4.0, "delta": 1e-5, "insecure_release_seed": 0}


def world(n=900, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + 300, 2))
    y = 50 + 10 * X[:, 0] + 2 * rng.normal(size=n + 300)
    return X[:n], y[:n], X[n:]


X, Y, PUBLIC = world()


def fit(**given):
    more = {name: given.pop(name) for name in ("units", "public_units", "ledger") if name in given}
    rows = given.pop("X", X), given.pop("y", Y)
    public = given.pop("X_public", PUBLIC)
    return LabelMomentsRegressor(**({"low": 0, "high": 200} | RUN | given)).fit(*rows, X_public=public, **more)


@pytest.fixture(scope="module")
def fitted():
    return fit()


class SelfPublicRegressor(LabelMomentsRegressor):
    __init__ = LabelMomentsRegressor.__init__

    def fit(self, X, y, **kwargs):
        return super().fit(X, y, X_public=copy.deepcopy(X), **kwargs)


@parametrize_with_checks([SelfPublicRegressor(-1000, 1000, epsilon=1e6, insecure_release_seed=0)])
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_check(estimator, check):
    check(estimator)


def test_all_outputs_follow_from_one_release(fitted):
    assert fitted.score(X, Y) > 0.8
    median, mean = fitted.predict_median(X), fitted.predict(X)
    assert np.abs(median - mean).mean() < 2
    low, high = fitted.predict_interval(X, 0.9).T
    assert 0.85 < np.mean((low <= Y) & (high >= Y)) < 0.99
    assert np.mean(fitted.predict_quantile(X, 0.25) > Y) == pytest.approx(0.25, abs=0.08)
    assert np.all((low >= 0) & (high <= 200))


def test_the_whole_budget_is_used_and_certified(fitted):
    assert fitted.guarantee_.epsilon == pytest.approx(4.0, rel=1e-6)
    assert fitted.guarantee_.epsilon <= 4.0
    assert sum(charge["sigma"] ** -2 for charge in fitted.charges_) == pytest.approx(fitted.design_.meter().mu ** 2)
    assert "predicts a number" in str(fitted.result_)


def test_the_certificate_is_confirmed(fitted, tmp_path):
    path = tmp_path / "certificate.json"
    certificate = certificate_of_fit(fitted)
    assert certificate["for_release"] is False
    # With a seed no certificate is confirmed, but everything else about the run is the same.
    path.write_text(json.dumps(certificate | {"for_release": True}), encoding="utf-8")
    assert confirmed(path)[0]


@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
@pytest.mark.parametrize("proven", [None, 0.8])
def test_shares_of_the_budget_add_up(relation, proven):
    design = LabelMomentsRegressor(0, 1, relation=relation, proven_coverage=proven, delta=1e-5).design()
    parts = [design.count_share, design.mean_share, design.target_share, *design.shares, 2 * design.residuals_share]
    assert sum([*parts, design.last_share, design.proof_share]) == pytest.approx(1)


@pytest.mark.parametrize("size", [1, 7, 2048])
def test_blocks_give_the_release_of_memory_to_the_last_bit(size):
    rows, numbers, public = X[:30], Y[:30], PUBLIC
    both = {"low": 0, "high": 200, **RUN}
    memory = LabelMomentsRegressor(**both).fit(rows, numbers, X_public=public)

    def read():
        return ((rows[start : start + size], numbers[start : start + size]) for start in range(0, 30, size))

    blocks = LabelMomentsRegressor(**both).fit_blocks(read, X_public=public, n_records=30)
    for one, other in zip(memory.rounds_, blocks.rounds_, strict=True):
        assert np.array_equal(one.values, other.values)
    assert memory.beyond_range_ == blocks.beyond_range_
    assert np.array_equal(memory.predict_interval(PUBLIC), blocks.predict_interval(PUBLIC))


def test_units_are_protected_together_also_in_blocks():
    names = np.arange(len(X)) // 3
    model = fit(units=names, public_units=np.arange(len(PUBLIC)))
    assert model.guarantee_.unit == "unit"
    assert model.score(X, Y) > 0.5
    read = mock.Mock(side_effect=lambda: iter([(X[:400], Y[:400]), (X[400:], Y[400:])]))
    blocks = LabelMomentsRegressor(0, 200, **RUN).fit_blocks(
        read, X_public=PUBLIC, units=names, public_units=np.arange(len(PUBLIC))
    )
    assert np.array_equal(model.predict(PUBLIC), blocks.predict(PUBLIC))


def test_a_private_number_of_records():
    model = fit(relation="add-or-remove-one")
    assert model.score(X, Y) > 0.8
    assert len(model.charges_) == 9


def test_bad_records_add_nothing_and_are_measured():
    numbers, rows = Y.copy().astype(object), X.copy()
    numbers[:90:3], numbers[1:90:3] = None, "no number"
    rows[2:90:3, 0] = math.inf
    # A text that writes a number is that number, as in the labels of classes.
    numbers[100] = str(numbers[100])
    model = fit(X=rows, y=numbers.tolist(), on_bad_record="zero")
    assert model.readable_share_.share == pytest.approx(0.9, abs=5 * model.readable_share_.error)
    assert model.score(X, Y) > 0.7
    with pytest.raises(DataError, match="on_bad_record"):
        fit(X=rows, y=numbers.tolist())


def test_numbers_beyond_the_range_are_measured():
    model = fit(low=40, high=55, epsilon=20.0)
    rows = {name: (share, noise) for name, share, noise in model.beyond_range_.rows}
    assert rows["below low"][0] == pytest.approx(np.mean(Y < 40), abs=5 * rows["below low"][1])
    assert rows["above high"][0] == pytest.approx(np.mean(Y > 55), abs=5 * rows["above high"][1])
    assert model.predict(X).min() >= 40
    assert model.predict_interval(X).max() <= 55


def test_proven_intervals_are_wider_than_measured_ones_and_need_the_setting(fitted):
    with pytest.raises(InvalidParameterError, match="proven_coverage"):
        fitted.predict_interval(X, guaranteed=True)
    many, numbers, public = world(4000, seed=1)
    model = fit(X=many, y=numbers, X_public=public, proven_coverage=0.9, epsilon=2.0)
    ends = model.predict_interval(many, 0.9, guaranteed=True)
    assert np.mean((ends[:, 0] <= numbers) & (numbers <= ends[:, 1])) > 0.9
    assert np.diff(ends).mean() > np.diff(model.predict_interval(many, 0.9)).mean()
    assert np.diff(ends).mean() < 100
    with pytest.raises(InvalidParameterError, match="cannot be proven"):
        model.predict_interval(many, 0.999, guaranteed=True)


def test_a_proof_that_noise_prevents_is_refused_before_anything_is_charged():
    ledger = mock.Mock(spec=["one_release"])
    with pytest.raises(InvalidParameterError, match="more records") as raised:
        fit(proven_coverage=0.99, epsilon=0.5, ledger=ledger)
    assert raised.value.parameter == "proven_coverage"
    assert not ledger.one_release.return_value.called


def test_a_ledger_is_charged_once(tmp_path):
    account = Ledger.create(tmp_path / "ledger.db").open_account("prices", epsilon=10.0, delta=1e-4)
    fit(ledger=account)
    state = account.state()
    assert state.spent != Amount()
    with pytest.raises(BudgetError):
        fit(ledger=account, epsilon=40.0)
    assert account.state().spent == state.spent


def test_a_saved_student_answers_alike(tmp_path, fitted):
    save_classifier(fitted.student_, tmp_path / "prices.skops")
    with pytest.warns(NotForReleaseWarning):
        student = load_classifier(tmp_path / "prices.skops")
    assert np.array_equal(student.predict(X), fitted.predict(X))
    assert np.array_equal(student.predict_median(X), fitted.predict_median(X))
    assert np.array_equal(student.predict_interval(X, 0.8), fitted.predict_interval(X, 0.8))
    assert np.array_equal(student.predict_quantile(X, 0.3), fitted.predict_quantile(X, 0.3))


def test_tables_with_texts_and_blanks():
    table = pd.DataFrame({"size": X[:, 0], "town": np.where(X[:, 1] > 0, "north", "south")})
    table.loc[::10, "size"] = np.nan
    public = pd.DataFrame({"size": PUBLIC[:, 0], "town": np.where(PUBLIC[:, 1] > 0, "north", "south")})
    public.loc[::10, "size"] = np.nan
    model = fit(X=table, X_public=public, y=pd.Series(Y + 20 * (X[:, 1] > 0)))
    assert model.score(table, Y + 20 * (X[:, 1] > 0)) > 0.6
    assert np.array_equal(model.student_.predict(table[["town", "size"]]), model.predict(table))


def test_skewed_numbers_are_read_on_a_logarithm():
    prices = np.exp(3 + X[:, 0])
    model = fit(y=prices, high=1000)
    assert model.student_.steps[-1][1].scale.shift is not None
    assert model.score(X, prices) > 0.5


def test_unlike_public_rows_raise_an_alarm():
    with pytest.warns(UnlikeRowsWarning, match="do not look"):
        model = fit(X_public=PUBLIC + 2.0)
    assert model.drift_.alarm


@pytest.mark.parametrize(
    ("given", "error", "parameter"),
    [
        ({"low": None}, InvalidParameterError, "low"),
        ({"high": None}, InvalidParameterError, "high"),
        ({"low": 5, "high": 5}, InvalidParameterError, "high"),
        ({"low": "cheap"}, InvalidParameterError, "low"),
        ({"proven_coverage": 1.0}, InvalidParameterError, "proven_coverage"),
        ({"epsilon": -1}, InvalidParameterError, "epsilon"),
        ({"relation": "none"}, InvalidParameterError, "relation"),
        ({"X_public": None}, DataError, None),
        ({"X_public": PUBLIC[:, :1]}, DataError, None),
        ({"y": Y[:-1]}, DataError, None),
        ({"y": np.where(Y > 50, "high", "low")}, DataError, None),
        ({"y": pd.Series(np.where(Y > 50, "high", "low"))}, DataError, None),
        ({"y": pd.Series(pd.Timestamp("2020-01-01"), index=range(len(Y)))}, DataError, None),
        ({"y": np.where(Y > 50, np.nan, Y)}, DataError, None),
        ({"y": np.column_stack([Y, Y])}, DataError, None),
    ],
)
def test_bad_input_is_refused(given, error, parameter):
    with pytest.raises(error) as raised:
        fit(**given)
    assert getattr(raised.value, "parameter", None) == parameter


def test_dates_in_a_list_are_bad_records_one_by_one():
    numbers = [pd.Timestamp("2020-01-01"), *Y[1:].tolist()]
    assert fit(y=numbers, on_bad_record="zero").score(X, Y) > 0.7


@pytest.mark.parametrize(
    "numbers", [np.full(len(Y), 7.0), np.full(len(Y), -50.0), np.full(len(Y), 1e6), Y + 1e4], ids=str
)
def test_numbers_that_tell_nothing_are_no_reason_to_refuse(numbers):
    model = fit(y=numbers)
    ends = model.predict_interval(X)
    assert np.isfinite(ends).all()
    inside = np.clip(numbers, 0, 200)
    assert np.mean((ends[:, 0] - 1 <= inside) & (inside <= ends[:, 1] + 1)) > 0.8


def test_three_records_are_no_reason_to_refuse():
    model = fit(X=X[:3], y=Y[:3], delta=1e-6)
    assert np.isfinite(model.predict(X)).all()


def test_settings_are_kept_and_the_name_is_exported():
    model = LabelMomentsRegressor(0, 10, proven_coverage=0.9, epsilon=0.5)
    assert clone(model).get_params() == model.get_params()
    assert "LabelMomentsRegressor" in dpensemble.__all__
    with pytest.raises(InvalidParameterError, match="fit a LabelMomentsRegressor"):
        fit().student_.steps[-1][1].fit(X)


def test_personal_budgets_have_guarantees_of_their_own():
    """Records with a hundredth of the budget hardly move the model, and numbers of the others are still learned."""
    rng = np.random.default_rng(3)
    X, public = rng.normal(size=(3000, 2)), rng.normal(size=(400, 2))
    epsilons = np.where(np.arange(3000) % 3, 3.0, 0.03)
    y = np.where(epsilons > 1, 50 + 10 * X[:, 0], 50 - 10 * X[:, 0]) + rng.normal(size=3000)
    model = LabelMomentsRegressor(0, 100, epsilon=3.0, delta=1e-4, insecure_release_seed=0)
    model.fit(X, y, X_public=public, personal_epsilons=epsilons)
    groups = model.guarantee_.groups
    assert [group.budget for group in groups] == [0.03, 3.0]
    assert all(group.budget * 0.99 < group.epsilon <= group.budget for group in groups)
    assert model.score(X[epsilons > 1], y[epsilons > 1]) > 0.8
    alike = clone(model).fit(X, y, X_public=public)
    assert alike.score(X[epsilons > 1], y[epsilons > 1]) < 0.6


@pytest.mark.parametrize(
    ("settings", "epsilons", "error", "words"),
    [
        ({"proven_coverage": 0.9}, np.ones(60), InvalidParameterError, "proven_coverage=0.9 cannot be proven with"),
        ({"relation": "add-or-remove-one"}, np.ones(60), InvalidParameterError, "replace"),
        ({}, np.ones(59), DataError, "personal_epsilons"),
        ({}, np.r_[np.nan, np.ones(59)], BudgetError, "is missing in row 0"),
    ],
)
def test_personal_budgets_that_cannot_be_used_are_refused_before_the_charge(settings, epsilons, error, words):
    rng = np.random.default_rng(3)
    X, y, public = rng.normal(size=(60, 2)), rng.uniform(0, 100, 60), rng.normal(size=(50, 2))
    model = LabelMomentsRegressor(0, 100, epsilon=1.0, delta=1e-4, insecure_release_seed=0, **settings)
    with pytest.raises(error, match=words):
        model.fit(X, y, X_public=public, personal_epsilons=epsilons)
    assert not hasattr(model, "result_")


def as_texts(numbers):
    """Return a column as a reader of files makes it when one entry is a text."""
    texts = [*map(repr, numbers[:-1].tolist()), "pending"]
    return {"str": pd.Series(texts, dtype="str"), "array": np.array(texts), "object": pd.Series(texts, dtype=object)}


@pytest.mark.parametrize("kind", ["str", "array", "object"])
def test_one_text_among_targets_is_a_bad_record_in_a_column_of_any_type(kind):
    """A refusal would show that there is such a record."""
    settings = {"low": 0, "high": 200, "on_bad_record": "zero"} | RUN
    found = LabelMomentsRegressor(**settings).fit(X, as_texts(Y)[kind], X_public=PUBLIC)
    usual = LabelMomentsRegressor(**settings).fit(X, np.r_[Y[:-1], np.nan], X_public=PUBLIC)
    np.testing.assert_array_equal(found.predict(PUBLIC), usual.predict(PUBLIC))
    with pytest.raises(DataError, match=r"y has texts|an entry that is not a number"):
        LabelMomentsRegressor(0, 200, **RUN).fit(X, as_texts(Y)[kind], X_public=PUBLIC)
