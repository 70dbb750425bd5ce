"""The ledger's signing key, and signed checkpoints, so that a start need not read all entries first.

A checkpoint states the newest entry, and is stored elsewhere, or beside the ledger with the balances of that entry.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dpensemble._files import LARGEST_JSON, file_bytes, make_folder, parse_json, sync_folder
from dpensemble.errors import LedgerError
from dpensemble.server.balances import Fields, Standing, canonical
from dpensemble.server.names import now
from dpensemble.server.witness import replace_file


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

    def signed(self, fields: Fields) -> Fields:
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


def checked(statement: Fields, public: str) -> Fields:
    """Return the content of a signed statement. Raise if the key did not sign it."""
    fields = {name: value for name, value in statement.items() if name != "signature"}
    try:
        signature = bytes.fromhex(statement["signature"])
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(signature, canonical(fields).encode())
    except (InvalidSignature, KeyError, TypeError, ValueError):
        raise LedgerError(
            "the checkpoint is not signed by the ledger's key: it belongs to another ledger, or was changed; give the "
            "right one."
        ) from None
    return fields


def read_statement(path: Path) -> Fields:
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
            fields = checked(read_statement(self.path), self._public_key)
        except LedgerError:
            # Then all entries are read, which takes longer and trusts nothing.
            return Standing()
        if fields.get("ledger") != self._ledger or "standing" not in fields:
            return Standing()
        standing = Standing.from_dict(fields["standing"])
        self._number = standing.number
        return standing

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
        fields = {"ledger": self._ledger, "number": standing.number, "hash": standing.hash, "time": now()}
        text = json.dumps(key.signed(fields | {"standing": standing.to_dict()}))
        try:
            replace_file(self.path, lambda _: (text + "\n").encode())
        except OSError as error:
            raise LedgerError(
                f"the checkpoint {self.path} cannot be written ({error.strerror}): repair the folder, and try again."
            ) from None
        self._number = standing.number
