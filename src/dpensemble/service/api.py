"""The interface for programs: ``/v1``, JSON in and out, refusals as problems."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, StrictFloat, StrictInt, StrictStr

from dpensemble.aggregation.answers import check_key
from dpensemble.errors import BudgetError, DataError
from dpensemble.service.asked import read_prediction
from dpensemble.service.grant_handler import GrantHandler, StoredAnswer
from dpensemble.service.guard import BODY
from dpensemble.service.keys import ApiKey, Scope
from dpensemble.service.metrics import PROMETHEUS
from dpensemble.service.problems import MEDIA_TYPE, Problem
from dpensemble.service.state import ServiceState

#: Characters of an Idempotency-Key.
LONGEST_KEY = 120
#: What a request is told that is not as the schema has it.
MALFORMED = "The request is not as the schema has it; nothing was charged."
# Fewest bytes of a list or an object on average, in a body of the largest size; a voter's two numbers take more.
_BYTES_OF_A_PART = 8
#: Where the schema describes what is asked.
_ASKED, _JSON = "#/components/schemas/Prediction", "application/json"
_bearer = HTTPBearer(
    auto_error=False, description="An API key, made by `dpensemble keys create`, or a token of an OpenID provider."
)


class Answers(BaseModel):
    """Answers to one request."""

    grant: str
    key: str
    labels: list[StrictInt | StrictFloat | bool | StrictStr | None]
    means: list[list[float]] | None


class Quote(BaseModel):
    """What the first so many answers cost together; epsilon is null where they use up the delta."""

    answers: int
    epsilon: float | None
    delta: float
    fits: bool


class Grant(BaseModel):
    """What a grant promises, and what is left of it."""

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


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return how refusals with these statuses are described in the schema."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    texts = {
        400: "The request is malformed.",
        401: "No valid key.",
        403: "The key or the budget does not allow it.",
        404: "Not there.",
        413: "Too large.",
        422: "Cannot be used, or the Idempotency-Key was used otherwise.",
        429: "Too many large requests of one holder are under way.",
        503: "The ledger cannot be used now.",
    }
    return {status: {"description": texts[status], "content": content} for status in statuses}


def asker(service: ServiceState, scope: Scope) -> Callable[..., ApiKey]:
    """Return what finds out who asks, and refuses whoever may not."""

    def who(request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]) -> ApiKey:
        key = None if given is None else service.who(given.credentials)
        if key is None:
            raise Problem(
                401,
                "no-key",
                "A valid API key is needed.",
                "Send it as 'Authorization: Bearer KEY'.",
                headers={"WWW-Authenticate": "Bearer"},
            )
        request.scope["dpensemble"]["key"] = key.id
        if not key.may(scope):
            raise Problem(403, "scope", "This key is not for that.", f"It needs the scope '{scope.value}'.")
        return key

    return who


def asked(service: ServiceState) -> Callable[..., Mapping[str, Any]]:
    """Return what reads the body of a request, in a thread, after its sender is known."""

    def read(request: Request) -> Mapping[str, Any]:
        sent_as = request.headers.get("content-type", "").split(";")[0].strip().lower()
        if sent_as != _JSON:
            raise Problem(422, "malformed", MALFORMED, f"Send JSON, with 'Content-Type: {_JSON}'.")
        return read_prediction(service.prediction, request.scope[BODY], service.settings.most_bytes // _BYTES_OF_A_PART)

    return read


def handler_for(service: ServiceState, key: ApiKey, name: str, noted: dict[str, Any]) -> GrantHandler:
    """Return where a grant is asked; one that a key is not for is not there."""
    handler = service.handlers.get(name)
    if handler is None or not key.covers(name):
        raise Problem(404, "no-grant", "There is no such grant for this key.", "GET /v1/grants lists those there are.")
    noted["grant"] = name
    return handler


def predicted(
    service: ServiceState, key: ApiKey, handler: GrantHandler, request_key: str, given: Any, noted: dict[str, Any]
) -> StoredAnswer:
    """Return answers, counted and noted."""
    name = handler.grant.name
    try:
        stored = handler.predict(key.holder, request_key, given)
    except BudgetError:
        service.metrics.refused(name)
        noted["refused"] = "budget"
        raise
    noted |= {"answers": len(stored.answer.labels), "replayed": stored.answer.replayed}
    service.metrics.answered(name, len(stored.answer.labels), replayed=stored.answer.replayed)
    return stored


def routes(service: ServiceState) -> APIRouter:
    """Return the routes of a running service."""
    router = APIRouter(redirect_slashes=False)
    for add in (_add_operation, _add_grants, _add_predictions, _add_owners):
        add(router, service)
    return router


def _add_operation(router: APIRouter, service: ServiceState) -> None:
    @router.get("/health", tags=["operation"], responses=problems(503))
    def health() -> dict[str, str]:
        """Report whether the ledger can be used, lacks nothing that was seen of it, and was not changed."""
        service.ledger.check()
        return {"status": "ok"}

    @router.get("/metrics", tags=["operation"], response_class=Response, responses=_text_of_metrics())
    def metrics(key: Annotated[ApiKey, Depends(asker(service, Scope.METRICS))]) -> Response:
        """Return counts for Prometheus; of its grants alone to a key that is for some."""
        return Response(service.metrics.text(key.grants), media_type=PROMETHEUS)


def _add_grants(router: APIRouter, service: ServiceState) -> None:
    reader = Depends(asker(service, Scope.READ))

    @router.get("/v1/grants", tags=["grants"], response_model=list[Grant], responses=problems(401, 403, 503))
    def grants(key: Annotated[ApiKey, reader]) -> list[dict[str, Any]]:
        """List the grants that this key is for."""
        return [handler.to_dict() for name, handler in service.handlers.items() if key.covers(name)]

    @router.get(
        "/v1/grants/{grant}", tags=["grants"], response_model=Grant, responses=problems(401, 403, 404, 422, 503)
    )
    def one_grant(request: Request, grant: str, key: Annotated[ApiKey, reader]) -> dict[str, Any]:
        """Tell what a grant promises and what is left of it."""
        return handler_for(service, key, grant, request.scope["dpensemble"]).to_dict()

    @router.get(
        "/v1/grants/{grant}/quote", tags=["grants"], response_model=Quote, responses=problems(401, 403, 404, 422, 503)
    )
    def quote(
        request: Request, grant: str, key: Annotated[ApiKey, reader], answers: Annotated[int, Query(ge=1)]
    ) -> dict[str, Any]:
        """Tell what the first so many answers cost together; looks at no data and charges nothing."""
        return handler_for(service, key, grant, request.scope["dpensemble"]).quote(answers)


def _add_predictions(router: APIRouter, service: ServiceState) -> None:
    @router.post(
        "/v1/grants/{grant}/predictions",
        tags=["predictions"],
        response_model=Answers,
        responses=problems(400, 401, 403, 404, 413, 422, 429, 503),
        openapi_extra={"requestBody": {"required": True, "content": {_JSON: {"schema": {"$ref": _ASKED}}}}},
    )
    def predict(
        request: Request,
        grant: str,
        key: Annotated[ApiKey, Depends(asker(service, Scope.PREDICT))],
        given: Annotated[Mapping[str, Any], Depends(asked(service))],
        idempotency_key: Annotated[
            str | None, Header(description="Name of this request; sent again, it is told the same for nothing.")
        ] = None,
    ) -> Response:
        """Charge for a batch of queries, answer with noise, and keep the answer.

        The same Idempotency-Key with the same body is told the same, byte for byte, and charged once.
        """
        noted = request.scope["dpensemble"]
        handler = handler_for(service, key, grant, noted)
        stored = predicted(service, key, handler, request_key(idempotency_key), given, noted)
        return Response(
            stored.body,
            media_type=_JSON,
            headers={"Idempotent-Replayed": "true" if stored.answer.replayed else "false"},
        )


def _add_owners(router: APIRouter, service: ServiceState) -> None:
    @router.get("/v1/budgets", tags=["owner"], responses=problems(401, 403, 503))
    def budgets(key: Annotated[ApiKey, Depends(asker(service, Scope.READ))]) -> list[dict[str, Any]]:
        """Tell what is left of each data set; of its groups and people to owners alone."""
        return [
            state.to_dict()
            for account in service.accounts(key)
            for state in account.states()
            if state.whom == "everyone" or key.may(Scope.OWN)
        ]

    @router.get("/v1/checkpoint", tags=["owner"], responses=problems(401, 403, 503))
    def checkpoint(key: Annotated[ApiKey, Depends(asker(service, Scope.OWN))]) -> dict[str, Any]:
        """Sign where the ledger stands; keep it elsewhere, for 'dpensemble ledger verify'."""
        if not key.may_see_all:
            raise Problem(403, "scope", "This key is not for that.", "It needs the scope 'own' for all grants.")
        return service.ledger.checkpoint()


def request_key(given: str | None) -> str:
    """Return the name of a request, refusing none and one that is no printable text."""
    if given is None:
        raise Problem(
            400,
            "idempotency-key-missing",
            "An Idempotency-Key is needed; nothing was charged.",
            "Send a new name with every new request, such as a UUID, and the same one when you try again.",
        )
    if len(given) > LONGEST_KEY:
        raise DataError(f"the Idempotency-Key is longer than {LONGEST_KEY} characters.")
    try:
        return check_key(given)
    except DataError:
        raise DataError(f"the Idempotency-Key is not a printable text of 1 to {LONGEST_KEY} characters.") from None


def _text_of_metrics() -> dict[int | str, dict[str, Any]]:
    counts = {"description": "Counts.", "content": {"text/plain": {"schema": {"type": "string"}}}}
    return {200: counts, **problems(401, 403, 503)}
