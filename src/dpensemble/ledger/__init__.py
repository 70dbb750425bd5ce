"""A permanent ledger: lifetime budgets of data sets, charged before noise is drawn."""

from dpensemble.errors import LedgerError

try:
    from dpensemble.ledger.account_state import AccountState
    from dpensemble.ledger.accounts import Charge, LedgerAccount
    from dpensemble.ledger.filters import Terms
    from dpensemble.ledger.ledger import Ledger
    from dpensemble.ledger.restoring import StatedRelease
    from dpensemble.ledger.verify import Verified
except ImportError as error:
    missing = (error.name or "").partition(".")[0]
    if missing == "dpensemble":
        raise
    raise LedgerError(
        f'a ledger needs {missing}, which is not installed: run pip install "dpensemble[ledger]".'
    ) from error

__all__ = [
    "AccountState",
    "Charge",
    "Ledger",
    "LedgerAccount",
    "StatedRelease",
    "Terms",
    "Verified",
]
