"""Find the method and law of a command line before it is parsed, because they decide which options exist."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpensemble.cli.manifest import LAWS, METHODS, law_of, law_parameter, laws_of
from dpensemble.cli.options import options_of
from dpensemble.cli.parameters import flag_of
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
