"""``dpensemble train METHOD`` and ``plan METHOD`` as commands with the options of the method."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from typing import Any

import typer

from dpensemble.cli.help import PlainCommand, PlainGroup, one_line
from dpensemble.cli.interrupts import INTERRUPTS
from dpensemble.cli.manifest import LAWS, law_of, method_of
from dpensemble.cli.method_choice import DEFAULT_METHODS, Choice, methods_of
from dpensemble.cli.option import LAW, OWN, RULE, SETTING, Option
from dpensemble.cli.options import options_of

_ABOUT = {
    "train": "Train a student and report.",
    "plan": "Show what a budget buys, without reading a record. Give two of epsilon, labels and noise.",
}
_EXAMPLES = {
    "train": "dpensemble train dpbag --dataset adult --epsilon 1 --out demo",
    "plan": "dpensemble plan saa --teachers 250 --epsilon 1 --delta 1e-5",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a command line requests, in Python's names. Options that were left out are absent."""

    method: str
    law: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    law_fields: dict[str, Any] = field(default_factory=dict)
    rule_fields: dict[str, Any] = field(default_factory=dict)
    own: dict[str, Any] = field(default_factory=dict)


Run = Callable[[Request], None]


def run_request(command: str, request: Request) -> None:
    """Run a request. Heavy modules are imported only now."""
    with INTERRUPTS.at_once():
        module = import_module(f"dpensemble.cli.{command}")
    module.run(request)


def add_group(app: typer.Typer, command: str, choice: Choice | None, run: Run | None = None) -> None:
    """Add ``train`` or ``plan`` with the chosen method, or with a list of methods if no method is chosen."""
    group = typer.Typer(cls=PlainGroup, rich_markup_mode=None)
    if choice is None:
        for name in methods_of(command):
            usual = " (default)" if name == DEFAULT_METHODS[command] else ""
            group.command(name, cls=PlainCommand, short_help=one_line(_words(name), 60) + usual)(_nothing)
        usual = DEFAULT_METHODS[command]
        about = f"'dpensemble {command} METHOD --help' shows the options of a method; without METHOD: {usual}."
        laws = f"A law's name stands for 'pate --law NAME': {', '.join(LAWS)}."
        text = f"{_ABOUT[command]} {about}\n\n{laws}\n\nExample: {_EXAMPLES[command]}"
    else:
        group.command(choice.method, cls=PlainCommand, help=_help(choice))(_function(choice, run))
        text = _ABOUT[command]
    app.add_typer(group, name=command, help=text)


def add_name(app: typer.Typer, command: str) -> None:
    """Add ``train`` or ``plan`` only to the list of commands."""
    app.command(command, cls=PlainCommand, help=_ABOUT[command])(_nothing)


def _nothing() -> None:
    """Do nothing: the command is only listed."""


def _words(method: str) -> str:
    """Return a short description of a method."""
    return method_of(method).words


def _help(choice: Choice) -> str:
    text = f"{_ABOUT[choice.command]} {choice.method}: {_words(choice.method)}."
    return text if choice.law not in LAWS else f"{text} Law {choice.law}: {law_of(choice.law).title}."


def _function(choice: Choice, run: Run | None) -> Callable[..., None]:
    """Return a function whose signature contains the options, as typer reads them."""
    options = {option.key: option for option in options_of(choice.command, choice.method, choice.law)}

    def call(**values: Any) -> None:
        request = _request(choice, options, values)
        if run is not None:
            run(request)
        else:
            run_request(choice.command, request)

    parameters = [_parameter(key, option) for key, option in options.items()]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    call.__doc__ = None
    return call


def _parameter(key: str, option: Option) -> inspect.Parameter:
    kind: Any = (
        StrEnum(key, [(text.replace("-", "_"), text) for text in option.choices]) if option.choices else option.kind
    )
    names = [option.flag, *([] if option.also is None else [option.also])]
    flag = option.kind is bool
    default = typer.Option(
        ... if option.required else (False if flag else None),
        *names,
        help=option.text,
        rich_help_panel=option.panel,
        metavar=None if flag else option.metavar,
        show_default=False,
        hidden=option.hidden,
    )
    annotation = kind if flag or option.required else kind | None
    return inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _request(choice: Choice, options: dict[str, Option], values: dict[str, Any]) -> Request:
    """Sort the values by their destination."""
    sorted_values: dict[str, dict[str, Any]] = {SETTING: {}, LAW: {}, RULE: {}, OWN: {}}
    for key, option in options.items():
        if option.name in ("method", "law"):
            continue
        raw = values[key]
        value = raw.value if isinstance(raw, StrEnum) else raw
        absent = value is None or (value is False and option.kind is bool)
        if option.goes_to == OWN:
            sorted_values[OWN][option.name] = option.default if absent else value
        elif not absent or option.default is not None:
            sorted_values[option.goes_to][option.name] = option.default if absent else value
    return Request(method=choice.method, law=choice.law, **sorted_values)
