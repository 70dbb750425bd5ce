"""Which source files of this library a process runs.

Two copies of one version can differ, for example in a source tree that somebody edits, or after an upgrade under
workers that run on. A worker with another copy could bound what a person adds in another way than the process that
accounts for it. So the copies must be the same.
"""

from __future__ import annotations

import os
import secrets
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import TypeAlias

_PACKAGE = str(Path(__file__).parents[1])
_Stamps: TypeAlias = tuple[tuple[str, int, int], ...]


def source_digest() -> str:
    """Return a digest of the source files that this process loaded.

    What a process has in memory is unknown if the files changed since. So its digest then equals that of no other
    process.
    """
    return _digest() if _LOADED and not source_changed() else _OF_NOBODY


def source_changed() -> bool:
    """Return whether source files of this library changed since this process loaded it."""
    return _stamps(_PACKAGE) != _LOADED


@lru_cache(1)
def _digest() -> str:
    digest = blake2b(digest_size=8)
    for name, size, _ in _LOADED:
        digest.update(f"{name}:{size}:".encode() + Path(_PACKAGE, name).read_bytes())
    return digest.hexdigest()


def _stamps(package: str) -> _Stamps:
    """Return name, size and time of each source file. This takes milliseconds, unlike reading the files."""
    stamps = []
    for folder, folders, files in os.walk(package):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in files:
            if name.endswith(".py"):
                # Objects of paths would take five times as long.
                path = os.path.join(folder, name)
                entry = os.stat(path)
                stamps.append((path[len(package) + 1 :].replace(os.sep, "/"), entry.st_size, entry.st_mtime_ns))
    return tuple(sorted(stamps))


_LOADED = _stamps(_PACKAGE)
_OF_NOBODY = f"changed {secrets.token_hex(8)}"
