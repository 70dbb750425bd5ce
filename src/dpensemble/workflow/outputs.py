"""Write and read the files of one run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from dpensemble.errors import DPEnsembleError, FileError
from dpensemble.persistence import save_classifier
from dpensemble.report import RunRecord
from dpensemble.report.page import card_texts, render
from dpensemble.report.record import PrivateRecord
from dpensemble.workflow import disk
from dpensemble.workflow.disk import ANY_FILE, OWN_FILE, journal_path, write_file

RECORD, PRIVATE_RECORD = "run.json", "private.json"
REPORT, PRIVATE_REPORT = "report.html", "private-report.html"
STUDENT, LABELS, CERTIFICATE = "student.skops", "labels.csv", "certificate.json"
_CARD, _CARD_TEXT = "card.json", "card.md"
PRIVATE_FILES = (PRIVATE_RECORD, PRIVATE_REPORT)
FILES = (*PRIVATE_FILES, REPORT, STUDENT, LABELS, CERTIFICATE, _CARD, _CARD_TEXT, RECORD)


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome:
    """The products of a run.

    Parameters
    ----------
    record : RunRecord
        The result of the run.
    private : PrivateRecord or None
        Statistics of secret votes, if requested.
    classifier : Pipeline
        Encoder and student. Takes tables with the public columns.
    labels : DataFrame
        Public row numbers and released labels.
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
    labels: pd.DataFrame
    warnings: tuple[str, ...] = ()
    certificate: dict[str, Any] | None = None
    for_owner: dict[str, tuple[int | None, int]] = field(default_factory=dict)


def write_outcome(outcome: Outcome, folder: Path) -> None:
    """Write a run's files into an empty folder. Only the owner can read those that must not be shared.

    Each file of a run with seeded noise is marked: ``for_release`` is false, or the page is marked as an experiment.
    """
    for name, (text, mode) in file_contents(outcome).items():
        write_file(folder / name, text, mode)
    disk.step(f"write {STUDENT}")
    save_classifier(outcome.classifier, folder / STUDENT)


def file_contents(outcome: Outcome) -> dict[str, tuple[str, int]]:
    """Return the text of each file except the student, and the permissions of the file."""
    record, (card, card_text) = outcome.record, card_texts(outcome.record)
    labels = outcome.labels
    if not record.statement().for_release:
        # A column, because readers of CSV files read a comment as a row.
        labels = labels.assign(for_release="false")
    # Exact scores and times are in the record.
    texts = {
        RECORD: (_record_text(record, outcome.for_owner), OWN_FILE),
        REPORT: (render(record), ANY_FILE),
        _CARD: (card, ANY_FILE),
        _CARD_TEXT: (card_text, ANY_FILE),
        LABELS: (labels.to_csv(index=False), ANY_FILE),
    }
    if outcome.certificate is not None:
        texts[CERTIFICATE] = (json.dumps(outcome.certificate, separators=(",", ":")) + "\n", ANY_FILE)
    if outcome.private is not None:
        texts[PRIVATE_RECORD] = (json.dumps(outcome.private.to_dict(), indent=2) + "\n", OWN_FILE)
        texts[PRIVATE_REPORT] = (render(record, outcome.private), OWN_FILE)
    return texts


def _record_text(record: RunRecord, counts: dict[str, tuple[int | None, int]]) -> str:
    """Return the record with counts for its owner. The length of the text is the same for all counts."""
    values = {name: count for name, (count, _) in counts.items()}
    text = json.dumps(record.to_dict(values), indent=2)
    missing = sum(max(digits, len("null")) - len(json.dumps(count)) for count, digits in counts.values())
    return text + " " * missing + "\n"


def load_run(folder: Path, *, private: bool) -> tuple[RunRecord, PrivateRecord | None]:
    """Read the record of an earlier run, and its secret statistics on request."""
    path, journal = folder / RECORD, journal_path(folder)
    if not path.exists() and journal.exists():
        raise FileError(f"{folder} holds no run, but {journal} is from an interrupted one: see 'dpensemble recover'.")
    with undamaged(path):
        record = RunRecord.read(path)
    if not private:
        return record, None
    if not (folder / PRIVATE_RECORD).exists():
        raise FileError(f"{folder} holds no secret statistics of the votes: train with --private-report to store them.")
    with undamaged(folder / PRIVATE_RECORD):
        return record, PrivateRecord.read(folder / PRIVATE_RECORD)


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
