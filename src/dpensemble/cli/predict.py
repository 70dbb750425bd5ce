"""``dpensemble predict``."""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import sys
import tempfile
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
import typer

from dpensemble._checks import integer_between
from dpensemble._files import is_pipe, read_json
from dpensemble._work import progress_on_stderr
from dpensemble.cli.options import parts_of
from dpensemble.cli.output import check_folder
from dpensemble.datasets.arrow_sources import holds_rows_of
from dpensemble.errors import FileError, InvalidParameterError, NotForReleaseWarning, file_errors
from dpensemble.workflow.disk import file_beside
from dpensemble.workflow.numbers import COVERAGE, NumberColumns, RiskColumns, columns_of
from dpensemble.workflow.outputs import RunFile
from dpensemble.workflow.predict import RowExplanations, UnseenValues, load_student, predictions
from dpensemble.workflow.targets import parsed_times


def run(
    student: Path,
    rows: str,
    out: Path | None,
    probabilities: bool,
    keep: str | None,
    threshold: float | None,
    positive_class: str | None,
    sep: str | None,
    decimal: str | None,
    multiline_text: bool,
    skip_lines: int | None,
    sheet: str | None,
    as_json: bool,
    explain: bool,
    explain_plot: Path | None,
    explain_row: int,
    coverage: float | None,
    quantiles: str | None,
    proven: bool,
    at: str | None,
) -> None:
    """Predict rows with a saved student."""
    columns = parts_of(keep) or []
    if out is not None and holds_rows_of(rows, out):
        raise FileError(f"out={str(out)!r} holds the rows to classify: choose another file.")
    _check_plot(explain_plot, out)
    with warnings.catch_warnings(), progress_on_stderr("Loading the student"):
        # A note reports this below.
        warnings.simplefilter("ignore", NotForReleaseWarning)
        loaded = load_student(student)
    unseen = UnseenValues(loaded)
    reading: dict[str, Any] = {"sep": sep, "decimal": decimal, "multiline_text": multiline_text}
    reading |= {"skip_lines": skip_lines, "sheet": sheet, "threshold": threshold, "positive_class": positive_class}
    explanations = None
    if explain or explain_plot is not None:
        explanations = RowExplanations(
            loaded,
            columns=explain and (out is not None or not as_json),
            values=explain and as_json,
            row=None if explain_plot is None else integer_between("explain_row", explain_row, 0),
        )
    reading["number"] = _number_columns(coverage, quantiles, proven)
    reading["risk"] = None if at is None else RiskColumns(parsed_times("at", at))
    chunks = predictions(
        loaded, rows, keep=columns, probabilities=probabilities, unseen=unseen, explanations=explanations, **reading
    )
    answers: list[Any] = []
    whole = bool(columns or probabilities or explain or columns_of(loaded) is not None)
    with (
        file_errors(lambda reason: f"out={str(out)!r} cannot be written ({reason}): choose another file."),
        # Nothing is printed or put in place until everything has succeeded.
        _draft(rows) if out is None else file_beside(out) as draft,
    ):
        with progress_on_stderr("Classifying rows"):
            for number, labels in enumerate(chunks):
                if out is not None or not as_json:
                    labels.to_csv(draft, index=False, header=number == 0)
                if as_json:
                    answers += _answers(labels, explanations, whole=whole)
        if explanations is not None and explain_plot is not None:
            _write_plot(explanations.drawn(), explain_plot)
        if out is None and not as_json:
            draft.seek(0)
            _print(draft)
    if as_json:
        typer.echo(json.dumps(answers))
    _print_notes(loaded, None if threshold is not None else _threshold_for_costs(student), unseen)


def _number_columns(coverage: float | None, quantiles: str | None, proven: bool) -> NumberColumns | None:
    """Return which columns of a number are asked for, or None if no option names any."""
    if coverage is None and quantiles is None and not proven:
        return None
    try:
        shares = [float(part) for part in parts_of(quantiles) or ()]
    except ValueError:
        raise InvalidParameterError(
            f"quantiles={quantiles!r} must be numbers from 0.001 to 0.999, such as 0.1,0.9.", parameter="quantiles"
        ) from None
    return NumberColumns(COVERAGE if coverage is None else coverage, shares, proven)


def _draft(rows: str) -> AbstractContextManager[IO[str]]:
    """Return a file for what will be printed. What comes through a pipe never reaches the disk."""
    return io.StringIO() if is_pipe(rows) else tempfile.TemporaryFile("w+", encoding="utf-8")


def _print_notes(student: Any, by_costs: str | None, unseen: UnseenValues) -> None:
    """Print what the user of the labels should know."""
    if student.for_release_ is False:
        typer.echo("dpensemble: note: the student is NOT FOR RELEASE; the noise of its run came from a seed.", err=True)
    if by_costs is not None:
        typer.echo(
            f"dpensemble: note: labels are the most probable classes; {by_costs} decides by the costs of the run.",
            err=True,
        )
    note = unseen.sentence()
    if note is not None:
        typer.echo(f"dpensemble: note: {note}", err=True)


def _print(file: IO[str]) -> None:
    """Copy a file to the screen. The reader may stop at any line."""
    try:
        shutil.copyfileobj(file, sys.stdout)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _check_plot(path: Path | None, out: Path | None) -> None:
    """Raise if a picture cannot be written, before anything is read."""
    if path is None:
        return
    if path.suffix.lower() != ".svg" or path == out:
        raise InvalidParameterError(
            f"explain_plot must be a file of its own that ends in .svg; got {str(path)!r}.", parameter="explain_plot"
        )
    check_folder("explain_plot", path)


def _write_plot(picture: str, path: Path) -> None:
    with (
        file_errors(lambda reason: f"explain_plot={str(path)!r} cannot be written ({reason}); choose another file."),
        file_beside(path) as file,
    ):
        file.write(picture)


def _answers(labels: pd.DataFrame, explanations: RowExplanations | None, *, whole: bool) -> Sequence[object]:
    """Return what JSON holds about a chunk of rows: labels alone, or objects."""
    if not whole:
        return list(labels["label"].tolist())
    if explanations is None or not explanations.values:
        return _plain(labels)
    own = labels.drop(columns=[name for name in labels.columns if name in explanations.columns])
    reasons, explanations.values = explanations.values, []
    return [row | {"explanation": reason} for row, reason in zip(_plain(own), reasons, strict=True)]


def _plain(labels: pd.DataFrame) -> list[dict[Any, Any]]:
    """Return rows that JSON can hold: a blank becomes null, and so does an open end, which is infinite."""
    return labels.astype(object).where(labels.notna() & ~labels.isin([np.inf, -np.inf]), None).to_dict("records")


def _threshold_for_costs(path: Path) -> str | None:
    """Return the options with which `predict` decides by the costs that a run was given, or None without costs."""
    file = path / RunFile.RECORD if path.is_dir() else path.parent / RunFile.RECORD
    try:
        decision = read_json(file, FileError, special_numbers=True)["data"]["decision"]
        return f"--threshold {decision['threshold']:.4g} --positive-class {shlex.quote(decision['positive_class'])}"
    except (OSError, ValueError, LookupError, TypeError):
        # A student may be copied away from its run.
        return None
