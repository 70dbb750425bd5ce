"""What a run promises and how good its student is: the first screen of a page, tables, pictures and lines of text.

The first screen states in lay words what was trained on whom, the promise, the quality and the limits. Pictures show
both curves, calibration, and what thresholds do to 1,000 people.

The promise is a guarantee in an attacker's terms: how much better than guessing an attacker can distinguish
neighbouring data sets. The attacker knows all records but one unit's, has two candidates for that unit, and raises an
alarm for one of them. Under add-or-remove-one, the question is instead whether the unit is there at all: exchanging it
would be two changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from dpensemble._checks import plural
from dpensemble.relations import Basis, Relation
from dpensemble.report.charts import Bar, Drawing, Words, interval_chart, nice_ticks
from dpensemble.report.life_table import RISK, risk_not_for, summary_of_risk
from dpensemble.report.numbers import NUMBER, amount, number_not_for, summary_of_number
from dpensemble.report.record import RecordPart, RunRecord
from dpensemble.report.wording import number, percent, shorten

# With this number of bins or more, an area is never called unknown.
_KNOWN_BINS = 4
_SPREAD = "auroc_if_spread_as_public_rows"
_MOST_CLASSES = 10
_LONGEST = 30
_LOSS = "Logarithmic loss of one probability for each bin (not of the student)"
_NO_BREAK = "\N{NO-BREAK SPACE}"
_BOX = Markup('<rect class="{css}" fill-opacity=".13" x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}"/>')
_SPAN = Markup('<rect class="span" x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}"/>')
_AREA = Markup('<path class="{css}" fill-opacity=".16" d="{d}Z"/>')
_SQUARE, _FLAT, _RIGHT = 400, 300, 20
# More thresholds than this would cover each other's labels.
_LABELS = 6


@dataclass(frozen=True)
class KnownArea:
    """What a record knows about the area under the ROC curve.

    Parameters
    ----------
    value : float or None
        The area, if it was computed from rows, or by an earlier version from bins.
    low, high : float
        Ends of its 95 % interval.
    spread : float or None
        The area if probabilities are spread within bins as on public rows.
    n_bins : int or None
        Number of bins, if it is stated.
    is_of_student : bool
        False for records of versions that stated the area of a curve over the bins.
    """

    value: float | None
    low: float
    high: float
    spread: float | None
    n_bins: int | None
    is_of_student: bool

    @classmethod
    def of(cls, score: RecordPart, curves: RecordPart | None = None) -> KnownArea | None:
        """Read the area of a class, by default of the first, or return None if nothing is known."""
        every = score.get("one_against_rest") or []
        curves = curves if curves is not None else every[0] if len(every) == 1 else None
        if curves is not None:
            area, spread, is_of_student = curves["auroc"], curves.get(_SPREAD), _SPREAD in curves
            n_bins = len(curves["thresholds"]) + 1
        elif score.get("auroc_low") is not None:
            area = _interval(score, "auroc")
            spread, is_of_student, n_bins = score.get(_SPREAD), _SPREAD in score, None
        else:
            return None
        if is_of_student:
            hidden = (area["low"], area["high"]) == (0, 1) and (n_bins is None or n_bins < _KNOWN_BINS)
        else:
            hidden = area["value"] is None
        return None if hidden else cls(area["value"], area["low"], area["high"], spread, n_bins, is_of_student)

    @property
    def name(self) -> str:
        """What the numbers are of."""
        if self.is_of_student:
            return "AUROC"
        bins = "bins" if self.n_bins is None else f"{self.n_bins} bins"
        return f"area of a curve over {bins}, not the AUROC of the student"

    @property
    def numbers(self) -> str:
        """The interval, with the area before it if the area is known."""
        band = f"{self.low:.3f} to {self.high:.3f}"
        return band if self.value is None else f"{self.value:.3f} ({band})"


def quality_sections(record: RunRecord, *, is_private: bool) -> dict[str, object]:
    """Return the first screen, the risk, and the figures. Without `is_private` they hold only what may be published."""
    return {
        "summary": _summary_view(record, is_private=is_private),
        "known": _figures_view(record, is_private=is_private),
        "risk": _risk_view(record),
    }


def quality_lines(record: RunRecord) -> Iterator[str]:
    """Yield what a run released about the quality of its student, and the threshold for the costs of decisions."""
    score, decision = record.data.get("released_score"), record.data.get("decision")
    if score:
        yield _score_line(score, record.unit)
        for curves in score.get("one_against_rest", []):
            if len(score["one_against_rest"]) > 1:
                yield f"{curves['class']} against the rest: {_area(KnownArea.of(score, curves))}."
        for column, groups in score.get("groups", {}).items():
            parts = [f"{one['group']} {_with_band(one['accuracy'], None)}" for one in groups]
            yield f"Right by {column} (these intervals hold together): {', '.join(parts)}."
    if decision:
        yield f"Threshold for {decision['positive_class']}: {decision['threshold']:.4g}. {decision['why']}"
        for row in decision["per_1000"]:
            parts = [
                f"{_with_band(row[name], 0)} {words}"
                for name, words in (("alarms", "alarms"), ("missed", "missed cases"), ("false_alarms", "false alarms"))
            ]
            yield f"Per 1,000 people at {row['threshold']:.4g} ({row['name']}): {', '.join(parts)}."


def _score_line(score: RecordPart, unit: str) -> str:
    accuracy = _interval(score, "accuracy")
    parts = [f"right {_with_band(accuracy, None)}"]
    if score.get("most_common"):
        parts.append(f"always the most common class {_with_band(score['most_common'], None)}")
    if score.get("auroc_low") is not None:
        parts.append(_area(KnownArea.of(score)))
    return (
        f"Quality on {_counted(score['units'], f'held-back {unit}')}, released with noise under the same guarantee "
        f"(95% intervals in brackets): {', '.join(parts)}."
    )


def _area(area: KnownArea | None) -> str:
    """Write an area: an interval without a value, if only bins are known."""
    if area is None:
        return "AUROC unknown"
    if not area.is_of_student or area.value is not None:
        return f"{area.name} {area.numbers}"
    more = "" if area.spread is None else f" ({area.spread:.3f} if spread within bins as on public rows)"
    return f"AUROC of the student between {area.low:.3f} and {area.high:.3f} with 95%{more}"


def _with_band(figure: RecordPart, decimals: int | None) -> str:
    """Write a figure and its band, in per cent if no number of decimals is given. Noise may hide the figure."""

    def write(value: float) -> str:
        return percent(value) if decimals is None else f"{value:,.{decimals}f}"

    if figure["value"] is None:
        return "unknown"
    return f"{write(figure['value'])} ({write(figure['low'])} to {write(figure['high'])})"


def _figures_view(record: RunRecord, *, is_private: bool) -> dict[str, object] | None:
    """Return curves, tables and pictures, or None if nothing may be shown.

    What was released with noise comes first. Exact figures on test rows are shown if these rows are public, or to the
    owner.
    """
    score = record.data.get("released_score")
    is_released = bool(score)
    if not is_released and (record.scores_are_public or is_private):
        score = record.data.get("test_quality")
    decision = record.data.get("decision")
    # Earlier versions released one accuracy and one area.
    if not score or "one_against_rest" not in score:
        return None if decision is None else {"is_released": False, "decision": _decision(decision), "curves": None}
    curves, two_classes = score["one_against_rest"], not score["classes"]
    return {
        "is_released": is_released,
        "units": number(score["units"]),
        "noise": number(score["sigma"], 3),
        "level": f"{100 * score['level']:.0f}%",
        "rows": _headline(score, two_classes=two_classes),
        "curves": curves,
        "pictures": _pictures(curves, decision) if two_classes else _roc_pictures(curves),
        "classes": _classes(score),
        "groups": [(column, *_groups(groups, decision)) for column, groups in score["groups"].items()],
        "decision": None if decision is None else _decision(decision),
        "positive": curves[0]["class"] if two_classes else None,
    }


def _headline(score: RecordPart, *, two_classes: bool) -> list[tuple[str, str]]:
    accuracy = _interval(score, "accuracy")
    common = score["most_common"]
    name = "" if common["class"] is None else f" ({shorten(common['class'], _LONGEST)})"
    rows = [("Right", _cell(accuracy, None)), (f"Always the most common class{name}", _cell(common, None))]
    if two_classes:
        curves = score["one_against_rest"][0]
        area = KnownArea.of(score)
        rows.append(("AUROC" if area is None else area.name[:1].upper() + area.name[1:], _area_cell(area)))
        if area is not None and area.spread is not None:
            rows.append(("AUROC if spread within bins as on public rows (no bound)", f"{area.spread:.3f}"))
        rows.append((_LOSS, _cell(curves["binned_log_loss"], 3)))
    return rows


def _pictures(curves: list[RecordPart], decision: RecordPart | None) -> list[tuple[str, Markup]]:
    """Return a heading and a drawing for each picture that noise does not hide."""
    (one,) = curves
    chosen = None if decision is None else decision["threshold"]
    drawings = {
        "ROC curve": _roc_picture(one, "roc"),
        "Precision and recall": _precision_recall_picture(one, "precision-recall"),
        "Calibration": _calibration_picture(one, "calibration"),
        "Alarms and missed cases": _threshold_picture(one, "thresholds", chosen),
    }
    return [(head, drawing) for head, drawing in drawings.items() if drawing is not None]


def _roc_pictures(curves: list[RecordPart]) -> list[tuple[str, Markup]]:
    drawings = {
        f"{shorten(one['class'], _LONGEST)} against the rest": _roc_picture(one, f"roc-{place}")
        for place, one in enumerate(curves[:_MOST_CLASSES], start=1)
    }
    return [(head, drawing) for head, drawing in drawings.items() if drawing is not None]


def _classes(score: RecordPart) -> list[tuple[str, list[str]]]:
    areas = {one["class"]: _area_cell(KnownArea.of(score, one)) for one in score["one_against_rest"]}
    return [
        (
            shorten(one["class"], _LONGEST),
            [
                *(_cell(one[name], None) for name in ("share", "recall", "precision")),
                areas.get(one["class"], "unknown"),
            ],
        )
        for one in score["classes"][:_MOST_CLASSES]
    ]


def _groups(groups: list[RecordPart], decision: RecordPart | None) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Return the heads and rows of a table of groups. For two classes at the threshold that is used."""
    thresholds = [row["threshold"] for row in groups[0]["thresholds"]]
    heads = ["Share", "Right"]
    if not thresholds:
        return heads, [
            (shorten(one["group"], _LONGEST), [_cell(one[name], None) for name in ("share", "accuracy")])
            for one in groups
        ]
    wanted = [] if decision is None else [decision["threshold"], decision["formula"]]
    # One half is an edge of every histogram.
    at = next((one for one in wanted if one in thresholds), min(thresholds, key=lambda one: abs(one - 0.5)))
    place = thresholds.index(at)
    heads += [f"Cases found at {at:.3g}", "Alarms right", "Alarms per 1,000"]
    rows = []
    for one in groups:
        row = one["thresholds"][place]
        cells = [_cell(figure, None) for figure in (one["share"], one["accuracy"], row["sensitivity"])]
        cells += [_cell(row["positive_predictive_value"], None), _cell(row["alarms_per_1000"], 0)]
        rows.append((shorten(one["group"], _LONGEST), cells))
    return heads, rows


def _decision(decision: RecordPart) -> dict[str, object]:
    costs = decision["costs"]

    def cells(row: RecordPart) -> list[str]:
        return [_cell(row[name], 0) for name in ("alarms", "missed", "false_alarms", "cost")]

    return {
        "positive": shorten(decision["positive_class"], _LONGEST),
        "threshold": f"{decision['threshold']:.4g}",
        "why": decision["why"],
        "missed": number(costs["false_negative"]),
        "alarm": number(costs["false_positive"]),
        "rows": [(f"{row['threshold']:.4g} ({row['name']})", cells(row)) for row in decision["per_1000"]],
    }


def _area_cell(area: KnownArea | None) -> str:
    if area is None:
        return "unknown"
    value, bracket, band = area.numbers.partition(" (") if area.value is not None else ("", "", area.numbers)
    named = "" if area.is_of_student else " over bins"
    return f"{value}{bracket}{band.replace(' ', _NO_BREAK)}{named}"


def _cell(figure: RecordPart, decimals: int | None) -> str:
    """Write a figure and its band for a table, where a line may end before the band, but not within the band."""
    value, bracket, band = _with_band(figure, decimals).partition(" (")
    return f"{value}{bracket}{band.replace(' ', _NO_BREAK)}"


def _roc_picture(curves: RecordPart, ident: str) -> Markup | None:
    """Draw the ROC curve at each threshold, with the box in which its point lies. None if noise hides it.

    Between two thresholds nothing is known but that neither axis falls, so a rectangle holds the curve.
    """
    points = [
        (_complement(row["specificity"]), row["sensitivity"])
        for row in reversed(curves["thresholds"])
        if row["specificity"]["value"] is not None and row["sensitivity"]["value"] is not None
    ]
    if not points:
        return None
    words = Words(
        ident, f"ROC curve of {shorten(curves['class'], 40)}", "false alarms among the others", "cases that are found"
    )
    drawing = Drawing(words, height=_SQUARE, right=_RIGHT)
    _draw_square(drawing, nice_ticks(1))
    _draw_rectangles(drawing, points)
    _draw_boxes(drawing, points)
    return drawing.svg(_sentence(points, words, KnownArea.of({}, curves)))


def _precision_recall_picture(curves: RecordPart, ident: str) -> Markup | None:
    """Draw the precision-recall curve, each threshold with its box, beside the share of cases."""
    points = [
        (row["sensitivity"], row["positive_predictive_value"])
        for row in reversed(curves["thresholds"])
        if row["positive_predictive_value"]["value"] is not None and row["sensitivity"]["value"] is not None
    ]
    if not points:
        return None
    title = f"Precision and recall of {shorten(curves['class'], 40)}"
    words = Words(ident, title, "cases that are found", "alarms that are right")
    drawing = Drawing(words, height=_SQUARE, right=_RIGHT)
    drawing.axes(nice_ticks(1), nice_ticks(1))
    share = curves["share"]["value"]
    if share is not None:
        level = drawing.y(share)
        drawing.line("limit", drawing.left, level, drawing.x(1), level)
        drawing.text("limit-label", drawing.left + 6, level - 7, f"alarms for all: {number(share, 2)}", "start")
    _draw_boxes(drawing, points)
    return drawing.svg(_sentence(points, words))


def _calibration_picture(curves: RecordPart, ident: str) -> Markup | None:
    """Draw the share of cases in each bin over the probabilities of the bin. None if noise hides all bins.

    Boxes are as wide as bins. Where in a bin the held-back probabilities are is not known.
    """
    bins = [one for one in curves["calibration"] if one["observed"]["value"] is not None]
    if not bins:
        return None
    words = Words(
        ident, f"Calibration of {shorten(curves['class'], 40)}", "probability that the student states", "share of cases"
    )
    # Rare classes fill a corner of the square only.
    most = max(max(one["predicted"], one["observed"]["value"]) for one in bins)
    ticks = nice_ticks(min(1.0, 1.1 * most))
    end = min(1.0, ticks[-1])
    drawing = Drawing(words, end, end, height=_SQUARE, right=_RIGHT)
    _draw_square(drawing, ticks)
    for one in bins:
        x, observed = drawing.x(one["predicted"]), one["observed"]
        low, high = drawing.y(min(observed["low"], end)), drawing.y(min(observed["high"], end))
        left, right = drawing.x(min(one["from"], end)), drawing.x(min(one["to"], end))
        drawing.add(_BOX.format(css="main", x=left, y=high, w=right - left, h=low - high))
        drawing.dot("main", x, drawing.y(observed["value"]))
    sentences = [
        f"{number(one['from'], 2)} to {number(one['to'], 2)} stated, {number(one['observed']['value'], 2)} observed "
        f"({number(one['observed']['low'], 2)} to {number(one['observed']['high'], 2)})"
        for one in bins
    ]
    return drawing.svg(f"{'; '.join(sentences)}.")


def _threshold_picture(curves: RecordPart, ident: str, chosen: float | None = None) -> Markup | None:
    """Draw alarms and missed cases per 1,000 people over thresholds, which stand at equal distances."""
    rows = [row for row in curves["thresholds"] if row["alarms_per_1000"]["value"] is not None]
    if len(rows) < 2:
        return None
    words = Words(ident, "Alarms and missed cases, by threshold", "threshold", "people of 1,000")
    ticks = nice_ticks(max(row["alarms_per_1000"]["high"] for row in rows))
    drawing = Drawing(words, len(rows) - 1, ticks[-1], height=_FLAT)
    drawing.axes([], ticks)
    floor = drawing.y(0)
    for place in _spread(len(rows)):
        drawing.text("tick", drawing.x(place), floor + 19, f"{rows[place]['threshold']:.2g}", "middle")
    for place, row in enumerate(rows):
        if chosen is not None and row["threshold"] == chosen:
            drawing.line("limit", drawing.x(place), drawing.top, drawing.x(place), floor)
            anchor = "start" if place < len(rows) / 2 else "end"
            shift = 6 if anchor == "start" else -6
            drawing.text("limit-label", drawing.x(place) + shift, drawing.top + 10, f"chosen: {chosen:.2g}", anchor)
    sentences, taken = [], math.inf
    for name, label, css in (("missed_per_1000", "missed", "other"), ("alarms_per_1000", "alarms", "main")):
        at = [(drawing.x(place), row[name]) for place, row in enumerate(rows) if row[name]["value"] is not None]
        if len(at) < 2:
            continue
        outline = [(x, drawing.y(one["low"])) for x, one in at] + [(x, drawing.y(one["high"])) for x, one in at[::-1]]
        drawing.add(_AREA.format(css=css, d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in outline)))
        curve = [(x, drawing.y(one["value"])) for x, one in at]
        drawing.path(css, curve)
        # The second label moves up if both curves end together.
        y = curve[-1][1] + 4.5 if abs(curve[-1][1] - taken) > 18 else taken - 16
        taken = curve[-1][1]
        drawing.text(f"{css}-label", curve[-1][0] + 8, y, label, "start")
        first, last = at[0][1], at[-1][1]
        sentences.append(
            f"{label.capitalize()}: {number(first['value'], 3)} of 1,000 at {rows[0]['threshold']:.2g}, "
            f"{number(last['value'], 3)} at {rows[-1]['threshold']:.2g}."
        )
    return drawing.svg(" ".join(sentences))


def _draw_square(drawing: Drawing, ticks: Sequence[float]) -> None:
    """Draw axes and the diagonal."""
    ticks = [tick for tick in ticks if tick <= drawing.x_max + 1e-9]
    drawing.axes(ticks, ticks)
    drawing.line("limit", drawing.x(0), drawing.y(0), drawing.x(drawing.x_max), drawing.y(drawing.y_max))


def _draw_boxes(drawing: Drawing, points: Sequence[tuple[RecordPart, RecordPart]]) -> None:
    """Draw points, each with its box."""
    for x, y in points:
        left, top = drawing.x(x["low"]), drawing.y(y["high"])
        w, h = drawing.x(x["high"]) - left, drawing.y(y["low"]) - top
        drawing.add(_BOX.format(css="main", x=left, y=top, w=w, h=h))
    for x, y in points:
        drawing.dot("main", drawing.x(x["value"]), drawing.y(y["value"]))


def _draw_rectangles(drawing: Drawing, points: Sequence[tuple[RecordPart, RecordPart]]) -> None:
    """Draw the rectangle between each two neighbouring points, both corners included."""
    ends = [(0.0, 0.0), *((x["value"], y["value"]) for x, y in points), (1.0, 1.0)]
    for (left, low), (right, high) in pairwise(ends):
        w, h = abs(drawing.x(right) - drawing.x(left)), abs(drawing.y(low) - drawing.y(high))
        drawing.add(_SPAN.format(x=drawing.x(min(left, right)), y=drawing.y(max(low, high)), w=w, h=h))


def _complement(figure: RecordPart) -> dict[str, float]:
    return {"value": 1 - figure["value"], "low": 1 - figure["high"], "high": 1 - figure["low"]}


def _spread(n: int) -> list[int]:
    """Return the places of at most a few labels, the first and the last included."""
    step = max(1, math.ceil((n - 1) / (_LABELS - 1)))
    return sorted({*range(0, n - 1, step)} - {place for place in range(n - 1) if n - 1 - place < step / 2} | {n - 1})


def _sentence(points: Sequence[tuple[RecordPart, RecordPart]], words: Words, area: KnownArea | None = None) -> str:
    parts = [f"{number(y['value'], 2)} {words.y} at {number(x['value'], 2)} {words.x}" for x, y in points]
    known = "" if area is None else f" {area.name[:1].upper()}{area.name[1:]}: {area.numbers}."
    return f"{'; '.join(parts)}.{known}"


# Standard deviations of a 95 % interval by rows. Published figures rest on these digits, not on those of `BAND`.
_OF_ROWS = 1.959964
# Above this share of right guesses a promise hardly protects anybody.
_WEAK = 0.9
# With more classes the first screen does not name them.
_MOST_NAMED = 6


@dataclass(frozen=True)
class _Quality:
    """How often a student is right, beside always giving the most common class. Missing values are None."""

    rows: Sequence[Bar]
    source: str
    verdict: str
    #: The area under the ROC curve of the student as a share of pairs. Empty without an area.
    order: str

    @property
    def has_intervals(self) -> bool:
        """Whether some row has an interval."""
        return any(row.low is not None and row.high is not None for row in self.rows)

    @property
    def chart(self) -> Markup:
        """The rows as a drawing."""
        return interval_chart(self.rows, Words("right", "Share of right answers"))


def _summary_view(record: RunRecord, *, is_private: bool) -> dict[str, object]:
    """Return the texts of the first screen. Without `is_private` they contain only what may be published."""
    words: dict[str, object] = {"trained": _trained(record), "promise": _promise(record)}
    if NUMBER in record.data:
        of_number = {"heading": "How close it is", "quality": summary_of_number(record), "measure": None}
        return words | of_number | {"not_for": number_not_for(record)}
    if RISK in record.data:
        of_risk = {"heading": "What it gives", "quality": summary_of_risk(record), "measure": None}
        return words | of_risk | {"not_for": risk_not_for(record)}
    quality = _quality(record, is_private=is_private)
    return words | {
        "heading": "How often it is right",
        "quality": quality,
        "measure": None if quality else _how_to_measure(record),
        "not_for": _not_for(record, quality),
    }


def _trained(record: RunRecord) -> list[str]:
    data, withheld = record.data, record.unprotected_data
    classes = [str(label) for label in data.get("classes") or ()]
    what = f"“{data['target']}”" if data.get("target") else "a class"
    among = f" ({_either(classes)})" if 0 < len(classes) <= _MOST_NAMED else ""
    if NUMBER in data:
        what = f"the number {what}"
        among = f" (from {amount(data[NUMBER]['low'])} to {amount(data[NUMBER]['high'])})"
    columns = data.get("columns")
    by = f" from {_counted(columns, 'column')}" if columns else ""
    if RISK in data:
        what, among = f"the risk that “{data[RISK]['what']}” by a time", f" ({len(data[RISK]['bins'])} bins)"
    sentences = [f"A model that predicts {what}{among}{by}."]
    units, held = data.get("private_units"), data.get("held_back", 0)
    if units is None or "private_units" in withheld:
        sentences.append(f"It learned from private {plural(record.unit)}, whose number is not published.")
    else:
        sentences.append(f"It learned from {_counted(units - held, f'private {record.unit}')}.")
    if (unreadable := record.unreadable_share) is not None:
        sentences.append(f"About {percent(unreadable)} of them could not be read, and taught nothing.")
    if held:
        sentences.append(f"Another {held:,} were held back to measure how good it is.")
    if data.get("public_rows"):
        without = "numbers" if NUMBER in data else "times" if RISK in data else "labels"
        sentences.append(f"{_counted(data['public_rows'], 'public row')} helped, without their {without}.")
    return sentences


def _promise(record: RunRecord) -> list[str]:
    """Return the guarantee as the share of right guesses of the best attacker, who otherwise tosses a coin."""
    stated, unit = record.statement(), record.unit
    many = plural(unit)
    # With two equally likely candidates, a guess is right with probability (1 + advantage) / 2 at most.
    right = math.ceil(50 * (1 + record.attack_bounds()["advantage"]) - 1e-9)
    own = "it" if unit == "record" else f"the records of one {unit}"
    if stated.relation is Relation.REPLACE_ONE:
        first = f"If any one {unit} had been different, what is published would have come out almost as likely."
        guess = f"who knows all other {many} and has two candidates for {own if unit != 'record' else 'the last one'}"
    else:
        first = f"Without any one {unit}, what is published would have come out almost as likely."
        guess = f"who knows all other {many} and asks whether {own} {'is' if unit == 'record' else 'are'} in the data"
        guess = guess.replace("whether it is", "whether one more record is")
    sentences = [first, f"Somebody {guess} guesses right at most {right} times in 100. A coin is right 50 times."]
    if right >= 100 * _WEAK:
        sentences.append("That is hardly any protection.")
    if stated.groups:
        sentences.append("This is the bound for the group with the largest budget. The other groups have more.")
    if stated.basis is Basis.DATA_DEPENDENT:
        sentences.append(record.attack_condition)
    if unit == "record":
        sentences.append("Somebody with several records is protected less.")
    return sentences


def _quality(record: RunRecord, *, is_private: bool) -> _Quality | None:
    """Return the released quality, or the quality on public test rows, or None."""
    score = record.data.get("released_score")
    if score:
        source = (
            f"Measured on {_counted(score['units'], f'private {record.unit}')} that the model did not learn "
            "from, with random noise. The promise covers these figures."
        )
        order = _order(KnownArea.of(score), record)
        answer = _only_answer(record, is_private=is_private)
        misleads = record.accuracy_misleads
        return _compared(
            _interval(score, "accuracy"), score.get("most_common"), source, order, answer, misleads=misleads
        )
    if record.student is None or not (record.scores_are_public or is_private):
        return None
    rows = record.data.get("test_rows") or 0
    exact = record.data.get("test_quality")
    student = _interval(exact, "accuracy") if exact else _wilson(record.student.get("accuracy"), rows)
    common = exact.get("most_common") if exact else record.data.get("most_common_label")
    if not isinstance(common, Mapping):
        common = None if common is None else _wilson(common, rows)
    covered = "public test rows" if record.scores_are_public else "test rows, for you only"
    source = f"Measured on {f'{rows:,} ' if rows else ''}{covered}, without noise."
    area = KnownArea.of(exact) if exact else None
    answer = _only_answer(record, is_private=is_private)
    return _compared(student, common, source, _order(area, record), answer, misleads=record.accuracy_misleads)


def _order(area: KnownArea | None, record: RunRecord) -> str:
    """Return the area under the ROC curve as a share of pairs (J. Hanley and B. McNeil, Radiology 1982)."""
    case = (record.data.get("decision") or {}).get("positive_class") or record.data.get("positive_class")
    if area is None or case is None:
        return ""
    if not area.is_of_student:
        return f"An earlier version measured this: {area.name}, {area.numbers}. The AUROC may lie outside."
    # Rounded outwards, so that the interval stays one.
    low, high = math.floor(100 * area.low + 1e-9), math.ceil(100 * area.high - 1e-9)
    pair = f"Of one {record.unit} that is “{shorten(str(case), 24)}” and one that is not"
    if area.value is not None:
        times = f"{round(100 * area.value)} times in 100 (95% interval: {low} to {high})"
        return f"{pair}, it gives the first the higher probability {times}. A coin does so 50 times."
    spread = ""
    if area.spread is not None:
        times = f"{round(100 * area.spread)} times"
        spread = f" These are {times} if probabilities are spread within the bins as on public rows."
    return (
        f"{pair}, it gives the first the higher probability between {low} and {high} times in 100 (95% interval, for "
        f"any order within the {area.n_bins or 'released'} bins).{spread} A coin does so 50 times."
    )


def _only_answer(record: RunRecord, *, is_private: bool) -> str | None:
    """Return the label that the student gives to all public rows, or None. The labels must be public."""
    answers = record.data.get("answers") or {}
    if not (record.labels_are_public or is_private):
        return None
    return next((str(label) for label, share in answers.items() if share == 1), None)


def _compared(
    student: RecordPart, common: RecordPart | None, source: str, order: str, answer: str | None, *, misleads: bool
) -> _Quality:
    """Compare the student, which may give all public rows one answer, with always giving the most common class.

    There is no verdict if accuracy `misleads`.
    """
    rows = [Bar("this model", student["value"], "main", student["low"], student["high"])]
    verdict = ""
    if common is not None:
        name = common.get("class")
        label = f"always “{shorten(str(name), 24)}”" if name is not None else "always the most common class"
        rows.append(Bar(label, common["value"], "other", common["low"], common["high"]))
        verdict = _MISLEADS if misleads else _verdict(student, common)
        if answer is not None and answer == str(name):
            # Both figures are of nearly the same labels, so a difference between them is chance and noise.
            shown = shorten(answer, 24)
            verdict = f"It gives every public row the label “{shown}”. So both bars measure nearly the same labels."
    return _Quality(rows, source, verdict, order)


# Takes the place of a verdict where costs were given, or where nearly all rows are of one class.
_MISLEADS = "Accuracy shows little here. Look at the cases that are found, and at false alarms."


def _verdict(student: RecordPart, common: RecordPart) -> str:
    if student["value"] is None or common["value"] is None:
        return "Noise hides how the model compares with always giving the most common class."
    if student["value"] <= common["value"]:
        return "Its labels are not better than always giving the most common class."
    known = None not in (student["low"], common["high"])
    if known and student["low"] > common["high"]:
        return "Its labels are better than always giving the most common class."
    return "Its labels seem better than always giving the most common class, but the difference may be chance."


def _interval(score: RecordPart, name: str) -> dict[str, Any]:
    return {"value": score[name], "low": score[f"{name}_low"], "high": score[f"{name}_high"]}


def _wilson(share: float | None, rows: int) -> dict[str, object]:
    """Return a share with its interval by the number of rows (E. B. Wilson, JASA 1927)."""
    if share is None or not math.isfinite(share) or not rows:
        return {"value": share, "low": None, "high": None}
    grown = 1 + _OF_ROWS**2 / rows
    middle = (share + _OF_ROWS**2 / (2 * rows)) / grown
    half = _OF_ROWS / grown * math.sqrt(share * (1 - share) / rows + _OF_ROWS**2 / (4 * rows**2))
    return {"value": share, "low": max(0.0, middle - half), "high": min(1.0, middle + half)}


def _how_to_measure(record: RunRecord) -> list[str]:
    """Explain how to get a figure that may be published."""
    many, withheld = plural(record.unit), record.student is not None
    first = (
        "Measured on test rows that were not declared public, so the figures are not on this page."
        if withheld
        else "Nobody measured this."
    )
    possible = record.statement().relation is Relation.REPLACE_ONE and record.labels_are_public
    held = (
        f"A run with --holdout-score 0.2 holds a fifth of the {many} back, and releases a noisy score on them within "
        "the same guarantee."
    )
    public = "Public test rows (--test FILE --test-is-public) need no noise."
    again = "A further run on the same records adds to the loss of privacy, so decide before the first one."
    return [first, *([held] if possible and not record.groups else []), public, again]


def _not_for(record: RunRecord, quality: _Quality | None) -> list[str]:
    student = quality.rows[0] if quality else None
    wrong = "It makes mistakes."
    if student is not None and student.value is not None and student.is_known:
        wrong = f"It is wrong about {round(100 * (1 - student.value))} times in 100.{_wrong_at_threshold(record)}"
    by_group = (record.data.get("released_score") or {}).get("groups")
    fair = "The figures by group below do not prove it." if by_group else "Nobody measured that."
    return [
        f"Decisions about a person without somebody who checks them. {wrong}",
        "Statements about causes. The model shows only what goes together.",
        f"People, places or times unlike those of the private {plural(record.unit)}.",
        f"A claim that groups of people are treated alike. {fair}",
    ]


def _wrong_at_threshold(record: RunRecord) -> str:
    """Return how often labels by the threshold for the costs are wrong, which is usually more often."""
    decision = record.data.get("decision") or {}
    for row in decision.get("per_1000") or ():
        mistakes = (row["missed"]["value"], row["false_alarms"]["value"])
        if row["threshold"] == decision["threshold"] and None not in mistakes:
            return f" With the threshold {row['threshold']:.2g} it is wrong about {round(sum(mistakes) / 10)} times."
    return ""


def _risk_view(record: RunRecord) -> dict[str, Any]:
    """Return the advantage over guessing, and hits at some false-alarm rates, rounded up, in per cent."""
    bounds = record.attack_bounds()
    return {
        "is_exact": bounds["is_exact"],
        "advantage": f"{100 * bounds['advantage']:.3g}%",
        "condition": record.attack_condition,
        "rows": [(f"{100 * alarm:g}%", f"{100 * hit:.3g}%") for alarm, hit in bounds["hits"]],
    }


def _counted(number_of: int, noun: str) -> str:
    """Write how many there are of what a noun names."""
    return f"{number_of:,} {noun if number_of == 1 else plural(noun)}"


def _either(names: Sequence[str]) -> str:
    """Write names as alternatives."""
    return f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else "".join(names)
