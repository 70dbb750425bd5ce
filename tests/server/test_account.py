"""Every estimator pays before it draws any noise, and is refused where the account does not allow it.

Answers whose book is a ledger: paid for once, continued after a restart, and repeated by their keys.

Names of groups decide nothing: every run charges its largest loss to the account that all people share.
"""

import json
import re
from functools import partial
from itertools import repeat

import numpy as np
import pytest
from sklearn.base import clone

from dpensemble import (
    BaggingPrivacyClassifier,
    Budget,
    LabelMomentsClassifier,
    PATEClassifier,
    WeightingPATEClassifier,
)
from dpensemble._spending import Spending
from dpensemble.accounting import Change, price
from dpensemble.errors import BudgetError, DataError, LedgerError
from dpensemble.laws import GaussianNoisyMax
from dpensemble.server import Ledger
from dpensemble.server.filters import Amount

from ..estimators import PERSONALISED, estimators
from .conftest import open_group_as_before, spend, votes

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")

SHARED = {"classes": [0, 1], "insecure_release_seed": 0, "random_state": 0}
FEW = SHARED | {"n_teachers": 20, "max_labels": 10, "epsilon": 1.0}
OWN = {"bagged-pate": {"subsample": 10}, "bagging": {"delta": 0.05}}
MODELS = estimators(SHARED, FEW, OWN) | {
    "gated pate": PATEClassifier(**FEW | {"max_labels": None, "epsilon": 4.0}, law="confident-gnmax")
}
# It passes the account on to its method.
del MODELS["encoded"]
# Only epsilon and delta are known of these. With this few records "auto" asks private majorities.
WITHOUT_CURVE = {"bagging", "private-majority", "auto"}
RNG = np.random.default_rng(0)
X, X_PUBLIC = RNG.normal(size=(240, 3)), RNG.normal(size=(110, 3))
Y = (X[:, 0] > 0).astype(int)


def fit(model, ledger):
    given = {} if isinstance(model, BaggingPrivacyClassifier) else {"X_public": X_PUBLIC}
    return clone(model).fit(X, Y, ledger=ledger, **given)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_fit_is_charged_what_it_may_spend_and_once(ledger, name):
    account = ledger.open_account("records", epsilon=8, delta=0.2, approximate=0.5)
    fit(MODELS[name], account)
    (grant,) = [entry.fields for entry in ledger.entries() if entry.kind == "grant"]
    (charge,) = grant["charges"]
    assert charge["loss"] > 0 or name == "bagging"
    assert (charge["delta"] > 0) is (name in WITHOUT_CURVE)
    assert grant["what"] == type(MODELS[name]).__name__


@pytest.mark.parametrize("name", sorted(set(MODELS) - {*PERSONALISED, "bagged-pate"}))
def test_a_fit_for_another_relation_is_refused(ledger, name):
    account = ledger.open_account("records", epsilon=8, delta=0.2, approximate=0.5, relation="replace-one")
    given = {"relation": "add-or-remove-one"}
    if name == "bagging":
        given |= {"delta": None, "subsample": 4}
    with pytest.raises(BudgetError, match="for relation='replace-one'"):
        fit(clone(MODELS[name]).set_params(**given), account)
    assert account.state().spent == Amount()


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_that_the_account_does_not_allow_draws_no_noise(ledger, name, monkeypatch):
    from dpensemble import _random

    account = ledger.open_account("records", epsilon=0.05, delta=1e-6)

    def drawn(*_):
        raise AssertionError("noise was drawn without a charge")

    model = MODELS[name]
    if name not in ("bagging", "bagged-pate"):
        monkeypatch.setattr(_random.SeededNoise, "uniform_bits", drawn)
    with pytest.raises(BudgetError, match="ledger: this release takes"):
        fit(model, account)
    assert account.state().spent == Amount()


def test_what_is_charged_is_the_curve_of_all_labels(ledger):
    account = ledger.open_account("records", epsilon=8, delta=1e-5)
    model = fit(PATEClassifier(**FEW, law=GaussianNoisyMax(30.0)), account)
    one = price(GaussianNoisyMax(30.0), Change(ballots=20, classes=2)).label
    order = account.state().terms.order
    wanted = float((one * len(model.labels_)).rdp[list(one.orders).index(order)])
    assert account.state().spent.loss == pytest.approx(wanted * 1e6, abs=1)


def test_a_data_dependent_fit_is_refused(ledger):
    account = ledger.open_account("records", epsilon=8, delta=1e-5)
    model = PATEClassifier(**FEW | {"epsilon": 3.0}, analysis="data-dependent")
    with pytest.raises(BudgetError, match="use 'worst-case'"):
        fit(model, account)


def test_the_largest_loss_of_any_group_is_charged(ledger):
    account = ledger.open_account("records", epsilon=8, delta=1e-4)
    epsilons = np.where(np.arange(len(X)) % 2, 1.0, 2.0)
    model = LabelMomentsClassifier(**SHARED).fit(X, Y, X_public=X_PUBLIC, personal_epsilons=epsilons, ledger=account)
    names = [group.name for group in model.design_.groups]
    assert len(names) == 2
    (state,) = account.states()
    prices = [
        state.terms.price(
            Spending(name=one.name, epsilon=one.budget.epsilon, delta=1e-5, find_cost=partial(next, repeat(cost)))
        )
        for one, cost in zip(model.design_.groups, model.design_.meter().renyi_costs(), strict=True)
    ]
    assert state.spent.loss == max(one.loss for one in prices) > min(one.loss for one in prices) > 0
    assert Budget(epsilon=1, delta=1e-5) in {group.budget for group in model.design_.groups}


def test_a_grant_is_charged_once_and_gone_on_with(patients, where):
    first = votes(patients.grant("october"))
    assert patients.state().spent.loss == 0
    told = [first.answer(counts=[50, 50], key=str(i)).label for i in range(12)]
    spent = patients.state().spent
    assert spent.loss > 0
    # Another process, later.
    later = votes(Ledger(where).account("patients").grant("october"))
    assert later.remaining() == 18
    again = [later.answer(counts=[50, 50], key=str(i)) for i in range(12)]
    assert [one.label for one in again] == told
    assert all(one.replayed for one in again)
    assert later.remaining() == 18
    assert patients.state().spent == spent
    with pytest.raises(DataError, match="other votes"):
        later.answer(counts=[51, 49], key="3")
    with pytest.raises(BudgetError, match="19 answers were requested, and 18 are left"):
        later.answer(counts=[[50, 50]] * 19)
    assert later.remaining() == 18
    assert patients.ledger.verify().requests == 12


def test_a_seeded_answer_keeps_its_mark(patients, where):
    assert not votes(patients.grant("october"), seed=1).answer(counts=[50, 50], key="1").for_release
    later = votes(Ledger(where).account("patients").grant("october"))
    replayed, fresh = (later.answer(counts=[50, 50], key=key) for key in ("1", "2"))
    assert (replayed.replayed, replayed.for_release) == (True, False)
    assert fresh.for_release


def test_what_can_never_fit_charges_no_grant(patients):
    for account in (patients, patients.grant("october")):
        asked = votes(account)
        with pytest.raises(BudgetError, match="31 answers were requested, and 30 are left"):
            asked.answer(counts=[[50, 50]] * 31)
        with pytest.raises(BudgetError, match="31 answers"):
            asked.answer_to(b"rows", 31, ask=lambda: pytest.fail("teachers were asked"))
    assert patients.state().spent.loss == 0
    assert patients.ledger.verify().grants == 0


def test_further_settings_belong_to_a_grant(patients):
    votes(patients.grant("october", {"ensemble": "a"})).answer(counts=[50, 50])
    assert votes(patients.grant("october", {"ensemble": "a"})).remaining() == 29
    for more in ({"ensemble": "b"}, {}):
        with pytest.raises(LedgerError, match="other settings"):
            votes(patients.grant("october", more))


def test_a_grant_with_other_settings_is_refused(patients):
    votes(patients.grant("october")).answer(counts=[50, 50])
    with pytest.raises(LedgerError, match="other settings"):
        votes(patients.grant("october"), sigma=61.0)
    with pytest.raises(LedgerError, match="other settings"):
        votes(patients.grant("october"), answers=29)


def test_two_that_begin_at_once_share_a_grant(patients):
    one, two = (votes(patients.grant("october")) for _ in range(2))
    one.answer(counts=[50, 50])
    two.answer(counts=[50, 50])
    assert one.remaining() == two.remaining() == 28
    assert patients.ledger.verify().grants == 1


def test_a_grant_that_the_account_does_not_allow_is_refused_at_the_first_answer(ledger):
    account = ledger.open_account("few", epsilon=0.3, delta=1e-6)
    asked = votes(account.grant("october"))
    with pytest.raises(BudgetError, match="nothing was charged"):
        asked.answer(counts=[50, 50])
    assert account.state().spent.loss == 0


def test_without_a_name_every_aggregator_has_a_grant_of_its_own(patients):
    for _ in range(2):
        asked = votes(patients)
        asked.answer(counts=[50, 50])
        assert asked.remaining() == 29
    assert patients.ledger.verify().grants == 2


def test_what_was_told_is_in_the_ledger_and_what_was_voted_is_not(patients, where):
    votes(patients.grant("october")).answer(counts=[37, 63], key="row 5")
    text = "".join(entry.body for entry in patients.ledger.entries())
    assert "row 5" in text
    told = [entry.fields for entry in patients.ledger.entries() if entry.kind in ("request", "answer")]
    # Hashes and nonces may hold any digits.
    plain = [re.sub(r"[0-9a-f]{16,}|\d{4}-\d\d-\d\dT[\d:.+]*", "", json.dumps(fields)) for fields in told]
    assert len(told) == 2
    assert not any(re.search(r"\b(37|63)\b", text) for text in plain), plain
    # The same votes have another hash under another key.
    other = Ledger.create(where.with_name("other.db")).open_account("patients", epsilon=3, delta=1e-5)
    votes(other.grant("october")).answer(counts=[37, 63], key="row 5")
    hashes = [next(e for e in a.ledger.entries() if e.kind == "request").fields["votes"] for a in (patients, other)]
    assert hashes[0] != hashes[1]


def fit_groups(account, level):
    """Fit on the same people, all of one consent level."""
    model = WeightingPATEClassifier(
        classes=[0, 1], n_teachers=20, max_labels=10, epsilon=1.0, insecure_release_seed=0, random_state=0
    )
    return model.fit(X, Y, X_public=X_PUBLIC, budgets=[level] * len(X), levels={level: 1.0}, ledger=account)


def test_renamed_consent_levels_share_one_lifetime_budget(ledger, where):
    account = ledger.open_account("people", epsilon=1, delta=1e-4, filter="basic")
    # Earlier releases opened an account for each level, and charged each fit to another one.
    for level in "ABC":
        open_group_as_before(ledger, "people", level, 1.0)
    fit_groups(account, "A")
    spent = account.state().spent
    assert 900_000 < spent.loss <= 1_000_000
    for level in "BC":
        with pytest.raises(BudgetError, match="nothing was charged"):
            fit_groups(account, level)
    assert account.state().spent == spent
    assert Ledger(where).verify().grants == 1


def test_a_group_cannot_have_an_account_of_its_own(ledger, patients):
    with pytest.raises(LedgerError, match="whom='cautious' cannot have a separate account"):
        ledger.open_group("patients", "cautious", epsilon=1)
    assert [state.whom for state in patients.states()] == ["everyone"]


@pytest.mark.parametrize("kind", ["renyi", "gdp", "zcdp", "basic"])
def test_the_largest_loss_and_the_largest_delta_of_any_group_are_charged(ledger, kind):
    account = ledger.open_account("people", epsilon=3, delta=1e-5, filter=kind)
    groups = [Spending(name="A", epsilon=0.3, delta=1e-9), Spending(name="everyone", epsilon=0.1, delta=3e-9)]
    account.one_release("fit")(groups)
    prices = [account.state().terms.price(one) for one in groups]
    assert account.state().spent == Amount(prices[0].loss, prices[1].delta)


def test_accounts_of_groups_that_earlier_releases_opened_still_limit(ledger):
    account = ledger.open_account("people", epsilon=3, delta=1e-5, filter="basic")
    open_group_as_before(ledger, "people", "cautious", 1.0)
    spend(account, 0.7, name="others")
    assert account.state("cautious").spent.loss == 700_000
    with pytest.raises(BudgetError, match="for cautious of data set"):
        spend(account, 0.4, name="others")
    spend(account, 0.3, name="cautious")
    assert account.state().spent.loss == account.state("cautious").spent.loss == 1_000_000
