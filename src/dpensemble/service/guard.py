"""The outermost layer: sizes, times, unexpected errors, headers, and the line in the log."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any

from dpensemble.service.bodies import Bodies, FindSender, Message, Receive, Scope, drop
from dpensemble.service.metrics import JsonLog, Metrics
from dpensemble.service.problems import MEDIA_TYPE, Problem

Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

#: Where the body of a request is found in its scope.
BODY = "dpensemble.body"
# Refusals after which the rest of the body is not read.
_LAST = (400, 408, 413, 429)
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
    """An ASGI application that wraps another. It logs and counts requests, and identifies senders of large bodies."""

    def __init__(self, app: App, *, log: JsonLog, metrics: Metrics, most_bytes: int, find_sender: FindSender) -> None:
        self._app, self._log, self._metrics = app, log, metrics
        self._bodies = Bodies(most_bytes, find_sender)

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
                present = {name.lower() for name, _ in message.get("headers", [])}
                more = [(k.encode(), v.encode()) for k, v in _ALWAYS.items() if k.encode() not in present]
                message = {**message, "headers": [*message.get("headers", []), *more]}
            await send(message)

        try:
            async with self._bodies.taken(scope, receive) as body:
                scope[BODY], left = body, [body]
                try:
                    await self._app(scope, _replayed(left, receive), sending)
                finally:
                    # The request's scope and body may stay in memory until garbage collection.
                    del scope[BODY], body
                    left.clear()
        except Problem as problem:
            if problem.status == 413:
                await drop(scope, receive)
            await _refuse(problem, sending)
        except Exception as error:
            # Texts of errors of other libraries may quote the request.
            noted["error"] = type(error).__name__
            if os.environ.get("DPENSEMBLE_TRACEBACK"):
                raise
            if not status:
                await _refuse(Problem(500, "unexpected", "An unexpected error occurred."), sending)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            code = status[0] if status else 499
            self._metrics.request(str(scope["method"]), route, code)
            # Without a valid key, anybody may send any number of equal requests.
            write = self._log.line if "key" in noted else self._log.counted
            write("request", method=str(scope["method"])[:10], route=route, status=code, **noted)


def _replayed(left: list[bytes], receive: Receive) -> Receive:
    """Return a function that delivers the body, and then further messages."""

    async def telling() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return await receive()

    return telling


async def _refuse(problem: Problem, send: Send) -> None:
    body = problem.body
    headers = {"content-type": MEDIA_TYPE, "content-length": str(len(body)), **problem.headers}
    # The rest of a refused body is not read.
    headers |= {"connection": "close"} if problem.status in _LAST else {}
    await send(
        {
            "type": "http.response.start",
            "status": problem.status,
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
    )
    await send({"type": "http.response.body", "body": body})
