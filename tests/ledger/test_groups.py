"""Names of groups decide nothing: every run charges its largest loss to the account that all people share."""

import numpy as np
import pytest

from dpensemble import WeightingPATEClassifier
from dpensemble._spending import Spending
from dpensemble.errors import BudgetError, LedgerError
from dpensemble.server import Ledger
from dpensemble.server.filters import Amount

from .conftest import open_group_as_before, spend

RNG = np.random.default_rng(0)
X, X_PUBLIC = RNG.normal(size=(240, 3)), RNG.normal(size=(110, 3))
Y = (X[:, 0] > 0).astype(int)


def fit(account, level):
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
    fit(account, "A")
    spent = account.state().spent
    assert 900_000 < spent.loss <= 1_000_000
    for level in "BC":
        with pytest.raises(BudgetError, match="nothing was charged"):
            fit(account, level)
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
