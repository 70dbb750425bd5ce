"""Files that a stranger may have written, and JSON in them, read within limits of size, depth and length of numbers.

A reader names the error for its own file. The words of a reason quote nothing that a file holds.
"""

from __future__ import annotations

import json
import math
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from dpensemble._state_home import NO_LINK

#: Most bytes of a file of a run, and of JSON, whose values take about twenty times as much memory.
LARGEST_FILE, LARGEST_JSON = 10**9, 64 * 10**6
if sys.platform == "win32":
    _READ = os.O_RDONLY | os.O_BINARY
else:
    # A pipe without a writer would never open.
    _READ = os.O_RDONLY | os.O_NONBLOCK
# Nested lists and objects. Whole numbers of this many digits are also floats.
_DEEPEST, _LONGEST = 100, 300
#: A value of JSON, which its reader checks.
JSON: TypeAlias = Any
_TYPES = (bool, int, float, str, type(None))


class UnfitJSONError(ValueError):
    """JSON that cannot be read. The text states the reason and quotes nothing."""


def file_bytes(path: Path | str, *, links: bool = False, largest: int = LARGEST_FILE) -> bytes:
    """Return the content of a regular file that is at most `largest` bytes long.

    A link in the place of the file is refused, unless `links`. What is opened is what is checked.

    Raises
    ------
    OSError
        If the file is missing, cannot be read, is a link or special, or is too large. `strerror` states the reason.
    """
    if not links and os.path.islink(path):
        raise OSError(0, "it is a link")
    handle = os.open(path, _READ | (0 if links else NO_LINK))
    try:
        status = os.fstat(handle)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(0, "it is a folder")
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is not a regular file")
        if status.st_size > largest:
            raise OSError(0, f"it is larger than {largest / 10**6:,.0f} MB")
        with os.fdopen(handle, "rb", closefd=False) as file:
            content = file.read(status.st_size + 1)
        if len(content) > status.st_size:
            raise OSError(0, "it was changed while it was read")
        return content
    finally:
        os.close(handle)


def read_json(
    path: Path | str,
    failed: Callable[[str], Exception],
    *,
    links: bool = False,
    special_numbers: bool = False,
) -> JSON:
    """Return the value in a JSON file, or raise ``failed(reason)``.

    `parse_json` states what is refused. A missing file raises `FileNotFoundError`, for readers that need not have it.
    """
    try:
        return parse_json(file_bytes(path, links=links, largest=LARGEST_JSON), special_numbers=special_numbers)
    except FileNotFoundError:
        raise
    except OSError as error:
        reason = error.strerror or type(error).__name__
    except UnfitJSONError as error:
        reason = str(error)
    raise failed(reason) from None


def parse_json(
    content: bytes | str,
    *,
    special_numbers: bool = False,
    pairs: Callable[[list[tuple[str, JSON]]], dict[str, JSON]] | None = None,
) -> JSON:
    """Return the value of JSON in UTF-8, without names that come twice, deep nesting, and very long whole numbers.

    `special_numbers` allows NaN and infinity, as records of earlier versions have them. `pairs` makes an object from
    its names and values.

    Raises
    ------
    UnfitJSONError
        If the content is anything else.
    """
    more: dict[str, JSON] = {} if special_numbers else {"parse_float": _finite, "parse_constant": _finite}
    try:
        text = content if isinstance(content, str) else content.decode("utf-8")
        value = json.loads(text, object_pairs_hook=pairs or _each_once, parse_int=_whole, **more)
    except UnfitJSONError:
        raise
    except UnicodeDecodeError:
        raise UnfitJSONError("it is not in UTF-8") from None
    except json.JSONDecodeError:
        raise UnfitJSONError("it is not JSON") from None
    except RecursionError:
        raise UnfitJSONError("its JSON is nested too deeply") from None
    except MemoryError:
        raise UnfitJSONError("it needs more memory than there is") from None
    _require_shallow(value)
    return value


def _require_shallow(value: JSON) -> None:
    """Raise for nesting that a later recursion, such as writing the value, could fail at."""
    level, depth = [value], 0
    while level:
        level = [
            one
            for parent in level
            if not isinstance(parent, _TYPES)
            for one in (parent.values() if isinstance(parent, dict) else parent)
        ]
        depth += 1
        if depth > _DEEPEST + 1:
            raise UnfitJSONError("its JSON is nested too deeply")


def _each_once(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise UnfitJSONError("its JSON names an entry twice")
    return values


def _whole(digits: str) -> int:
    if len(digits) > _LONGEST:
        raise UnfitJSONError("its JSON holds a whole number that is too long")
    return int(digits)


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise UnfitJSONError("its JSON holds a number that is not finite")
    return value
