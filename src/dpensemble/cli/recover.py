"""``dpensemble recover``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import typer

from dpensemble.workflow import recover


def run(run: Path, overwrite: bool, as_json: bool) -> None:
    """Finish what a killed run left."""
    found = recover(run, overwrite=overwrite)
    typer.echo(json.dumps(asdict(found), indent=2) if as_json else found.what)
