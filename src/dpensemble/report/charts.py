"""Charts as inline SVG without colours of their own, so that they follow the page's theme.

`Markup.format` and `Markup.join` escape whatever is not markup, so a chart is safe whatever its names hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from dpensemble.report.wording import number, shorten

WIDTH = 460
LABEL_HEIGHT = 18
MOST_POINTS = 300
_SVG = Markup(
    '<svg class="chart" role="img" aria-labelledby="{ident}-title {ident}-desc" '
    'viewBox="0 0 {width} {height}"><title id="{ident}-title">{title}</title>'
    '<desc id="{ident}-desc">{desc}</desc>{body}</svg>'
)
_TEXT = Markup('<text class="{css}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>')
_LINE = Markup('<line class="{css}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>')
_RECT = Markup('<rect class="{css}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>')
_PATH = Markup('<path class="line {css}" d="{d}"/>')
_DOT = Markup('<circle class="dot {css}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>')


@dataclass(frozen=True)
class Words:
    """A chart's identifier, unique on the page, its title, and the names of its axes."""

    ident: str
    title: str
    x: str = ""
    y: str = ""


@dataclass(frozen=True)
class Series:
    """Label, points in ascending order of x, and the CSS class that gives the colour of one line."""

    label: str
    points: Sequence[Sequence[float]]
    css: str


@dataclass(frozen=True)
class Bar:
    """Label, value and the CSS class that gives the colour of one bar."""

    label: str
    value: float
    css: str


@dataclass(frozen=True)
class _Frame:
    """Plotting area between the margins, with both scales starting at zero."""

    x_max: float
    y_max: float
    height: int = 280
    left: int = 56
    right: int = 112
    top: int = 34
    bottom: int = 52

    def x(self, value: float) -> float:
        return self.left + (WIDTH - self.left - self.right) * value / self.x_max

    def y(self, value: float) -> float:
        return self.height - self.bottom - (self.height - self.top - self.bottom) * value / self.y_max

    def axes(self, x_ticks: Iterable[float], y_ticks: Iterable[float], words: Words) -> Markup:
        floor, end = self.y(0), self.x(self.x_max)
        parts = [
            _LINE.format(css="grid", x1=self.left, y1=self.y(tick), x2=end, y2=self.y(tick))
            + _text("tick", self.left - 8, self.y(tick) + 4.5, number(tick), "end")
            for tick in y_ticks
        ]
        parts += [_text("tick", self.x(tick), floor + 19, number(tick), "middle") for tick in x_ticks]
        parts.append(_LINE.format(css="axis", x1=self.left, y1=floor, x2=end, y2=floor))
        parts.append(_text("name", (self.left + end) / 2, self.height - 8, words.x, "middle"))
        parts.append(_text("name", 4, 16, words.y, "start"))
        return Markup("").join(parts)


def nice_ticks(highest: float, at_most: int = 5, *, whole: bool = False) -> list[float]:
    """Return at most so many steps of round, or even `whole`, ticks from zero until they reach `highest`.

    A `highest` that is not positive and finite counts as 1.

    Examples
    --------
    >>> nice_ticks(0.87)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    if not (math.isfinite(highest) and highest > 0):
        highest = 1.0
    rough = highest / at_most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))
    if whole:
        step = max(1.0, step)
    steps = math.ceil(highest / step - 1e-9)
    return [float(f"{step * i:.12g}") for i in range(steps + 1)]


def line_chart(series: Sequence[Series], limit: tuple[str, float], words: Words) -> Markup:
    """Draw lines and a dashed horizontal limit; each is labelled at its end.

    Parameters
    ----------
    series : sequence of Series
        Points that are not finite are left out, and so is a line without points.
    limit : (str, float)
        Label and height of the limit.
    words : Words
        Names of the chart and its axes.

    Returns
    -------
    Markup
    """
    lines = [(one, _drawable(one.points)) for one in series]
    lines = [(one, points) for one, points in lines if points]
    everything = [point for _, points in lines for point in points]
    limit_label, limit_at = limit
    y_ticks = nice_ticks(max([limit_at, *(y for _, y in everything)]))
    frame = _Frame(max([1.0, *(x for x, _ in everything)]), y_ticks[-1])
    x_ticks = [tick for tick in nice_ticks(frame.x_max, 4, whole=True) if tick <= frame.x_max]
    end, height = frame.x(frame.x_max), frame.y(limit_at)
    body = frame.axes(x_ticks, y_ticks, words)
    body += _LINE.format(css="limit", x1=frame.left, y1=height, x2=end, y2=height)
    notes = [(end, height, limit_label, "limit-label")]
    told = [f"{limit_label.capitalize()}: a horizontal line at {number(limit_at)} {words.y}."]
    for one, points in lines:
        (x0, y0), (x1, y1) = points[0], points[-1]
        path = "L".join(f"{frame.x(x):.1f} {frame.y(y):.1f}" for x, y in points)
        body += _PATH.format(css=one.css, d=f"M{path}")
        body += _DOT.format(css=one.css, x=frame.x(x1), y=frame.y(y1))
        notes.append((frame.x(x1), frame.y(y1), one.label, f"{one.css}-label"))
        start, stop = (f"{number(y, 3)} at {number(x)} {words.x}" for x, y in ((x0, y0), (x1, y1)))
        told.append(f"{one.label.capitalize()}: {start}, {stop}.")
    if not lines:
        told.append("No points were recorded.")
    body += _labels(notes, frame.top, frame.y(0))
    return _svg(words, " ".join(told), frame.height, body)


def bar_chart(groups: Sequence[tuple[str, Sequence[Bar]]], words: Words) -> Markup:
    """Draw groups of horizontal bars on a scale from 0 to 1.

    Parameters
    ----------
    groups : sequence of (str, sequence of Bar)
        Name and bars of each group.
    words : Words
        Names of the chart; its axes need none.

    Returns
    -------
    Markup
    """
    floor = 4 + 22 * sum(1.6 + len(bars) for _, bars in groups)
    frame = _Frame(1, 1, height=round(floor + 30), left=6, right=150)
    body = Markup("").join(
        _LINE.format(css="grid", x1=frame.x(tick), y1=4, x2=frame.x(tick), y2=floor)
        + _text("tick", frame.x(tick), floor + 19, number(tick), "middle")
        for tick in nice_ticks(1)
    )
    y, told = 4.0, []
    for name, bars in groups:
        body += _text("name", frame.left + 6, y + 17, shorten(name, 40), "start")
        y += 24
        for bar in bars:
            shown = f"{bar.value:.3f}" if math.isfinite(bar.value) else "not available"
            end = frame.x(min(max(bar.value, 0.0), 1.0) if math.isfinite(bar.value) else 0.0)
            body += _rect(bar.css, frame.left, y, end - frame.left, 18)
            body += _text(f"{bar.css}-label", end + 7, y + 14, f"{shown} {shorten(bar.label)}", "start")
            told.append(f"{name}, {bar.label}: {shown}.")
            y += 22
        y += 11.2
    body += _LINE.format(css="axis", x1=frame.left, y1=4, x2=frame.left, y2=floor)
    return _svg(words, " ".join(told) or "No values were recorded.", frame.height, body)


def histogram(values: Sequence[float], words: Words) -> Markup:
    """Draw how many of the values, which lie between 0 and 1, fall into each of twenty bins.

    Parameters
    ----------
    values : sequence of float
        Values that are not finite are left out; others are moved into the range.
    words : Words
        Names of the chart and its axes.

    Returns
    -------
    Markup
    """
    counts = [0] * 20
    for value in filter(math.isfinite, values):
        # The nudge keeps 0.15, held as 0.1499..., in the bin that it opens.
        counts[min(max(int(value * 20 + 1e-9), 0), 19)] += 1
    y_ticks = nice_ticks(max(counts), whole=True)
    frame = _Frame(1, y_ticks[-1], right=16)
    body = frame.axes(nice_ticks(1), y_ticks, words)
    for i, count in enumerate(counts):
        left, top = frame.x(i / 20), frame.y(count)
        body += _rect("main", left + 1, top, frame.x((i + 1) / 20) - left - 2, frame.y(0) - top)
    low, high = number(sum(counts[:4])), number(sum(counts[16:]))
    told = f"{number(sum(counts))} {words.y}; {low} of them below 0.2 and {high} at 0.8 or above."
    return _svg(words, told, frame.height, body)


def _drawable(points: Sequence[Sequence[float]]) -> list[tuple[float, float]]:
    """Return finite points, no more than a screen can show, and always the last."""
    kept = [(float(x), float(y)) for x, y in points if math.isfinite(x) and math.isfinite(y)]
    stride = math.ceil(len(kept) / MOST_POINTS) or 1
    return [*kept[:-1:stride], *kept[-1:]]


def _labels(notes: list[tuple[float, float, str, str]], top: float, floor: float) -> Markup:
    """Write a label right of each line's end, moved apart where they would overlap."""
    notes = sorted(notes, key=lambda note: note[1])
    heights: list[float] = []
    for _, y, _, _ in notes:
        heights.append(max(y, heights[-1] + LABEL_HEIGHT if heights else top))
    lowest = [floor - LABEL_HEIGHT * below for below in reversed(range(len(notes)))]
    return Markup("").join(
        _text(css, x + 9, min(y, low) + 4.5, shorten(text), "start")
        for (x, _, text, css), y, low in zip(notes, heights, lowest, strict=True)
    )


def _text(css: str, x: float, y: float, text: str, anchor: str) -> Markup:
    return _TEXT.format(css=css, x=x, y=y, anchor=anchor, text=text)


def _rect(css: str, x: float, y: float, width: float, height: float) -> Markup:
    return _RECT.format(css=f"bar {css}", x=x, y=y, width=width, height=height)


def _svg(words: Words, desc: str, height: int, body: Markup) -> Markup:
    return _SVG.format(ident=words.ident, title=words.title, desc=desc, width=WIDTH, height=height, body=body)
