"""``dpensemble report``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from dpensemble.cli.show import print_run
from dpensemble.errors import FileError
from dpensemble.report import render
from dpensemble.workflow import load_run
from dpensemble.workflow.outputs import PRIVATE_REPORT, REPORT, STUDENT


def report(
    run: Annotated[Path, typer.Argument(help="Folder that `dpensemble train` wrote.")],
    out: Annotated[Path | None, typer.Option(help="Where to write the page (default: in the folder).")] = None,
    private: Annotated[
        bool, typer.Option("--private", help="Write the page with private vote statistics: not for sharing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Show an earlier run, and write its page again.

    Example: dpensemble report demo --out page.html
    """
    record, private_record = load_run(run, private=private)
    page = out or run / (PRIVATE_REPORT if private else REPORT)
    try:
        page.write_text(render(record, private_record), encoding="utf-8")
    except OSError as error:
        raise FileError(f"out={str(page)!r} cannot be written ({error.strerror}); choose another file.") from None
    if as_json:
        answer = record.to_dict() | {"page": str(page)}
        if private_record is not None:
            answer["private"] = private_record.to_dict()
        typer.echo(json.dumps(answer, indent=2))
    else:
        print_run(record, page, run / STUDENT)
