"""What a ledger stores outside its database: the witness of its newest entry, its signing key, and checkpoints.

The witness holds the newest known entry, so that restoring an old copy restores no budget. A second file remembers the
ledger of each database, so that a new ledger cannot replace it. Each file is replaced in one step, reaches the disk
with its name, and is known by when it was made.

A signed checkpoint states the newest entry, and is stored elsewhere, or beside the ledger with the balances of that
entry. With the latter, a start need not read all entries first.
"""

from __future__ import annotations

import ctypes
import hashlib
import hmac
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from filelock import FileLock

from dpensemble._files import LARGEST_JSON, file_bytes, make_folder, parse_json, state_home, sync_folder
from dpensemble.errors import LedgerError, ReplacedLedgerError, UnknownLedgerError
from dpensemble.server.entries import Entry, Standing, Transaction, canonical
from dpensemble.server.store import Store, two_names

# Seconds that a process waits for others that write the same file.
_PATIENCE = 60
# Arguments of statx: the file itself, by its descriptor, and the time at which it was made.
_EMPTY_PATH, _BIRTH = 0x1000, 0x800


def _replace_file(path: Path, content: Callable[[int], bytes]) -> None:
    """Write a new file beside its place, move it there in one step, and bring its name to the disk.

    `content` gets the descriptor of the new file, and returns what the file holds.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(draft, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(content(file.fileno()))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def _mark_of(handle: int) -> str:
    """Return a mark that a file keeps as long as it lives, and that no copy of the file has: ``inode/birth``.

    A restart, a new container over the same volume, a new host name, a renamed folder and a changed owner keep the
    mark. A birth of 0 stands for a system that does not report when a file was made.
    """
    return f"{os.fstat(handle).st_ino}/{_birth(handle)}"


def _is_same_mark(one: str, other: str) -> bool:
    """Return whether two marks may be of the same file."""
    (inode, birth), (other_inode, other_birth) = one.split("/"), other.split("/")
    if "0" in (birth, other_birth):
        return inode == other_inode
    # Linux cannot set the time at which a file was made, and some file systems number their files at each mount.
    return birth == other_birth and (sys.platform == "linux" or inode == other_inode)


def _birth(handle: int) -> int:
    """Return when a file was made, in nanoseconds, or 0 if the system does not report that."""
    if sys.platform == "darwin":
        return int(os.fstat(handle).st_birthtime * 10**9)
    if _STATX is None:
        return 0
    status = ctypes.create_string_buffer(256)
    if _STATX(handle, b"", _EMPTY_PATH, _BIRTH, status):
        return 0
    known = int.from_bytes(status.raw[:4], sys.byteorder) & _BIRTH
    seconds, nanoseconds = (
        int.from_bytes(status.raw[at : at + size], sys.byteorder) for at, size in ((80, 8), (88, 4))
    )
    return seconds * 10**9 + nanoseconds if known else 0


def _statx() -> Callable[..., int] | None:
    if sys.platform != "linux":
        return None
    try:
        found: Callable[..., int] = ctypes.CDLL(None, use_errno=True).statx
    except (OSError, AttributeError):
        return None
    return found


_STATX = _statx()

# Seconds after which a charge writes a new file with a new mark.
_FRESH = 10.0
_clock = time.monotonic
# Bytes of each of the file's two slots, so large that no disk writes parts of both in one write.
_PLACE = 4096


class Witness:
    """A file with the number and hash of the newest entry, and the mark by which the file knows itself.

    The file has two slots, and the slot with the older entry is overwritten. That takes one trip to the
    disk, while a new file takes several, and it needs no more room. An interrupted write leaves the other slot.

    A charge holds the file's lock from before the database is written until the new entry is in the file. So of all
    copies of a ledger only one at a time charges, and only a copy with the newest entry that was seen.

    A copy of the file has another mark (`_mark_of`). Then a back-up was restored, or two folders are in use, and nobody
    knows what was released since.
    """

    def __init__(self, path: Path, ledger: str = "LEDGER") -> None:
        # Whatever links lead to the file, there is one file with one lock.
        self.path, self._ledger = Path(os.path.realpath(path)), ledger
        #: What prevented the last write, or None.
        self.problem: str | None = None
        self._is_started, self._began = False, 0.0

    def seen(self) -> tuple[int, str] | None:
        """Return number and hash of the newest known entry, or None before the file exists."""
        slots = self._slots()
        return None if slots is None else self._newest(slots)[:2]

    def check(self, transaction: Transaction, seen: tuple[int, str] | None = None) -> None:
        """Raise for a ledger that lacks the newest known entry, or the entry `seen`."""
        seen = self.seen() if seen is None else seen
        if seen is None:
            return
        # Usually the newest entry is the known one.
        last = transaction.last()
        entry = last if last is not None and last.number == seen[0] else transaction.entry(seen[0])
        if entry is None or entry.hash != seen[1]:
            raise UnknownLedgerError(
                f"the ledger lacks entry {seen[0]:,}, which {self.path} has seen: it is an old copy, or was changed, "
                f"or another copy of it is in use; restore the newest copy. If that copy is lost, run {self._command}. "
                "Nothing is charged until then."
            )

    def require_known(self) -> None:
        """Raise if this folder does not know the ledger, or if the file is a copy of another file."""
        with self._file_errors("read"):
            if not self.path.exists():
                raise self._unknown("is missing")
            with self.path.open("rb", buffering=0) as file:
                self._read_known(file.fileno())

    def knows(self, transaction: Transaction) -> bool:
        """Return whether this folder knows the ledger, and the ledger has the newest known entry."""
        try:
            self.require_known()
            self.check(transaction)
        except UnknownLedgerError:
            return False
        return True

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Exclude every charge within the block, whether or not there is a file. Makes the folder."""
        with ExitStack() as stack:
            with self._file_errors("written"):
                make_folder(self.path.parent, 0o700)
                stack.enter_context(FileLock(f"{self.path}.lock", timeout=_PATIENCE))
            yield

    @contextmanager
    def held(self) -> Iterator[tuple[int, str]]:
        """Exclude every other charge of this ledger and its copies within the block. Yields the newest known entry.

        Raises before anything is charged if the file cannot be written, is a copy, or is missing.
        """
        with ExitStack() as stack:
            with self._file_errors("written"):
                if not self.path.exists():
                    raise self._unknown("is missing")
                stack.enter_context(FileLock(f"{self.path}.lock", timeout=_PATIENCE))
                with self.path.open("r+b", buffering=0) as file:
                    number, digest, _ = self._read_known(file.fileno())
                if self.problem is not None or not self._is_started or _clock() - self._began > _FRESH:
                    # Without this file a charge is useless. So a process that starts or failed writes the file first.
                    # An older file may be in a back-up, so it gets a new mark.
                    self._replace(number, digest)
            yield number, digest

    def note(self, entry: Entry) -> None:
        """Record the newest entry. It is on the disk when this returns. For a block of `held`."""
        try:
            slots = self._slots() or []
            if len(slots) == 2:
                newest = self._newest(slots)
                line = _content(_Line(entry.number, entry.hash, newest.mark))
                self._write_over(1 if slots[0] == newest else 0, line)
                self.problem = None
            else:
                # One line from an earlier version.
                self._replace(entry.number, entry.hash)
        except OSError as error:
            self.problem = type(error).__name__
            raise LedgerError(
                f"{self.path}, which detects an old copy of the ledger, cannot be written ({self.problem}); "
                "what was charged stays charged, and no noise was drawn: make the file writable."
            ) from None

    def begin(self, entry: Entry) -> None:
        """Make the file, or replace one that is of no use. It is on the disk when this returns. For `locked`."""
        with self._file_errors("written"):
            self._replace(entry.number, entry.hash)

    def accept(self, entry: Entry) -> None:
        """Record the newest entry of a restored ledger, as `begin` does, after the entry was committed."""
        try:
            self._replace(entry.number, entry.hash)
        except OSError as error:
            self.problem = type(error).__name__
            raise LedgerError(
                f"{self.path}, which detects an old copy of the ledger, cannot be written ({self.problem}), so the "
                f"ledger is not restored yet; what was charged stays charged: make the file and its folder writable, "
                f"and run {self._command} again."
            ) from None

    def renew(self) -> None:
        """Write the present content into a new file, which shows whether charges could be witnessed now.

        The new file has a new mark. So a back-up of an earlier file is noticed when the back-up is restored.
        """
        self._is_started = False
        with self.held():
            pass

    def _read_known(self, handle: int) -> _Line:
        """Return the newest line of the open file. Raise for a copy, and for a file with two names."""
        status = os.fstat(handle)
        if status.st_nlink > 1:
            raise two_names(self.path)
        newest = self._newest(_slots(os.read(handle, 2 * _PLACE + 1)))
        if newest.mark and not _is_same_mark(newest.mark, _mark_of(handle)):
            raise self._unknown("is a copy, restored from a back-up or made by hand")
        return newest

    def _slots(self) -> list[_Line | None] | None:
        try:
            return _slots(file_bytes(self.path, links=True, largest=2 * _PLACE))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unreadable(type(error).__name__) from None

    def _newest(self, slots: list[_Line | None]) -> _Line:
        whole = [one for one in slots if one is not None]
        if not whole:
            raise self._unreadable("it is damaged")
        return max(whole)

    def _write_over(self, place: int, line: bytes) -> None:
        with self.path.open("r+b", buffering=0) as file:
            file.seek(place * _PLACE)
            file.write(line)
            # If the time of a change need not be stored, there is less to wait for.
            getattr(os, "fdatasync", os.fsync)(file.fileno())

    def _replace(self, number: int, digest: str) -> None:
        _replace_file(self.path, lambda handle: 2 * _content(_Line(number, digest, _mark_of(handle))))
        self.problem, self._is_started, self._began = None, True, _clock()

    @contextmanager
    def _file_errors(self, what: str) -> Iterator[None]:
        """Turn an error of the file into one sentence, before anything is charged."""
        try:
            yield
        except (OSError, TimeoutError) as error:
            self.problem = type(error).__name__
            raise LedgerError(
                f"{self.path}, which detects an old copy of the ledger, cannot be {what} ({self.problem}): make the "
                "file and its folder writable. Nothing was charged."
            ) from None

    @property
    def _command(self) -> str:
        return f"'dpensemble ledger restored {self._ledger} --checkpoint FILE'"

    def _unknown(self, why: str) -> UnknownLedgerError:
        return UnknownLedgerError(
            f"{self.path}, which knows the newest entry of the ledger, {why}: nobody knows what was released since "
            f"this copy of the ledger. Run {self._command} with the newest checkpoint that was stored elsewhere. "
            "Nothing is charged until then."
        )

    def _unreadable(self, why: str) -> LedgerError:
        return LedgerError(
            f"{self.path}, which detects an old copy of the ledger, cannot be read ({why}): make it readable, or move "
            f"it away and run {self._command}."
        )


# The mark of a file in a slot. Files of earlier versions have none.
_MARK = re.compile(r"(\d+/\d+)?")


class _Line(NamedTuple):
    """One slot: number and hash of an entry, and the mark of the file ("" in files of earlier versions)."""

    number: int
    hash: str
    mark: str


def _content(line: _Line) -> bytes:
    """Return the content of one slot: a line that is padded to the slot's length."""
    fields = {"number": line.number, "hash": line.hash, "check": _check(line.number, line.hash)}
    return (json.dumps(fields | ({"file": line.mark} if line.mark else {})).ljust(_PLACE - 1) + "\n").encode()


def _slots(content: bytes) -> list[_Line | None]:
    """Return the content of each slot, or None for a slot that was not completely written."""
    if len(content) != 2 * _PLACE:
        return [_parsed(content, checked=False)]
    return [_parsed(content[:_PLACE], checked=True), _parsed(content[_PLACE:], checked=True)]


def _parsed(line: bytes, *, checked: bool) -> _Line | None:
    try:
        fields = parse_json(line)
        number, digest, mark = int(fields["number"]), str(fields["hash"]), str(fields.get("file", ""))
        is_whole = not checked or fields["check"] == _check(number, digest)
        return _Line(number, digest, mark) if is_whole and _MARK.fullmatch(mark) else None
    except (ValueError, KeyError, TypeError, OverflowError):
        return None


def _check(number: int, digest: str) -> str:
    return hashlib.sha256(f"{number}:{digest}".encode()).hexdigest()[:16]


_FILE = "ledgers.json"


class KnownLedgers:
    """Remembers the id of the ledger in each place, in a file in the folder of the witness.

    A file's place is its path. A database's place is what the server states about itself, and the address.
    """

    def __init__(self, witness: str | Path | None) -> None:
        #: The folder of a ledger's files outside the database.
        self.folder = state_home() if witness is None else Path(witness).absolute().parent
        self.path = self.folder / _FILE

    def require(self, store: Store, ledger: str) -> None:
        """Raise if another ledger was charged in this place before."""
        places = self._read()
        for place in store.identities:
            if places.get(place, ledger) != ledger:
                raise self._replaced(store, places[place], f"ledger {ledger}")

    def require_fresh(self, store: Store) -> None:
        """Raise if any ledger was, or may have been, charged in this place before, under any address."""
        places = self._read()
        certain = {ledger for place, ledger in places.items() if store.is_certain(place)}
        for place, ledger in places.items():
            # Of a ledger whose server is known, only that server and the very same address count.
            is_counted = store.is_certain(place) or ledger not in certain
            if place in store.identities or (is_counted and store.may_be(place)):
                raise self._replaced(store, ledger, "a new ledger")

    def remember(self, store: Store, ledger: str) -> None:
        """Remember which ledger is in a place. The file is on the disk when this returns."""
        places = self._read()
        if all(places.get(place) == ledger for place in store.identities):
            return
        try:
            make_folder(self.path.parent, 0o700)
            with FileLock(f"{self.path}.lock", timeout=_PATIENCE):
                self.require(store, ledger)
                self._write(self._read() | dict.fromkeys(store.identities, ledger))
        except (OSError, TimeoutError) as error:
            raise self._unusable("written", type(error).__name__) from None

    def forget(self, store: Store, ledger: str) -> None:
        """Forget that a ledger was in a place. Raise if another ledger, or none, is remembered."""
        try:
            with FileLock(f"{self.path}.lock", timeout=_PATIENCE):
                places = self._read()
                gone = {
                    place
                    for place, one in places.items()
                    if one == ledger and (place in store.identities or store.may_be(place))
                }
                if not gone:
                    raise LedgerError(
                        f"id={ledger!r:.60} is not the ledger that is remembered in {store.place}: give its id."
                    )
                self._write({place: one for place, one in places.items() if place not in gone})
        except (OSError, TimeoutError) as error:
            raise self._unusable("written", type(error).__name__) from None

    def _replaced(self, store: Store, before: str, new: str) -> ReplacedLedgerError:
        usual = self.path.parent == state_home()
        witness = "" if usual else f" --witness {self.path.with_name(f'{before}.witness')}"
        return ReplacedLedgerError(
            f"{store.place} held ledger {before} before, and {new} in its place would not count what was spent: "
            f"restore the old ledger, or give it up for good by 'dpensemble ledger forget {store.place} --id {before}"
            f"{witness}'."
        )

    def _read(self) -> dict[str, str]:
        try:
            places = parse_json(file_bytes(self.path, links=True, largest=LARGEST_JSON))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise self._unusable("read", type(error).__name__) from None
        if not isinstance(places, dict):
            raise self._unusable("read", "it is damaged")
        return places

    def _write(self, places: dict[str, str]) -> None:
        _replace_file(self.path, lambda _: (json.dumps(places, indent=1, sort_keys=True) + "\n").encode())

    def _unusable(self, what: str, why: str) -> LedgerError:
        return LedgerError(
            f"{self.path}, which remembers the ledger of each place, cannot be {what} ({why}): repair or restore the "
            "file. No noise was drawn."
        )


class SigningKey:
    """An Ed25519 key in a file that only its owner can read."""

    def __init__(self, raw: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(raw)
        self._votes = hashlib.sha256(b"dpensemble votes" + raw).digest()
        self._sessions = hashlib.sha256(b"dpensemble sessions" + raw).digest()

    @classmethod
    def made(cls, path: Path) -> SigningKey:
        """Create a new key, and write it to a file."""
        key = Ed25519PrivateKey.generate()
        raw = key.private_bytes_raw()
        try:
            make_folder(path.parent, 0o700)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(raw.hex() + "\n")
                file.flush()
                os.fsync(file.fileno())
            sync_folder(path.parent)
        except OSError as error:
            raise LedgerError(
                f"the signing key {path} cannot be written ({error.strerror}): choose another path."
            ) from None
        return cls(raw)

    @classmethod
    def read(cls, path: Path) -> SigningKey:
        """Read a key from its file."""
        try:
            return cls(bytes.fromhex(path.read_text(encoding="ascii").strip()))
        except OSError as error:
            raise LedgerError(
                f"the signing key {path} cannot be read ({error.strerror}): restore the file that was made with the "
                "ledger, or give its path as signing_key."
            ) from None
        except ValueError:
            raise LedgerError(
                f"the signing key {path} is damaged: restore the file that was made with the ledger."
            ) from None

    @property
    def public(self) -> str:
        """The public key, in hexadecimal digits."""
        return self._key.public_key().public_bytes_raw().hex()

    def signed(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return a statement with its signature."""
        return fields | {"signature": self._key.sign(canonical(fields).encode()).hex()}

    @property
    def session_secret(self) -> bytes:
        """Return the secret with which services of this ledger sign page sessions. It reveals nothing about the key."""
        return self._sessions

    def hash_votes(self, payload: bytes) -> str:
        """Return a hash of votes that reveals nothing about them to anybody without the key."""
        return hmac.new(self._votes, payload, hashlib.sha256).hexdigest()

    def bound_votes(self, fields: list[Any]) -> str:
        """Return a hash of a request: its names, its total and the hash of its votes."""
        payload = json.dumps(fields, separators=(",", ":")).encode()
        # The mark in front distinguishes this hash from the first version's.
        return "2." + hmac.new(self._votes, b"request " + payload, hashlib.sha256).hexdigest()[2:]


def read_statement(path: Path) -> dict[str, Any]:
    """Read a signed statement from a file."""
    try:
        statement = parse_json(file_bytes(path, links=True, largest=LARGEST_JSON))
    except (OSError, ValueError) as error:
        raise LedgerError(
            f"{path} cannot be read as a checkpoint ({type(error).__name__}): give a file of 'dpensemble ledger "
            "checkpoint'."
        ) from None
    if not isinstance(statement, dict):
        raise LedgerError(f"{path} must be a checkpoint of a ledger: give a file of 'dpensemble ledger checkpoint'.")
    return statement


#: Number of entries between checkpoints.
_INTERVAL = 1000


class SignedStanding:
    """A file with a signed checkpoint that also contains the state of accounts and grants."""

    def __init__(self, path: Path, ledger: str, public_key: str) -> None:
        self.path, self._ledger, self._public_key = path, ledger, public_key
        self._number = 0

    def load(self) -> Standing:
        """Return the last signed standing, or the standing before the first entry if no checkpoint can be trusted."""
        if not self.path.exists():
            return Standing()
        try:
            fields = self.checked(read_statement(self.path))
        except LedgerError:
            # Then all entries are read, which takes longer and trusts nothing.
            return Standing()
        if fields.get("ledger") != self._ledger or "standing" not in fields:
            return Standing()
        standing = Standing.from_dict(fields["standing"])
        self._number = standing.number
        return standing

    def checked(self, statement: dict[str, Any]) -> dict[str, Any]:
        """Return the content of a signed statement. Raise if the ledger's key did not sign it."""
        fields = {name: value for name, value in statement.items() if name != "signature"}
        try:
            signature, public = bytes.fromhex(statement["signature"]), bytes.fromhex(self._public_key)
            Ed25519PublicKey.from_public_bytes(public).verify(signature, canonical(fields).encode())
        except (InvalidSignature, KeyError, TypeError, ValueError):
            raise LedgerError(
                "the checkpoint is not signed by the ledger's key: it belongs to another ledger, or was changed; give "
                "the right one."
            ) from None
        return fields

    def forget(self) -> None:
        """Remove the file, because it may be about entries that a restored copy lacks."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise LedgerError(
                f"the checkpoint {self.path} cannot be removed ({error.strerror}): remove the file, and try again."
            ) from None
        self._number = 0

    def save(self, standing: Standing, key: SigningKey) -> None:
        """Sign the ledger's standing if enough entries have been added since the last checkpoint."""
        if standing.number < self._number + _INTERVAL:
            return
        text = json.dumps(key.signed(standing.stated(self._ledger) | {"standing": standing.to_dict()}))
        try:
            _replace_file(self.path, lambda _: (text + "\n").encode())
        except OSError as error:
            raise LedgerError(
                f"the checkpoint {self.path} cannot be written ({error.strerror}): repair the folder, and try again."
            ) from None
        self._number = standing.number
