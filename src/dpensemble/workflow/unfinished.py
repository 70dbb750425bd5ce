"""What is needed to finish an interrupted run: its command, and unchanged inputs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpensemble.errors import FileError
from dpensemble.workflow.journal import COMMAND, INPUTS, WORKING_FOLDER, Journal


def about_run(command: Sequence[str], inputs: Sequence[Path], **facts: Any) -> dict[str, Any]:
    """Return a journal's facts about a run: its command (empty if it cannot be repeated), inputs and more facts."""
    if not command:
        return facts
    states = {str(path): _state(path) for path in inputs}
    return facts | {COMMAND: list(command), WORKING_FOLDER: os.getcwd(), INPUTS: states}


def require_unchanged(journal: Journal) -> None:
    """Raise if the inputs of a run have changed since it began."""
    working_folder = Path(journal.about[WORKING_FOLDER])
    for name, state in journal.about[INPUTS].items():
        if _state(working_folder / name) != state:
            raise FileError(
                f"{name} has changed since the run into {journal.out} began, so it cannot be finished: restore the "
                "file, or give --give-up to keep the account of what was spent."
            )


def _state(path: Path) -> list[Any]:
    """Return names and digests of the contents of a file or of all files in a folder. For their owner only."""
    files = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
    # By content: a restored file counts as the same file, but a file of the same size and time may not.
    return [[one.name, _digest(one)] for one in files if one.exists()]


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
