"""Every estimator pays before it draws any noise, and is refused where the account does not allow it."""

from functools import partial
from itertools import repeat

import numpy as np
import pytest
from sklearn.base import clone

from dpensemble import (
    AutoClassifier,
    BaggedPATEClassifier,
    BaggingPrivacyClassifier,
    Budget,
    DPBaggingClassifier,
    LabelMomentsClassifier,
    PATEClassifier,
    PrivateMajorityClassifier,
    RandomSubspaceClassifier,
    SubsampleAggregateClassifier,
    UpsamplingPATEClassifier,
    VanishingPATEClassifier,
    WeightingPATEClassifier,
)
from dpensemble._spending import Spending
from dpensemble.accounting import Change, price
from dpensemble.errors import BudgetError
from dpensemble.laws import GaussianNoisyMax
from dpensemble.server.filters import Amount

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")

SHARED = {"classes": [0, 1], "insecure_release_seed": 0, "random_state": 0}
FEW = SHARED | {"n_teachers": 20, "max_labels": 10, "epsilon": 1.0}
MODELS = {
    "auto": AutoClassifier(**SHARED),
    "bagged pate": BaggedPATEClassifier(**FEW, subsample=10),
    "bagging": BaggingPrivacyClassifier(**SHARED, delta=0.05),
    "dpbag": DPBaggingClassifier(**FEW),
    "label moments": LabelMomentsClassifier(**SHARED),
    "pate": PATEClassifier(**FEW),
    "gated pate": PATEClassifier(**FEW | {"max_labels": None, "epsilon": 4.0}, law="confident-gnmax"),
    "private majority": PrivateMajorityClassifier(**SHARED),
    "random subspace": RandomSubspaceClassifier(**FEW),
    "saa": SubsampleAggregateClassifier(**FEW),
    "upsampling": UpsamplingPATEClassifier(**FEW),
    "vanishing": VanishingPATEClassifier(**FEW),
    "weighting": WeightingPATEClassifier(**FEW),
}
# Only epsilon and delta are known of these. With this few records "auto" asks private majorities.
WITHOUT_CURVE = {"bagging", "private majority", "auto"}
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


@pytest.mark.parametrize("name", sorted(set(MODELS) - {"upsampling", "vanishing", "weighting", "bagged pate"}))
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
    if name not in ("bagging", "bagged pate"):
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
