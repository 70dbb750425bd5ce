"""Entries that each hold the hash of the one before, so that none can be changed, removed or put in unnoticed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

#: What the first entry holds in place of an earlier one's hash.
START = "0" * 64


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger: a number, a kind, a text, and the hashes of the one before and of itself."""

    number: int
    kind: str
    body: str
    previous: str
    hash: str

    @property
    def fields(self) -> dict[str, Any]:
        """The text's content."""
        fields: dict[str, Any] = json.loads(self.body)
        return fields

    def holds(self) -> bool:
        """Tell whether the entry's hash is that of what it says."""
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


def following(last: Entry | None, kind: str, fields: dict[str, Any]) -> Entry:
    """Return the entry that comes next."""
    number, previous = (1, START) if last is None else (last.number + 1, last.hash)
    body = canonical(fields)
    return Entry(number, kind, body, previous, entry_hash(number, kind, body, previous))


def canonical(fields: dict[str, Any]) -> str:
    """Return plain values as a text that is the same for the same values."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)


def entry_hash(number: int, kind: str, body: str, previous: str) -> str:
    """Return the SHA-256 of an entry; lengths keep its parts apart."""
    parts = [str(number), kind, body, previous]
    text = "".join(f"{len(part.encode())}:{part}" for part in parts)
    return hashlib.sha256(text.encode()).hexdigest()
