"""Results as JSON lines, by key: a stopped run goes on where it was."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from arena.relations import NOMINAL

#: What results of before November 2026 lack: they had one draw of noise a split, at the epsilon of the table.
_DEFAULTS = {"draw": 0, "budget": NOMINAL}


@dataclass(frozen=True)
class Task:
    """One fit, and the key of its result.

    `epsilon` is that of the table, None without privacy; `budget` is *nominal*, or *halved* for a contestant whose
    promise for adding or removing a record is doubled by replacing one. `draw` numbers the noise seeds of a split.
    """

    table: str
    contestant: str
    version: int
    epsilon: float | None
    split: int
    draw: int
    budget: str

    @property
    def seed(self) -> int:
        """The seed of noise and learner. Draw 0 has the seed that the only draw of older results had."""
        return self.split + 1_000 * self.draw


Results = dict[Task, dict]


def load(path: Path) -> Results:
    """Return all results of a file; a later line replaces an earlier one, and a torn last line is left out."""
    known = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                row = _DEFAULTS | json.loads(line)
            except json.JSONDecodeError:
                continue
            known[Task(**{name: row[name] for name in Task.__dataclass_fields__})] = row
    return known


def append(path: Path, task: Task, outcome: dict) -> None:
    """Write one result at the end of a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # A line that was torn by an interruption must not swallow this one.
    line = json.dumps(asdict(task) | outcome) + "\n"
    with path.open("a", encoding="utf-8") as file:
        file.write("\n" + line if _is_torn(path) else line)


def _is_torn(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        if not file.tell():
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
