"""Small files beside a ledger: replaced in one step, on the disk with their names, and known by when they were made."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from pathlib import Path

from dpensemble._folders import sync_folder

# Arguments of statx: the file itself, by its descriptor, and the time at which it was made.
_EMPTY_PATH, _BIRTH = 0x1000, 0x800


def replace_file(path: Path, content: Callable[[int], bytes]) -> None:
    """Write a new file beside its place, move it there in one step, and bring its name to the disk.

    `content` gets the descriptor of the new file, and returns what the file holds.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(draft, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(content(file.fileno()))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def mark_of(handle: int) -> str:
    """Return a mark that a file keeps as long as it lives, and that no copy of the file has: ``inode/birth``.

    A restart, a new container over the same volume, a new host name, a renamed folder and a changed owner keep the
    mark. A birth of 0 stands for a system that does not report when a file was made.
    """
    return f"{os.fstat(handle).st_ino}/{_birth(handle)}"


def is_same_mark(one: str, other: str) -> bool:
    """Return whether two marks may be of the same file."""
    (inode, birth), (other_inode, other_birth) = one.split("/"), other.split("/")
    if "0" in (birth, other_birth):
        return inode == other_inode
    # Linux cannot set the time at which a file was made, and some file systems number their files at each mount.
    return birth == other_birth and (sys.platform == "linux" or inode == other_inode)


def _birth(handle: int) -> int:
    """Return when a file was made, in nanoseconds, or 0 if the system does not report that."""
    if sys.platform == "darwin":
        return int(os.fstat(handle).st_birthtime * 10**9)
    if _STATX is None:
        return 0
    status = ctypes.create_string_buffer(256)
    if _STATX(handle, b"", _EMPTY_PATH, _BIRTH, status):
        return 0
    known = int.from_bytes(status.raw[:4], sys.byteorder) & _BIRTH
    seconds, nanoseconds = (
        int.from_bytes(status.raw[at : at + size], sys.byteorder) for at, size in ((80, 8), (88, 4))
    )
    return seconds * 10**9 + nanoseconds if known else 0


def _statx() -> Callable[..., int] | None:
    if sys.platform != "linux":
        return None
    try:
        found: Callable[..., int] = ctypes.CDLL(None, use_errno=True).statx
    except (OSError, AttributeError):
        return None
    return found


_STATX = _statx()
