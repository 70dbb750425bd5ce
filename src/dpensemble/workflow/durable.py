"""Write files and folders that are complete or absent, even after an interrupt."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from dpensemble._folders import sync_folder
from dpensemble._state_home import NO_LINK

OWN_FILE, OWN_FOLDER, ANY_FILE = 0o600, 0o700, 0o666

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
        remove(draft)
        raise
    sync_folder(path.parent)


def reserve(path: Path, size: int) -> None:
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


def sync_file(path: Path) -> None:
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


def remove(path: Path) -> None:
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
