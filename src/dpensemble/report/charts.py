"""Charts as inline SVG: lines with limits, bars, histograms, and the pieces and labels that they consist of.

Each chart has a description in words. Charts have no colours of their own, so that they follow the page's theme.
`Markup.format` and `Markup.join` escape all text that is not markup, so names in a chart cannot inject markup.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

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
_AREA = Markup('<path class="area {css}" d="{d}"/>')
_DOT = Markup('<circle class="dot {css}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>')


@dataclass(frozen=True)
class Series:
    """Label, points in ascending order of x, and the CSS class that gives the colour of one line."""

    label: str
    points: Sequence[Sequence[float]]
    css: str


@dataclass(frozen=True)
class Bar:
    """Label, value, the CSS class that gives the colour, and the ends of an interval of one bar. None is not known."""

    label: str
    value: float | None
    css: str
    low: float | None = None
    high: float | None = None

    @property
    def is_known(self) -> bool:
        """Whether the value is a number."""
        return self.value is not None and math.isfinite(self.value)

    @property
    def length(self) -> float:
        """Length on a scale from 0 to 1."""
        return min(max(self.value, 0.0), 1.0) if self.value is not None and self.is_known else 0.0


@dataclass(frozen=True)
class Limit:
    """Label and height of a dashed horizontal line, and the CSS class that gives its colour."""

    label: str
    at: float
    css: str = ""


def line_chart(
    series: Sequence[Series], limits: Sequence[Limit], words: Words, marks: Sequence[Series] = (), height: int = 280
) -> Markup:
    """Draw lines, dashed horizontal limits and marks, each with a label. A mark is a series of one point."""
    lines = [(one, _drawable(one.points)) for one in series]
    lines = [(one, points) for one, points in lines if points]
    points_of_marks = [(mark, mark.points[0][0], mark.points[0][1]) for mark in marks]
    everything = [point for _, points in lines for point in points] + [(x, y) for _, x, y in points_of_marks]
    y_ticks = nice_ticks(max([limit.at for limit in limits] + [y for _, y in everything], default=1.0))
    drawing = Drawing(words, max([1.0, *(x for x, _ in everything)]), y_ticks[-1], height=height)
    x_ticks = [tick for tick in nice_ticks(drawing.x_max, 4, whole=True) if tick <= drawing.x_max]
    end = drawing.x(drawing.x_max)
    drawing.axes(x_ticks, y_ticks)
    notes, sentences = [], []
    for limit in limits:
        level, css = drawing.y(limit.at), limit.css or "limit"
        drawing.line(f"limit {limit.css}".strip(), drawing.left, level, end, level)
        notes.append(_Note(end, level, limit.label, f"{css}-label"))
        sentences.append(f"{_capital(limit.label)}: a horizontal line at {number(limit.at)} {words.y}.")
    for one, points in lines:
        at = [(drawing.x(x), drawing.y(y)) for x, y in points]
        drawing.path(one.css, at)
        drawing.dot(one.css, *at[-1])
        # A line that ends at the label of a limit in the same colour needs no label.
        if not any(limit.css == one.css for limit in limits) or at[-1][0] <= end - _LABEL_WIDTH:
            notes.append(_Note(*at[-1], one.label, f"{one.css}-label"))
        start, stop = (f"{number(y, 3)} at {number(x)} {words.x}" for x, y in (points[0], points[-1]))
        sentences.append(f"{_capital(one.label)}: {start}, {stop}.")
    dots = [(drawing.x(x), drawing.y(y)) for _, x, y in points_of_marks]
    shown = _clear_of(dots, _place_labels(notes, drawing.top, drawing.y(0)))
    for (mark, at_x, at_y), (x, y) in zip(points_of_marks, dots, strict=True):
        drawing.dot(mark.css, x, y)
        shown.append(_beside(_Note(x, y, mark.label, f"{mark.css}-label"), shown, drawing.left))
        sentences.append(f"{_capital(mark.label)}: {number(at_y, 3)} at {number(at_x)} {words.x}.")
    if not lines:
        sentences.append("No points were recorded.")
    for note in shown:
        drawing.label(note.css, note.x, note.y, note.label, "start")
    return drawing.svg(" ".join(sentences))


def bar_chart(groups: Sequence[tuple[str, Sequence[Bar]]], words: Words) -> Markup:
    """Draw named groups of horizontal bars on a scale from 0 to 1."""
    floor = 4 + 22 * sum(1.6 + len(bars) for _, bars in groups)
    drawing = Drawing(words, height=round(floor + 30), left=6, right=150)
    for tick in nice_ticks(1):
        drawing.line("grid", drawing.x(tick), 4, drawing.x(tick), floor)
        drawing.text("tick", drawing.x(tick), floor + 19, number(tick), "middle")
    y, sentences = 4.0, []
    for name, bars in groups:
        drawing.text("name", drawing.left + 6, y + 17, shorten(name, 40), "start")
        y += 24
        for bar in bars:
            shown, end = f"{bar.value:.3f}" if bar.is_known else "not available", drawing.x(bar.length)
            drawing.rect(bar.css, drawing.left, y, end - drawing.left, 18)
            drawing.label(f"{bar.css}-label", end + 7, y + 14, f"{shown} {shorten(bar.label)}", "start")
            sentences.append(f"{name}, {bar.label}: {shown}.")
            y += 22
        y += 11.2
    drawing.line("axis", drawing.left, 4, drawing.left, floor)
    return drawing.svg(" ".join(sentences) or "No values were recorded.")


def interval_chart(bars: Sequence[Bar], words: Words) -> Markup:
    """Draw shares as bars on a scale from 0 to 100%, with their intervals as lines across the ends of the bars."""
    floor = 4 + 46 * len(bars)
    drawing = Drawing(words, height=floor + 26, left=6, right=22)
    for tick in (0.25, 0.5, 0.75, 1):
        drawing.line("grid", drawing.x(tick), 4, drawing.x(tick), floor)
        drawing.text("tick", drawing.x(tick), floor + 19, f"{100 * tick:.0f}%", "middle")
    sentences = []
    for place, bar in enumerate(bars):
        y, shown = 4 + 46 * place, "not known"
        drawing.text("name", drawing.left + 4, y + 14, shorten(bar.label, 32), "start")
        if bar.value is not None and bar.is_known:
            shown = percent(bar.value)
            drawing.rect(bar.css, drawing.left, y + 20, drawing.x(bar.length) - drawing.left, 18)
        if bar.low is not None and bar.high is not None:
            low, high = drawing.x(bar.low), drawing.x(bar.high)
            drawing.line("whisker", low, y + 29, high, y + 29)
            for x in (low, high):
                drawing.line("whisker", x, y + 24, x, y + 34)
            shown += f" ({100 * bar.low:.0f} to {100 * bar.high:.0f}%)"
        drawing.label(f"{bar.css}-label", drawing.x(1), y + 14, shown, "end")
        sentences.append(f"{bar.label}: {shown}.")
    drawing.line("axis", drawing.left, 4, drawing.left, floor)
    return drawing.svg(" ".join(sentences))


def histogram(values: Sequence[float], words: Words) -> Markup:
    """Draw how many of the values, which must lie between 0 and 1, fall into each of twenty bins."""
    counts = [0] * 20
    for value in filter(math.isfinite, values):
        # A small shift keeps 0.15, stored as 0.1499..., in the bin that starts at 0.15.
        counts[min(max(int(value * 20 + 1e-9), 0), 19)] += 1
    y_ticks = nice_ticks(max(counts), whole=True)
    drawing = Drawing(words, 1, y_ticks[-1], right=16)
    drawing.axes(nice_ticks(1), y_ticks)
    for i, count in enumerate(counts):
        left, top = drawing.x(i / 20), drawing.y(count)
        drawing.rect("main", left + 1, top, drawing.x((i + 1) / 20) - left - 2, drawing.y(0) - top)
    low, high = number(sum(counts[:4])), number(sum(counts[16:]))
    return drawing.svg(f"{number(sum(counts))} {words.y}; {low} of them below 0.2 and {high} at 0.8 or above.")


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


@dataclass(eq=False)
class Drawing:
    """A drawing. It takes lines, dots, bars and texts, and what is added later covers what was there.

    The plotting area lies between the margins, and both its scales start at zero.
    """

    words: Words
    x_max: float = 1
    y_max: float = 1
    height: int = field(default=280, kw_only=True)
    width: int = field(default=WIDTH, kw_only=True)
    left: int = field(default=56, kw_only=True)
    right: int = field(default=112, kw_only=True)
    top: int = field(default=34, kw_only=True)
    bottom: int = field(default=52, kw_only=True)
    _pieces: list[Markup] = field(default_factory=list, init=False)

    def x(self, value: float) -> float:
        """Return how far right a value is."""
        return self.left + (self.width - self.left - self.right) * value / self.x_max

    def y(self, value: float) -> float:
        """Return how far down a value is."""
        return self.height - self.bottom - (self.height - self.top - self.bottom) * value / self.y_max

    def axes(self, x_ticks: Iterable[float], y_ticks: Iterable[float]) -> None:
        """Draw both axes with their ticks and names."""
        floor, end = self.y(0), self.x(self.x_max)
        for tick in y_ticks:
            self.line("grid", self.left, self.y(tick), end, self.y(tick))
            self.text("tick", self.left - 8, self.y(tick) + 4.5, number(tick), "end")
        for tick in x_ticks:
            self.text("tick", self.x(tick), floor + 19, number(tick), "middle")
        self.line("axis", self.left, floor, end, floor)
        self.text("name", (self.left + end) / 2, self.height - 8, self.words.x, "middle")
        self.text("name", 4, 16, self.words.y, "start")

    def add(self, piece: Markup) -> None:
        """Draw a piece of SVG."""
        self._pieces.append(piece)

    def text(self, css: str, x: float, y: float, words: str, anchor: str) -> None:
        """Write words at a point."""
        self.add(_TEXT.format(css=css, x=x, y=y, anchor=anchor, text=words))

    def label(self, css: str, x: float, y: float, words: str, anchor: str) -> None:
        """Write words over whatever was drawn before, on a ground in the colour of the page.

        The letters have no outline. Programs that do not know ``paint-order`` would draw it over the letters.
        """
        wide = _LETTER * len(words)
        left = {"start": x, "middle": x - wide / 2, "end": x - wide}[anchor] - 3
        if words:
            self.add(_BEHIND.format(x=max(left, 0.0), y=max(y - 12, 0.0), width=wide + 6))
        self.text(css, x, y, words, anchor)

    def line(self, css: str, x1: float, y1: float, x2: float, y2: float) -> None:
        """Draw a straight line."""
        self.add(_LINE.format(css=css, x1=x1, y1=y1, x2=x2, y2=y2))

    def path(self, css: str, points: Sequence[tuple[float, float]]) -> None:
        """Draw a line through points."""
        self.add(_PATH.format(css=css, d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)))

    def area(self, css: str, points: Sequence[tuple[float, float]]) -> None:
        """Fill the area within points."""
        self.add(_AREA.format(css=css, d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) + "Z"))

    def dot(self, css: str, x: float, y: float) -> None:
        """Draw a dot."""
        self.add(_DOT.format(css=css, x=x, y=y))

    def rect(self, css: str, x: float, y: float, width: float, height: float) -> None:
        """Draw a bar."""
        self.add(_RECT.format(css=f"bar {css}", x=x, y=y, width=width, height=height))

    def svg(self, desc: str) -> Markup:
        """Return the whole drawing, with its title and a description in words."""
        ident, title, body = self.words.ident, self.words.title, Markup("").join(self._pieces)
        return _SVG.format(ident=ident, title=title, desc=desc, width=self.width, height=self.height, body=body)


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
