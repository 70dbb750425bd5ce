"""The folder beside a run's folder in which the run is prepared. Only one process at a time can hold it."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from dpensemble.errors import FileError, file_errors
from dpensemble.workflow import durable

_LOCK = "lock"
_TRIES = 100


class Claim:
    """An exclusive claim on a folder, existing or not, by a lock that the system releases when the process ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.beside = beside(folder)
        self._made: list[Path] = []
        self._lock = -1
        with file_errors(
            lambda reason: (
                f"out={str(folder)!r} cannot be written ({reason} in {folder.parent}, where a run is "
                "prepared): choose another folder."
            )
        ):
            try:
                self._make_parents()
                self._take()
            except BaseException:
                # This claim must not remove what a killed run left.
                self.release(remove=self._lock >= 0 and _names(self.beside) == {_LOCK})
                with contextlib.suppress(OSError):
                    self.beside.rmdir()
                self._remove_parents()
                raise

    def _make_parents(self) -> None:
        missing = self.folder.parent
        above = []
        while not missing.exists() and missing != missing.parent:
            above.append(missing)
            missing = missing.parent
        for path in reversed(above):
            path.mkdir(exist_ok=True)
            self._made.append(path)

    def _take(self) -> None:
        for _ in range(_TRIES):
            durable.step("claim")
            path = self.beside / _LOCK
            try:
                self.beside.mkdir(mode=durable.OWN_FOLDER, exist_ok=True)
                handle = os.open(path, os.O_RDWR | os.O_CREAT, durable.OWN_FILE)
            except (FileNotFoundError, FileExistsError):
                # Another process has removed it in between. A folder that vanishes during mkdir counts as existing.
                continue
            if not _locked(handle):
                os.close(handle)
                raise FileError(
                    f"out={str(self.folder)!r} is being written by another run: wait for it, or choose another folder."
                )
            if _is_at(handle, path):
                self._lock = handle
                durable.step("claimed")
                return
            os.close(handle)
        raise FileError(f"out={str(self.folder)!r} cannot be claimed: choose another folder.")

    def clear(self) -> None:
        """Remove everything but the claim itself."""
        for path in sorted(self.beside.iterdir()):
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
            durable.remove(self.beside / _LOCK)
            with contextlib.suppress(OSError):
                self.beside.rmdir()
            self._remove_parents()
        if not (remove and sys.platform == "win32"):
            os.close(self._lock)
        self._lock = -1

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
    return folder.with_name(f".dpensemble-{folder.name}")


def journal_path(folder: Path) -> Path:
    """Return the path of a run's journal, while there is one."""
    return beside(folder) / "journal.json"


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
