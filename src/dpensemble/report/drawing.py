"""Pieces of charts as inline SVG without colours of their own, so that they follow the page's theme.

`Markup.format` and `Markup.join` escape all text that is not markup, so names in a chart cannot inject markup.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from dpensemble.report.wording import number

WIDTH = 460
# Usual width of a letter in the size of a chart's text.
LETTER = 6.8
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


def label(css: str, x: float, y: float, words: str, anchor: str) -> Markup:
    """Write words over whatever was drawn before, on a ground in the colour of the page.

    The letters have no outline. Programs that do not know ``paint-order`` would draw it over the letters.
    """
    wide = LETTER * len(words)
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
