"""Constructors and docstrings of estimators and laws, as `manifest.json` holds them.

Importing scikit-learn takes over a second, which a version, a help page or a mistyped option should not cost.
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
    """One parameter: default, type if it is a number, a text or a truth value, allowed values, and its help."""

    name: str
    default: Any
    scalar: type | None
    choices: tuple[str, ...]
    help: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A class: its names, parameters, arguments of `fit`, whether it fits blocks, and which field of a law is noise."""

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
    """Return a parameter as the file holds it."""
    return Parameter(**entry | {"scalar": _SCALARS.get(entry["scalar"]), "choices": tuple(entry["choices"])})


#: Classes of the methods, by their short names.
METHODS: dict[str, str] = _content()["methods"]
#: Classes of the laws that every command can name, by short name.
LAWS: dict[str, str] = _content()["laws"]


def learners() -> list[str]:
    """Return the names of base learners."""
    return list(_content()["learners"])


def rule() -> Description:
    """Return the fields of the rule by which personalised methods share influence."""
    return _described(_content()["rule"])


def method_of(name: str) -> Description:
    """Return what the estimator of a method takes."""
    return _described(METHODS[name])


def law_of(name: str) -> Description:
    """Return the fields of a law."""
    return _described(LAWS[name])


def law_parameter(method: str) -> Parameter | None:
    """Return the parameter by which a method takes a law, if it does."""
    return method_of(method).parameters.get("law")


def laws_of(method: str) -> tuple[str, ...]:
    """Return the laws that a method offers: those its docstring names, else all."""
    takes_law = law_parameter(method)
    return () if takes_law is None else takes_law.choices or tuple(LAWS)
