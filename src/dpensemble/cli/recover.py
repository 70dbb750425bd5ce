"""``dpensemble recover``."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import asdict
from functools import partial
from pathlib import Path

import typer

from dpensemble.cli.interrupts import INTERRUPTS
from dpensemble.cli.options import Unfinished
from dpensemble.errors import InvalidParameterError
from dpensemble.workflow.recovery import Recovered, recover, state_of, unfinished_run
from dpensemble.workflow.run_folder import checked_folder


def run(run: Path, overwrite: bool, give_up: bool, unsigned: bool, as_json: bool) -> None:
    """Finish what an interrupted run left."""
    # The command line imports this function.
    from dpensemble.cli.app import parsed_and_run  # noqa: PLC0415

    if give_up and unsigned:
        raise InvalidParameterError("--give-up runs nothing, so --unsigned has no meaning beside it: drop one of them.")
    folder = checked_folder(run)
    INTERRUPTS.follow(partial(state_of, folder), lambda: False)
    journal = None if give_up else unfinished_run(folder, _was_charged, unsigned=unsigned)
    if journal is None:
        recovered = recover(folder, overwrite=overwrite, unsigned=unsigned)
    else:
        journal.require_repeatable()
        # With the noise that it has drawn, and without a second charge. The page of the run shows what the run prints.
        with contextlib.chdir(journal.working_folder), contextlib.redirect_stdout(io.StringIO()):
            parsed_and_run(journal.command, Unfinished(overwrite, folder))
        recovered = Recovered.by_its_command(journal)
    typer.echo(json.dumps(asdict(recovered), indent=2) if as_json else recovered.what)


def _was_charged(ledger: str, data_set: str, release: str) -> bool:
    """Return whether a ledger shows the charge of an interrupted run."""
    # The extra of the ledger is needed only here.
    from dpensemble.server import Ledger  # noqa: PLC0415

    return Ledger(ledger).account(data_set).has_release(release)
