"""A box of messages over HTTP: senders with keys put messages under their names, and get those of all senders.

The box decides which names a sender may put and how large a message may be. This service never reads a message.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Protocol, TextIO

from fastapi import Depends, FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool

from dpensemble.errors import FileError
from dpensemble.server.api import asker
from dpensemble.server.app import listen
from dpensemble.server.http import BODY, OFTEN, Guard, JsonLog, Problem, add_refusals
from dpensemble.server.sign_in import ApiKey, Scope, SignIn

#: Path of the list of messages. A message's name follows behind a slash.
PATH = "/v1/messages"
_BYTES = "application/octet-stream"


class Box(Protocol):
    """Where messages are stored."""

    #: Most bytes of one message that a sender puts.
    most_bytes: int

    def largest(self, sender: str, name: str) -> int | None:
        """Return how many bytes a message of a sender may have, or None if the sender may not put it."""
        ...

    def put(self, sender: str, name: str, content: bytes) -> bool:
        """Store a message. Return False, and store nothing, if the sender has used up its room."""
        ...

    def get(self, name: str) -> bytes | None:
        """Return a message, or None if it is missing or cannot be read."""
        ...

    def stamps(self) -> dict[str, str]:
        """Return the names of all messages, each with a text that changes when the message does."""
        ...


def create_mailbox(box: Box, keys: Path, stream: TextIO | None = None) -> Guard:
    """Return the service of a box as an ASGI application.

    Parameters
    ----------
    box : Box
        Messages.
    keys : Path
        File of API keys. A key with the scope ``messages`` is for the sender that is its holder.
    stream : file, optional
        Destination of the log. Standard error by default.
    """
    # Nobody signs in by a page, so the secret of sessions is thrown away.
    sign_in = SignIn(keys, os.urandom(32), None, run_in_threadpool)
    log = JsonLog(stream)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        log.line("started", messages=len(box.stamps()))
        yield
        log.flush()
        log.line("stopped")

    app = FastAPI(title="dpensemble messages", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    _add_routes(app, box, sign_in)
    add_refusals(app)
    return Guard(
        app,
        log=log,
        count=lambda *_: None,
        most_bytes=box.most_bytes,
        find_sender=sign_in.holder_of_request,
    )


def _add_routes(app: FastAPI, box: Box, sign_in: SignIn) -> None:
    sender = Depends(asker(sign_in, Scope.MESSAGES))

    # FastAPI runs functions that are not coroutines in threads, since disks may be slow.
    @app.get(PATH)
    def listed(request: Request, _: Annotated[ApiKey, sender]) -> dict[str, str]:
        request.scope["dpensemble"][OFTEN] = True
        return box.stamps()

    @app.get(PATH + "/{name}")
    def fetched(name: str, _: Annotated[ApiKey, sender]) -> Response:
        content = box.get(name)
        if content is None:
            raise Problem(404, "no-message", "There is no such message.")
        return Response(content, media_type=_BYTES)

    @app.put(PATH + "/{name}")
    def stored(name: str, request: Request, key: Annotated[ApiKey, sender]) -> Response:
        largest, content = box.largest(key.holder, name), request.scope[BODY]
        if largest is None:
            raise Problem(
                403, "name", "This key does not allow a message of this name.", f"It is a key of {key.holder}."
            )
        if len(content) > largest:
            raise Problem(413, "too-large", "The message is too large.", f"At most {largest:,} bytes are accepted.")
        try:
            has_room = box.put(key.holder, name, content)
        except FileError:
            # Its text names files of this machine.
            raise Problem(503, "unavailable", "The message cannot be stored now.", "Send it again later.") from None
        if not has_room:
            raise Problem(413, "no-room", "This sender has used up its room for messages.")
        return Response(status_code=204)


def serve_mailbox(
    box: Box,
    keys: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    certificate: Path | None = None,
    certificate_key: Path | None = None,
) -> None:
    """Serve a box until the process is stopped. See `dpensemble.server.app.listen`."""
    listen(
        lambda: create_mailbox(box, keys),
        host=host,
        port=port,
        certificate=certificate,
        certificate_key=certificate_key,
    )
