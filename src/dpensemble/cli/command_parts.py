"""What the declarations of commands share: options, and the import of the module that does the work."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from dpensemble.cli.interrupts import INTERRUPTS
from dpensemble.cli.option import OUTPUT

#: Functions of typer by what people type.
Commands = dict[str, Callable[..., None]]


def option(panel: str, text: str, *names: str, metavar: str | None = None) -> Any:
    """Return an option with its panel of the help. The text states the default."""
    return typer.Option(*names, help=text, rich_help_panel=panel, show_default=False, metavar=metavar)


def run_command(function: str, **values: Any) -> Any:
    """Import the module of a command, and call a function of the module, ``PACKAGE.MODULE:FUNCTION``."""
    module, _, name = function.partition(":")
    with INTERRUPTS.at_once():
        run = vars(import_module(f"dpensemble.{module}"))[name]
    return run(**values)


def print_answer(function: str, *, as_json: bool, **values: Any) -> None:
    """Run a command that returns plain values and words, and print one of them."""
    answer, words = run_command(function, **values)
    typer.echo(json.dumps(answer, indent=2) if as_json else words)


Json = Annotated[bool, option(OUTPUT, "Print the result as JSON.", "--json")]
Plot = Annotated[Path | None, option(OUTPUT, "Also draw it as SVG.")]
