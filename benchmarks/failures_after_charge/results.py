"""What a folder holds after a run: its release, what the ledger was charged, and what was left behind."""

from __future__ import annotations

import json
import re
import sqlite3
import warnings
from pathlib import Path
from typing import Any

import pandas as pd

from dpensemble.errors import DPEnsembleError, NotForReleaseWarning
from dpensemble.report.page import date
from dpensemble.workflow.predict import load_student, predictions

_TIMES = ("created", "seconds")
_SECONDS = re.compile(r"<td>[\d.,]+ s</td>")
# Files that may leave a lock or a log.
# Each finished run is noted here, so that a copy of its folder is not finished once more.
_NOTES = "state/finished-runs"
_MAY_STAY = {"ledger.db-wal", "ledger.db-shm", "log.jsonl"}


def release(folder: Path, rows: Path) -> dict[str, Any] | None:
    """Return the content of a run's folder except times, with its student's answers, or None if it holds no run."""
    if not (folder / "run.json").exists():
        return None
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    content: dict[str, Any] = {"run.json": {name: one for name, one in record.items() if name not in _TIMES}}
    for path in sorted(folder.iterdir()):
        if path.name in ("run.json", "student.skops"):
            continue
        text = path.read_text(encoding="utf-8")
        undated = text.replace(record["created"], "").replace(date(record["created"]), "")
        content[path.name] = _SECONDS.sub("", undated)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotForReleaseWarning)
            student = load_student(folder)
        content["student"] = pd.concat(predictions(student, rows, probabilities=True)).to_csv()
    except DPEnsembleError as error:
        # Such as blanks that a student does not take.
        content["student"] = str(error)
    return content


def differences(one: dict[str, Any] | None, other: dict[str, Any] | None) -> list[str]:
    """Return the names of what is not the same in two releases."""
    if one is None or other is None:
        return [] if one is other else ["one of them is missing"]
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def charges(scene: Path) -> list[tuple[int, int]]:
    """Return the losses and deltas that the ledger was charged, oldest first."""
    if not (scene / "ledger.db").exists():
        return []
    connection = sqlite3.connect(scene / "ledger.db")
    try:
        return connection.execute("SELECT loss, delta FROM dpensemble_charges ORDER BY number").fetchall()
    finally:
        connection.close()


def leftovers(scene: Path, before: set[str], *, is_finished: bool) -> list[str]:
    """Return what is in a scene, or in its hidden and temporary folders, and was not there before the run."""
    left = {name for name in names(scene) - before if name.split("/")[0] != "run"} - _MAY_STAY
    return sorted(name for name in left if not (is_finished and name.startswith(_NOTES)))


def names(scene: Path) -> set[str]:
    """Return the names of all files and folders below a scene."""
    return {str(path.relative_to(scene)) for path in scene.rglob("*")}
