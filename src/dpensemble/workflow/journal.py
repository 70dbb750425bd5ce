"""The journal beside a run's folder, from before the noise is drawn until the files are in place."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from dpensemble._state_home import is_signature_of, signature_of
from dpensemble._untrusted import read_json
from dpensemble.errors import FileError
from dpensemble.workflow.durable import replace_own_file

_SCHEMA = 1
#: Entries of ``about`` for finishing the run: the command and inputs of its start.
COMMAND, WORKING_FOLDER, INPUTS = "command", "working_folder", "inputs"
#: Beginning of the name of the folder in which a run is prepared. The name of the run's folder follows.
BESIDE = ".dpensemble-"
#: Entry of ``about`` that locates the run's charge in a ledger.
CHARGE = "charge"
#: Entry of ``about`` with the run's random name, under which the state folder notes the run's end.
RUN = "run"
_WHERE = {"ledger", "data_set", "release"}


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
    signature: str = ""

    def write(self, path: Path, shown: Path) -> None:
        """Sign the journal and write it to the disk in one step. Messages call its path `shown`."""
        dated = replace(self, what=self.sentence(shown), written=datetime.now(UTC).isoformat(timespec="seconds"))
        signed = replace(dated, signature=signature_of(dated._signed_content()))
        replace_own_file(path, json.dumps(asdict(signed), indent=2) + "\n")

    @property
    def is_signed(self) -> bool:
        """Whether a run of this user wrote exactly this journal. Only such a journal may name what is run."""
        return is_signature_of(self.signature, self._signed_content())

    def _signed_content(self) -> bytes:
        values = asdict(self)
        del values["signature"]
        return json.dumps(values, sort_keys=True).encode()

    def sentence(self, path: Path) -> str:
        """Return the state of the run as a sentence. `path` is the journal's, which determines the run's folder."""
        out = path.parent.with_name(path.parent.name.removeprefix(BESIDE))
        if self.stage == Stage.FINISHED:
            return (
                f"the release was finished and waits in {path.with_name('new')}; "
                f"'dpensemble recover {out}' moves it into place"
            )
        if self.stage == Stage.ASKING:
            return (
                f"the budget ({budget_words(self.budgets)}) may be charged to the ledger, as {path} records; "
                f"'dpensemble recover {out}' checks the ledger, and finishes the run if it was charged"
            )
        return (
            f"the budget ({budget_words(self.budgets)}) is spent without a release, as {path} records; "
            f"'dpensemble recover {out}' {self._way_on}"
        )

    @property
    def _way_on(self) -> str:
        if COMMAND in self.about:
            return "finishes the run from what it has drawn, and charges nothing more"
        return "keeps that account and frees the folder"


def read_journal(path: Path, shown: Path) -> Journal | None:
    """Return the journal at a path, or None if there is none. Raise if it cannot be read.

    A journal of an earlier version has no signature. Messages call the path `shown`.
    """

    def failed(reason: str) -> FileError:
        return FileError(f"{shown} cannot be read as a journal of a run ({reason}): look into it, and move it away.")

    try:
        values = read_json(path, failed)
    except FileNotFoundError:
        return None
    if not _is_journal(values):
        raise FileError(
            f"{shown} is not a journal of a run that this version can read: look into it, and move it away."
        )
    return Journal(**values)


def _is_journal(values: object) -> bool:
    """Return whether parsed JSON has the entries of a journal, each of the right type."""
    names = {item.name for item in fields(Journal)}
    if not isinstance(values, dict) or names - {"signature"} - set(values) or set(values) - names:
        return False
    texts = ("out", "stage", "what", "record", "written", "signature")
    return (
        values["schema"] == _SCHEMA
        and all(isinstance(values.get(name, ""), str) for name in texts)
        and values["stage"] in (Stage.ASKING, Stage.SPENT, Stage.FINISHED)
        and isinstance(values["overwrite"], bool)
        and isinstance(values["budgets"], list)
        and all(map(_is_budget, values["budgets"]))
        and _is_about(values["about"])
        and (values["stage"] != Stage.ASKING or set(values["about"].get(CHARGE, {})) >= _WHERE)
    )


def _is_budget(budget: object) -> bool:
    return (
        isinstance(budget, dict)
        and isinstance(budget.get("name"), str)
        and all(isinstance(budget.get(name), (int, float)) for name in ("epsilon", "delta"))
    )


def _is_about(about: object) -> bool:
    if not isinstance(about, dict):
        return False
    inputs, charge = about.get(INPUTS, {}), about.get(CHARGE, {})
    if not isinstance(inputs, dict) or not isinstance(charge, dict):
        return False
    command = about.get(COMMAND, [])
    texts = [about.get(WORKING_FOLDER, ""), about.get(RUN, ""), *charge.values()]
    texts += command if isinstance(command, list) else [None]
    return all(isinstance(text, str) for text in texts) and ((COMMAND in about) == (WORKING_FOLDER in about))


def budget_words(budgets: Sequence[dict[str, Any]]) -> str:
    """Return the size of budgets in words."""
    if not budgets:
        return "of unknown size"
    if len(budgets) == 1:
        return f"epsilon {budgets[0]['epsilon']:g}, delta {budgets[0]['delta']:g}"
    each = ", ".join(f"{one['epsilon']:g} of {one['name']}" for one in budgets)
    return f"epsilon {each}; delta {budgets[0]['delta']:g}"
