"""How the examples draw: one small SVG each, in the folder that is given, or beside the example."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from dpensemble.cli.output import write_charts
from dpensemble.report.charts import Bar, Limit, Series, Words, bar_chart, line_chart


def place(name: str) -> Path:
    """Return where a picture goes: into the folder named on the command line, or here."""
    # The arguments of a notebook's kernel are flags.
    given = [word for word in sys.argv[1:2] if not word.startswith("-")]
    folder = Path(*given)
    return folder / f"{name}.svg"


def _about(name: str) -> str:
    return f"examples/{name.replace('-', '_')}.py"


def lines(
    name: str,
    title: str,
    axes: tuple[str, str],
    series: dict[str, Sequence[tuple[float, float]]],
    limits: dict[str, float] | None = None,
) -> None:
    """Draw lines, the first of them in the foreground, and dashed limits."""
    styles = ["main", "other", *(f"group-{number}" for number in range(2, 6))]
    drawn = [Series(label, points, css) for (label, points), css in zip(series.items(), styles, strict=False)]
    dashed = [Limit(label, at) for label, at in (limits or {}).items()]
    write_charts(_about(name), [(title, line_chart(drawn, dashed, Words(name, title, *axes)))], place(name))


def bars(name: str, title: str, groups: dict[str, dict[str, float]]) -> None:
    """Draw bars from 0 to 1 in groups; the first of each is in the foreground."""
    drawn = [
        (group, [Bar(label, value, "other" if number else "main") for number, (label, value) in enumerate(one.items())])
        for group, one in groups.items()
    ]
    write_charts(_about(name), [(title, bar_chart(drawn, Words(name, title)))], place(name))
