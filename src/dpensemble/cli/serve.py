"""``dpensemble serve``."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from dpensemble.cli.ending import ENDING
from dpensemble.service import read_settings
from dpensemble.service.running import Running
from dpensemble.service.serve import serve


def run(
    config: Path,
    host: str,
    port: int,
    certificate: Path | None,
    certificate_key: Path | None,
    check: bool,
    as_json: bool,
) -> None:
    """Serve until told to stop, or only tell what would be served."""
    settings = read_settings(config)
    if not check:
        ENDING.follow(lambda: "every answer that was told is in the ledger", lambda: False)
        serve(settings, host=host, port=port, certificate=certificate, certificate_key=certificate_key)
        return
    running = Running.of(settings)
    running.ledger.verify()
    notes = running.ledger.check()
    found = [desk.to_dict() for desk in running.desks.values()]
    words = [
        f"{one['name']}: {one['remaining']:,} of {one['answers']:,} answers left, epsilon {one['epsilon']:.4g} at "
        f"delta {one['delta']:g} of data set {one['data_set']!r}, by {one['law']}; takes {' or '.join(one['takes'])}."
        for one in found
    ]
    typer.echo(json.dumps(found, indent=2) if as_json else "\n".join([*words, *notes]))
