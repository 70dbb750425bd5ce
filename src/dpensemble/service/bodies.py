"""Limits for bodies of requests: their size, their time and their number."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from dpensemble.errors import DPEnsembleError
from dpensemble.service.problems import Problem, problem_of

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
FindSender = Callable[[Scope], Awaitable[str | None]]

# Seconds within which a request must arrive.
_PATIENCE = 30.0
# Bytes that any sender may send. A key or a login is shorter.
_SMALL = 16_000
# Large bodies of one holder that may be processed at once.
_EACH = 2
# Longest rest, in seconds, between two large bodies.
_REST = 1.0
# Limits, in bytes and seconds, for reading and dropping a refused body: a sender that is cut off while it still writes
# never reads the reason.
_DROPPED, _DROPPING = 64_000_000, 10.0


class Bodies:
    """Reads bodies, and bounds the memory and processor time that they use.

    Only a sender with a valid key may send a large body, and each holder at most two at a time. Large bodies are
    processed one at a time, with rests as long as the work, because reading a body holds Python's lock and delays
    small requests. `find_sender` returns the holder of a request's key, or None.
    """

    def __init__(self, most_bytes: int, find_sender: FindSender) -> None:
        self._most, self._find_sender = most_bytes, find_sender
        self._under_way: Counter[object] = Counter()
        self._turns = asyncio.Semaphore(1)

    @asynccontextmanager
    async def taken(self, scope: Scope, receive: Receive) -> AsyncIterator[bytes]:
        """Yield the whole body for the length of the block, or refuse the body before all of it has arrived.

        Raises
        ------
        Problem
            If the body is too large or too late, or its sender has no key or sends too many at once.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _PATIENCE
        first, is_large = b"", self._length(scope) > _SMALL
        if not is_large:
            first, is_large = await _read(receive, _SMALL, deadline)
        if not is_large:
            yield first
            return
        if any(name == b"transfer-encoding" for name, _ in scope["headers"]):
            # Chunks may be of one byte, and each chunk costs as much as a full network packet.
            raise self._too_large(_SMALL, " in chunks")
        # The claimed sender is limited first, because reading the claim needs no thread.
        with self._one_more(_claim(scope)), self._one_more(await self._holder(scope)):
            rest, is_too_large = await _read(receive, self._most - len(first), deadline)
            if is_too_large:
                raise self._too_large(self._most)
            await self._turns.acquire()
            start = loop.time()
            try:
                yield first + rest
            finally:
                loop.call_later(min(_REST, loop.time() - start), self._turns.release)

    def _length(self, scope: Scope) -> int:
        """Return the length that a request states, or 0 if it states none."""
        for name, value in scope["headers"]:
            if name == b"content-length":
                if not value.isdigit() or len(value) > 12 or int(value) > self._most:
                    raise self._too_large(self._most)
                return int(value)
        return 0

    async def _holder(self, scope: Scope) -> str:
        try:
            holder = await self._find_sender(scope)
        except DPEnsembleError as error:
            raise problem_of(error) from None
        if holder is None:
            raise self._too_large(min(_SMALL, self._most), " without a valid key")
        return holder

    @contextmanager
    def _one_more(self, holder: object) -> Iterator[None]:
        if self._under_way[holder] >= _EACH:
            raise Problem(
                429,
                "too-many",
                "Too many large requests at once; nothing was charged.",
                f"At most {_EACH} of one holder are accepted at a time: send the request again after an answer.",
                headers={"Retry-After": "1"},
            )
        self._under_way[holder] += 1
        try:
            yield
        finally:
            self._under_way -= Counter([holder])

    @staticmethod
    def _too_large(most: int, whose: str = "") -> Problem:
        detail = f"At most {most:,} bytes are accepted{whose}: send less at once."
        return Problem(413, "too-large", "The request is too large.", detail)


def _claim(scope: Scope) -> tuple[bytes, ...]:
    """Return the headers that identify the sender of a request."""
    return tuple(value for name, value in scope["headers"] if name in (b"authorization", b"cookie"))


async def _read(receive: Receive, most: int, deadline: float) -> tuple[bytes, bool]:
    """Return the data until the end, or until more than `most` bytes have arrived, and whether there are more."""
    parts, size, more = [], 0, True
    try:
        async with asyncio.timeout_at(deadline):
            while more and size <= most:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Problem(400, "cut-off", "The request ended before all of it had arrived.")
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                more = message.get("more_body", False)
    except TimeoutError:
        raise Problem(408, "too-slow", "The request did not arrive in time.") from None
    return b"".join(parts), more or size > most


async def drop(scope: Scope, receive: Receive) -> None:
    """Read and drop the rest of a body of a stated length. A sender that waits for permission is not asked to go on."""
    # A body in chunks may arrive byte by byte, and costs as much to drop as to read.
    if any(name in (b"expect", b"transfer-encoding") for name, _ in scope["headers"]):
        return
    size, more = 0, True
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DROPPING):
            while more and size < _DROPPED:
                message = await receive()
                size += len(message.get("body", b""))
                more = message["type"] == "http.request" and message.get("more_body", False)
