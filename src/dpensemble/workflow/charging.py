"""One charge for a run, after its journal has recorded the planned charge, and what is needed to finish the run.

An interrupted run needs its command and unchanged inputs.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from dpensemble._announce import Spending
from dpensemble.errors import FileError, LedgerError
from dpensemble.workflow import durable
from dpensemble.workflow.journal import CHARGE, COMMAND, INPUTS, WORKING_FOLDER, Journal
from dpensemble.workflow.run_folder import RunFolder

_LEDGER, _DATA_SET, _RELEASE = "ledger", "data_set", "release"


class JournaledAccount:
    """An account for the fit of one run.

    A process may end at any moment while the account is charged. The journal is written before the charge and names its
    key, so the ledger shows afterwards whether the run was charged. A resumed run uses the same key, so nothing is
    charged twice. `check` raises if a signal has arrived.
    """

    def __init__(self, account: Any, ledger: str, place: RunFolder, check: Callable[[], None]) -> None:
        self._account, self._place, self._check = account, place, check
        charge = {} if place.journal is None else place.journal.about.get(CHARGE, {})
        self._release = charge.get(_RELEASE) or secrets.token_hex(16)
        self._where = {_LEDGER: ledger, _DATA_SET: account.data_set, _RELEASE: self._release}

    def one_release(self, what: str) -> Callable[[Sequence[Spending]], None]:
        """Return the function that charges one fit."""
        charge = self._account.one_release(what, release=self._release)

        def noted(spendings: Sequence[Spending]) -> None:
            self._check()
            # A fit and its score are announced together, under the name of one group.
            budgets = {one.name: one.to_dict() for one in spendings}
            self._place.ask(list(budgets.values()), self._where)
            try:
                charge(spendings)
            except BaseException:
                # The journal stays if the outcome is unknown.
                with durable.signals_later(), suppress(LedgerError):
                    if not self._account.has_release(self._release):
                        self._place.withdraw()
                raise

        return noted


def where_charged(journal: Journal) -> tuple[str, str, str]:
    """Return the ledger, the data set and the key of a run's planned charge."""
    charge = journal.about[CHARGE]
    return charge[_LEDGER], charge[_DATA_SET], charge[_RELEASE]


def about_run(command: Sequence[str], inputs: Sequence[Path], **facts: Any) -> dict[str, Any]:
    """Return a journal's facts about a run: its command (empty if it cannot be repeated), inputs and more facts."""
    if not command:
        return facts
    states = {str(path): _state(path) for path in inputs}
    return facts | {COMMAND: list(command), WORKING_FOLDER: os.getcwd(), INPUTS: states}


def require_unchanged(journal: Journal) -> None:
    """Raise if the inputs of a run have changed since it began."""
    working_folder = Path(journal.about[WORKING_FOLDER])
    for name, state in journal.about[INPUTS].items():
        if _state(working_folder / name) != state:
            raise FileError(
                f"{name} has changed since the run into {journal.out} began, so it cannot be finished: restore the "
                "file, or give --give-up to keep the account of what was spent."
            )


def _state(path: Path) -> list[Any]:
    """Return names and digests of the contents of a file or of all files in a folder. For their owner only."""
    files = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
    # By content: a restored file counts as the same file, but a file of the same size and time may not.
    return [[one.name, _digest(one)] for one in files if one.exists()]


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
