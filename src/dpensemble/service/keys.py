"""API keys, their scopes and grants. Only hashes of the keys are stored."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from pathlib import Path

from filelock import FileLock

from dpensemble._checks import integer_between, member
from dpensemble._folders import make_folder
from dpensemble._untrusted import JSON, LARGEST_JSON, file_bytes, parse_json
from dpensemble.errors import FileError, InvalidParameterError, file_errors
from dpensemble.ledger.names import look_alike
from dpensemble.workflow.durable import OWN_FILE, replace_file

#: Prefix of every API key.
PREFIX = "dpe_"
_HOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
_TOKEN = re.compile(PREFIX + r"([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_ID, _DIGEST = re.compile(r"[0-9a-f]{12}"), re.compile(r"[0-9a-f]{64}")
_VERSION = 1
# Seconds to wait while others change the file.
_PATIENCE = 60
# Compared with the secret of an unknown key, so that known and unknown keys take equally long.
_NOBODY = hashlib.sha256(b"nobody").hexdigest()


class Scope(StrEnum):
    """What a key allows."""

    READ = "read"
    PREDICT = "predict"
    METRICS = "metrics"
    OWN = "own"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key as it is stored, with a hash of its secret, which is 256 random bits.

    Keys of one `holder` share requests, so a key can be replaced. Scopes are ``read`` (grants, quotes, budgets),
    ``predict``, ``metrics``, or ``own``: all of these, and checkpoints and history. Without grants, the key covers all.
    """

    id: str
    holder: str
    scopes: tuple[str, ...]
    grants: tuple[str, ...] = ()
    sha256: str
    created: str
    expires: str | None = None

    def may(self, scope: Scope) -> bool:
        """Return whether the key has a scope."""
        return Scope.OWN in self.scopes or scope in self.scopes

    def covers(self, grant: str) -> bool:
        """Return whether the key covers a grant."""
        return not self.grants or grant in self.grants

    @property
    def may_see_all(self) -> bool:
        """Whether the key is an owner's and covers all grants."""
        return self.may(Scope.OWN) and not self.grants

    @property
    def is_expired(self) -> bool:
        """Whether the last day of the key is over."""
        return self.expires is not None and datetime.now(UTC).date().isoformat() > self.expires


class KeyRing:
    """The keys in a file, which is read again when it changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._stamp: tuple[int, int, int] | None = None
        self._keys: dict[str, ApiKey] = {}
        self.keys()

    def keys(self) -> dict[str, ApiKey]:
        """Return the keys by id."""
        with self._lock:
            with _reading(self._path):
                stat = self._path.stat()
                stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
                if stamp != self._stamp:
                    self._keys, self._stamp = read_keys(self._path), stamp
            return self._keys

    def of(self, token: str) -> ApiKey | None:
        """Return the key with this secret, or None if there is none or it has expired."""
        parts = _TOKEN.fullmatch(token)
        key = None if parts is None else self.keys().get(parts[1])
        digest = hashlib.sha256((parts[2] if parts else "").encode()).hexdigest()
        same = hmac.compare_digest(digest, _NOBODY if key is None else key.sha256)
        return key if key is not None and same and not key.is_expired else None


def _reading(path: Path) -> AbstractContextManager[None]:
    return file_errors(
        lambda reason: f"the file of keys {path} cannot be read ({reason}): create it with 'dpensemble keys create'."
    )


def read_keys(path: Path) -> dict[str, ApiKey]:
    """Return the keys of a file by id."""
    try:
        with _reading(path):
            content = parse_json(file_bytes(path, links=True, largest=LARGEST_JSON))
        if content["version"] != _VERSION:
            raise ValueError
        keys = {one.id: one for one in map(_stored_key, content["keys"])}
        if len(keys) < len(content["keys"]):
            raise ValueError
    except (ValueError, KeyError, TypeError):
        raise FileError(f"{path} must be a file of keys of version {_VERSION}: create a new one.") from None
    return keys


def _stored_key(stored: Mapping[str, JSON]) -> ApiKey:
    """Return a key with the entries of a file. Raise if an entry has another form than `create_key` writes."""
    # An empty text in the place of a list would cover all grants.
    lists = {name: tuple(stored[name]) for name in ("scopes", "grants") if isinstance(stored[name], list)}
    key = ApiKey(**{**stored, **lists})
    expires = "" if key.expires is None else key.expires
    texts = (key.holder, key.created, expires, *key.scopes, *key.grants)
    if len(lists) < 2 or not all(isinstance(one, str) and one.isprintable() for one in texts):
        raise ValueError
    if not _ID.fullmatch(key.id) or not _DIGEST.fullmatch(key.sha256) or not set(key.scopes) <= set(Scope):
        raise ValueError
    # Dates are compared as texts.
    if expires and date.fromisoformat(expires).isoformat() != expires:
        raise ValueError
    return key


def create_key(
    path: Path, holder: str, scopes: Sequence[str], grants: Sequence[str] = (), days: int | None = None
) -> tuple[ApiKey, str]:
    """Add a new key to a file, and return the stored key and the token. The token is stored nowhere."""
    if not isinstance(holder, str) or not _HOLDER.fullmatch(holder):
        raise InvalidParameterError(
            f"holder must be 1 to 40 letters, digits, '.', '_' and '-'; got {holder!r:.60}.", parameter="holder"
        )
    if not scopes:
        raise InvalidParameterError(f"a key requires a scope: give one of {', '.join(Scope)}.", parameter="scope")
    scope_names = tuple(sorted({member("scope", one, Scope).value for one in scopes}))
    today = datetime.now(UTC).date()
    expires = None if days is None else (today + timedelta(days=integer_between("days", days, 1, 36_500))).isoformat()
    secret = secrets.token_urlsafe(32)
    key = ApiKey(
        id=secrets.token_hex(6),
        holder=holder,
        scopes=scope_names,
        grants=tuple(grants),
        sha256=hashlib.sha256(secret.encode()).hexdigest(),
        created=today.isoformat(),
        expires=expires,
    )
    with _alone(path):
        keys = read_keys(path) if path.exists() else {}
        other = look_alike(holder, [one.holder for one in keys.values()])
        if other is not None and holder not in {one.holder for one in keys.values()}:
            raise InvalidParameterError(
                f"holder={holder!r:.60} looks like {other!r:.60}, who has a key already: use that name, or one that "
                "cannot be confused with it.",
                parameter="holder",
            )
        _write(path, [*keys.values(), key])
    return key, f"{PREFIX}{key.id}_{secret}"


def revoke_key(path: Path, ident: str) -> ApiKey:
    """Remove a key from a file."""
    # Read once before locking, so that no lock file is left beside a missing file.
    read_keys(path)
    with _alone(path):
        keys = read_keys(path)
        if ident not in keys:
            raise InvalidParameterError(f"id must be a key of {path}: {', '.join(keys) or 'none'}; got {ident!r:.60}.")
        key = keys.pop(ident)
        _write(path, list(keys.values()))
    return replace(key, expires=datetime.now(UTC).date().isoformat())


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Lock a file of keys against other threads and processes between reading and writing it."""
    try:
        make_folder(path.parent)
        # Resolve links, as writing the file does.
        lock = FileLock(f"{os.path.realpath(path)}.lock", timeout=_PATIENCE)
        lock.acquire()
    except (OSError, TimeoutError) as error:
        raise FileError(f"the file of keys {path} cannot be locked ({type(error).__name__}): try again.") from None
    try:
        yield
    finally:
        lock.release()


def _write(path: Path, keys: Sequence[ApiKey]) -> None:
    text = json.dumps({"version": _VERSION, "keys": [asdict(one) for one in keys]}, indent=1)
    with file_errors(lambda reason: f"the file of keys {path} cannot be written ({reason}): choose another file."):
        replace_file(path, text + "\n", OWN_FILE)
