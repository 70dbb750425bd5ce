"""The code that this process runs, and whether a worker or a later process runs the same.

Two copies of one version can differ, for example in a source tree that somebody edits, or after an upgrade under
workers that run on. A worker with another copy could bound what a person adds in another way than the process that
accounts for it. So the copies must be the same.
"""

from __future__ import annotations

import os
import platform
import secrets
from functools import lru_cache
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TypeAlias

from dpensemble.errors import InvalidParameterError

_PACKAGE = str(Path(__file__).parent)
_Stamps: TypeAlias = tuple[tuple[str, int, int], ...]


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

# Other versions of these libraries could fit other teachers.
_SAME_VERSIONS = ("dpensemble", "numpy", "scipy", "scikit-learn")
# Name of the digest of this library's source files among the versions.
_SOURCE = "the source of dpensemble"


def _source_digest() -> str:
    """Return a digest of the source files that this process loaded.

    What a process has in memory is unknown if the files changed since. So its digest then equals that of no other
    process.
    """
    return _digest() if _LOADED and not _source_changed() else _OF_NOBODY


def _source_changed() -> bool:
    """Return whether source files of this library changed since this process loaded it."""
    return _stamps(_PACKAGE) != _LOADED


@lru_cache(1)
def _digest() -> str:
    digest = blake2b(digest_size=8)
    for name, size, _ in _LOADED:
        digest.update(f"{name}:{size}:".encode() + Path(_PACKAGE, name).read_bytes())
    return digest.hexdigest()


def versions() -> dict[str, str]:
    """Return what must be the same on all machines: versions of libraries, and a digest of this library's source."""
    return _of_packages() | {_SOURCE: _source_digest()}


@lru_cache(1)
def _of_packages() -> dict[str, str]:
    versions_here = {"python": ".".join(platform.python_version_tuple()[:2])}
    for package in _SAME_VERSIONS:
        try:
            versions_here[package] = version(package)
        except PackageNotFoundError:
            versions_here[package] = "none"
    return versions_here


def other_versions(wanted: dict[str, str]) -> str:
    """Return in words what differs here from the versions of another process. The text is empty if nothing does."""
    installed = versions()
    for package, required in wanted.items():
        here = installed.get(package, "none")
        if here != required and package == _SOURCE:
            return "other source files of dpensemble than this process, although the version is the same"
        if here != required:
            return f"{package} {here}, but must have {required}"
    return ""


def require_unchanged(parameter: str) -> None:
    """Raise if source files of this library changed under this process, so that workers could run other code."""
    if _source_changed():
        raise InvalidParameterError(
            "the source files of dpensemble changed since this process loaded them, so that workers could run other "
            "code: start this process and all workers again.",
            parameter=parameter,
        )
