"""A file of drawn values. Each value is on the disk before the run uses it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dpensemble._folders import sync_folder
from dpensemble._state_home import NO_LINK
from dpensemble._untrusted import UnfitJSONError, file_bytes, parse_json
from dpensemble.errors import FileError, file_errors
from dpensemble.workflow import durable

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
        durable.step("keep")
        new = not self._path.exists()
        handle = os.open(self._path, _APPENDED, durable.OWN_FILE)
        with os.fdopen(handle, "ab") as file:
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
        if new:
            sync_folder(self._path.parent)
        durable.step("kept")


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
