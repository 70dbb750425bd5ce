"""Commands, and the one place where errors become exit codes.

Exit codes: 0 done; 1 an error nobody foresaw; 2 bad input, with one sentence on
stderr and nothing written; 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import typer

from dpensemble.cli.compare import compare
from dpensemble.cli.gamma import gamma
from dpensemble.cli.plan import plan
from dpensemble.cli.predict import predict
from dpensemble.cli.report import report
from dpensemble.cli.train import train
from dpensemble.errors import DPEnsembleError

app = typer.Typer(
    name="dpensemble",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(train)
app.command()(plan)
app.command()(compare)
app.command()(gamma)
app.command()(report)
app.command()(predict)

# typer may bring its own copy of click, so the base of its errors is found through one of them.
_UsageError: type[Exception] = next(
    base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException"
)


_INTERRUPTED = 130

# Names of settings in Python, and what they are called here.
_OPTIONS = {
    "n_teachers=": "--teachers ",
    "n_partitions=": "--partitions ",
    "n_models=": "--models ",
    "n_units=": "--records ",
    "subsample=": "--subsample ",
    "scheme=": "--scheme ",
    "public_rows=": "--public-rows ",
    "random_state=": "--seed ",
    "n_jobs=": "--jobs ",
    "insecure_release_seed=": "--insecure-release-seed ",
    "y holds a label": "the private target column holds a label",
    "Value error, ": "",
}


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dpensemble {version('dpensemble')}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Train a classifier on private records under a differential-privacy guarantee."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        Arguments without the program's name; ``sys.argv`` by default.

    Returns
    -------
    int
        0 done, 1 unforeseen error, 2 bad input, 130 interrupted.
    """
    try:
        result = app(args=list(sys.argv[1:] if arguments is None else arguments), standalone_mode=False)
    except DPEnsembleError as error:
        return _fail(str(error))
    except _UsageError as error:
        # With no arguments typer shows the help by way of an error that holds it.
        message: str = error.format_message()  # type: ignore[attr-defined]
        return _fail(message) if message else 2
    except (typer.Abort, KeyboardInterrupt):
        result = _INTERRUPTED
    except Exception as error:
        if os.environ.get("DPENSEMBLE_TRACEBACK"):
            raise
        # Texts of foreign errors may quote private records.
        typer.echo(
            f"dpensemble: unexpected {type(error).__name__}; if training had begun, count its budget as spent. "
            "Set DPENSEMBLE_TRACEBACK=1 to see where, on a screen that may show private records.",
            err=True,
        )
        return 1
    if result == _INTERRUPTED:
        # Newer versions of typer turn an interrupt into this exit code themselves.
        typer.echo("dpensemble: interrupted; nothing was written.", err=True)
    return result if isinstance(result, int) else 0


def _fail(message: str) -> int:
    for name, option in _OPTIONS.items():
        message = message.replace(name, option)
    typer.echo("dpensemble: " + " ".join(message.split()), err=True)
    return 2
