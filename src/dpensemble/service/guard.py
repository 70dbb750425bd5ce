"""The outermost layer: sizes, times, errors that nobody foresaw, headers, and the line in the log."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from dpensemble.service.observed import JsonLog, Metrics
from dpensemble.service.problems import MEDIA_TYPE, Problem

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

# Seconds in which a request has to have arrived.
_PATIENCE = 30.0
# Most bytes and seconds of a body that is too large which are read and dropped: a sender that is cut off while it still
# writes never reads why.
_DROPPED, _DROPPING = 64_000_000, 10.0
_ALWAYS = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    # With "no-referrer" browsers send "Origin: null" with the forms of the service's own pages.
    "referrer-policy": "same-origin",
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
}


class Guard:
    """An application around another.

    Parameters
    ----------
    app : callable
        ASGI application inside.
    log : JsonLog
        Gets a line for every request.
    metrics : Metrics
        Counts every request.
    most_bytes : int
        Largest body.
    """

    def __init__(self, app: App, *, log: JsonLog, metrics: Metrics, most_bytes: int) -> None:
        self._app, self._log, self._metrics, self._most = app, log, metrics, most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status: list[int] = []
        noted: dict[str, Any] = {}
        scope["dpensemble"] = noted

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                status.append(int(message["status"]))
                given = {name.lower() for name, _ in message.get("headers", [])}
                more = [(k.encode(), v.encode()) for k, v in _ALWAYS.items() if k.encode() not in given]
                message = {**message, "headers": [*message.get("headers", []), *more]}
            await send(message)

        try:
            body = await self._body(scope, receive)
            await self._app(scope, _told(body, receive), sending)
        except Problem as problem:
            if problem.status == 413:
                await _drop(scope, receive)
            await _refuse(problem, sending)
        except Exception as error:
            # The texts of foreign errors may quote what was sent.
            noted["error"] = type(error).__name__
            if os.environ.get("DPENSEMBLE_TRACEBACK"):
                raise
            if not status:
                await _refuse(Problem(500, "unexpected", "Something went wrong that nobody foresaw."), sending)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            code = status[0] if status else 499
            self._metrics.request(str(scope["method"]), route, code)
            self._log.line("request", method=str(scope["method"])[:10], route=route, status=code, **noted)

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """Return the whole body, or refuse one that is too large before it is all there."""
        too_large = Problem(
            413, "too-large", "The request is too large.", f"At most {self._most:,} bytes are taken; send less at once."
        )
        for name, value in scope["headers"]:
            if name == b"content-length" and (not value.isdigit() or len(value) > 12 or int(value) > self._most):
                raise too_large
        parts, size, more = [], 0, True
        try:
            async with asyncio.timeout(_PATIENCE):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        break
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    more = message.get("more_body", False)
                    if size > self._most:
                        raise too_large
        except TimeoutError:
            raise Problem(408, "too-slow", "The request did not arrive in time.") from None
        return b"".join(parts)


def _told(body: bytes, receive: Receive) -> Receive:
    """Return what tells the body that is there, and then whatever else comes."""
    left = [body]

    async def telling() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return await receive()

    return telling


async def _drop(scope: Scope, receive: Receive) -> None:
    """Read what is left of a body, and keep none of it; whoever waits to be asked for it is not asked."""
    if any(name == b"expect" for name, _ in scope["headers"]):
        return
    size, more = 0, True
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DROPPING):
            while more and size < _DROPPED:
                message = await receive()
                size += len(message.get("body", b""))
                more = message["type"] == "http.request" and message.get("more_body", False)


async def _refuse(problem: Problem, send: Send) -> None:
    body = problem.body
    headers = {"content-type": MEDIA_TYPE, "content-length": str(len(body)), **problem.headers}
    # What is left of a body that was refused is not read.
    headers |= {"connection": "close"} if problem.status in (408, 413) else {}
    await send(
        {
            "type": "http.response.start",
            "status": problem.status,
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
    )
    await send({"type": "http.response.body", "body": body})
