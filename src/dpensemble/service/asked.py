"""The content of one request, read within bounds. Reading stops at the first error."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt, StrictStr, ValidationError, create_model
from pydantic.json_schema import WithJsonSchema

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


def prediction_model(most_queries: int) -> type[BaseModel]:
    """Return the model of one request: votes or rows, as the grant takes them, in a list of limited length."""
    fields: dict[str, Any] = {
        name: (_each(kind, most_queries) | None, Field(None, description=_TEXTS[name]))
        for name, kind in _QUERIES.items()
    }
    return create_model(
        "Prediction",
        # An error for each unknown name would take a thousand times as much memory. See `read_prediction`.
        __config__=ConfigDict(extra="allow", json_schema_extra={"additionalProperties": False}),
        __doc__="One request for answers: a list of queries, as the votes or rows that the grant takes.",
        **fields,
    )


def read_prediction(model: type[BaseModel], body: bytes, most_parts: int) -> dict[str, Any]:
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


def _wrong(place: tuple[int | str, ...], kind: str) -> RequestValidationError:
    return RequestValidationError([{"loc": ("body", *place), "type": kind}])
