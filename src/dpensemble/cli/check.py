"""``dpensemble check``."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from dpensemble.cli.option import parts_of
from dpensemble.cli.where import opened_private, opened_workers
from dpensemble.datasets import CSVFormat
from dpensemble.workflow import TableFiles
from dpensemble.workflow.check import Checked, check

_CHANCE = ", which is more than chance: public rows are not protected, so give rows of other people"


def run(
    private: str,
    public: Path | None,
    target: str,
    classes: str,
    declared_columns: Path | None,
    unit: str | None,
    drop: str | None,
    sep: str | None,
    decimal: str | None,
    multiline_text: bool,
    skip_lines: int | None,
    no_blanks: bool,
    as_json: bool,
) -> None:
    """Count the bad records of a private table. The counts are for the owner only."""
    files = TableFiles(
        private=Path(private),
        public=public,
        target=target,
        classes=parts_of(classes),
        declared_columns=declared_columns,
        unit=unit,
        drop=parts_of(drop) or (),
        form=CSVFormat(sep, decimal, multiline_text, skip_lines),
    )
    with opened_private(private) as source, opened_workers(files.private, source) as workers:
        counts = check(files, blanks=not no_blanks, workers=workers)
    typer.echo(json.dumps(counts.to_dict(), indent=2) if as_json else "\n".join(_lines(counts)))


def _lines(counts: Checked) -> list[str]:
    lines = [
        "For you only: these counts are exact, so do not publish them.",
        f"{counts.records:,} records: {counts.bad:,} of them are bad and add nothing to a release.",
        f"  {counts.without_class:,} have no declared class",
        f"  {counts.infinite:,} have an infinite entry",
        f"  {counts.without_unit:,} have no unit",
        f"  {counts.incomplete:,} have a missing or unreadable entry",
    ]
    lines += [f"    {name}: {number:,} missing or unreadable" for name, number in counts.missing_entries.items()]
    if counts.public_rows:
        lines.append(
            f"{counts.public_rows_equal_to_records:,} of {counts.public_rows:,} public rows equal a record in every "
            f"feature{_CHANCE if counts.more_than_chance else ''}."
        )
    lines += [f"{name} file: {words}" for name, words in counts.layouts.items()]
    if counts.bad == counts.records:
        lines.append("Every record is bad: compare --classes, --target and the columns with the file.")
    return lines
