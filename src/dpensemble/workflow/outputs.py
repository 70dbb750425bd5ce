"""The products of one run, and the files of its folder: how they are written and read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import pandas as pd

from dpensemble.errors import DPEnsembleError, FileError
from dpensemble.persistence import save_classifier
from dpensemble.report import RunRecord
from dpensemble.report.life_table import life_table_rows
from dpensemble.report.page import card_texts, render
from dpensemble.report.record import PrivateRecord
from dpensemble.workflow import disk
from dpensemble.workflow.disk import ANY_FILE, OWN_FILE, journal_path, write_file


class RunFile(StrEnum):
    """The files of a run's folder, by name."""

    PRIVATE_RECORD = "private.json"
    PRIVATE_REPORT = "private-report.html"
    REPORT = "report.html"
    STUDENT = "student.skops"
    LABELS = "labels.csv"
    LIFE_TABLE = "life-table.csv"
    CERTIFICATE = "certificate.json"
    CARD = "card.json"
    CARD_TEXT = "card.md"
    RECORD = "run.json"

    @property
    def is_private(self) -> bool:
        """Whether the file holds statistics of secret votes, so that nobody else may enter its folder."""
        return self in (RunFile.PRIVATE_RECORD, RunFile.PRIVATE_REPORT)


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome:
    """The products of a run.

    Parameters
    ----------
    record : RunRecord
        The result of the run.
    private : PrivateRecord or None
        Statistics of secret votes, if requested.
    classifier : Pipeline or None
        Encoder and student. Takes tables with the public columns. None for a life table.
    labels : DataFrame or None
        Public row numbers and released labels. None for a life table.
    warnings : tuple of str
        Problems of the secret teachers. For the owner only.
    certificate : dict or None
        The certificate for `dpensemble verify`.
    for_owner : dict
        Exact counts that depend on single records, with the digits that each can have. Only ``run.json`` has them.
    """

    record: RunRecord
    private: PrivateRecord | None
    classifier: Any
    labels: pd.DataFrame | None
    warnings: tuple[str, ...] = ()
    certificate: dict[str, Any] | None = None
    for_owner: dict[str, tuple[int | None, int]] = field(default_factory=dict)

    def file_contents(self) -> dict[RunFile, tuple[str, int]]:
        """Return the text of each file except the student, and the permissions of the file."""
        record, (card, card_text) = self.record, card_texts(self.record)
        # Exact scores and times are in the record.
        texts = {
            RunFile.RECORD: (_record_text(record, self.for_owner), OWN_FILE),
            RunFile.REPORT: (render(record), ANY_FILE),
            RunFile.CARD: (card, ANY_FILE),
            RunFile.CARD_TEXT: (card_text, ANY_FILE),
        }
        life_table = None if record.life_table is None else pd.DataFrame(life_table_rows(record.life_table))
        for name, table in ((RunFile.LABELS, self.labels), (RunFile.LIFE_TABLE, life_table)):
            if table is None:
                continue
            # A column, because readers of CSV files read a comment as a row.
            shown = table if record.statement().for_release else table.assign(for_release="false")
            texts[name] = (shown.to_csv(index=False), ANY_FILE)
        if self.certificate is not None:
            texts[RunFile.CERTIFICATE] = (json.dumps(self.certificate, separators=(",", ":")) + "\n", ANY_FILE)
        if self.private is not None:
            texts[RunFile.PRIVATE_RECORD] = (json.dumps(self.private.to_dict(), indent=2) + "\n", OWN_FILE)
            texts[RunFile.PRIVATE_REPORT] = (render(record, self.private), OWN_FILE)
        return texts


def write_outcome(outcome: Outcome, folder: Path) -> None:
    """Write a run's files into an empty folder. Only the owner can read those that must not be shared.

    Each file of a run with seeded noise is marked: ``for_release`` is false, or the page is marked as an experiment.
    """
    for name, (text, mode) in outcome.file_contents().items():
        write_file(folder / name, text, mode)
    if outcome.classifier is not None:
        disk.step(f"write {RunFile.STUDENT}")
        save_classifier(outcome.classifier, folder / RunFile.STUDENT)


def _record_text(record: RunRecord, counts: dict[str, tuple[int | None, int]]) -> str:
    """Return the record with counts for its owner. The length of the text is the same for all counts."""
    values = {name: count for name, (count, _) in counts.items()}
    text = json.dumps(record.to_dict(values), indent=2)
    missing = sum(max(digits, len("null")) - len(json.dumps(count)) for count, digits in counts.values())
    return text + " " * missing + "\n"


def load_run(folder: Path, *, private: bool) -> tuple[RunRecord, PrivateRecord | None]:
    """Read the record of an earlier run, and its secret statistics on request."""
    path, journal = folder / RunFile.RECORD, journal_path(folder)
    if not path.exists() and journal.exists():
        raise FileError(f"{folder} holds no run, but {journal} is from an interrupted one: see 'dpensemble recover'.")
    with undamaged(path):
        record = RunRecord.read(path)
    if not private:
        return record, None
    if not (folder / RunFile.PRIVATE_RECORD).exists():
        raise FileError(f"{folder} holds no secret statistics of the votes: train with --private-report to store them.")
    with undamaged(folder / RunFile.PRIVATE_RECORD):
        return record, PrivateRecord.read(folder / RunFile.PRIVATE_RECORD)


@contextmanager
def undamaged(path: Path) -> Iterator[None]:
    """Turn errors about entries of wrong types in a record into one sentence."""
    try:
        yield
    except DPEnsembleError as error:
        raise FileError(str(error)) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise FileError(
            f"{path} is damaged: its entries have wrong types ({type(error).__name__}); restore it."
        ) from None
