"""The pages for people, rendered here, and their forms. They work without a mouse and without scripts."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fastapi import APIRouter, Request
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from pydantic import BaseModel, ValidationError
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from dpensemble._checks import round_up
from dpensemble._files import UnfitJSONError, parse_json
from dpensemble.errors import BudgetError, DataError, DPEnsembleError, InvalidParameterError
from dpensemble.report.charts import Limit, Series, Words, line_chart
from dpensemble.report.wording import number
from dpensemble.server.account import AccountState, Charge, LedgerAccount
from dpensemble.server.api import handler_for, predicted, request_key
from dpensemble.server.grants import GrantHandler
from dpensemble.server.http import BODY, Problem, problem_of
from dpensemble.server.service import Pool, ServiceState
from dpensemble.server.sign_in import COOKIE, ApiKey, Scope

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


def _queries_of_form(model: type[BaseModel], handler: GrantHandler, form: dict[str, str]) -> dict[str, Any]:
    """Return the queries of a form, in the format of the interface for programs."""
    fields = _fields_of(handler)
    if not fields:
        try:
            queries = parse_json(form.get("json", ""), special_numbers=True)
        except UnfitJSONError:
            raise DataError("the queries must be JSON: write them as the example shows.") from None
        if not isinstance(queries, list):
            raise DataError("the JSON must be a list of queries.")
        return _checked(model, handler.kinds[0], queries)
    values = [_entry(form.get(f"field-{place}", "").strip(), one) for place, one in enumerate(fields)]
    if handler.house is None:
        return _checked(model, "counts", [values])
    return _checked(model, "rows", [{one["name"]: value for one, value in zip(fields, values, strict=True)}])


def _checked(model: type[BaseModel], kind: str, entries: list[Any]) -> dict[str, Any]:
    """Return queries in the format of the interface for programs. Raise without quoting them if they are malformed."""
    try:
        return dict(model.model_validate({kind: entries}))
    except ValidationError:
        raise DataError(f"{kind} must match the schema; GET /openapi.json describes it.") from None


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
        self.cookie = request.cookies.get(COOKIE, "")
        self.key = service.sessions.of(self.cookie)
        self.noted: dict[str, Any] = request.scope["dpensemble"]
        if self.key is not None:
            self.noted["key"] = self.key.id

    def page(self, template: str, status: int = 200, **view: Any) -> Response:
        """Return a page."""
        about = {
            "holder": None if self.key is None else self.key.holder,
            "token": self.service.sessions.form_token(self.cookie),
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
        return self.is_sent_from_here and self.service.sessions.is_own_form(self.cookie, self.form.get("token", ""))


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
        problem = problem_of(error)
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


def routes(service: ServiceState) -> APIRouter:
    """Return the pages of a running service."""
    router = APIRouter(redirect_slashes=False)

    def pool(request: Request, work: Callable[[_PageRequest], Response]) -> Pool:
        """Return the pool for a page. Only a session opens the pools of those with a key."""
        pools = service.pools
        if service.sessions.of(request.cookies.get(COOKIE, "")) is None:
            return pools.strangers
        if work in (_grant, _quote):
            return pools.quotes
        return pools.writes if work is _predict else pools.reads

    def show(path: str, method: str, work: Callable[[_PageRequest], Response]) -> None:
        async def serve(request: Request) -> Response:
            def visit() -> Response:
                form = _read_form(request) if method == "POST" else {}
                return _carried_out(_PageRequest(service, request, form), work)

            return await pool(request, work).run(visit)

        router.add_api_route(path, serve, methods=[method], name=work.__name__, response_model=None)

    show("/", "GET", _overview)
    show("/login", "POST", _login)
    show("/logout", "POST", _logout)
    show("/grants/{grant}", "GET", _grant)
    show("/grants/{grant}/quote", "GET", _quote)
    show("/grants/{grant}", "POST", _predict)
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
    key = visit.service.ring.of(visit.form.get("key", "").strip())
    if key is None:
        return visit.page("login.html", 401, wrong=True)
    visit.noted["key"] = key.id
    response = RedirectResponse("/", 303)
    cookie = visit.service.sessions.begin(key)
    response.set_cookie(COOKIE, cookie, httponly=True, samesite="strict", secure=_is_secure(visit))
    return response


def _logout(visit: _PageRequest) -> Response:
    if not visit.is_own_form:
        raise Problem(403, "form", "This form was not made for this session.", "Load the page again.")
    response = RedirectResponse("/", 303)
    response.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=_is_secure(visit))
    visit.service.sessions.end(visit.cookie)
    return response


def _is_secure(visit: _PageRequest) -> bool:
    # The scheme is not enough: a proxy's header is trusted only from this machine.
    return visit.service.settings.secure_cookie is not False or visit.request.url.scheme == "https"


def _handler(visit: _PageRequest, scope: Scope) -> GrantHandler:
    if visit.key is None:
        raise Problem(401, "no-key", "Log in first.", "Give your API key on the first page.")
    if not visit.may(scope):
        raise Problem(403, "scope", "Your key does not allow this.", f"It requires the scope '{scope.value}'.")
    return handler_for(visit.service, visit.key, visit.request.path_params["grant"], visit.noted)


def _grant(visit: _PageRequest) -> Response:
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


def _quote(visit: _PageRequest) -> Response:
    handler = _handler(visit, Scope.READ)
    quote = handler.quote(_whole_number(visit.request.query_params.get("answers", "")))
    return JSONResponse({**quote, "words": _quote_words(quote)})


def _predict(visit: _PageRequest) -> Response:
    handler = _handler(visit, Scope.PREDICT)
    key = visit.key
    assert key is not None  # noqa: S101
    if not visit.is_own_form:
        raise Problem(
            403, "form", "This form was not made for this session; nothing was charged.", "Load the page again."
        )
    typed = {name: value for name, value in visit.form.items() if name not in ("token", "request_key")}
    try:
        name = request_key(visit.form.get("request_key"))
        queries = _queries_of_form(visit.service.prediction, handler, visit.form)
        stored = predicted(visit.service, key, handler, name, queries, visit.noted)
    except (DataError, InvalidParameterError, BudgetError) as error:
        status = problem_of(error).status
        return _grant_page(visit, handler, status, wrong=str(error), given=typed, request_key=visit.form["request_key"])
    labels = ["no answer" if one is None else str(one) for one in stored.answer.labels]
    means = stored.answer.means
    return _grant_page(visit, handler, told={"labels": labels, "means": means, "replayed": stored.answer.replayed})
