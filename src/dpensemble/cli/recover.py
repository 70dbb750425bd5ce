"""``dpensemble recover``."""

from __future__ import annotations

import contextlib
import io
import json
import os
from dataclasses import asdict
from functools import partial
from pathlib import Path

import typer

from dpensemble.cli.interrupts import INTERRUPTS
from dpensemble.cli.options import Unfinished
from dpensemble.errors import InvalidParameterError, file_errors
from dpensemble.workflow.disk import COMMAND, INPUTS, WORKING_FOLDER, Journal, budget_words
from dpensemble.workflow.run_folder import (
    Recovered,
    checked_folder,
    recover,
    require_unchanged,
    state_of,
    unfinished_run,
    where_charged,
)


def run(run: Path, overwrite: bool, give_up: bool, unsigned: bool, as_json: bool) -> None:
    """Finish what an interrupted run left."""
    if give_up and unsigned:
        raise InvalidParameterError("--give-up runs nothing, so --unsigned has no meaning beside it: drop one of them.")
    folder = checked_folder(run)
    INTERRUPTS.follow(partial(state_of, folder), lambda: False)
    journal = None if give_up else unfinished_run(folder, _was_charged, unsigned=unsigned)
    if journal is None:
        recovered = recover(folder, overwrite=overwrite, unsigned=unsigned)
    else:
        recovered = _finished(journal, Unfinished(overwrite, folder))
    typer.echo(json.dumps(asdict(recovered), indent=2) if as_json else recovered.what)


def _was_charged(journal: Journal) -> bool:
    """Check in the ledger whether an interrupted run was charged."""
    # The extra of the ledger is needed only here.
    from dpensemble.server import Ledger  # noqa: PLC0415

    ledger, data_set, release = where_charged(journal)
    return Ledger(ledger).account(data_set).has_release(release)


def _finished(journal: Journal, unfinished: Unfinished) -> Recovered:
    """Repeat the command of an unfinished run with the noise that it has drawn, and without a second charge."""
    from dpensemble.cli.app import parsed_and_run  # noqa: PLC0415 - which imports the commands

    folder, arguments = journal.about[WORKING_FOLDER], journal.about[COMMAND]
    with file_errors(
        lambda reason: (
            f"the inputs of the run in {folder!r:.200} cannot be read ({reason}): restore them, or give "
            "--give-up to keep the account of what was spent."
        )
    ):
        if "\0" in folder or any("\0" in name for name in journal.about[INPUTS]):
            raise OSError(0, "a name holds a null character")
        require_unchanged(journal)
        os.listdir(folder)
    with (
        contextlib.chdir(folder),
        # The page of the run shows what the run prints.
        contextlib.redirect_stdout(io.StringIO()),
    ):
        parsed_and_run(arguments, unfinished)
    return Recovered(
        out=journal.out,
        placed=True,
        budgets=journal.budgets,
        account=None,
        what=f"The run was finished from what it had drawn, and stands in {journal.out}. It spent "
        f"{budget_words(journal.budgets)} when it began; nothing more was charged.",
    )
