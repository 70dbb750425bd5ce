"""Refusals as ``application/problem+json`` (RFC 9457): public numbers, and never the content of a request."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any

from dpensemble.errors import BudgetError, DataError, DPEnsembleError, InvalidParameterError

MEDIA_TYPE = "application/problem+json"
_OTHER_PAYLOAD = "key"


@dataclass(eq=False)
class Problem(Exception):  # noqa: N818 - RFC 9457 uses this name
    """A refusal: HTTP status, short name, texts, and public numbers such as ``requested``, ``spent`` and ``fits``."""

    status: int
    kind: str
    title: str
    detail: str = ""
    figures: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def body(self) -> bytes:
        """The refusal as JSON."""
        content = {"type": f"urn:dpensemble:problem:{self.kind}", "title": self.title, "status": self.status}
        if self.detail:
            content["detail"] = self.detail
        # JSON has no NaN or infinity, so they are left out.
        finite = {k: v for k, v in self.figures.items() if not (isinstance(v, float) and not math.isfinite(v))}
        return json.dumps(content | finite, separators=(",", ":")).encode()


@singledispatch
def problem_of(_error: Exception) -> Problem:
    """Return the refusal for an error. Its text stays inside, because it may name files or quote others."""
    return Problem(500, "unexpected", "An unexpected error occurred.", "No answer was given.")


@problem_of.register
def _(error: Problem) -> Problem:
    return error


@problem_of.register
def _(error: BudgetError) -> Problem:
    return Problem(403, "budget", "The budget does not allow this; nothing was charged.", str(error), error.figures)


@problem_of.register(DataError)
@problem_of.register(InvalidParameterError)
def _(error: DPEnsembleError) -> Problem:
    if error.parameter == _OTHER_PAYLOAD and "other votes" in str(error):
        return Problem(
            422,
            "idempotency-key-reused",
            "The Idempotency-Key was used with another request; nothing was charged.",
            "Use a new key for a new request, or send the same request again.",
        )
    return Problem(422, "unusable", "The request cannot be used; nothing was charged.", str(error))


@problem_of.register
def _(_error: DPEnsembleError) -> Problem:
    return Problem(
        503,
        "unavailable",
        "The service cannot answer now.",
        "No answer was given. Send the same request with the same Idempotency-Key later; it is charged once.",
        headers={"Retry-After": "5"},
    )


#: Form of every refusal, for the schema.
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["type", "title", "status"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "unit": {"type": "string", "description": "What the following numbers count."},
        "requested": {"type": "number"},
        "spent": {"type": "number"},
        "remaining": {"type": "number"},
        "fits": {"type": "number", "description": "The largest amount that would be allowed."},
    },
}
