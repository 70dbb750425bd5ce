"""Signed messages between sites and coordinator, and the folder that carries them.

A message is hostile until its signature is verified. Its file has a bounded size, strict JSON and exactly the expected
entries. A file that is damaged, or signed by somebody else, counts as missing, and `Post.problems` states why. A second
message of a party for the same purpose raises an error, since nobody sends two.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from dpensemble._files import JSON, UnfitJSONError, file_bytes, parse_json
from dpensemble.errors import DPEnsembleError, FileError, InvalidParameterError, file_errors
from dpensemble.workflow.disk import replace_shared_file

_FORMAT, _VERSION = "dpensemble sites", 1
_ENTRIES = {"format", "version", "run", "kind", "from", "attempt", "number", "body", "signature"}
#: Kinds of messages, and the most bytes of each.
KINDS = {
    "terms": 2**20,
    "join": 2**16,
    "approve": 2**16,
    "start": 2**20,
    "key": 2**16,
    "agree": 2**16,
    "sum": 2**26,
    "opened": 2**26,
    "lost": 2**16,
}
#: Most bytes of the file of public rows.
MOST_PUBLIC_BYTES = 2**28


class SitesError(DPEnsembleError, RuntimeError):
    """The sites cannot go on. The sentence states what happened, and what stays charged."""


class StillWaiting(SitesError):  # noqa: N818 - nothing failed
    """Another party must act first. Calling the same method again goes on."""


class Transport(Protocol):
    """Carries named messages between all parties. It may lose, delay, repeat, change or invent them."""

    def put(self, name: str, content: bytes) -> None:
        """Send a message."""

    def get(self, name: str, largest: int) -> bytes | None:
        """Return a message that arrived, or None. Raise OSError if it cannot be read or is larger than allowed."""


class Folder:
    """A folder that all parties see, or of which people carry the files."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def put(self, name: str, content: bytes) -> None:
        """Write a file in one step."""
        with file_errors(lambda reason: f"the message {name} cannot be written ({reason}): free the folder."):
            # A link or a special file in the place of a message is not followed: others may write to this folder.
            replace_shared_file(self.path / name, content)

    def get(self, name: str, largest: int) -> bytes | None:
        """Return the content of a file, or None if it is missing."""
        try:
            return file_bytes(self.path / name, largest=largest)
        except FileNotFoundError:
            return None


def arrived(transport: Transport, name: str, largest: int) -> bytes | None:
    """Return a message that arrived, or None. One that cannot be read raises a sentence, for messages with own keys."""
    with file_errors(lambda reason: f"the message {name} cannot be read ({reason}): get the file again."):
        return transport.get(name, largest)


def canonical(value: JSON) -> bytes:
    """Return the only JSON text of a value, in bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def digest(value: JSON) -> str:
    """Return the SHA-256 of a value's only JSON text."""
    return hashlib.sha256(canonical(value)).hexdigest()


def require_cryptography() -> None:
    """Raise an error that states what to install, if the package of ciphers is missing."""
    try:
        import cryptography  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise InvalidParameterError(
            "runs of several sites need the package cryptography: pip install 'dpensemble[sites]'."
        ) from None


class SigningKey:
    """The long-term key of a party, in a file for its owner only.

    Attributes
    ----------
    public : bytes
        The public key.
    """

    def __init__(self, secret: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415

        self._key = Ed25519PrivateKey.from_private_bytes(secret)
        self.public = self._key.public_key().public_bytes_raw()

    @staticmethod
    def new_secret() -> bytes:
        """Return the bytes of a new key."""
        return os.urandom(32)

    def sign(self, content: bytes) -> bytes:
        """Return the signature of bytes."""
        return self._key.sign(content)


def fingerprint(public: bytes) -> str:
    """Return 32 hexadecimal digits in groups of four, which people compare by telephone."""
    digits = hashlib.sha256(b"dpensemble sites key" + public).hexdigest()[:32]
    return "-".join(digits[place : place + 4] for place in range(0, 32, 4))


def _is_signed(public: bytes, signature: bytes, content: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, content)
    except (InvalidSignature, ValueError):
        return False
    return True


class Post:
    """Sends a party's signed messages, and returns those of others.

    Attributes
    ----------
    keys : dict of str to bytes
        Public keys of all parties that are known. Messages of others are not read.
    problems : dict of str to str
        What is wrong with files that cannot be read, by their names.
    """

    def __init__(self, transport: Transport, run: str, name: str, key: SigningKey) -> None:
        self.transport, self.run, self.name = transport, run, name
        self._key = key
        self.keys: dict[str, bytes] = {name: key.public}
        self.problems: dict[str, str] = {}
        self._read: dict[str, tuple[str, JSON]] = {}

    def send(self, kind: str, body: JSON, attempt: int = 0, number: int = 0) -> str:
        """Sign and send a message. Return its digest."""
        message = {
            "format": _FORMAT,
            "version": _VERSION,
            "run": self.run,
            "kind": kind,
            "from": self.name,
            "attempt": attempt,
            "number": number,
            "body": body,
        }
        signature = self._key.sign(_signed_part(message))
        self.transport.put(
            file_name(kind, self.name, attempt, number), canonical(message | {"signature": signature.hex()})
        )
        return digest(message)

    def read(self, kind: str, sender: str, attempt: int = 0, number: int = 0) -> tuple[JSON, str] | None:
        """Return the body and the digest of a message whose signature is right, or None.

        Raises
        ------
        SitesError
            If its sender signed another message for the same purpose before.
        """
        name = file_name(kind, sender, attempt, number)
        message = self._verified(name, kind, sender, attempt, number)
        known = self._read.get(name)
        if message is None:
            return None if known is None else (known[1], known[0])
        own_digest = digest(message)
        if known is not None and known[0] != own_digest:
            raise SitesError(
                f"{sender} signed two different messages {name!r}, so one of the two was meant to deceive: what was "
                "drawn stays charged, and nothing more is sent in this attempt."
            )
        self._read[name] = own_digest, message["body"]
        return message["body"], own_digest

    def _verified(self, name: str, kind: str, sender: str, attempt: int, number: int) -> JSON:
        """Return a message with the right signature, or None."""
        if sender not in self.keys:
            return None
        try:
            content = self.transport.get(name, KINDS[kind])
        except OSError as error:
            return self._problem(name, error.strerror or "it cannot be read")
        if content is None:
            self.problems.pop(name, None)
            return None
        message = parsed(content)
        purpose = (self.run, kind, sender, attempt, number)
        why = "it is not a message of this program" if message is None else self._fault(message, purpose)
        if why:
            return self._problem(name, why)
        self.problems.pop(name, None)
        return message

    def _fault(self, message: dict[str, JSON], purpose: tuple[JSON, ...]) -> str:
        """Return what is wrong with a message, and leave out its signature. The text is empty if nothing is."""
        sender = purpose[2]
        if not _is_signed(self.keys[sender], message.pop("signature"), _signed_part(message)):
            return f"it is not signed by {sender}"
        stated = tuple(message[name] for name in ("run", "kind", "from", "attempt", "number"))
        return "" if stated == purpose else "it was signed for another run, attempt or purpose"

    def _problem(self, name: str, why: str) -> None:
        self.problems[name] = f"the file {name} counts as missing, because {why}"


def file_name(kind: str, sender: str, attempt: int = 0, number: int = 0) -> str:
    """Return the name of the file of a message."""
    return f"{kind}.{sender}.{attempt}.{number}.json"


def _signed_part(message: dict[str, JSON]) -> bytes:
    return b"dpensemble sites message\0" + canonical(message)


def parsed(content: bytes) -> JSON:
    """Return a message whose entries have the right types, with the signature in bytes, or None."""
    try:
        message = parse_json(content)
        if not isinstance(message, dict) or set(message) != _ENTRIES:
            return None
        if message["format"] != _FORMAT or message["version"] != _VERSION or message["version"] is True:
            return None
        texts = (message["run"], message["kind"], message["from"], message["signature"])
        counts = (message["attempt"], message["number"])
        if not all(isinstance(text, str) for text in texts) or not all(_is_whole(count) for count in counts):
            return None
        canonical(message)
        message["signature"] = bytes.fromhex(message["signature"])
    except (UnfitJSONError, ValueError, RecursionError):
        return None
    return message


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def first_of(content: bytes | None, kind: str, key_in: Callable[[JSON], bytes], sender: str) -> tuple[JSON, bytes, str]:
    """Return body, public key and run of a message that states its own key, or raise.

    Such a message proves nothing about who sent it. People compare the key's fingerprint.
    """
    message = None if content is None else parsed(content)
    if message is None:
        raise FileError(f"the {kind} message of {sender} is missing or damaged: get the file from {sender} again.")
    signature = message.pop("signature")
    try:
        public = key_in(message["body"])
    except (KeyError, TypeError, ValueError):
        public = b""
    known = (message["kind"], message["from"], message["attempt"], message["number"]) == (kind, sender, 0, 0)
    if len(public) != 32 or not known or not _is_signed(public, signature, _signed_part(message)):
        raise FileError(f"the {kind} message of {sender} has a wrong signature: get the file from {sender} again.")
    return message["body"], public, message["run"]


def public_file(transport: Transport, name: str) -> bytes:
    """Return the file of public rows."""
    content = arrived(transport, name, MOST_PUBLIC_BYTES)
    if content is None:
        raise FileError(f"the file {name} is missing: get the file from the coordinator.")
    return content
