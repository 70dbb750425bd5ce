"""A run's folder: claimed for the whole run, with a journal before anything is spent, and put in place in one step.

A run is charged once, after its journal has recorded the planned charge. If a run is killed, its folder holds the
earlier run or the new one, or a journal beside the folder records which budget is spent and how to finish. To finish,
an interrupted run needs its command and unchanged inputs.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shlex
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dpensemble._checks import printable
from dpensemble._folders import sync_folder
from dpensemble._spending import Spending
from dpensemble._state_home import note_of, noted_once, state_home
from dpensemble._untrusted import file_bytes
from dpensemble.errors import FileError, LedgerError, file_errors, known_text
from dpensemble.workflow import disk
from dpensemble.workflow.disk import (
    CHARGE,
    COMMAND,
    INPUTS,
    RUN,
    WORKING_FOLDER,
    Claim,
    DrawnFile,
    Journal,
    Stage,
    beside,
    budget_words,
    digest_of_drawn,
    journal_path,
    read_journal,
)
from dpensemble.workflow.outputs import FILES, PRIVATE_FILES, RECORD

_NEW, _OLD, _RESERVE = "new", "old", "reserve"
# What was drawn, for the owner only.
_DRAWN = "drawn.jsonl"
# Disk space for a release, reserved before anything is spent on it.
_RESERVED_BYTES = 2**23


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
        self.folder, self.stage = claim.folder, Stage.CLAIMED
        # A journal of an earlier version has at most the name of its charge.
        self._run = about.get(RUN) or about.get(CHARGE, {}).get("release") or secrets.token_hex(16)
        self._claim, self._overwrite, self._about = claim, overwrite, {RUN: self._run} | about
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
        return DrawnFile(self._claim.inside / _DRAWN, self._claim.beside / _DRAWN)

    @property
    def spent(self) -> bool:
        """Whether any budget is spent, or may be spent because a ledger was asked to charge it."""
        return self.stage is not Stage.CLAIMED

    def standing(self) -> str:
        """Return the current state as a sentence without its full stop."""
        if self.stage is Stage.PLACED:
            return f"the release was finished and stands in {self.folder}"
        return "nothing was written" if self.journal is None else self.journal.sentence(self.journal_path)

    def ask(self, budgets: Sequence[dict[str, Any]], charge: dict[str, str]) -> None:
        """Before a ledger is charged, record what it is asked for, and which entry will show the charge."""
        if self.spent:
            return
        self._reserve()
        self._about = self._about | {CHARGE: charge}
        self._note(Stage.ASKING, list(budgets))

    def withdraw(self) -> None:
        """Forget a request that the ledger did not charge."""
        if self.stage is Stage.ASKING:
            disk.remove_path(self._claim.journal)
            self.journal, self.stage = None, Stage.CLAIMED

    def spend(self, budgets: Sequence[dict[str, Any]]) -> None:
        """Record, before noise is drawn, that these budgets are spent."""
        if self.stage is Stage.CLAIMED:
            self._reserve()
        elif self.stage is not Stage.ASKING:
            return
        self._note(Stage.SPENT, list(budgets))

    def _reserve(self) -> None:
        try:
            disk.step("spend")
            disk.reserve(self._claim.inside / _RESERVE, _RESERVED_BYTES)
        except OSError as error:
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> FileError:
        return FileError(
            f"out={str(self.folder)!r} cannot be written ({error.strerror} in {self._claim.beside}): make room, or "
            "choose another folder."
        )

    def _note(self, stage: Stage, budgets: list[dict[str, Any]], record: str = "") -> None:
        journal = Journal(
            out=str(self.folder),
            stage=stage.value,
            budgets=budgets,
            about=self._about,
            overwrite=self._overwrite,
            record=record,
        )
        with disk.signals_later():
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
            disk.remove_path(self._claim.journal)
            self.stage = Stage.CLAIMED
            return
        self.journal = read_journal(self._claim.journal, self.journal_path)
        self.stage = Stage.SPENT if self.journal is None else Stage(self.journal.stage)

    def finish(self, write: Callable[[Path], None]) -> None:
        """Let `write` fill an empty folder, and flush all of it to the disk."""
        # A method that did not announce its spending has spent all the same.
        self.spend([])
        new = self._claim.inside / _NEW
        try:
            disk.remove_path(self._claim.inside / _RESERVE)
            new.mkdir()
            write(new)
            for path in sorted(new.iterdir()):
                disk.sync_file(path)
            sync_folder(new)
            disk.step("files written")
        except OSError as error:
            text = known_text(error) or f"{error.strerror}."
            raise FileError(f"the release could not be written to {self._claim.beside / _NEW}: {text}") from None
        self._require_one_end()
        budgets = [] if self.journal is None else self.journal.budgets
        self._note(Stage.FINISHED, budgets, _digest(new / RECORD))

    def _require_one_end(self) -> None:
        """Note what the release was drawn from, in the state folder. Raise if a copy of this run drew something else.

        A restored copy of the folder beside would draw the rest again, which would be a second release for one charge.
        """
        digest = digest_of_drawn(self._claim.inside / _DRAWN)
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
        if noted is not None and noted != digest_of_drawn(self._claim.inside / _DRAWN):
            raise _ended_before(self._claim)

    def place(self) -> None:
        """Move a finished run to its folder, in one step if the system can."""
        with disk.signals_later():
            try:
                _put(self._claim, overwrite=self._overwrite)
                self.tidy = True
            except OSError as error:
                text = known_text(error) or f"{error.strerror}."
                raise FileError(f"out={str(self.folder)!r} could not be put in place, or tidied: {text}") from None
            finally:
                if self.journal is not None and _in_place(self._claim, self.journal):
                    self.stage = Stage.PLACED


@contextmanager
def claimed_folder(
    folder: Path, *, overwrite: bool = False, inputs: Sequence[Path] = (), about: dict[str, Any] | None = None
) -> Iterator[RunFolder]:
    """Claim a folder for one run, and clean up afterwards. The block records the run's progress.

    Raises before the block runs if `folder` cannot be written, or if another run is writing it. Raises if it is the
    folder of a run that was killed after it had spent something. Raises if it holds one of the `inputs` under the name
    of an output. Without `overwrite`, raises if it holds files of an earlier run, because their record is the only
    account of what that run spent.
    """
    folder = checked_folder(folder)
    _refuse_taken(folder, overwrite, inputs)
    claim = Claim(folder)
    run = RunFolder(claim, overwrite=overwrite, about=about or {})
    with _released(run, claim):
        settle(claim)
        # Another run may have ended between the first check and the claim.
        _refuse_taken(folder, overwrite, inputs)
        yield run


@contextmanager
def resumed_folder(folder: Path, *, overwrite: bool = False) -> Iterator[RunFolder]:
    """Claim a folder for the rest of a run that ended after it had spent and before it was finished."""
    folder = checked_folder(folder)
    claim = Claim(folder)
    journal = read_journal(claim.journal, journal_path(folder))
    if journal is None or journal.stage != Stage.SPENT:
        claim.release(remove=journal is None)
        raise FileError(
            f"{folder} must be the folder of a run that spent its budget and was not finished: check the path."
        )
    run = RunFolder(claim, overwrite=overwrite or journal.overwrite, about=journal.about)
    run.journal, run.stage = journal, Stage.SPENT
    with _released(run, claim):
        run.require_open()
        _remove_unfinished(claim)
        yield run


def _ended_before(claim: Claim) -> FileError:
    return FileError(
        f"{claim.beside} is a copy of a run that has ended before, and what the copy would draw now would be a second "
        f"release for one charge: use the release that stands, and delete {claim.beside}."
    )


@contextmanager
def _released(run: RunFolder, claim: Claim) -> Iterator[None]:
    """Release a claim after the block, and leave only the account of what was spent and drawn."""
    try:
        yield
    finally:
        if run.stage in (Stage.ASKING, Stage.SPENT):
            _remove_unfinished(claim)
        claim.release(remove=run.tidy or not claim.journal.exists())


def _remove_unfinished(claim: Claim) -> None:
    """Remove the unfinished files of a run. Its draws and its journal stay."""
    disk.remove_path(claim.inside / _RESERVE)
    disk.remove_path(claim.inside / _NEW)


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
    taken = [folder / name for name in FILES if (folder / name).exists()]
    if taken and not overwrite:
        raise FileError(
            f"out={str(folder)!r} holds files of an earlier run ({taken[0].name}), and the spending of both runs adds "
            "up: choose another folder, or give --overwrite."
        )
    for path in taken:
        if path.is_dir() or any(table.exists() and path.samefile(table) for table in inputs):
            raise FileError(f"{path} is a folder or one of the tables, and would be replaced: choose another --out.")


def settle(claim: Claim) -> None:
    """Remove what a killed run left if that loses nothing. Raise if it is the account of what was spent."""
    path = journal_path(claim.folder)
    journal = read_journal(claim.journal, path)
    if journal is not None and not (journal.is_signed and _in_place(claim, journal)):
        raise FileError(f"out={str(claim.folder)!r} is the place of an interrupted run: {journal.sentence(path)}.")
    if journal is not None:
        _place_waiting(claim, journal, overwrite=True)
    claim.clear()


def _in_place(claim: Claim, journal: Journal) -> bool:
    """Return whether the finished run is in its place, so that only clean-up is left."""
    # A record that cannot be read has no digest.
    return journal.stage == Stage.FINISHED and journal.record != "" and _digest(claim.place / RECORD) == journal.record


def _place_waiting(claim: Claim, journal: Journal, *, overwrite: bool) -> None:
    """Move a finished run into place, even if an earlier move was interrupted."""
    if _in_place(claim, journal):
        _tidy(claim)
    else:
        _put(claim, overwrite=overwrite or journal.overwrite)


def _put(claim: Claim, *, overwrite: bool) -> None:
    """Replace the run's folder with the new one. Other contents of the folder are kept."""
    new, old, folder = claim.inside / _NEW, claim.inside / _OLD, claim.place
    _refuse_taken(claim.folder, overwrite, ())
    if not (new / RECORD).is_file():
        raise FileError(f"{claim.beside / _NEW} holds no finished run: look into it, or give --give-up.")
    earlier = folder.stat().st_mode if folder.exists() else None
    if any((new / name).exists() for name in PRIVATE_FILES):
        new.chmod(disk.OWN_FOLDER)
    elif earlier is not None:
        new.chmod(stat.S_IMODE(earlier))
    disk.step("place")
    if earlier is None or not any(folder.iterdir()):
        new.replace(folder)
    elif not disk.exchange(new, folder):
        folder.replace(old)
        disk.step("moved away")
        new.replace(folder)
    disk.step("placed")
    sync_folder(folder.parent)
    _tidy(claim)


def _tidy(claim: Claim) -> None:
    """Give a folder its other contents back after a replacement. An exchange leaves them in the new folder."""
    folder = claim.place
    for before in (claim.inside / _NEW, claim.inside / _OLD):
        if not before.is_dir():
            continue
        for path in sorted(before.iterdir()):
            if path.name not in FILES and not (folder / path.name).exists():
                disk.step("carry")
                path.replace(folder / path.name)
        sync_folder(folder)
        sync_folder(before)
    disk.step("tidied")


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(file_bytes(path)).hexdigest()
    except OSError:
        return ""


_LEDGER, _DATA_SET, _RELEASE = "ledger", "data_set", "release"


class JournaledAccount:
    """An account for the fit of one run.

    A process may end at any moment while the account is charged. The journal is written before the charge and names its
    key, so the ledger shows afterwards whether the run was charged. A resumed run uses the same key, so nothing is
    charged twice. `check` raises if a signal has arrived.
    """

    def __init__(self, account: Any, ledger: str, place: RunFolder, check: Callable[[], None]) -> None:
        self._account, self._place, self._check = account, place, check
        charge = {} if place.journal is None else place.journal.about.get(CHARGE, {})
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
                with disk.signals_later(), suppress(LedgerError):
                    if not self._account.has_release(self._release):
                        self._place.withdraw()
                raise

        return noted


def where_charged(journal: Journal) -> tuple[str, str, str]:
    """Return the ledger, the data set and the key of a run's planned charge."""
    charge = journal.about[CHARGE]
    return charge[_LEDGER], charge[_DATA_SET], charge[_RELEASE]


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
    return [[one.name, _input_digest(one)] for one in files if one.exists()]


def _input_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, kw_only=True)
class Recovered:
    """The outcome for a killed run: whether its release is in place now, and what was spent on each group.

    `account` is the file that records the spending if no release records it. `what` is all this in a sentence.
    """

    out: str
    placed: bool
    budgets: list[dict[str, Any]]
    account: str | None
    what: str


def unfinished_run(folder: Path, was_charged: Callable[[Journal], bool], *, unsigned: bool = False) -> Journal | None:
    """Return the journal of a run that spent its budget and can be finished, or None.

    If the run ended while the ledger was charged, `was_charged` checks the ledger first, and the result is recorded.

    Parameters
    ----------
    folder : Path
        The run's folder.
    was_charged : callable
        Returns whether the ledger that a journal names shows the run's charge.
    unsigned : bool, default=False
        Whether to trust a journal without a signature of this user's state folder. The journal names a command and a
        ledger, so a stranger's journal could run and open anything.

    Raises
    ------
    FileError
        If the journal names a command other than ``train``. If it is not signed, and `unsigned` is not given.
    """
    folder = checked_folder(folder)
    _require_beside(folder)
    claim = Claim(folder)
    try:
        with _recovering(folder):
            journal = read_journal(claim.journal, journal_path(folder))
            if journal is None or (journal.stage == Stage.SPENT and COMMAND not in journal.about):
                return None
            _require_trusted(journal, folder, unsigned=unsigned)
            if journal.stage == Stage.ASKING:
                journal = _settled(journal, claim, was_charged)
            return journal if journal is not None and journal.stage == Stage.SPENT else None
    finally:
        claim.release(remove=False)


def _settled(journal: Journal, claim: Claim, was_charged: Callable[[Journal], bool]) -> Journal | None:
    """Record whether the ledger was charged. Return the journal of a run that has spent, or None."""
    if not was_charged(journal):
        disk.remove_path(claim.journal)
        return None
    spent = replace(journal, stage=Stage.SPENT.value)
    spent.write(claim.journal, journal_path(claim.folder))
    return spent if COMMAND in spent.about else None


def _require_trusted(journal: Journal, folder: Path, *, unsigned: bool) -> None:
    command = journal.about.get(COMMAND, [])
    if command and command[0] != "train":
        raise FileError(
            f"{journal_path(folder)} names a command other than 'train', which no run writes: look into it, and give "
            "--give-up to keep its account of what was spent."
        )
    if unsigned or journal.is_signed:
        return
    does = [f"opens the ledger {journal.about[CHARGE]['ledger']}"] if journal.stage == Stage.ASKING else []
    does += [f"puts the release beside it into {folder}"] if journal.stage == Stage.FINISHED else []
    does += [f"runs {shlex.join(['dpensemble', *command])}"] if command and journal.stage != Stage.FINISHED else []
    raise FileError(
        f"{journal_path(folder)} has no signature of the state folder {state_home()}, since an earlier version, "
        f"another user or another machine wrote it. It {printable(' and '.join(does))}. If you "
        "want that, give --unsigned. To keep the account of what was spent, give --give-up."
    )


def recover(folder: Path, *, overwrite: bool = False, unsigned: bool = False) -> Recovered:
    """Put a finished release in its place, or file the account of a budget that was spent without a release.

    A finished release replaces a folder. Without a signature of this user's state folder, only its account is filed,
    unless `unsigned` is given. `overwrite` replaces files of a later run.
    """
    folder = checked_folder(folder)
    _require_beside(folder)
    claim = Claim(folder)
    try:
        with _recovering(folder):
            recovered = _recovered(claim, folder, overwrite=overwrite, unsigned=unsigned)
    except BaseException:
        claim.release(remove=False)
        raise
    claim.release(remove=True)
    return recovered


def state_of(folder: Path) -> str:
    """Return what there is of an interrupted run, as a sentence without its full stop."""
    path = journal_path(folder)
    try:
        journal = read_journal(path, path)
    except FileError:
        return f"see {path}"
    if journal is not None:
        return journal.sentence(path)
    return f"a release stands in {folder}" if (folder / RECORD).exists() else "nothing was written"


def _require_beside(folder: Path) -> None:
    if not os.path.lexists(beside(folder)):
        raise FileError(f"{folder} has no unfinished run beside it; there is nothing to recover.")


def _recovered(claim: Claim, folder: Path, *, overwrite: bool, unsigned: bool) -> Recovered:
    journal = read_journal(claim.journal, journal_path(folder))
    if journal is None:
        what = f"The run into {folder} ended before it spent anything; its files were removed."
        return Recovered(out=str(folder), placed=False, budgets=[], account=None, what=what)
    if journal.stage == Stage.FINISHED and (unsigned or journal.is_signed):
        _place_waiting(claim, journal, overwrite=overwrite)
        what = f"The finished release stands in {folder}; it spent {budget_words(journal.budgets)}."
        return Recovered(out=str(folder), placed=True, budgets=journal.budgets, account=None, what=what)
    account = _account(folder)
    # Finishing a run requires its command and digests of its tables. Digests would allow checking guesses at a table.
    facts = {name: fact for name, fact in journal.about.items() if name not in (COMMAND, WORKING_FOLDER, INPUTS)}
    replace(journal, about=facts).write(claim.journal, journal_path(folder))
    os.link(claim.journal, claim.place.with_name(account.name))
    sync_folder(claim.place.parent)
    what = (
        f"{budget_words(journal.budgets).capitalize()} {_surely(journal)} spent without a release, as {account} "
        f"records: add it to all that is spent on the same records. The folder {folder} is free again."
    )
    return Recovered(out=str(folder), placed=False, budgets=journal.budgets, account=str(account), what=what)


def _recovering(folder: Path) -> AbstractContextManager[None]:
    return file_errors(lambda reason: f"{folder} cannot be recovered ({reason}); nothing was lost, so try again.")


def _surely(journal: Journal) -> str:
    return "may be" if journal.stage == Stage.ASKING else "is"


def _account(folder: Path) -> Path:
    """Return an unused file name beside a folder."""
    name = f"{folder.name}-spent-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    path, turn = folder.with_name(f"{name}.json"), 1
    while path.exists():
        turn += 1
        path = folder.with_name(f"{name}-{turn}.json")
    return path
