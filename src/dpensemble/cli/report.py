"""``dpensemble report``."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from dpensemble.cli.show import print_run
from dpensemble.errors import FileError
from dpensemble.report import render
from dpensemble.workflow import load_run
from dpensemble.workflow.durable import ANY_FILE, OWN_FILE, replace_file
from dpensemble.workflow.outputs import PRIVATE_REPORT, RECORD, REPORT, STUDENT, undamaged


def run(run: Path, out: Path | None, private: bool, as_json: bool) -> None:
    """Show an earlier run, and write its page again."""
    record, private_record = load_run(run, private=private)
    page = out or run / (PRIVATE_REPORT if private else REPORT)
    with undamaged(run / RECORD):
        text = render(record, private_record)
    try:
        replace_file(page, text, OWN_FILE if private else ANY_FILE)
    except OSError as error:
        raise FileError(f"out={str(page)!r} cannot be written ({error.strerror}); choose another file.") from None
    if as_json:
        answer = record.to_dict() | {"page": str(page)}
        if private_record is not None:
            answer["private"] = private_record.to_dict()
        typer.echo(json.dumps(answer, indent=2))
    else:
        with undamaged(run / RECORD):
            print_run(record, page, run / STUDENT)
