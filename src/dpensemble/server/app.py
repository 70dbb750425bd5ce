"""The application, and its run until it is stopped: limits for connections, and TLS."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import logging
import ssl
from asyncio.sslproto import SSLProtocol
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, TextIO

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from dpensemble._checks import integer_between
from dpensemble.errors import FileError, InvalidParameterError
from dpensemble.server.api import add_routes
from dpensemble.server.http import Guard, JsonLog, add_refusals
from dpensemble.server.service import ServiceState
from dpensemble.server.settings import ServiceSettings


def create_app(settings: ServiceSettings, stream: TextIO | None = None) -> Guard:
    """Return the service as an ASGI application.

    Parameters
    ----------
    settings : ServiceSettings
        Settings from `read_settings`.
    stream : file, optional
        Destination of the log. Standard error by default.

    Raises
    ------
    DPEnsembleError
        If a grant cannot be served as configured. Nothing was charged.
    """
    service = ServiceState.of(settings, stream)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        # Opened here, in the process that answers requests.
        with service.ledger.kept_open(settings.waits.lock):
            service.log.line("started", grants=sorted(service.handlers), ledger=service.ledger.id)
            yield
            service.log.flush()
            service.log.line("stopped")

    app = FastAPI(
        title="dpensemble",
        summary="Private answers from votes or hosted teachers, charged to a ledger before they are drawn.",
        version="1",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
    )
    app.state.service = service
    add_routes(app, service)
    add_refusals(app)
    return Guard(
        app,
        log=service.log,
        count=service.metrics.request,
        most_bytes=settings.most_bytes,
        find_sender=service.sign_in.holder_of_request,
    )


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
_LONGEST_HEAD = 16_384


class _BoundedConnection(H11Protocol):
    """A connection of uvicorn's that ends when no request comes, and that makes room for newer connections.

    When there are too many connections, the one that has waited longest for the rest of a request is closed. So
    connections with half a request cannot block others.
    """

    #: Most waiting connections, and the start times of those without a whole request, the oldest first.
    most = _MOST
    waiting: ClassVar[OrderedDict[_BoundedConnection, float]] = OrderedDict()

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


class _HalfOpen:
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


class _Door(asyncio.Protocol):
    """Begins the TLS handshake of a connection. The connection is passed on when the handshake has finished."""

    inner: ClassVar[type[_BoundedConnection]]
    context: ClassVar[ssl.SSLContext]
    half_open: ClassVar[_HalfOpen]
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


def _room_for_connections() -> int:
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


def _bounded(most: int) -> type[_BoundedConnection]:
    """Return a connection class that allows at most `most` connections."""
    return type("BoundedConnection", (_BoundedConnection,), {"most": most, "waiting": OrderedDict()})


def _secured(inner: type[_BoundedConnection], context: ssl.SSLContext, seconds: float) -> type[_Door]:
    """Return a class of connections that begin with a TLS handshake, which must finish within some seconds."""
    fields = {"inner": inner, "context": context, "half_open": _HalfOpen(inner.most), "seconds": seconds}
    return type("Door", (_Door,), fields)


class _LibraryLog(logging.Handler):
    """Log messages of libraries without their texts, which may quote anything."""

    def __init__(self, log: JsonLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line with the name of the logger and the place."""
        self._log.counted("library", logger=record.name, level=record.levelname, at=f"{record.module}:{record.lineno}")


# Seconds that requests may take to end when the service is stopped.
_GRACE = 20


def serve(
    settings: ServiceSettings,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    certificate: Path | None = None,
    certificate_key: Path | None = None,
) -> None:
    """Serve until the process is stopped. See `listen`."""
    if settings.secure_cookie is None:
        settings = replace(settings, secure_cookie=not _is_loopback(host))
    listen(
        lambda: create_app(settings),
        host=host,
        port=port,
        certificate=certificate,
        certificate_key=certificate_key,
        handshake=settings.waits.handshake,
    )


def listen(
    create: Callable[[], Guard],
    *,
    host: str,
    port: int,
    certificate: Path | None = None,
    certificate_key: Path | None = None,
    handshake: float = 5.0,
) -> None:
    """Create and serve an application until the process is stopped.

    A certificate is for TLS, which a proxy in front may handle instead. A handshake must finish within some seconds.
    """
    if (certificate is None) is not (certificate_key is None):
        raise InvalidParameterError("TLS requires a certificate and its key: give both, or neither.")
    context = None if certificate is None or certificate_key is None else _tls_context(certificate, certificate_key)
    app = create()
    handler = _LibraryLog(JsonLog())
    for name in ("uvicorn.error", "asyncio", "fastapi"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
    # Permanent objects need not be scanned again and again while all requests wait.
    gc.collect()
    gc.freeze()
    uvicorn.run(
        app,
        host=host,
        port=integer_between("port", port, 0, 65_535),
        **_how_to_listen(_room_for_connections(), context, handshake),
    )


def _tls_context(certificate: Path, certificate_key: Path) -> ssl.SSLContext:
    """Return the settings of TLS with a certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, certificate_key)
    # An error of TLS is an OSError too, and has a reason of its own.
    except OSError as error:
        reason = (error.reason if isinstance(error, ssl.SSLError) else error.strerror) or type(error).__name__
        raise FileError(
            f"certificate={str(certificate)!r} and certificate_key={str(certificate_key)!r} cannot be used ({reason}): "
            "give a certificate in PEM format and its private key."
        ) from None
    return context


def _how_to_listen(most: int, context: ssl.SSLContext | None = None, handshake: float = 5.0) -> dict[str, Any]:
    """Return settings of uvicorn for a service with at most this many connections, with TLS or without."""
    connection = _bounded(most)
    return {
        # uvicorn's own TLS counts no connection before its handshake has finished.
        "http": connection if context is None else _secured(connection, context, handshake),
        "ws": "none",
        "h11_max_incomplete_event_size": _LONGEST_HEAD,
        "backlog": 2 * most,
        # Requested addresses and paths are not logged.
        "access_log": False,
        "log_config": None,
        "server_header": False,
        "timeout_graceful_shutdown": _GRACE,
    }


def _is_loopback(host: str) -> bool:
    """Return whether an address is only for this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
