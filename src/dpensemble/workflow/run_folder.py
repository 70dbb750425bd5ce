"""A run's folder: claimed for the whole run, with a journal before anything is spent, and put in place in one step.

A run is charged once, after its journal has recorded the planned charge. The journal is beside the run's folder, from
before the noise is drawn until the files are in place. If a run is killed, its folder holds the
earlier run or the new one, or a journal beside the folder records which budget is spent and how to finish. To finish,
an interrupted run needs its command and unchanged inputs.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from dpensemble._files import file_bytes, is_signature_of, note_of, noted_once, read_json, signature_of, state_home
from dpensemble._spending import Spending
from dpensemble.datasets.formats import RULES
from dpensemble.errors import FileError, LedgerError, file_errors, known_text
from dpensemble.workflow import disk
from dpensemble.workflow.disk import Claim, DrawnFile, journal_path, replace_own_file, signals_later
from dpensemble.workflow.outputs import RunFile

_SCHEMA = 1
# Entries of ``about`` for finishing the run: the command and inputs of its start.
_COMMAND, _WORKING_FOLDER, _INPUTS = "command", "working_folder", "inputs"
# Entry of ``about`` that locates the run's charge in a ledger, and its entries.
_CHARGE = "charge"
_LEDGER, _DATA_SET, _RELEASE = "ledger", "data_set", "release"
# Entry of ``about`` with the run's random name, under which the state folder notes the run's end.
_RUN = "run"

#: Entry of ``about`` with the version of the rules by which entries are read.
READING_RULES = "reading_rules"


class _Stage(StrEnum):
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

    @classmethod
    def read(cls, path: Path, shown: Path) -> Journal | None:
        """Return the journal at a path, or None if there is none. Raise if it cannot be read.

        A journal of an earlier version has no signature. Messages call the path `shown`.
        """

        def failed(reason: str) -> FileError:
            return FileError(
                f"{shown} cannot be read as a journal of a run ({reason}): look into it, and move it away."
            )

        try:
            values = read_json(path, failed)
        except FileNotFoundError:
            return None
        if not _is_journal(values):
            raise FileError(
                f"{shown} is not a journal of a run that this version can read: look into it, and move it away."
            )
        return cls(**values)

    def write(self, path: Path, shown: Path) -> None:
        """Sign the journal and write it to the disk in one step. Messages call its path `shown`."""
        dated = replace(self, what=self.sentence(shown), written=datetime.now(UTC).isoformat(timespec="seconds"))
        signed = replace(dated, signature=signature_of(dated._signed_content()))
        replace_own_file(path, json.dumps(asdict(signed), indent=2) + "\n")

    @property
    def budgets_in_words(self) -> str:
        """The size of the budgets."""
        if not self.budgets:
            return "of unknown size"
        if len(self.budgets) == 1:
            return f"epsilon {self.budgets[0]['epsilon']:g}, delta {self.budgets[0]['delta']:g}"
        each = ", ".join(f"{one['epsilon']:g} of {one['name']}" for one in self.budgets)
        return f"epsilon {each}; delta {self.budgets[0]['delta']:g}"

    @property
    def delta(self) -> tuple[float, str] | None:
        """The delta with which the run began and the rule that gave delta. None if no budget is known."""
        if not self.budgets:
            return None
        # Without a rule, an earlier version began the run, whose default did not depend on the number of units.
        rule = self.budgets[0].get("delta_rule", "as the version that began the run chose it")
        return float(self.budgets[0]["delta"]), str(rule)

    @property
    def reading_rules(self) -> int:
        """The version of the rules by which the run reads entries. Runs of earlier versions name none."""
        rules: int = self.about.get(READING_RULES, 1)
        return rules

    @property
    def is_signed(self) -> bool:
        """Whether a run of this user wrote exactly this journal. Only such a journal may name what is run."""
        return is_signature_of(self.signature, self._signed_content())

    def _signed_content(self) -> bytes:
        values = asdict(self)
        del values["signature"]
        return json.dumps(values, sort_keys=True).encode()

    @property
    def is_asked(self) -> bool:
        """Whether a ledger may have charged the budgets."""
        return self.stage == _Stage.ASKING

    @property
    def is_spent(self) -> bool:
        """Whether the budgets are spent without a release."""
        return self.stage == _Stage.SPENT

    @property
    def is_finished(self) -> bool:
        """Whether the release waits beside the folder, or stands in its place."""
        return self.stage == _Stage.FINISHED

    def as_spent(self) -> Journal:
        """Return the journal of the run after its ledger has charged the budgets."""
        return replace(self, stage=_Stage.SPENT.value)

    @property
    def is_repeatable(self) -> bool:
        """Whether the command that began the run can be repeated to finish the run."""
        return _COMMAND in self.about

    @property
    def charged_at(self) -> tuple[str, str, str]:
        """The ledger, the data set and the key of the planned charge."""
        charge = self.about[_CHARGE]
        return charge[_LEDGER], charge[_DATA_SET], charge[_RELEASE]

    @property
    def command(self) -> list[str]:
        """The arguments of the command that began the run, empty if it cannot be repeated."""
        arguments: list[str] = self.about.get(_COMMAND, [])
        return arguments

    @property
    def working_folder(self) -> str:
        """The folder in which the command began."""
        folder: str = self.about[_WORKING_FOLDER]
        return folder

    def require_repeatable(self) -> None:
        """Raise if the inputs of the run have changed since it began, or cannot be read."""
        folder = self.working_folder
        with file_errors(
            lambda reason: (
                f"the inputs of the run in {folder!r:.200} cannot be read ({reason}): restore them, or give "
                "--give-up to keep the account of what was spent."
            )
        ):
            if "\0" in folder or any("\0" in name for name in self.about[_INPUTS]):
                raise OSError(0, "a name holds a null character")
            for name, state in self.about[_INPUTS].items():
                if _state(Path(folder) / name) != state:
                    raise FileError(
                        f"{name} has changed since the run into {self.out} began, so it cannot be finished: restore "
                        "the file, or give --give-up to keep the account of what was spent."
                    )
            os.listdir(folder)

    def without_inputs(self) -> Journal:
        """Return the journal without its command and the digests of its inputs, by which one could check guesses."""
        facts = {name: fact for name, fact in self.about.items() if name not in (_COMMAND, _WORKING_FOLDER, _INPUTS)}
        return replace(self, about=facts)

    def put_in_place(self, claim: Claim, *, overwrite: bool) -> None:
        """Move the finished run into place, even if an earlier move was interrupted."""
        if self.is_in_place(claim):
            claim.carry_others(set(RunFile))
        else:
            _replace_folder(claim, overwrite=overwrite or self.overwrite)

    def is_in_place(self, claim: Claim) -> bool:
        """Return whether the finished run is in its place, so that only clean-up is left."""
        # A record that cannot be read has no digest.
        return self.is_finished and self.record != "" and _digest(claim.run_folder / RunFile.RECORD) == self.record

    def sentence(self, path: Path) -> str:
        """Return the state of the run as a sentence. `path` is the journal's, which determines the run's folder."""
        out = Claim.folder_beside(path.parent)
        if self.is_finished:
            return (
                f"the release was finished and waits in {path.with_name('new')}; "
                f"'dpensemble recover {out}' moves it into place"
            )
        if self.is_asked:
            return (
                f"the budget ({self.budgets_in_words}) may be charged to the ledger, as {path} records; "
                f"'dpensemble recover {out}' checks the ledger, and finishes the run if it was charged"
            )
        return (
            f"the budget ({self.budgets_in_words}) is spent without a release, as {path} records; "
            f"'dpensemble recover {out}' {self._way_on}"
        )

    @property
    def _way_on(self) -> str:
        if self.is_repeatable:
            return "finishes the run from what it has drawn, and charges nothing more"
        return "keeps that account and frees the folder"


def _is_journal(values: object) -> bool:
    """Return whether parsed JSON has the entries of a journal, each of the right type."""
    names = {item.name for item in fields(Journal)}
    if not isinstance(values, dict) or names - {"signature"} - set(values) or set(values) - names:
        return False
    texts = ("out", "stage", "what", "record", "written", "signature")
    return (
        values["schema"] == _SCHEMA
        and all(isinstance(values.get(name, ""), str) for name in texts)
        and values["stage"] in (_Stage.ASKING, _Stage.SPENT, _Stage.FINISHED)
        and isinstance(values["overwrite"], bool)
        and isinstance(values["budgets"], list)
        and all(map(_is_budget, values["budgets"]))
        and _is_about(values["about"])
        and (
            values["stage"] != _Stage.ASKING or set(values["about"].get(_CHARGE, {})) >= {_LEDGER, _DATA_SET, _RELEASE}
        )
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
    inputs, charge = about.get(_INPUTS, {}), about.get(_CHARGE, {})
    if not isinstance(inputs, dict) or not isinstance(charge, dict):
        return False
    command = about.get(_COMMAND, [])
    texts = [about.get(_WORKING_FOLDER, ""), about.get(_RUN, ""), *charge.values()]
    texts += command if isinstance(command, list) else [None]
    if about.get(READING_RULES, 1) not in range(1, RULES + 1):
        return False
    return all(isinstance(text, str) for text in texts) and ((_COMMAND in about) == (_WORKING_FOLDER in about))


class RunFolder:
    """A claimed folder, and the progress of its run.

    Parameters
    ----------
    claim : Claim
        Claim on the folder.
    overwrite : bool
        Whether files of an earlier run may be replaced.
    about : dict
        Method and tables, for the journal.
    """

    def __init__(self, claim: Claim, *, overwrite: bool, about: dict[str, Any]) -> None:
        self.folder, self.stage = claim.folder, _Stage.CLAIMED
        # A journal of an earlier version has at most the name of its charge.
        self._run = about.get(_RUN) or about.get(_CHARGE, {}).get("release") or secrets.token_hex(16)
        self._claim, self._overwrite, self._about = claim, overwrite, {_RUN: self._run} | about
        self.journal: Journal | None = None
        # Whether only the folder itself is needed from now on.
        self.tidy = False

    @property
    def journal_path(self) -> Path:
        """Path of the journal while there is one, for messages."""
        return journal_path(self.folder)

    @property
    def drawn(self) -> DrawnFile:
        """What this run has drawn so far. It draws none of this a second time."""
        return self._claim.drawn

    @property
    def spent(self) -> bool:
        """Whether any budget is spent, or may be spent because a ledger was asked to charge it."""
        return self.stage is not _Stage.CLAIMED

    def standing(self) -> str:
        """Return the current state as a sentence without its full stop."""
        if self.stage is _Stage.PLACED:
            return f"the release was finished and stands in {self.folder}"
        return "nothing was written" if self.journal is None else self.journal.sentence(self.journal_path)

    def journaled(self, account: Any, ledger: str, check: Callable[[], None]) -> Any:
        """Return an account of `ledger` that journals its charge. None if nothing is left to charge.

        `check` raises if a signal has arrived.
        """
        if account is None or (self.journal is not None and _CHARGE not in self.journal.about):
            # An earlier version began the run and charged the account.
            return None
        return _JournaledAccount(account, ledger if "://" in ledger else str(Path(ledger).absolute()), self, check)

    def ask(self, budgets: Sequence[dict[str, Any]], charge: dict[str, str]) -> None:
        """Before a ledger is charged, record what it is asked for, and which entry will show the charge."""
        if self.spent:
            return
        self._reserve()
        self._about = self._about | {_CHARGE: charge}
        self._write_journal(_Stage.ASKING, list(budgets))

    def withdraw(self) -> None:
        """Forget a request that the ledger did not charge."""
        if self.stage is _Stage.ASKING:
            self._claim.remove_journal()
            self.journal, self.stage = None, _Stage.CLAIMED

    def spend(self, budgets: Sequence[dict[str, Any]]) -> None:
        """Record, before noise is drawn, that these budgets are spent."""
        if self.stage is _Stage.CLAIMED:
            self._reserve()
        elif self.stage is not _Stage.ASKING:
            return
        self._write_journal(_Stage.SPENT, list(budgets))

    def _reserve(self) -> None:
        try:
            self._claim.reserve()
        except OSError as error:
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> FileError:
        return FileError(
            f"out={str(self.folder)!r} cannot be written ({error.strerror} in {self._claim.beside}): make room, or "
            "choose another folder."
        )

    def _write_journal(self, stage: _Stage, budgets: list[dict[str, Any]], record: str = "") -> None:
        journal = Journal(
            out=str(self.folder),
            stage=stage.value,
            budgets=budgets,
            about=self._about,
            overwrite=self._overwrite,
            record=record,
        )
        with signals_later():
            try:
                journal.write(self._claim.journal, self.journal_path)
                self.journal, self.stage = journal, stage
                disk.step(stage.value)
            except BaseException as error:
                self._look_again()
                if isinstance(error, OSError):
                    raise self._unwritable(error) from None
                raise

    def _look_again(self) -> None:
        """Find out how far a journal got if writing it to the disk failed."""
        if self.journal is None:
            # No account was charged, and no noise was or will be drawn.
            self._claim.remove_journal()
            self.stage = _Stage.CLAIMED
            return
        self.journal = Journal.read(self._claim.journal, self.journal_path)
        self.stage = _Stage.SPENT if self.journal is None else _Stage(self.journal.stage)

    def finish(self, write: Callable[[Path], None]) -> None:
        """Let `write` fill an empty folder, and flush all of it to the disk."""
        # A method that did not announce its spending has spent all the same.
        self.spend([])
        try:
            self._claim.fill(write)
        except OSError as error:
            text = known_text(error) or f"{error.strerror}."
            raise FileError(f"the release could not be written to {self._claim.shown_new}: {text}") from None
        self._require_same_draws()
        budgets = [] if self.journal is None else self.journal.budgets
        self._write_journal(_Stage.FINISHED, budgets, _digest(self._claim.new / RunFile.RECORD))

    def _require_same_draws(self) -> None:
        """Note what the release was drawn from, in the state folder. Raise if a copy of this run drew something else.

        A restored copy of the folder beside would draw the rest again, which would be a second release for one charge.
        """
        digest = self._claim.drawn_digest()
        with file_errors(
            lambda reason: f"the end of the run cannot be noted in {state_home()} ({reason}): make room, and recover."
        ):
            noted = noted_once(self._run, digest)
            disk.step("noted")
        if noted != digest:
            raise _ended_before(self._claim)

    def require_open(self) -> None:
        """Raise before anything is drawn if a copy of this run has ended and had drawn something else."""
        with file_errors(lambda reason: f"{state_home()} cannot be read ({reason}): make it readable."):
            noted = note_of(self._run)
        if noted is not None and noted != self._claim.drawn_digest():
            raise _ended_before(self._claim)

    def place(self) -> None:
        """Move a finished run to its folder, in one step if the system can."""
        with signals_later():
            try:
                _replace_folder(self._claim, overwrite=self._overwrite)
                self.tidy = True
            except OSError as error:
                text = known_text(error) or f"{error.strerror}."
                raise FileError(f"out={str(self.folder)!r} could not be put in place, or tidied: {text}") from None
            finally:
                if self.journal is not None and self.journal.is_in_place(self._claim):
                    self.stage = _Stage.PLACED


@contextmanager
def claimed_folder(
    folder: Path,
    *,
    overwrite: bool = False,
    inputs: Sequence[Path] = (),
    command: Sequence[str] = (),
    about: dict[str, Any] | None = None,
) -> Iterator[RunFolder]:
    """Claim a folder for one run, and clean up afterwards. The block records the run's progress.

    Raises before the block runs if `folder` cannot be written, or if another run is writing it. Raises if it is the
    folder of a run that was killed after it had spent something. Raises if it holds one of the `inputs` under the name
    of an output. Without `overwrite`, raises if it holds files of an earlier run, because their record is the only
    account of what that run spent. The journal holds the facts `about` the run and, if its `command` can be repeated,
    what is needed to finish the run: the command and digests of its inputs.
    """
    facts = _journal_facts(command, inputs, about or {})
    folder = checked_folder(folder)
    _refuse_taken(folder, overwrite, inputs)
    claim = Claim(folder)
    run = RunFolder(claim, overwrite=overwrite, about=facts)
    with _releasing(run, claim):
        _clear_killed_run(claim)
        # Another run may have ended between the first check and the claim.
        _refuse_taken(folder, overwrite, inputs)
        yield run


@contextmanager
def resumed_folder(folder: Path, *, overwrite: bool = False, began_in: Path | None = None) -> Iterator[RunFolder]:
    """Claim a folder for the rest of a run that ended after it had spent and before it was finished.

    Raises if the run began in another folder.
    """
    given, folder = folder, checked_folder(folder)
    if began_in is not None and folder != began_in:
        raise FileError(
            f"out={str(given)!r} of the interrupted run is not {began_in}: move the folder back to where the run "
            "began, or give --give-up to keep the account of what was spent."
        )
    claim = Claim(folder)
    journal = Journal.read(claim.journal, journal_path(folder))
    if journal is None or not journal.is_spent:
        claim.release(remove=journal is None)
        raise FileError(
            f"{folder} must be the folder of a run that spent its budget and was not finished: check the path."
        )
    run = RunFolder(claim, overwrite=overwrite or journal.overwrite, about=journal.about)
    run.journal, run.stage = journal, _Stage.SPENT
    with _releasing(run, claim):
        run.require_open()
        claim.remove_unfinished()
        yield run


def _ended_before(claim: Claim) -> FileError:
    return FileError(
        f"{claim.beside} is a copy of a run that has ended before, and what the copy would draw now would be a second "
        f"release for one charge: use the release that stands, and delete {claim.beside}."
    )


@contextmanager
def _releasing(run: RunFolder, claim: Claim) -> Iterator[None]:
    """Release a claim after the block, and leave only the account of what was spent and drawn."""
    try:
        yield
    finally:
        if run.stage in (_Stage.ASKING, _Stage.SPENT):
            claim.remove_unfinished()
        claim.release(remove=run.tidy or not claim.journal.exists())


def checked_folder(folder: Path) -> Path:
    """Return the real path of a folder. Raise if it cannot be replaced as a whole."""
    real = Path(os.path.realpath(folder))
    if real.exists() and not real.is_dir():
        raise FileError(f"out={str(folder)!r} cannot be written (it is not a folder): choose another folder.")
    if real == Path.cwd() or real == real.parent or real.is_mount():
        raise FileError(
            f"out={str(folder)!r} is the current folder or the root of a disk, which a run cannot replace: name a "
            f"folder in it, such as {str(folder / 'run')!r}."
        )
    return real


def _refuse_taken(folder: Path, overwrite: bool, inputs: Sequence[Path]) -> None:
    taken = [folder / name for name in RunFile if (folder / name).exists()]
    if taken and not overwrite:
        raise FileError(
            f"out={str(folder)!r} holds files of an earlier run ({taken[0].name}), and the spending of both runs adds "
            "up: choose another folder, or give --overwrite."
        )
    for path in taken:
        if path.is_dir() or any(table.exists() and path.samefile(table) for table in inputs):
            raise FileError(f"{path} is a folder or one of the tables, and would be replaced: choose another --out.")


def _clear_killed_run(claim: Claim) -> None:
    """Remove what a killed run left if that loses nothing. Raise if it is the account of what was spent."""
    path = journal_path(claim.folder)
    journal = Journal.read(claim.journal, path)
    if journal is not None and not (journal.is_signed and journal.is_in_place(claim)):
        raise FileError(f"out={str(claim.folder)!r} is the place of an interrupted run: {journal.sentence(path)}.")
    if journal is not None:
        journal.put_in_place(claim, overwrite=True)
    claim.clear()


def _replace_folder(claim: Claim, *, overwrite: bool) -> None:
    """Replace the run's folder with the new one. Other contents of the folder are kept."""
    _refuse_taken(claim.folder, overwrite, ())
    if not (claim.new / RunFile.RECORD).is_file():
        raise FileError(f"{claim.shown_new} holds no finished run: look into it, or give --give-up.")
    is_private = any((claim.new / name).exists() for name in RunFile if name.is_private)
    claim.replace_folder(set(RunFile), own_only=is_private)


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(file_bytes(path)).hexdigest()
    except OSError:
        return ""


class _JournaledAccount:
    """An account for the fit of one run.

    A process may end at any moment while the account is charged. The journal is written before the charge and names its
    key, so the ledger shows afterwards whether the run was charged. A resumed run uses the same key, so nothing is
    charged twice. `check` raises if a signal has arrived.
    """

    def __init__(self, account: Any, ledger: str, place: RunFolder, check: Callable[[], None]) -> None:
        self._account, self._place, self._check = account, place, check
        charge = {} if place.journal is None else place.journal.about.get(_CHARGE, {})
        self._release = charge.get(_RELEASE) or secrets.token_hex(16)
        self._where = {_LEDGER: ledger, _DATA_SET: account.data_set, _RELEASE: self._release}

    def one_release(self, what: str) -> Callable[[Sequence[Spending]], None]:
        """Return the function that charges one fit."""
        charge = self._account.one_release(what, release=self._release)

        def noted(spendings: Sequence[Spending]) -> None:
            self._check()
            # A fit and its score are announced together, under the name of one group.
            budgets = {one.name: one.to_dict() for one in spendings}
            self._place.ask(list(budgets.values()), self._where)
            try:
                charge(spendings)
            except BaseException:
                # The journal stays if the outcome is unknown.
                with signals_later(), suppress(LedgerError):
                    if not self._account.has_release(self._release):
                        self._place.withdraw()
                raise

        return noted


def _journal_facts(command: Sequence[str], inputs: Sequence[Path], facts: dict[str, Any]) -> dict[str, Any]:
    """Return a journal's facts about a run: its command and inputs, unless the command is empty, and more facts."""
    if not command:
        return facts
    states = {str(path): _state(path) for path in inputs}
    return facts | {_COMMAND: list(command), _WORKING_FOLDER: os.getcwd(), _INPUTS: states}


def _state(path: Path) -> list[Any]:
    """Return names and digests of the contents of a file or of all files in a folder. For their owner only."""
    files = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
    # By content: a restored file counts as the same file, but a file of the same size and time may not.
    return [[one.name, _input_digest(one)] for one in files if one.exists()]


def _input_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
