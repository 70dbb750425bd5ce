"""Who sends a request: API keys, tokens of an OpenID Connect provider, and sessions of the page.

Only hashes of API keys are stored. The provider signs tokens, and this service checks them. A session is a signed
cookie that names an API key.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import re
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from http.client import HTTPException
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import jwt
from filelock import FileLock
from starlette.requests import HTTPConnection

from dpensemble._checks import integer_between, member
from dpensemble._files import JSON, LARGEST_JSON, file_bytes, make_folder, parse_json
from dpensemble.errors import DPEnsembleError, FileError, InvalidParameterError, file_errors
from dpensemble.server.entries import look_alike
from dpensemble.workflow.disk import OWN_FILE, replace_file

# Prefix of every API key.
_PREFIX = "dpe_"
_HOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
_TOKEN = re.compile(_PREFIX + r"([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_ID, _DIGEST = re.compile(r"[0-9a-f]{12}"), re.compile(r"[0-9a-f]{64}")
_VERSION = 1
# Seconds to wait while others change the file.
_LOCK_PATIENCE = 60
# Compared with the secret of an unknown key, so that known and unknown keys take equally long.
_NOBODY = hashlib.sha256(b"nobody").hexdigest()


class Scope(StrEnum):
    """What a key allows."""

    READ = "read"
    PREDICT = "predict"
    METRICS = "metrics"
    MESSAGES = "messages"
    OWN = "own"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key as it is stored, with a hash of its secret, which is 256 random bits.

    Keys of one `holder` share requests, so a key can be replaced. Scopes are ``read`` (grants, quotes, budgets),
    ``predict``, ``metrics``, ``messages``, or ``own``: all of these, and checkpoints and history. With ``messages`` the
    holder is a site of a run with several sites. Without grants, the key covers all.
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


@dataclass(frozen=True, slots=True)
class KeyFile:
    """The file of API keys, which stores hashes of their secrets."""

    path: Path

    def read(self) -> dict[str, ApiKey]:
        """Return the keys by id."""
        try:
            with _reading(self.path):
                content = parse_json(file_bytes(self.path, links=True, largest=LARGEST_JSON))
            if content["version"] != _VERSION:
                raise ValueError
            keys = {one.id: one for one in map(_stored_key, content["keys"])}
            if len(keys) < len(content["keys"]):
                raise ValueError
        except (ValueError, KeyError, TypeError):
            raise FileError(f"{self.path} must be a file of keys of version {_VERSION}: create a new one.") from None
        return keys

    def create(
        self, holder: str, scopes: Sequence[str], grants: Sequence[str] = (), days: int | None = None
    ) -> tuple[ApiKey, str]:
        """Add a new key, and return the stored key and the token. The token is stored nowhere."""
        if not isinstance(holder, str) or not _HOLDER.fullmatch(holder):
            raise InvalidParameterError(
                f"holder must be 1 to 40 letters, digits, '.', '_' and '-'; got {holder!r:.60}.", parameter="holder"
            )
        if not scopes:
            raise InvalidParameterError(f"a key requires a scope: give one of {', '.join(Scope)}.", parameter="scope")
        scope_names = tuple(sorted({member("scope", one, Scope).value for one in scopes}))
        today = datetime.now(UTC).date()
        expires = (
            None if days is None else (today + timedelta(days=integer_between("days", days, 1, 36_500))).isoformat()
        )
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
        with _alone(self.path):
            keys = self.read() if self.path.exists() else {}
            other = look_alike(holder, [one.holder for one in keys.values()])
            if other is not None and holder not in {one.holder for one in keys.values()}:
                raise InvalidParameterError(
                    f"holder={holder!r:.60} looks like {other!r:.60}, who has a key already: use that name, or one "
                    "that cannot be confused with it.",
                    parameter="holder",
                )
            _write(self.path, [*keys.values(), key])
        return key, f"{_PREFIX}{key.id}_{secret}"

    def revoke(self, ident: str) -> ApiKey:
        """Remove a key, and return it."""
        # Read once before locking, so that no lock file is left beside a missing file.
        self.read()
        with _alone(self.path):
            keys = self.read()
            if ident not in keys:
                raise InvalidParameterError(
                    f"id must be a key of {self.path}: {', '.join(keys) or 'none'}; got {ident!r:.60}."
                )
            key = keys.pop(ident)
            _write(self.path, list(keys.values()))
        return replace(key, expires=datetime.now(UTC).date().isoformat())


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
                    self._keys, self._stamp = KeyFile(self._path).read(), stamp
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


def _stored_key(stored: Mapping[str, JSON]) -> ApiKey:
    """Return a key with the entries of a file. Raise if an entry has another form than `KeyFile.create` writes."""
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


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Lock a file of keys against other threads and processes between reading and writing it."""
    try:
        make_folder(path.parent)
        # Resolve links, as writing the file does.
        lock = FileLock(f"{os.path.realpath(path)}.lock", timeout=_LOCK_PATIENCE)
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


# Only signatures with a private key: with "none" or a shared secret, anybody who knows the public key could sign.
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_NEEDED = ["exp", "iat", "iss", "aud", "sub"]
# Seconds that clocks may differ, that keys are cached, that a provider has to answer, and between two searches for an
# unknown key. Without the last limit, a sender of tokens could cause endless searches.
_LEEWAY, _LIFESPAN, _PATIENCE, _COOLDOWN = 30, 300, 5, 30
# Seconds after a fetch that failed, within which the provider is not asked again.
_BRIEFLY = 5
# Most fetches that hang for good, because the provider sends its answer byte by byte.
_HUNG = 4
_LONGEST = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """An identity provider, and which of its tokens are accepted.

    `issuer` and `audience` must equal ``iss`` and ``aud`` of a token exactly. `jwks_url` is the address of the
    provider's public keys (``jwks_uri`` of its openid-configuration): HTTPS, or this machine. `prefix` precedes this
    service's scopes in ``scope``: a token with "dpensemble:read" may read. `grants_claim` is a claim with a list of the
    grants that a token covers. Without `grants_claim`, tokens cover all grants.
    """

    issuer: str
    audience: str
    jwks_url: str
    prefix: str = "dpensemble:"
    grants_claim: str | None = None

    def __post_init__(self) -> None:
        address = urlsplit(self.jwks_url)
        is_here = address.scheme == "http" and address.hostname in ("localhost", "127.0.0.1")
        if address.scheme != "https" and not is_here:
            raise InvalidParameterError(
                f"oidc: jwks_url must be an https address, because others could replace the keys on their way; got "
                f"{self.jwks_url!r:.80}."
            )
        for name, value in (("issuer", self.issuer), ("audience", self.audience)):
            if not value:
                raise InvalidParameterError(
                    f"oidc: {name} is empty; give the issuer and the audience of accepted tokens."
                )


class _ProviderKeys:
    """The public keys of a provider by name, fetched in a thread apart, one fetch at a time.

    `get` returns all keys from the provider. `clock` returns seconds.
    """

    def __init__(self, get: Callable[[], list[jwt.PyJWK]], clock: Callable[[], float] = time.monotonic) -> None:
        self._get, self._clock = get, clock
        self._lock = threading.Lock()
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetch: Future[None] | None = None
        self._hung = 0
        self._is_away = False
        # Until when keys are good, when the present fetch is given up, and when the next fetch may begin.
        self._good = self._late = self._next = float("-inf")

    def find(self, name: str) -> jwt.PyJWK:
        """Return a key. Nothing is fetched.

        Raises
        ------
        jwt.PyJWTError
            If the provider has no such key.
        DPEnsembleError
            If the provider does not answer, so that nobody knows.
        """
        with self._lock:
            is_good = self._clock() < self._good
            if is_good and name in self._keys:
                return self._keys[name]
            if not is_good or self._is_away:
                raise DPEnsembleError("the OpenID Connect provider does not return its keys now: try again later.")
        raise jwt.InvalidKeyError

    def fetch_for(self, name: str) -> Future[None] | None:
        """Return the fetch that must end before a key can be found, or None if there is nothing to wait for."""
        with self._lock:
            now = self._clock()
            if now < self._good and name in self._keys:
                return None
            if self._fetch is not None and not self._fetch.done() and now < self._late:
                return self._fetch
            if now < self._next or self._hung >= _HUNG:
                return None
            # A fetch that hangs counts as failed from its deadline on.
            self._late, self._next = now + _PATIENCE, now + _PATIENCE + _BRIEFLY
            self._fetch, self._is_away = Future(), True
            self._hung += 1
            threading.Thread(target=self._fetched, args=(self._fetch,), name="dpensemble provider", daemon=True).start()
            return self._fetch

    def _fetched(self, fetch: Future[None]) -> None:
        keys: list[jwt.PyJWK] = []
        try:
            keys = self._get()
        # The provider may be away, or return anything, and then there are no keys.
        except (jwt.PyJWTError, ValueError, TypeError, OSError, HTTPException):
            pass
        finally:
            with self._lock:
                self._hung -= 1
                # A fetch that was given up may return old keys.
                if fetch is self._fetch:
                    self._note({str(key.key_id): key for key in keys})
            fetch.set_result(None)

    def _note(self, keys: dict[str, jwt.PyJWK]) -> None:
        now, self._is_away = self._clock(), not keys
        self._next = now + (_COOLDOWN if keys else _BRIEFLY)
        if keys:
            self._keys, self._good = keys, now + _LIFESPAN


class Provider:
    """Finds the sender of a token.

    Raises if the provider is on this machine, but the environment names a proxy that would be asked for its keys.
    """

    def __init__(self, settings: OidcSettings) -> None:
        _require_direct(settings.jwks_url)
        self._settings = settings
        client = jwt.PyJWKClient(settings.jwks_url, cache_jwk_set=False, timeout=_PATIENCE)
        self._keys = _ProviderKeys(client.get_signing_keys)

    async def keys_for(self, token: str) -> None:
        """Wait, for a limited time and without a thread, until the provider's keys are there or known to be away."""
        try:
            fetch = self._keys.fetch_for(_key_name(token))
        except jwt.PyJWTError:
            return
        if fetch is not None:
            await asyncio.wait([asyncio.wrap_future(fetch)], timeout=_PATIENCE)

    def of(self, token: str) -> ApiKey | None:
        """Return the sender and scopes of a token as an API key, or None if the token is not valid.

        Asks no provider: see `keys_for`. Raises `DPEnsembleError` if the provider's keys are not known now.
        """
        try:
            # The provider's key, before any other part of the token is read.
            key = self._keys.find(_key_name(token))
            claims = jwt.decode(
                token,
                key,
                algorithms=list(_ALGORITHMS),
                issuer=self._settings.issuer,
                audience=self._settings.audience,
                leeway=_LEEWAY,
                options={"require": _NEEDED},
            )
        # Malformed numbers, and keys that do not fit their algorithm, raise errors of Python's own.
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError):
            return None
        return self._holder(claims)

    def _holder(self, claims: dict[str, Any]) -> ApiKey | None:
        scopes, grants = self._scopes(claims), self._grants(claims)
        # All senders with an empty name would be one holder, and would share their answers.
        if grants is None or not isinstance(claims["sub"], str) or not claims["sub"].strip():
            return None
        name = hashlib.sha256(f"{len(claims['iss'])}:{claims['iss']}{claims['sub']}".encode()).hexdigest()[:32]
        # No holder of an API key can have such a name, and it reveals nobody's name in a log or a ledger.
        return ApiKey(id=f"oidc!{name}", holder=f"oidc!{name}", scopes=scopes, grants=grants, sha256="", created="")

    def _scopes(self, claims: dict[str, Any]) -> tuple[str, ...]:
        scope_text = claims.get("scope", "")
        words = scope_text.split() if isinstance(scope_text, str) else []
        return tuple(scope.value for scope in Scope if self._settings.prefix + scope.value in words)

    def _grants(self, claims: dict[str, Any]) -> tuple[str, ...] | None:
        """Return the grants of a token, () for all grants, or None if a required claim is missing."""
        if self._settings.grants_claim is None:
            return ()
        names = claims.get(self._settings.grants_claim)
        if not isinstance(names, list) or not names or not all(isinstance(one, str) for one in names):
            return None
        return tuple(names)


def _key_name(token: str) -> str:
    """Return the name of the key that signed a token, as the token states it, or raise."""
    if len(token) > _LONGEST:
        raise jwt.InvalidTokenError
    try:
        header = jwt.get_unverified_header(token)
    except (ValueError, TypeError, RecursionError):
        raise jwt.InvalidTokenError from None
    name = header.get("kid")
    if header.get("alg") not in _ALGORITHMS or not isinstance(name, str):
        raise jwt.InvalidTokenError
    return name


def _require_direct(address: str) -> None:
    """Raise if a proxy would be asked over plain HTTP for the keys of a provider on this machine."""
    parts = urlsplit(address)
    if parts.scheme == "http" and "http" in getproxies() and not proxy_bypass(parts.netloc):
        raise InvalidParameterError(
            f"oidc: jwks_url={address!r:.80} would be requested through the proxy of http_proxy, which could replace "
            f"the keys; set no_proxy={parts.hostname}."
        )


_HOURS = 8


class Sessions:
    """Signs and reads sessions, which several services can share. Only sessions that were ended here are stored.

    A session ends with its key in `ring`. Only services of one ledger know `secret`.
    """

    #: Name of the cookie.
    COOKIE: ClassVar[str] = "dpensemble"

    def __init__(self, ring: KeyRing, secret: bytes) -> None:
        self._ring, self._secret = ring, secret
        self._lock = threading.Lock()
        self._ended: dict[str, int] = {}

    def begin(self, key: ApiKey) -> str:
        """Return a cookie for the sender of a key."""
        # A random part, so that ending one session does not end another of the same second.
        session = f"{key.id}.{int(time.time()) + _HOURS * 3600}.{secrets.token_hex(8)}"
        return f"{session}.{self._sign('session', session, key.sha256)}"

    def of(self, cookie: str) -> ApiKey | None:
        """Return the key of a cookie, or None if the cookie is invalid, too old or ended, or the key is gone."""
        parts = cookie.split(".")
        if (
            len(parts) != 4
            or cookie in self._ended
            or not (parts[1].isdecimal() and parts[1].isascii() and len(parts[1]) < 12)
        ):
            return None
        key = self._ring.keys().get(parts[0])
        signed = self._sign("session", ".".join(parts[:3]), "" if key is None else key.sha256)
        right = hmac.compare_digest(signed.encode(), parts[3].encode())
        return key if key is not None and right and time.time() < int(parts[1]) and not key.is_expired else None

    def end(self, cookie: str) -> None:
        """Accept a cookie no more. This service remembers that until the cookie would be too old anyway."""
        if self.of(cookie) is None:
            return
        with self._lock:
            now = time.time()
            self._ended = {one: until for one, until in self._ended.items() if until > now}
            self._ended[cookie] = int(cookie.split(".")[1])

    def form_token(self, cookie: str) -> str:
        """Return the token that a form of this session must contain."""
        return self._sign("form", cookie, "")

    def is_own_form(self, cookie: str, token: str) -> bool:
        """Return whether a form was made for this session."""
        return hmac.compare_digest(self.form_token(cookie).encode(), token.encode())

    def _sign(self, what: str, content: str, more: str) -> str:
        return hmac.new(self._secret, f"{what}\n{content}\n{more}".encode(), hashlib.sha256).hexdigest()


class SignIn:
    """Finds the sender of a request, by an API key, a token of the provider, or a session of the page.

    `in_thread` does work that an unknown sender causes. Only services of one ledger know `secret`.
    """

    def __init__(
        self,
        keys: Path,
        secret: bytes,
        oidc: OidcSettings | None,
        in_thread: Callable[[Callable[[], ApiKey | None]], Awaitable[ApiKey | None]],
    ) -> None:
        self.ring = KeyRing(keys)
        self.sessions = Sessions(self.ring, secret)
        self.provider = None if oidc is None else Provider(oidc)
        self._in_thread = in_thread

    async def key_of_token(self, token: str) -> ApiKey | None:
        """Return the sender of an API key or of a provider's token, or None if it is invalid or expired.

        An API key takes no thread, so a key never waits for tokens, for their provider or for unknown senders.
        """
        provider = self.provider
        if provider is None or token.startswith(_PREFIX):
            return self.ring.of(token)
        await provider.keys_for(token)
        return await self._in_thread(lambda: provider.of(token))

    async def holder_of_request(self, scope: Mapping[str, Any]) -> str | None:
        """Return the holder of the key, token or session in the headers of a request, or None."""
        asking = HTTPConnection(dict(scope))
        kind, _, token = asking.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            key = await self.key_of_token(token.strip())
        else:
            key = self.sessions.of(asking.cookies.get(Sessions.COOKIE, ""))
        return None if key is None else key.holder
