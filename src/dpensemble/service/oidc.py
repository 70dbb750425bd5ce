"""Tokens of an OpenID Connect provider, besides API keys. The provider signs them, and this service checks them."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import jwt

from dpensemble.errors import DPEnsembleError, InvalidParameterError
from dpensemble.service.keys import ApiKey, Scope

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


class ProviderKeys:
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
        self._keys = ProviderKeys(client.get_signing_keys)

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
