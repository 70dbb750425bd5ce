"""Writing and reading the folder of one run: all files, or none."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from dpensemble.errors import FileError
from dpensemble.persistence import save_classifier
from dpensemble.report import PrivateRecord, RunRecord, read_json, render

RECORD, PRIVATE_RECORD = "run.json", "private.json"
REPORT, PRIVATE_REPORT = "report.html", "private-report.html"
STUDENT, LABELS = "student.skops", "labels.csv"
# The record of an earlier run goes last: until then it still says what was spent.
_ALL = (PRIVATE_RECORD, REPORT, PRIVATE_REPORT, STUDENT, LABELS, RECORD)


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome:
    """What a run produced.

    Parameters
    ----------
    record : RunRecord
        What happened.
    private : PrivateRecord or None
        Statistics of secret votes, where asked for.
    classifier : Pipeline
        Encoder and student; takes tables with the public columns.
    labels : DataFrame
        Public row numbers and released labels.
    """

    record: RunRecord
    private: PrivateRecord | None
    classifier: Any
    labels: pd.DataFrame


@contextmanager
def staged_folder(folder: Path, *, overwrite: bool = False, inputs: Sequence[Path] = ()) -> Iterator[Path]:
    """Yield an empty folder whose files move to `folder` if the block succeeds, and vanish if it does not.

    Raises
    ------
    FileError
        Before the block runs, if `folder` cannot be written, holds one of the `inputs` under the name of an output, or
        holds files of an earlier run and `overwrite` is not set: their record is the only account of what it spent.
    """
    taken = [folder / name for name in _ALL if (folder / name).exists()]
    if taken and not overwrite:
        raise FileError(
            f"out={str(folder)!r} holds files of an earlier run ({taken[0].name}), and what both spend adds up; "
            "choose another folder, or give --overwrite."
        )
    for path in taken:
        if path.is_dir() or any(given.exists() and path.samefile(given) for given in inputs):
            raise FileError(f"{path} is a folder or one of the tables, and would be replaced; choose another --out.")
    base = folder
    while not base.exists() and base != base.parent:
        base = base.parent
    try:
        if not base.is_dir():
            raise NotADirectoryError(20, "it is not a folder")
        staging = Path(tempfile.mkdtemp(prefix=".dpensemble-", dir=base))
    except OSError as error:
        raise FileError(f"out={str(folder)!r} cannot be written ({error.strerror}); choose another folder.") from None
    try:
        yield staging
        _move(staging, folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _move(staging: Path, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in _ALL:
            if (staging / name).exists():
                (staging / name).replace(folder / name)
            else:
                # A file of an earlier run must not pass for one of this run.
                (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise FileError(f"out={str(folder)!r} cannot be written ({error.strerror}); choose another folder.") from None


def write_outcome(outcome: Outcome, folder: Path) -> None:
    """Write a run's files into a staged folder."""
    (folder / RECORD).write_text(json.dumps(outcome.record.to_dict(), indent=2) + "\n", encoding="utf-8")
    (folder / REPORT).write_text(render(outcome.record), encoding="utf-8")
    outcome.labels.to_csv(folder / LABELS, index=False)
    save_classifier(outcome.classifier, folder / STUDENT)
    if outcome.private is not None:
        text = json.dumps(outcome.private.to_dict(), indent=2) + "\n"
        (folder / PRIVATE_RECORD).write_text(text, encoding="utf-8")
        (folder / PRIVATE_REPORT).write_text(render(outcome.record, outcome.private), encoding="utf-8")


def load_run(folder: Path, *, private: bool) -> tuple[RunRecord, PrivateRecord | None]:
    """Read the records of an earlier run.

    Parameters
    ----------
    folder : path
        Folder of the run.
    private : bool
        Whether to read the secret statistics too.

    Returns
    -------
    record : RunRecord
    private : PrivateRecord or None

    Raises
    ------
    FileError
        If a record is missing or not of this format.
    """
    record = RunRecord.from_dict(read_json(folder / RECORD))
    if not private:
        return record, None
    if not (folder / PRIVATE_RECORD).exists():
        raise FileError(f"{folder} holds no secret statistics of the votes; train with --private-report to keep them.")
    return record, PrivateRecord.from_dict(read_json(folder / PRIVATE_RECORD))
