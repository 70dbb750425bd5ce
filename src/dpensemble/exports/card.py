"""A score card: whole points for each value or range of each column, and a table from their sum to a probability.

A card is for students whose score is a sum over columns. A person can compute the probability by hand. Rounding to
whole points and joining ranges make an error, whose bound over all rows is stated.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from dpensemble._entries import Floats
from dpensemble.datasets.columns import as_text
from dpensemble.datasets.preparation import numeric_columns
from dpensemble.datasets.tables import as_kinds, as_library_transformer, by_name, read_table
from dpensemble.errors import InvalidParameterError
from dpensemble.exports.description import (
    BLANK,
    Column,
    Description,
    features_of_numbers,
    places_of_texts,
    release_text,
)

# Points that the score of the most influential column spans, and most ranges of a column of numbers.
_SPAN, _MOST_RANGES = 40, 8
# Narrow ranges between two knots, and parts of half a narrow range, on which bounds are computed.
_BETWEEN, _WITHIN = 24, 8
# Sums of a table with ten columns.
_SHORT = 100
# Probability below which the table from sums to probabilities ends, and most sums in it.
_LEAST, _MOST_SUMS = 0.005, 400
_OTHER, _BLANK = "any other", "blank"


def _printed(number: float) -> str:
    """Return a limit with six digits, as a person compares it."""
    return f"{number:.6g}"


@dataclass(frozen=True, kw_only=True)
class CardLine:
    """A range of numbers, or some entries, of a column, and its points for each score, shape (n_scores,).

    A range has no `entries`, and holds ``low <= number < high``.
    """

    points: tuple[int, ...]
    entries: tuple[str, ...] = ()
    low: float = -math.inf
    high: float = math.inf

    @property
    def words(self) -> str:
        """The range or the entries in words."""
        if self.entries:
            return ", ".join(self.entries)
        if math.isinf(self.low):
            return "any number" if math.isinf(self.high) else f"below {_printed(self.high)}"
        low = _printed(self.low)
        return f"{low} or more" if math.isinf(self.high) else f"{low} to below {_printed(self.high)}"

    @property
    def has_long_limits(self) -> bool:
        """Whether the words round a limit."""
        return any(math.isfinite(end) and float(_printed(end)) != end for end in (self.low, self.high))


@dataclass(frozen=True, kw_only=True)
class ScoreCard:
    """A card, with the largest error of a probability.

    Parameters
    ----------
    student : Description
        The student.
    parts : tuple of pairs
        A title and the lines of each column.
    base : tuple of int
        Points to begin with, for each score.
    unit : float
        Logits of a point.
    bound : float
        Bound of the difference between a probability by points and of the student, for any row.
    observed : float or None
        The same over public rows, if any were given.
    n_rows : int
        Number of these rows.
    """

    student: Description
    parts: tuple[tuple[str, tuple[CardLine, ...]], ...]
    base: tuple[int, ...]
    unit: float
    bound: float
    observed: float | None = None
    n_rows: int = 0

    def probability(self, points: Floats) -> Floats:
        """Return the probability of each class for sums of points, shape (n_rows, n_classes)."""
        scores = np.asarray(points, dtype=float) * self.unit
        if scores.shape[1] == 1:
            scores = np.hstack([np.zeros_like(scores), scores])
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        chances: Floats = odds / odds.sum(axis=1, keepdims=True)
        return chances


def score_card(student: Description) -> ScoreCard:
    """Return the card of a student whose columns add up.

    Parameters
    ----------
    student : Description
        What the student computes.

    Raises
    ------
    InvalidParameterError
        If columns of the student act together.
    """
    if not student.is_additive:
        raise InvalidParameterError(
            "format='scorecard' is for students whose columns add up, and this student's columns act together "
            "(directions or distances to landmarks): use --format sql, --format onnx or --format python.",
            parameter="format",
        )
    coefficients = student.coefficients
    cells = [_cells(column, coefficients) for column in student.table.columns]
    constant = student.table.constant * coefficients[-1]
    spans = [float(max(cell.most.max() for cell in own) - min(cell.least.min() for cell in own)) for own in cells]
    unit = _readable(max(max(spans, default=1.0), 1e-6) / _SPAN)
    parts, errors, base = [], 0.0, constant.copy()
    for column, own in zip(student.table.columns, cells, strict=True):
        least = np.min([cell.least for cell in own], axis=0)
        base += least
        joined, error = _joined(own, least, unit)
        errors += error
        if any(any(line.points) for line in joined):
            parts.append((column.name, tuple(joined)))
    whole = np.rint(base / unit)
    errors += float(np.abs(whole * unit - base).max())
    # The student rounds features.
    errors += 2.0**-15 * float(np.abs(coefficients).sum(axis=0).max())
    # If each score changes by at most d, a probability of two classes changes by at most tanh(d / 4). Of several
    # classes the odds of one against all others change by at most exp(2 * d), so that d is doubled.
    difference = errors if coefficients.shape[1] == 1 else 2 * errors
    # The student rounds probabilities, and sums here are rounded in the last digits.
    rounding = coefficients.shape[1] * 2.0**-23
    parts.sort(key=lambda part: -max(max(line.points) for line in part[1]))
    base_points = tuple(int(one) for one in whole)
    return ScoreCard(
        student=student, parts=tuple(parts), base=base_points, unit=unit, bound=math.tanh(difference / 4) + rounding
    )


@dataclass(frozen=True, kw_only=True)
class _Cell:
    """An entry of a column, or a narrow range of numbers, and bounds of what each adds to the scores."""

    least: Floats
    most: Floats
    entry: str = ""
    low: float = -math.inf
    high: float = math.inf


def _cells(column: Column, coefficients: Floats) -> list[_Cell]:
    """Return the entries of a column, or narrow ranges of numbers. Bounds of single entries are equal."""
    own = coefficients[column.start : column.start + column.n_features]
    if not column.is_number:
        codes, other, missing = places_of_texts(column)
        last = None if column.known is None else column.known[-1]
        known = [
            (_entry(text), code)
            for text, code in codes.items()
            if text not in (last, None if column.fill is None else BLANK)
        ]
        return [
            _Cell(entry=entry, least=own[code] * column.length, most=own[code] * column.length)
            for entry, code in [*known, (_OTHER, other), (_BLANK, missing)]
        ]
    blank = math.nan if column.fill is None else float(column.fill)
    if column.edges is not None:
        numbers, limits = np.asarray(column.values), [-math.inf, *np.asarray(column.edges).tolist(), math.inf]
        blank = blank if math.isnan(blank) else float(numbers[np.searchsorted(column.edges, blank, side="right")])
        least = most = features_of_numbers(column, numbers) @ own
    else:
        numbers, limits = _grid_of(column)
        least, most = _bounds(column, own, numbers, limits)
    of_blank = (features_of_numbers(column, np.array([blank])) @ own)[0]
    # Parts of dates are whole numbers.
    ends = [math.ceil(end) if column.part and math.isfinite(end) else end for end in limits]
    ranges = [
        _Cell(low=low, high=high, least=lower, most=upper)
        for low, high, lower, upper in zip(ends[:-1], ends[1:], least, most, strict=True)
        if low < high
    ]
    return [*ranges, _Cell(entry=_BLANK, least=of_blank, most=of_blank)]


def _entry(text: str) -> str:
    """Return a category as the card names it, apart from the names of other entries and of blanks."""
    return f'"{text}"' if text in (_OTHER, _BLANK) else text


def _grid_of(column: Column) -> tuple[Floats, list[float]]:
    """Return numbers of a column, with all knots among them, and limits with few digits between and around them."""
    knots = np.unique(np.concatenate(column.knots))
    inside = (knots[:-1, None] + np.diff(knots)[:, None] * _ways(_BETWEEN)[:-1]).ravel()
    numbers = np.unique(np.append(inside, knots[-1]))
    middles = [_short(low, high) for low, high in zip(numbers[:-1].tolist(), numbers[1:].tolist(), strict=True)]
    return numbers, [-math.inf, *middles, math.inf]


def _ways(parts: int) -> Floats:
    """Return parts of a way from 0 to 1. Roots are steep at knots, so that these are close together at the ends."""
    return np.asarray(np.sin(np.linspace(0, math.pi / 2, parts + 1)) ** 2)


def _bounds(column: Column, own: Floats, numbers: Floats, limits: Sequence[float]) -> tuple[Floats, Floats]:
    """Return bounds of what all numbers of each range add to the scores, shape (n_ranges, n_scores) each.

    Between two numbers without a knot between them, each feature rises or falls. So its product with a coefficient is
    largest and smallest at the ends, and the sum of these is a bound of the score. Beyond the knots nothing changes.
    """
    ends = np.clip(np.asarray(limits), numbers[0], numbers[-1])
    ways = _ways(_WITHIN)
    # The only number of a range that may be a knot is between the two halves.
    halves = [
        below[:, None] + (above - below)[:, None] * ways for below, above in ((ends[:-1], numbers), (numbers, ends[1:]))
    ]
    points = np.hstack(halves)
    # Without rounding, so that no number is between two ranges.
    points[:, _WITHIN], points[:, -1] = numbers, ends[1:]
    features = features_of_numbers(column, points.ravel()).reshape(*points.shape, -1)
    least, most = np.full((len(numbers), own.shape[1]), np.inf), np.full((len(numbers), own.shape[1]), -np.inf)
    # Where the halves meet, the number occurs twice.
    for place in range(points.shape[1] - 1):
        first, second = (features[:, one, :, None] * own for one in (place, place + 1))
        least = np.minimum(least, np.minimum(first, second).sum(axis=1))
        most = np.maximum(most, np.maximum(first, second).sum(axis=1))
    return least, most


def _short(low: float, high: float) -> float:
    """Return the number with the fewest digits above one number and at most another."""
    for digits in range(1, 17):
        step = 10.0 ** (math.floor(math.log10(max(abs(low), abs(high), 1e-300))) + 1 - digits)
        number = float(f"{math.floor(high / step) * step:.{digits}g}")
        if low < number <= high:
            return number
    return high


def _joined(cells: Sequence[_Cell], origin: Floats, unit: float) -> tuple[list[CardLine], float]:
    """Return few lines in whole points, and a bound of the error of a score by rounding and joining."""
    ranges = [cell for cell in cells if not cell.entry]
    joined, error = [], 0.0
    for first, last in _groups(ranges, unit) if ranges else []:
        least = np.min([cell.least for cell in ranges[first : last + 1]], axis=0) - origin
        most = np.max([cell.most for cell in ranges[first : last + 1]], axis=0) - origin
        points = np.rint((least + most) / 2 / unit)
        error = max(error, float(np.maximum(most - points * unit, points * unit - least).max()))
        joined.append(CardLine(points=tuple(map(int, points)), low=ranges[first].low, high=ranges[last].high))
    by_points: dict[tuple[int, ...], list[str]] = {}
    for cell in cells:
        if cell.entry:
            points = np.rint((cell.least - origin) / unit)
            error = max(error, float(np.abs(cell.least - origin - points * unit).max()))
            by_points.setdefault(tuple(map(int, points)), []).append(cell.entry)
    texts = sorted(by_points.items(), key=lambda item: -max(item[0]))
    joined += [CardLine(entries=tuple(words), points=points) for points, words in texts]
    return joined, error


def _groups(ranges: Sequence[_Cell], unit: float) -> list[tuple[int, int]]:
    """Return the first and last places of a few groups of neighbours with similar scores."""
    tolerance, listed = unit, [(cell.least.tolist(), cell.most.tolist()) for cell in ranges]
    while True:
        groups, first = [], 0
        low, high = listed[0]
        for place, (least, most) in enumerate(listed):
            lower, upper = list(map(min, low, least)), list(map(max, high, most))
            if place > first and any(top - bottom > tolerance for bottom, top in zip(lower, upper, strict=True)):
                groups.append((first, place - 1))
                first, lower, upper = place, least, most
            low, high = lower, upper
        groups.append((first, len(listed) - 1))
        if len(groups) <= _MOST_RANGES:
            return groups
        tolerance *= 1.1


def _readable(unit: float) -> float:
    """Return the largest of 1, 2 and 5 times a power of ten that is at most a number."""
    power = 10.0 ** math.floor(math.log10(unit))
    return max(step * power for step in (1, 2, 5) if step * power <= unit * (1 + 1e-9))


def with_error(card: ScoreCard, student: Any, rows: Path) -> ScoreCard:
    """Return the card with its largest error over the public rows of a file, by the student itself."""
    first = student.steps[0][1]
    needed = as_library_transformer(first).needed_columns
    table = read_table(rows)
    names = list(student.feature_names_in_ if needed is None else needed)
    table = as_kinds("new", as_library_transformer(first).as_declared(by_name(table, names)), numeric_columns(first))
    prepared = first.transform(table) if "table" in student.named_steps else table
    sums = card_sums(card, prepared)
    apart = np.abs(card.probability(sums) - student.predict_proba(table))
    return replace(card, observed=float(apart.max()), n_rows=len(table))


def card_sums(card: ScoreCard, prepared: Any) -> Floats:
    """Return the sums of points of prepared rows, shape (n_rows, n_scores)."""
    columns = {column.name: column for column in card.student.table.columns}
    sums = np.tile(np.array(card.base, dtype=float), (len(prepared), 1))
    for title, lines in card.parts:
        column = columns[title]
        named = {entry: line.points for line in lines for entry in line.entries}
        if column.is_number:
            ranged = [line for line in lines if not line.entries]
            numbers = prepared[column.name].to_numpy(dtype=float, na_value=np.nan)
            places = np.searchsorted([line.low for line in ranged[1:]], numbers, side="right")
            points = np.array([line.points for line in ranged], dtype=float)[places]
            points[np.isnan(numbers)] = named[_BLANK]
        else:
            texts, missing = as_text(prepared[column.name]).tolist(), prepared[column.name].isna().tolist()
            found = [
                named[_BLANK] if lost else named.get(_entry(one), named[_OTHER])
                for one, lost in zip(texts, missing, strict=True)
            ]
            points = np.array(found, dtype=float)
        sums += points
    return sums


def _sums(card: ScoreCard) -> list[tuple[int, float]]:
    """Return sums of points and what they give: the probability of the second of two classes, or a weight."""
    if len(card.base) == 1:
        most = min(math.ceil(math.log(1 / _LEAST - 1) / card.unit), _MOST_SUMS // 2)
        # Sums that no row can have are left out.
        points = [[line.points[0] for line in lines] for _, lines in card.parts]
        ends = (card.base[0] + sum(map(extreme, points)) for extreme in (min, max))
        first, last = (min(max(end, -most), most) for end in ends)
        sums = range(first, last + 1)
        return [(one, 1 / (1 + math.exp(-one * card.unit))) for one in sums]
    last = min(math.ceil(-math.log(_LEAST) / card.unit), _MOST_SUMS)
    return [(one, math.exp(-one * card.unit)) for one in range(last + 1)]


def _instructions(card: ScoreCard) -> list[str]:
    """Return how a person computes a probability, one step each."""
    classes = card.student.classes
    if len(card.base) == 1:
        return [
            f"Begin with {card.base[0]} points.",
            "For each column add the points of the line that fits.",
            f"Look up the sum in the table: it gives the probability of {classes[1]} in percent.",
            "Sums below the table have less, and sums above it more, than its ends.",
        ]
    return [
        "For each class begin with its points in the line 'begin with', and add those of the line of each column "
        "that fits.",
        "Subtract each class's sum from the largest sum, and look up the weight of the difference. A difference "
        "beyond the table has the weight 0.",
        "The probability of a class is its weight, divided by the sum of all weights.",
    ]


def _errors(card: ScoreCard) -> list[str]:
    points = (
        f"The probability by points differs from that of the student by at most {_percent(card.bound)} for any row, "
        "before the table rounds it."
    )
    if any(line.has_long_limits for _, lines in card.parts for line in lines):
        points += " Limits are printed with six digits: a number between a limit and its print may get other points."
    if card.observed is None:
        return [points]
    return [points, f"Over {card.n_rows:,} public rows the largest difference is {_percent(card.observed)}."]


def _percent(share: float) -> str:
    """Return a share in percentage points, rounded up."""
    return f"{math.ceil(share * 1000) / 10:g} percentage points"


def as_csv(card: ScoreCard) -> str:
    """Return a card as CSV: a line for each value or range, then the table of sums, then what a reader must know."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    classes = card.student.classes
    scores = ["points"] if len(card.base) == 1 else [f"points of {name}" for name in classes]
    writer.writerow(["column", "value", "from", "below", *scores])
    writer.writerow(["begin with", "", "", "", *card.base])
    for title, lines in card.parts:
        for line in lines:
            for entry in line.entries or ("",):
                ends = ["" if line.entries or math.isinf(end) else repr(end) for end in (line.low, line.high)]
                writer.writerow([_safe(title), _safe(entry), *ends, *line.points])
    writer.writerow([])
    two = len(card.base) == 1
    writer.writerow(["sum", f"probability of {classes[1]}"] if two else ["difference", "weight"])
    for one, value in _sums(card):
        writer.writerow([one, f"{value:.4f}"])
    writer.writerow([])
    about = [*_instructions(card), *_errors(card), *card.student.guarantee]
    for note in [*about, f"for release: {release_text(card.student)}"]:
        writer.writerow(["note", _safe(note)])
    return text.getvalue()


def _safe(text: str) -> str:
    """Return a text that spreadsheets do not take for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


_PAGE = Markup("""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>{mark}Score card: {title}</title>
<style>
body {{ margin: 0 auto; padding: 1.6rem; max-width: 60rem; color: #18202c; background: #fff;
  font: .95rem/1.4 system-ui, "Segoe UI", Roboto, Arial, sans-serif; overflow-wrap: anywhere; }}
h1 {{ margin: 0; font-size: 1.6rem; }} h2 {{ margin: 1.2rem 0 .4rem; font-size: 1.05rem; }}
.lead {{ margin: .2rem 0 .8rem; color: #515d70; }} ol {{ margin: 0; padding-left: 1.2rem; }}
.mark {{ margin: 0 0 .8rem; padding: .5rem .8rem; color: #fff; background: #9a4400; font-weight: 600;
  -webkit-print-color-adjust: exact; print-color-adjust: exact; }}
.parts {{ columns: 3 15rem; column-gap: 1.2rem; }}
.parts table {{ break-inside: avoid; width: 100%; margin: 0 0 .8rem; }}
table {{ border-collapse: collapse; font-size: .84rem; }}
caption {{ padding: .15rem .35rem; text-align: left; font-weight: 600; color: #1c5fa8;
  border-bottom: 2px solid #1c5fa8; }}
td, th {{ padding: .1rem .35rem; border-bottom: 1px solid #d5dce6; text-align: left; font-weight: 400;
  vertical-align: top; }}
.n {{ text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; font-weight: 600; }}
.sums {{ width: 100%; }} .sums th {{ background: #f4f7fb; font-weight: 600; text-align: right;
  -webkit-print-color-adjust: exact; print-color-adjust: exact; }}
.sums td {{ text-align: right; font-variant-numeric: tabular-nums; }}
footer {{ margin-top: 1rem; padding-top: .5rem; border-top: 1px solid #d5dce6; font-size: .8rem; color: #515d70; }}
footer p {{ margin: 0 0 .25rem; }}
@media print {{
  @page {{ size: A4; margin: 8mm; }} body {{ padding: 0; font-size: 8pt; max-width: none; }}
  table {{ font-size: 7.5pt; }} td, th {{ padding: 0 .25rem; }} .sums {{ font-size: 6.5pt; }}
  .parts {{ columns: 3; }} h2 {{ margin: .6rem 0 .2rem; }}
}}
</style></head><body>
{banner}<h1>Score card</h1><p class="lead">{lead}</p>
<ol>{steps}</ol>
<h2>Points</h2><div class="parts">{parts}</div>
<h2>{heading}</h2><table class="sums">{sums}</table>
<footer>{notes}</footer></body></html>
""")
_ROW = Markup("<tr><td>{words}</td>{points}</tr>")
_POINTS = Markup('<td class="n">{}</td>')


def as_html(card: ScoreCard) -> str:
    """Return a card as a page for a browser or a printer."""
    student, two = card.student, len(card.base) == 1
    lead = f"{student.title or 'No title'}. Classes: {', '.join(student.classes)}."
    begin = [] if two else [_table("begin with", [("", card.base)], student.classes)]
    parts = [
        _table(title, [(line.words, line.points) for line in lines], () if two else student.classes)
        for title, lines in card.parts
    ]
    heading = (
        f"From the sum to the probability of {student.classes[1]}, in percent"
        if two
        else ("From the difference to the weight, in thousandths")
    )
    notes = [*_errors(card), *student.guarantee, f"For release: {release_text(student)}."]
    return str(
        _PAGE.format(
            mark="NOT FOR RELEASE - " if student.mark else "",
            title=student.title or "no title",
            banner=Markup('<p class="mark">{}</p>').format(student.mark) if student.mark else "",
            lead=lead,
            steps=Markup("").join(Markup("<li>{}</li>").format(step) for step in _instructions(card)),
            parts=Markup("").join([*begin, *parts]),
            heading=heading,
            sums=_grid(_sums(card), 100.0 if two else 1000.0),
            notes=Markup("").join(Markup("<p>{}</p>").format(note) for note in notes),
        )
    )


def _table(title: str, lines: list[tuple[str, tuple[int, ...]]], classes: tuple[str, ...]) -> Markup:
    head = Markup("<tr><th></th>{}</tr>").format(Markup("").join(map(_POINTS.format, classes))) if classes else ""
    rows = [_ROW.format(words=words, points=Markup("").join(map(_POINTS.format, points))) for words, points in lines]
    return Markup("<table><caption>{}</caption>{}{}</table>").format(title, head, Markup("").join(rows))


def _grid(sums: list[tuple[int, float]], factor: float) -> Markup:
    """Return a table of sums, tens down and ones across, or twenties if there are many."""
    values, width = dict(sums), 20 if len(sums) > _SHORT else 10
    first, last = math.floor(sums[0][0] / width), math.floor(sums[-1][0] / width)
    head = Markup("<tr><th>sum</th>{}</tr>").format(
        Markup("").join(Markup("<th>+{}</th>").format(n) for n in range(width))
    )
    rows = []
    for begin in range(first * width, last * width + 1, width):
        cells = [f"{values[begin + n] * factor:.1f}" if begin + n in values else "" for n in range(width)]
        written = Markup("").join(map(Markup("<td>{}</td>").format, cells))
        rows.append(Markup("<tr><th>{}</th>{}</tr>").format(begin, written))
    return head + Markup("").join(rows)
