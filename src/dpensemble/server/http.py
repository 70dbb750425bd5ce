"""Requests of the service: limits for their bodies, their content, refusals, the log and counts.

Refusals are ``application/problem+json`` (RFC 9457). They contain public numbers, and never the content of a request.
Content is read within bounds, and reading stops at the first error. Of each request an operator sees one line of JSON,
and counts. Neither contains how long a request took, because the time of a draw may depend on votes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    MutableMapping,
)
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import singledispatch
from typing import Annotated, Any, ClassVar, TextIO

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt, StrictStr, ValidationError, create_model
from pydantic.json_schema import WithJsonSchema
from starlette.exceptions import HTTPException

from dpensemble.errors import BudgetError, DataError, DPEnsembleError, InvalidParameterError, known_text

_OTHER_PAYLOAD, _JSON = "key", "application/json"
#: Where the body of a request is found in its scope.
BODY = "dpensemble.body"
#: What a route notes if its requests are repeated for days, so that equal lines of the log are counted.
OFTEN = "often"
# Text for a request that does not match the schema.
_MALFORMED = "The request does not match the schema; nothing was charged."
_TITLES = {400: "The request is malformed.", 404: "There is nothing here.", 405: "This method is not allowed here."}
# Most places of mistakes in one refusal.
_MOST_PLACES = 5
# Least average number of bytes of a list or an object, in a body of the largest size. Two numbers of a voter take more.
_BYTES_OF_A_PART = 8


@dataclass(eq=False)
class Problem(Exception):  # noqa: N818 - RFC 9457 uses this name
    """A refusal: HTTP status, short name, texts, and public numbers such as ``requested``, ``spent`` and ``fits``."""

    MEDIA_TYPE: ClassVar[str] = "application/problem+json"
    #: Form of every refusal, for the schema of the interface.
    SCHEMA: ClassVar[dict[str, Any]] = {
        "type": "object",
        "required": ["type", "title", "status"],
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "unit": {"type": "string", "description": "What the following numbers count."},
            "requested": {"type": "number"},
            "spent": {"type": "number"},
            "remaining": {"type": "number"},
            "fits": {"type": "number", "description": "The largest amount that would be allowed."},
        },
    }

    status: int
    kind: str
    title: str
    detail: str = ""
    figures: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, error: Exception) -> Problem:
        """Return the refusal for an error. Its text stays inside, because it may name files or quote others."""
        return _problem_of(error)

    @property
    def response(self) -> Response:
        """The refusal as a response."""
        return Response(self.body, self.status, media_type=self.MEDIA_TYPE, headers=self.headers)

    @property
    def body(self) -> bytes:
        """The refusal as JSON."""
        content = {"type": f"urn:dpensemble:problem:{self.kind}", "title": self.title, "status": self.status}
        if self.detail:
            content["detail"] = self.detail
        # JSON has no NaN or infinity, so they are left out.
        finite = {k: v for k, v in self.figures.items() if not (isinstance(v, float) and not math.isfinite(v))}
        return json.dumps(content | finite, separators=(",", ":")).encode()


@singledispatch
def _problem_of(_error: Exception) -> Problem:
    return Problem(500, "unexpected", "An unexpected error occurred.", "No answer was given.")


@_problem_of.register
def _(error: Problem) -> Problem:
    return error


@_problem_of.register
def _(error: BudgetError) -> Problem:
    return Problem(403, "budget", "The budget does not allow this; nothing was charged.", str(error), error.figures)


@_problem_of.register(DataError)
@_problem_of.register(InvalidParameterError)
def _(error: DPEnsembleError) -> Problem:
    if error.parameter == _OTHER_PAYLOAD and "other votes" in str(error):
        return Problem(
            422,
            "idempotency-key-reused",
            "The Idempotency-Key was used with another request; nothing was charged.",
            "Use a new key for a new request, or send the same request again.",
        )
    return Problem(422, "unusable", "The request cannot be used; nothing was charged.", str(error))


@_problem_of.register
def _(_error: DPEnsembleError) -> Problem:
    return Problem(
        503,
        "unavailable",
        "The service cannot answer now.",
        "No answer was given. Send the same request with the same Idempotency-Key later; it is charged once.",
        headers={"Retry-After": "5"},
    )


_TEXTS = {
    "counts": "For each query, the votes for each class.",
    "ballots": "For each query, a label for each voter.",
    "log_probs": "For each query and voter, the logarithm of each class's probability.",
    "rows": "Rows for hosted teachers.",
}
# The hosted ensemble checks entries against its columns, and stops at the first error.
_ROW_SCHEMA = {
    "type": "object",
    "additionalProperties": {"anyOf": [{"type": kind} for kind in ("integer", "number", "string", "null")]},
}
_Row = Annotated[dict[str, Any], WithJsonSchema(_ROW_SCHEMA)]


def _each(kind: Any, most: int | None = None) -> Any:
    return Annotated[list[kind], Field(fail_fast=True, max_length=most)]


_QUERIES: dict[str, Any] = {
    "counts": _each(StrictInt),
    "ballots": _each(StrictInt | StrictStr),
    "log_probs": _each(_each(StrictFloat)),
    "rows": _Row,
}


def _prediction_model(most_queries: int) -> type[BaseModel]:
    """Return the model of one request: votes or rows, as the grant takes them, in a list of limited length."""
    fields: dict[str, Any] = {
        name: (_each(kind, most_queries) | None, Field(None, description=_TEXTS[name]))
        for name, kind in _QUERIES.items()
    }
    return create_model(
        "Prediction",
        # An error for each unknown name would take a thousand times as much memory. See `_queries_of_body`.
        __config__=ConfigDict(extra="allow", json_schema_extra={"additionalProperties": False}),
        __doc__="One request for answers: a list of queries, as the votes or rows that the grant takes.",
        **fields,
    )


def _queries_of_body(model: type[BaseModel], body: bytes, most_parts: int) -> dict[str, Any]:
    """Return the queries of a JSON body, by name. Errors name the place of a mistake, and never quote the content.

    `most_parts` limits the number of lists and objects, because each takes hundreds of bytes to read. Brackets within
    texts count too.
    """
    if body.count(b"[") + body.count(b"{") > most_parts:
        raise _wrong((), "too_many_parts")
    try:
        prediction = model.model_validate_json(body)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place, kind = wrong["loc"], wrong["type"]
    else:
        if not prediction.model_extra:
            return dict(prediction)
        place, kind = (next(iter(prediction.model_extra)),), "extra_forbidden"
    # Outside the block, because an error context would keep the request.
    raise _wrong(place, kind)


class PredictionReader:
    """Reads the queries of requests for answers, by name, of bodies and of forms."""

    def __init__(self, most_queries: int, most_bytes: int) -> None:
        self._model, self._most_parts = _prediction_model(most_queries), most_bytes // _BYTES_OF_A_PART

    @property
    def schema(self) -> dict[str, Any]:
        """Form of a request, for the schema of the interface."""
        return self._model.model_json_schema()

    def of_request(self, request: Request) -> dict[str, Any]:
        """Return the queries of a request's body, or raise."""
        sent_as = request.headers.get("content-type", "").split(";")[0].strip().lower()
        if sent_as != _JSON:
            raise Problem(422, "malformed", _MALFORMED, f"Send JSON, with 'Content-Type: {_JSON}'.")
        return _queries_of_body(self._model, request.scope[BODY], self._most_parts)

    def of_entries(self, kind: str, entries: list[Any]) -> dict[str, Any]:
        """Return queries of one kind. Raise without quoting them if they are malformed."""
        try:
            return dict(self._model.model_validate({kind: entries}))
        except ValidationError:
            raise DataError(f"{kind} must match the schema; GET /openapi.json describes it.") from None


def _wrong(place: tuple[int | str, ...], kind: str) -> RequestValidationError:
    return RequestValidationError([{"loc": ("body", *place), "type": kind}])


async def _refused(request: Request, error: Exception) -> Response:
    problem = Problem.of(error)
    if problem.status >= 500:
        # For the operator: these texts name files, not data.
        request.scope["dpensemble"]["error"] = type(error).__name__
        request.scope["dpensemble"]["reason"] = known_text(error)
    return problem.response


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    # The place of the error, and never the content: not even names, which may be sent by mistake.
    places = sorted({_place(one["loc"]) + f" ({one['type']})" for one in error.errors()})[:_MOST_PLACES]
    detail = f"Wrong: {'; '.join(places)}."
    return Problem(422, "malformed", _MALFORMED, detail).response


def _place(where: Any) -> str:
    public = {"body", "query", "path", "header", *_QUERIES, "answers", "grant"}
    return ".".join(str(one) if one in public else "..." for one in where if not isinstance(one, int))


async def _http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    title = _TITLES.get(error.status_code, "This request cannot be served.")
    return Problem(error.status_code, "http", title, headers=dict(error.headers or {})).response


def add_refusals(app: FastAPI) -> None:
    """Let an application answer errors by problems."""
    for kind in (Problem, DPEnsembleError, Exception):
        app.add_exception_handler(kind, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)


_Scope = MutableMapping[str, Any]
_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_FindSender = Callable[[_Scope], Awaitable[str | None]]

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


class _Bodies:
    """Reads bodies, and bounds the memory and processor time that they use.

    Only a sender with a valid key may send a large body, and each holder at most two at a time. Large bodies are
    processed one at a time, with rests as long as the work, because reading a body holds Python's lock and delays
    small requests. `find_sender` returns the holder of a request's key, or None.
    """

    def __init__(self, most_bytes: int, find_sender: _FindSender) -> None:
        self._most, self._find_sender = most_bytes, find_sender
        self._under_way: Counter[object] = Counter()
        self._turns = asyncio.Semaphore(1)

    @asynccontextmanager
    async def taken(self, scope: _Scope, receive: _Receive) -> AsyncIterator[bytes]:
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

    def _length(self, scope: _Scope) -> int:
        """Return the length that a request states, or 0 if it states none."""
        for name, value in scope["headers"]:
            if name == b"content-length":
                if not value.isdigit() or len(value) > 12 or int(value) > self._most:
                    raise self._too_large(self._most)
                return int(value)
        return 0

    async def _holder(self, scope: _Scope) -> str:
        try:
            holder = await self._find_sender(scope)
        except DPEnsembleError as error:
            raise Problem.of(error) from None
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


def _claim(scope: _Scope) -> tuple[bytes, ...]:
    """Return the headers that identify the sender of a request."""
    return tuple(value for name, value in scope["headers"] if name in (b"authorization", b"cookie"))


async def _read(receive: _Receive, most: int, deadline: float) -> tuple[bytes, bool]:
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


async def _drop(scope: _Scope, receive: _Receive) -> None:
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


# Seconds during which equal lines are counted, and most different lines that are counted at a time.
_PERIOD, _COUNTED = 10.0, 200


class JsonLog:
    """Lines of JSON, on standard error by default. `clock` returns seconds."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._lock = threading.Lock()
        self._repeats: Counter[tuple[str, tuple[tuple[str, object], ...]]] = Counter()
        self._since = 0.0

    def counted(self, event: str, **fields: object) -> None:
        """Write one line, or count the line if an equal line was written in this period.

        A period ends with the first of these lines after ten seconds. Then each line that was repeated is written with
        the number of its repetitions (`repeated`).
        """
        line = event, tuple(fields.items())
        with self._lock:
            is_over = self._clock() >= self._since + _PERIOD
            is_full = line not in self._repeats and len(self._repeats) >= _COUNTED
            if is_over or is_full:
                self._write_repeats()
            is_new = line not in self._repeats
            self._repeats[line] += 0 if is_new else 1
        if is_new:
            self.line(event, **fields)

    def flush(self) -> None:
        """Write the number of repetitions so far."""
        with self._lock:
            self._write_repeats()

    def _write_repeats(self) -> None:
        for (event, fields), number in self._repeats.items():
            if number:
                self.line(event, **dict(fields), repeated=number)
        self._repeats.clear()
        self._since = self._clock()

    def line(self, event: str, **fields: Any) -> None:
        """Write one line. Fields that are None are left out."""
        about = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event} | fields
        text = json.dumps({name: value for name, value in about.items() if value is not None}, default=str)
        stream = sys.stderr if self._stream is None else self._stream
        stream.write(text + "\n")
        stream.flush()


_Send = Callable[[_Message], Awaitable[None]]
_App = Callable[[_Scope, _Receive, _Send], Awaitable[None]]

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

    def __init__(
        self,
        app: _App,
        *,
        log: JsonLog,
        count: Callable[[str, str, int], None],
        most_bytes: int,
        find_sender: _FindSender,
    ) -> None:
        self._app, self._log, self._count = app, log, count
        self._bodies = _Bodies(most_bytes, find_sender)

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status: list[int] = []
        noted: dict[str, Any] = {}
        scope["dpensemble"] = noted

        async def sending(message: _Message) -> None:
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
                await _drop(scope, receive)
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
            self._count(str(scope["method"]), route, code)
            # Without a valid key, anybody may send any number of equal requests. Some are repeated for as long as a
            # sender waits.
            write = self._log.line if "key" in noted and not noted.pop(OFTEN, False) else self._log.counted
            write("request", method=str(scope["method"])[:10], route=route, status=code, **noted)


def _replayed(left: list[bytes], receive: _Receive) -> _Receive:
    """Return a function that delivers the body, and then further messages."""

    async def telling() -> _Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return await receive()

    return telling


async def _refuse(problem: Problem, send: _Send) -> None:
    body = problem.body
    headers = {"content-type": problem.MEDIA_TYPE, "content-length": str(len(body)), **problem.headers}
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
