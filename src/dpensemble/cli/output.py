"""What commands print and write beside their tables: warnings as lines, charts and certificates.

Warnings in the terminal.

Files that ``plan`` and ``gamma`` write: the plot of a plan, and a certificate.

The plot shows what labels cost, and how often they are wrong.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import typer
from markupsafe import Markup

from dpensemble.accounting import Accounting
from dpensemble.accounting.published import has_published
from dpensemble.design import Plan, answer_rate, wrong_label_rate
from dpensemble.errors import ColumnWarning, FileError, InvalidParameterError, file_errors
from dpensemble.report.charts import GROUP_COLOURS, WIDTH, Limit, Series, Words, line_chart
from dpensemble.report.groups import History, history_chart


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
_MARGINS = 81
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


def check_plot_file(path: Path | None) -> None:
    """Raise if the file is not named .svg or cannot be written. Called before any long work. None is fine."""
    if path is not None and path.suffix.lower() != ".svg":
        raise InvalidParameterError(f"plot must be a file that ends in .svg; got {str(path)!r}.")
    check_folder("plot", path)


def check_folder(name: str, path: Path | None) -> None:
    """Raise if the file cannot be written. Called before any long work. None is fine."""
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise FileError(f"{name}={str(path)!r} must be a file in an existing folder: choose another file.")


def write_plot(plan: Plan, plain: dict[str, Any] | None, path: Path) -> None:
    """Draw the plan's charts, and write them as one SVG."""
    design = plan.design
    if plain is not None:
        history = History(
            groups=[(group.name, group.budget) for group in plan.groups],
            spend=design.spend_curve(plan.labels),
            plain=plain["plain_spend"],
            marks=[(entry["name"], entry["epsilon"], entry["labels"]) for entry in plain["plain_labels"]],
        )
        charts = [("What labels cost each group", history_chart(history, "labels"))]
    else:
        charts = [("What labels cost", _epsilon_chart(plan)), ("How often a label is wrong", _quality_chart(plan))]
    teachers = design.settings()["n_teachers"]
    setting = (
        f"{design.name}, {design.law.title}, {teachers:,} teachers, {design.n_classes} classes, delta {plan.delta:g}"
    )
    write_charts(setting, charts, path)


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


def _epsilon_chart(plan: Plan) -> Markup:
    lines, accountings = [], [(Accounting.EXACT, "main")]
    if has_published(plan.design.law):
        accountings.append((Accounting.PUBLISHED, "other"))
    for accounting, css in accountings:
        curve = plan.design.with_accounting(accounting).spend_curve(plan.labels)
        lines.append(Series(accounting.value, [(count, epsilon) for count, (epsilon,) in curve], css))
    words = Words("epsilon", "Epsilon by number of labels", "labels", "epsilon")
    return line_chart(lines, [Limit(f"budget {plan.epsilon:.3g}", plan.epsilon)], words)


def _quality_chart(plan: Plan) -> Markup:
    law, ballots, n_classes = plan.design.law, plan.design.ballots, plan.design.n_classes
    margins = np.linspace(0, ballots, _MARGINS)
    wrong = wrong_label_rate(law, ballots, margins, n_classes)
    lines = [Series("label wrong", np.stack([margins, wrong], axis=1).tolist(), "main")]
    if plan.design.gated:
        unanswered = 1 - answer_rate(law, ballots, margins, n_classes)
        lines.append(Series("not answered", np.stack([margins, unanswered], axis=1).tolist(), "other"))
    words = Words("quality", "Wrong labels by vote margin", "votes ahead of the runner-up", "probability")
    return line_chart(lines, [Limit("a guess", 1 - 1 / n_classes)], words)


def write_certificate(path: Path, certificate: dict[str, Any]) -> None:
    """Write a whole certificate or nothing."""
    from dpensemble.workflow import disk  # noqa: PLC0415  takes long to import

    disk.replace_file(path, json.dumps(certificate, separators=(",", ":")) + "\n")


def print_certificate(path: Path | None) -> None:
    """Print the path of the certificate, if there is one, and how to check it."""
    if path is not None:
        typer.echo(f"Certificate: {path}; check it by 'dpensemble verify {path}'")
