"""``dpensemble check``."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from dpensemble.workflow.check import Checked, check


def run(
    private: Path,
    public: Path | None,
    target: str,
    classes: str,
    declared_columns: Path | None,
    unit: str | None,
    drop: str | None,
    sep: str | None,
    decimal: str | None,
    multiline_text: bool,
    no_blanks: bool,
    as_json: bool,
) -> None:
    """Count the bad records of a private table, for its owner alone."""
    found = check(
        private,
        public,
        target,
        classes=classes,
        declared_columns=declared_columns,
        unit=unit,
        drop=[] if drop is None else [name.strip() for name in drop.split(",")],
        sep=sep,
        decimal=decimal,
        multiline_text=multiline_text,
        blanks=not no_blanks,
    )
    typer.echo(json.dumps(found.to_dict(), indent=2) if as_json else "\n".join(_lines(found)))


def _lines(found: Checked) -> list[str]:
    lines = [
        "For you alone: these counts are exact, so do not publish them.",
        f"{found.records:,} records, of which {found.bad:,} are bad and add nothing to a release.",
        f"  {found.without_class:,} have no declared class",
        f"  {found.infinite:,} have an infinite entry",
        f"  {found.without_unit:,} have no unit",
        f"  {found.incomplete:,} have a missing or unreadable entry",
    ]
    lines += [f"    {name}: {number:,} missing or unreadable" for name, number in found.missing_entries.items()]
    if found.bad == found.records:
        lines.append("Every record is bad: compare --classes, --target and the columns with the file.")
    return lines
