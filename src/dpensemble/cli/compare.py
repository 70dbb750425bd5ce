"""``dpensemble compare``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dpensemble._rounding import round_up
from dpensemble.cli import options as o
from dpensemble.cli.show import warnings_as_lines
from dpensemble.errors import FileError, InvalidParameterError
from dpensemble.relations import Relation
from dpensemble.workflow import (
    COMPARED_LEARNERS,
    METHODS,
    ComparedDataset,
    ComparedMethod,
    Comparison,
    comparison_data,
)
from dpensemble.workflow import compare as run_comparison

_Dataset = Annotated[
    ComparedDataset,
    typer.Option(help="Public data; adult and digits need no download.", rich_help_panel=o.DATA),
]
_Classes = Annotated[
    str | None, typer.Option(help="Labels of images to keep, such as 3,8.", rich_help_panel=o.DATA)
]
_PublicRows = Annotated[
    int | None, typer.Option(help="Public rows, for methods that release labels.", rich_help_panel=o.DATA)
]
_Epsilon = Annotated[float, typer.Option(help="Whole budget of each method.", rich_help_panel=o.PRIVACY)]
_Delta = Annotated[float, typer.Option(help="Bagging needs at least 1/records.", rich_help_panel=o.PRIVACY)]
_Relation = Annotated[
    Relation,
    typer.Option(
        help="Neighbouring relation; DP-SGD is accounted under add-or-remove-one; replace-one costs it twice.",
        rich_help_panel=o.PRIVACY,
    ),
]
_ALL = ",".join(METHODS)
_Methods = Annotated[str, typer.Option(help="Comma-separated.", rich_help_panel=o.MODEL)]
_Learner = Annotated[
    str, typer.Option(help=f"Base learner: {', '.join(COMPARED_LEARNERS)}.", rich_help_panel=o.MODEL)
]
_Teachers = Annotated[
    int | None,
    typer.Option(help="Teachers that vote (default: one for 25 records, at most 250).", rich_help_panel=o.MODEL),
]
_Repeats = Annotated[int, typer.Option(help="Runs of each method.", rich_help_panel=o.MODEL)]
_Out = Annotated[Path | None, typer.Option(help="File for the result as JSON.", rich_help_panel=o.OUTPUT)]

# Of the table where no terminal sets it.
_WIDTH = 112


def compare(
    dataset: _Dataset = ComparedDataset.ADULT,
    classes: _Classes = None,
    public_rows: _PublicRows = None,
    epsilon: _Epsilon = 1.0,
    delta: _Delta = 1e-5,
    relation: _Relation = Relation.ADD_OR_REMOVE_ONE,
    insecure_release_seed: o.InsecureReleaseSeed = None,
    methods: _Methods = _ALL,
    learner: _Learner = "logistic-regression",
    teachers: _Teachers = None,
    repeats: _Repeats = 3,
    seed: o.Seed = None,
    jobs: o.Jobs = -1,
    out: _Out = None,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
) -> None:
    """Compare methods on public data, on the same rows and with the same budget.

    Each method has the whole budget for itself; two rows without privacy stand beside them.

    Example: dpensemble compare --dataset adult --epsilon 1 --delta 1e-5
    """
    if out is not None:
        _check_file(out)
    shown = not quiet and sys.stderr.isatty()
    with warnings_as_lines():
        found = run_comparison(
            comparison_data(dataset, _labels(classes), public_rows, progress=shown),
            epsilon=epsilon,
            delta=delta,
            methods=[name.strip() for name in methods.split(",")],
            learner=learner,
            n_teachers=teachers,
            relation=relation.value,
            repeats=repeats,
            random_state=seed,
            insecure_release_seed=insecure_release_seed,
            n_jobs=jobs,
            progress=shown,
        )
    text = json.dumps(found.to_dict(), indent=2)
    if out is not None:
        _write(out, text)
    if as_json:
        typer.echo(text)
    else:
        _print(found)


def _labels(classes: str | None) -> list[int] | None:
    if classes is None:
        return None
    try:
        return [int(part) for part in classes.split(",")]
    except ValueError:
        raise InvalidParameterError(
            f"classes={classes!r} are no labels of images; give numbers from 0 to 9, such as 3,8."
        ) from None


def _check_file(out: Path) -> None:
    """Refuse, before any long work, a file that cannot be written, or is there already."""
    if out.exists() or not out.absolute().parent.is_dir():
        raise FileError(f"out={str(out)!r} exists already, or is in no folder that does; choose another file.")


def _write(out: Path, text: str) -> None:
    try:
        out.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise FileError(f"out={str(out)!r} cannot be written ({error.strerror}); choose another file.") from None


def _print(found: Comparison) -> None:
    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = max(console.width, _WIDTH)
    rows, repeats = found.rows, f"{found.repeats} repeat{'s' if found.repeats > 1 else ''}"
    lines = [
        f"{found.dataset}: {rows['private']:,} private, {rows['public']:,} public and {rows['test']:,} test rows "
        f"({found.how}); {len(found.classes)} classes.",
        f"Budget of each method: epsilon {found.epsilon:g}, delta {found.delta:g}, {found.relation}; "
        f"learner {found.learner}, {found.n_teachers:,} teachers, {repeats}.",
    ]
    for line in lines:
        console.print(line, markup=False)
    console.print(_table(found))
    for row in found.methods:
        if row.error is not None:
            console.print(f"{row.method} cannot run: {row.error}", markup=False)
        if row.note is not None:
            console.print(f"{row.method}: {row.note}.", markup=False)
    if not found.for_release:
        console.print("NOT FOR RELEASE: the noise came from a seed.", markup=False)
    console.print(found.warning, markup=False)


def _table(found: Comparison) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.add_column("method", no_wrap=True)
    for head in ("accuracy", "epsilon", "delta"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("bought")
    table.add_column("released")
    table.add_column("seconds", justify="right")
    for row in (*found.methods, *found.references):
        table.add_row(
            row.method,
            _accuracy(row),
            _figure(row.epsilon),
            _figure(row.delta),
            escape(row.text),
            row.released or "-",
            f"{row.seconds / found.repeats:.1f}",
        )
    return table


def _accuracy(row: ComparedMethod) -> str:
    if row.accuracy is None:
        return "-"
    return f"{row.accuracy:.3f}" + ("" if row.spread is None else f" ± {row.spread:.3f}")


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{round_up(value, 4):g}" if value else "0"
