"""``dpensemble reproduce``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import typer

from dpensemble._checks import integer_between
from dpensemble.cli.ending import ENDING
from dpensemble.cli.show import warnings_as_lines
from dpensemble.errors import FileError, InvalidParameterError
from dpensemble.reproduce import TABLES, RunSettings, Table, chosen, write_results
from dpensemble.reproduce import reproduce as run_tables
from dpensemble.reproduce.results import HTML, MARKDOWN


def run(
    tables: list[str],
    listed: bool,
    quick: bool,
    repeats: int | None,
    seed: int,
    jobs: int,
    out: Path,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run tables and write the page."""
    if listed:
        typer.echo(json.dumps([_described(table) for table in TABLES], indent=2) if as_json else _list())
        return
    if not tables:
        raise InvalidParameterError(f"no table was named; use all, or some of {', '.join(t.name for t in TABLES)}.")
    wanted, everything = chosen(tables)
    if out.exists() and not out.is_dir():
        raise FileError(f"out={str(out)!r} is a file; give a folder.")
    settings = RunSettings(
        out=out,
        quick=quick,
        seed=integer_between("seed", seed, 0),
        repeats=None if repeats is None else integer_between("repeats", repeats, 1),
        n_jobs=jobs,
        progress=not quiet and sys.stderr.isatty(),
    )
    ENDING.follow(lambda: f"what was finished is in {out}, and the same command goes on from there", lambda: False)

    def tell(line: str) -> None:
        if not quiet:
            typer.echo(line, err=True)

    with warnings_as_lines():
        found = run_tables(wanted, settings, tell, strict=not everything)
        write_results(found, out)
    if as_json:
        typer.echo(json.dumps([result.to_dict() for result in found], indent=2))
        return
    for result in found:
        typer.echo(f"{result.table}: {result.verdict()}")
    typer.echo(f"Page: {out / HTML} and {out / MARKDOWN}")


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
