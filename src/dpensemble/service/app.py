"""The application: routes, refusals and their schema."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TextIO

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException

from dpensemble.errors import DPEnsembleError, known_text
from dpensemble.service import api, pages
from dpensemble.service.grant_handler import KINDS
from dpensemble.service.guard import App, Guard
from dpensemble.service.problems import MEDIA_TYPE, SCHEMA, Problem, problem_of
from dpensemble.service.settings import ServiceSettings
from dpensemble.service.state import ServiceState

_TITLES = {400: "The request is malformed.", 404: "There is nothing here.", 405: "This method is not allowed here."}
# The validator's texts that do not quote the request.
_MOST_PLACES = 5


def create_app(settings: ServiceSettings, stream: TextIO | None = None) -> App:
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
    app.include_router(api.routes(service))
    app.include_router(pages.routes(service), include_in_schema=False)
    for kind, handler in _HANDLERS.items():
        app.add_exception_handler(kind, handler)
    app.openapi = lambda: _schema(app)  # type: ignore[method-assign]
    return Guard(
        app, log=service.log, metrics=service.metrics, most_bytes=settings.most_bytes, find_sender=service.sender
    )


def respond(problem: Problem) -> Response:
    """Return a refusal as a response."""
    return Response(problem.body, problem.status, media_type=MEDIA_TYPE, headers=problem.headers)


async def _refused(request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    if problem.status >= 500:
        # For the operator: these texts name files, not data.
        request.scope["dpensemble"]["error"] = type(error).__name__
        request.scope["dpensemble"]["reason"] = known_text(error)
    return respond(problem)


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    # The place of the error, and never the content: not even names, which may be sent by mistake.
    places = sorted({_place(one["loc"]) + f" ({one['type']})" for one in error.errors()})[:_MOST_PLACES]
    detail = f"Wrong: {'; '.join(places)}."
    return respond(Problem(422, "malformed", api.MALFORMED, detail))


def _place(where: Any) -> str:
    public = {"body", "query", "path", "header", *KINDS, "answers", "grant"}
    return ".".join(str(one) if one in public else "..." for one in where if not isinstance(one, int))


async def _http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    title = _TITLES.get(error.status_code, "This request cannot be served.")
    return respond(Problem(error.status_code, "http", title, headers=dict(error.headers or {})))


_HANDLERS: dict[Any, Any] = {
    Problem: _refused,
    DPEnsembleError: _refused,
    RequestValidationError: _invalid,
    HTTPException: _http,
    Exception: _refused,
}


def _schema(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
        schema["components"]["schemas"]["Problem"] = SCHEMA
        schema["components"]["schemas"]["Prediction"] = app.state.service.prediction.model_json_schema()
        for parameter in schema["paths"]["/v1/grants/{grant}/predictions"]["post"]["parameters"]:
            if parameter["name"] == "idempotency-key":
                # A missing key has its own refusal. So the code allows a missing key, but the schema must not.
                text = {"type": "string", "minLength": 1, "maxLength": api.LONGEST_KEY}
                parameter.update(required=True, schema=text)
        for name in ("HTTPValidationError", "ValidationError"):
            schema["components"]["schemas"].pop(name, None)
        app.openapi_schema = schema
    return app.openapi_schema
