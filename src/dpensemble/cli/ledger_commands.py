"""Options of the commands `dpensemble ledger ACTION`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from dpensemble.cli.command_parts import Commands, Json, option, print_answer
from dpensemble.cli.option import DATA, OUTPUT, PRIVACY
from dpensemble.relations import Relation

_Where = Annotated[str, typer.Argument(metavar="LEDGER", help="File, or postgresql://user@host/name.")]
_Name = Annotated[str, typer.Argument(metavar="DATA_SET", help="Name of the data set.")]
_run = partial(print_answer, "server.ledger_commands:run")


def ledger_create(ledger: _Where, as_json: Json = False) -> None:
    """Create a ledger and its signing key.

    Example: dpensemble ledger create ledger.db
    """
    _run(action="create", ledger=ledger, as_json=as_json)


def ledger_open(
    ledger: _Where,
    data_set: _Name,
    epsilon: Annotated[float, option(PRIVACY, "Budget of all releases, for good. Required.")],
    delta: Annotated[float | None, option(PRIVACY, "Its delta. Required.")] = None,
    how: Annotated[
        str,
        option(PRIVACY, "How costs add up: renyi (default), gdp, zcdp, or basic (one or two releases).", "--filter"),
    ] = "renyi",
    relation: Annotated[
        Relation, option(PRIVACY, "Neighbouring relation of all releases. [replace-one]")
    ] = Relation.REPLACE_ONE,
    order: Annotated[
        float | None, option(PRIVACY, "Renyi order. [the order at which Gaussian noise costs least]")
    ] = None,
    group: Annotated[str | None, option(PRIVACY, "Refused: a later run may name the same people otherwise.")] = None,
    as_json: Json = False,
) -> None:
    """Open the account of a data set: a budget for all releases of it, for good. The budget never changes.

    Example: dpensemble ledger open ledger.db patients --epsilon 3 --delta 1e-5
    """
    _run(action="open", **locals())


def ledger_show(ledger: _Where, as_json: Json = False) -> None:
    """Verify the ledger, and show what is left of each data set.

    Example: dpensemble ledger show ledger.db
    """
    _run(action="show", ledger=ledger, as_json=as_json)


def ledger_verify(
    ledger: _Where,
    checkpoint: Annotated[
        list[Path] | None, option(DATA, "Signed checkpoint from another place; several may be given.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check every hash and every sum, and that no entry before a checkpoint is missing.

    Example: dpensemble ledger verify ledger.db --checkpoint october.json
    """
    _run(action="verify", ledger=ledger, checkpoint=checkpoint or [], as_json=as_json)


def ledger_export(
    ledger: _Where,
    out: Annotated[Path, option(OUTPUT, "File for all entries, one line of JSON each. Required.")],
    as_json: Json = False,
) -> None:
    """Write all entries to a file. They contain answers and settings, but no votes.

    Example: dpensemble ledger export ledger.db --out entries.jsonl
    """
    _run(action="export", ledger=ledger, out=out, as_json=as_json)


def ledger_checkpoint(
    ledger: _Where,
    out: Annotated[Path, option(OUTPUT, "File for the signed statement. Required.")],
    as_json: Json = False,
) -> None:
    """Sign the ledger's last entry. Store the file away from the ledger, for ledger verify.

    Example: dpensemble ledger checkpoint ledger.db --out october.json
    """
    _run(action="checkpoint", ledger=ledger, out=out, as_json=as_json)


def ledger_protect(ledger: _Where, as_json: Json = False) -> None:
    """Verify the ledger, and create missing triggers, for example in a ledger of an earlier version.

    Example: dpensemble ledger protect ledger.db
    """
    _run(action="protect", ledger=ledger, as_json=as_json)


def ledger_forget(
    ledger: _Where,
    name: Annotated[str, option(PRIVACY, "Id of the earlier ledger. Required.", "--id")],
    witness: Annotated[Path | None, option(DATA, "Its witness file, if not in the usual folder.")] = None,
    as_json: Json = False,
) -> None:
    """Give up a ledger for good, so that another ledger can take its place.

    Example: dpensemble ledger forget ledger.db --id 113b2ca8-57aa-4c2a-a06a-2f8012c9d723
    """
    _run(action="forget", ledger=ledger, name=name, witness=witness, as_json=as_json)


def ledger_charge(
    ledger: _Where,
    data_set: _Name,
    epsilon: Annotated[float, option(PRIVACY, "Epsilon of the release. Required.")],
    delta: Annotated[float, option(PRIVACY, "Its delta. Required.")],
    what: Annotated[str, option(PRIVACY, "A short public description. Required.")],
    as_json: Json = False,
) -> None:
    """Charge a release that was made without the ledger. A charge stays for good.

    Example: dpensemble ledger charge ledger.db patients --epsilon 0.2 --delta 1e-9 --what "a table in the report"
    """
    _run(action="charge", **locals())


def ledger_restored(
    ledger: _Where,
    checkpoint: Annotated[
        list[Path] | None, option(DATA, "Newest signed checkpoint from another place; several may be given.")
    ] = None,
    released: Annotated[
        list[str] | None,
        option(PRIVACY, "Folder of a run after the checkpoint, RUN or DATA_SET=RUN; several may be given."),
    ] = None,
    nothing_released: Annotated[
        bool, option(PRIVACY, "State that nothing else was released after the checkpoint.", "--nothing-released")
    ] = False,
    joins: Annotated[
        bool, option(PRIVACY, "State that another machine charges this ledger in PostgreSQL.", "--joins")
    ] = False,
    as_json: Json = False,
) -> None:
    """Charge a restored ledger for what was released since its copy: by default all that is left of every account.

    Example: dpensemble ledger restored ledger.db --checkpoint october.json
    """
    _run(
        action="restored",
        ledger=ledger,
        checkpoint=checkpoint or [],
        released=released or [],
        nothing_released=nothing_released,
        joins=joins,
        as_json=as_json,
    )


def ledger_move(
    ledger: _Where,
    to: Annotated[str, option(OUTPUT, "Address of an empty database, postgresql://user@host/name. Required.")],
    as_json: Json = False,
) -> None:
    """Move a ledger from a file to PostgreSQL. Its last entry closes the file.

    Example: dpensemble ledger move ledger.db --to postgresql://owner@localhost/ledgers
    """
    _run(action="move", ledger=ledger, to=to, as_json=as_json)


LEDGER: Commands = {
    "create": ledger_create,
    "open": ledger_open,
    "show": ledger_show,
    "verify": ledger_verify,
    "export": ledger_export,
    "checkpoint": ledger_checkpoint,
    "protect": ledger_protect,
    "forget": ledger_forget,
    "charge": ledger_charge,
    "restored": ledger_restored,
    "move": ledger_move,
}
