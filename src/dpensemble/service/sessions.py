"""Sessions of the page: a signed cookie that names the key, and tokens against forged forms."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time

from dpensemble.service.keys import ApiKey, KeyRing

COOKIE = "dpensemble"
_HOURS = 8


class Sessions:
    """Signs and reads sessions, which several services can share. Only sessions that were ended here are stored.

    A session ends with its key in `ring`. Only services of one ledger know `secret`.
    """

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
