"""The command ``python -m reproductions``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from dpensemble._checks import integer_between, number_of_workers
from dpensemble.cli.app import with_exit_code
from dpensemble.cli.interrupts import INTERRUPTS
from dpensemble.cli.options import PlainCommand
from dpensemble.cli.output import warnings_as_lines
from dpensemble.cli.static_commands import METHOD, OUTPUT, Json, option
from dpensemble.errors import FileError, InvalidParameterError
from reproductions.catalogue import TABLES, chosen
from reproductions.declared import Table
from reproductions.results import HTML, MARKDOWN, RESULTS, read_results, write_results
from reproductions.running import RunSettings
from reproductions.running import reproduce as run_tables

PROGRAM = "python -m reproductions"


def reproduce(
    tables: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TABLE...]", help="Tables, such as dpbag-5; a beginning, such as dpbag; or all."),
    ] = None,
    listed: Annotated[bool, option(METHOD, "List the tables, and what is missing to run them.", "--list")] = False,
    quick: Annotated[bool, option(METHOD, "Smaller settings: minutes for all tables together.", "--quick")] = False,
    repeats: Annotated[int | None, option(METHOD, "Independent runs, instead of the declared number.")] = None,
    seed: Annotated[int, option(METHOD, "Seed of the first run. [0]")] = 0,
    jobs: Annotated[int, option(METHOD, "Parallel workers; -1 takes all cores. [-1]")] = -1,
    out: Annotated[Path, option(OUTPUT, "Folder for results and the page. [reproduced]", metavar="DIR")] = Path(
        "reproduced"
    ),
    as_json: Json = False,
    quiet: Annotated[bool, option(OUTPUT, "No progress bar, and no estimate.", "--quiet")] = False,
) -> None:
    """Compare published tables with the library's results, on a page. The same command resumes a stopped run.

    Example: python -m reproductions dpbag-5 dpbag-6 --quick
    """
    if listed:
        typer.echo(json.dumps([_described(table) for table in TABLES], indent=2) if as_json else _list())
        return
    if not tables:
        raise InvalidParameterError(f"no table was named: use all, or some of {', '.join(t.name for t in TABLES)}.")
    selected, everything = chosen(tables)
    for place in (out, *out.parents):
        if place.exists() and not place.is_dir():
            raise FileError(f"out={str(out)!r} cannot be a folder, since {place} is a file: give another folder.")
    # A file that does not belong there is named before the run.
    read_results(out / RESULTS)
    settings = RunSettings(
        out=out,
        quick=quick,
        seed=integer_between("seed", seed, 0),
        repeats=None if repeats is None else integer_between("repeats", repeats, 1),
        n_jobs=number_of_workers("jobs", jobs),
        progress=not quiet and sys.stderr.isatty(),
    )
    INTERRUPTS.follow(lambda: f"finished parts are in {out}, and the same command resumes from there", lambda: False)

    def report(line: str) -> None:
        if not quiet:
            typer.echo(line, err=True)

    with warnings_as_lines():
        results = run_tables(selected, settings, report, strict=not everything)
        write_results(results, out)
    if as_json:
        typer.echo(json.dumps([result.to_dict() for result in results], indent=2))
        return
    for result in results:
        typer.echo(f"{result.table}: {result.verdict()}")
    typer.echo(f"Page: {out / HTML} and {out / MARKDOWN}")


def run(arguments: list[str]) -> int:
    """Run the command and return the exit code."""
    return with_exit_code(_parse_and_run, arguments)


def _parse_and_run(arguments: list[str]) -> int:
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command(cls=PlainCommand, context_settings={"help_option_names": ["-h", "--help"]})(reproduce)
    code = app(args=arguments, prog_name=PROGRAM, standalone_mode=False)
    return code if isinstance(code, int) else 0


def _described(table: Table) -> dict[str, str | None]:
    return {
        "table": table.name,
        "where": table.where,
        "title": table.title,
        "status": table.status.value,
        "missing": table.experiment.missing(),
    }


def _list() -> str:
    lines = []
    for table in TABLES:
        missing = table.experiment.missing()
        lines.append(f"{table.name:<24}{table.title} ({table.where})" + (f"; needs {missing}" if missing else ""))
    return "\n".join(lines)
