"""What an interrupted run left beside its folder: a release that is put in its place, or the account of what was spent.

A journal names the command that finishes the run, and the ledger that may have been charged. So only a journal that
this user signed on this machine is followed, unless the user vouches for it.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dpensemble._checks import printable
from dpensemble._files import state_home, sync_folder
from dpensemble.errors import FileError, file_errors
from dpensemble.workflow.disk import Claim, journal_path
from dpensemble.workflow.outputs import RunFile
from dpensemble.workflow.run_folder import Journal, checked_folder

# Commands that write journals.
_COMMANDS = ("train", "lifetable")


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


def unfinished_run(
    folder: Path, was_charged: Callable[[str, str, str], bool], *, unsigned: bool = False
) -> Journal | None:
    """Return the journal of a run that spent its budget and can be finished, or None.

    If the run ended while the ledger was charged, `was_charged` checks the ledger first, and the result is recorded.

    Parameters
    ----------
    folder : Path
        The run's folder.
    was_charged : callable
        Returns whether a ledger shows the run's charge, by the ledger, the data set and the key of the charge.
    unsigned : bool, default=False
        Whether to trust a journal without a signature of this user's state folder. The journal names a command and a
        ledger, so a stranger's journal could run and open anything.

    Raises
    ------
    FileError
        If the journal names a command other than ``train`` and ``lifetable``, or if it is not signed and `unsigned` is
        not given.
    """
    folder = checked_folder(folder)
    _require_beside(folder)
    claim = Claim(folder)
    try:
        with _recovering(folder):
            journal = Journal.read(claim.journal, journal_path(folder))
            if journal is None or (journal.is_spent and not journal.is_repeatable):
                return None
            _require_trusted(journal, folder, unsigned=unsigned)
            if journal.is_asked:
                journal = _settled(journal, claim, was_charged)
            return journal if journal is not None and journal.is_spent else None
    finally:
        claim.release(remove=False)


def _settled(journal: Journal, claim: Claim, was_charged: Callable[[str, str, str], bool]) -> Journal | None:
    """Record whether the ledger was charged. Return the journal of a run that has spent, or None."""
    if not was_charged(*journal.charged_at):
        claim.remove_journal()
        return None
    spent = journal.as_spent()
    spent.write(claim.journal, journal_path(claim.folder))
    return spent if spent.is_repeatable else None


def _require_trusted(journal: Journal, folder: Path, *, unsigned: bool) -> None:
    command = journal.command
    if command and command[0] not in _COMMANDS:
        raise FileError(
            f"{journal_path(folder)} names a command other than {' and '.join(map(repr, _COMMANDS))}, which no run "
            "writes: look into it, and give --give-up to keep its account of what was spent."
        )
    if unsigned or journal.is_signed:
        return
    does = [f"opens the ledger {journal.charged_at[0]}"] if journal.is_asked else []
    does += [f"puts the release beside it into {folder}"] if journal.is_finished else []
    does += [f"runs {shlex.join(['dpensemble', *command])}"] if command and not journal.is_finished else []
    raise FileError(
        f"{journal_path(folder)} has no signature of the state folder {state_home()}, since an earlier version, "
        f"another user or another machine wrote it. It {printable(' and '.join(does))}. If you "
        "want that, give --unsigned. To keep the account of what was spent, give --give-up."
    )


def recover(
    folder: Path, *, overwrite: bool = False, unsigned: bool = False, repeated: Journal | None = None
) -> Recovered:
    """Put a finished release in its place, or file the account of a budget that was spent without a release.

    After the command in a journal was `repeated`, the release is in its place already.

    A finished release replaces a folder. Without a signature of this user's state folder, only its account is filed,
    unless `unsigned` is given. `overwrite` replaces files of a later run.
    """
    if repeated is not None:
        what = (
            f"The run was finished from what it had drawn, and stands in {repeated.out}. It spent "
            f"{repeated.budgets_in_words} when it began; nothing more was charged."
        )
        return Recovered(out=repeated.out, placed=True, budgets=repeated.budgets, account=None, what=what)
    folder = checked_folder(folder)
    _require_beside(folder)
    claim = Claim(folder)
    try:
        with _recovering(folder):
            recovered = _recovered(claim, folder, overwrite=overwrite, unsigned=unsigned)
    except BaseException:
        claim.release(remove=False)
        raise
    claim.release(remove=True)
    return recovered


def state_of(folder: Path) -> str:
    """Return what there is of an interrupted run, as a sentence without its full stop."""
    path = journal_path(folder)
    try:
        journal = Journal.read(path, path)
    except FileError:
        return f"see {path}"
    if journal is not None:
        return journal.sentence(path)
    return f"a release stands in {folder}" if (folder / RunFile.RECORD).exists() else "nothing was written"


def _require_beside(folder: Path) -> None:
    if not os.path.lexists(journal_path(folder).parent):
        raise FileError(f"{folder} has no unfinished run beside it; there is nothing to recover.")


def _recovered(claim: Claim, folder: Path, *, overwrite: bool, unsigned: bool) -> Recovered:
    journal = Journal.read(claim.journal, journal_path(folder))
    if journal is None:
        what = f"The run into {folder} ended before it spent anything; its files were removed."
        return Recovered(out=str(folder), placed=False, budgets=[], account=None, what=what)
    if journal.is_finished and (unsigned or journal.is_signed):
        journal.put_in_place(claim, overwrite=overwrite)
        what = f"The finished release stands in {folder}; it spent {journal.budgets_in_words}."
        return Recovered(out=str(folder), placed=True, budgets=journal.budgets, account=None, what=what)
    account = _account(folder)
    # What is needed to finish a run would allow checking guesses at a table.
    journal.without_inputs().write(claim.journal, journal_path(folder))
    os.link(claim.journal, claim.run_folder.with_name(account.name))
    sync_folder(claim.run_folder.parent)
    what = (
        f"{journal.budgets_in_words.capitalize()} {_surely(journal)} spent without a release, as {account} "
        f"records: add it to all that is spent on the same records. The folder {folder} is free again."
    )
    return Recovered(out=str(folder), placed=False, budgets=journal.budgets, account=str(account), what=what)


def _recovering(folder: Path) -> AbstractContextManager[None]:
    return file_errors(lambda reason: f"{folder} cannot be recovered ({reason}); nothing was lost, so try again.")


def _surely(journal: Journal) -> str:
    return "may be" if journal.is_asked else "is"


def _account(folder: Path) -> Path:
    """Return an unused file name beside a folder."""
    name = f"{folder.name}-spent-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    path, turn = folder.with_name(f"{name}.json"), 1
    while path.exists():
        turn += 1
        path = folder.with_name(f"{name}-{turn}.json")
    return path
