"""The shared state of a running service: ledger, grants, keys, sessions, log and counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TextIO

from pydantic import BaseModel
from starlette.requests import HTTPConnection

from dpensemble.ledger import Ledger, LedgerAccount
from dpensemble.service.asked import prediction_model
from dpensemble.service.grant_handler import GrantHandler, grant_handlers
from dpensemble.service.keys import PREFIX, ApiKey, KeyRing
from dpensemble.service.metrics import JsonLog, Metrics
from dpensemble.service.oidc import Provider
from dpensemble.service.pools import Pools
from dpensemble.service.sessions import COOKIE, Sessions
from dpensemble.service.settings import ServiceSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceState:
    """What the routes of a service share, such as its ledger, grants by name, keys and counts."""

    settings: ServiceSettings
    ledger: Ledger
    handlers: dict[str, GrantHandler]
    ring: KeyRing
    sessions: Sessions
    log: JsonLog
    metrics: Metrics
    prediction: type[BaseModel]
    pools: Pools
    provider: Provider | None = None

    @classmethod
    def of(cls, settings: ServiceSettings, stream: TextIO | None = None) -> ServiceState:
        """Open everything, and fit teachers. Nothing is charged, even if this raises."""
        ring = KeyRing(settings.path(settings.keys))
        ledger = Ledger(
            settings.ledger_place,
            signing_key=None if settings.signing_key is None else settings.path(settings.signing_key),
            witness=None if settings.witness is None else settings.path(settings.witness),
        )
        # A restored ledger is refused at the start, and not only by the first request.
        ledger.require_known()
        handlers = grant_handlers(settings, ledger)
        return cls(
            settings=settings,
            ledger=ledger,
            handlers=handlers,
            ring=ring,
            sessions=Sessions(ring, ledger.key.session_secret),
            log=JsonLog(stream),
            metrics=Metrics(handlers, ledger),
            prediction=prediction_model(settings.most_queries),
            pools=Pools.of(settings.waits),
            provider=None if settings.oidc is None else Provider(settings.oidc),
        )

    async def who(self, token: str) -> ApiKey | None:
        """Return the sender of an API key or of a provider's token, or None if it is invalid or expired.

        An API key takes no thread, so a key never waits for tokens, for their provider or for unknown senders.
        """
        provider = self.provider
        if provider is None or token.startswith(PREFIX):
            return self.ring.of(token)
        await provider.keys_for(token)
        return await self.pools.strangers.run(lambda: provider.of(token))

    async def sender(self, scope: Mapping[str, Any]) -> str | None:
        """Return the holder of the key, token or session in the headers of a request, or None."""
        asking = HTTPConnection(dict(scope))
        kind, _, token = asking.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            key = await self.who(token.strip())
        else:
            key = self.sessions.of(asking.cookies.get(COOKIE, ""))
        return None if key is None else key.holder

    def accounts(self, key: ApiKey) -> list[LedgerAccount]:
        """Return the accounts that a key may see: all accounts for an owner of all, else those of its grants."""
        shown = {handler.grant.data_set for name, handler in self.handlers.items() if key.covers(name)}
        if key.may_see_all:
            return self.ledger.accounts()
        return [self.ledger.account(name) for name in sorted(shown)]
