"""Whether two paths lead to one file: by another spelling, a link, or another mount. No file is read.

Files with equal contents are other files, because a refusal would show that contents are equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
# Octal codes in the list of mounts.
_CODES = {"\\040": " ", "\\011": "\t", "\\012": "\n", "\\134": "\\"}


def is_same_file(one: Path, other: Path) -> bool:
    """Return whether two paths lead to one file or folder. A path that leads nowhere is no file."""
    try:
        # Spellings, capitals, links of either kind, and mounts of one file system.
        if one.samefile(other):
            return True
    except OSError:
        return False
    places = [_on_its_server(path.resolve()) for path in (one, other)]
    return places[0] is not None and places[0] == places[1]


def share_files(one: Path, other: Path) -> bool:
    """Return whether a folder and a file, or two folders, have a file in common, such as a link."""
    if not (one.is_dir() or other.is_dir()):
        return False
    return bool(set(_identities(one)) & set(_identities(other)))


def _identities(path: Path) -> Iterator[tuple[int, int]]:
    for file in path.rglob("*") if path.is_dir() else (path,):
        if file.is_file():
            about = file.stat()
            yield about.st_dev, about.st_ino


def _on_its_server(path: Path) -> tuple[str, str] | None:
    """Return the device or server of a path, and the path there. None if the mount does not name any."""
    try:
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    place, longest = None, -1
    for mount in mounts:
        before, _, after = mount.partition(" - ")
        root, point = map(_decoded, before.split(" ")[3:5])
        source = _decoded(after.split(" ")[1])
        # The last of several mounts at one point is the one in use.
        if path.is_relative_to(point) and len(point) >= longest:
            # Only a device or a server is the same wherever its name stands.
            named = source.startswith(("/", "//")) or ":" in source
            inside = str(Path(root) / path.relative_to(point))
            place, longest = (source, inside) if named else None, len(point)
    return place


def _decoded(text: str) -> str:
    for code, sign in _CODES.items():
        text = text.replace(code, sign)
    return text
