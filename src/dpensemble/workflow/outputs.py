"""The files of one run: writing and reading them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from dpensemble.errors import DPEnsembleError, FileError
from dpensemble.persistence import save_classifier
from dpensemble.report import RunRecord
from dpensemble.report.card import card_as_markdown, model_card
from dpensemble.report.page import render
from dpensemble.report.record import PrivateRecord, read_json
from dpensemble.workflow import durable
from dpensemble.workflow.claim import journal_path
from dpensemble.workflow.durable import ANY_FILE, OWN_FILE, write_file

RECORD, PRIVATE_RECORD = "run.json", "private.json"
REPORT, PRIVATE_REPORT = "report.html", "private-report.html"
STUDENT, LABELS, CERTIFICATE = "student.skops", "labels.csv", "certificate.json"
CARD, CARD_TEXT = "card.json", "card.md"
PRIVATE_FILES = (PRIVATE_RECORD, PRIVATE_REPORT)
FILES = (*PRIVATE_FILES, REPORT, STUDENT, LABELS, CERTIFICATE, CARD, CARD_TEXT, RECORD)


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
    warnings : tuple of str
        What is wrong with the secret teachers: for the owner alone.
    certificate : dict or None
        What `dpensemble verify` checks.
    """

    record: RunRecord
    private: PrivateRecord | None
    classifier: Any
    labels: pd.DataFrame
    warnings: tuple[str, ...] = ()
    certificate: dict[str, Any] | None = None


def write_outcome(outcome: Outcome, folder: Path) -> None:
    """Write a run's files into an empty folder; those that are not for sharing are for their owner's eyes alone.

    Each file of a run with seeded noise has a mark: ``for_release`` is false, or the page says that it is no release.
    """
    for name, (text, mode) in file_contents(outcome).items():
        write_file(folder / name, text, mode)
    durable.step(f"write {STUDENT}")
    save_classifier(outcome.classifier, folder / STUDENT)


def file_contents(outcome: Outcome) -> dict[str, tuple[str, int]]:
    """Return the text of each file but the student, and the mode that the file is made with."""
    record, card = outcome.record, model_card(outcome.record)
    labels = outcome.labels
    if not record.statement().for_release:
        # A column, since readers of CSV files take a comment for a row.
        labels = labels.assign(for_release="false")
    # Exact scores and times are in the record.
    texts = {
        RECORD: (json.dumps(record.to_dict(), indent=2) + "\n", OWN_FILE),
        REPORT: (render(record), ANY_FILE),
        CARD: (json.dumps(card, indent=2) + "\n", ANY_FILE),
        CARD_TEXT: (card_as_markdown(card), ANY_FILE),
        LABELS: (labels.to_csv(index=False), ANY_FILE),
    }
    if outcome.certificate is not None:
        texts[CERTIFICATE] = (json.dumps(outcome.certificate, separators=(",", ":")) + "\n", ANY_FILE)
    if outcome.private is not None:
        texts[PRIVATE_RECORD] = (json.dumps(outcome.private.to_dict(), indent=2) + "\n", OWN_FILE)
        texts[PRIVATE_REPORT] = (render(record, outcome.private), OWN_FILE)
    return texts


def load_run(folder: Path, *, private: bool) -> tuple[RunRecord, PrivateRecord | None]:
    """Read the record of an earlier run, and its secret statistics if they are wanted."""
    path, journal = folder / RECORD, journal_path(folder)
    if not path.exists() and journal.exists():
        raise FileError(f"{folder} holds no run, but {journal} tells of one that was ended; see 'dpensemble recover'.")
    with undamaged(path):
        record = RunRecord.from_dict(read_json(path))
    if not private:
        return record, None
    if not (folder / PRIVATE_RECORD).exists():
        raise FileError(f"{folder} holds no secret statistics of the votes; train with --private-report to keep them.")
    with undamaged(folder / PRIVATE_RECORD):
        return record, PrivateRecord.from_dict(read_json(folder / PRIVATE_RECORD))


@contextmanager
def undamaged(path: Path) -> Iterator[None]:
    """Say in a sentence that a record has the right entries, but not of the right kinds."""
    try:
        yield
    except DPEnsembleError as error:
        raise FileError(str(error)) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise FileError(f"{path} is damaged, as its entries are of the wrong kinds ({type(error).__name__}).") from None
