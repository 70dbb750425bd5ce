"""The page for people, rendered here. It works without a mouse and without scripts."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from markupsafe import Markup
from starlette.responses import JSONResponse, RedirectResponse, Response

from dpensemble.errors import BudgetError, DataError, InvalidParameterError
from dpensemble.ledger import AccountState, Charge, LedgerAccount
from dpensemble.report.charts import Limit, Series, Words, line_chart
from dpensemble.service.api import handler_for, predicted, request_key
from dpensemble.service.forms import fields_of, queries_of_form, read_form, whole_number
from dpensemble.service.grant_handler import GrantHandler
from dpensemble.service.keys import ApiKey, Scope
from dpensemble.service.pools import Pool
from dpensemble.service.problems import Problem, problem_of
from dpensemble.service.sessions import COOKIE
from dpensemble.service.state import ServiceState
from dpensemble.service.visits import Visit, carried_out

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

    def pool(request: Request, work: Callable[[Visit], Response]) -> Pool:
        """Return the pool for a page. Only a session opens the pools of those with a key."""
        pools = service.pools
        if service.sessions.of(request.cookies.get(COOKIE, "")) is None:
            return pools.strangers
        if work in (_grant, _quote):
            return pools.quotes
        return pools.writes if work is _predict else pools.reads

    def show(path: str, method: str, work: Callable[[Visit], Response]) -> None:
        async def serve(request: Request) -> Response:
            def visit() -> Response:
                form = read_form(request) if method == "POST" else {}
                return carried_out(Visit(service, request, form), work)

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


def _overview(visit: Visit) -> Response:
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
        "chart": None if key.grants else history_chart(f"history-{place}", account.data_set, shared, charges),
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


def history_chart(ident: str, data_set: str, state: AccountState, charges: list[Charge]) -> Markup:
    """Draw the spending of a data set, charge by charge, oldest first. `ident` is unique on the page."""
    limit, spent, points = state.terms.limit.loss, 0, [(0.0, 0.0)]
    shared = [one for one in charges if one.whom == state.whom]
    for count, charge in enumerate(shared, start=1):
        points.append((float(count), 100 * spent / limit))
        spent += charge.amount.loss
        points.append((float(count), 100 * spent / limit))
    words = Words(ident, f"What was spent of {data_set}", "releases", "% of the budget")
    return line_chart([Series("spent", points, "main")], [Limit("whole budget", 100.0)], words)


def _login(visit: Visit) -> Response:
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


def _logout(visit: Visit) -> Response:
    if not visit.is_own_form:
        raise Problem(403, "form", "This form was not made for this session.", "Load the page again.")
    response = RedirectResponse("/", 303)
    response.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=_is_secure(visit))
    visit.service.sessions.end(visit.cookie)
    return response


def _is_secure(visit: Visit) -> bool:
    # The scheme is not enough: a proxy's header is trusted only from this machine.
    return visit.service.settings.secure_cookie is not False or visit.request.url.scheme == "https"


def _handler(visit: Visit, scope: Scope) -> GrantHandler:
    if visit.key is None:
        raise Problem(401, "no-key", "Log in first.", "Give your API key on the first page.")
    if not visit.may(scope):
        raise Problem(403, "scope", "Your key does not allow this.", f"It requires the scope '{scope.value}'.")
    return handler_for(visit.service, visit.key, visit.request.path_params["grant"], visit.noted)


def _grant(visit: Visit) -> Response:
    handler = _handler(visit, Scope.READ)
    return _grant_page(visit, handler, asked=visit.request.query_params.get("answers"))


def _grant_page(
    visit: Visit, handler: GrantHandler, status: int = 200, asked: str | None = None, **view: Any
) -> Response:
    about, wrong = handler.to_dict(), view.pop("wrong", None)
    quote = handler.quote(max(1, about["remaining"]))
    if asked is not None:
        try:
            quote = handler.quote(whole_number(asked))
        except (DataError, InvalidParameterError) as error:
            wrong, status = str(error), 422
    shown = {
        "grant": about,
        "sentences": handler.promise,
        "quote": quote,
        "said": quote_words(quote),
        "farthest": min(handler.farthest, max(2 * handler.most, 10)),
        "fields": fields_of(handler),
        "request_key": secrets.token_hex(8),
        "may_predict": visit.may(Scope.PREDICT),
        "wrong": wrong,
        "told": None,
        "given": {},
    }
    return visit.page("grant.html", status, **{**shown, **view})


def quote_words(quote: dict[str, Any]) -> str:
    """Return a quote as a sentence."""
    answers, epsilon = quote["answers"], quote["epsilon"]
    cost = "use up the delta" if epsilon is None else f"cost epsilon {math.ceil(epsilon * 1000) / 1000:g}"
    fits = "which the grant covers" if quote["fits"] else "more than the grant covers"
    noun = "answer" if answers == 1 else "answers"
    cost = cost.replace("cost", "costs").replace("use up", "uses up") if answers == 1 else cost
    return f"{answers:,} {noun} {cost} at delta {quote['delta']:g}, {fits}."


def _quote(visit: Visit) -> Response:
    handler = _handler(visit, Scope.READ)
    quote = handler.quote(whole_number(visit.request.query_params.get("answers", "")))
    return JSONResponse({**quote, "words": quote_words(quote)})


def _predict(visit: Visit) -> Response:
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
        queries = queries_of_form(visit.service.prediction, handler, visit.form)
        stored = predicted(visit.service, key, handler, name, queries, visit.noted)
    except (DataError, InvalidParameterError, BudgetError) as error:
        status = problem_of(error).status
        return _grant_page(visit, handler, status, wrong=str(error), given=typed, request_key=visit.form["request_key"])
    labels = ["no answer" if one is None else str(one) for one in stored.answer.labels]
    means = stored.answer.means
    return _grant_page(visit, handler, told={"labels": labels, "means": means, "replayed": stored.answer.replayed})
