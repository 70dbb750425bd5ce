"""A run's folder: claimed for the whole run, with a journal before anything is spent, and put in place in one step.

If a run is killed, its folder holds the earlier run or the new one, or a journal beside the folder records which
budget is spent and how to finish.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpensemble._folders import sync_folder
from dpensemble._state_home import note_of, noted_once, state_home
from dpensemble._untrusted import file_bytes
from dpensemble.errors import FileError, file_errors, known_text
from dpensemble.workflow import durable
from dpensemble.workflow.claim import Claim, journal_path
from dpensemble.workflow.drawn import DrawnFile, digest_of_drawn
from dpensemble.workflow.journal import CHARGE, RUN, Journal, Stage, read_journal
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
            durable.remove(self._claim.journal)
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
            durable.step("spend")
            durable.reserve(self._claim.inside / _RESERVE, _RESERVED_BYTES)
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
        with durable.signals_later():
            try:
                journal.write(self._claim.journal, self.journal_path)
                self.journal, self.stage = journal, stage
                durable.step(stage.value)
            except BaseException as error:
                self._look_again()
                if isinstance(error, OSError):
                    raise self._unwritable(error) from None
                raise

    def _look_again(self) -> None:
        """Find out how far a journal got if writing it to the disk failed."""
        if self.journal is None:
            # No account was charged, and no noise was or will be drawn.
            durable.remove(self._claim.journal)
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
            durable.remove(self._claim.inside / _RESERVE)
            new.mkdir()
            write(new)
            for path in sorted(new.iterdir()):
                durable.sync_file(path)
            sync_folder(new)
            durable.step("files written")
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
            durable.step("noted")
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
        with durable.signals_later():
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
    durable.remove(claim.inside / _RESERVE)
    durable.remove(claim.inside / _NEW)


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
        place_waiting(claim, journal, overwrite=True)
    claim.clear()


def _in_place(claim: Claim, journal: Journal) -> bool:
    """Return whether the finished run is in its place, so that only clean-up is left."""
    # A record that cannot be read has no digest.
    return journal.stage == Stage.FINISHED and journal.record != "" and _digest(claim.place / RECORD) == journal.record


def place_waiting(claim: Claim, journal: Journal, *, overwrite: bool) -> None:
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
        new.chmod(durable.OWN_FOLDER)
    elif earlier is not None:
        new.chmod(stat.S_IMODE(earlier))
    durable.step("place")
    if earlier is None or not any(folder.iterdir()):
        new.replace(folder)
    elif not durable.exchange(new, folder):
        folder.replace(old)
        durable.step("moved away")
        new.replace(folder)
    durable.step("placed")
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
                durable.step("carry")
                path.replace(folder / path.name)
        sync_folder(folder)
        sync_folder(before)
    durable.step("tidied")


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(file_bytes(path)).hexdigest()
    except OSError:
        return ""
