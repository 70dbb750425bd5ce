"""Entries that each contain the hash of the previous one, so that no change, removal or insertion goes unnoticed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

#: Plain values of an entry or of a signed statement.
Fields = dict[str, Any]
#: Previous hash of the first entry.
START = "0" * 64


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger: a number, a kind, a text, the hash of the previous entry and its own hash."""

    number: int
    kind: str
    body: str
    previous: str
    hash: str

    @property
    def fields(self) -> Fields:
        """The content of the text."""
        fields: Fields = json.loads(self.body)
        return fields

    def holds(self) -> bool:
        """Return whether the entry's hash matches its content."""
        return self.hash == entry_hash(self.number, self.kind, self.body, self.previous)

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as plain values."""
        return {
            "number": self.number,
            "kind": self.kind,
            "body": self.fields,
            "previous": self.previous,
            "hash": self.hash,
        }


def following(last: Entry | None, kind: str, fields: Fields) -> Entry:
    """Return the next entry."""
    number, previous = (1, START) if last is None else (last.number + 1, last.hash)
    body = canonical(fields)
    return Entry(number, kind, body, previous, entry_hash(number, kind, body, previous))


def canonical(fields: Fields) -> str:
    """Return plain values as a text. Equal values give equal texts."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)


def entry_hash(number: int, kind: str, body: str, previous: str) -> str:
    """Return the SHA-256 of an entry. Lengths separate its parts."""
    parts = [str(number), kind, body, previous]
    text = "".join(f"{len(part.encode())}:{part}" for part in parts)
    return hashlib.sha256(text.encode()).hexdigest()
