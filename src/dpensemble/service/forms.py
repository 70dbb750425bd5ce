"""Forms of the page for people: their fields, and the queries in a form that was sent."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

from fastapi import Request
from pydantic import BaseModel, ValidationError

from dpensemble._untrusted import UnfitJSONError, parse_json
from dpensemble.errors import DataError
from dpensemble.service.grant_handler import GrantHandler
from dpensemble.service.guard import BODY
from dpensemble.service.problems import Problem

# Most fields of a form. Longer queries are typed as JSON.
_MOST_FIELDS = 40
_FORM = "application/x-www-form-urlencoded"


def read_form(request: Request) -> dict[str, str]:
    """Return the last entry of each field of a form that was sent, or raise."""
    if request.headers.get("content-type", "").split(";")[0].strip() != _FORM:
        raise Problem(415, "form", "A form is required.")
    try:
        values_of = parse_qs(request.scope[BODY].decode(), keep_blank_values=True, max_num_fields=10_000)
    except ValueError:
        raise Problem(400, "form", "The form cannot be read.") from None
    return {name: values[-1] for name, values in values_of.items()}


def fields_of(handler: GrantHandler) -> list[dict[str, str]]:
    """Return the fields of a form, or nothing if there are too many and the form takes JSON."""
    if handler.house is not None and len(handler.house.columns) <= _MOST_FIELDS:
        return [{"name": name, "kind": kind} for name, kind in handler.house.columns.items()]
    if "counts" in handler.kinds and len(handler.classes) <= _MOST_FIELDS:
        return [{"name": str(label), "kind": "whole"} for label in handler.classes]
    return []


def queries_of_form(model: type[BaseModel], handler: GrantHandler, form: dict[str, str]) -> dict[str, Any]:
    """Return the queries of a form, in the format of the interface for programs."""
    fields = fields_of(handler)
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
        return whole_number(text or "0")
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise DataError(f"{field['name']} must be a number.") from None


def whole_number(text: str) -> int:
    """Return a typed whole number, or raise."""
    if not (text.isascii() and text.isdecimal() and len(text) < 12):
        raise DataError("the number must be a whole number.")
    return int(text)
