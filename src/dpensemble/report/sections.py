"""Sections of a page that only some runs have: groups with their own budgets, and effects of columns.

Effects show how strongly each column pushes a model towards each class: as pictures for a page, and as a waterfall for
one row. Effects that rest on few people are marked, judged by public rows and by numbers that may be published.

The waterfall leads from the public mean to a row's logit, column by column, and is a complete SVG file. Its letters
have no outline, because some programs draw an outline over its letter. A copy of each label in the colour of the page
lies below the label instead, as an element of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from markupsafe import Markup

from dpensemble._checks import plural, round_up
from dpensemble.relations import Basis
from dpensemble.report.charts import GROUP_COLOURS, Drawing, Limit, Series, Words, line_chart, nice_ticks
from dpensemble.report.numbers import amount
from dpensemble.report.record import PrivateRecord, RecordPart, RunRecord
from dpensemble.report.wording import BAND, legible, number, shorten

#: Largest number of groups that a reader can distinguish in a chart.
_MOST_DRAWN = len(GROUP_COLOURS[0])
_WITHHELD = "withheld"
#: Names of budgets that all records might share.
SHARED_BUDGETS = {"minimum": "smallest", "average": "average", "maximum": "largest"}
_MARKS = {"minimum": "min", "average": "avg", "maximum": "max"}
_TALL = 360
# Number of characters that always fit beside the chart.
_LABEL = 13


def sections_of_some_runs(record: RunRecord, private: PrivateRecord | None) -> dict[str, object]:
    """Return what the page shows about groups with their own budgets, and about effects of columns. None for none."""
    return {"personal": _personal_view(record, private), "effects": _effects_view(record)}


def _personal_view(record: RunRecord, private: PrivateRecord | None) -> dict[str, Any] | None:
    """Return what the page shows about groups, or None if every record has the same budget."""
    if not record.groups:
        return None
    drawn = _drawn_groups(record.groups)
    heads, rows = _group_table(record, private)
    return {
        "figures": [_figure(record.groups[index]) for index in drawn],
        "left_out": len(record.groups) - len(drawn),
        "heads": heads,
        "rows": rows,
        "plain": _group_plain(record, is_private=private is not None),
        "has_spend": bool(record.group_spend),
    }


def _drawn_groups(groups: Sequence[object]) -> list[int]:
    """Return which groups are drawn: all groups if they are few, else the strictest and the most generous."""
    return list(range(len(groups))) if len(groups) <= _MOST_DRAWN else [0, len(groups) - 1]


def varied_setting(method: str) -> str:
    """Return which setting a method varies between groups: copies, weight or frequency."""
    return {"upsampling-pate": "copies", "vanishing-pate": "frequency"}.get(method, "weight")


@dataclass(frozen=True, kw_only=True)
class History:
    """Costs of groups, for the chart of cost by number of labels."""

    # Name and budget of each group, the strictest first, and their epsilons by number of labels, if these are public.
    groups: Sequence[tuple[str, float]]
    spend: Sequence[tuple[int, Sequence[float]]]
    # What one budget for all would cost: name, epsilon and labels of points on that curve.
    plain: Sequence[Sequence[float]]
    marks: Sequence[tuple[str, float, int]]
    # Largest secret spend of any group. Empty on the shareable page.
    own: Sequence[Sequence[float]] = ()

    @classmethod
    def of_run(cls, record: RunRecord, private: PrivateRecord | None) -> History:
        """Return the history of a run. With `private`, the history contains secret figures too."""
        shows_own = private is not None and not record.group_spend
        return cls(
            groups=[(group["name"], group["budget"]) for group in record.groups],
            spend=[(count, spent) for count, spent in record.group_spend],
            plain=record.plain_spend,
            marks=[(entry["name"], entry["epsilon"], entry["labels"]) for entry in record.plain_labels],
            own=private.spend if private is not None and shows_own else (),
        )

    def chart(self, axis: str) -> Markup:
        """Draw each group's spend, its budget and one budget's labels (Mühl and Boenisch 2022, figure 2)."""
        curves = [Series("one for all", self.plain, "other")]
        limits = []
        for colour, index in enumerate(_drawn_groups(self.groups), start=1):
            (name, budget), css = self.groups[index], f"group-{colour}"
            # Under a gate, spending is recorded after chunks of queries, so nothing is spent before the first chunk.
            points = [(0, 0.0)] if self.spend and self.spend[0][0] > 1 else []
            points += [(count, spent[index]) for count, spent in self.spend]
            shown = number(budget, 3)
            # A group that is named by its epsilon is labelled by it.
            unnamed = name.replace(".", "", 1).isdigit()
            curves.append(Series(f"ε {shown}" if unnamed else shorten(name, _LABEL), points, css))
            named = "budget" if unnamed else shorten(name, _LABEL - len(shown) - 2) + ":"
            limits.append(Limit(f"{named} {shown}", budget, css))
        if self.own:
            curves.append(Series("largest spent", self.own, "main"))
        marks = [
            Series(_MARKS.get(name, name), [(labels, at)], "other") for name, at, labels in self.marks if labels > 0
        ]
        words = Words("spend", f"Privacy spent by each group, by number of {axis}", axis, "epsilon")
        return line_chart(curves, limits, words, marks, height=_TALL)


def _figure(group: dict[str, Any]) -> dict[str, str]:
    epsilon = group["epsilon"]
    factor = f"a factor of {number(round_up(math.exp(epsilon), 3), 3)}" if epsilon < 700 else "an unlimited factor"
    return {"name": group["name"], "epsilon": _epsilon(epsilon), "factor": factor}


def _epsilon(value: float) -> str:
    """Write an epsilon, rounded up so that no guarantee looks stronger than it is."""
    return number(round_up(value, 4), 4) if value else "0"


def _group_table(
    record: RunRecord, private: PrivateRecord | None
) -> tuple[list[str], list[tuple[str, str, list[str]]]]:
    """Write a row for each group, with the one of copies, weight and frequency that the method varies."""
    varied = varied_setting(record.method)
    heads = {"copies": "Copies of a record", "frequency": "Votes on", "weight": "Weight of a vote"}
    has_teachers = any(group["teachers"] is not None for group in record.groups)
    shows_sizes = record.group_sizes_are_public or private is not None
    colours = {index: f"group-{colour}" for colour, index in enumerate(_drawn_groups(record.groups), start=1)}
    rows = []
    for index, group in enumerate(record.groups):
        spent = _epsilon(group["epsilon"])
        if private is not None and private.group_spent:
            spent = _epsilon(private.group_spent[index])
        elif not record.group_spend_is_promised:
            spent = f"at most {spent}"
        row = [
            _epsilon(group["budget"]),
            spent,
            _count(group["records"]) if shows_sizes or group["records"] is None else _WITHHELD,
            *([_count(group["teachers"])] if has_teachers else []),
            f"{100 * group[varied]:.3g}% of queries" if varied == "frequency" else number(group[varied], 4),
        ]
        rows.append((colours.get(index, ""), group["name"], row))
    teachers = ["Teachers"] if has_teachers else []
    return ["Group", "Budget", "Spent", "Records", *teachers, heads[varied]], rows


def _count(value: int | None) -> str:
    return "not known" if value is None else number(value)


def _group_plain(record: RunRecord, *, is_private: bool) -> list[tuple[str, str, str]]:
    """Compare the run with what one budget for all records would have bought."""
    rows = [
        (f"The {SHARED_BUDGETS.get(e['name'], e['name'])}", _epsilon(e["epsilon"]), number(e["labels"]))
        for e in record.plain_labels
    ]
    # The others are worst-case counts of answered queries. They do not apply to a gate or an analysis of the votes.
    alike = record.guarantee["basis"] == Basis.WORST_CASE.value and not record.gated
    if rows and alike and (record.labels_are_public or is_private):
        rows.append(("Each group its own: this run", "as above", number(record.asked)))
    return rows


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
#: An entry is marked if fewer private units than this are expected to have the entry.
_FEW = 25
_MARK = "*"
# Size of a waterfall. Letters stay readable on a telephone, where the picture is 400 pixels wide.
_WIDTH, _LEFT, _RIGHT, _TOP, _STEP, _FOOT = 480, 16, 410, 98, 44, 128
_LONGEST = 52
_INK, _SOFT, _GRID, _PAGE, _UP, _DOWN = "#1c1d22", "#5a5d6b", "#d5d7e0", "#ffffff", "#2f4ac9", "#a8430a"
_WATERFALL = Markup(
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
    'role="img" aria-labelledby="waterfall-title waterfall-desc" '
    "font-family=\"system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', Arial, sans-serif\" font-size=\"13\">"
    '<title id="waterfall-title">{title}</title><desc id="waterfall-desc">{desc}</desc>'
    '<rect width="{width}" height="{height}" fill="{page}"/>{body}</svg>\n'
)
_WATERFALL_GROUND = Markup(
    '<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" fill="{page}" stroke="{page}" '
    'stroke-width="5" stroke-linejoin="round" aria-hidden="true">{text}</text>'
)
_WATERFALL_TEXT = Markup(
    '<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" fill="{colour}">{text}</text>'
)
_WATERFALL_BAR = Markup('<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="16" fill="{colour}"/>')
_WATERFALL_LINE = Markup('<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{colour}" stroke-width="{width}"/>')
_WATERFALL_DOT = Markup('<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}"/>')


class _Point(NamedTuple):
    """An entry, its push, half the width of the band around the push (0 for no band), and if it rests on few people."""

    entry: Any
    value: float
    band: float
    few: bool = False


def _effects_view(record: RunRecord) -> dict[str, Any] | None:
    """Return importances, and pictures for two classes or tables for more. Return None if effects are not known."""
    effects = [effect for effect in record.effects if effect["points"]]
    if not effects:
        return None
    n_values = len(effects[0]["points"][0][1])
    names = [str(name) for name in record.data.get("classes") or ()]
    if len(names) != max(2, n_values):
        names = [f"class {index + 1}" for index in range(max(2, n_values))]
    support = _Support.of(record)
    largest = effects[: _PICTURES if n_values == 1 else 0]
    tables = effects[: _TABLES if n_values > 1 else 0]
    written = [(_name(one["column"]), _pushes(one, names, support.few(one))) for one in tables]
    # A table lists few entries, so a marked one may be missing there.
    marked = any(f"{_MARK} (" in cell for _, rows in written for row in rows for cell in row[1:])
    marked = marked or any(any(support.few(one)) for one in largest)
    pushes = _Pushes.of_record(record, shorten(names[1], 30) if n_values == 1 else None)
    most = {kind: pushes.most(one for one in largest if one["kind"] == kind) for kind in ("number", "category")}
    return {
        "importances": _importances(effects[:_COLUMNS], pushes),
        "left_out": len(effects[_COLUMNS:]),
        "pushes": pushes,
        "of_several": n_values > 1,
        "pictures": [
            (_name(one["column"]), _picture(one, most[one["kind"]], pushes, f"effect-{place}", support.few(one)))
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


@dataclass(frozen=True)
class _Pushes:
    """What pushes move, and how they are written: as factors, or as what is added to a number.

    `smallest` is the least end of a scale, so that pure noise does not look like an effect.
    """

    of: str
    meaning: str
    more: str
    less: str
    smallest: float = math.log(1.2)
    added: bool = False

    @classmethod
    def of_record(cls, record: RunRecord, towards: str | None) -> _Pushes:
        """Return the pushes of a run: those towards one of two classes, among several classes, or of a number."""
        output = record.effects[0].get("output", "logit")
        if output != "logit":
            words = _OF_OUTPUT[output]
            # Always giving one median errs by this. A tenth of it hardly matters.
            error = record.data.get("number", {}).get("error_of_median") or 1.0
            return replace(words, smallest=0.1 * error) if words.added else words
        odds = f"the odds of {towards or 'a class against the average class'}"
        meaning = f"A push is shown by what it does to {odds}: ×2 doubles them and ÷2 halves them."
        return cls("odds", meaning, f"more likely {towards or ''}".strip(), "less likely")

    def write(self, push: float) -> str:
        """Write a push."""
        if not self.added:
            return _factor(push)
        return amount(push) if push <= 0 else f"+{amount(push)}"

    def most(self, effects: Iterable[RecordPart]) -> float:
        """Return the end of a scale: the largest push or, if there is room, the end of the longest band."""
        shown = list(effects)
        largest = max([self.smallest, *(abs(value) for one in shown for _, (value,) in one["points"])])
        return max(largest, min(_longest_reach(shown), _ROOM * largest))

    def marks(self, most: float) -> list[float]:
        """Return round pushes that mark a scale, from the highest down."""
        if self.added:
            step = nice_ticks(most, 3)[1]
            high = step * math.floor(most / step)
            low = step if high > step else high / 2
            return [high, low, 0.0, -low, -high]
        factors = [*_ROUND, *(digit * 10.0**power for power in range(1, 305) for digit in (1, 2, 5))]
        high, low = (max(math.log(one) for one in factors if math.log(one) <= most * part) for part in (1, 0.5))
        return [high, low, 0.0, -low, -high]


_OF_OUTPUT = {
    "mean": _Pushes(
        "expected number", "A push is shown by what it adds to the expected number.", "larger", "smaller", added=True
    ),
    "logarithm": _Pushes(
        "number",
        "A push is shown by what it does to the number, counted from the low end of its range: ×2 doubles it and ÷2 "
        "halves it.",
        "larger",
        "smaller",
    ),
    "log hazard": _Pushes(
        "hazard",
        "A push is shown by what it does to the hazard, which is the chance that the event comes within a short time: "
        "×2 doubles it and ÷2 halves it.",
        "sooner",
        "later",
    ),
}


def _factor(effect: float) -> str:
    """Write a push as a factor of the odds: ×2 doubles them, ÷2 halves them."""
    size = math.exp(min(abs(effect), 700))
    shown = f"{size:.0e}" if size >= 1e6 else number(float(f"{size:.{2 if size >= 1.995 else 3}g}"))
    return f"{'÷' if effect < 0 and shown != '1' else '×'}{shown}"


def _importances(effects: Sequence[dict[str, Any]], pushes: _Pushes) -> Markup:
    """Draw a bar for the usual push of each column."""
    height = 24 * len(effects) + 8
    drawing = Drawing(Words("importances", f"How far each column usually pushes the {pushes.of}"), height=height)
    left, room = 172.0, drawing.width - 172 - 64
    most = max([0.05 * pushes.smallest, *(one["importance"] for one in effects)])
    parts = []
    for place, one in enumerate(effects):
        y, length = 6 + 24 * place, room * one["importance"] / most
        drawing.text("plain", left - 8, y + 13, shorten(str(one["column"]), 20), "end")
        drawing.rect("main", left, y, length, 17)
        usual = pushes.write(one["importance"]).removeprefix("+")
        drawing.text("main-label", left + length + 7, y + 13, usual, "start")
        parts.append(f"{_name(one['column'])} {usual}")
    drawing.line("axis", left, 2, left, height - 2)
    return drawing.svg(f"{', '.join(parts)}.")


def _picture(effect: dict[str, Any], most: float, pushes: _Pushes, ident: str, few: Sequence[bool] = ()) -> Markup:
    """Draw one column's pushes of one output. `most` is the end of the scale of all such pictures."""
    words = Words(ident, f"{_name(effect['column'])}: {pushes.more}, or {pushes.less}")
    bands = [BAND * deviation for (deviation,) in effect.get("deviations") or [[0.0]] * len(effect["points"])]
    points = [
        _Point(entry, values[0], band, is_few)
        for (entry, values), band, is_few in zip(effect["points"], bands, few or [False] * len(bands), strict=True)
    ]
    if effect["kind"] == "number":
        return _line_picture(points, most, pushes, words)
    return _bar_picture(points, most, pushes, words)


def _pushes(effect: dict[str, Any], names: Sequence[str], few: Sequence[bool] = ()) -> list[tuple[str, str, str]]:
    """Return the classes that a column pushes furthest, each with the entries that push it most up and most down."""
    marks = [_MARK if one else "" for one in few] or [""] * len(effect["points"])
    rows = []
    for index, name in enumerate(names):
        # Adding a constant to all classes changes nothing.
        deviations = [
            (values[index] - sum(values) / len(values), f"{shorten(_entry(entry), 30)}{mark}")
            for (entry, values), mark in zip(effect["points"], marks, strict=True)
        ]
        top, low = max(deviations, key=lambda one: one[0]), min(deviations, key=lambda one: one[0])
        cells = [f"{entry} ({_factor(value)})" for value, entry in (top, low)]
        rows.append((max(top[0], -low[0]), (shorten(name, 30), *cells)))
    rows.sort(key=lambda row: -row[0])
    moved = [row for row in rows if row[0] > math.log(1.005)] or rows
    return [(name, top, low) for _, (name, top, low) in moved[:_CLASSES]]


def _line_picture(points: Sequence[_Point], most: float, pushes: _Pushes, words: Words) -> Markup:
    """Draw a line over equally spaced numbers, since most columns are too skewed for a scale of values."""
    drawing = Drawing(words, height=_HIGH, width=_WIDE)
    knots = sorted(point for point in points if not isinstance(point.entry, str))
    other = next((point for point in points if isinstance(point.entry, str)), None)
    marks = pushes.marks(most)
    left, right = _LETTER * max(len(pushes.write(mark)) for mark in marks) + 16, _WIDE - (84.0 if other else 12.0)
    top, floor = 26.0, _HIGH - 26.0
    middle, half = (top + floor) / 2, (floor - top) / 2 - 6
    end = _WIDE - 12.0

    def height(value: float) -> float:
        return middle - half * value / most

    def draw_band(x: float, point: _Point) -> None:
        low, high = (min(max(point.value + side * point.band, -most), most) for side in (-1, 1))
        if point.band:
            drawing.line("axis", x, height(low), x, height(high))

    at = [left + (right - left) * (place / max(len(knots) - 1, 1)) for place in range(len(knots))]
    drawing.text("tick", 4, 13, f"↑ {shorten(pushes.more, 30)}", "start")
    for mark in marks:
        drawing.line("grid" if mark else "axis", left, height(mark), end, height(mark))
        drawing.text("tick", left - 6, height(mark) + 4.5, pushes.write(mark), "end")
    for place, anchor, label in _labels([point.entry for point in knots], at):
        drawing.line("axis", at[place], floor, at[place], floor + 5)
        drawing.text("tick", at[place] + {"end": 8, "middle": 0}[anchor], floor + 20, label, anchor)
    line_of = [(x, height(point.value)) for x, point in zip(at, knots, strict=True)]
    for x, point in zip(at, knots, strict=True):
        draw_band(x, point)
    if len(line_of) > 1:
        drawing.path("main", line_of)
    dots = [("main", one) for one in line_of if len(line_of) == 1]
    dots += [("few", one) for one, point in zip(line_of, knots, strict=True) if point.few]
    for css, one in dots:
        drawing.dot(css, *one)
    parts = [f"{pushes.write(point.value)} at {_entry(point.entry)}" for point in _telling(knots)]
    if other:
        draw_band(right + 44, other)
        drawing.dot("few" if other.few else "main", right + 44, height(other.value))
        drawing.text("tick", right + 44, floor + 20, shorten(other.entry, 8), "middle")
        parts.append(f"{pushes.write(other.value)} where {shorten(other.entry, _LONGEST_NAME)}")
    return drawing.svg(f"{pushes.of.capitalize()} {', '.join(parts)}.")


def _bar_picture(points: Sequence[_Point], most: float, pushes: _Pushes, words: Words) -> Markup:
    """Draw bars to both sides. The name of each bar stands on the opposite side."""
    shown = sorted(sorted(points, key=lambda one: -abs(one.value))[:_BARS], key=lambda one: -one.value)
    height = 24 + 21 * len(shown) + 2
    drawing = Drawing(words, height=height, width=_WIDE)
    drawing.text("tick", 4, 13, f"← {pushes.less}", "start")
    drawing.text("tick", _WIDE - 4, 13, f"{shorten(pushes.more, 25)} →", "end")
    parts = []
    # The number beside the longest bar needs room.
    room = min(100.0, _WIDE - _MIDDLE - 12 - _LETTER * max(len(pushes.write(one.value)) for one in shown))
    for place, (entry, value, half, few) in enumerate(shown):
        y, length, side = 24 + 21 * place, room * abs(value) / most, 1 if value >= 0 else -1
        css, (near, far) = ("main", ("start", "end")) if side > 0 else ("other", ("end", "start"))
        drawing.rect(css, _MIDDLE - (0 if side > 0 else length), y, length, 15)
        reach, end = room * half / most, length
        if half:
            # A band that includes 0 crosses the middle a little, where the name of the bar stands.
            end = min(length + reach, room + 4)
            start = max(length - reach, -5.0)
            drawing.line("axis", _MIDDLE + side * start, y + 7.5, _MIDDLE + side * end, y + 7.5)
        drawing.text(f"{css}-label", _MIDDLE + side * (end + 6), y + 12, pushes.write(value), near)
        drawing.text("plain", _MIDDLE - side * 7, y + 12, shorten(_entry(entry)) + _MARK * few, far)
        parts.append(f"{shorten(_entry(entry), _LONGEST_NAME)} {pushes.write(value)}")
    drawing.line("axis", _MIDDLE, 20, _MIDDLE, height)
    if len(points) > len(shown):
        parts.append(f"and {len(points) - len(shown)} more that push less")
    return drawing.svg(f"{pushes.of.capitalize()} for {', '.join(parts)}.")


def _longest_reach(effects: Iterable[RecordPart]) -> float:
    """Return the largest distance from 0 to the end of a band."""
    reaches = [
        abs(value) + BAND * deviation
        for one in effects
        for (_, (value,)), (deviation,) in zip(one["points"], one.get("deviations") or [], strict=False)
    ]
    return max(reaches, default=0.0)


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


@dataclass(frozen=True, slots=True)
class _Support:
    """How many private units stand behind each entry of a column, if they are like the public rows.

    Parameters
    ----------
    units : int or None
        Number of private units that the model learned from. None if the number must not be published. Then public rows
        are counted instead.
    noun : str
        The noun for units.
    """

    units: int | None
    noun: str

    @classmethod
    def of(cls, record: RunRecord) -> _Support:
        """Return the support of a record. Nothing in it depends on private rows that the guarantee does not cover."""
        units = None if "private_units" in record.unprotected_data else record.data.get("private_units")
        return cls(None if units is None else units - record.data.get("held_back", 0), record.unit)

    def few(self, effect: RecordPart) -> list[bool]:
        """Return for each point of an effect whether few units have it. Effects of earlier versions have no marks."""
        rows = effect.get("rows")
        if rows is None or not sum(rows):
            return [False] * len(effect["points"])
        scale = 1.0 if self.units is None else self.units / sum(rows)
        blanks = [isinstance(entry, str) for entry, _ in effect["points"]]
        counts = rows if effect["kind"] != "number" else _with_neighbours(rows, blanks)
        return [scale * count < _FEW for count in counts]

    def sentence(self, *, dots: bool = True) -> str:
        """Return what the mark means, and with `dots` the hollow dot of a picture."""
        who = f"of the {self.units:,} {plural(self.noun)} are expected to" if self.units is not None else "public rows"
        mark = f"{_MARK} or a hollow dot" if dots else _MARK
        return (
            f"{mark}: fewer than {_FEW} {who} have such an entry, judged by public rows. This push rests on few "
            "people, and may be chance."
        )


def _with_neighbours(rows: Sequence[int], blanks: Sequence[bool]) -> list[int]:
    """Return the rows at each number and at both its neighbours, since a line joins them. Blanks count for themselves.

    Examples
    --------
    >>> _with_neighbours([3, 4, 5, 9], [False, False, False, True])
    [7, 12, 9, 9]
    """
    numbers = [count for count, blank in zip(rows, blanks, strict=True) if not blank]
    sums = iter([sum(numbers[max(place - 1, 0) : place + 2]) for place in range(len(numbers))])
    return [count if blank else next(sums) for count, blank in zip(rows, blanks, strict=True)]


class _Step(NamedTuple):
    """A column with its entry, what the column adds to the logit, and half the width of its band (0 for none)."""

    label: str
    contribution: float
    band: float


@dataclass(frozen=True)
class _LogitScale:
    """Where logits are in the picture."""

    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> _LogitScale:
        room = max(max(values) - min(values), 0.1)
        return cls(min(values) - 0.02 * room, min(values) + 1.02 * room)

    def x(self, value: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        step = nice_ticks(self.high - self.low, 5)[1]
        first = math.ceil(self.low / step)
        return [float(f"{step * place:.12g}") for place in range(first, math.floor(self.high / step) + 1)]


# Numbers from here on are written without decimals.
_LARGE = 1000


class _Words(NamedTuple):
    """The name of the axis, the title, and what both sides mean."""

    axis: str
    title: str
    sides: str


_OF_CLASS = "What makes {} more and less likely", "Blue, to the right: more likely. Brown, to the left: less likely."
_OF_NUMBER = "What makes the number larger and smaller", "Blue, to the right: larger. Brown, to the left: smaller."
_WORDS_OF_OUTPUT = {
    "odds": _Words("logit: the logarithm of the odds", *_OF_CLASS),
    "logit": _Words("logit, less the mean logit of all classes", *_OF_CLASS),
    "mean": _Words("expected number", *_OF_NUMBER),
    "logarithm": _Words(
        "logarithm of the number", _OF_NUMBER[0], "Blue: larger. Brown: smaller. 0.1 makes it about a tenth larger."
    ),
    "log hazard": _Words(
        "logarithm of the hazard, relative to the public mean",
        "What makes the event come sooner and later",
        "Blue: sooner. Brown: later. 0.1 makes the hazard about a tenth larger.",
    ),
}


def waterfall(
    steps: Sequence[tuple[str, float, float]],
    base: float,
    *,
    towards: str,
    output: str,
    attribution: str,
    reference: str,
) -> str:
    """Return the picture as the text of an SVG file.

    Each step is a column with its entry, what the column adds to the output, and the standard deviation of that by
    known noise. A deviation of 0 draws no band. The `output` of a classifier is ``"odds"`` of one of two classes (as a
    probability, too), or ``"logit"`` of one of several. That of a number is ``"mean"`` or ``"logarithm"``. That of an
    event is ``"log hazard"``.
    """
    bars = [_Step(label, contribution, BAND * deviation) for label, contribution, deviation in steps]
    ends = [base]
    for one in bars:
        ends.append(ends[-1] + one.contribution)
    bands = [end + side * one.band for end, one in zip(ends[1:], bars, strict=True) for side in (-1, 1)]
    scale, floor = _LogitScale.of([*ends, *bands]), _TOP + _STEP * (len(steps) + 2)
    about = _WORDS_OF_OUTPUT[output]
    title = about.title.format(shorten(towards, 30))
    body = _waterfall_axis(scale, floor, about.axis)
    body += _waterfall_end("Public mean", base, scale, _TOP, output)
    for place, (one, start, end) in enumerate(zip(bars, ends[:-1], ends[1:], strict=True), start=1):
        body += _waterfall_bar(one, start, end, scale, _TOP + _STEP * place)
    body += _waterfall_end("This row", ends[-1], scale, floor - _STEP, output)
    body += _waterfall_label(_LEFT, 28, title, weight="700")
    body += _waterfall_label(_LEFT, 50, about.sides, _SOFT)
    body += _waterfall_label(_LEFT, 70, f"Relative to {reference.split(',', maxsplit=1)[0]}.", _SOFT)
    for row, words in enumerate(_waterfall_notes(attribution, any(one.band for one in bars))):
        body += _waterfall_label(_LEFT, floor + 62 + 19 * row, words, _SOFT)
    sentences = [f"Public mean {_output(base, output)}."]
    sentences += [f"{shorten(one.label, 80)}: {_signed(one.contribution)}." for one in bars]
    desc = " ".join([*sentences, f"This row {_output(ends[-1], output)}."])
    drawn = _WATERFALL.format(width=_WIDTH, height=floor + _FOOT, title=title, desc=desc, page=_PAGE, body=body)
    return legible(str(drawn))


def _waterfall_axis(scale: _LogitScale, floor: float, name: str) -> Markup:
    body = Markup("")
    for tick in scale.ticks():
        body += _waterfall_line(scale.x(tick), _TOP, scale.x(tick), floor, _GRID)
        body += _waterfall_label(scale.x(tick), floor + 18, f"{tick:g}".replace("-", "−"), _SOFT, "middle")
    return body + _waterfall_label((_LEFT + _RIGHT) / 2, floor + 38, name, _SOFT, "middle")


def _waterfall_end(name: str, value: float, scale: _LogitScale, top: float, output: str) -> Markup:
    x = scale.x(value)
    body = _waterfall_line(x, top + 18, x, top + _STEP + 2, _SOFT) if name != "This row" else Markup("")
    body += _waterfall_label(_LEFT, top + 13, f"{name}: {_output(value, output)}", weight="700")
    return body + _WATERFALL_DOT.format(x=x, y=top + 27, colour=_INK)


def _waterfall_bar(step: _Step, start: float, end: float, scale: _LogitScale, top: float) -> Markup:
    colour = _UP if step.contribution >= 0 else _DOWN
    left, right = sorted((scale.x(start), scale.x(end)))
    body = _WATERFALL_BAR.format(x=left, y=top + 19, width=max(right - left, 1.5), colour=colour)
    body += _waterfall_line(scale.x(end), top + 35, scale.x(end), top + _STEP + 19, _SOFT)
    outer = right
    if step.band:
        low, high, middle = scale.x(end - step.band), scale.x(end + step.band), top + 27
        outer = max(right, high)
        body += _waterfall_line(low, middle, high, middle, _INK, 1.5)
        body += _waterfall_line(low, middle - 4, low, middle + 4, _INK, 1.5) + _waterfall_line(
            high, middle - 4, high, middle + 4, _INK, 1.5
        )
    body += _waterfall_label(_LEFT, top + 13, shorten(step.label, _LONGEST))
    return body + _waterfall_label(
        outer + 7, top + 32, _signed(step.contribution).replace("-", "−"), colour, weight="700"
    )


def _waterfall_notes(attribution: str, bands: bool) -> list[str]:
    notes = ["Whiskers: 95 % bands by the known noise."] if bands else []
    return [*notes, f"Attribution: {attribution}.", "This shows what the model uses, not what causes what."]


def _signed(value: float) -> str:
    """Write a contribution with its sign. One that rounds to 0 has none."""
    if abs(value) >= _LARGE:
        return f"{value:+,.0f}"
    return "0.00" if round(value, 2) == 0 else f"{value:+.2f}"


def _output(value: float, output: str) -> str:
    """Write an output of a model, and what it means where that is a simple number."""
    text = (f"{value:,.0f}" if abs(value) >= _LARGE else f"{value:.2f}").replace("-", "−")
    if output == "log hazard":
        return f"{text} (hazard {_factor(value)})"
    if output != "odds":
        return text
    chance = 100 / (1 + math.exp(-max(min(value, 700.0), -700.0)))
    return f"{text} (probability {chance:.2g} %)" if chance < 99 else f"{text} (probability {chance:.4g} %)"


def _waterfall_label(
    x: float, y: float, text: str, colour: str = _INK, anchor: str = "start", weight: str = "400"
) -> Markup:
    place = {"x": x, "y": y, "anchor": anchor, "weight": weight, "text": text}
    return _WATERFALL_GROUND.format(page=_PAGE, **place) + _WATERFALL_TEXT.format(colour=colour, **place)


def _waterfall_line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1) -> Markup:
    return _WATERFALL_LINE.format(x1=x1, y1=y1, x2=x2, y2=y2, colour=colour, width=width)
