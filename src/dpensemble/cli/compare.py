"""``dpensemble compare``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dpensemble._checks import round_up
from dpensemble._work import progress_bar, progress_on_stderr
from dpensemble.cli.options import parts_of
from dpensemble.cli.output import warnings_as_lines
from dpensemble.datasets.formats import entry_rules
from dpensemble.errors import FileError, InvalidParameterError, file_errors
from dpensemble.relations import Relation
from dpensemble.workflow.comparison import ComparedMethod, Comparison
from dpensemble.workflow.comparison import compare as run_comparison
from dpensemble.workflow.comparison_data import ComparisonData, comparison_data, table_data
from dpensemble.workflow.disk import replace_file

# Width of the table when no terminal sets it.
_WIDTH = 112


def run(
    dataset: str | None,
    table: Path | None,
    target: str | None,
    sep: str | None,
    decimal: str | None,
    multiline_text: bool,
    skip_lines: int | None,
    sheet: str | None,
    column: list[str] | None,
    blank: list[str] | None,
    below_limit: str | None,
    classes: str | None,
    public_rows: int | None,
    methods: str | None,
    teachers: int | None,
    relation: Relation,
    seed: int | None,
    jobs: int,
    out: Path | None,
    as_json: bool,
    quiet: bool,
    **settings: Any,
) -> None:
    """Compare methods on public data, on the same rows and with the same budget."""
    if out is not None:
        _check_file(out)
    if methods is not None:
        settings["methods"] = parts_of(methods)
    reading: dict[str, Any] = {"sep": sep, "decimal": decimal, "multiline_text": multiline_text}
    reading |= {"skip_lines": skip_lines, "sheet": sheet, "entries": entry_rules(column, blank, below_limit)}
    if table is None and (column or blank or below_limit):
        raise InvalidParameterError(
            "column, blank and below_limit are about columns of --table: give --table too, or drop them.",
            parameter="column" if column else "blank" if blank else "below_limit",
        )
    with warnings_as_lines(), progress_on_stderr(quiet=quiet):
        with progress_bar("Reading data", None):
            data = _data(dataset, table, target, classes, public_rows, progress=not quiet, **reading)
        comparison = run_comparison(
            data,
            n_teachers=teachers,
            relation=relation.value,
            random_state=seed,
            n_jobs=jobs,
            progress=not quiet,
            **settings,
        )
    text = json.dumps(comparison.to_dict(), indent=2)
    if out is not None:
        with file_errors(lambda reason: f"out={str(out)!r} cannot be written ({reason}): choose another file."):
            replace_file(out, text + "\n")
    if as_json:
        typer.echo(text)
    else:
        _print(comparison)


def _data(
    dataset: str | None,
    table: Path | None,
    target: str | None,
    classes: str | None,
    public_rows: int | None,
    *,
    progress: bool,
    **written: Any,
) -> ComparisonData:
    """Return the packaged data, or the user's public table."""
    if table is None:
        if target is not None:
            raise InvalidParameterError(f"target={target!r} requires --table: give --table too, or drop --target.")
        name = "adult" if dataset is None else dataset
        return comparison_data(name, _labels(classes), public_rows, progress=progress)
    if target is None or dataset is not None or classes is not None:
        raise InvalidParameterError(
            f"table={str(table)!r} requires --target and excludes --dataset and --classes, because the table's labels "
            "are the classes: give --target and drop the others."
        )
    return table_data(table, target, public_rows, **written)


def _labels(classes: str | None) -> list[int] | None:
    if classes is None:
        return None
    try:
        return [int(part) for part in classes.split(",")]
    except ValueError:
        raise InvalidParameterError(
            f"classes must be labels of images, numbers from 0 to 9, e.g. 3,8; got {classes!r}."
        ) from None


def _check_file(out: Path) -> None:
    """Raise if the file cannot be written or exists. Called before any long work."""
    if out.exists() or not out.absolute().parent.is_dir():
        raise FileError(f"out={str(out)!r} must be a new file in an existing folder: choose another file.")


def _print(comparison: Comparison) -> None:
    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = max(console.width, _WIDTH)
    rows, repeats = comparison.rows, f"{comparison.repeats} repeat{'s' if comparison.repeats > 1 else ''}"
    lines = [
        f"{comparison.dataset}: {rows['private']:,} private, {rows['public']:,} public and {rows['test']:,} test rows "
        f"({comparison.how}); {len(comparison.classes)} classes.",
        f"Budget of each method: epsilon {comparison.epsilon:g}, delta {comparison.delta:g}, {comparison.relation}; "
        f"learner {comparison.learner}, {comparison.n_teachers:,} teachers, {repeats}.",
    ]
    for line in lines:
        console.print(line, markup=False)
    console.print(_table(comparison))
    for row in comparison.methods:
        if row.error is not None:
            console.print(f"{row.method} cannot run: {row.error}", markup=False)
        if row.note is not None:
            console.print(f"{row.method}: {row.note}.", markup=False)
    if not comparison.for_release:
        console.print("NOT FOR RELEASE: the noise came from a seed.", markup=False)
    console.print(f"{comparison.warning} {_together(comparison)}", markup=False)


def _together(comparison: Comparison) -> str:
    epsilon, delta = comparison.together["epsilon"], comparison.together["delta"]
    return f"All fits of this table would cost epsilon {epsilon:.4g} and delta {delta:.4g} (the sums)."


def _table(comparison: Comparison) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.add_column("method", no_wrap=True)
    second = ("auroc", "AUROC") if len(comparison.classes) == 2 else ("balanced_accuracy", "balanced")
    for head in ("accuracy", second[1], "Brier", "epsilon", "delta"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("bought")
    table.add_column("released")
    table.add_column("seconds", justify="right")
    for row in (*comparison.methods, *comparison.references):
        table.add_row(
            row.method,
            _accuracy(row),
            _measure(row, second[0]),
            _measure(row, "brier"),
            _figure(row.epsilon),
            _figure(row.delta),
            escape(row.text),
            row.released or "-",
            f"{row.seconds / comparison.repeats:.1f}",
        )
    return table


def _accuracy(row: ComparedMethod) -> str:
    if row.accuracy is None:
        return "-"
    return f"{row.accuracy:.3f}" + ("" if row.spread is None else f" ± {row.spread:.3f}")


def _measure(row: ComparedMethod, name: str) -> str:
    return f"{row.measures[name]:.3f}" if name in row.measures else "-"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{round_up(value, 4):g}" if value else "0"
