"""What a run keeps on the disk: files that are complete or absent, a claimed folder and drawn values.

Files and folders are complete or absent, even after an interrupt. A run is prepared in a second folder beside the run's
folder, and only one process at a time can hold this folder. Each drawn value is on the disk before the run uses it.

The parent of both folders may be shared with other users. So the folder beside is opened once, without following a
link, and must belong to this user alone. What is done in it is done through the open folder, wherever its name leads
meanwhile.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import json
import os
import secrets
import shutil
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from dpensemble._files import (
    NO_LINK,
    UnfitJSONError,
    file_bytes,
    parse_json,
    sync_folder,
)
from dpensemble.errors import FileError, file_errors

OWN_FILE, _OWN_FOLDER, ANY_FILE = 0o600, 0o700, 0o666

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
# A file that nobody else prepared: in a folder that others may write, its name could be a link to a file of the user.
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK
# Errors of systems or file systems that cannot exchange two folders.
_CANNOT_EXCHANGE = {errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EPERM}


def step(name: str) -> None:
    """Mark one step on the way to the disk. Tests replace this function to kill the process or to fill the disk."""


def write_file(path: Path, content: str | bytes, mode: int = ANY_FILE) -> None:
    """Write a new file to the disk, with the permissions `mode` from the first moment."""
    step(f"write {path.name}")
    data = content.encode("utf-8") if isinstance(content, str) else content
    with os.fdopen(os.open(path, _NEW_FILE, mode), "wb") as file:
        half = len(data) // 2
        file.write(data[:half])
        file.flush()
        step(f"write the rest of {path.name}")
        file.write(data[half:])
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, content: str | bytes, mode: int = ANY_FILE) -> None:
    """Write a file beside its place, and then move it there in one step. Special files are written directly."""
    if path.exists() and not path.is_file():
        path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        return
    # Follow a link, so that the link stays.
    _replace(Path(os.path.realpath(path)), content, mode)


def replace_own_file(path: Path, content: str | bytes) -> None:
    """Write a file for its owner only, as `replace_file` does, and replace a link instead of following it."""
    _replace(path, content, OWN_FILE)


def replace_shared_file(path: Path, content: str | bytes) -> None:
    """Write a file into a folder that others may write to, as `replace_own_file` does, for everybody to read."""
    _replace(path, content, ANY_FILE)


def _replace(path: Path, content: str | bytes, mode: int) -> None:
    draft = _draft(path)
    try:
        write_file(draft, content, mode)
        step(f"replace {path.name}")
        draft.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
    step(f"replaced {path.name}")


def _draft(path: Path) -> Path:
    """Return the path at which a file is written before it is moved to its place. What a killed process left goes."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    return draft


@contextlib.contextmanager
def file_beside(path: Path) -> Iterator[IO[str]]:
    """Open a text file that is moved to its place in one step after the block, or removed if the block fails."""
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8") as file:
            yield file
        return
    path = Path(os.path.realpath(path))
    draft = _draft(path)
    try:
        with os.fdopen(os.open(draft, _NEW_FILE, ANY_FILE), "w", encoding="utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        remove_path(draft)
        raise
    sync_folder(path.parent)


def _reserve(path: Path, size: int) -> None:
    """Reserve room on the disk, if the system can."""
    step("reserve")
    if hasattr(os, "posix_fallocate"):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT, OWN_FILE)
        try:
            os.posix_fallocate(handle, 0, size)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                raise
        finally:
            os.close(handle)


def _sync_file(path: Path) -> None:
    """Flush a file's content to the disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one step. Return False, and do nothing, if the system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    if not renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), ctypes.c_uint(_RENAME_EXCHANGE)):
        return True
    number = ctypes.get_errno()
    if number in _CANNOT_EXCHANGE:
        return False
    raise OSError(number, os.strerror(number), str(other))


def remove_path(path: Path) -> None:
    """Remove a file or folder with its content, if it exists, as far as it can be removed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def signals_later() -> Iterator[None]:
    """Delay SIGINT and SIGTERM until the block is done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    handlers: dict[int, Any] = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            # None is a handler that was not set from Python. It cannot be restored.
            if signal.getsignal(number) not in (None, signal.SIG_IGN):
                handlers[number] = signal.signal(number, lambda number, _frame: came.append(number))
        yield
    finally:
        for heeded, handler in handlers.items():
            signal.signal(heeded, handler)
        for waiting in dict.fromkeys(came):
            signal.raise_signal(waiting)


#: Beginning of the name of the folder in which a run is prepared. The name of the run's folder follows.
_BESIDE = ".dpensemble-"


_LOCK = "lock"
_NEW, _OLD, _RESERVE = "new", "old", "reserve"
# What was drawn, for the owner only.
_DRAWN = "drawn.jsonl"
# Disk space for a release, reserved before anything is spent on it.
_RESERVED_BYTES = 2**23
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
    run_folder : Path
        The run's folder, reached through the open descriptor of its parent if the system can.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.beside = _beside(folder)
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
                self._lock_folder()
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
    def run_folder(self) -> Path:
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

    def _lock_folder(self) -> None:
        name = _through(self._parent, self.folder.parent) / self.beside.name
        for _ in range(_TRIES):
            step("claim")
            try:
                with contextlib.suppress(FileExistsError):
                    name.mkdir(mode=_OWN_FOLDER)
                self._open = _own_folder(name, self.beside)
                handle = os.open(self.inside / _LOCK, os.O_RDWR | os.O_CREAT | NO_LINK, OWN_FILE)
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
                step("claimed")
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

    @staticmethod
    def folder_beside(beside: Path) -> Path:
        """Return the run's folder, by the folder beside it."""
        return beside.with_name(beside.name.removeprefix(_BESIDE))

    @property
    def new(self) -> Path:
        """The folder in which the release is written before it is put in its place."""
        return self.inside / _NEW

    @property
    def shown_new(self) -> Path:
        """The same folder, for messages."""
        return self.beside / _NEW

    @property
    def drawn(self) -> DrawnFile:
        """What the run has drawn so far. It draws none of this a second time."""
        return DrawnFile(self.inside / _DRAWN, self.beside / _DRAWN)

    def drawn_digest(self) -> str:
        """Return a digest of all that the run has drawn."""
        return digest_of_drawn(self.inside / _DRAWN)

    def reserve(self) -> None:
        """Reserve room on the disk for a release, before anything is spent on it."""
        step("spend")
        _reserve(self.inside / _RESERVE, _RESERVED_BYTES)

    def fill(self, write: Callable[[Path], None]) -> None:
        """Let `write` fill the empty folder `new`, and flush all of it to the disk."""
        new = self.new
        remove_path(self.inside / _RESERVE)
        new.mkdir()
        write(new)
        for path in sorted(new.iterdir()):
            _sync_file(path)
        sync_folder(new)
        step("files written")

    def replace_folder(self, names: set[str], *, own_only: bool) -> None:
        """Replace the run's folder with the new one. What it holds besides files of these names is kept.

        With `own_only`, nobody else may enter the folder. Otherwise the permissions of the earlier folder stay.
        """
        new, old, folder = self.new, self.inside / _OLD, self.run_folder
        earlier = folder.stat().st_mode if folder.exists() else None
        if own_only:
            new.chmod(_OWN_FOLDER)
        elif earlier is not None:
            new.chmod(stat.S_IMODE(earlier))
        step("place")
        if earlier is None or not any(folder.iterdir()):
            new.replace(folder)
        elif not exchange(new, folder):
            folder.replace(old)
            step("moved away")
            new.replace(folder)
        step("placed")
        sync_folder(folder.parent)
        self.carry_others(names)

    def carry_others(self, names: set[str]) -> None:
        """Give a folder its other contents back after a replacement. An exchange leaves them in the new folder."""
        folder = self.run_folder
        for before in (self.new, self.inside / _OLD):
            if not before.is_dir():
                continue
            for path in sorted(before.iterdir()):
                if path.name not in names and not (folder / path.name).exists():
                    step("carry")
                    path.replace(folder / path.name)
            sync_folder(folder)
            sync_folder(before)
        step("tidied")

    def remove_unfinished(self) -> None:
        """Remove the unfinished files of a run. Its draws and its journal stay."""
        remove_path(self.inside / _RESERVE)
        remove_path(self.new)

    def remove_journal(self) -> None:
        """Remove the journal of a run that has not spent anything."""
        remove_path(self.journal)

    def clear(self) -> None:
        """Remove everything but the claim itself."""
        for path in sorted(self.inside.iterdir()):
            if path.name != _LOCK:
                remove_path(path)

    def release(self, *, remove: bool) -> None:
        """Release the folder. With `remove`, nothing of the claim is left. Otherwise its contents stay for later."""
        if self._lock < 0:
            return
        if remove:
            self.clear()
            # On Windows an open file cannot be removed.
            if sys.platform == "win32":
                os.close(self._lock)
            remove_path(self.inside / _LOCK)
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


def _beside(folder: Path) -> Path:
    """Return the folder in which a run is prepared."""
    return folder.with_name(f"{_BESIDE}{folder.name}")


def journal_path(folder: Path) -> Path:
    """Return the path of a run's journal, while there is one, for messages."""
    return _beside(folder) / _JOURNAL


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


_ARRAY = "array"
_APPENDED = os.O_WRONLY | os.O_CREAT | os.O_APPEND | NO_LINK


class DrawnFile:
    """Stores drawn values as lines of JSON. An incomplete last line was never used, so its values are drawn again.

    Values that belong together are one line, so an interrupted write stores none of them. The file is for its
    owner only. Values of an interrupted run are returned before anything new is drawn. A run that asks for other values
    raises. Messages call the path `shown`, by default `path`.
    """

    def __init__(self, path: Path, shown: Path | None = None) -> None:
        self._path, self._shown = path, path if shown is None else shown
        self._kept, n_bytes = _kept_in(path, self._shown)
        self._n_used = 0
        self._waiting: list[dict[str, Any]] | None = None
        if path.exists() and path.stat().st_size > n_bytes:
            os.truncate(path, n_bytes)

    def once(self, name: str, draw: Callable[[], Any]) -> Any:
        """Return the next stored value, or draw it and write it to the disk."""
        if self._n_used < len(self._kept):
            entry = self._kept[self._n_used]
            if entry["name"] != name:
                raise FileError(
                    f"{self._shown} holds {entry['name']}, but this run draws {name}: finish the run with the version "
                    "and the files of its start."
                )
            self._n_used += 1
            return _as_value(entry["value"])
        value = draw()
        entry = {"name": name, "value": _as_json(value)}
        if self._waiting is None:
            self._append([entry])
        else:
            self._waiting.append(entry)
        return value

    @contextmanager
    def together(self) -> Iterator[None]:
        """Store all values of the block, or none of them if the block does not end."""
        self._waiting = []
        try:
            yield
            self._append(self._waiting)
        finally:
            self._waiting = None

    def _append(self, values: list[dict[str, Any]]) -> None:
        if not values:
            return
        with file_errors(
            lambda reason: f"drawn values cannot be stored in {self._shown} ({reason}): make room, and finish the run."
        ):
            self._write(json.dumps(values if len(values) > 1 else values[0]) + "\n")
        # They were drawn in this run, which does not draw them again.
        self._kept += [{}] * len(values)
        self._n_used = len(self._kept)

    def _write(self, line: str) -> None:
        step("keep")
        new = not self._path.exists()
        handle = os.open(self._path, _APPENDED, OWN_FILE)
        with os.fdopen(handle, "ab") as file:
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
        if new:
            sync_folder(self._path.parent)
        step("kept")


def digest_of_drawn(path: Path) -> str:
    """Return a digest of all that a run has drawn. Of a run that stored nothing, no digest equals another."""
    # In pieces: a run that has drawn much must still end after its charge.
    with contextlib.suppress(FileNotFoundError), os.fdopen(os.open(path, os.O_RDONLY | NO_LINK), "rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        if file.tell():
            return digest.hexdigest()
    return secrets.token_hex(32)


def _kept_in(path: Path, shown: Path) -> tuple[list[dict[str, Any]], int]:
    """Return the values in a file, and the number of bytes up to the end of the last complete one."""
    try:
        data = file_bytes(path)
    except FileNotFoundError:
        return [], 0
    except OSError as error:
        raise FileError(f"{shown} cannot be read ({error.strerror}): restore it to finish the run.") from None
    n_bytes = data.rfind(b"\n") + 1
    try:
        lines = [parse_json(line, special_numbers=True) for line in data[:n_bytes].splitlines()]
    except UnfitJSONError:
        raise FileError(f"{shown} is damaged, so the run cannot be finished from it: give --give-up.") from None
    return [value for line in lines for value in (line if isinstance(line, list) else [line])], n_bytes


def _as_json(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {_ARRAY: value.ravel().tolist(), "shape": list(value.shape), "dtype": value.dtype.str}
    return value


def _as_value(entry: Any) -> Any:
    if isinstance(entry, dict) and _ARRAY in entry:
        return np.array(entry[_ARRAY], dtype=entry["dtype"]).reshape(entry["shape"])
    return entry
