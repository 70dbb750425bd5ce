"""A permanent ledger: lifetime budgets of data sets, charged before noise is drawn."""

from dpensemble.ledger.account_state import AccountState
from dpensemble.ledger.accounts import Charge, LedgerAccount
from dpensemble.ledger.filters import Terms
from dpensemble.ledger.ledger import Ledger
from dpensemble.ledger.verify import Verified

__all__ = [
    "AccountState",
    "Charge",
    "Ledger",
    "LedgerAccount",
    "Terms",
    "Verified",
]
