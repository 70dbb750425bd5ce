"""Recover from a killed run."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dpensemble.errors import FileError, file_errors
from dpensemble.workflow import durable
from dpensemble.workflow.claim import Claim, beside, journal_path
from dpensemble.workflow.journal import COMMAND, INPUTS, WORKING_FOLDER, Journal, Stage, budget_words, read_journal
from dpensemble.workflow.run_folder import checked_folder, place_waiting


@dataclass(frozen=True, kw_only=True)
class Recovered:
    """The outcome for a killed run: whether its release is in place now, and what was spent on each group.

    `account` is the file that records the spending if no release records it. `what` is all this in a sentence.
    """

    out: str
    placed: bool
    budgets: list[dict[str, Any]]
    account: str | None
    what: str


def settle_charge(folder: Path, was_charged: Callable[[Journal], bool]) -> None:
    """Record whether a run has spent, after checking the ledger, if the run ended while the ledger was charged."""
    folder = checked_folder(folder)
    path = journal_path(folder)
    if not path.exists():
        return
    claim = Claim(folder)
    try:
        with _recovering(folder):
            journal = read_journal(path)
            if journal is None or journal.stage != Stage.ASKING:
                return
            if was_charged(journal):
                replace(journal, stage=Stage.SPENT.value).write(path)
            else:
                durable.remove(path)
    finally:
        claim.release(remove=False)


def recover(folder: Path, *, overwrite: bool = False) -> Recovered:
    """Put a finished release in its place, or file the account of a budget that was spent without a release."""
    folder = checked_folder(folder)
    if not beside(folder).is_dir():
        raise FileError(f"{folder} has no unfinished run beside it; there is nothing to recover.")
    claim = Claim(folder)
    try:
        with _recovering(folder):
            recovered = _recovered(claim, folder, overwrite=overwrite)
    except BaseException:
        claim.release(remove=False)
        raise
    claim.release(remove=True)
    return recovered


def _recovered(claim: Claim, folder: Path, *, overwrite: bool) -> Recovered:
    path = journal_path(folder)
    journal = read_journal(path)
    if journal is None:
        what = f"The run into {folder} ended before it spent anything; its files were removed."
        return Recovered(out=str(folder), placed=False, budgets=[], account=None, what=what)
    if journal.stage == Stage.FINISHED:
        place_waiting(claim, journal, overwrite=overwrite)
        what = f"The finished release stands in {folder}; it spent {budget_words(journal.budgets)}."
        return Recovered(out=str(folder), placed=True, budgets=journal.budgets, account=None, what=what)
    account = _account(folder)
    # Finishing a run requires its command and digests of its tables. Digests would allow checking guesses at a table.
    facts = {name: fact for name, fact in journal.about.items() if name not in (COMMAND, WORKING_FOLDER, INPUTS)}
    replace(journal, about=facts).write(path)
    os.link(path, account)
    durable.sync_folder(account.parent)
    what = (
        f"{budget_words(journal.budgets).capitalize()} {_surely(journal)} spent without a release, as {account} "
        f"records: add it to all that is spent on the same records. The folder {folder} is free again."
    )
    return Recovered(out=str(folder), placed=False, budgets=journal.budgets, account=str(account), what=what)


def _recovering(folder: Path) -> AbstractContextManager[None]:
    return file_errors(lambda reason: f"{folder} cannot be recovered ({reason}); nothing was lost, so try again.")


def _surely(journal: Journal) -> str:
    return "may be" if journal.stage == Stage.ASKING else "is"


def _account(folder: Path) -> Path:
    """Return an unused file name beside a folder."""
    name = f"{folder.name}-spent-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    path, turn = folder.with_name(f"{name}.json"), 1
    while path.exists():
        turn += 1
        path = folder.with_name(f"{name}-{turn}.json")
    return path
