"""How strongly each column pushes a model towards each class, for a page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from dpensemble.report.drawing import WIDTH, Words, dot, line, path, rect, svg, text
from dpensemble.report.few_people import MARK, Support
from dpensemble.report.quality_lines import Written
from dpensemble.report.record import RunRecord
from dpensemble.report.wording import BAND, number, shorten

# How much fits on a page.
_COLUMNS, _PICTURES, _TABLES, _BARS, _CLASSES = 15, 6, 4, 8, 5
_LONGEST_NAME = 60
# Size of one small picture. Its labels must stay readable when three pictures stand side by side.
_WIDE, _HIGH, _MIDDLE = 300, 190, 150
# Factors of odds that mark the scales.
_ROUND = (1.05, 1.1, 1.2, 1.5, 2, 3, 4, 5, 7)
_LETTER = 7.6
# A picture has room for bands up to this many times the largest push. Longer bands are cut at its edge.
_ROOM = 2.0


class _Point(NamedTuple):
    """An entry, its push, half the width of the band around the push (0 for no band), and if it rests on few people."""

    entry: Any
    value: float
    band: float
    few: bool = False


def effects_view(record: RunRecord) -> dict[str, Any] | None:
    """Return importances, and pictures for two classes or tables for more. Return None if effects are not known."""
    effects = [effect for effect in record.effects if effect["points"]]
    if not effects:
        return None
    n_values = len(effects[0]["points"][0][1])
    names = [str(name) for name in record.data.get("classes") or ()]
    if len(names) != max(2, n_values):
        names = [f"class {index + 1}" for index in range(max(2, n_values))]
    support = Support.of(record)
    largest = effects[: _PICTURES if n_values == 1 else 0]
    tables = effects[: _TABLES if n_values > 1 else 0]
    written = [(_name(one["column"]), pushes(one, names, support.few(one))) for one in tables]
    # A table lists few entries, so a marked one may be missing there.
    marked = any(f"{MARK} (" in cell for _, rows in written for row in rows for cell in row[1:])
    marked = marked or any(any(support.few(one)) for one in largest)
    most = {kind: _most(one for one in largest if one["kind"] == kind) for kind in ("number", "category")}
    return {
        "importances": importances(effects[:_COLUMNS]),
        "left_out": len(effects[_COLUMNS:]),
        "towards": shorten(names[1], 30) if n_values == 1 else None,
        "pictures": [
            (_name(one["column"]), picture(one, most[one["kind"]], names[1], f"effect-{place}", support.few(one)))
            for place, one in enumerate(largest, start=1)
        ],
        "few": support.sentence(dots=bool(largest)) if marked else None,
        "banded": any("deviations" in one for one in largest),
        "cut": any(
            _longest_reach(one for one in largest if one["kind"] == kind) > end * (1 + 1e-9)
            for kind, end in most.items()
        ),
        "approximate": any("approximation" in one for one in effects),
        "has_numbers": any(one["kind"] == "number" for one in largest),
        "has_categories": any(one["kind"] != "number" for one in largest),
        "tables": written,
    }


def factor(effect: float) -> str:
    """Write a push as a factor of the odds: ×2 doubles them, ÷2 halves them."""
    size = math.exp(min(abs(effect), 700))
    shown = f"{size:.0e}" if size >= 1e6 else number(float(f"{size:.{2 if size >= 1.995 else 3}g}"))
    return f"{'÷' if effect < 0 and shown != '1' else '×'}{shown}"


def importances(effects: Sequence[dict[str, Any]]) -> Markup:
    """Draw a bar for the usual push of each column."""
    left, room = 172.0, WIDTH - 172 - 64
    most = max([math.log(1.01), *(one["importance"] for one in effects)])
    body, parts = Markup(), []
    for place, one in enumerate(effects):
        y, length = 6 + 24 * place, room * one["importance"] / most
        body += text("plain", left - 8, y + 13, shorten(str(one["column"]), 20), "end")
        body += rect("main", left, y, length, 17)
        body += text("main-label", left + length + 7, y + 13, factor(one["importance"]), "start")
        parts.append(f"{_name(one['column'])} {factor(one['importance'])}")
    height = 24 * len(effects) + 8
    body += line("axis", left, 2, left, height - 2)
    return svg(
        Words("importances", "How far each column usually pushes the odds"), f"{', '.join(parts)}.", height, body
    )


def picture(effect: dict[str, Any], most: float, towards: str, ident: str, few: Sequence[bool] = ()) -> Markup:
    """Draw one column's pushes for two classes. `most` is the end of the scale of all such pictures."""
    words = Words(ident, f"{_name(effect['column'])}: pushes towards {shorten(towards, _LONGEST_NAME)}")
    bands = [BAND * deviation for (deviation,) in effect.get("deviations") or [[0.0]] * len(effect["points"])]
    points = [
        _Point(entry, values[0], band, is_few)
        for (entry, values), band, is_few in zip(effect["points"], bands, few or [False] * len(bands), strict=True)
    ]
    if effect["kind"] == "number":
        return _line_picture(points, most, towards, words)
    return _bar_picture(points, most, towards, words)


def pushes(effect: dict[str, Any], names: Sequence[str], few: Sequence[bool] = ()) -> list[tuple[str, str, str]]:
    """Return the classes that a column pushes furthest, each with the entries that push it most up and most down."""
    marks = [MARK if one else "" for one in few] or [""] * len(effect["points"])
    rows = []
    for index, name in enumerate(names):
        # Adding a constant to all classes changes nothing.
        deviations = [
            (values[index] - sum(values) / len(values), f"{shorten(_entry(entry), 30)}{mark}")
            for (entry, values), mark in zip(effect["points"], marks, strict=True)
        ]
        top, low = max(deviations, key=lambda one: one[0]), min(deviations, key=lambda one: one[0])
        cells = [f"{entry} ({factor(value)})" for value, entry in (top, low)]
        rows.append((max(top[0], -low[0]), (shorten(name, 30), *cells)))
    rows.sort(key=lambda row: -row[0])
    moved = [row for row in rows if row[0] > math.log(1.005)] or rows
    return [(name, top, low) for _, (name, top, low) in moved[:_CLASSES]]


def _line_picture(points: Sequence[_Point], most: float, towards: str, words: Words) -> Markup:
    """Draw a line over equally spaced numbers, since most columns are too skewed for a scale of values."""
    knots = sorted(point for point in points if not isinstance(point.entry, str))
    other = next((point for point in points if isinstance(point.entry, str)), None)
    marks = _marks(most)
    left, right = _LETTER * max(len(factor(mark)) for mark in marks) + 16, _WIDE - (84.0 if other else 12.0)
    top, floor = 26.0, _HIGH - 26.0
    middle, half = (top + floor) / 2, (floor - top) / 2 - 6
    end = _WIDE - 12.0

    def height(value: float) -> float:
        return middle - half * value / most

    def band(x: float, point: _Point) -> Markup:
        low, high = (min(max(point.value + side * point.band, -most), most) for side in (-1, 1))
        return line("axis", x, height(low), x, height(high)) if point.band else Markup()

    at = [left + (right - left) * (place / max(len(knots) - 1, 1)) for place in range(len(knots))]
    body = text("tick", 4, 13, f"↑ more likely {shorten(towards)}", "start")
    for mark in marks:
        body += line("grid" if mark else "axis", left, height(mark), end, height(mark))
        body += text("tick", left - 6, height(mark) + 4.5, factor(mark), "end")
    for place, anchor, label in _labels([point.entry for point in knots], at):
        body += line("axis", at[place], floor, at[place], floor + 5)
        body += text("tick", at[place] + {"end": 8, "middle": 0}[anchor], floor + 20, label, anchor)
    line_of = [(x, height(point.value)) for x, point in zip(at, knots, strict=True)]
    body += Markup().join(map(band, at, knots))
    body += path("main", line_of) if len(line_of) > 1 else Markup().join(dot("main", *one) for one in line_of)
    body += Markup().join(dot("few", *one) for one, point in zip(line_of, knots, strict=True) if point.few)
    parts = [f"{factor(point.value)} at {_entry(point.entry)}" for point in _telling(knots)]
    if other:
        body += band(right + 44, other) + dot("few" if other.few else "main", right + 44, height(other.value))
        body += text("tick", right + 44, floor + 20, shorten(other.entry, 8), "middle")
        parts.append(f"{factor(other.value)} where {shorten(other.entry, _LONGEST_NAME)}")
    return svg(words, f"Odds {', '.join(parts)}.", _HIGH, body, _WIDE)


def _bar_picture(points: Sequence[_Point], most: float, towards: str, words: Words) -> Markup:
    """Draw bars to both sides. The name of each bar stands on the opposite side."""
    shown = sorted(sorted(points, key=lambda one: -abs(one.value))[:_BARS], key=lambda one: -one.value)
    body = text("tick", 4, 13, "← less likely", "start")
    body += text("tick", _WIDE - 4, 13, f"more likely {shorten(towards, 13)} →", "end")
    parts = []
    for place, (entry, value, half, few) in enumerate(shown):
        y, length, side = 24 + 21 * place, 100 * abs(value) / most, 1 if value >= 0 else -1
        css, (near, far) = ("main", ("start", "end")) if side > 0 else ("other", ("end", "start"))
        body += rect(css, _MIDDLE - (0 if side > 0 else length), y, length, 15)
        reach, end = 100 * half / most, length
        if half:
            # A band that includes 0 crosses the middle a little, where the name of the bar stands.
            end = min(length + reach, 104.0)
            start = max(length - reach, -5.0)
            body += line("axis", _MIDDLE + side * start, y + 7.5, _MIDDLE + side * end, y + 7.5)
        body += text(f"{css}-label", _MIDDLE + side * (end + 6), y + 12, factor(value), near)
        body += text("plain", _MIDDLE - side * 7, y + 12, shorten(_entry(entry)) + MARK * few, far)
        parts.append(f"{shorten(_entry(entry), _LONGEST_NAME)} {factor(value)}")
    height = 24 + 21 * len(shown) + 2
    body += line("axis", _MIDDLE, 20, _MIDDLE, height)
    if len(points) > len(shown):
        parts.append(f"and {len(points) - len(shown)} more that push less")
    return svg(words, f"Odds for {', '.join(parts)}.", height, body, _WIDE)


def _most(effects: Iterable[dict[str, Any]]) -> float:
    """Return the end of a scale: the largest push or, if there is room, the end of the longest band.

    The scale has a minimum, so that pure noise does not look like an effect.
    """
    shown = list(effects)
    largest = max([math.log(1.2), *(abs(value) for one in shown for _, (value,) in one["points"])])
    return max(largest, min(_longest_reach(shown), _ROOM * largest))


def _longest_reach(effects: Iterable[Written]) -> float:
    """Return the largest distance from 0 to the end of a band."""
    reaches = [
        abs(value) + BAND * deviation
        for one in effects
        for (_, (value,)), (deviation,) in zip(one["points"], one.get("deviations") or [], strict=False)
    ]
    return max(reaches, default=0.0)


def _marks(most: float) -> list[float]:
    """Return pushes by round factors that mark a scale, from the highest down."""
    factors = [*_ROUND, *(digit * 10.0**power for power in range(1, 305) for digit in (1, 2, 5))]
    high, low = (max(math.log(one) for one in factors if math.log(one) <= most * part) for part in (1, 0.5))
    return [high, low, 0.0, -low, -high]


def _labels(knots: Sequence[float], at: Sequence[float]) -> list[tuple[int, str, str]]:
    """Return which knots to label, the anchors of the labels and their texts, so that no label covers another."""
    last = len(knots) - 1
    candidates = [0, last, last // 2, last // 4, 3 * last // 4] if knots else []
    labels: dict[int, tuple[float, float, str, str]] = {}
    for place in dict.fromkeys(candidates):
        label, anchor = _entry(knots[place]), "end" if place == last > 0 else "middle"
        width = _LETTER * len(label)
        start = at[place] + 8 - width if anchor == "end" else at[place] - width / 2
        if all(start + width + 8 < other or start > to + 8 for other, to, _, _ in labels.values()):
            labels[place] = (start, start + width, anchor, label)
    return [(place, anchor, label) for place, (_, _, anchor, label) in labels.items()]


def _telling(knots: Sequence[_Point]) -> list[_Point]:
    """Return the first, the last, the highest and the lowest knot, in order."""
    if not knots:
        return []
    return sorted({knots[0], knots[-1], max(knots, key=lambda one: one.value), min(knots, key=lambda one: one.value)})


def _entry(entry: object) -> str:
    """Write a number or the name of a category. A number that may be a year has no comma."""
    if isinstance(entry, int | float) and not isinstance(entry, bool):
        if 1000 <= round(entry) < 2200:
            return str(round(entry))
        return number(entry if abs(entry) < 1000 else round(entry), 4)
    return str(entry)


def _name(column: object) -> str:
    return shorten(str(column), _LONGEST_NAME)
