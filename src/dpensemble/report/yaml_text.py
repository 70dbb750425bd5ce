"""Plain values as YAML, without a library."""

from __future__ import annotations

import json
from typing import Any


def as_yaml(value: Any, depth: int = 0) -> str:
    """Write mappings, lists, texts and numbers as YAML. Texts are in double quotes, as in JSON."""
    pad = "  " * depth
    if isinstance(value, dict):
        return "".join(f"{pad}{name}:{_below(one, depth)}" for name, one in value.items())
    lines = []
    for one in value:
        body = as_yaml(one, depth + 1) if isinstance(one, dict) else f"{pad}  {_scalar(one)}\n"
        lines.append(f"{pad}- {body[len(pad) + 2 :]}")
    return "".join(lines)


def _below(value: object, depth: int) -> str:
    if isinstance(value, dict | list):
        return "\n" + as_yaml(value, depth + 1)
    return f" {_scalar(value)}\n"


def _scalar(value: object) -> str:
    if isinstance(value, float):
        digits, power, exponent = f"{value:.10g}".partition("e")
        # Most readers of YAML take a number with an exponent but no point for a text.
        return f"{digits}{'' if '.' in digits else '.0'}{power}{exponent}"
    return json.dumps(value, ensure_ascii=False)
