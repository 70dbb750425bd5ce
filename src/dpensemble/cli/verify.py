"""``dpensemble verify``."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from dpensemble.certificates import confirmed
from dpensemble.errors import FileError


def run(file: Path, as_json: bool) -> None:
    """Print what the verifier says of a certificate."""
    if not file.is_file():
        raise FileError(f"{file} is no file; give a certificate, such as 'dpensemble plan --certificate' writes.")
    yes, said = confirmed(file)
    typer.echo(json.dumps({"confirmed": yes, "said": said}, indent=2) if as_json else said)
    if not yes:
        raise typer.Exit(1)
