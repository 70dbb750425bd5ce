"""One request for a page: who sent it, from where, and what page answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from fastapi import Request
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

from dpensemble._rounding import round_up
from dpensemble.errors import DPEnsembleError
from dpensemble.report.wording import number
from dpensemble.service.keys import Scope
from dpensemble.service.problems import Problem, problem_of
from dpensemble.service.sessions import COOKIE
from dpensemble.service.state import ServiceState

_PORTS = {"http": 80, "https": 443}

_environment = Environment(
    loader=PackageLoader("dpensemble", "service/templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.filters["number"] = number
_environment.filters["up"] = lambda value: number(round_up(value, 4), 4)


class Visit:
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
        return origin is None or is_of_host(origin, headers.get("host", ""))

    @property
    def is_own_form(self) -> bool:
        """Whether the form was made for this session and sent from a page of this service."""
        return self.is_sent_from_here and self.service.sessions.is_own_form(self.cookie, self.form.get("token", ""))


def is_of_host(address: str, host: str) -> bool:
    """Return whether the address of a page, or its origin, has the host and port in a header."""
    try:
        page = urlsplit(address)
        here = urlsplit(f"{page.scheme}://{host}")
        usual = _PORTS.get(page.scheme)
        same = (page.hostname, page.port or usual) == (here.hostname, here.port or usual)
        return same and bool(page.hostname) and usual is not None
    except ValueError:
        return False


def carried_out(visit: Visit, work: Callable[[Visit], Response]) -> Response:
    """Return a page, or a page with the reason of a refusal."""
    try:
        return work(visit)
    except (Problem, DPEnsembleError) as error:
        problem = problem_of(error)
        if problem.status >= 500:
            visit.noted["error"] = type(error).__name__
            visit.noted["reason"] = str(error)
        return visit.page("problem.html", problem.status, title=problem.title, detail=problem.detail)
