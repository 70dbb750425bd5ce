"""The ledger's signing key, and signed statements about the newest entry, to be stored elsewhere."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dpensemble._folders import make_folder, sync_folder
from dpensemble._untrusted import LARGEST_JSON, file_bytes, parse_json
from dpensemble.errors import LedgerError
from dpensemble.ledger.chain import Fields, canonical


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
