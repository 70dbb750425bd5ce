"""Options of all commands but ``train`` and ``plan``. The modules that do the work are imported on use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpensemble.cli.command_parts import Commands, Json, Plot, option, run_command
from dpensemble.cli.help import PlainCommand, PlainGroup
from dpensemble.cli.ledger_commands import LEDGER
from dpensemble.cli.option import DATA, METHOD, OUTPUT, PRIVACY
from dpensemble.cli.service_commands import KEYS, serve
from dpensemble.relations import Relation


def compare(
    dataset: Annotated[str | None, option(DATA, "adult, digits (no download), mnist or fashion-mnist. [adult]")] = None,
    table: Annotated[Path | None, option(DATA, "Public table of your own with labels, CSV or Parquet.")] = None,
    target: Annotated[str | None, option(DATA, "Column of --table to predict.")] = None,
    sep: Annotated[str | None, option(DATA, "What separates columns of --table: ';', tab, ...")] = None,
    decimal: Annotated[str | None, option(DATA, "Decimal sign of numbers in --table: . or ,")] = None,
    multiline_text: Annotated[bool, option(DATA, "Quoted texts may hold line breaks.", "--multiline-text")] = False,
    skip_lines: Annotated[
        int | None, option(DATA, "Lines above the header of CSV files. [seen]", "--skip-lines")
    ] = None,
    classes: Annotated[str | None, option(DATA, "Labels of images to keep, such as 3,8.")] = None,
    public_rows: Annotated[int | None, option(DATA, "Public rows, for methods that release labels.")] = None,
    epsilon: Annotated[float, option(PRIVACY, "Whole budget of each method. [1]")] = 1.0,
    delta: Annotated[float, option(PRIVACY, "Delta of each method; bagging needs 1/records or more. [1e-05]")] = 1e-5,
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
    run_command("cli.compare:run", **locals())


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
    run_command("cli.gamma:run", **locals())


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
    run_command("cli.report:run", **locals())


def recover(
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
    run_command("cli.recover:run", **locals())


def check(
    private: Annotated[str, option(DATA, "CSV, Parquet, folder or database. Required.", metavar="FILE")],
    target: Annotated[str, option(DATA, "Column to predict. Required.")],
    classes: Annotated[str, option(DATA, "All possible labels, comma-separated. Required.")],
    public: Annotated[Path | None, option(DATA, "Public rows with the same features.")] = None,
    declared_columns: Annotated[Path | None, option(DATA, "Columns as JSON, when no rows are public.")] = None,
    unit: Annotated[str | None, option(DATA, "Column naming whose record it is.")] = None,
    drop: Annotated[str | None, option(DATA, "Columns to leave out, comma-separated.")] = None,
    sep: Annotated[str | None, option(DATA, "Separator of columns in CSV, such as ';' or tab.")] = None,
    decimal: Annotated[str | None, option(DATA, "Decimal sign of numbers in CSV: . or ,")] = None,
    multiline_text: Annotated[bool, option(DATA, "Quoted texts may hold line breaks.", "--multiline-text")] = False,
    skip_lines: Annotated[
        int | None, option(DATA, "Lines above the header of CSV files. [seen]", "--skip-lines")
    ] = None,
    no_blanks: Annotated[
        bool, option(DATA, "For a method that takes no blanks, without --fill.", "--no-blanks")
    ] = False,
    as_json: Json = False,
) -> None:
    """Count the private records that cannot be read, before anything is charged. The counts are for the owner only.

    Example: dpensemble check --private p.csv --public q.csv --target y --classes no,yes
    """
    run_command("cli.check:run", **locals())


def predict(
    student: Annotated[Path, typer.Argument(help="student.skops of a run, or its folder.")],
    rows: Annotated[
        str, typer.Argument(help="Rows to classify: CSV, Parquet, Arrow, or the address of a table; any number.")
    ],
    out: Annotated[Path | None, option(OUTPUT, "Write a CSV file instead of printing.")] = None,
    probabilities: Annotated[
        bool, option(OUTPUT, "Also give the probability of each label.", "--probabilities", "--proba")
    ] = False,
    keep: Annotated[str | None, option(OUTPUT, "Columns to repeat beside the label, comma-separated.")] = None,
    threshold: Annotated[
        float | None, option(OUTPUT, "Probability from which a row gets the positive class. [most probable class]")
    ] = None,
    positive_class: Annotated[
        str | None, option(OUTPUT, "Class that --threshold is about. [the second of two]", "--positive-class")
    ] = None,
    sep: Annotated[str | None, option(DATA, "Separator of columns in CSV, such as ';' or tab.")] = None,
    decimal: Annotated[str | None, option(DATA, "Decimal sign of numbers in CSV: . or ,")] = None,
    multiline_text: Annotated[bool, option(DATA, "Quoted texts may hold line breaks.", "--multiline-text")] = False,
    skip_lines: Annotated[
        int | None, option(DATA, "Lines above the header of CSV files. [seen]", "--skip-lines")
    ] = None,
    explain: Annotated[
        bool, option(OUTPUT, "Also give what each column adds to the logit of each row.", "--explain")
    ] = False,
    explain_plot: Annotated[
        Path | None, option(OUTPUT, "Draw the explanation of one row as SVG.", "--explain-plot")
    ] = None,
    explain_row: Annotated[int, option(OUTPUT, "Number of that row. [0]", "--explain-row")] = 0,
    as_json: Json = False,
) -> None:
    """Classify rows with a saved student. This costs no privacy. Rows are counted from 0.

    Example: dpensemble predict demo new.csv --proba --keep patient_id --out labels.csv
    """
    run_command("cli.predict:run", **locals())


def verify(
    file: Annotated[Path, typer.Argument(help="Folder of a run, or a certificate of `plan`, `gamma` or `train`.")],
    as_json: Json = False,
) -> None:
    """Check a certificate with a program that shares no code with this library.

    Exit code 1 if the program answers no, or if the certificate is of a run with seeded noise (NOT FOR RELEASE).

    Example: dpensemble verify certificate.json
    """
    run_command("cli.verify:run", **locals())


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
    "check": check,
    "compare": compare,
    "gamma": gamma,
    "report": report,
    "recover": recover,
    "predict": predict,
    "verify": verify,
    "serve": serve,
}
_GROUPS: dict[str, tuple[Commands, str]] = {
    "ledger": (LEDGER, "Keep a permanent account of what is spent on data sets."),
    "keys": (KEYS, "Create, list and revoke API keys of the service."),
}
STATIC_COMMANDS = (*_COMMANDS, *_GROUPS)
