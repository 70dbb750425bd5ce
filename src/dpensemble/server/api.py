"""The interface for programs: ``/v1``, JSON in and out, and refusals as problems."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, StrictFloat, StrictInt, StrictStr

from dpensemble.aggregation.aggregator import check_key
from dpensemble.errors import BudgetError, DataError
from dpensemble.server.grants import GrantHandler, StoredAnswer
from dpensemble.server.http import BODY, MEDIA_TYPE, PROMETHEUS, Problem, read_prediction
from dpensemble.server.service import ServiceState
from dpensemble.server.sign_in import ApiKey, Scope

#: Largest number of characters of an Idempotency-Key.
LONGEST_KEY = 120
#: Text for a request that does not match the schema.
MALFORMED = "The request does not match the schema; nothing was charged."
# Least average number of bytes of a list or an object, in a body of the largest size. Two numbers of a voter take more.
_BYTES_OF_A_PART = 8
#: Where the schema describes the request.
_ASKED, _JSON = "#/components/schemas/Prediction", "application/json"
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


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the schema's descriptions of refusals with these statuses."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
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


def asker(service: ServiceState, scope: Scope) -> Callable[..., Awaitable[ApiKey]]:
    """Return a dependency that identifies the sender, and refuses a sender without the scope."""

    async def who(request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]) -> ApiKey:
        key = None if given is None else await service.who(given.credentials)
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


def asked(service: ServiceState, request: Request) -> Mapping[str, Any]:
    """Return the content of a request's body, or raise."""
    sent_as = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if sent_as != _JSON:
        raise Problem(422, "malformed", MALFORMED, f"Send JSON, with 'Content-Type: {_JSON}'.")
    return read_prediction(service.prediction, request.scope[BODY], service.settings.most_bytes // _BYTES_OF_A_PART)


def handler_for(service: ServiceState, key: ApiKey, name: str, noted: dict[str, Any]) -> GrantHandler:
    """Return the handler of a grant. A grant that the key does not cover is not found."""
    handler = service.handlers.get(name)
    if handler is None or not key.covers(name):
        raise Problem(
            404, "no-grant", "There is no such grant for this key.", "GET /v1/grants lists the grants of the key."
        )
    noted["grant"] = name
    return handler


def predicted(
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


def routes(service: ServiceState) -> APIRouter:
    """Return the routes of a running service."""
    router = APIRouter(redirect_slashes=False)
    for add in (_add_operation, _add_grants, _add_predictions, _add_owners):
        add(router, service)
    return router


def _add_operation(router: APIRouter, service: ServiceState) -> None:
    @router.get("/health", tags=["operation"], responses=problems(503))
    async def health() -> dict[str, str]:
        """Report whether the ledger can be used, has all entries seen so far, and shows no sign of a change.

        Writes nothing: of the state folder it reports the last write.
        """
        await service.pools.health.run(service.ledger.check)
        return {"status": "ok"}

    @router.get("/metrics", tags=["operation"], response_class=Response, responses=_text_of_metrics())
    async def metrics(key: Annotated[ApiKey, Depends(asker(service, Scope.METRICS))]) -> Response:
        """Return counts for Prometheus. A key for some grants gets only the counts of these grants."""
        text = await service.pools.reads.run(lambda: service.metrics.text(key.grants))
        return Response(text, media_type=PROMETHEUS)


def _add_grants(router: APIRouter, service: ServiceState) -> None:
    reader = Depends(asker(service, Scope.READ))

    @router.get("/v1/grants", tags=["grants"], response_model=list[Grant], responses=problems(401, 403, 503))
    async def grants(key: Annotated[ApiKey, reader]) -> list[dict[str, Any]]:
        """List the grants that this key covers."""
        covered = [handler for name, handler in service.handlers.items() if key.covers(name)]
        return await service.pools.reads.run(lambda: [handler.to_dict() for handler in covered])

    @router.get(
        "/v1/grants/{grant}", tags=["grants"], response_model=Grant, responses=problems(401, 403, 404, 422, 503)
    )
    async def one_grant(request: Request, grant: str, key: Annotated[ApiKey, reader]) -> dict[str, Any]:
        """Return the guarantee of a grant, and what is left of it."""
        return await service.pools.reads.run(handler_for(service, key, grant, request.scope["dpensemble"]).to_dict)

    @router.get(
        "/v1/grants/{grant}/quote", tags=["grants"], response_model=Quote, responses=problems(401, 403, 404, 422, 503)
    )
    async def quote(
        request: Request, grant: str, key: Annotated[ApiKey, reader], answers: Annotated[int, Query(ge=1)]
    ) -> dict[str, Any]:
        """Return the joint cost of a number of answers. A quote reads no data and charges nothing."""
        handler = handler_for(service, key, grant, request.scope["dpensemble"])
        return await service.pools.quotes.run(lambda: handler.quote(answers))


def _add_predictions(router: APIRouter, service: ServiceState) -> None:
    @router.post(
        "/v1/grants/{grant}/predictions",
        tags=["predictions"],
        response_model=Answers,
        responses=problems(400, 401, 403, 404, 413, 422, 429, 503),
        openapi_extra={"requestBody": {"required": True, "content": {_JSON: {"schema": {"$ref": _ASKED}}}}},
    )
    async def predict(
        request: Request,
        grant: str,
        key: Annotated[ApiKey, Depends(asker(service, Scope.PREDICT))],
        idempotency_key: Annotated[
            str | None, Header(description="Name of this request. Repeating it returns the same answer at no cost.")
        ] = None,
    ) -> Response:
        """Charge for a batch of queries, answer with noise, and store the answer.

        A repeated request with the same Idempotency-Key and body returns identical bytes and is charged only once.
        """
        noted = request.scope["dpensemble"]

        def answer() -> StoredAnswer:
            given = asked(service, request)
            handler = handler_for(service, key, grant, noted)
            return predicted(service, key, handler, request_key(idempotency_key), given, noted)

        stored = await service.pools.writes.run(answer)
        return Response(
            stored.body,
            media_type=_JSON,
            headers={"Idempotent-Replayed": "true" if stored.answer.replayed else "false"},
        )


def _add_owners(router: APIRouter, service: ServiceState) -> None:
    @router.get("/v1/budgets", tags=["owner"], responses=problems(401, 403, 503))
    async def budgets(key: Annotated[ApiKey, Depends(asker(service, Scope.READ))]) -> list[dict[str, Any]]:
        """Return what is left of each data set. Only owners see groups and people."""

        def shown() -> list[dict[str, Any]]:
            return [
                state.to_dict()
                for account in service.accounts(key)
                for state in account.states()
                if state.whom == "everyone" or key.may(Scope.OWN)
            ]

        return await service.pools.reads.run(shown)

    @router.get("/v1/checkpoint", tags=["owner"], responses=problems(401, 403, 503))
    async def checkpoint(key: Annotated[ApiKey, Depends(asker(service, Scope.OWN))]) -> dict[str, Any]:
        """Sign the ledger's last entry. Store the file away from the ledger, for 'dpensemble ledger verify'."""
        if not key.may_see_all:
            raise Problem(
                403, "scope", "This key does not allow this request.", "It requires the scope 'own' for all grants."
            )
        return await service.pools.reads.run(service.ledger.checkpoint)


def request_key(name: str | None) -> str:
    """Return the name of a request. Raise if it is missing or not printable text."""
    if name is None:
        raise Problem(
            400,
            "idempotency-key-missing",
            "An Idempotency-Key is required; nothing was charged.",
            "Send a new name with every new request, such as a UUID, and the same name when you try again.",
        )
    if len(name) > LONGEST_KEY:
        raise DataError(f"the Idempotency-Key must have at most {LONGEST_KEY} characters: send a shorter one.")
    try:
        return check_key(name)
    except DataError:
        raise DataError(f"the Idempotency-Key must be printable text of 1 to {LONGEST_KEY} characters.") from None


def _text_of_metrics() -> dict[int | str, dict[str, Any]]:
    counts = {"description": "Counts.", "content": {"text/plain": {"schema": {"type": "string"}}}}
    return {200: counts, **problems(401, 403, 503)}
