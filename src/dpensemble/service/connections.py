"""Connections: how many there are, and how long one may stay without a whole request."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

# Seconds for the head of a request, counted from the connection or from the response before, and for a reader that
# takes nothing of a response.
_HEAD, _READER = 10.0, 30.0
# Seconds in which a request that is on its way has been read; there may be twice as many connections for as long.
_FRESH = 1.0
# Most connections at once, and files that the service opens besides.
_MOST, _FILES = 500, 96
# Bytes that are read in one go.
_PIECE = 4_096
#: Bytes of a request's head.
LONGEST_HEAD = 16_384


class BoundedConnection(H11Protocol):
    """A connection of uvicorn's that ends when no request comes, and makes room for newer ones.

    When there are too many, the one that has waited longest for the rest of a request is closed. So connections with
    half a request keep nobody out.
    """

    #: Most connections that wait, and since when those wait that have no whole request, the oldest first.
    most = _MOST
    waiting: ClassVar[OrderedDict[BoundedConnection, float]] = OrderedDict()

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._head_timer: asyncio.TimerHandle | None = None
        self._reader_timer: asyncio.TimerHandle | None = None

    @property
    def _is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request, and make room where there is none."""
        super().connection_made(transport)
        if hasattr(transport, "max_size"):
            # What is read in one go keeps all others waiting while it is taken apart.
            transport.max_size = _PIECE
        self._wait()
        if len(self.connections) > self.most:
            # This one is the last of them.
            oldest, since = next(iter(self.waiting.items()))
            if self.loop.time() - since >= _FRESH or len(self.connections) > 2 * self.most:
                oldest._end()

    def data_received(self, data: bytes) -> None:
        """Take what came, and no more of a body until it is asked for."""
        super().data_received(data)
        if not self._is_idle and self.cycle.body:
            self.flow.pause_reading()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self.waiting.pop(self, None)
        for timer in (self._head_timer, self._reader_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        self._wait()
        super().on_response_complete()
        # It may have been there already.
        self._look()

    def pause_writing(self) -> None:
        """Wait for the reader, and not for ever."""
        super().pause_writing()
        self._reader_timer = self.loop.call_later(_READER, self._end)

    def resume_writing(self) -> None:
        """Go on."""
        if self._reader_timer is not None:
            self._reader_timer.cancel()
        super().resume_writing()

    def _wait(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
        self.waiting[self] = self.loop.time()
        self.waiting.move_to_end(self)
        self._head_timer = self.loop.call_later(_HEAD, self._expire)

    def _look(self) -> None:
        if not self._is_idle and not self.cycle.more_body:
            self.waiting.pop(self, None)

    def _expire(self) -> None:
        # The body of a request that is being answered has a limit of its own.
        if self._is_idle:
            self._end()

    def _end(self) -> None:
        # Not counted from now on, though the transport tells of its end later.
        self.connections.discard(self)
        self.waiting.pop(self, None)
        self.transport.abort()


def room_for_connections() -> int:
    """Return how many connections the process has room for, after it was given more files where that is allowed."""
    try:
        import resource  # noqa: PLC0415 - not on every system
    except ImportError:
        return _MOST // 4
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * _MOST + _FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    # Those that are accepted in one go come on top.
    return _MOST if soft == resource.RLIM_INFINITY else max(1, min(_MOST, (soft - _FILES) // 4))


def bounded(most: int) -> type[BoundedConnection]:
    """Return the class of connections of which there are so many at most."""
    return type("BoundedConnection", (BoundedConnection,), {"most": most, "waiting": OrderedDict()})
