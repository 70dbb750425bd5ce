"""What a service answers: the interface for programs, and the pages for people.

Programs use ``/v1``, JSON in and out, and get refusals as problems. Pages are rendered here, with their forms. They
work without a mouse and without scripts.
"""

import math
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qs, urlsplit

from fastapi import APIRouter, Depends, FastAPI, Header, Query, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from pydantic import BaseModel, StrictFloat, StrictInt, StrictStr
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse

from dpensemble._checks import round_up
from dpensemble._files import UnfitJSONError, parse_json
from dpensemble.aggregation.aggregator import check_key
from dpensemble.errors import BudgetError, DataError, DPEnsembleError, InvalidParameterError
from dpensemble.report.charts import Limit, Series, Words, line_chart
from dpensemble.report.wording import number
from dpensemble.server.account import AccountState, Charge, LedgerAccount
from dpensemble.server.http import BODY, PredictionReader, Problem
from dpensemble.server.service import GrantHandler, ServiceState, StoredAnswer
from dpensemble.server.sign_in import ApiKey, Scope, SignIn

#: Largest number of characters of an Idempotency-Key.
_LONGEST_KEY = 120
#: Where the schema describes the request.
_ASKED, _JSON = "#/components/schemas/Prediction", "application/json"
# The media type of counts.
_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
_bearer = HTTPBearer(
    auto_error=False, description="An API key, created by `dpensemble keys create`, or a token of an OpenID provider."
)


class Answers(BaseModel):
    """Answers to one request."""

    grant: str
    key: str
    labels: list[StrictInt | StrictFloat | bool | StrictStr | None]
    means: list[list[float]] | None


class Quote(BaseModel):
    """Joint cost of a number of answers. Epsilon is null if the answers use up the delta."""

    answers: int
    epsilon: float | None
    delta: float
    fits: bool


class Grant(BaseModel):
    """The guarantee of a grant, and what is left of it."""

    name: str
    data_set: str
    about: str
    law: str
    takes: list[str]
    columns: dict[str, str]
    classes: list[StrictInt | StrictFloat | bool | StrictStr]
    n_classes: int
    voters: int
    epsilon: float
    delta: float
    answers: int
    answered: int
    remaining: int
    guarantee: str


def _problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the schema's descriptions of refusals with these statuses."""
    content = {Problem.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    texts = {
        400: "The request is malformed.",
        401: "No valid key.",
        403: "The key or the budget does not allow it.",
        404: "Not found.",
        413: "Too large.",
        422: "Cannot be used, or the Idempotency-Key was used with another request.",
        429: "One holder sends too many large requests at once.",
        503: "The ledger cannot be used now, or the service is busy.",
    }
    return {status: {"description": texts[status], "content": content} for status in statuses}


def asker(sign_in: SignIn, scope: Scope) -> Callable[..., Awaitable[ApiKey]]:
    """Return a dependency that identifies the sender, and refuses a sender without the scope."""

    async def who(request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]) -> ApiKey:
        key = None if given is None else await sign_in.key_of_token(given.credentials)
        if key is None:
            raise Problem(
                401,
                "no-key",
                "A valid API key is required.",
                "Send it as 'Authorization: Bearer KEY'.",
                headers={"WWW-Authenticate": "Bearer"},
            )
        request.scope["dpensemble"]["key"] = key.id
        if not key.may(scope):
            raise Problem(
                403, "scope", "This key does not allow this request.", f"It requires the scope '{scope.value}'."
            )
        return key

    return who


def _handler_for(service: ServiceState, key: ApiKey, name: str, noted: dict[str, Any]) -> GrantHandler:
    """Return the handler of a grant. A grant that the key does not cover is not found."""
    handler = service.handlers.get(name)
    if handler is None or not key.covers(name):
        raise Problem(
            404, "no-grant", "There is no such grant for this key.", "GET /v1/grants lists the grants of the key."
        )
    noted["grant"] = name
    return handler


def _predicted(
    service: ServiceState, key: ApiKey, handler: GrantHandler, request_key: str, queries: Any, noted: dict[str, Any]
) -> StoredAnswer:
    """Return answers, after counting and logging them."""
    name = handler.grant.name
    try:
        stored = handler.predict(key.holder, request_key, queries)
    except BudgetError:
        service.metrics.refused(name)
        noted["refused"] = "budget"
        raise
    noted |= {"answers": len(stored.answer.labels), "replayed": stored.answer.replayed}
    service.metrics.answered(name, len(stored.answer.labels), replayed=stored.answer.replayed)
    return stored


def add_routes(app: FastAPI, service: ServiceState) -> None:
    """Add the interface for programs, its schema, and the pages for people to an application."""
    router = APIRouter(redirect_slashes=False)
    for add in (_add_operation, _add_grants, _add_predictions, _add_owners):
        add(router, service)
    app.include_router(router)
    app.include_router(_page_routes(service), include_in_schema=False)
    app.openapi = lambda: _schema(app, service)  # type: ignore[method-assign]


def _schema(app: FastAPI, service: ServiceState) -> dict[str, Any]:
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
        schema["components"]["schemas"]["Problem"] = Problem.SCHEMA
        schema["components"]["schemas"]["Prediction"] = service.predictions.schema
        for parameter in schema["paths"]["/v1/grants/{grant}/predictions"]["post"]["parameters"]:
            if parameter["name"] == "idempotency-key":
                # A missing key has its own refusal. So the code allows a missing key, but the schema must not.
                text = {"type": "string", "minLength": 1, "maxLength": _LONGEST_KEY}
                parameter.update(required=True, schema=text)
        for name in ("HTTPValidationError", "ValidationError"):
            schema["components"]["schemas"].pop(name, None)
        app.openapi_schema = schema
    return app.openapi_schema


def _add_operation(router: APIRouter, service: ServiceState) -> None:
    @router.get("/health", tags=["operation"], responses=_problems(503))
    async def health() -> dict[str, str]:
        """Report whether the ledger can be used, has all entries seen so far, and shows no sign of a change.

        Writes nothing: of the state folder it reports the last write.
        """
        await service.pools.health.run(service.ledger.check)
        return {"status": "ok"}

    @router.get("/metrics", tags=["operation"], response_class=Response, responses=_text_of_metrics())
    async def metrics(key: Annotated[ApiKey, Depends(asker(service.sign_in, Scope.METRICS))]) -> Response:
        """Return counts for Prometheus. A key for some grants gets only the counts of these grants."""
        text = await service.pools.reads.run(lambda: service.metrics.text(key.grants))
        return Response(text, media_type=_PROMETHEUS)


def _add_grants(router: APIRouter, service: ServiceState) -> None:
    reader = Depends(asker(service.sign_in, Scope.READ))

    @router.get("/v1/grants", tags=["grants"], response_model=list[Grant], responses=_problems(401, 403, 503))
    async def grants(key: Annotated[ApiKey, reader]) -> list[dict[str, Any]]:
        """List the grants that this key covers."""
        covered = [handler for name, handler in service.handlers.items() if key.covers(name)]
        return await service.pools.reads.run(lambda: [handler.to_dict() for handler in covered])

    @router.get(
        "/v1/grants/{grant}", tags=["grants"], response_model=Grant, responses=_problems(401, 403, 404, 422, 503)
    )
    async def one_grant(request: Request, grant: str, key: Annotated[ApiKey, reader]) -> dict[str, Any]:
        """Return the guarantee of a grant, and what is left of it."""
        return await service.pools.reads.run(_handler_for(service, key, grant, request.scope["dpensemble"]).to_dict)

    @router.get(
        "/v1/grants/{grant}/quote", tags=["grants"], response_model=Quote, responses=_problems(401, 403, 404, 422, 503)
    )
    async def quote(
        request: Request, grant: str, key: Annotated[ApiKey, reader], answers: Annotated[int, Query(ge=1)]
    ) -> dict[str, Any]:
        """Return the joint cost of a number of answers. A quote reads no data and charges nothing."""
        handler = _handler_for(service, key, grant, request.scope["dpensemble"])
        return await service.pools.quotes.run(lambda: handler.quote(answers))


def _add_predictions(router: APIRouter, service: ServiceState) -> None:
    @router.post(
        "/v1/grants/{grant}/predictions",
        tags=["predictions"],
        response_model=Answers,
        responses=_problems(400, 401, 403, 404, 413, 422, 429, 503),
        openapi_extra={"requestBody": {"required": True, "content": {_JSON: {"schema": {"$ref": _ASKED}}}}},
    )
    async def predict(
        request: Request,
        grant: str,
        key: Annotated[ApiKey, Depends(asker(service.sign_in, Scope.PREDICT))],
        idempotency_key: Annotated[
            str | None, Header(description="Name of this request. Repeating it returns the same answer at no cost.")
        ] = None,
    ) -> Response:
        """Charge for a batch of queries, answer with noise, and store the answer.

        A repeated request with the same Idempotency-Key and body returns identical bytes and is charged only once.
        """
        noted = request.scope["dpensemble"]

        def answer() -> StoredAnswer:
            given = service.predictions.of_request(request)
            handler = _handler_for(service, key, grant, noted)
            return _predicted(service, key, handler, _request_key(idempotency_key), given, noted)

        stored = await service.pools.writes.run(answer)
        return Response(
            stored.body,
            media_type=_JSON,
            headers={"Idempotent-Replayed": "true" if stored.answer.replayed else "false"},
        )


def _add_owners(router: APIRouter, service: ServiceState) -> None:
    @router.get("/v1/budgets", tags=["owner"], responses=_problems(401, 403, 503))
    async def budgets(key: Annotated[ApiKey, Depends(asker(service.sign_in, Scope.READ))]) -> list[dict[str, Any]]:
        """Return what is left of each data set. Only owners see groups and people."""

        def shown() -> list[dict[str, Any]]:
            return [
                state.to_dict()
                for account in service.accounts(key)
                for state in account.states()
                if state.whom == "everyone" or key.may(Scope.OWN)
            ]

        return await service.pools.reads.run(shown)

    @router.get("/v1/checkpoint", tags=["owner"], responses=_problems(401, 403, 503))
    async def checkpoint(key: Annotated[ApiKey, Depends(asker(service.sign_in, Scope.OWN))]) -> dict[str, Any]:
        """Sign the ledger's last entry. Store the file away from the ledger, for 'dpensemble ledger verify'."""
        if not key.may_see_all:
            raise Problem(
                403, "scope", "This key does not allow this request.", "It requires the scope 'own' for all grants."
            )
        return await service.pools.reads.run(service.ledger.checkpoint)


def _request_key(name: str | None) -> str:
    """Return the name of a request. Raise if it is missing or not printable text."""
    if name is None:
        raise Problem(
            400,
            "idempotency-key-missing",
            "An Idempotency-Key is required; nothing was charged.",
            "Send a new name with every new request, such as a UUID, and the same name when you try again.",
        )
    if len(name) > _LONGEST_KEY:
        raise DataError(f"the Idempotency-Key must have at most {_LONGEST_KEY} characters: send a shorter one.")
    try:
        return check_key(name)
    except DataError:
        raise DataError(f"the Idempotency-Key must be printable text of 1 to {_LONGEST_KEY} characters.") from None


def _text_of_metrics() -> dict[int | str, dict[str, Any]]:
    counts = {"description": "Counts.", "content": {"text/plain": {"schema": {"type": "string"}}}}
    return {200: counts, **_problems(401, 403, 503)}


# Most fields of a form. Longer queries are typed as JSON.
_MOST_FIELDS = 40
_FORM = "application/x-www-form-urlencoded"


def _read_form(request: Request) -> dict[str, str]:
    """Return the last entry of each field of a form that was sent, or raise."""
    if request.headers.get("content-type", "").split(";")[0].strip() != _FORM:
        raise Problem(415, "form", "A form is required.")
    try:
        values_of = parse_qs(request.scope[BODY].decode(), keep_blank_values=True, max_num_fields=10_000)
    except ValueError:
        raise Problem(400, "form", "The form cannot be read.") from None
    return {name: values[-1] for name, values in values_of.items()}


def _fields_of(handler: GrantHandler) -> list[dict[str, str]]:
    """Return the fields of a form, or nothing if there are too many and the form takes JSON."""
    if handler.house is not None and len(handler.house.columns) <= _MOST_FIELDS:
        return [{"name": name, "kind": kind} for name, kind in handler.house.columns.items()]
    if "counts" in handler.kinds and len(handler.classes) <= _MOST_FIELDS:
        return [{"name": str(label), "kind": "whole"} for label in handler.classes]
    return []


def _queries_of_form(reader: PredictionReader, handler: GrantHandler, form: dict[str, str]) -> dict[str, Any]:
    """Return the queries of a form, in the format of the interface for programs."""
    fields = _fields_of(handler)
    if not fields:
        try:
            queries = parse_json(form.get("json", ""), special_numbers=True)
        except UnfitJSONError:
            raise DataError("the queries must be JSON: write them as the example shows.") from None
        if not isinstance(queries, list):
            raise DataError("the JSON must be a list of queries.")
        return reader.of_entries(handler.kinds[0], queries)
    values = [_entry(form.get(f"field-{place}", "").strip(), one) for place, one in enumerate(fields)]
    if handler.house is None:
        return reader.of_entries("counts", [values])
    return reader.of_entries("rows", [{one["name"]: value for one, value in zip(fields, values, strict=True)}])


def _entry(text: str, field: dict[str, str]) -> Any:
    if field["kind"] == "text":
        return text or None
    if field["kind"] == "whole":
        return _whole_number(text or "0")
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise DataError(f"{field['name']} must be a number.") from None


def _whole_number(text: str) -> int:
    """Return a typed whole number, or raise."""
    if not (text.isascii() and text.isdecimal() and len(text) < 12):
        raise DataError("the number must be a whole number.")
    return int(text)


_PORTS = {"http": 80, "https": 443}

_environment = Environment(
    loader=PackageLoader("dpensemble", "server/templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.filters["number"] = number
_environment.filters["up"] = lambda value: number(round_up(value, 4), 4)


class _PageRequest:
    """One request for a page: its sender and the content of its form."""

    def __init__(self, service: ServiceState, request: Request, form: dict[str, str]) -> None:
        self.service, self.request, self.form = service, request, form
        self.sessions = service.sign_in.sessions
        self.cookie = request.cookies.get(self.sessions.COOKIE, "")
        self.key = self.sessions.of(self.cookie)
        self.noted: dict[str, Any] = request.scope["dpensemble"]
        if self.key is not None:
            self.noted["key"] = self.key.id

    def page(self, template: str, status: int = 200, **view: Any) -> Response:
        """Return a page."""
        about = {
            "holder": None if self.key is None else self.key.holder,
            "token": self.sessions.form_token(self.cookie),
        }
        return HTMLResponse(_environment.get_template(template).render({**about, **view}), status)

    def may(self, scope: Scope) -> bool:
        """Return whether somebody with a scope is logged in."""
        return self.key is not None and self.key.may(scope)

    @property
    def is_sent_from_here(self) -> bool:
        """Whether the form was sent from a page of this service, according to the browser."""
        headers = self.request.headers
        if "sec-fetch-site" in headers:
            return headers["sec-fetch-site"] in ("same-origin", "none")
        # Older browsers, and all browsers if a page came over plain HTTP on a network, send less information.
        origin = headers.get("origin", headers.get("referer"))
        return origin is None or _is_of_host(origin, headers.get("host", ""))

    @property
    def is_own_form(self) -> bool:
        """Whether the form was made for this session and sent from a page of this service."""
        return self.is_sent_from_here and self.sessions.is_own_form(self.cookie, self.form.get("token", ""))


def _is_of_host(address: str, host: str) -> bool:
    """Return whether the address of a page, or its origin, has the host and port in a header."""
    try:
        page = urlsplit(address)
        here = urlsplit(f"{page.scheme}://{host}")
        usual = _PORTS.get(page.scheme)
        same = (page.hostname, page.port or usual) == (here.hostname, here.port or usual)
        return same and bool(page.hostname) and usual is not None
    except ValueError:
        return False


def _carried_out(visit: _PageRequest, work: Callable[[_PageRequest], Response]) -> Response:
    """Return a page, or a page with the reason of a refusal."""
    try:
        return work(visit)
    except (Problem, DPEnsembleError) as error:
        problem = Problem.of(error)
        if problem.status >= 500:
            visit.noted["error"] = type(error).__name__
            visit.noted["reason"] = str(error)
        return visit.page("problem.html", problem.status, title=problem.title, detail=problem.detail)


_STATIC = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
# Most charges in the list, newest first.
_LISTED = 20


def _page_routes(service: ServiceState) -> APIRouter:
    """Return the pages of a running service."""
    router = APIRouter(redirect_slashes=False)

    def runner(
        request: Request, work: Callable[[_PageRequest], Response]
    ) -> Callable[[Callable[[], Response]], Awaitable[Response]]:
        """Return what runs the work of a page. Only a session opens the pools of those with a key."""
        pools, sessions = service.pools, service.sign_in.sessions
        if sessions.of(request.cookies.get(sessions.COOKIE, "")) is None:
            return pools.strangers.run
        if work in (_show_grant, _show_quote):
            return pools.quotes.run
        return pools.writes.run if work is _show_prediction else pools.reads.run

    def show(path: str, method: str, work: Callable[[_PageRequest], Response]) -> None:
        async def serve(request: Request) -> Response:
            def visit() -> Response:
                form = _read_form(request) if method == "POST" else {}
                return _carried_out(_PageRequest(service, request, form), work)

            return await runner(request, work)(visit)

        router.add_api_route(path, serve, methods=[method], name=work.__name__, response_model=None)

    show("/", "GET", _overview)
    show("/login", "POST", _login)
    show("/logout", "POST", _logout)
    show("/grants/{grant}", "GET", _show_grant)
    show("/grants/{grant}/quote", "GET", _show_quote)
    show("/grants/{grant}", "POST", _show_prediction)
    for name, media_type in _STATIC.items():
        _add_static(router, name, media_type)
    return router


def _add_static(router: APIRouter, name: str, media_type: str) -> None:
    content = (Path(__file__).parent / "static" / name).read_bytes()

    async def serve() -> Response:
        return Response(content, media_type=media_type, headers={"cache-control": "max-age=3600"})

    router.add_api_route(f"/static/{name}", serve, methods=["GET"], name=name, response_model=None)


def _overview(visit: _PageRequest) -> Response:
    key = visit.key
    if key is None:
        return visit.page("login.html", wrong=False)
    if not key.may(Scope.READ):
        return visit.page("problem.html", 403, title="This key is not for the page.", detail="It requires 'read'.")
    service = visit.service
    handlers = [handler.to_dict() for name, handler in service.handlers.items() if key.covers(name)]
    accounts = [_account(place, one, key) for place, one in enumerate(service.accounts(key))]
    return visit.page("overview.html", grants=handlers, accounts=accounts, is_owner=key.may_see_all)


def _account(place: int, account: LedgerAccount, key: ApiKey) -> dict[str, Any]:
    states, charges = account.states(), account.history()
    shared = next(one for one in states if one.whom == "everyone")
    shown = states if key.may(Scope.OWN) else [shared]
    listed = [one for one in charges if _may_see(key, one)]
    return {
        "name": account.data_set,
        "epsilon": shared.terms.budget.epsilon,
        "delta": shared.terms.budget.delta,
        "unit": shared.terms.unit,
        "states": [{"whom": one.whom, "left": one.share_left, "fits": one.fitting_words} for one in shown],
        # The chart shows every charge, including those of grants that a key does not cover.
        "chart": None if key.grants else _history_chart(f"history-{place}", account.data_set, shared, charges),
        "charges": [
            {
                "number": one.number,
                "what": one.what if one.name is None else f"{one.what}, grant {one.name}",
                "whom": one.whom,
                "time": one.time,
                "share": one.amount.loss / shared.terms.limit.loss,
            }
            for one in reversed(listed[-_LISTED:])
        ],
        "n_charges": len(listed),
    }


def _may_see(key: ApiKey, charge: Charge) -> bool:
    """Return whether a charge is of a grant that a key covers. Only owners see charges of groups and people."""
    if key.grants and (charge.name is None or not key.covers(charge.name)):
        return False
    return key.may(Scope.OWN) or charge.whom == "everyone"


def _history_chart(ident: str, data_set: str, state: AccountState, charges: list[Charge]) -> Markup:
    """Draw the spending of a data set, charge by charge, oldest first. `ident` is unique on the page."""
    limit, spent, points = state.terms.limit.loss, 0, [(0.0, 0.0)]
    shared = [one for one in charges if one.whom == state.whom]
    for count, charge in enumerate(shared, start=1):
        points.append((float(count), 100 * spent / limit))
        spent += charge.amount.loss
        points.append((float(count), 100 * spent / limit))
    words = Words(ident, f"What was spent of {data_set}", "releases", "% of the budget")
    return line_chart([Series("spent", points, "main")], [Limit("whole budget", 100.0)], words)


def _login(visit: _PageRequest) -> Response:
    if not visit.is_sent_from_here:
        raise Problem(403, "form", "This form was not sent from this service.", "Give your API key on the first page.")
    key = visit.service.sign_in.ring.of(visit.form.get("key", "").strip())
    if key is None:
        return visit.page("login.html", 401, wrong=True)
    visit.noted["key"] = key.id
    response = RedirectResponse("/", 303)
    cookie = visit.sessions.begin(key)
    response.set_cookie(visit.sessions.COOKIE, cookie, httponly=True, samesite="strict", secure=_is_secure(visit))
    return response


def _logout(visit: _PageRequest) -> Response:
    if not visit.is_own_form:
        raise Problem(403, "form", "This form was not made for this session.", "Load the page again.")
    response = RedirectResponse("/", 303)
    response.delete_cookie(visit.sessions.COOKIE, httponly=True, samesite="strict", secure=_is_secure(visit))
    visit.sessions.end(visit.cookie)
    return response


def _is_secure(visit: _PageRequest) -> bool:
    # The scheme is not enough: a proxy's header is trusted only from this machine.
    return visit.service.settings.secure_cookie is not False or visit.request.url.scheme == "https"


def _handler(visit: _PageRequest, scope: Scope) -> GrantHandler:
    if visit.key is None:
        raise Problem(401, "no-key", "Log in first.", "Give your API key on the first page.")
    if not visit.may(scope):
        raise Problem(403, "scope", "Your key does not allow this.", f"It requires the scope '{scope.value}'.")
    return _handler_for(visit.service, visit.key, visit.request.path_params["grant"], visit.noted)


def _show_grant(visit: _PageRequest) -> Response:
    handler = _handler(visit, Scope.READ)
    return _grant_page(visit, handler, asked=visit.request.query_params.get("answers"))


def _grant_page(
    visit: _PageRequest, handler: GrantHandler, status: int = 200, asked: str | None = None, **view: Any
) -> Response:
    about, wrong = handler.to_dict(), view.pop("wrong", None)
    quote = handler.quote(max(1, about["remaining"]))
    if asked is not None:
        try:
            quote = handler.quote(_whole_number(asked))
        except (DataError, InvalidParameterError) as error:
            wrong, status = str(error), 422
    shown = {
        "grant": about,
        "sentences": handler.promise,
        "quote": quote,
        "said": _quote_words(quote),
        "farthest": min(handler.farthest, max(2 * handler.most, 10)),
        "fields": _fields_of(handler),
        "request_key": secrets.token_hex(8),
        "may_predict": visit.may(Scope.PREDICT),
        "wrong": wrong,
        "told": None,
        "given": {},
    }
    return visit.page("grant.html", status, **{**shown, **view})


def _quote_words(quote: dict[str, Any]) -> str:
    """Return a quote as a sentence."""
    answers, epsilon = quote["answers"], quote["epsilon"]
    cost = "use up the delta" if epsilon is None else f"cost epsilon {math.ceil(epsilon * 1000) / 1000:g}"
    fits = "which the grant covers" if quote["fits"] else "more than the grant covers"
    noun = "answer" if answers == 1 else "answers"
    cost = cost.replace("cost", "costs").replace("use up", "uses up") if answers == 1 else cost
    return f"{answers:,} {noun} {cost} at delta {quote['delta']:g}, {fits}."


def _show_quote(visit: _PageRequest) -> Response:
    handler = _handler(visit, Scope.READ)
    quote = handler.quote(_whole_number(visit.request.query_params.get("answers", "")))
    return JSONResponse({**quote, "words": _quote_words(quote)})


def _show_prediction(visit: _PageRequest) -> Response:
    handler = _handler(visit, Scope.PREDICT)
    key = visit.key
    assert key is not None  # noqa: S101
    if not visit.is_own_form:
        raise Problem(
            403, "form", "This form was not made for this session; nothing was charged.", "Load the page again."
        )
    typed = {name: value for name, value in visit.form.items() if name not in ("token", "request_key")}
    try:
        name = _request_key(visit.form.get("request_key"))
        queries = _queries_of_form(visit.service.predictions, handler, visit.form)
        stored = _predicted(visit.service, key, handler, name, queries, visit.noted)
    except (DataError, InvalidParameterError, BudgetError) as error:
        status = Problem.of(error).status
        return _grant_page(visit, handler, status, wrong=str(error), given=typed, request_key=visit.form["request_key"])
    labels = ["no answer" if one is None else str(one) for one in stored.answer.labels]
    means = stored.answer.means
    return _grant_page(visit, handler, told={"labels": labels, "means": means, "replayed": stored.answer.replayed})
