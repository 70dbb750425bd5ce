"""A running service: its ledger, grants, keys, sessions, log and counts, and the threads that do its work.

Each kind of request has a pool of threads with a bounded queue and a deadline, so that it never waits for another kind.
A deadline ends the wait of a client, and never the work. A request that still waits for a thread is forgotten. Work
that has begun goes on, so a charge is always followed by its stored answer, and a retry returns that answer.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from pydantic import BaseModel
from starlette.requests import HTTPConnection

from dpensemble.server.account import LedgerAccount
from dpensemble.server.grants import GrantHandler, grant_handlers
from dpensemble.server.http import JsonLog, Metrics, Problem, prediction_model
from dpensemble.server.ledger import Ledger
from dpensemble.server.settings import ServiceSettings
from dpensemble.server.sign_in import COOKIE, PREFIX, ApiKey, KeyRing, Provider, Sessions

if TYPE_CHECKING:
    from dpensemble.server.settings import WaitSettings

_Result = TypeVar("_Result")


class Pool:
    """A few threads for one kind of request.

    `queued` requests may wait for a thread, and each gets an answer or a refusal within `seconds`.
    """

    def __init__(self, kind: str, *, threads: int, queued: int, seconds: float) -> None:
        self._kind, self._queued, self._seconds = kind, queued, seconds
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=f"dpensemble {kind}")
        self._free = asyncio.Semaphore(threads)
        self._waiting = 0

    async def run(self, work: Callable[[], _Result]) -> _Result:
        """Return the result of `work`, or raise its error.

        Raises
        ------
        Problem
            If the queue is full, or the work takes longer than the deadline. The status is 503.
        """
        if self._waiting >= self._queued:
            raise self._busy()
        loop = asyncio.get_running_loop()
        end = loop.time() + self._seconds
        self._waiting += 1
        try:
            async with asyncio.timeout_at(end):
                await self._free.acquire()
        except TimeoutError:
            raise self._busy() from None
        finally:
            self._waiting -= 1
        # Not more work than threads is handed over, so no work waits within the executor.
        running = loop.run_in_executor(self._threads, contextvars.copy_context().run, work)
        running.add_done_callback(self._ended)
        # A client that goes away cancels this wait only.
        done, _ = await asyncio.wait([running], timeout=max(0.0, end - loop.time()))
        if not done:
            raise self._busy()
        return running.result()

    def _ended(self, running: asyncio.Future[_Result]) -> None:
        self._free.release()
        if not running.cancelled():
            # After the deadline nobody else asks for the error.
            running.exception()

    def _busy(self) -> Problem:
        return Problem(
            503,
            "busy",
            "The service is busy.",
            f"Too many {self._kind} wait, or one of them takes too long. Send the same request later. A request with "
            "an Idempotency-Key is charged once.",
            headers={"Retry-After": "1"},
        )


class _SharedCheck:
    """One check at a time. Those who ask while the check is under way share its result."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._running: asyncio.Task[None] | None = None

    async def run(self, work: Callable[[], object]) -> None:
        """Return when the check has passed, or raise its error."""
        if self._running is None or self._running.done():

            async def check() -> None:
                await self._pool.run(work)

            self._running = asyncio.create_task(check())
        # One client that goes away ends no check.
        await asyncio.shield(self._running)


@dataclass(frozen=True, slots=True)
class _Pools:
    """The pools of a service: checks of health, reads with a valid key, writes, quotes, and unknown senders."""

    health: _SharedCheck
    reads: Pool
    writes: Pool
    quotes: Pool
    strangers: Pool

    @classmethod
    def of(cls, waits: WaitSettings) -> _Pools:
        """Return the pools of a service with these deadlines."""
        return cls(
            # Two threads, so that a check after one that hangs still runs.
            health=_SharedCheck(Pool("checks of health", threads=2, queued=2, seconds=waits.read)),
            reads=Pool("reads", threads=8, queued=200, seconds=waits.read),
            # Many, because simultaneous charges share a transaction.
            writes=Pool("requests for answers", threads=32, queued=200, seconds=waits.write),
            # One thread, because a quote is all computation, and computing threads delay each other and everybody.
            quotes=Pool("quotes", threads=1, queued=32, seconds=waits.quote),
            strangers=Pool("checks of senders", threads=2, queued=64, seconds=waits.token),
        )


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
    pools: _Pools
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
            pools=_Pools.of(settings.waits),
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
