"""Tokens of an OpenID Connect provider, besides API keys. The provider signs them, and this service checks them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
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


class Provider:
    """Finds the sender of a token.

    Raises if the provider is on this machine, but the environment names a proxy that would be asked for its keys.
    """

    def __init__(self, settings: OidcSettings) -> None:
        _require_direct(settings.jwks_url)
        self._settings = settings
        self._keys = jwt.PyJWKClient(
            settings.jwks_url, lifespan=_LIFESPAN, timeout=_PATIENCE, cooldown_duration=_COOLDOWN
        )

    def of(self, token: str) -> ApiKey | None:
        """Return the sender and scopes of a token as an API key, or None if the token is not valid."""
        try:
            key = self._key_of(token)
            claims = jwt.decode(
                token,
                key,
                algorithms=list(_ALGORITHMS),
                issuer=self._settings.issuer,
                audience=self._settings.audience,
                leeway=_LEEWAY,
                options={"require": _NEEDED},
            )
        except jwt.PyJWKClientConnectionError:
            raise DPEnsembleError(
                "the OpenID Connect provider does not return its keys now: try again later."
            ) from None
        # Malformed numbers, and keys that do not fit their algorithm, raise errors of Python's own.
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError):
            return None
        return self._holder(claims)

    def _key_of(self, token: str) -> jwt.PyJWK:
        """Return the provider's key that a token names, before any other part of the token is read."""
        if len(token) > _LONGEST:
            raise jwt.InvalidTokenError
        header = jwt.get_unverified_header(token)
        if header.get("alg") not in _ALGORITHMS or not isinstance(header.get("kid"), str):
            raise jwt.InvalidTokenError
        return self._keys.get_signing_key(header["kid"])

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


def _require_direct(address: str) -> None:
    """Raise if a proxy would be asked over plain HTTP for the keys of a provider on this machine."""
    parts = urlsplit(address)
    if parts.scheme == "http" and "http" in getproxies() and not proxy_bypass(parts.netloc):
        raise InvalidParameterError(
            f"oidc: jwks_url={address!r:.80} would be requested through the proxy of http_proxy, which could replace "
            f"the keys; set no_proxy={parts.hostname}."
        )
