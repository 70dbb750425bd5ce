"""Which method and law a command line is about, seen before it is parsed: they decide which options there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpensemble.cli import manifest
from dpensemble.cli.manifest import Description, Parameter
from dpensemble.errors import InvalidParameterError

#: Classes of the methods, by their short names.
METHODS = manifest.names("methods")
#: Classes of the laws that every command can name, by short name.
LAWS = manifest.names("laws")
#: What a command takes if no method is named.
DEFAULT_METHODS = {"train": "auto", "plan": "saa"}
# The method that a law stands for, if it is named in the place of a method.
_OF_A_LAW, _IN_PARTITIONS = "pate", "dpbag"

_NOT_HERE = {
    ("train", "bagging"): (
        "--method bagging publishes models instead of labels, so 'train' does not run it; use "
        "BaggingPrivacyClassifier in Python, and 'dpensemble plan bagging' for what it promises."
    ),
    ("plan", "auto"): (
        "--method auto has no plan, since it chooses by the tables; 'dpensemble plan --help' lists methods that vote."
    ),
    ("plan", "label-moments"): (
        "--method label-moments has no plan: all of the budget is used whatever it is, and any number of public rows "
        "gets a label."
    ),
    ("plan", "soft-votes"): (
        "--method soft-votes has no plan: all of the budget is used whatever it is, and any number of public rows "
        "gets a label."
    ),
    ("plan", "private-majority"): (
        "--method private-majority has no plan: private models pay for any number of labels; for noisy answers "
        "see 'dpensemble gamma' or compare_aggregators."
    ),
}


@dataclass(frozen=True, slots=True)
class Choice:
    """A command, the method and law it is about, and the arguments that are left."""

    command: str
    method: str
    law: str | None
    rest: tuple[str, ...]


def method_of(name: str) -> Description:
    """Return what the estimator of a method takes."""
    return manifest.describe(METHODS[name])


def law_of(name: str) -> Description:
    """Return the fields of a law."""
    return manifest.describe(LAWS[name])


def methods_of(command: str) -> list[str]:
    """Return the methods that a command runs."""
    return [name for name in METHODS if (command, name) not in _NOT_HERE]


def law_parameter(method: str) -> Parameter | None:
    """Return the parameter by which a method takes a law, if it does."""
    return method_of(method).parameters.get("law")


def laws_of(method: str) -> tuple[str, ...]:
    """Return the laws that a method offers: those its docstring names, else all."""
    parameter = law_parameter(method)
    return () if parameter is None else parameter.choices or tuple(LAWS)


def rule_fields() -> list[Parameter]:
    """Return the fields of the rule by which personalised methods share influence."""
    return list(manifest.rule().parameters.values())


def choose(command: str, arguments: Sequence[str]) -> Choice | None:
    """Read method and law off the arguments of ``train`` or ``plan``."""
    rest = list(arguments)
    first = rest.pop(0) if rest and not rest[0].startswith("-") else None
    named = _taken(rest, "--method")
    if first is not None and named not in (None, first):
        raise InvalidParameterError(f"--method {named} and the method {first!r} are both given; name only one.")
    name = first if named is None else named
    wanted = _peek(rest, "--law")
    if name is None and wanted is None and {"-h", "--help"} & set(rest):
        return None
    method, law = _method_and_law(command, _default(command, rest) if name is None else name, rest)
    if (command, method) in _NOT_HERE:
        raise InvalidParameterError(_NOT_HERE[command, method])
    parameter = law_parameter(method)
    if parameter is None:
        # The parser refuses --law.
        return Choice(command, method, None, tuple(rest))
    _taken(rest, "--law")
    if wanted is not None and law not in (None, wanted):
        raise InvalidParameterError(f"--law {wanted} contradicts the method {name!r}; drop one of them.")
    law = wanted or law or parameter.default
    if law is not None and law not in laws_of(method):
        raise InvalidParameterError(f"law={law!r} is no law of {method}; use {', '.join(laws_of(method))}.")
    return Choice(command, method, law, tuple(rest))


def _default(command: str, rest: Sequence[str]) -> str:
    """Return the method of a command line that names none: the one that votes, if an option of its own is given."""
    from dpensemble.cli.options import options_of  # noqa: PLC0415 - it builds on choices

    usual = DEFAULT_METHODS[command]
    votes = DEFAULT_METHODS["plan"]
    given = {argument.partition("=")[0] for argument in rest}
    own = {option.flag for option in options_of(Choice(command, usual, None, ()))}
    voting = {option.flag for option in options_of(Choice(command, votes, law_parameter(votes).default, ()))}  # type: ignore[union-attr]
    return votes if given & (voting - own) else usual


def _method_and_law(command: str, name: str, rest: Sequence[str]) -> tuple[str, str | None]:
    """Return the method of a name, and the law if it is that of a law."""
    if name in METHODS:
        return name, None
    if name not in LAWS:
        known = f"a method ({', '.join(methods_of(command))}) or a law ({', '.join(LAWS)})"
        raise InvalidParameterError(f"method={name!r} is unknown; use {known}.")
    many = name == "optimal" and _peek(rest, "--partitions") not in (None, "1")
    return (_IN_PARTITIONS if many else _OF_A_LAW), name


def _peek(arguments: Sequence[str], option: str) -> str | None:
    """Return the last value of an option."""
    return _taken([*arguments], option)


def _taken(arguments: list[str], option: str) -> str | None:
    """Take an option and its values out of the arguments, and return the last; without one the parser refuses it."""
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
