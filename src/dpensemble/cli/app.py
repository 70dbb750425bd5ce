"""Parse a command line, run its command, and turn errors into exit codes.

The method and law of ``train`` and ``plan`` are found before the command line is parsed, because they decide which
options exist.

Exit codes: 0 success. 1 an error after a budget was spent, or an unexpected error. 2 bad input: one sentence on
stderr, and nothing is written. 3: ``verify`` could not check anything. 130 interrupted. 143 terminated.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

from dpensemble.cli.interrupts import INTERRUPTED, INTERRUPTS
from dpensemble.cli.options import (
    LAWS,
    METHODS,
    NOT_OF_TIMES,
    OF_LABELS,
    OF_NUMBER,
    OF_RISK,
    OF_TIMES,
    SIMULATED,
    Invocation,
    PlainCommand,
    PlainGroup,
    Request,
    Unfinished,
    described_law,
    described_method,
    flag_of,
    one_line,
    options_of,
)
from dpensemble.cli.static_commands import STATIC_COMMANDS, add_static_command
from dpensemble.errors import DPEnsembleError, HiddenError, InvalidParameterError, nearest

#: Method of a command that names none.
_DEFAULT_METHODS = {"train": "auto", "plan": "saa"}
# The method of a law whose name is given instead of a method.
_OF_A_LAW, _IN_PARTITIONS = "pate", "dpbag"
# The option that states that a number is predicted.
_RANGE = "--range"

_NOT_HERE = {
    ("train", "bagging"): (
        "--method bagging publishes models instead of labels, so 'train' does not run it: use "
        "BaggingPrivacyClassifier in Python, and 'dpensemble plan bagging' for its guarantee."
    ),
    ("plan", "label-moments-regressor"): (
        "--method label-moments-regressor has no plan yet: it uses all of any budget; docs/numbers.md has what was "
        "measured on ten public tables."
    ),
    ("plan", "label-moments-survival"): (
        "--method label-moments-survival has no plan yet: it uses all of any budget; docs/life-tables.md has what was "
        "measured on six public tables."
    ),
    ("plan", "auto"): (
        "--method auto has no plan, since it chooses by the tables; 'dpensemble plan --help' lists methods that vote."
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
class _Choice:
    """A command, its method and law, and the remaining arguments."""

    command: str
    method: str
    law: str | None
    rest: tuple[str, ...]


def methods_of(command: str) -> list[str]:
    """Return the methods that a command runs."""
    return [name for name in METHODS if (command, name) not in _NOT_HERE]


def _owners(flag: str, command: str) -> str | None:
    """Return which methods or laws have an option such as ``--reach``, in words, or None."""
    methods = [
        name
        for name in methods_of(command)
        if any(flag in (option.flag, option.also) for option in options_of(command, name, None))
    ]
    if methods:
        return f"it belongs to the method{'s' * (len(methods) > 1)} {', '.join(methods)}"
    laws = [name for name in LAWS if flag in map(flag_of, described_law(name).parameters)]
    return f"it belongs to the law{'s' * (len(laws) > 1)} {', '.join(laws)}: choose by --law NAME" if laws else None


def choose_method(command: str, arguments: Sequence[str]) -> _Choice | None:
    """Read method and law from the arguments of ``train`` or ``plan``."""
    rest = list(arguments)
    flags = {argument.partition("=")[0] for argument in rest}
    if command == "train" and {_RANGE, "--classes"} <= flags:
        raise InvalidParameterError(
            "--range is for a number and --classes for labels: give only one of them.", parameter="range"
        )
    first = rest.pop(0) if rest and not rest[0].startswith("-") else None
    named = _take_option(rest, "--method")
    if first is not None and named not in (None, first):
        raise InvalidParameterError(f"--method {named} and the method {first!r} are both given: name only one.")
    name = first if named is None else named
    law_option = _value_of(rest, "--law")
    if name is None and law_option is None and {"-h", "--help"} & set(rest):
        return None
    method, law = _method_and_law(command, _default_method(command, rest) if name is None else name, rest)
    if (command, method) in _NOT_HERE:
        raise InvalidParameterError(_NOT_HERE[command, method])
    if method == OF_NUMBER and (about_labels := sorted(flags & OF_LABELS)):
        raise InvalidParameterError(f"{about_labels[0]} is about labels, and a number is predicted: leave it out.")
    if method == OF_RISK and (others := sorted(flags & NOT_OF_TIMES)):
        raise InvalidParameterError(
            f"{others[0]} has no meaning for times until an event (--time, --event, --bins): leave it out."
        )
    parameter = described_method(method).law
    if parameter is None:
        # The parser refuses --law.
        return _Choice(command, method, None, tuple(rest))
    _take_option(rest, "--law")
    if law_option is not None and law not in (None, law_option):
        raise InvalidParameterError(f"--law {law_option} contradicts the method {name!r}: drop one of them.")
    law = law_option or law or parameter.default
    if law is not None and law not in described_method(method).laws:
        raise InvalidParameterError(
            f"law of {method} must be one of {', '.join(described_method(method).laws)}; got {law!r}."
        )
    return _Choice(command, method, law, tuple(rest))


def _default_method(command: str, rest: Sequence[str]) -> str:
    """Return the method of a command line that names none: the voting method, if one of its options is given."""
    usual = _DEFAULT_METHODS[command]
    votes = _DEFAULT_METHODS["plan"]
    flags = {argument.partition("=")[0] for argument in rest}
    if command == "train" and flags & {_RANGE, *OF_TIMES}:
        return OF_RISK if flags & OF_TIMES else OF_NUMBER
    own = {option.flag for option in options_of(command, usual, None)}
    takes_law = described_method(votes).law
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


_ABOUT_SIZE = (
    "Estimate accuracy and AUROC before anything is spent, by real fits on stand-in records with noise of the real "
    "size. No private table is read: you state the number of records."
)
_ABOUT = {
    "train": "Train a student and report.",
    "plan": "Show what a budget buys, without reading a record. Give two of epsilon, labels and noise.",
}
_EXAMPLES = {
    "train": "dpensemble train dpbag --dataset adult --epsilon 1 --out demo",
    "plan": "dpensemble plan saa --teachers 250 --epsilon 1 --delta 1e-5",
}


def _train(request: Request) -> None:
    # Heavy modules are imported only now.
    with INTERRUPTS.at_once():
        from dpensemble.cli.train import run  # noqa: PLC0415
    run(request)


def _plan(request: Request) -> None:
    with INTERRUPTS.at_once():
        if request.method == SIMULATED:
            from dpensemble.cli.table_size import run  # noqa: PLC0415
        else:
            from dpensemble.cli.plan import run  # noqa: PLC0415
    run(request)


#: What runs the commands whose options depend on a method.
_BY_METHOD: dict[str, Callable[[Request], None]] = {"train": _train, "plan": _plan}


def add_command_of_method(
    app: typer.Typer, command: str, choice: _Choice | None, run: Callable[[Request], None]
) -> None:
    """Add ``train`` or ``plan`` with the chosen method, or with a list of methods if no method is chosen."""
    group = typer.Typer(cls=PlainGroup, rich_markup_mode=None)
    if choice is None:
        for name in methods_of(command):
            usual = " (default)" if name == _DEFAULT_METHODS[command] else ""
            group.command(name, cls=PlainCommand, short_help=one_line(_words(name), 60) + usual)(_nothing)
        usual = _DEFAULT_METHODS[command]
        about = f"'dpensemble {command} METHOD --help' shows the options of a method; without METHOD: {usual}"
        about += f" (with {_RANGE}: {OF_NUMBER}; with --time: {OF_RISK})." if command == "train" else "."
        laws = f"A law's name stands for 'pate --law NAME': {', '.join(LAWS)}."
        text = f"{_ABOUT[command]} {about}\n\n{laws}\n\nExample: {_EXAMPLES[command]}"
    else:
        group.command(choice.method, cls=PlainCommand, help=_help(choice))(_function_with_options(choice, run))
        text = _ABOUT[command]
    app.add_typer(group, name=command, help=text)


def _add_name(app: typer.Typer, command: str) -> None:
    """Add ``train`` or ``plan`` only to the list of commands."""
    app.command(command, cls=PlainCommand, help=_ABOUT[command])(_nothing)


def _nothing() -> None:
    """Do nothing: the command is only listed."""


def _words(method: str) -> str:
    """Return a short description of a method."""
    return described_method(method).words


def _help(choice: _Choice) -> str:
    simulated = choice.command == "plan" and choice.method == SIMULATED
    text = f"{_ABOUT_SIZE if simulated else _ABOUT[choice.command]} {choice.method}: {_words(choice.method)}."
    return text if choice.law not in LAWS else f"{text} Law {choice.law}: {described_law(choice.law).title}."


def _function_with_options(choice: _Choice, run: Callable[[Request], None]) -> Callable[..., None]:
    """Return a function whose signature contains the options of a method, as typer reads them."""
    options = {option.key: option for option in options_of(choice.command, choice.method, choice.law)}

    def call(**values: Any) -> None:
        run(Request.of(choice.method, choice.law, options, values))

    parameters = [option.as_parameter() for option in options.values()]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    call.__doc__ = None
    return call


# typer may contain its own copy of click. So the base class of click's errors is taken from typer's own errors.
_UsageError: type[Exception] = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")
# What the parser expects, by the type of its error.
_NUMBERS = {"float_parsing": "a number", "int_parsing": "a whole number"}
_NUMBERS_OF_OLD_TYPER = re.compile(r"('.*') is not a valid (float|int)(?:eger)?\.")


def _print_version(is_given: bool) -> None:
    if is_given:
        from importlib.metadata import version  # noqa: PLC0415 - slow, and needed only here

        typer.echo(f"dpensemble {version('dpensemble')}")
        raise typer.Exit


def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Train a model of labels, numbers or risks on private records under a differential-privacy guarantee."""


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return the exit code."""
    if not arguments:
        with_exit_code(parsed_and_run, ["--help"])
        return 2
    return with_exit_code(parsed_and_run, arguments)


def with_exit_code(act: Callable[[list[str]], int], arguments: Sequence[str]) -> int:
    """Call a parser with arguments, print each error as one sentence, and return the exit code."""
    try:
        return act(list(arguments))
    except HiddenError as error:
        if os.environ.get("DPENSEMBLE_TRACEBACK") and not INTERRUPTS.code:
            raise
        return _unforeseen(error.kind)
    except DPEnsembleError as error:
        return _fail(_message(error, arguments))
    except _UsageError as error:
        return _fail(_usage(error, arguments))
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTS.code or INTERRUPTED
    except Exception as error:
        if os.environ.get("DPENSEMBLE_TRACEBACK") and not INTERRUPTS.code:
            raise
        return _unforeseen(type(error).__name__)


def parsed_and_run(arguments: list[str], resumed: Unfinished | None = None) -> int:
    """Parse arguments, run the command, and return its exit code. Errors are raised.

    The command finishes the run `resumed`, if there is one.
    """
    command = arguments[0] if arguments else ""
    app = _empty_app()
    left = arguments
    if command in _BY_METHOD:
        choice = choose_method(command, arguments[1:])
        left = [command, "--help"] if choice is None else [command, choice.method, *choice.rest]

        def run(request: Request) -> None:
            _BY_METHOD[command](replace(request, arguments=tuple(arguments), resumed=resumed))

        add_command_of_method(app, command, choice, run)
    elif command in STATIC_COMMANDS:
        add_static_command(app, command)
    else:
        for name in _BY_METHOD:
            _add_name(app, name)
        for name in STATIC_COMMANDS:
            add_static_command(app, name)
    # `recover` runs the command of a journal, and `lifetable` writes one.
    invocation = Invocation(parsed_and_run, tuple(arguments), resumed)
    result = app(args=left, prog_name="dpensemble", standalone_mode=False, obj=invocation)
    return result if isinstance(result, int) else 0


def _empty_app() -> typer.Typer:
    """Return an app without commands. Only the requested command is added, since options take long to read."""
    app = typer.Typer(
        cls=PlainGroup,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    return app


def _message(error: DPEnsembleError, arguments: Sequence[str]) -> str:
    """Return an error's text, preceded by the option's name if the option and the parameter have different names."""
    flag = None if error.parameter is None else flag_of(error.parameter)
    in_arguments = flag is not None and any(argument.split("=")[0] == flag for argument in arguments)
    named = flag is not None and flag[2:].replace("-", "_") == error.parameter
    return f"{flag}: {error}" if in_arguments and not named else str(error)


def _usage(error: Any, arguments: Sequence[str]) -> str:
    """Return the parser's message. For an option of another method or law, the message names that method or law."""
    invalid: dict[str, Any] = getattr(error.__cause__, "errors", lambda: [{}])()[0]
    if invalid.get("type") in _NUMBERS:
        return f"{error.param.opts[0]} {invalid['input']!r} is not {_NUMBERS[invalid['type']]}."
    if older := _NUMBERS_OF_OLD_TYPER.fullmatch(str(error.message)):
        return f"{error.param.opts[0]} {older[1]} is not {_NUMBERS[older[2] + '_parsing']}."
    if type(error).__name__ != "NoSuchOption":
        if error.message:
            error.message = error.message.removeprefix("Value error, ")
        return str(error.format_message())
    flag = error.option_name
    text = f"No such option: {flag}"
    command = arguments[0] if arguments else ""
    owner = _owners(flag, command) if command in _BY_METHOD and flag.startswith("--") else None
    if owner is not None:
        return f"{text}; {owner}."
    flags = [name for parameter in error.ctx.command.params for name in parameter.opts] if error.ctx else []
    return f"{text}{nearest(flag, flags) or ': see --help.'}"


#: Letters of an error message.
_LONGEST = 2_000


def _unforeseen(kind: str) -> int:
    # Some libraries turn an interrupt into an error of their own class.
    if INTERRUPTS.code:
        return INTERRUPTS.code
    # Texts of foreign errors may quote private records.
    typer.echo(
        f"dpensemble: unexpected {kind}; {INTERRUPTS.standing}. "
        "Set DPENSEMBLE_TRACEBACK=1 to see the traceback, which may print private records on the screen.",
        err=True,
    )
    return 1


def _fail(message: str) -> int:
    message = " ".join(message.split())
    if len(message) > _LONGEST:
        # A value of a stranger's file may be as long as the file. The beginning and the end name file and remedy.
        message = f"{message[: _LONGEST // 2]} ... {message[-_LONGEST // 2 :]}"
    if INTERRUPTS.spent:
        # More than bad input: a budget was spent.
        message = f"{message.removesuffix('.')}; {INTERRUPTS.standing}."
    typer.echo(f"dpensemble: {message}", err=True)
    return 1 if INTERRUPTS.spent else 2
