"""``dpensemble train METHOD`` and ``plan METHOD`` as commands with the options of the method.

The method and law of a command line are found before it is parsed, because they decide which options exist.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from typing import Any

import typer

from dpensemble.cli.help import PlainCommand, PlainGroup, one_line
from dpensemble.cli.interrupts import INTERRUPTS
from dpensemble.cli.manifest import LAWS, METHODS, law_of, law_parameter, laws_of, method_of
from dpensemble.cli.options import LAW, OWN, RULE, SETTING, Option, flag_of, options_of
from dpensemble.errors import InvalidParameterError

#: Method of a command that names none.
DEFAULT_METHODS = {"train": "auto", "plan": "saa"}
# The method of a law whose name is given instead of a method.
_OF_A_LAW, _IN_PARTITIONS = "pate", "dpbag"

_NOT_HERE = {
    ("train", "bagging"): (
        "--method bagging publishes models instead of labels, so 'train' does not run it: use "
        "BaggingPrivacyClassifier in Python, and 'dpensemble plan bagging' for its guarantee."
    ),
    ("plan", "auto"): (
        "--method auto has no plan, since it chooses by the tables; 'dpensemble plan --help' lists methods that vote."
    ),
    ("plan", "label-moments"): (
        "--method label-moments has no plan: it uses all of any budget and labels any number of public rows."
    ),
    ("plan", "discriminant"): (
        "--method discriminant has no plan: it uses all of any budget and labels any number of public rows."
    ),
    ("plan", "soft-votes"): (
        "--method soft-votes has no plan: it uses all of any budget and labels any number of public rows."
    ),
    ("plan", "private-majority"): (
        "--method private-majority has no plan: private models pay for any number of labels; for noisy answers "
        "see 'dpensemble gamma' or compare_aggregators."
    ),
}


@dataclass(frozen=True, slots=True)
class Choice:
    """A command, its method and law, and the remaining arguments."""

    command: str
    method: str
    law: str | None
    rest: tuple[str, ...]


def methods_of(command: str) -> list[str]:
    """Return the methods that a command runs."""
    return [name for name in METHODS if (command, name) not in _NOT_HERE]


def owners(flag: str, command: str) -> str | None:
    """Return which methods or laws have an option such as ``--reach``, in words, or None."""
    methods = [
        name
        for name in methods_of(command)
        if any(flag in (option.flag, option.also) for option in options_of(command, name, None))
    ]
    if methods:
        return f"it belongs to the method{'s' * (len(methods) > 1)} {', '.join(methods)}"
    laws = [name for name in LAWS if flag in map(flag_of, law_of(name).parameters)]
    return f"it belongs to the law{'s' * (len(laws) > 1)} {', '.join(laws)}: choose by --law NAME" if laws else None


def choose(command: str, arguments: Sequence[str]) -> Choice | None:
    """Read method and law from the arguments of ``train`` or ``plan``."""
    rest = list(arguments)
    first = rest.pop(0) if rest and not rest[0].startswith("-") else None
    named = _take_option(rest, "--method")
    if first is not None and named not in (None, first):
        raise InvalidParameterError(f"--method {named} and the method {first!r} are both given: name only one.")
    name = first if named is None else named
    law_option = _value_of(rest, "--law")
    if name is None and law_option is None and {"-h", "--help"} & set(rest):
        return None
    method, law = _method_and_law(command, _default(command, rest) if name is None else name, rest)
    if (command, method) in _NOT_HERE:
        raise InvalidParameterError(_NOT_HERE[command, method])
    parameter = law_parameter(method)
    if parameter is None:
        # The parser refuses --law.
        return Choice(command, method, None, tuple(rest))
    _take_option(rest, "--law")
    if law_option is not None and law not in (None, law_option):
        raise InvalidParameterError(f"--law {law_option} contradicts the method {name!r}: drop one of them.")
    law = law_option or law or parameter.default
    if law is not None and law not in laws_of(method):
        raise InvalidParameterError(f"law of {method} must be one of {', '.join(laws_of(method))}; got {law!r}.")
    return Choice(command, method, law, tuple(rest))


def _default(command: str, rest: Sequence[str]) -> str:
    """Return the method of a command line that names none: the voting method, if one of its options is given."""
    usual = DEFAULT_METHODS[command]
    votes = DEFAULT_METHODS["plan"]
    flags = {argument.partition("=")[0] for argument in rest}
    own = {option.flag for option in options_of(command, usual, None)}
    takes_law = law_parameter(votes)
    law = None if takes_law is None else takes_law.default
    voting = {option.flag for option in options_of(command, votes, law)}
    return votes if flags & (voting - own) else usual


def _method_and_law(command: str, name: str, rest: Sequence[str]) -> tuple[str, str | None]:
    """Return a method by its name, or a law's method and the law."""
    if name in METHODS:
        return name, None
    if name not in LAWS:
        choices = f"a method ({', '.join(methods_of(command))}) or a law ({', '.join(LAWS)})"
        raise InvalidParameterError(f"method={name!r} is unknown: use {choices}.")
    many = name == "optimal" and _value_of(rest, "--partitions") not in (None, "1")
    return (_IN_PARTITIONS if many else _OF_A_LAW), name


def _value_of(arguments: Sequence[str], option: str) -> str | None:
    """Return the last value of an option."""
    return _take_option([*arguments], option)


def _take_option(arguments: list[str], option: str) -> str | None:
    """Remove an option and its values from the arguments, and return the last value. The parser checks the rest."""
    value = None
    position = 0
    while position < len(arguments):
        name, equals, text = arguments[position].partition("=")
        if name != option or not (equals or position + 1 < len(arguments)):
            position += 1
            continue
        value = text if equals else arguments[position + 1]
        del arguments[position : position + (1 if equals else 2)]
    return value


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
