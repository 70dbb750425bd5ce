"""One charge for a fit and its score."""

import pytest

from dpensemble._spending import Spending
from dpensemble.cost import PrivacyCost
from dpensemble.errors import BudgetError
from dpensemble.server import Ledger
from dpensemble.workflow.holdout import WithScore


def test_a_score_costs_its_own_price_where_the_fit_costs_less(tmp_path, monkeypatch):
    monkeypatch.setenv("DPENSEMBLE_STATE", str(tmp_path / "state"))
    account = Ledger.create(tmp_path / "ledger.db").open_account("t", epsilon=3, delta=1e-5)
    paid = WithScore(account)
    free = PrivacyCost.zero()
    paid.one_release("a fit")([Spending(name="everyone", epsilon=1.0, delta=1e-5, find_cost=lambda: free)])
    assert account.state().spent.loss > 200_000
    paid.require_paid(1.0, 1e-5)
    for epsilon, delta in ((1.001, 1e-5), (1.0, 1.1e-5)):
        with pytest.raises(BudgetError, match="in parts"):
            paid.require_paid(epsilon, delta)
