"""``dpensemble check``."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from dpensemble._checks import shown, split_names
from dpensemble.cli.options import parts_of
from dpensemble.cli.where import opened_private, opened_workers
from dpensemble.datasets import CSVFormat
from dpensemble.workflow import TableFiles
from dpensemble.workflow.check import Checked, check

_CHANCE = ", which is more than chance: public rows are not protected, so give rows of other people"
_TWO_FORMS = (
    "ids are written as 7.0 although another id is 7, AND COUNT AS TWO UNITS, so one person would be protected as two: "
    "write each id alike."
)
# A share of records without a declared class that is hardly an accident.
_REMARKABLE = 0.05


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
    """Show how columns are read, and count the bad records of a private table. The counts are for the owner only."""
    files = TableFiles(
        private=Path(private),
        public=public,
        target=target,
        classes=split_names(classes),
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
        f"  {counts.without_class:,} have no declared class{_compared(counts)}",
        f"  {counts.infinite:,} have an infinite entry",
        f"  {counts.without_unit:,} have no unit",
        f"  {counts.incomplete:,} have a missing or unreadable entry",
    ]
    lines += [f"    {name}: {number:,} missing or unreadable" for name, number in counts.missing_entries.items()]
    if counts.units is not None:
        lines.append(f"The records are of {counts.units:,} units.")
    if counts.ids_of_two_forms:
        lines.append(f"{counts.ids_of_two_forms:,} {_TWO_FORMS}")
    if counts.public_rows:
        lines.append(
            f"{counts.public_rows_equal_to_records:,} of {counts.public_rows:,} public rows equal a record in every "
            f"feature{_CHANCE if counts.more_than_chance else ''}."
        )
    lines += [f"{name} file: {words}" for name, words in counts.layouts.items()]
    if counts.bad == counts.records:
        lines.append("Every record is bad: compare --classes, --target and the columns with the file.")
    lines.append(f"Columns, as {'they are declared' if counts.declared else 'public rows show them'}:")
    lines += [f"  {name} ({kind})" for name, kind in counts.columns.items()]
    if counts.declared:
        lines.append("There are no public rows to judge the declared columns by.")
    lines += [f"Note: {note}" for note in counts.notes]
    return lines


def _compared(counts: Checked) -> str:
    """Return a loud remark if many records have no declared class."""
    share = counts.without_class / counts.records
    if share < _REMARKABLE:
        return ""
    return (
        f": {100 * share:.3g} % of all, WHICH A RUN WOULD PAY FOR WITHOUT LEARNING FROM THEM; the declared classes are "
        f"{shown(counts.classes)}, so compare them with column {counts.target!r} of the file"
    )
