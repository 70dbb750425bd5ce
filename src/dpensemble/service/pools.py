"""Pools of threads with bounded queues and deadlines, so that one kind of request never waits for another kind.

A deadline ends the wait of a client, and never the work. A request that still waits for a thread is forgotten. Work
that has begun goes on, so a charge is always followed by its stored answer, and a retry returns that answer.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from dpensemble.service.problems import Problem

if TYPE_CHECKING:
    from dpensemble.service.settings import WaitSettings

Result = TypeVar("Result")


class Pool:
    """A few threads for one kind of request.

    `queued` requests may wait for a thread, and each gets an answer or a refusal within `seconds`.
    """

    def __init__(self, kind: str, *, threads: int, queued: int, seconds: float) -> None:
        self._kind, self._queued, self._seconds = kind, queued, seconds
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=f"dpensemble {kind}")
        self._free = asyncio.Semaphore(threads)
        self._waiting = 0

    async def run(self, work: Callable[[], Result]) -> Result:
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

    def _ended(self, running: asyncio.Future[Result]) -> None:
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


class SharedCheck:
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
class Pools:
    """The pools of a service: checks of health, reads with a valid key, writes, quotes, and unknown senders."""

    health: SharedCheck
    reads: Pool
    writes: Pool
    quotes: Pool
    strangers: Pool

    @classmethod
    def of(cls, waits: WaitSettings) -> Pools:
        """Return the pools of a service with these deadlines."""
        return cls(
            # Two threads, so that a check after one that hangs still runs.
            health=SharedCheck(Pool("checks of health", threads=2, queued=2, seconds=waits.read)),
            reads=Pool("reads", threads=8, queued=200, seconds=waits.read),
            # Many, because simultaneous charges share a transaction.
            writes=Pool("requests for answers", threads=32, queued=200, seconds=waits.write),
            # One thread, because a quote is all computation, and computing threads delay each other and everybody.
            quotes=Pool("quotes", threads=1, queued=32, seconds=waits.quote),
            strangers=Pool("checks of senders", threads=2, queued=64, seconds=waits.token),
        )
