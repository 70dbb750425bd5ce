"""``dpensemble serve``."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from dpensemble.cli.interrupts import INTERRUPTS
from dpensemble.service import read_settings
from dpensemble.service.serve import serve
from dpensemble.service.state import ServiceState


def run(
    config: Path,
    host: str,
    port: int,
    certificate: Path | None,
    certificate_key: Path | None,
    check: bool,
    as_json: bool,
) -> None:
    """Serve until a signal arrives, or only print what would be served."""
    settings = read_settings(config)
    if not check:
        INTERRUPTS.follow(lambda: "every answer that was sent is in the ledger", lambda: False)
        serve(settings, host=host, port=port, certificate=certificate, certificate_key=certificate_key)
        return
    service = ServiceState.of(settings)
    service.ledger.verify()
    notes = service.ledger.check()
    grants = [handler.to_dict() for handler in service.handlers.values()]
    words = [
        f"{one['name']}: {one['remaining']:,} of {one['answers']:,} answers left, epsilon {one['epsilon']:.4g} at "
        f"delta {one['delta']:g} of data set {one['data_set']!r}, by {one['law']}; takes {' or '.join(one['takes'])}."
        for one in grants
    ]
    typer.echo(json.dumps(grants, indent=2) if as_json else "\n".join([*words, *notes]))
