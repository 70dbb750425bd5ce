"""Budgets for good, and answers over HTTP: the ledger, the service, its client, and their commands."""

from __future__ import annotations

from importlib import import_module

from dpensemble.errors import DPEnsembleError, LedgerError

# As `typing` defines it. Importing `typing` takes long enough to be interrupted.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from dpensemble.server.account import AccountState, Charge, LedgerAccount
    from dpensemble.server.app import create_app
    from dpensemble.server.client import Answered, Client
    from dpensemble.server.entry_log import Verified
    from dpensemble.server.filters import Terms
    from dpensemble.server.ledger import Ledger, StatedRelease
    from dpensemble.server.mailbox import serve_mailbox as serve_mailbox
    from dpensemble.server.settings import read_settings

__all__ = [
    "AccountState",
    "Answered",
    "Charge",
    "Client",
    "Ledger",
    "LedgerAccount",
    "StatedRelease",
    "Terms",
    "Verified",
    "create_app",
    "read_settings",
]

# Module of each name, imported on first use: a ledger needs no web server, and a client needs only Python.
_OF_LEDGER = {
    "AccountState": "account",
    "Charge": "account",
    "Ledger": "ledger",
    "LedgerAccount": "account",
    "StatedRelease": "ledger",
    "Terms": "filters",
    "Verified": "entry_log",
}
_OF_SERVICE = {"create_app": "app", "read_settings": "settings", "serve_mailbox": "mailbox"}
_OF_CLIENT = {"Answered": "client", "Client": "client"}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        modules = _OF_LEDGER | _OF_SERVICE | _OF_CLIENT
        if name not in modules:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name not in _OF_CLIENT:
            _require("a ledger", "ledger", LedgerError, "dpensemble.server.ledger")
        if name in _OF_SERVICE:
            # `serve` runs on uvicorn.
            _require("the service", "service", DPEnsembleError, "uvicorn", "dpensemble.server.app")
        globals()[name] = vars(import_module(f"{__name__}.{modules[name]}"))[name]
        return globals()[name]


def _require(who: str, extra: str, refusal: type[DPEnsembleError], *modules: str) -> None:
    """Import modules, or name the extra that is not installed."""
    try:
        for module in modules:
            import_module(module)
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == "dpensemble":
            raise
        raise refusal(
            f'{who} needs {missing}, which is not installed: run pip install "dpensemble[{extra}]".'
        ) from error


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__} - {"TYPE_CHECKING", "annotations"})
