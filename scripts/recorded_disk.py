"""A disk whose changes strace recorded, for `power_cuts.py`, and what a power cut leaves of the changes."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

SECTOR, PAGE = 512, 4096
#: System calls that strace has to record.
CALLS = (
    *("open", "openat", "creat", "read", "lseek", "write", "pwrite64", "writev", "pwritev", "pwritev2", "sendfile"),
    *("copy_file_range", "truncate", "ftruncate", "fallocate", "fsync", "fdatasync", "rename", "renameat", "renameat2"),
    *("link", "linkat", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir"),
    *("chmod", "fchmod", "fchmodat"),
)
_CONTENT = {"write", "pwrite64", "ftruncate", "fallocate", "fsync", "fdatasync", "fchmod"}
_LINE = re.compile(r"^(\d+)\s+(\w+)\((.*)\)\s+= (-?\d+)(<.*>)?")
_DESCRIPTOR = re.compile(r"^/(?:proc/self|dev)/fd/(\d+)(?=/|$)")
_HEX = re.compile(r"(?:\\x[0-9a-f]{2})+")


@dataclass(eq=False)
class Node:
    """A file or a folder: what is flushed, what programs see, and the changes in between."""

    mode: int
    is_folder: bool = False
    flushed: bytes = b""
    seen: bytearray = field(default_factory=bytearray)
    flushed_names: dict[str, Node] = field(default_factory=dict)
    names: dict[str, Node] = field(default_factory=dict)
    pending: list[tuple] = field(default_factory=list)

    def flush(self) -> None:
        """Bring everything to the disk."""
        self.flushed, self.flushed_names = bytes(self.seen), dict(self.names)
        self.pending.clear()


class Disk:
    """The files of one folder. Recorded operations change them in turn."""

    def __init__(self, place: Path) -> None:
        self.place = str(place)
        self.root = self._loaded(place, {})
        #: Whether the program has reported its result.
        self.is_reported = False
        self._moves = 0

    def _loaded(self, path: Path, known: dict[int, Node]) -> Node:
        status = path.lstat()
        node = known.setdefault(status.st_ino, Node(status.st_mode & 0o777, path.is_dir()))
        if node.is_folder:
            node.names = {entry.name: self._loaded(entry, known) for entry in path.iterdir()}
        else:
            node.seen = bytearray(path.read_bytes())
        node.flush()
        return node

    def node(self, path: str) -> Node | None:
        """Return what a path leads to now, or None."""
        node: Node | None = self.root
        for name in Path(path).relative_to(self.place).parts:
            node = node.names.get(name) if node else None
        return node

    def _folder(self, path: str) -> tuple[Node, str]:
        above, name = os.path.split(path)
        folder = self.node(above)
        if folder is None:
            raise FileNotFoundError(path)
        return folder, name

    def _name(self, path: str, node: Node | None, move: int = 0) -> None:
        folder, name = self._folder(path)
        folder.pending.append((name, node, move))
        if node is None:
            folder.names.pop(name, None)
        else:
            folder.names[name] = node

    def apply(self, operation: tuple) -> None:
        """Apply one operation of `operations`."""
        getattr(self, f"_{operation[0]}")(*operation[1:])

    def _report(self) -> None:
        self.is_reported = True

    def _make(self, path: str, mode: int, is_folder: bool) -> None:
        if self.node(path) is None:
            self._name(path, Node(mode, is_folder))

    def _truncate_new(self, path: str, mode: int) -> None:
        self._make(path, mode, False)
        self._resize(path, 0, False)

    def _write(self, path: str, at: int | None, data: bytes) -> None:
        node = self.node(path)
        if node is None:
            return
        at = len(node.seen) if at is None else at
        node.pending.append(("write", at, data))
        _put(node.seen, at, data)

    def _resize(self, path: str, size: int, only_larger: bool) -> None:
        node = self.node(path)
        if node is not None and len(node.seen) != size and not (only_larger and len(node.seen) > size):
            node.pending.append(("resize", size))
            _resized(node.seen, size)

    def _flush(self, path: str) -> None:
        node = self.node(path)
        if node is not None:
            node.flush()

    def _chmod(self, path: str, mode: int) -> None:
        node = self.node(path)
        if node is not None:
            node.mode = mode

    def _link(self, path: str, new: str) -> None:
        self._name(new, self.node(path))

    def _unlink(self, path: str) -> None:
        self._name(path, None)

    def _rename(self, path: str, new: str, exchange: bool) -> None:
        self._moves += 1
        one, other = self.node(path), self.node(new)
        self._name(new, one, self._moves)
        self._name(path, other if exchange else None, self._moves)

    def used(self) -> int:
        """Return how many bytes the files take, in whole pages."""
        return sum(-(-len(node.seen) // PAGE) * PAGE + PAGE * node.is_folder for node in _below(self.root, set()))

    def cut(self, dice: random.Random) -> None:
        """Keep what is flushed, and random parts of the rest: sectors of files, and the first changes of folders."""
        nodes = list(_below(self.root, set(), is_flushed=True))
        kept = {node: dice.randint(0, len(node.pending)) for node in nodes if node.is_folder}
        # A move between two folders happens as a whole.
        done = {change[2] for node, count in kept.items() for change in node.pending[:count]}
        share = dice.choice((0.0, 0.5, 0.9, 1.0))
        for node in nodes:
            if node.is_folder:
                node.names = dict(node.flushed_names)
                for number, (name, target, move) in enumerate(node.pending):
                    if number < kept[node] or (move and move in done):
                        node.names[name] = target
                node.names = {name: target for name, target in node.names.items() if target is not None}
            elif node.pending:
                node.seen = _torn(node, share, dice)

    def write_to(self, place: Path) -> None:
        """Write the files to an empty place."""
        self._write_folder(self.root, place, {})

    def _write_folder(self, folder: Node, place: Path, known: dict[Node, Path]) -> None:
        place.mkdir(exist_ok=True)
        place.chmod(folder.mode)
        for name, node in folder.names.items():
            path = place / name
            if node.is_folder:
                self._write_folder(node, path, known)
            elif node in known:
                os.link(known[node], path)
            else:
                path.write_bytes(node.seen)
                path.chmod(node.mode)
                known[node] = path


def _below(node: Node, known: set[Node], *, is_flushed: bool = False) -> Iterator[Node]:
    """Yield a node and all below it, each once. With `is_flushed`, also what pending changes lead to."""
    if node in known:
        return
    known.add(node)
    yield node
    changed = [change[1] for change in node.pending if change[1] is not None] if is_flushed and node.is_folder else []
    for other in (*node.names.values(), *(node.flushed_names.values() if is_flushed else ()), *changed):
        yield from _below(other, known, is_flushed=is_flushed)


def _put(content: bytearray, at: int, data: bytes) -> None:
    if len(content) < at:
        _resized(content, at)
    content[at : at + len(data)] = data


def _resized(content: bytearray, size: int) -> None:
    del content[size:]
    content.extend(bytes(size - len(content)))


def _torn(node: Node, share: float, dice: random.Random) -> bytearray:
    """Return what is flushed, and a random share of the sectors of what is not."""
    content = bytearray(node.flushed)
    for what, at, *data in node.pending:
        if what == "resize":
            if dice.random() < share:
                _resized(content, at)
            continue
        start, end = at, at + len(data[0])
        while start < end:
            stop = min(end, (start // SECTOR + 1) * SECTOR)
            if dice.random() < share:
                _put(content, start, data[0][start - at : stop - at])
            start = stop
    return content


def operations(record: str, place: Path, output: Path) -> list[tuple]:
    """Return the changes below `place` that strace recorded, and when something was written to the file `output`."""
    return [operation for operation in _Reader(str(place), str(output)).read(record) if operation]


class _Reader:
    """Reads lines of strace with all texts in hexadecimal digits, and keeps the offsets of open files."""

    def __init__(self, place: str, output: str) -> None:
        self.place, self.output = place, output
        self.offsets: dict[tuple[int, str], int | None] = {}
        self.opened: dict[int, str] = {}

    def read(self, record: str) -> Iterator[tuple | None]:
        unfinished: dict[str, str] = {}
        for line in record.splitlines():
            process = line.split(" ", 1)[0]
            if line.endswith("<unfinished ...>"):
                unfinished[process] = line.removesuffix("<unfinished ...>")
                continue
            resumed = re.sub(r"^\d+\s+<\.\.\. \w+ resumed>", "", line)
            parts = _LINE.match(line if resumed == line else unfinished.pop(process, "") + resumed)
            if parts and int(parts[4]) >= 0:
                yield self._operation(parts[2], parts[3].split(", "), int(parts[4]), parts[5] or "", line)

    def _operation(self, call: str, given: list[str], result: int, opened: str, line: str) -> tuple | None:
        if call in ("open", "openat", "creat"):
            return self._open(call, given, result, opened, line)
        if call.startswith(("rename", "link", "unlink", "mkdir", "rmdir", "chmod", "fchmodat", "truncate")):
            return self._names(call, given)
        number = int(given[0].split("<")[0]) if given[0][:1].isdigit() else -1
        path = _text(given[0].partition("<")[2])
        if call == "lseek":
            self.offsets[number, path] = result
        if call == "read" and self.offsets.get((number, path)) is not None:
            self.offsets[number, path] += result
        if path == self.output and call == "write":
            return ("report",)
        # SQLite makes the index of its log again after a power cut.
        is_ours = path.startswith(self.place) and not path.endswith("-shm") and "(deleted)" not in given[0]
        if not is_ours or call in ("lseek", "read"):
            return None
        if call not in _CONTENT:
            raise ValueError(f"{call} is not understood yet: {line[:200]}")
        return self._content(call, given, result, number, path)

    def _content(self, call: str, given: list[str], result: int, number: int, path: str) -> tuple:
        if call == "fchmod":
            return ("chmod", path, int(given[1], 8))
        if call in ("ftruncate", "fallocate"):
            size = int(given[1]) if call == "ftruncate" else int(given[2]) + int(given[3])
            return ("resize", path, size, call == "fallocate")
        if call in ("fsync", "fdatasync"):
            return ("flush", path)
        at = int(given[3]) if call == "pwrite64" else self.offsets.get((number, path), 0)
        if call == "write" and at is not None:
            self.offsets[number, path] = at + result
        return ("write", path, at, bytes.fromhex(given[1].strip('"').replace("\\x", ""))[:result])

    def _open(self, call: str, given: list[str], result: int, opened: str, line: str) -> tuple | None:
        path = _text(opened)
        flags = "O_CREAT|O_TRUNC" if call == "creat" else given[1 if call == "open" else 2]
        if path.startswith(self.place):
            # Other processes may use the same numbers for files elsewhere.
            self.opened[result], self.offsets[result, path] = path, None if "O_APPEND" in flags else 0
        if not path.startswith(self.place) or "O_TMPFILE" in flags or "(deleted)" in line:
            return None
        if "O_TRUNC" in flags:
            return ("truncate_new", path, int(given[-1], 8) & ~0o022 if "O_CREAT" in flags else 0o644)
        return ("make", path, int(given[-1], 8) & ~0o022, False) if "O_CREAT" in flags else None

    def _names(self, call: str, given: list[str]) -> tuple | None:
        if call.endswith(("at", "at2")):
            paths = [self._path(given[0], given[1])]
            paths += [self._path(given[2], given[3])] if call[0] in "rl" else []
        else:
            paths = [self._path("", one) for one in given[: 2 if call[0] in "rl" and call != "rmdir" else 1]]
        if not any(path.startswith(self.place) for path in paths):
            return None
        if call.startswith("rename"):
            return ("rename", *paths, "RENAME_EXCHANGE" in given[-1])
        if call.startswith("mkdir"):
            return ("make", paths[0], int(given[-1], 8) & ~0o022, True)
        if call == "truncate":
            return ("resize", paths[0], int(given[1]), False)
        if call in ("chmod", "fchmodat"):
            return ("chmod", paths[0], int(given[1 if call == "chmod" else 2], 8))
        return ("link", *paths) if call.startswith("link") else ("unlink", paths[0])

    def _path(self, folder: str, given: str) -> str:
        path = _text(given)
        descriptor = _DESCRIPTOR.match(path)
        if descriptor:
            return self.opened[int(descriptor[1])] + path[descriptor.end() :]
        return os.path.normpath(os.path.join(_text(folder.partition("<")[2]) or self.place, path))


def _text(given: str) -> str:
    found = _HEX.search(given)
    return bytes.fromhex(found[0].replace("\\x", "")).decode() if found else ""
