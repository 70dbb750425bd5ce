"""``dpensemble verify``."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from dpensemble._files import read_json
from dpensemble.certificates import confirmed, release_stated
from dpensemble.errors import FileError
from dpensemble.workflow.outputs import CERTIFICATE, PRIVATE_RECORD, RECORD


def run(file: Path, as_json: bool) -> None:
    """Print what the verifier reports. End with exit code 1 unless the certificate is confirmed and for release."""
    if file.is_dir():
        if not (file / CERTIFICATE).is_file():
            raise FileError(
                f"{file} contains no {CERTIFICATE}: train with label moments, which always write one, or give "
                "--certificate to a method that votes."
            )
        file = file / CERTIFICATE
    if not file.is_file():
        raise FileError(
            f"{file} must be the folder of a run, or a certificate, such as 'dpensemble plan --certificate' writes; no "
            "such file exists."
        )
    if file.name in (RECORD, PRIVATE_RECORD):
        raise FileError(f"{file} is the record of a run: give its folder, or the {CERTIFICATE} in it.")
    _require_certificate(file)
    yes, statement = confirmed(file)
    release = release_stated(statement)
    answer = {"confirmed": yes, "arithmetic": yes or release is False, "for_release": release, "said": statement}
    typer.echo(json.dumps(answer, indent=2) if as_json else statement)
    if not yes:
        raise typer.Exit(1)


def _require_certificate(file: Path) -> None:
    try:
        holds_object = isinstance(read_json(file, FileError, links=True, special_numbers=True), dict)
    except OSError:
        holds_object = False
    if not holds_object:
        raise FileError(f"{file} is not a certificate: give the folder of a run, or the {CERTIFICATE} in it.")
