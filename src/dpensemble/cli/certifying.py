"""The option ``--certificate FILE``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer


def write_certificate(path: Path, certificate: dict[str, Any]) -> None:
    """Write a whole certificate or nothing."""
    from dpensemble.workflow import durable  # noqa: PLC0415  takes long to import

    durable.replace_file(path, json.dumps(certificate, separators=(",", ":")) + "\n")


def print_certificate(path: Path | None) -> None:
    """Print the path of the certificate, if there is one, and how to check it."""
    if path is not None:
        typer.echo(f"Certificate: {path}; check it by 'dpensemble verify {path}'")
