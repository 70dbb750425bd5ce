"""Help pages in plain text: one line for each option, in groups."""

from __future__ import annotations

import re
import shutil
import textwrap
from pathlib import Path
from typing import Any, get_args, get_type_hints

from typer.core import TyperCommand, TyperGroup

_LEFT = 31
_WIDEST = 100
#: Placeholder of a value in help, by type.
METAVARS: dict[type, str] = {int: "INT", float: "FLOAT", str: "TEXT", Path: "FILE", bool: ""}


class _Plain:
    """Write a page without boxes."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write usage, description and options."""
        width = min(max(80, shutil.get_terminal_size().columns), _WIDEST)
        command = ctx.command
        pieces = " ".join(command.collect_usage_pieces(ctx))
        usage = re.sub(r"\{(\w+)\}", lambda match: match[1].upper(), pieces)
        lines = [f"Usage: {ctx.command_path} {usage}"]
        for paragraph in (command.help or "").split("\n\n"):
            lines += textwrap.wrap(" ".join(paragraph.split()), width)
        panels: dict[str, list[tuple[str, str]]] = {}
        for parameter in command.params:
            if not parameter.hidden:
                left = _left(parameter, command)
                panels.setdefault(_panel(parameter), []).append((left, parameter.help or ""))
        for name, child in getattr(command, "commands", {}).items():
            panels.setdefault("Commands", []).append((name, child.get_short_help_str(_WIDEST)))
        panels.setdefault("Options", []).append(("-h, --help", "Show this page."))
        for panel, rows in panels.items():
            lines.append(f"{panel}:")
            for left, text in rows:
                lines += _row(left, text, width)
        formatter.write("\n".join(lines) + "\n")


class PlainCommand(_Plain, TyperCommand):
    """A command whose help is plain text."""


class PlainGroup(_Plain, TyperGroup):
    """A group of commands whose help is plain text."""


def one_line(text: str, width: int) -> str:
    """Return a text cut to a width, at the end of a clause when enough text remains.

    Examples
    --------
    >>> one_line("Neighbouring relation; decides how records are allocated", 40)
    'Neighbouring relation'
    >>> one_line("Standard deviation of the noise on the votes", 30)
    'Standard deviation of the ...'
    """
    if len(text) <= width:
        return text
    ends = [match.start() for match in re.finditer(r"[;,] |\(", text) if width / 3 <= match.start() <= width]
    if ends:
        return text[: ends[-1]].rstrip()
    return text[: width - 3].rsplit(" ", 1)[0] + " ..."


def _panel(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return "Arguments"
    return parameter.rich_help_panel or "Options"


def _left(parameter: Any, command: Any) -> str:
    if parameter.param_type_name == "argument":
        return str(parameter.name).upper()
    metavar = "" if parameter.is_flag else parameter.metavar
    if metavar is None:
        kind = get_type_hints(command.callback)[parameter.name]
        metavar = METAVARS.get((*get_args(kind), kind)[0], "NAME")
    return f"{', '.join(parameter.opts)} {metavar}".rstrip()


def _row(left: str, text: str, width: int) -> list[str]:
    wrapped = textwrap.wrap(text, width - _LEFT) or [""]
    first = f"  {left:<{_LEFT - 2}}"
    lines = [f"{first}{wrapped[0]}"] if len(first) == _LEFT else [first, f"{'':{_LEFT}}{wrapped[0]}"]
    return [line.rstrip() for line in [*lines, *(f"{'':{_LEFT}}{line}" for line in wrapped[1:])]]
