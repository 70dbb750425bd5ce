"""The newest known entry of a ledger, stored outside the ledger, so that restoring an old copy restores no budget."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from filelock import FileLock

from dpensemble._untrusted import file_bytes, parse_json
from dpensemble.errors import LedgerError, TamperedLedgerError
from dpensemble.ledger.chain import Entry
from dpensemble.ledger.transaction import Transaction

# Bytes of each of the file's two slots, so large that no disk writes parts of both in one write.
_PLACE = 4096


class Witness:
    """A file with the number and hash of the newest entry that was charged.

    The file has two slots, and the slot with the older entry is overwritten. That takes one trip to the
    disk, while a new file takes several, and it needs no more room. An interrupted write leaves the other slot.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def seen(self) -> tuple[int, str] | None:
        """Return number and hash of the newest known entry, or None before the file exists."""
        try:
            places = _places(file_bytes(self.path, links=True, largest=2 * _PLACE))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unreadable(type(error).__name__) from None
        whole = [one for one in places if one is not None]
        if not whole:
            raise self._unreadable("it is damaged")
        return max(whole)

    def check(self, transaction: Transaction) -> None:
        """Raise for a ledger that lacks the newest known entry."""
        seen = self.seen()
        if seen is None:
            return
        # Usually the newest entry is the known one.
        last = transaction.last()
        entry = last if last is not None and last.number == seen[0] else transaction.entry(seen[0])
        if entry is None or entry.hash != seen[1]:
            raise LedgerError(
                f"the ledger lacks entry {seen[0]:,}, which {self.path} has seen: it is an old copy, or was changed; "
                "restore the newest copy. Nothing is charged until then."
            )

    def note(self, entry: Entry) -> bool:
        """Record an entry as seen. Return False if a newer one was seen. The file is on the disk when this returns.

        If a newer entry was seen, the ledger must contain that entry too. See `check`. Another entry with the same
        number raises, because it means that two copies of the ledger are in use.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with FileLock(f"{self.path}.lock", timeout=60):
                seen = self.seen()
                if seen is not None and seen[0] == entry.number and seen[1] != entry.hash:
                    raise TamperedLedgerError(
                        f"{self.path} has seen another entry {entry.number:,}: two copies of the ledger are in use; "
                        "restore the newest copy, and use only that copy. No noise was drawn."
                    )
                if seen is not None and seen[0] >= entry.number:
                    return seen[0] == entry.number
                places = [] if seen is None else _places(self.path.read_bytes())
                if len(places) == 2:
                    self._write_over(1 if places[0] == seen else 0, _line(entry))
                else:
                    # The file is missing, or has one line from an earlier version.
                    self._begin(2 * _line(entry))
                return True
        except (OSError, TimeoutError) as error:
            raise LedgerError(
                f"{self.path}, which detects an old copy of the ledger, cannot be written ({type(error).__name__}); "
                "what was charged stays charged, and no noise was drawn: make the file writable."
            ) from None

    def _write_over(self, place: int, line: bytes) -> None:
        with self.path.open("r+b", buffering=0) as file:
            file.seek(place * _PLACE)
            file.write(line)
            # If the time of a change need not be stored, there is less to wait for.
            getattr(os, "fdatasync", os.fsync)(file.fileno())

    def _begin(self, content: bytes) -> None:
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path)

    def _unreadable(self, why: str) -> LedgerError:
        return LedgerError(
            f"{self.path}, which detects an old copy of the ledger, cannot be read ({why}): restore it, or move it "
            "away and accept that an old copy would not be noticed."
        )


def _line(entry: Entry) -> bytes:
    """Return the content of one slot: a line that is padded to the slot's length."""
    place = {"number": entry.number, "hash": entry.hash, "check": _check(entry.number, entry.hash)}
    return (json.dumps(place).ljust(_PLACE - 1) + "\n").encode()


def _places(content: bytes) -> list[tuple[int, str] | None]:
    """Return the content of each slot, or None for a slot that was not completely written."""
    if len(content) != 2 * _PLACE:
        return [_parsed_place(content, checked=False)]
    return [_parsed_place(content[:_PLACE], checked=True), _parsed_place(content[_PLACE:], checked=True)]


def _parsed_place(line: bytes, *, checked: bool) -> tuple[int, str] | None:
    try:
        place = parse_json(line)
        number, digest = int(place["number"]), str(place["hash"])
        return None if checked and place["check"] != _check(number, digest) else (number, digest)
    except (ValueError, KeyError, TypeError, OverflowError):
        return None


def _check(number: int, digest: str) -> str:
    return hashlib.sha256(f"{number}:{digest}".encode()).hexdigest()[:16]
