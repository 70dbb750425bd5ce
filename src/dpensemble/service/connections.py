"""Limits for connections: their number, and how long one may stay without a whole request."""

from __future__ import annotations

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol
from collections import OrderedDict
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

# Seconds for the head of a request, counted from the start of the connection or from the previous response. Also the
# limit for a reader that accepts nothing of a response.
_HEAD, _READER = 10.0, 30.0
# Seconds within which an incoming request has been read. Meanwhile there may be twice as many connections.
_FRESH = 1.0
# Most connections at once, and the other files that the service opens.
_MOST, _FILES = 500, 96
# Files for each of the most connections.
_EACH_TAKES = 5
# Bytes that are read at a time.
_PIECE = 4_096
#: Largest number of bytes of a request's head.
LONGEST_HEAD = 16_384


class BoundedConnection(H11Protocol):
    """A connection of uvicorn's that ends when no request comes, and that makes room for newer connections.

    When there are too many connections, the one that has waited longest for the rest of a request is closed. So
    connections with half a request cannot block others.
    """

    #: Most waiting connections, and the start times of those without a whole request, the oldest first.
    most = _MOST
    waiting: ClassVar[OrderedDict[BoundedConnection, float]] = OrderedDict()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_timer: asyncio.TimerHandle | None = None
        self._reader_timer: asyncio.TimerHandle | None = None

    @property
    def _is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request, and make room if there is none."""
        super().connection_made(transport)
        if hasattr(transport, "max_size"):
            # Data read in one piece delays all other connections while it is parsed.
            transport.max_size = _PIECE
        self._wait()
        if len(self.connections) > self.most:
            # This connection becomes the last one.
            oldest, since = next(iter(self.waiting.items()))
            if self.loop.time() - since >= _FRESH or len(self.connections) > 2 * self.most:
                oldest._end()

    def data_received(self, data: bytes) -> None:
        """Accept incoming data. More of a body is read only on demand."""
        super().data_received(data)
        if not self._is_idle and self.cycle.body:
            self.flow.pause_reading()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self.waiting.pop(self, None)
        for timer in (self._head_timer, self._reader_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        self._wait()
        super().on_response_complete()
        # The request may have arrived already.
        self._look()

    def pause_writing(self) -> None:
        """Wait for the reader, for a limited time."""
        super().pause_writing()
        self._reader_timer = self.loop.call_later(_READER, self._end)

    def resume_writing(self) -> None:
        """Continue writing."""
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
        # The body of a request that is being answered has its own limit.
        if self._is_idle:
            self._end()

    def _end(self) -> None:
        # Not counted from now on, although the transport reports its end later.
        self.connections.discard(self)
        self.waiting.pop(self, None)
        self.transport.abort()


class HalfOpen:
    """Connections whose TLS handshake is not finished, by address, the oldest first.

    An address may have an eighth of `most` for more than a second, and half of `most` at any time. Beyond that the
    oldest of that address ends. All together are at most `most`: then the oldest of the busiest address ends. A
    finished handshake does not count, so a proxy in front or an office behind one address has no such limit.
    """

    def __init__(self, most: int) -> None:
        self._most, self._each = most, max(1, most // 8)
        self._of: dict[str, OrderedDict[asyncio.Transport, float]] = {}
        self._number = 0

    def add(self, address: str, transport: asyncio.Transport, now: float) -> None:
        """Count a connection, and end another one if there are too many."""
        mine = self._of.setdefault(address, OrderedDict())
        mine[transport] = now
        self._number += 1
        oldest, since = next(iter(mine.items()))
        if len(mine) > self._each and (now - since >= _FRESH or len(mine) > 4 * self._each):
            self._end(address, oldest)
        elif self._number > self._most:
            busiest = max(self._of, key=lambda one: len(self._of[one]))
            self._end(busiest, next(iter(self._of[busiest])))

    def remove(self, address: str, transport: asyncio.Transport) -> None:
        """Count a connection no more."""
        mine = self._of.get(address)
        if mine is not None and mine.pop(transport, None) is not None:
            self._number -= 1
            if not mine:
                del self._of[address]

    def _end(self, address: str, transport: asyncio.Transport) -> None:
        self.remove(address, transport)
        transport.abort()


class Door(asyncio.Protocol):
    """Begins the TLS handshake of a connection. The connection is passed on when the handshake has finished."""

    inner: ClassVar[type[BoundedConnection]]
    context: ClassVar[ssl.SSLContext]
    half_open: ClassVar[HalfOpen]
    seconds: ClassVar[float]

    def __init__(self, **given: object) -> None:
        self._given = given

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin the handshake, and count the connection until it has finished or failed."""
        loop = asyncio.get_running_loop()
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if peer else ""
        finished: asyncio.Future[None] = loop.create_future()

        def ended(future: asyncio.Future[None]) -> None:
            self.half_open.remove(address, transport)
            if not future.cancelled():
                # A failed handshake is of no interest, and is not logged.
                future.exception()

        finished.add_done_callback(ended)
        # asyncio's own servers use this class too, but do not report connections before their handshake.
        tls = SSLProtocol(
            loop,
            self.inner(**self._given),
            self.context,
            finished,
            server_side=True,
            ssl_handshake_timeout=self.seconds,  # type: ignore[arg-type]  # seconds may have fractions
        )
        transport.set_protocol(tls)
        tls.connection_made(transport)
        self.half_open.add(address, transport, loop.time())


def room_for_connections() -> int:
    """Return how many connections the process has room for, after raising its limit of open files if allowed."""
    try:
        import resource  # noqa: PLC0415 - not on every system
    except ImportError:
        return _MOST // 4
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Twice the most connections, the most handshakes under way, and twice the most that are accepted in one batch.
    enough = _EACH_TAKES * _MOST + _FILES
    if soft != resource.RLIM_INFINITY and soft < enough:
        soft = enough if hard == resource.RLIM_INFINITY else min(enough, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return _MOST if soft == resource.RLIM_INFINITY else max(1, min(_MOST, (soft - _FILES) // _EACH_TAKES))


def bounded(most: int) -> type[BoundedConnection]:
    """Return a connection class that allows at most `most` connections."""
    return type("BoundedConnection", (BoundedConnection,), {"most": most, "waiting": OrderedDict()})


def secured(inner: type[BoundedConnection], context: ssl.SSLContext, seconds: float) -> type[Door]:
    """Return a class of connections that begin with a TLS handshake, which must finish within some seconds."""
    fields = {"inner": inner, "context": context, "half_open": HalfOpen(inner.most), "seconds": seconds}
    return type("Door", (Door,), fields)
