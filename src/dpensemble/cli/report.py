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


def report(
    run: Annotated[Path, typer.Argument(help="Folder that `dpensemble train` wrote.")],
    out: Annotated[Path | None, typer.Option(help="Write the page to this file.")] = None,
    private: Annotated[
        bool, typer.Option("--private", help="Include private vote statistics: not for sharing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Show an earlier run, and write its page again.

    Example: dpensemble report demo --out page.html
    """
    record, private_record = load_run(run, private=private)
    if out is not None:
        page = render(record, private_record)
        try:
            out.write_text(page, encoding="utf-8")
        except OSError as error:
            raise FileError(
                f"out={str(out)!r} cannot be written ({error.strerror}); choose another file."
            ) from None
    if as_json:
        answer = record.to_dict()
        if private_record is not None:
            answer["private"] = private_record.to_dict()
        typer.echo(json.dumps(answer, indent=2))
    else:
        print_run(record, run)
