"""What one request asks, read within bounds: at the first thing that is wrong, reading ends."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt, StrictStr, ValidationError, create_model
from pydantic.json_schema import WithJsonSchema

_TEXTS = {
    "counts": "For each query the votes for each class.",
    "ballots": "For each query a label a voter.",
    "log_probs": "For each query and voter, the logarithm of each class's probability.",
    "rows": "Rows for teachers in the house.",
}
# The house checks entries, by its own columns, and stops at the first that is wrong.
_ROW_SCHEMA = {
    "type": "object",
    "additionalProperties": {"anyOf": [{"type": kind} for kind in ("integer", "number", "string", "null")]},
}
_Row = Annotated[dict[str, Any], WithJsonSchema(_ROW_SCHEMA)]
# Errors that are looked at; an object may have a wrong name in every few bytes.
_MOST_ERRORS = 50


def _each(kind: Any, most: int | None = None) -> Any:
    return Annotated[list[kind], Field(fail_fast=True, max_length=most)]


_QUERIES: dict[str, Any] = {
    "counts": _each(StrictInt),
    "ballots": _each(StrictInt | StrictStr),
    "log_probs": _each(_each(StrictFloat)),
    "rows": _Row,
}


def prediction_model(most_queries: int) -> type[BaseModel]:
    """Return the model of one request for answers: votes or rows, whichever the grant takes, a list of queries.

    Parameters
    ----------
    most_queries : int
        Longest list of queries.
    """
    fields: dict[str, Any] = {
        name: (_each(kind, most_queries) | None, Field(None, description=_TEXTS[name]))
        for name, kind in _QUERIES.items()
    }
    return create_model(
        "Prediction",
        __config__=ConfigDict(extra="forbid"),
        __doc__="One request for answers: votes or rows, whichever the grant takes, a list of queries.",
        **fields,
    )


def wrong_places(error: ValidationError) -> list[dict[str, Any]]:
    """Return where a request is wrong and how, without what was there; nothing where that is too much to list."""
    if error.error_count() > _MOST_ERRORS:
        return []
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return [{"loc": ("body", *one["loc"]), "type": one["type"]} for one in found]
