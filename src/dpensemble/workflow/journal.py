"""The journal beside a run's folder, from before the noise is drawn until the files are in place."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from dpensemble.errors import FileError
from dpensemble.workflow.durable import OWN_FILE, replace_file

_SCHEMA = 1
#: Entries of ``about`` for finishing the run: the command and inputs of its start.
COMMAND, WORKING_FOLDER, INPUTS = "command", "working_folder", "inputs"
#: Entry of ``about`` that locates the run's charge in a ledger.
CHARGE = "charge"


class Stage(StrEnum):
    """The progress of a run."""

    CLAIMED = "claimed"
    ASKING = "asking"
    SPENT = "spent"
    FINISHED = "finished"
    PLACED = "placed"


@dataclass(frozen=True, kw_only=True)
class Journal:
    """The account of one run that spends `budgets`. `what` describes everything in one sentence.

    In the stage ``"asking"``, a ledger is about to be charged, and the ledger shows whether it was. In ``"spent"``, the
    budgets count as spent, without a release. In ``"finished"``, the release waits beside the folder. `record` is
    the SHA-256 of the record, once there is one.
    """

    out: str
    stage: str
    budgets: list[dict[str, Any]]
    what: str = ""
    about: dict[str, Any] = field(default_factory=dict)
    overwrite: bool = False
    record: str = ""
    written: str = ""
    schema: int = _SCHEMA

    def write(self, path: Path) -> None:
        """Write the journal to the disk in one step."""
        dated = replace(self, what=self.sentence(path), written=datetime.now(UTC).isoformat(timespec="seconds"))
        replace_file(path, json.dumps(asdict(dated), indent=2) + "\n", OWN_FILE)

    def sentence(self, path: Path) -> str:
        """Return the state of the run as a sentence. `path` is the journal's."""
        if self.stage == Stage.FINISHED:
            return (
                f"the release was finished and waits in {path.with_name('new')}; "
                f"'dpensemble recover {self.out}' moves it into place"
            )
        if self.stage == Stage.ASKING:
            return (
                f"the budget ({budget_words(self.budgets)}) may be charged to the ledger, as {path} records; "
                f"'dpensemble recover {self.out}' checks the ledger, and finishes the run if it was charged"
            )
        return (
            f"the budget ({budget_words(self.budgets)}) is spent without a release, as {path} records; "
            f"'dpensemble recover {self.out}' {self._way_on}"
        )

    @property
    def _way_on(self) -> str:
        if COMMAND in self.about:
            return "finishes the run from what it has drawn, and charges nothing more"
        return "keeps that account and frees the folder"


def read_journal(path: Path) -> Journal | None:
    """Return the journal at a path, or None if there is none. Raise if it cannot be read."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise FileError(
            f"{path} cannot be read as a journal of a run ({type(error).__name__}): look into it, and move it away."
        ) from None
    names = {item.name for item in fields(Journal)}
    if not isinstance(values, dict) or set(values) != names or values["schema"] != _SCHEMA:
        raise FileError(f"{path} is not a journal of a run that this version can read: look into it, and move it away.")
    return Journal(**values)


def budget_words(budgets: Sequence[dict[str, Any]]) -> str:
    """Return the size of budgets in words."""
    if not budgets:
        return "of unknown size"
    if len(budgets) == 1:
        return f"epsilon {budgets[0]['epsilon']:g}, delta {budgets[0]['delta']:g}"
    each = ", ".join(f"{one['epsilon']:g} of {one['name']}" for one in budgets)
    return f"epsilon {each}; delta {budgets[0]['delta']:g}"
