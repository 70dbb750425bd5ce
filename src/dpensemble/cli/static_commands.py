"""Options of all commands but ``train`` and ``plan``. The modules that do the work are imported on use."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from dpensemble.cli.interrupts import INTERRUPTS
from dpensemble.cli.options import Panel, PlainCommand, PlainGroup
from dpensemble.relations import Relation

DATA, PRIVACY, METHOD, OUTPUT = Panel

#: Functions of typer by what people type.
Commands = dict[str, Callable[..., None]]


def option(panel: Panel, text: str, *names: str, metavar: str | None = None) -> Any:
    """Return an option with its panel of the help. The text states the default."""
    return typer.Option(*names, help=text, rich_help_panel=panel.value, show_default=False, metavar=metavar)


def _print_answer(answer: dict[str, Any], words: str, as_json: bool) -> None:
    """Print one of two forms of an answer."""
    typer.echo(json.dumps(answer, indent=2) if as_json else words)


Json = Annotated[bool, option(OUTPUT, "Print the result as JSON.", "--json")]
_Sep = Annotated[str | None, option(DATA, "Separator of columns in CSV, such as ';' or tab.")]
_Decimal = Annotated[str | None, option(DATA, "Decimal sign of numbers in CSV: . or ,")]
_MultilineText = Annotated[bool, option(DATA, "Quoted texts may hold line breaks.", "--multiline-text")]
_SkipLines = Annotated[int | None, option(DATA, "Lines above the header of CSV files. [seen]", "--skip-lines")]
_Sheet = Annotated[str | None, option(DATA, "Sheet of Excel workbooks. [the only visible one]")]
_Column = Annotated[
    list[str] | None, option(DATA, "Kind of a column where public rows show none.", metavar="NAME=KIND")
]
_Blank = Annotated[list[str] | None, option(DATA, "Entry that is a blank; for one column NAME=ENTRY.", metavar="ENTRY")]
_BelowLimit = Annotated[str | None, option(DATA, "What <5 is: limit or half of it. [limit]", "--below-limit")]
Plot = Annotated[Path | None, option(OUTPUT, "Also draw it as SVG.")]

_Where = Annotated[str, typer.Argument(metavar="LEDGER", help="File, or postgresql://user@host/name.")]
_Name = Annotated[str, typer.Argument(metavar="DATA_SET", help="Name of the data set.")]


def _run_ledger(*, as_json: bool, **values: Any) -> None:
    with INTERRUPTS.at_once():
        from dpensemble._work import progress_on_stderr  # noqa: PLC0415
        from dpensemble.server.ledger_commands import run  # noqa: PLC0415
    with progress_on_stderr("Reading the ledger"):
        answer = run(**values)
    _print_answer(*answer, as_json)


def _run_keys(*, as_json: bool, **values: Any) -> None:
    with INTERRUPTS.at_once():
        from dpensemble.server.service_commands import run_keys  # noqa: PLC0415
    _print_answer(*run_keys(**values), as_json)


def ledger_create(ledger: _Where, as_json: Json = False) -> None:
    """Create a ledger and its signing key.

    Example: dpensemble ledger create ledger.db
    """
    _run_ledger(action="create", ledger=ledger, as_json=as_json)


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
    _run_ledger(action="open", **locals())


def ledger_show(ledger: _Where, as_json: Json = False) -> None:
    """Verify the ledger, and show what is left of each data set.

    Example: dpensemble ledger show ledger.db
    """
    _run_ledger(action="show", ledger=ledger, as_json=as_json)


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
    _run_ledger(action="verify", ledger=ledger, checkpoint=checkpoint or [], as_json=as_json)


def ledger_export(
    ledger: _Where,
    out: Annotated[Path, option(OUTPUT, "File for all entries, one line of JSON each. Required.")],
    as_json: Json = False,
) -> None:
    """Write all entries to a file. They contain answers and settings, but no votes.

    Example: dpensemble ledger export ledger.db --out entries.jsonl
    """
    _run_ledger(action="export", ledger=ledger, out=out, as_json=as_json)


def ledger_checkpoint(
    ledger: _Where,
    out: Annotated[Path, option(OUTPUT, "File for the signed statement. Required.")],
    as_json: Json = False,
) -> None:
    """Sign the ledger's last entry. Store the file away from the ledger, for ledger verify.

    Example: dpensemble ledger checkpoint ledger.db --out october.json
    """
    _run_ledger(action="checkpoint", ledger=ledger, out=out, as_json=as_json)


def ledger_protect(ledger: _Where, as_json: Json = False) -> None:
    """Verify the ledger, and create missing triggers, for example in a ledger of an earlier version.

    Example: dpensemble ledger protect ledger.db
    """
    _run_ledger(action="protect", ledger=ledger, as_json=as_json)


def ledger_forget(
    ledger: _Where,
    name: Annotated[str, option(PRIVACY, "Id of the earlier ledger. Required.", "--id")],
    witness: Annotated[Path | None, option(DATA, "Its witness file, if not in the usual folder.")] = None,
    as_json: Json = False,
) -> None:
    """Give up a ledger for good, so that another ledger can take its place.

    Example: dpensemble ledger forget ledger.db --id 113b2ca8-57aa-4c2a-a06a-2f8012c9d723
    """
    _run_ledger(action="forget", ledger=ledger, name=name, witness=witness, as_json=as_json)


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
    _run_ledger(action="charge", **locals())


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
    _run_ledger(
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
    _run_ledger(action="move", ledger=ledger, to=to, as_json=as_json)


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


def serve(
    config: Annotated[Path, typer.Argument(help="The service's configuration, TOML.")],
    host: Annotated[str, option(OUTPUT, "Address to listen at. [127.0.0.1]")] = "127.0.0.1",
    port: Annotated[int, option(OUTPUT, "Port. [8000]")] = 8000,
    certificate: Annotated[Path | None, option(OUTPUT, "Certificate for TLS, unless a proxy does it.")] = None,
    certificate_key: Annotated[Path | None, option(OUTPUT, "Its key.")] = None,
    check: Annotated[bool, option(OUTPUT, "Only print what would be served, and check it.", "--check")] = False,
    as_json: Json = False,
) -> None:
    """Answer over HTTP, from posted votes or hosted teachers. Each answer is charged before it is drawn.

    Example: dpensemble serve service.toml --port 8000
    """
    with INTERRUPTS.at_once():
        from dpensemble._work import progress_on_stderr  # noqa: PLC0415
        from dpensemble.server.service_commands import check_service, run_service  # noqa: PLC0415
    if check:
        with progress_on_stderr("Checking the service"):
            answer = check_service(config=config)
        _print_answer(*answer, as_json)
        return
    run_service(
        config=config,
        follow=INTERRUPTS.follow,
        host=host,
        port=port,
        certificate=certificate,
        certificate_key=certificate_key,
    )


_Keys = Annotated[Path, typer.Argument(metavar="KEYS", help="File of keys.")]


def keys_create(
    keys: _Keys,
    holder: Annotated[str, typer.Argument(metavar="HOLDER", help="Whose key it is.")],
    scope: Annotated[list[str], option(PRIVACY, "read, predict, metrics, messages or own. Required.")],
    grant: Annotated[list[str] | None, option(PRIVACY, "Grant of the key; several may be given. [all]")] = None,
    days: Annotated[int | None, option(PRIVACY, "Days until it expires. [never]")] = None,
    as_json: Json = False,
) -> None:
    """Create an API key for the service, and print it once. The file stores a hash.

    Example: dpensemble keys create keys.json alice --scope read --scope predict
    """
    _run_keys(action="create", **locals())


def keys_list(keys: _Keys, as_json: Json = False) -> None:
    """List API keys without their secrets.

    Example: dpensemble keys list keys.json
    """
    _run_keys(action="list", keys=keys, as_json=as_json)


def keys_revoke(
    keys: _Keys, key: Annotated[str, typer.Argument(metavar="ID", help="Id from keys list.")], as_json: Json = False
) -> None:
    """Revoke an API key at once.

    Example: dpensemble keys revoke keys.json 1f2e3d4c5b6a
    """
    _run_keys(action="revoke", keys=keys, key=key, as_json=as_json)


KEYS: Commands = {"create": keys_create, "list": keys_list, "revoke": keys_revoke}


_Messages = Annotated[Path, typer.Argument(metavar="MESSAGES", help="Folder that carries the messages.")]
_Carrier = Annotated[
    str, typer.Argument(metavar="MESSAGES", help="Folder that carries the messages, or an https address.")
]
_KeyFile = Annotated[Path | None, option(OUTPUT, "File with this site's key at the address.", "--key-file")]
_Authority = Annotated[Path | None, option(OUTPUT, "Its certificate authority, PEM. [those of the system]")]
_Own = Annotated[Path, typer.Argument(metavar="OWN", help="This party's own folder, with its secret key.")]


def _run_sites(action: str, **given: Any) -> None:
    with INTERRUPTS.at_once():
        from dpensemble.cli.sites import ACTIONS  # noqa: PLC0415
    ACTIONS[action](given)


def sites_new(
    messages: _Messages,
    own: _Own,
    sites: Annotated[str, option(DATA, "Names of all sites, such as north,south,west. Required.")],
    target: Annotated[str | None, option(DATA, "Column to predict. Required, or --time.")] = None,
    classes: Annotated[str | None, option(DATA, "All possible labels.")] = None,
    range: Annotated[
        str | None, option(DATA, "Of a number, in place of --classes: 0,500000.", metavar="LOW,HIGH")
    ] = None,
    time: Annotated[str | None, option(DATA, "In place of --target: times; risks with --public.")] = None,
    event: Annotated[
        str | None, option(DATA, "With --time: column and codes of the event.", metavar="COLUMN=CODES")
    ] = None,
    bins: Annotated[str | None, option(DATA, "With --time: end of each bin.")] = None,
    censored: Annotated[str | None, option(DATA, "With --time: codes of a censoring. [0]")] = None,
    competing: Annotated[str | None, option(DATA, "With --time: codes of competing events.")] = None,
    strata: Annotated[
        list[str] | None, option(DATA, "Of a life table: a column and its values.", metavar="COLUMN=VALUES")
    ] = None,
    at: Annotated[str | None, option(DATA, "With --time: ends of bins on the first screen.")] = None,
    time_unit: Annotated[str | None, option(DATA, "With --time: what times count.", "--time-unit")] = None,
    public: Annotated[Path | None, option(DATA, "Public rows with the private columns.")] = None,
    declared_columns: Annotated[Path | None, option(DATA, "Columns as JSON, when no rows are public.")] = None,
    unit: Annotated[str | None, option(DATA, "Column that names the person. [each record is a person]")] = None,
    drop: Annotated[str | None, option(DATA, "Columns to leave out.")] = None,
    most_units: Annotated[
        str | None, option(DATA, "Most units of each site, such as 50000,90000,4000. [2**28 in all]", "--most-units")
    ] = None,
    epsilon: Annotated[float, option(PRIVACY, "Budget of a run without lost attempts. [1]")] = 1.0,
    delta: Annotated[float | None, option(PRIVACY, "Its delta. [1e-06]")] = None,
    relation: Annotated[Relation, option(PRIVACY, "Neighbouring relation. [replace-one]")] = Relation.REPLACE_ONE,
    colluding: Annotated[int, option(PRIVACY, "Sites that may collude. [1]")] = 1,
    at_sites: Annotated[int, option(PRIVACY, "Sites at which one person may have records. [1]", "--at-sites")] = 1,
    attempts: Annotated[int, option(PRIVACY, "Most attempts; each lost one costs a sum more. [2]")] = 2,
    rounds: Annotated[int | None, option(METHOD, "Noisy sums of labels. [by the columns]")] = None,
    statistics: Annotated[str | None, option(METHOD, "More released statistics: class-shares.")] = None,
    holdout_score: Annotated[
        float | None, option(METHOD, "Share of units that only measure the model. [none]", "--holdout-score")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the terms of a run of several sites. The coordinator runs this once.

    Example: dpensemble sites new shared own --public rows.csv --sites a,b,c --classes no,yes --target sick
    """
    _run_sites("new", **locals())


def sites_join(
    messages: _Carrier,
    own: _Own,
    name: Annotated[str, option(DATA, "Name of this site. Required.")],
    private: Annotated[Path, option(DATA, "Table of this site's records, CSV, Excel or Parquet. Required.")],
    least: Annotated[float, option(PRIVACY, "Least share of the noise that this site draws itself, 0 to 1. [0]")] = 0.0,
    check: Annotated[bool, option(DATA, "Only read the table and print the counts; send nothing.", "--check")] = False,
    key_file: _KeyFile = None,
    authority: _Authority = None,
    as_json: Json = False,
) -> None:
    """Check a site's table by the terms, and join. Prints the fingerprint to read to the other sites.

    Until the site begins an attempt, it can join again from the same folder with another table.

    Example: dpensemble sites join shared own --name a --private patients.csv
    """
    _run_sites("join", **locals())


def sites_run(
    messages: _Carrier,
    own: _Own,
    private: Annotated[Path | None, option(DATA, "The table of join. The coordinator has none.")] = None,
    trust: Annotated[
        list[str] | None, option(PRIVACY, "Another site's fingerprint; one for each site.", metavar="NAME=FINGERPRINT")
    ] = None,
    ledger: Annotated[str | None, option(PRIVACY, "Ledger that must allow this site's charges.")] = None,
    data_set: Annotated[str | None, option(PRIVACY, "Its data set.", "--data-set")] = None,
    patience: Annotated[float | None, option(OUTPUT, "Seconds to wait for others. [no limit]")] = None,
    key_file: _KeyFile = None,
    authority: _Authority = None,
    as_json: Json = False,
    quiet: Annotated[bool, option(OUTPUT, "Do not print what is missing.", "--quiet")] = False,
) -> None:
    """Take part until the model is there. Every party runs this, and leaves it running.

    Example: dpensemble sites run shared own --private patients.csv --trust b=1f2e-... --trust c=9a0b-...
    """
    _run_sites("run", **locals())


def sites_status(
    messages: _Carrier,
    own: _Own,
    key_file: _KeyFile = None,
    authority: _Authority = None,
    as_json: Json = False,
) -> None:
    """Show who joined, what was opened, and what this site was charged. Reads no records.

    Example: dpensemble sites status shared own
    """
    _run_sites("status", **locals())


def sites_serve(
    messages: _Messages,
    keys: Annotated[Path, option(DATA, "File of keys, one for each site (keys create). Required.")],
    host: Annotated[str, option(OUTPUT, "Address to listen at. [127.0.0.1]")] = "127.0.0.1",
    port: Annotated[int, option(OUTPUT, "Port. [8000]")] = 8000,
    certificate: Annotated[Path | None, option(OUTPUT, "Certificate for TLS, unless a proxy does it.")] = None,
    certificate_key: Annotated[Path | None, option(OUTPUT, "Its key.")] = None,
) -> None:
    """Serve the coordinator's folder of messages to sites that give an https address in its place.

    Example: dpensemble sites serve shared --keys keys.json --certificate c.pem --certificate-key k.pem
    """
    _run_sites("serve", **locals())


def sites_demo(
    dataset: Annotated[str, option(DATA, "adult (packaged). [adult]")] = "adult",
    sites: Annotated[int, option(DATA, "Number of sites, from 3. [5]")] = 5,
    unequal: Annotated[bool, option(DATA, "Each site has half the records of the one before.", "--unequal")] = False,
    without_public: Annotated[
        bool, option(DATA, "Declare columns, and use no public rows.", "--without-public")
    ] = False,
    epsilon: Annotated[float, option(PRIVACY, "Budget. [1]")] = 1.0,
    holdout_score: Annotated[
        float | None, option(METHOD, "Share of units that only measure the model. [none]", "--holdout-score")
    ] = None,
    seed: Annotated[int | None, option(METHOD, "Public seed of the split; not of the noise.")] = None,
    out: Annotated[Path | None, option(OUTPUT, "Empty folder that keeps all folders.")] = None,
    as_json: Json = False,
) -> None:
    """Run a coordinator and sites as processes that share nothing but messages. Shows what each one opened.

    Example: dpensemble sites demo --dataset adult --sites 5 --epsilon 1 --json
    """
    _run_sites("demo", **locals())


SITES: Commands = {
    "new": sites_new,
    "join": sites_join,
    "run": sites_run,
    "status": sites_status,
    "serve": sites_serve,
    "demo": sites_demo,
}


def compare(
    dataset: Annotated[str | None, option(DATA, "adult, digits (no download), mnist or fashion-mnist. [adult]")] = None,
    table: Annotated[Path | None, option(DATA, "Public table of your own with labels, CSV or Parquet.")] = None,
    target: Annotated[str | None, option(DATA, "Column of --table to predict.")] = None,
    sep: Annotated[str | None, option(DATA, "What separates columns of --table: ';', tab, ...")] = None,
    decimal: Annotated[str | None, option(DATA, "Decimal sign of numbers in --table: . or ,")] = None,
    multiline_text: _MultilineText = False,
    skip_lines: _SkipLines = None,
    sheet: _Sheet = None,
    column: _Column = None,
    blank: _Blank = None,
    below_limit: _BelowLimit = None,
    classes: Annotated[str | None, option(DATA, "Labels of images to keep, such as 3,8.")] = None,
    public_rows: Annotated[int | None, option(DATA, "Public rows, for methods that release labels.")] = None,
    epsilon: Annotated[float, option(PRIVACY, "Whole budget of each method. [1]")] = 1.0,
    delta: Annotated[
        float | None, option(PRIVACY, "Delta of each method; bagging needs 1/records or more. [1e-05 or less]")
    ] = None,
    relation: Annotated[
        Relation,
        option(PRIVACY, "add-or-remove-one (default), as DP-SGD is accounted; or replace-one, which costs it twice."),
    ] = Relation.ADD_OR_REMOVE_ONE,
    insecure_release_seed: Annotated[
        int | None, option(PRIVACY, "Seed the noise: repeatable, and NOT FOR RELEASE.", metavar="INT")
    ] = None,
    methods: Annotated[
        str | None,
        option(
            METHOD,
            "Comma-separated; a law may follow, as in pate:optimal. "
            "[label-moments,bagging,pate,bagged-pate,private-majority,darrm,dp-sgd]",
        ),
    ] = None,
    learner: Annotated[
        str, option(METHOD, "Base learner, as for train --teacher, or cnn. [logistic-regression]")
    ] = "logistic-regression",
    teachers: Annotated[int | None, option(METHOD, "Teachers that vote. [one for 25 records, at most 250]")] = None,
    repeats: Annotated[int, option(METHOD, "Runs of each method. [3]")] = 3,
    seed: Annotated[int | None, option(METHOD, "Public seed; not of the noise.")] = None,
    jobs: Annotated[int, option(METHOD, "Parallel workers; -1 takes all cores. [-1]")] = -1,
    out: Annotated[Path | None, option(OUTPUT, "File for the result as JSON.")] = None,
    as_json: Json = False,
    quiet: Annotated[bool, option(OUTPUT, "No progress bar.", "--quiet")] = False,
) -> None:
    """Compare methods on public data, on the same rows and with the same budget.

    Each method has the whole budget. Two rows without privacy show what the budget costs.

    Example: dpensemble compare --dataset adult --epsilon 1 --delta 1e-5
    """
    given = dict(locals())
    with INTERRUPTS.at_once():
        from dpensemble.cli.compare import run as run_compare  # noqa: PLC0415
    run_compare(**given)


def gamma(
    teachers: Annotated[int, option(METHOD, "Number of teachers. Required.")],
    epsilon: Annotated[float, option(PRIVACY, "Epsilon of each teacher. Required.")],
    m: Annotated[float, option(PRIVACY, "Epsilon of the answer, in units of a teacher's. Required.", "--m")],
    Delta: Annotated[float, option(PRIVACY, "Delta of each teacher. [0]", "--Delta")] = 0.0,
    delta: Annotated[float, option(PRIVACY, "Delta of the answer. [0]", "--delta")] = 0.0,
    prior: Annotated[
        str,
        option(
            METHOD,
            "What is assumed about votes: 'alike' (one common probability, any), '0.5-1' (one in that range), "
            "'0.2:0.5,0.9:0.5' (a histogram of it), or '0.75' (independent teachers of that mean). [alike]",
        ),
    ] = "alike",
    constraints: Annotated[
        str, option(METHOD, "Search monotone noise functions (default), or all (few teachers only).")
    ] = "monotone",
    plot: Plot = None,
    certificate: Annotated[Path | None, option(OUTPUT, "Also write what 'dpensemble verify' checks.")] = None,
    as_json: Json = False,
) -> None:
    """Find the private majority of private teachers with the least error (two classes). No data are read.

    Given the votes, the answer is the majority with probability gamma. Otherwise it is a fair coin.

    Example: dpensemble gamma --teachers 11 --epsilon 0.1 --m 3
    """
    given = dict(locals())
    with INTERRUPTS.at_once():
        from dpensemble.cli.gamma import run as run_gamma  # noqa: PLC0415
    run_gamma(**given)


def report(
    run: Annotated[Path, typer.Argument(help="Folder that `dpensemble train` wrote.")],
    out: Annotated[Path | None, option(OUTPUT, "Path of the page. [in the folder of the run]")] = None,
    title: Annotated[str | None, option(OUTPUT, "Another headline of the page.")] = None,
    unit_name: Annotated[
        str | None, option(OUTPUT, "Noun for what the unit column names, such as patient.", "--unit-name")
    ] = None,
    private: Annotated[
        bool, option(OUTPUT, "Write the page with secret vote statistics: not for sharing.", "--private")
    ] = False,
    registry: Annotated[
        Path | None, option(OUTPUT, "Also write an entry for OpenDP's registry of deployments (YAML).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show an earlier run, and write its page again.

    Example: dpensemble report demo --out page.html
    """
    given = dict(locals())
    with INTERRUPTS.at_once():
        from dpensemble.cli.runs import report as run_report  # noqa: PLC0415
    run_report(**given)


def recover(
    context: typer.Context,
    run: Annotated[Path, typer.Argument(help="The folder given to `dpensemble train --out`.")],
    overwrite: Annotated[bool, option(OUTPUT, "Replace a later run in that folder.", "--overwrite")] = False,
    give_up: Annotated[bool, option(OUTPUT, "File the account instead of finishing.", "--give-up")] = False,
    unsigned: Annotated[bool, option(OUTPUT, "Run the command of a journal of unknown origin.", "--unsigned")] = False,
    as_json: Json = False,
) -> None:
    """Finish a failed or killed run from what it has drawn, without a second charge.

    The finished run is put in its folder. With --give-up, the account of what was spent is filed instead, and
    the folder is free again. A journal names the command that is run. If this user did not write the journal on
    this machine, the command is only printed, until --unsigned is given.

    Example: dpensemble recover demo
    """
    given = dict(locals())
    # A module above this one parses command lines.
    run_command = given.pop("context").obj.run
    with INTERRUPTS.at_once():
        from dpensemble.cli.runs import recover_run as run_recover  # noqa: PLC0415
    run_recover(**given, run_command=run_command)


class _Engine(StrEnum):
    """Clusters that sum up private records."""

    DASK = "dask"
    SPARK = "spark"


def lifetable(
    context: typer.Context,
    private: Annotated[
        list[str], option(DATA, "CSV, Excel, Parquet, folder or database; repeatable. Required.", metavar="FILE")
    ],
    time: Annotated[list[str], option(DATA, "Column of the time until the event. Required.")],
    event: Annotated[str, option(DATA, "Column and codes of the event. Required.", metavar="COLUMN=CODES")],
    bins: Annotated[str, option(DATA, "End of each bin, such as 30,90,180,365. Required.")],
    out: Annotated[Path, option(OUTPUT, "Folder for report and table. Required.", metavar="FOLDER")],
    censored: Annotated[str, option(DATA, "Codes of a censoring, comma-separated. [0]")] = "0",
    competing: Annotated[str | None, option(DATA, "Codes of competing events, each another kind.")] = None,
    strata: Annotated[
        list[str] | None, option(DATA, "Column and its possible values; repeatable.", metavar="COLUMN=A,B")
    ] = None,
    at: Annotated[str | None, option(DATA, "Ends of bins on the first screen. [up to 3]")] = None,
    time_unit: Annotated[str | None, option(DATA, "What times count, such as days.", "--time-unit")] = None,
    unit: Annotated[str | None, option(DATA, "Column naming whose record it is (--unit-name).")] = None,
    unit_name: Annotated[str | None, typer.Option("--unit-name", hidden=True)] = None,
    entry: Annotated[str | None, typer.Option("--entry", hidden=True)] = None,
    column: Annotated[
        list[str] | None, option(DATA, "How times are written: days=number:1.234,5.", metavar="NAME=KIND")
    ] = None,
    cluster: Annotated[_Engine | None, option(DATA, "Sum on dask or spark (--scheduler, or here: --jobs).")] = None,
    scheduler: Annotated[str | None, typer.Option("--scheduler", hidden=True)] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", hidden=True)] = None,
    blank: _Blank = None,
    sep: _Sep = None,
    decimal: _Decimal = None,
    multiline_text: _MultilineText = False,
    skip_lines: _SkipLines = None,
    sheet: _Sheet = None,
    epsilon: Annotated[float, option(PRIVACY, "Privacy budget. [1]")] = 1.0,
    delta: Annotated[float | None, option(PRIVACY, "Its delta. [by the number of records]")] = None,
    relation: Annotated[Relation, option(PRIVACY, "Neighbouring relation. [replace-one]")] = Relation.REPLACE_ONE,
    fewest_units: Annotated[
        int | None, option(PRIVACY, "Public lower bound on private units, for --delta.", "--fewest-units")
    ] = None,
    ledger: Annotated[str | None, option(PRIVACY, "File or address of a ledger that must allow it.")] = None,
    data_set: Annotated[str | None, option(PRIVACY, "Name of the records' account in --ledger.", "--data-set")] = None,
    insecure_release_seed: Annotated[
        int | None, option(PRIVACY, "Seed the noise: repeatable, NOT FOR RELEASE.", "--insecure-release-seed")
    ] = None,
    title: Annotated[str | None, option(OUTPUT, "Headline of the page.")] = None,
    overwrite: Annotated[bool, option(OUTPUT, "Replace an earlier run in --out.", "--overwrite")] = False,
    as_json: Json = False,
    log_json: Annotated[
        Path | None, option(OUTPUT, "File for events as lines of JSON, for programs.", "--log-json")
    ] = None,
    quiet: Annotated[bool, option(OUTPUT, "No progress bar.", "--quiet")] = False,
) -> None:
    """Release a life table: survival curves with bands, numbers at risk and a log-rank test, for one charge.

    Bins, codes and strata are declared. A record with another code, or without a time, adds nothing.

    Example: dpensemble lifetable --private p.csv --time days --event died=1 --bins 30,90,365 --out demo
    """
    given = dict(locals())
    invocation = given.pop("context").obj
    with INTERRUPTS.at_once():
        from dpensemble.cli.life_table import run as run_life_table  # noqa: PLC0415
    run_life_table(invocation, given)


def check(
    private: Annotated[
        list[str], option(DATA, "CSV, Excel, Parquet, folder or database; repeatable. Required.", metavar="FILE")
    ],
    target: Annotated[str | None, option(DATA, "Column to predict. Required, or --time.")] = None,
    classes: Annotated[str | None, option(DATA, "All possible labels, comma-separated.")] = None,
    range: Annotated[str | None, option(DATA, "Smallest and largest number, in place of --classes: 0,500000.")] = None,
    time: Annotated[str | None, option(DATA, "Column of the time until an event, in place of --target.")] = None,
    event: Annotated[
        str | None, option(DATA, "With --time: column and codes of the event.", metavar="COLUMN=CODES")
    ] = None,
    censored: Annotated[str | None, option(DATA, "With --time: codes of a censoring. [0]")] = None,
    competing: Annotated[str | None, option(DATA, "With --time: codes of competing events.")] = None,
    bins: Annotated[str | None, option(DATA, "With --time: end of each bin.")] = None,
    strata: Annotated[
        list[str] | None, option(DATA, "Of a life table: a column and its values.", metavar="COLUMN=A,B")
    ] = None,
    public: Annotated[Path | None, option(DATA, "Public rows with the same features.")] = None,
    declared_columns: Annotated[Path | None, option(DATA, "Columns as JSON, when no rows are public.")] = None,
    unit: Annotated[str | None, option(DATA, "Column naming whose record it is.")] = None,
    drop: Annotated[str | None, option(DATA, "Columns to leave out, comma-separated.")] = None,
    column: _Column = None,
    blank: _Blank = None,
    below_limit: _BelowLimit = None,
    sep: _Sep = None,
    decimal: _Decimal = None,
    multiline_text: _MultilineText = False,
    skip_lines: _SkipLines = None,
    sheet: _Sheet = None,
    no_blanks: Annotated[
        bool, option(DATA, "For a method that takes no blanks, without --fill.", "--no-blanks")
    ] = False,
    as_json: Json = False,
) -> None:
    """Count the private records that cannot be read, before anything is charged. The counts are for the owner only.

    With --time and without --public, counts are those of a life table.

    Example: dpensemble check --private p.csv --public q.csv --target y --classes no,yes
    """
    given = dict(locals())
    with INTERRUPTS.at_once():
        from dpensemble.cli.check import run as run_check  # noqa: PLC0415
    run_check(**given)


def predict(
    student: Annotated[Path, typer.Argument(help="student.skops of a run, or its folder.")],
    rows: Annotated[
        str, typer.Argument(help="Rows: CSV, Excel, Parquet, Arrow, the address of a table, or - for CSV from stdin.")
    ],
    out: Annotated[Path | None, option(OUTPUT, "Write a CSV file instead of printing.")] = None,
    probabilities: Annotated[
        bool, option(OUTPUT, "Also give the probability of each label.", "--probabilities", "--proba")
    ] = False,
    keep: Annotated[str | None, option(OUTPUT, "Columns to repeat beside the label, comma-separated.")] = None,
    threshold: Annotated[
        float | None,
        option(OUTPUT, "Probability from which a row gets the positive class. [most probable class]"),
    ] = None,
    positive_class: Annotated[
        str | None, option(OUTPUT, "Class that --threshold is about. [the last of two, sorted]", "--positive-class")
    ] = None,
    sep: _Sep = None,
    decimal: _Decimal = None,
    multiline_text: _MultilineText = False,
    skip_lines: _SkipLines = None,
    sheet: _Sheet = None,
    explain: Annotated[
        bool, option(OUTPUT, "Also give what each column adds to each logit or number.", "--explain")
    ] = False,
    explain_plot: Annotated[
        Path | None, option(OUTPUT, "Draw the explanation of one row as SVG.", "--explain-plot")
    ] = None,
    explain_row: Annotated[int, option(OUTPUT, "Number of that row. [0]", "--explain-row")] = 0,
    coverage: Annotated[float | None, option(OUTPUT, "Of a number: share inside the interval. [0.9]")] = None,
    quantiles: Annotated[str | None, option(OUTPUT, "Of a number: more quantiles, such as 0.1,0.75.")] = None,
    proven: Annotated[bool, option(OUTPUT, "Of a number: proven intervals (--proven-coverage).", "--proven")] = False,
    at: Annotated[str | None, option(OUTPUT, "Of a risk: times, such as 90,365. [ends of bins]")] = None,
    as_json: Json = False,
) -> None:
    """Predict rows with a saved student: a label, the mean and an interval of a number, or risks by some times.

    This costs no privacy.

    Rows are counted from 0.

    Example: dpensemble predict demo new.csv --proba --keep patient_id --out labels.csv
    """
    given = dict(locals())
    with INTERRUPTS.at_once():
        from dpensemble.cli.predict import run as run_predict  # noqa: PLC0415
    run_predict(**given)


def export(
    run: Annotated[Path, typer.Argument(help="Folder of a run, or its student.skops.")],
    format: Annotated[str, option(OUTPUT, "sql, onnx, scorecard or python. Required.")],
    dialect: Annotated[str | None, option(OUTPUT, "Of SQL: sqlite, postgresql or duckdb. [sqlite]")] = None,
    table: Annotated[str | None, option(OUTPUT, "Table that the SQL reads; a dot follows a schema. [rows]")] = None,
    keep: Annotated[
        str | None, option(OUTPUT, "Columns that the SQL repeats beside the label, comma-separated.")
    ] = None,
    rows: Annotated[Path | None, option(DATA, "Public rows, over which a score card states its largest error.")] = None,
    out: Annotated[Path | None, option(OUTPUT, "File; .html or .csv for a score card. [standard output]")] = None,
    overwrite: Annotated[bool, option(OUTPUT, "Replace that file.", "--overwrite")] = False,
    as_json: Json = False,
) -> None:
    """Write a student of label-moments for programs without Python: SQL, ONNX, a score card or Python.

    SQL gives the probabilities that the student gives. A score card is for students whose columns add up.

    Example: dpensemble export demo --format sql --table patients --keep patient_id --out score.sql
    """
    given = dict(locals())
    with INTERRUPTS.at_once():
        from dpensemble.cli.export import run as run_export  # noqa: PLC0415
    run_export(**given)


def verify(
    file: Annotated[
        Path, typer.Argument(help="Folder of a run, or a certificate of `plan`, `gamma` or `train`, or -.")
    ],
    as_json: Json = False,
) -> None:
    """Check a certificate with a program that shares no code with this library.

    Exit code 1 if the program answers no, or if the certificate is of a run with seeded noise (NOT FOR RELEASE).
    Exit code 3 if the program cannot run, because python-flint is not installed.

    Example: dpensemble verify certificate.json
    """
    given = dict(locals())
    with INTERRUPTS.at_once():
        from dpensemble.cli.runs import verify as run_verify  # noqa: PLC0415
    run_verify(**given)


def doctor(
    ledger: Annotated[str | None, option(DATA, "Also verify this ledger, a file or postgresql:// address.")] = None,
    as_json: Json = False,
) -> None:
    """Show versions, optional parts, Java and disk, and what cannot work on this machine.

    The report names no path and no data set, so that it may be pasted into a question. Exit code 1 if the library
    itself, or the ledger, cannot work.

    Example: dpensemble doctor
    """
    given = dict(locals())
    with INTERRUPTS.at_once():
        from dpensemble.cli.doctor import run as run_doctor  # noqa: PLC0415
    run_doctor(**given)


def add_static_command(app: typer.Typer, name: str) -> None:
    """Add one of `STATIC_COMMANDS`, a command or a group of commands."""
    if name in _COMMANDS:
        app.command(name, cls=PlainCommand)(_COMMANDS[name])
        return
    actions, about = _GROUPS[name]
    group = typer.Typer(cls=PlainGroup, rich_markup_mode=None)
    for action, function in actions.items():
        group.command(action, cls=PlainCommand)(function)
    app.add_typer(group, name=name, help=about)


_COMMANDS: Commands = {
    "lifetable": lifetable,
    "check": check,
    "compare": compare,
    "gamma": gamma,
    "report": report,
    "recover": recover,
    "predict": predict,
    "export": export,
    "verify": verify,
    "doctor": doctor,
    "serve": serve,
}
_GROUPS: dict[str, tuple[Commands, str]] = {
    "ledger": (LEDGER, "Keep a permanent account of what is spent on data sets."),
    "keys": (KEYS, "Create, list and revoke API keys of the service."),
    "sites": (SITES, "Train one model of several organisations that share no records."),
}
STATIC_COMMANDS = (*_COMMANDS, *_GROUPS)
