"""``dpensemble report``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import typer

from dpensemble.cli.show import print_run
from dpensemble.errors import file_errors
from dpensemble.report import RunRecord
from dpensemble.report.card import FILL_IN, as_yaml, registry_entry
from dpensemble.report.page import render
from dpensemble.report.record import declared_noun
from dpensemble.workflow.disk import ANY_FILE, OWN_FILE, replace_file
from dpensemble.workflow.outputs import RunFile, load_run, undamaged


def run(
    run: Path,
    out: Path | None,
    title: str | None,
    unit_name: str | None,
    private: bool,
    registry: Path | None,
    as_json: bool,
) -> None:
    """Show an earlier run, and write its page again, with another title or noun for units on request."""
    record, private_record = load_run(run, private=private)
    record = _renamed(record, title, unit_name)
    page = out or run / (RunFile.PRIVATE_REPORT if private else RunFile.REPORT)
    with undamaged(run / RunFile.RECORD):
        text = render(record, private_record)
    _write("out", page, text, OWN_FILE if private else ANY_FILE)
    if registry is not None:
        with undamaged(run / RunFile.RECORD):
            entry = as_yaml(registry_entry(record))
        _write("registry", registry, entry, ANY_FILE)
    if as_json:
        answer = record.to_dict() | {"page": str(page)}
        if private_record is not None:
            answer["private"] = private_record.to_dict()
        typer.echo(json.dumps(answer, indent=2))
    else:
        with undamaged(run / RunFile.RECORD):
            print_run(record, page, run / RunFile.STUDENT)
    if registry is not None:
        typer.echo(f"Registry: {registry}. Fill in what it leaves open ({FILL_IN}).", err=as_json)


def _renamed(record: RunRecord, title: str | None, unit_name: str | None) -> RunRecord:
    """Return the record with another title and another noun for units. None leaves them as they are."""
    names = {} if title is None else {"title": title}
    if unit_name is not None:
        names["unit_name"] = declared_noun(unit_name, record.data.get("unit_column"))
    return replace(record, data=record.data | names)


def _write(parameter: str, path: Path, text: str, mode: int) -> None:
    with file_errors(lambda reason: f"{parameter}={str(path)!r} cannot be written ({reason}): choose another file."):
        replace_file(path, text, mode)
