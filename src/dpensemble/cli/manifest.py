"""Constructors and docstrings of estimators and laws, read from `manifest.json`.

Importing scikit-learn takes more than a second. A version, a help page or a mistyped option should not cost that.
`scripts/write_manifest.py` writes the file, and a test compares the file with the classes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

FILE = files("dpensemble.cli") / "manifest.json"
_SCALARS: dict[str | None, type] = {"int": int, "float": float, "str": str, "bool": bool}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter: its default, its type if that is a number, text or bool, its allowed values, and its help."""

    name: str
    default: Any
    scalar: type | None
    choices: tuple[str, ...]
    help: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A class: names, parameters, arguments of `fit`, whether it fits blocks, and the noise field of a law."""

    name: str | None
    title: str | None
    words: str
    parameters: dict[str, Parameter]
    fit: tuple[str, ...] = ()
    in_blocks: bool = False
    noise: str | None = None


@cache
def _content() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return content


@cache
def _described(name: str) -> Description:
    """Return the description of a class by its name."""
    entry = _content()["classes"][name]
    parameters = {one["name"]: parameter(one) for one in entry["parameters"]}
    return Description(**entry | {"parameters": parameters, "fit": tuple(entry["fit"])})


def parameter(entry: dict[str, Any]) -> Parameter:
    """Return a parameter from its entry in the file."""
    return Parameter(**entry | {"scalar": _SCALARS.get(entry["scalar"]), "choices": tuple(entry["choices"])})


#: Classes of the methods, by their short names.
METHODS: dict[str, str] = _content()["methods"]
#: Classes of the laws that every command can name, by short name.
LAWS: dict[str, str] = _content()["laws"]


def learners() -> list[str]:
    """Return the names of base learners."""
    return list(_content()["learners"])


def rule() -> Description:
    """Return the fields of the rule that shares influence in personalised methods."""
    return _described(_content()["rule"])


def method_of(name: str) -> Description:
    """Return the parameters of a method's estimator."""
    return _described(METHODS[name])


def law_of(name: str) -> Description:
    """Return the fields of a law."""
    return _described(LAWS[name])


def law_parameter(method: str) -> Parameter | None:
    """Return the parameter that selects a method's law, or None."""
    return method_of(method).parameters.get("law")


def laws_of(method: str) -> tuple[str, ...]:
    """Return the laws that a method offers: those in its docstring, else all laws."""
    takes_law = law_parameter(method)
    return () if takes_law is None else takes_law.choices or tuple(LAWS)
