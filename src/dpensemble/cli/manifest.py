"""Constructors and docstrings of estimators and laws, as `manifest.json` holds them.

Importing scikit-learn takes over a second, which a version, a help page or a mistyped option should not cost.
`scripts/write_manifest.py` writes the file, and a test compares the file with the classes.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

FILE = files("dpensemble.cli") / "manifest.json"
_SCALARS: dict[str, type] = {"int": int, "float": float, "str": str, "bool": bool}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter: as the constructor has it, and as its docstring (numpydoc) describes it."""

    name: str
    annotation: str
    required: bool
    default: Any = None
    kind: str = ""
    text: str = ""

    @property
    def choices(self) -> tuple[str, ...]:
        """The values allowed, if the docstring names them: ``{"a", "b"}``."""
        braces = re.match(r"\{(.*?)\}", self.kind)
        return () if braces is None else tuple(re.findall(r"[\"']([^\"']+)[\"']", braces[1]))

    @property
    def scalar(self) -> type | None:
        """The type if the parameter is a number, a text or a truth value, else None."""
        return next((_SCALARS[part] for part in self.annotation.split(" | ") if part in _SCALARS), None)

    @property
    def summary(self) -> str:
        """The first sentence of its text."""
        return first_sentence(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A class: short name, title, first sentence, parameters, arguments of `fit`, and whether it fits blocks."""

    name: str | None
    title: str | None
    summary: str
    parameters: dict[str, Parameter]
    fit: tuple[str, ...] = ()
    in_blocks: bool = False


@cache
def _content() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return content


def names(kind: str) -> dict[str, str]:
    """Return class names by short name, of ``"methods"`` or ``"laws"``."""
    return dict(_content()[kind])


def learners() -> list[str]:
    """Return the names of base learners."""
    return list(_content()["learners"])


def rule() -> Description:
    """Return the description of the rule by which personalised methods share influence."""
    return describe(_content()["rule"])


@cache
def describe(name: str) -> Description:
    """Return the description of a class by its name."""
    entry = _content()["classes"][name]
    parameters = {one["name"]: Parameter(**one) for one in entry["parameters"]}
    return Description(**entry | {"parameters": parameters, "fit": tuple(entry["fit"])})


def first_sentence(text: str) -> str:
    """Return the first sentence of a text, without its full stop.

    Examples
    --------
    >>> first_sentence("Budget of one fit. `delta` must be below 1 / n_records.")
    'Budget of one fit'
    """
    return re.split(r"\.(?=\s+[\"`(A-Z]|$)", text, maxsplit=1)[0]
