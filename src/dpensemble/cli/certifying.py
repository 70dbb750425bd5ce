"""``--certificate FILE`` of the commands that claim something."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer


def write_certificate(path: Path, certificate: dict[str, Any]) -> None:
    """Write a certificate, all of it or nothing."""
    from dpensemble.workflow import durable  # noqa: PLC0415  takes long to import

    durable.replace_file(path, json.dumps(certificate, separators=(",", ":")) + "\n")


def print_certificate(path: Path | None) -> None:
    """Print where it is and how to check it, if there is one."""
    if path is not None:
        typer.echo(f"Certificate: {path}; check it by 'dpensemble verify {path}'")
