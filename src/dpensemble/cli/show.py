"""What people see in the terminal."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from dpensemble.report import RunRecord

_FEW_UNITS = 10


def print_run(record: RunRecord, page: Path, student: Path) -> None:
    """Print the guarantee, the labels and the scores of a run, for its owner."""
    console = Console(highlight=False, soft_wrap=True)
    for line in record.statement().sentences():
        console.print(line, markup=False)
    for reason in record.experiment:
        console.print(f"Experiment, not a release: {reason}", markup=False)
    console.print()
    right = "" if record.label_accuracy is None else f", {record.label_accuracy:.1%} of them right"
    inside = "" if record.labels_are_public else " (for you alone: this number is not protected)"
    rows = record.data["public_rows"]
    asked = "" if record.asked == record.labels else f" after asking about {record.asked:,}"
    answered = f"Labels answered: {record.labels:,} of {rows:,} public rows"
    console.print(f"{answered}{asked}{right}{inside}", markup=False)
    if record.student is not None:
        console.print(_scores(record))
        if not record.scores_are_public:
            console.print(
                "Scores are exact and for you alone, unless the test rows are public (--test-is-public)."
            )
    for hint in _hints(record):
        console.print(f"Hint: {hint}", markup=False)
    console.print(f"Columns: {record.data['kinds_of_columns']}", markup=False)
    console.print(f"Report:  {page}", markup=False)
    console.print(f"Student: {student}", markup=False)


def _scores(record: RunRecord) -> Table:
    table = Table("", "accuracy", "AUROC", "AUPRC")
    for name, found in (("student (private)", record.student), ("baseline (no privacy)", record.baseline)):
        if found is not None:
            cells = (found.get(key) for key in ("accuracy", "auroc", "auprc"))
            table.add_row(name, *("-" if cell is None else f"{cell:.3f}" for cell in cells))
    if record.data["most_common_label"] is not None:
        table.add_row("always the most common label", f"{record.data['most_common_label']:.3f}", "0.500", "-")
    return table


def _hints(record: RunRecord) -> list[str]:
    """Point at settings that waste the budget."""
    hints = []
    each = record.data["private_units"] / record.settings["n_teachers"]
    if each < _FEW_UNITS:
        hints.append(f"a teacher learns from about {each:.0f} units only; use fewer teachers.")
    if record.asked == record.data["public_rows"]:
        hints.append("all public rows were asked about; more of them would use the rest of the budget.")
    return hints


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Print each warning of the library once, as one line on stderr."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        typer.echo(f"dpensemble: {text}", err=True)
