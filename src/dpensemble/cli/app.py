"""Commands, and the one place where errors become exit codes.

Exit codes: 0 success. 1 an error after a budget was spent, or an unexpected error. 2 bad input: one sentence on
stderr, and nothing is written. 130 interrupted. 143 terminated.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Annotated, Any

import typer

from dpensemble.cli.again import command as command_of
from dpensemble.cli.help import PlainGroup
from dpensemble.cli.interrupts import INTERRUPTED, INTERRUPTS
from dpensemble.cli.method_commands import Choice, add_group, add_name, choose, owners
from dpensemble.cli.options import flag_of
from dpensemble.cli.static_commands import STATIC_COMMANDS, add_static_command
from dpensemble.errors import DPEnsembleError, HiddenError

# typer may contain its own copy of click. So the base class of click's errors is taken from typer's own errors.
_UsageError: type[Exception] = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")
_BY_METHOD = ("train", "plan")
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
    """Train a classifier on private records under a differential-privacy guarantee."""


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return the exit code."""
    if not arguments:
        with_exit_code(parsed_and_run, ["--help"])
        return 2
    return with_exit_code(parsed_and_run, arguments)


def with_exit_code(act: Callable[[list[str]], int], arguments: Sequence[str]) -> int:
    """Call a parser with arguments, print each error as one sentence, and return the exit code."""
    try:
        with command_of(arguments):
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


def parsed_and_run(arguments: list[str]) -> int:
    """Parse arguments, run the command, and return its exit code. Errors are raised."""
    command = arguments[0] if arguments else ""
    choice: Choice | None = None
    if command in _BY_METHOD:
        choice = choose(command, arguments[1:])
        arguments = [command, "--help"] if choice is None else [command, choice.method, *choice.rest]
    result = _app(command, choice)(args=arguments, prog_name="dpensemble", standalone_mode=False)
    return result if isinstance(result, int) else 0


def _app(command: str, choice: Choice | None) -> typer.Typer:
    """Return the requested command, or all commands if none of them is requested. Options take long to read."""
    app = typer.Typer(
        cls=PlainGroup,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    if command in _BY_METHOD:
        add_group(app, command, choice)
    elif command in STATIC_COMMANDS:
        add_static_command(app, command)
    else:
        for name in _BY_METHOD:
            add_name(app, name)
        for name in STATIC_COMMANDS:
            add_static_command(app, name)
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
    owner = owners(flag, command) if command in _BY_METHOD and flag.startswith("--") else None
    if owner is not None:
        return f"{text}; {owner}."
    flags = [name for parameter in error.ctx.command.params for name in parameter.opts] if error.ctx else []
    close = get_close_matches(flag, flags, n=1, cutoff=0.75)
    return f"{text}; did you mean {close[0]}?" if close else f"{text}: see --help."


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
