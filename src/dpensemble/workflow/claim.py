"""The folder beside a run's folder in which the run is prepared. Only one process at a time can hold it.

The parent of both folders may be shared with other users. So the folder beside is opened once, without following a
link, and must belong to this user alone. What is done in it is done through the open folder, wherever its name leads
meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from pathlib import Path

from dpensemble._folders import sync_folder
from dpensemble._state_home import NO_LINK
from dpensemble.errors import FileError, file_errors
from dpensemble.workflow import durable
from dpensemble.workflow.journal import BESIDE

_LOCK = "lock"
_TRIES = 100
_JOURNAL = "journal.json"
# Open folders as paths, where the system has them.
_DESCRIPTORS = Path("/proc/self/fd")
_FOLDER = os.O_RDONLY if sys.platform == "win32" else os.O_RDONLY | os.O_DIRECTORY
_FOR_OTHERS_TO_WRITE = stat.S_IWGRP | stat.S_IWOTH


class Claim:
    """An exclusive claim on a folder, existing or not, by a lock that the system releases when the process ends.

    Attributes
    ----------
    folder, beside : Path
        The run's folder and the folder beside it, for messages.
    inside : Path
        The folder beside, reached through its open descriptor if the system can.
    place : Path
        The run's folder, reached through the open descriptor of its parent if the system can.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.beside = beside(folder)
        self._made: list[Path] = []
        self._parent = self._open = self._lock = -1
        with file_errors(
            lambda reason: (
                f"out={str(folder)!r} cannot be written ({reason} in {folder.parent}, where a run is "
                "prepared): choose another folder."
            )
        ):
            try:
                self._make_parents()
                self._parent = os.open(folder.parent, _FOLDER)
                self._take()
                _require_own_entries(self.inside, self.beside)
            except BaseException:
                # This claim must not remove what a killed run left.
                self.release(remove=self._lock >= 0 and _names(self.inside) == {_LOCK})
                self._remove_empty()
                self._close()
                raise

    @property
    def inside(self) -> Path:
        """The folder beside the run's folder, for what is done in it."""
        return _through(self._open, self.beside)

    @property
    def place(self) -> Path:
        """The run's folder, for what is done with it."""
        return _through(self._parent, self.folder.parent) / self.folder.name

    @property
    def journal(self) -> Path:
        """The path of the journal, for what is done with it."""
        return self.inside / _JOURNAL

    def _make_parents(self) -> None:
        missing = self.folder.parent
        above = []
        while not missing.exists() and missing != missing.parent:
            above.append(missing)
            missing = missing.parent
        for path in reversed(above):
            path.mkdir(exist_ok=True)
            self._made.append(path)
            sync_folder(path.parent)

    def _take(self) -> None:
        name = _through(self._parent, self.folder.parent) / self.beside.name
        for _ in range(_TRIES):
            durable.step("claim")
            try:
                with contextlib.suppress(FileExistsError):
                    name.mkdir(mode=durable.OWN_FOLDER)
                self._open = _own_folder(name, self.beside)
                handle = os.open(self.inside / _LOCK, os.O_RDWR | os.O_CREAT | NO_LINK, durable.OWN_FILE)
            except FileNotFoundError:
                # Another process has removed it in between.
                self._forget_folder()
                continue
            if not _locked(handle):
                os.close(handle)
                raise FileError(
                    f"out={str(self.folder)!r} is being written by another run: wait for it, or choose another folder."
                )
            if _is_at(handle, name / _LOCK):
                self._lock = handle
                # A journal in a folder whose name is lost is lost, too.
                sync_folder(name.parent)
                durable.step("claimed")
                return
            os.close(handle)
            self._forget_folder()
        raise FileError(f"out={str(self.folder)!r} cannot be claimed: choose another folder.")

    def _forget_folder(self) -> None:
        if self._open >= 0:
            os.close(self._open)
        self._open = -1

    def _close(self) -> None:
        self._forget_folder()
        if self._parent >= 0:
            os.close(self._parent)
        self._parent = -1

    def _remove_empty(self) -> None:
        """Remove the folder beside if it is empty. A link or a filled folder stays."""
        with contextlib.suppress(OSError):
            (_through(self._parent, self.folder.parent) / self.beside.name).rmdir()
        self._remove_parents()

    def clear(self) -> None:
        """Remove everything but the claim itself."""
        for path in sorted(self.inside.iterdir()):
            if path.name != _LOCK:
                durable.remove(path)

    def release(self, *, remove: bool) -> None:
        """Release the folder. With `remove`, nothing of the claim is left. Otherwise its contents stay for later."""
        if self._lock < 0:
            return
        if remove:
            self.clear()
            # On Windows an open file cannot be removed.
            if sys.platform == "win32":
                os.close(self._lock)
            durable.remove(self.inside / _LOCK)
            self._remove_empty()
        if not (remove and sys.platform == "win32"):
            os.close(self._lock)
        self._lock = -1
        self._close()

    def _remove_parents(self) -> None:
        """Remove the parent folders that were made for this claim, if they are still empty."""
        with contextlib.suppress(OSError):
            for path in reversed(self._made):
                path.rmdir()


def _is_at(handle: int, path: Path) -> bool:
    """Return whether an open file is still the one at a path. An earlier holder may have removed it meanwhile."""
    try:
        return path.stat().st_ino == os.fstat(handle).st_ino
    except FileNotFoundError:
        return False


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def beside(folder: Path) -> Path:
    """Return the folder in which a run is prepared."""
    return folder.with_name(f"{BESIDE}{folder.name}")


def journal_path(folder: Path) -> Path:
    """Return the path of a run's journal, while there is one, for messages."""
    return beside(folder) / _JOURNAL


def _through(handle: int, path: Path) -> Path:
    """Return a path that leads to an open folder even if its name leads elsewhere now. Or `path` if there is none."""
    if handle < 0:
        return path
    through = _DESCRIPTORS / str(handle)
    return through if through.exists() else path


def _own_folder(path: Path, shown: Path) -> int:
    """Open a folder that is neither a link nor writable for others, and return its descriptor."""
    try:
        status = path.lstat()
        if not stat.S_ISDIR(status.st_mode):
            raise _refused(shown, "is not a folder but a link or a file")
        # A descriptor of a folder does not exist on Windows, whose folders have no such modes either.
        if sys.platform == "win32":
            return -1
        handle = os.open(path, _FOLDER | NO_LINK)
    except NotADirectoryError:
        raise _refused(shown, "is not a folder but a link or a file") from None
    try:
        _require_own(os.fstat(handle), shown)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _require_own_entries(inside: Path, shown: Path) -> None:
    """Raise for entries of others and for links. Folders in it are out of reach of others, whatever their modes."""
    for path in sorted(inside.iterdir()):
        status, name = path.lstat(), shown / path.name
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            raise _refused(name, "is neither a file nor a folder")
        _require_own(status, name, modes=stat.S_ISREG(status.st_mode))


def _require_own(status: os.stat_result, shown: Path, *, modes: bool = True) -> None:
    if sys.platform == "win32":
        return
    if status.st_uid != os.geteuid():
        raise _refused(shown, "belongs to another user")
    if modes and status.st_mode & _FOR_OTHERS_TO_WRITE:
        raise _refused(shown, "can be written by other users")


def _refused(shown: Path, why: str) -> FileError:
    return FileError(
        f"{shown} {why}, so somebody else may have prepared what a run or 'dpensemble recover' would do: look into it, "
        "and move it away, or choose another --out."
    )


def _locked(handle: int) -> bool:
    """Lock an open file unless another process holds the lock."""
    if sys.platform == "win32":
        import msvcrt  # noqa: PLC0415  differs by system

        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    import fcntl  # noqa: PLC0415  differs by system

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
