"""What commands print and write beside their tables: warnings as lines, charts as SVG, and certificates."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from markupsafe import Markup

from dpensemble.errors import ColumnWarning, FileError, InvalidParameterError, file_errors
from dpensemble.report.charts import GROUP_COLOURS, WIDTH


@contextmanager
def warnings_as_lines(*, told_otherwise: tuple[type[Warning], ...] = (ColumnWarning,)) -> Iterator[None]:
    """Print each warning of the library once, as one line on stderr, except the listed kinds."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    messages = [str(warning.message) for warning in caught if not issubclass(warning.category, told_otherwise)]
    for text in dict.fromkeys(messages):
        typer.echo(f"dpensemble: {text}", err=True)


_HEADING, _GAP = 34, 20
# The colours of the report's page in light mode.
_PAGE = Markup(
    '<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
    "<style>"
    'svg {{ font: 13px system-ui, "Segoe UI", Roboto, sans-serif; }}'
    "text {{ fill: #18202c; }} .behind {{ fill: #fff; }}"
    ".title {{ font-size: 15px; font-weight: 600; }} .name {{ font-weight: 600; }} .tick {{ fill: #515d70; }}"
    ".main-label {{ fill: #1c5fa8; font-weight: 600; }} .other-label {{ fill: #515d70; font-weight: 600; }}"
    ".limit-label {{ font-weight: 600; }} .grid {{ stroke: #d5dce6; }} .axis {{ stroke: #515d70; }}"
    ".limit {{ stroke: #18202c; stroke-width: 1.5; stroke-dasharray: 6 4; }}"
    ".line {{ fill: none; stroke-width: 2.5; stroke-linejoin: round; stroke-linecap: round; }}"
    ".line.main {{ stroke: #1c5fa8; }} .line.other {{ stroke: #7c899b; }}"
    ".main:not(.line) {{ fill: #1c5fa8; }} .other:not(.line) {{ fill: #7c899b; }}{groups}"
    '</style><rect width="{width}" height="{height}" fill="#fff"/>{body}</svg>\n'
)
_GROUP = Markup(
    ".line.{css}, .limit.{css} {{ stroke: {colour}; }} .dot.{css}, .{css}-label {{ fill: {colour}; font-weight: 600; }}"
)
_TITLE = Markup('<text class="{css}" x="4" y="{y}">{text}</text>')


def check_folder(name: str, path: Path | None) -> None:
    """Raise if the file cannot be written. Called before any long work. None is fine."""
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise FileError(f"{name}={str(path)!r} must be a file in an existing folder: choose another file.")


def write_charts(setting: str, charts: Sequence[tuple[str, Markup]], path: Path) -> None:
    """Write charts with their titles as one SVG. `setting` describes the plan or the laws in one line."""
    y, body = _HEADING, _TITLE.format(css="tick", y=18, text=setting)
    for title, chart in charts:
        drawn = str(chart)
        height = int(drawn.split('viewBox="0 0 ', 1)[1].split('"', 1)[0].split()[1])
        placed = drawn.replace("<svg ", f'<svg y="{y + _HEADING}" width="{WIDTH}" height="{height}" ', 1)
        body += _TITLE.format(css="title", y=y + 22, text=title) + Markup(placed)  # noqa: S704
        y += _HEADING + height + _GAP
    groups = Markup("").join(
        _GROUP.format(css=f"group-{number}", colour=colour) for number, colour in enumerate(GROUP_COLOURS[0], start=1)
    )
    with file_errors(lambda reason: f"plot={str(path)!r} cannot be written ({reason}): choose another file."):
        path.write_text(_PAGE.format(width=WIDTH, height=y, body=body, groups=groups), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class PlanFiles:
    """The files that ``plan`` and ``gamma`` write on request: a plot, and a certificate for `dpensemble verify`."""

    certificate: Path | None
    plot: Path | None = None

    def check(self) -> None:
        """Raise if a file cannot be written. Called before any long work."""
        check_folder("certificate", self.certificate)
        if self.plot is not None and self.plot.suffix.lower() != ".svg":
            raise InvalidParameterError(f"plot must be a file that ends in .svg; got {str(self.plot)!r}.")
        check_folder("plot", self.plot)

    def write_certificate(self, certificate: dict[str, Any]) -> None:
        """Write a whole certificate or nothing."""
        from dpensemble.workflow import disk  # noqa: PLC0415  takes long to import

        if self.certificate is not None:
            disk.replace_file(self.certificate, json.dumps(certificate, separators=(",", ":")) + "\n")

    def print_certificate(self) -> None:
        """Print the path of the certificate, if there is one, and how to check it."""
        if self.certificate is not None:
            typer.echo(f"Certificate: {self.certificate}; check it by 'dpensemble verify {self.certificate}'")
