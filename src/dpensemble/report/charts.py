"""Charts as inline SVG: lines with limits, bars, histograms, and the pieces and labels that they consist of.

Each chart has a description in words. Charts have no colours of their own, so that they follow the page's theme.
`Markup.format` and `Markup.join` escape all text that is not markup, so names in a chart cannot inject markup.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from dpensemble.report.wording import number, percent, shorten

_MOST_POINTS = 300
_LABEL_HEIGHT = 18
#: Width of a label to the right of its line's end.
_LABEL_WIDTH = 108
WIDTH = 460
# Usual width of a letter in the size of a chart's text.
_LETTER = 6.8
#: Colours of up to six groups in light and dark mode. Colour-blind readers can distinguish them too.
GROUP_COLOURS = (
    ("#3a55d9", "#d05a10", "#26204f", "#1f9a80", "#c44fc0", "#7a1530"),
    ("#6c93ff", "#ef7d3c", "#7fe6f5", "#f5a8dc", "#f3e664", "#2f9c78"),
)
_SVG = Markup(
    '<svg class="chart" role="img" aria-labelledby="{ident}-title {ident}-desc" '
    'viewBox="0 0 {width} {height}"><title id="{ident}-title">{title}</title>'
    '<desc id="{ident}-desc">{desc}</desc>{body}</svg>'
)
_TEXT = Markup('<text class="{css}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>')
_BEHIND = Markup('<rect class="behind" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="16"/>')
_LINE = Markup('<line class="{css}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>')
_RECT = Markup('<rect class="{css}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>')
_PATH = Markup('<path class="line {css}" d="{d}"/>')
_DOT = Markup('<circle class="dot {css}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>')


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
        notes.append(_Note(end, level, limit.label, f"{css}-label"))
        sentences.append(f"{_capital(limit.label)}: a horizontal line at {number(limit.at)} {words.y}.")
    for one, points in lines:
        at = [(frame.x(x), frame.y(y)) for x, y in points]
        body += path(one.css, at) + dot(one.css, *at[-1])
        # A line that ends at the label of a limit in the same colour needs no label.
        if not any(limit.css == one.css for limit in limits) or at[-1][0] <= end - _LABEL_WIDTH:
            notes.append(_Note(*at[-1], one.label, f"{one.css}-label"))
        start, stop = (f"{number(y, 3)} at {number(x)} {words.x}" for x, y in (points[0], points[-1]))
        sentences.append(f"{_capital(one.label)}: {start}, {stop}.")
    dots = [(frame.x(mark.x), frame.y(mark.y)) for mark in marks]
    shown = _clear_of(dots, _place_labels(notes, frame.top, frame.y(0)))
    for mark, (x, y) in zip(marks, dots, strict=True):
        body += dot(mark.css, x, y)
        shown.append(_beside(_Note(x, y, mark.label, f"{mark.css}-label"), shown, frame.left))
        sentences.append(f"{_capital(mark.label)}: {number(mark.y, 3)} at {number(mark.x)} {words.x}.")
    if not lines:
        sentences.append("No points were recorded.")
    body += Markup("").join(_label(note.css, note.x, note.y, note.label, "start") for note in shown)
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
            body += _label(f"{bar.css}-label", end + 7, y + 14, f"{shown} {shorten(bar.label)}", "start")
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
        body += _label(f"{row.css}-label", frame.x(1), y + 14, shown, "end")
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
    stride = math.ceil(len(finite) / _MOST_POINTS) or 1
    return [*finite[:-1:stride], *finite[-1:]]


def _capital(label: str) -> str:
    return label[:1].upper() + label[1:]


@dataclass(frozen=True)
class _Note:
    """A label, its point, and the CSS class that gives its colour."""

    x: float
    y: float
    label: str
    css: str


def _place_labels(notes: Sequence[_Note], top: float, floor: float) -> list[_Note]:
    """Return where labels start: right of their points, and moved apart where close labels would overlap."""
    columns: list[list[_Note]] = []
    for note in sorted(notes, key=lambda note: -note.x):
        if not columns or columns[-1][0].x - note.x >= _LABEL_WIDTH:
            columns.append([])
        columns[-1].append(note)
    return [note for column in columns for note in _column(column, top, floor)]


def _column(notes: list[_Note], top: float, floor: float) -> list[_Note]:
    notes = sorted(notes, key=lambda note: note.y)
    heights: list[float] = []
    for note in notes:
        heights.append(max(note.y, heights[-1] + _LABEL_HEIGHT if heights else top))
    lowest = [floor - _LABEL_HEIGHT * below for below in reversed(range(len(notes)))]
    return [
        _Note(note.x + 9, min(y, low) + 4.5, shorten(note.label), note.css)
        for note, y, low in zip(notes, heights, lowest, strict=True)
    ]


def _clear_of(dots: Sequence[tuple[float, float]], notes: Sequence[_Note]) -> list[_Note]:
    """Return the labels. A label that would hide a dot moves a little up or down if there is room."""
    result = list(notes)
    for index, note in enumerate(result):
        others = result[:index] + result[index + 1 :]
        tries = [replace(note, y=note.y + shift) for shift in (0, -13, 14)]
        free = (
            one
            for one in tries
            if not _covers(one, others)
            and not any(one.x - 4 < x < one.x + _wide(one.label) and abs(y + 4.5 - one.y) < 10 for x, y in dots)
        )
        result[index] = next(free, note)
    return result


def _beside(mark: _Note, taken: Sequence[_Note], left: float) -> _Note:
    """Return a position around the point where the label covers no other label, if possible."""
    label = shorten(mark.label)
    width = _wide(label)
    corners = [
        _Note(x, y, label, mark.css)
        for x, y in (
            (mark.x - 6 - width, mark.y - 7),
            (mark.x + 6, mark.y + 17),
            (mark.x + 6, mark.y - 7),
            (mark.x - 6 - width, mark.y + 17),
            (mark.x + 6, mark.y - 7 - _LABEL_HEIGHT),
        )
    ]
    return next((corner for corner in corners if corner.x > left and not _covers(corner, taken)), corners[2])


def _covers(note: _Note, taken: Sequence[_Note]) -> bool:
    return any(
        abs(other.y - note.y) < _LABEL_HEIGHT - 4
        and note.x < other.x + _wide(other.label)
        and other.x < note.x + _wide(note.label)
        for other in taken
    )


def _wide(label: str) -> float:
    return 7.6 * len(label)


@dataclass(frozen=True)
class Words:
    """A chart's identifier, unique on the page, its title, and the names of its axes."""

    ident: str
    title: str
    x: str = ""
    y: str = ""


@dataclass(frozen=True)
class Frame:
    """Plotting area between the margins, with both scales starting at zero."""

    x_max: float
    y_max: float
    height: int = 280
    left: int = 56
    right: int = 112
    top: int = 34
    bottom: int = 52

    def x(self, value: float) -> float:
        """Return how far right a value is."""
        return self.left + (WIDTH - self.left - self.right) * value / self.x_max

    def y(self, value: float) -> float:
        """Return how far down a value is."""
        return self.height - self.bottom - (self.height - self.top - self.bottom) * value / self.y_max

    def axes(self, x_ticks: Iterable[float], y_ticks: Iterable[float], words: Words) -> Markup:
        """Draw both axes with their ticks and names."""
        floor, end = self.y(0), self.x(self.x_max)
        parts = [
            line("grid", self.left, self.y(tick), end, self.y(tick))
            + text("tick", self.left - 8, self.y(tick) + 4.5, number(tick), "end")
            for tick in y_ticks
        ]
        parts += [text("tick", self.x(tick), floor + 19, number(tick), "middle") for tick in x_ticks]
        parts.append(line("axis", self.left, floor, end, floor))
        parts.append(text("name", (self.left + end) / 2, self.height - 8, words.x, "middle"))
        parts.append(text("name", 4, 16, words.y, "start"))
        return Markup("").join(parts)


def nice_ticks(highest: float, at_most: int = 5, *, whole: bool = False) -> list[float]:
    """Return at most `at_most` steps of round, or even `whole`, ticks from zero until they reach `highest`."""
    if not (math.isfinite(highest) and highest > 0):
        highest = 1.0
    rough = highest / at_most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))
    if whole:
        step = max(1.0, step)
    steps = math.ceil(highest / step - 1e-9)
    return [float(f"{step * i:.12g}") for i in range(steps + 1)]


def text(css: str, x: float, y: float, words: str, anchor: str) -> Markup:
    """Write words at a point."""
    return _TEXT.format(css=css, x=x, y=y, anchor=anchor, text=words)


def _label(css: str, x: float, y: float, words: str, anchor: str) -> Markup:
    """Write words over whatever was drawn before, on a ground in the colour of the page.

    The letters have no outline. Programs that do not know ``paint-order`` would draw it over the letters.
    """
    wide = _LETTER * len(words)
    left = {"start": x, "middle": x - wide / 2, "end": x - wide}[anchor] - 3
    ground = _BEHIND.format(x=max(left, 0.0), y=max(y - 12, 0.0), width=wide + 6) if words else Markup()
    return ground + text(css, x, y, words, anchor)


def line(css: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    """Draw a straight line."""
    return _LINE.format(css=css, x1=x1, y1=y1, x2=x2, y2=y2)


def path(css: str, points: Sequence[tuple[float, float]]) -> Markup:
    """Draw a line through points."""
    return _PATH.format(css=css, d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points))


def dot(css: str, x: float, y: float) -> Markup:
    """Draw a dot."""
    return _DOT.format(css=css, x=x, y=y)


def rect(css: str, x: float, y: float, width: float, height: float) -> Markup:
    """Draw a bar."""
    return _RECT.format(css=f"bar {css}", x=x, y=y, width=width, height=height)


def svg(words: Words, desc: str, height: int, body: Markup, width: int = WIDTH) -> Markup:
    """Return a whole drawing, with its title and a description in words."""
    return _SVG.format(ident=words.ident, title=words.title, desc=desc, width=width, height=height, body=body)
