"""A waterfall: from the public mean to a row's logit, column by column. The picture is a complete SVG file.

Letters have no outline, because some programs draw an outline over its letter. A copy of each label in the colour of
the page lies below the label instead, as an element of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from dpensemble.report.drawing import nice_ticks
from dpensemble.report.wording import legible, shorten

# Size of the picture. Letters stay readable on a telephone, where the picture is 400 pixels wide.
_WIDTH, _LEFT, _RIGHT, _TOP, _STEP, _FOOT = 480, 16, 410, 98, 44, 128
_LONGEST = 52
_INK, _SOFT, _GRID, _PAGE, _UP, _DOWN = "#1c1d22", "#5a5d6b", "#d5d7e0", "#ffffff", "#2f4ac9", "#a8430a"
_SVG = Markup(
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
    'role="img" aria-labelledby="waterfall-title waterfall-desc" '
    "font-family=\"system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', Arial, sans-serif\" font-size=\"13\">"
    '<title id="waterfall-title">{title}</title><desc id="waterfall-desc">{desc}</desc>'
    '<rect width="{width}" height="{height}" fill="{page}"/>{body}</svg>\n'
)
_BELOW = Markup(
    '<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" fill="{page}" stroke="{page}" '
    'stroke-width="5" stroke-linejoin="round" aria-hidden="true">{text}</text>'
)
_TEXT = Markup(
    '<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" fill="{colour}">{text}</text>'
)
_BAR = Markup('<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="16" fill="{colour}"/>')
_LINE = Markup('<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{colour}" stroke-width="{width}"/>')
_DOT = Markup('<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}"/>')


@dataclass(frozen=True)
class Step:
    """A column with its entry, what the column adds to the logit, and half the width of its band (0 for none)."""

    label: str
    contribution: float
    band: float


@dataclass(frozen=True)
class _Scale:
    """Where logits are in the picture."""

    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> _Scale:
        room = max(max(values) - min(values), 0.1)
        return cls(min(values) - 0.02 * room, min(values) + 1.02 * room)

    def x(self, value: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        step = nice_ticks(self.high - self.low, 5)[1]
        first = math.ceil(self.low / step)
        return [float(f"{step * place:.12g}") for place in range(first, math.floor(self.high / step) + 1)]


def waterfall(
    steps: Sequence[Step], base: float, *, towards: str, chances: bool, attribution: str, reference: str
) -> str:
    """Return the picture as the text of an SVG file. With `chances` a logit is shown as a probability, too."""
    ends = [base]
    for one in steps:
        ends.append(ends[-1] + one.contribution)
    bands = [end + side * one.band for end, one in zip(ends[1:], steps, strict=True) for side in (-1, 1)]
    scale, floor = _Scale.of([*ends, *bands]), _TOP + _STEP * (len(steps) + 2)
    axis = "logit: the logarithm of the odds" if chances else "logit, less the mean logit of all classes"
    body = _axis(scale, floor, axis)
    body += _end("Public mean", base, scale, _TOP, chances)
    for place, (one, start, end) in enumerate(zip(steps, ends[:-1], ends[1:], strict=True), start=1):
        body += _bar(one, start, end, scale, _TOP + _STEP * place)
    body += _end("This row", ends[-1], scale, floor - _STEP, chances)
    title = f"What speaks for and against {shorten(towards, 30)}"
    body += _label(_LEFT, 28, title, weight="700")
    body += _label(_LEFT, 50, "Blue, to the right: more likely. Brown, to the left: less likely.", _SOFT)
    body += _label(_LEFT, 70, f"Relative to {reference.split(',', maxsplit=1)[0]}.", _SOFT)
    for line, words in enumerate(_notes(attribution, any(one.band for one in steps))):
        body += _label(_LEFT, floor + 62 + 19 * line, words, _SOFT)
    sentences = [f"Public mean {_logit(base, chances)}."]
    sentences += [f"{shorten(one.label, 80)}: {_signed(one.contribution)}." for one in steps]
    desc = " ".join([*sentences, f"This row {_logit(ends[-1], chances)}."])
    drawn = _SVG.format(width=_WIDTH, height=floor + _FOOT, title=title, desc=desc, page=_PAGE, body=body)
    return legible(str(drawn))


def _axis(scale: _Scale, floor: float, name: str) -> Markup:
    body = Markup("")
    for tick in scale.ticks():
        body += _line(scale.x(tick), _TOP, scale.x(tick), floor, _GRID)
        body += _label(scale.x(tick), floor + 18, f"{tick:g}".replace("-", "−"), _SOFT, "middle")
    return body + _label((_LEFT + _RIGHT) / 2, floor + 38, name, _SOFT, "middle")


def _end(name: str, value: float, scale: _Scale, top: float, chances: bool) -> Markup:
    x = scale.x(value)
    body = _line(x, top + 18, x, top + _STEP + 2, _SOFT) if name != "This row" else Markup("")
    body += _label(_LEFT, top + 13, f"{name}: {_logit(value, chances)}", weight="700")
    return body + _DOT.format(x=x, y=top + 27, colour=_INK)


def _bar(step: Step, start: float, end: float, scale: _Scale, top: float) -> Markup:
    colour = _UP if step.contribution >= 0 else _DOWN
    left, right = sorted((scale.x(start), scale.x(end)))
    body = _BAR.format(x=left, y=top + 19, width=max(right - left, 1.5), colour=colour)
    body += _line(scale.x(end), top + 35, scale.x(end), top + _STEP + 19, _SOFT)
    outer = right
    if step.band:
        low, high, middle = scale.x(end - step.band), scale.x(end + step.band), top + 27
        outer = max(right, high)
        body += _line(low, middle, high, middle, _INK, 1.5)
        body += _line(low, middle - 4, low, middle + 4, _INK, 1.5) + _line(
            high, middle - 4, high, middle + 4, _INK, 1.5
        )
    body += _label(_LEFT, top + 13, shorten(step.label, _LONGEST))
    return body + _label(outer + 7, top + 32, _signed(step.contribution).replace("-", "−"), colour, weight="700")


def _notes(attribution: str, bands: bool) -> list[str]:
    notes = ["Whiskers: 95 % bands by the known noise."] if bands else []
    return [*notes, f"Attribution: {attribution}.", "This shows what the model uses, not what causes what."]


def _signed(value: float) -> str:
    """Write a contribution with its sign. One that rounds to 0 has none."""
    return "0.00" if round(value, 2) == 0 else f"{value:+.2f}"


def _logit(value: float, chances: bool) -> str:
    text = f"{value:.2f}".replace("-", "−")
    if not chances:
        return text
    chance = 100 / (1 + math.exp(-max(min(value, 700.0), -700.0)))
    return f"{text} (probability {chance:.2g} %)" if chance < 99 else f"{text} (probability {chance:.4g} %)"


def _label(x: float, y: float, text: str, colour: str = _INK, anchor: str = "start", weight: str = "400") -> Markup:
    place = {"x": x, "y": y, "anchor": anchor, "weight": weight, "text": text}
    return _BELOW.format(page=_PAGE, **place) + _TEXT.format(colour=colour, **place)


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1) -> Markup:
    return _LINE.format(x1=x1, y1=y1, x2=x2, y2=y2, colour=colour, width=width)
