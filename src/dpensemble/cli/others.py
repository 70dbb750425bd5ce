"""Options of the commands besides ``train`` and ``plan``; the modules that do the work are imported on use."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from dpensemble.cli.ending import ENDING
from dpensemble.cli.help import PlainCommand
from dpensemble.cli.options import DATA, METHOD, OUTPUT, PRIVACY
from dpensemble.relations import Relation


def _option(panel: str, text: str, *names: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=panel, show_default=False, metavar=metavar)


_Json = Annotated[bool, _option(OUTPUT, "Print the result as JSON.", "--json")]
_Plot = Annotated[Path | None, _option(OUTPUT, "Also draw it as SVG.")]


def compare(
    dataset: Annotated[str, _option(DATA, "adult, digits (no download), mnist or fashion-mnist. [adult]")] = "adult",
    classes: Annotated[str | None, _option(DATA, "Labels of images to keep, such as 3,8.")] = None,
    public_rows: Annotated[int | None, _option(DATA, "Public rows, for methods that release labels.")] = None,
    epsilon: Annotated[float, _option(PRIVACY, "Whole budget of each method. [1]")] = 1.0,
    delta: Annotated[float, _option(PRIVACY, "Bagging needs at least 1/records. [1e-05]")] = 1e-5,
    relation: Annotated[
        Relation,
        _option(PRIVACY, "add-or-remove-one (default), as DP-SGD is accounted; or replace-one, which costs it twice."),
    ] = Relation.ADD_OR_REMOVE_ONE,
    insecure_release_seed: Annotated[
        int | None, _option(PRIVACY, "Seed the noise: repeatable, and NOT FOR RELEASE.", metavar="INT")
    ] = None,
    methods: Annotated[
        str | None,
        _option(
            METHOD,
            "Comma-separated; a law may follow, as in pate:optimal. "
            "[bagging,pate,bagged-pate,private-majority,darrm,dp-sgd]",
        ),
    ] = None,
    learner: Annotated[
        str, _option(METHOD, "Base learner, as for train --teacher, or cnn. [logistic-regression]")
    ] = "logistic-regression",
    teachers: Annotated[
        int | None, _option(METHOD, "Teachers that vote; left out: one for 25 records, at most 250.")
    ] = None,
    repeats: Annotated[int, _option(METHOD, "Runs of each method. [3]")] = 3,
    seed: Annotated[int | None, _option(METHOD, "Public seed; not of the noise.")] = None,
    jobs: Annotated[int, _option(METHOD, "Parallel workers; -1 takes all cores. [-1]")] = -1,
    out: Annotated[Path | None, _option(OUTPUT, "File for the result as JSON.")] = None,
    as_json: _Json = False,
    quiet: Annotated[bool, _option(OUTPUT, "No progress bar.", "--quiet")] = False,
) -> None:
    """Compare methods on public data, on the same rows and with the same budget.

    Each method has the whole budget for itself; two rows without privacy stand beside them.

    Example: dpensemble compare --dataset adult --epsilon 1 --delta 1e-5
    """
    _run("compare", **locals())


def gamma(
    teachers: Annotated[int, _option(METHOD, "Number of teachers. Required.")],
    epsilon: Annotated[float, _option(PRIVACY, "Epsilon of each teacher. Required.")],
    m: Annotated[float, _option(PRIVACY, "Epsilon of the answer, in units of a teacher's. Required.", "--m")],
    Delta: Annotated[float, _option(PRIVACY, "Delta of each teacher. [0]", "--Delta")] = 0.0,
    delta: Annotated[float, _option(PRIVACY, "Delta of the answer. [0]", "--delta")] = 0.0,
    prior: Annotated[
        str,
        _option(
            METHOD,
            "What is believed about votes: 'alike' (one common probability, any), '0.5-1' (one in that range), "
            "'0.2:0.5,0.9:0.5' (a histogram of it), or '0.75' (independent teachers of that mean). [alike]",
        ),
    ] = "alike",
    constraints: Annotated[
        str, _option(METHOD, "Compete among monotone noise functions (default), or all (few teachers only).")
    ] = "monotone",
    plot: _Plot = None,
    as_json: _Json = False,
) -> None:
    """Find the private majority of private teachers that errs least (two classes; no data are touched).

    Given the votes, the answer is the majority with probability gamma, else a fair coin.

    Example: dpensemble gamma --teachers 11 --epsilon 0.1 --m 3
    """
    _run("gamma", **locals())


def report(
    run: Annotated[Path, typer.Argument(help="Folder that `dpensemble train` wrote.")],
    out: Annotated[Path | None, _option(OUTPUT, "Where to write the page; left out: in the folder.")] = None,
    private: Annotated[
        bool, _option(OUTPUT, "Write the page with secret vote statistics: not for sharing.", "--private")
    ] = False,
    as_json: _Json = False,
) -> None:
    """Show an earlier run, and write its page again.

    Example: dpensemble report demo --out page.html
    """
    _run("report", **locals())


def recover(
    run: Annotated[Path, typer.Argument(help="What was given to `dpensemble train --out`.")],
    overwrite: Annotated[bool, _option(OUTPUT, "Replace another run that came there.", "--overwrite")] = False,
    as_json: _Json = False,
) -> None:
    """Finish what a killed run left: put its release in place, or file the account of what it spent.

    Example: dpensemble recover demo
    """
    _run("recover", **locals())


def predict(
    student: Annotated[Path, typer.Argument(help="student.skops of a run.")],
    rows: Annotated[Path, typer.Argument(help="Rows to classify, CSV or Parquet.")],
    out: Annotated[Path | None, _option(OUTPUT, "Write a CSV file instead of printing.")] = None,
    probabilities: Annotated[
        bool, _option(OUTPUT, "Also give the probability of each label.", "--probabilities")
    ] = False,
    as_json: _Json = False,
) -> None:
    """Classify rows with a saved student; costs no privacy. Rows are counted from 0.

    Example: dpensemble predict demo/student.skops new.csv --out labels.csv
    """
    _run("predict", **locals())


def _run(command: str, **values: Any) -> None:
    """Import the module of a command and run it."""
    with ENDING.at_once():
        module = import_module(f"dpensemble.cli.{command}")
    module.run(**values)


def add_others(app: typer.Typer) -> None:
    """Add these commands."""
    for function in (compare, gamma, report, recover, predict):
        app.command(cls=PlainCommand)(function)
