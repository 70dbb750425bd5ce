"""Write src/dpensemble/cli/manifest.json, from which the command line reads its options without importing estimators.

Run ``python scripts/write_manifest.py`` (or ``make manifest``) after a change of a constructor or its docstring. A test
fails when the file is out of date.
"""

from __future__ import annotations

import inspect
import json
import re
from enum import Enum
from pathlib import Path
from typing import Any

import dpensemble.design
import dpensemble.laws
import dpensemble.methods
from dpensemble.cli.options import MANIFEST, flag_of
from dpensemble.laws import LAWS
from dpensemble.methods.label_moments_regressor import LabelMomentsRegressor
from dpensemble.methods.label_moments_survival import LabelMomentsSurvival
from dpensemble.workflow.learners import LEARNERS

_REFERENCE = re.compile(r"As (?:for|in) `(?:\w+\.)*?([A-Z]\w*)")
_RULE = dpensemble.design.InfluenceRule
_SCALARS = ("int", "float", "str", "bool")
_ROOMS = (dpensemble.methods, dpensemble.laws, dpensemble.design)


def manifest() -> dict[str, Any]:
    """Return the names of methods, laws and learners, and a description of each class."""
    methods = {
        kind.name: kind
        for kind in (
            *(getattr(dpensemble.methods, name) for name in dpensemble.methods.__all__),
            LabelMomentsRegressor,
            LabelMomentsSurvival,
        )
        if isinstance(getattr(kind, "name", None), str)
    }
    described = [*methods.values(), *LAWS.values(), _RULE]
    return {
        "methods": {name: methods[name].__name__ for name in sorted(methods)},
        "laws": {name: LAWS[name].__name__ for name in sorted(LAWS)},
        "rule": _RULE.__name__,
        "learners": list(LEARNERS),
        "classes": {kind.__name__: _described(kind) for kind in sorted(described, key=lambda kind: kind.__name__)},
    }


def _described(kind: type) -> dict[str, Any]:
    fit = _parameters(kind.fit) if hasattr(kind, "fit") else []
    return {
        "name": getattr(kind, "name", None),
        "title": getattr(kind, "title", None),
        "words": _words(kind),
        "parameters": [_parameter(kind, parameter) for parameter in _parameters(kind)],
        "fit": [parameter.name for parameter in fit],
        "in_blocks": hasattr(kind, "fit_blocks"),
        "noise": next(iter(getattr(kind, "in_votes", ())), None),
    }


def _parameters(function: Any) -> list[inspect.Parameter]:
    every = inspect.signature(function).parameters.values()
    return [one for one in every if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)]


def _parameter(owner: type, parameter: inspect.Parameter) -> dict[str, Any]:
    kind, text = _text_of(owner, parameter.name)
    default = None if parameter.default is parameter.empty else parameter.default
    written = parameter.annotation
    annotation = written if isinstance(written, str) else inspect.formatannotation(written)
    braces = re.match(r"\{(.*?)\}", kind)
    return {
        "name": parameter.name,
        "default": default.value if isinstance(default, Enum) else default,
        "scalar": next((part for part in annotation.split(" | ") if part in _SCALARS), None),
        "choices": [] if braces is None else re.findall(r"[\"']([^\"']+)[\"']", braces[1]),
        "help": _help(text),
    }


def _words(kind: type) -> str:
    """Return the first sentence of a docstring, without what the summaries of all methods begin with."""
    sentence = first_sentence(" ".join(_docstring(kind).split("\n\n")[0].split()))
    words = re.sub(r"^Private (classifier by|regressor by|model of) (an? )?", "", sentence)
    return words[0].upper() + words[1:]


def _help(text: str) -> str:
    """Return the first sentence of a parameter's text, with other parameters named by their options."""
    sentence = first_sentence(text)
    return re.sub(r"(?<!`)`(\w+)`(?!`)", lambda match: flag_of(match[1]), sentence).replace("`", "")


def first_sentence(text: str) -> str:
    """Return the first sentence of a text, without its full stop.

    Examples
    --------
    >>> first_sentence("Budget of one fit. `delta` must be below 1 / n_records.")
    'Budget of one fit'
    """
    return re.split(r"\.(?=\s+[\"`(A-Z]|$)", text, maxsplit=1)[0]


def _text_of(owner: type, name: str) -> tuple[str, str]:
    """Return type and text of a parameter: its own, or those of the base or the class that its text refers to."""
    kind, text = "", ""
    for base in owner.__mro__:
        own_kind, own_text = _documented(_docstring(base)).get(name, ("", ""))
        kind, text = kind or own_kind, text or own_text
    reference = _REFERENCE.match(text)
    if reference is not None and reference[1] != owner.__name__:
        there = _class_named(reference[1])
        if there is not None:
            other_kind, other_text = _text_of(there, name)
            return kind or other_kind, other_text or text
    return kind, text


def _class_named(name: str) -> type | None:
    return next((getattr(room, name) for room in _ROOMS if hasattr(room, name)), None)


def _docstring(kind: type) -> str:
    return inspect.cleandoc(kind.__dict__.get("__doc__") or "")


def _documented(docstring: str) -> dict[str, tuple[str, str]]:
    """Return type and text of each parameter in the section "Parameters"."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=\n\n\S[^\n]*\n-+\n|\Z)", docstring, re.DOTALL | re.MULTILINE)
    entries: dict[str, tuple[str, str]] = {}
    for entry in [] if section is None else re.split(r"\n(?=\S)", section[1]):
        head, *body = entry.split("\n")
        names, _, kind = head.partition(" : ")
        entries |= {name.strip(): (kind.strip(), " ".join(" ".join(body).split())) for name in names.split(",")}
    return entries


def text() -> str:
    """Return the content of the file."""
    return json.dumps(manifest(), indent=1) + "\n"


if __name__ == "__main__":
    Path(str(MANIFEST)).write_text(text(), encoding="utf-8")
