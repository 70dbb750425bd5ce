"""Folders whose names reach the disk. A file that is flushed is lost with the name of a folder above it."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from pathlib import Path


def make_folder(path: Path, mode: int = 0o777) -> None:
    """Make a folder and those above it where they are missing, and bring their names to the disk.

    `mode` is for folders that are missing.
    """
    missing = [path]
    while not missing[-1].parent.exists() and missing[-1] != missing[-1].parent:
        missing.append(missing[-1].parent)
    for folder in reversed(missing):
        folder.mkdir(mode, exist_ok=True)
        # Also of an existing folder, since the process that made the folder may have been killed before this.
        with contextlib.suppress(PermissionError):
            sync_folder(folder.parent)


def sync_folder(path: Path) -> None:
    """Bring the names in a folder to the disk, if the system can."""
    if sys.platform == "win32":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some network file systems cannot, and keep names in order themselves.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)
