"""``dpensemble predict``."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import warnings
from pathlib import Path
from typing import IO, Any

import pandas as pd
import typer

from dpensemble.cli.option import parts_of
from dpensemble.errors import FileError, NotForReleaseWarning, file_errors
from dpensemble.workflow.durable import file_beside
from dpensemble.workflow.predict import load_student, predictions
from dpensemble.workflow.unseen_values import UnseenValues


def run(
    student: Path,
    rows: Path,
    out: Path | None,
    probabilities: bool,
    keep: str | None,
    sep: str | None,
    decimal: str | None,
    multiline_text: bool,
    as_json: bool,
) -> None:
    """Classify rows with a saved student."""
    columns = parts_of(keep) or []
    if out is not None and out.exists() and rows.exists() and out.samefile(rows):
        raise FileError(f"out={str(out)!r} is the table of rows itself: choose another file.")
    with warnings.catch_warnings():
        # A note reports this below.
        warnings.simplefilter("ignore", NotForReleaseWarning)
        loaded = load_student(student)
    unseen = UnseenValues(loaded)
    written: dict[str, Any] = {"sep": sep, "decimal": decimal, "multiline_text": multiline_text}
    chunks = predictions(loaded, rows, keep=columns, probabilities=probabilities, unseen=unseen, **written)
    answers: list[Any] = []
    with (
        file_errors(lambda reason: f"out={str(out)!r} cannot be written ({reason}): choose another file."),
        # Nothing is printed or put in place until everything has succeeded.
        tempfile.TemporaryFile("w+", encoding="utf-8") if out is None else file_beside(out) as draft,
    ):
        for number, labels in enumerate(chunks):
            if out is not None or not as_json:
                labels.to_csv(draft, index=False, header=number == 0)
            if as_json:
                answers += _plain(labels) if columns or probabilities else labels["label"].tolist()
        if out is None and not as_json:
            draft.seek(0)
            _print(draft)
    if as_json:
        typer.echo(json.dumps(answers))
    if loaded.for_release_ is False:
        typer.echo("dpensemble: note: the student is NOT FOR RELEASE; the noise of its run came from a seed.", err=True)
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


def _plain(labels: pd.DataFrame) -> list[dict[Any, Any]]:
    """Return rows that JSON can hold: a blank becomes null."""
    return labels.astype(object).where(labels.notna(), None).to_dict("records")
