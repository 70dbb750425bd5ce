"""Charts of a report: lines with limits, bars and histograms. Each chart has a description in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from dpensemble.report.drawing import Frame, Words, dot, label, line, nice_ticks, path, rect, svg, text
from dpensemble.report.labels import LABEL_WIDTH, Note, beside, clear_of, placed
from dpensemble.report.wording import number, percent, shorten

MOST_POINTS = 300


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
class Interval:
    """Label, share, ends of its interval (None if unknown), and the CSS class that gives the colour of one bar."""

    label: str
    value: float | None
    low: float | None
    high: float | None
    css: str


@dataclass(frozen=True)
class Limit:
    """Label and height of a dashed horizontal line, and the CSS class that gives its colour."""

    label: str
    at: float
    css: str = ""


@dataclass(frozen=True)
class Mark:
    """A labelled point. Its label stands at a free corner of the point."""

    label: str
    x: float
    y: float
    css: str


def line_chart(
    series: Sequence[Series], limits: Sequence[Limit], words: Words, marks: Sequence[Mark] = (), height: int = 280
) -> Markup:
    """Draw lines, dashed horizontal limits and marks, each with a label."""
    lines = [(one, _drawable(one.points)) for one in series]
    lines = [(one, points) for one, points in lines if points]
    everything = [point for _, points in lines for point in points] + [(mark.x, mark.y) for mark in marks]
    y_ticks = nice_ticks(max([limit.at for limit in limits] + [y for _, y in everything], default=1.0))
    frame = Frame(max([1.0, *(x for x, _ in everything)]), y_ticks[-1], height=height)
    x_ticks = [tick for tick in nice_ticks(frame.x_max, 4, whole=True) if tick <= frame.x_max]
    end = frame.x(frame.x_max)
    body = frame.axes(x_ticks, y_ticks, words)
    notes, sentences = [], []
    for limit in limits:
        level, css = frame.y(limit.at), limit.css or "limit"
        body += line(f"limit {limit.css}".strip(), frame.left, level, end, level)
        notes.append(Note(end, level, limit.label, f"{css}-label"))
        sentences.append(f"{_capital(limit.label)}: a horizontal line at {number(limit.at)} {words.y}.")
    for one, points in lines:
        at = [(frame.x(x), frame.y(y)) for x, y in points]
        body += path(one.css, at) + dot(one.css, *at[-1])
        # A line that ends at the label of a limit in the same colour needs no label.
        if not any(limit.css == one.css for limit in limits) or at[-1][0] <= end - LABEL_WIDTH:
            notes.append(Note(*at[-1], one.label, f"{one.css}-label"))
        start, stop = (f"{number(y, 3)} at {number(x)} {words.x}" for x, y in (points[0], points[-1]))
        sentences.append(f"{_capital(one.label)}: {start}, {stop}.")
    dots = [(frame.x(mark.x), frame.y(mark.y)) for mark in marks]
    shown = clear_of(dots, placed(notes, frame.top, frame.y(0)))
    for mark, (x, y) in zip(marks, dots, strict=True):
        body += dot(mark.css, x, y)
        shown.append(beside(Note(x, y, mark.label, f"{mark.css}-label"), shown, frame.left))
        sentences.append(f"{_capital(mark.label)}: {number(mark.y, 3)} at {number(mark.x)} {words.x}.")
    if not lines:
        sentences.append("No points were recorded.")
    body += Markup("").join(label(note.css, note.x, note.y, note.label, "start") for note in shown)
    return svg(words, " ".join(sentences), frame.height, body)


def bar_chart(groups: Sequence[tuple[str, Sequence[Bar]]], words: Words) -> Markup:
    """Draw named groups of horizontal bars on a scale from 0 to 1."""
    floor = 4 + 22 * sum(1.6 + len(bars) for _, bars in groups)
    frame = Frame(1, 1, height=round(floor + 30), left=6, right=150)
    body = Markup("").join(
        line("grid", frame.x(tick), 4, frame.x(tick), floor)
        + text("tick", frame.x(tick), floor + 19, number(tick), "middle")
        for tick in nice_ticks(1)
    )
    y, sentences = 4.0, []
    for name, bars in groups:
        body += text("name", frame.left + 6, y + 17, shorten(name, 40), "start")
        y += 24
        for bar in bars:
            shown = f"{bar.value:.3f}" if math.isfinite(bar.value) else "not available"
            end = frame.x(min(max(bar.value, 0.0), 1.0) if math.isfinite(bar.value) else 0.0)
            body += rect(bar.css, frame.left, y, end - frame.left, 18)
            body += label(f"{bar.css}-label", end + 7, y + 14, f"{shown} {shorten(bar.label)}", "start")
            sentences.append(f"{name}, {bar.label}: {shown}.")
            y += 22
        y += 11.2
    body += line("axis", frame.left, 4, frame.left, floor)
    return svg(words, " ".join(sentences) or "No values were recorded.", frame.height, body)


def interval_chart(rows: Sequence[Interval], words: Words) -> Markup:
    """Draw shares as bars on a scale from 0 to 100%, with their intervals as lines across the ends of the bars."""
    floor = 4 + 46 * len(rows)
    frame = Frame(1, 1, height=floor + 26, left=6, right=22)
    body = Markup("").join(
        line("grid", frame.x(tick), 4, frame.x(tick), floor)
        + text("tick", frame.x(tick), floor + 19, f"{100 * tick:.0f}%", "middle")
        for tick in (0.25, 0.5, 0.75, 1)
    )
    sentences = []
    for place, row in enumerate(rows):
        y, shown = 4 + 46 * place, "not known"
        body += text("name", frame.left + 4, y + 14, shorten(row.label, 32), "start")
        if row.value is not None and math.isfinite(row.value):
            shown, wide = percent(row.value), frame.x(min(max(row.value, 0.0), 1.0)) - frame.left
            body += rect(row.css, frame.left, y + 20, wide, 18)
        if row.low is not None and row.high is not None:
            low, high = frame.x(row.low), frame.x(row.high)
            body += Markup("").join(
                line("whisker", *ends) for ends in ((low, y + 29, high, y + 29), *_ticks_at((low, high), y + 29))
            )
            shown += f" ({100 * row.low:.0f} to {100 * row.high:.0f}%)"
        body += label(f"{row.css}-label", frame.x(1), y + 14, shown, "end")
        sentences.append(f"{row.label}: {shown}.")
    body += line("axis", frame.left, 4, frame.left, floor)
    return svg(words, " ".join(sentences), frame.height, body)


def _ticks_at(places: Sequence[float], y: float) -> list[tuple[float, float, float, float]]:
    return [(x, y - 5, x, y + 5) for x in places]


def histogram(values: Sequence[float], words: Words) -> Markup:
    """Draw how many of the values, which must lie between 0 and 1, fall into each of twenty bins."""
    counts = [0] * 20
    for value in filter(math.isfinite, values):
        # A small shift keeps 0.15, stored as 0.1499..., in the bin that starts at 0.15.
        counts[min(max(int(value * 20 + 1e-9), 0), 19)] += 1
    y_ticks = nice_ticks(max(counts), whole=True)
    frame = Frame(1, y_ticks[-1], right=16)
    body = frame.axes(nice_ticks(1), y_ticks, words)
    for i, count in enumerate(counts):
        left, top = frame.x(i / 20), frame.y(count)
        body += rect("main", left + 1, top, frame.x((i + 1) / 20) - left - 2, frame.y(0) - top)
    low, high = number(sum(counts[:4])), number(sum(counts[16:]))
    description = f"{number(sum(counts))} {words.y}; {low} of them below 0.2 and {high} at 0.8 or above."
    return svg(words, description, frame.height, body)


def _drawable(points: Sequence[Sequence[float]]) -> list[tuple[float, float]]:
    """Return finite points: at most as many as a screen can show, and always the last point."""
    finite = [(float(x), float(y)) for x, y in points if math.isfinite(x) and math.isfinite(y)]
    stride = math.ceil(len(finite) / MOST_POINTS) or 1
    return [*finite[:-1:stride], *finite[-1:]]


def _capital(label: str) -> str:
    return label[:1].upper() + label[1:]
