"""Every table and figure of the five texts, and its status, from `tables/coverage.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import Any

from reproductions.catalogue import FOLDER, TABLES
from reproductions.declared import Status

COMMAND = "python -m reproductions"


@dataclass(frozen=True)
class Covered:
    """One table or figure of a text.

    Parameters
    ----------
    text : str
        Author, year and short name of the text, one of `TEXTS`.
    number : str
        As it is called there.
    what : str
        What it shows.
    status : Status
        Where it stands.
    how : str
        The command that shows it, or why there is nothing to compute.
    """

    text: str
    number: str
    what: str
    status: Status
    how: str


_BY_NAME = {table.name: table for table in TABLES}


def _covered(entry: dict[str, Any]) -> Covered:
    if "table" not in entry:
        return Covered(**entry | {"status": Status(entry["status"])})
    table = _BY_NAME[entry["table"]]
    return Covered(entry["text"], entry["number"], table.title, table.status, f"`{COMMAND} {table.name}`")


#: In the order of the texts.
COVERAGE: tuple[Covered, ...] = tuple(
    _covered(entry) for entry in tomllib.loads((FOLDER / "coverage.toml").read_text(encoding="utf-8"))["covered"]
)
#: The five texts.
TEXTS = tuple(dict.fromkeys(covered.text for covered in COVERAGE))
