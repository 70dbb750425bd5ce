"""Pictures of a released quality: both curves, calibration, and what thresholds do to 1,000 people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from markupsafe import Markup

from dpensemble.report.drawing import Frame, Words, dot, line, nice_ticks, path, svg, text
from dpensemble.report.quality_lines import KnownArea, Written
from dpensemble.report.wording import number, shorten

_BOX = Markup('<rect class="{css}" fill-opacity=".13" x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}"/>')
_SPAN = Markup('<rect class="span" x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}"/>')
_AREA = Markup('<path class="{css}" fill-opacity=".16" d="{d}Z"/>')
_SQUARE, _FLAT = 400, 300
_RIGHT = 20
# More thresholds than this would cover each other's labels.
_LABELS = 6


def roc_picture(curves: Written, ident: str) -> Markup | None:
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
    frame = Frame(1, 1, height=_SQUARE, right=_RIGHT)
    body = _square(frame, words) + _between(frame, points) + _boxes(frame, points)
    return svg(words, _sentence(points, words, KnownArea.of({}, curves)), frame.height, body)


def precision_recall_picture(curves: Written, ident: str) -> Markup | None:
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
    frame = Frame(1, 1, height=_SQUARE, right=_RIGHT)
    body = frame.axes(nice_ticks(1), nice_ticks(1), words)
    share = curves["share"]["value"]
    if share is not None:
        level = frame.y(share)
        body += line("limit", frame.left, level, frame.x(1), level)
        body += text("limit-label", frame.left + 6, level - 7, f"alarms for all: {number(share, 2)}", "start")
    body += _boxes(frame, points)
    return svg(words, _sentence(points, words), frame.height, body)


def calibration_picture(curves: Written, ident: str) -> Markup | None:
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
    frame = Frame(min(1.0, ticks[-1]), min(1.0, ticks[-1]), height=_SQUARE, right=_RIGHT)
    body = _square(frame, words, ticks)
    for one in bins:
        x, observed = frame.x(one["predicted"]), one["observed"]
        low, high = frame.y(min(observed["low"], frame.y_max)), frame.y(min(observed["high"], frame.y_max))
        left, right = frame.x(min(one["from"], frame.x_max)), frame.x(min(one["to"], frame.x_max))
        body += _BOX.format(css="main", x=left, y=high, w=right - left, h=low - high)
        body += dot("main", x, frame.y(observed["value"]))
    sentences = [
        f"{number(one['from'], 2)} to {number(one['to'], 2)} stated, {number(one['observed']['value'], 2)} observed "
        f"({number(one['observed']['low'], 2)} to {number(one['observed']['high'], 2)})"
        for one in bins
    ]
    return svg(words, f"{'; '.join(sentences)}.", frame.height, body)


def threshold_picture(curves: Written, ident: str, chosen: float | None = None) -> Markup | None:
    """Draw alarms and missed cases per 1,000 people over thresholds, which stand at equal distances."""
    rows = [row for row in curves["thresholds"] if row["alarms_per_1000"]["value"] is not None]
    if len(rows) < 2:
        return None
    words = Words(ident, "Alarms and missed cases, by threshold", "threshold", "people of 1,000")
    ticks = nice_ticks(max(row["alarms_per_1000"]["high"] for row in rows))
    frame = Frame(len(rows) - 1, ticks[-1], height=_FLAT)
    body = frame.axes([], ticks, words)
    floor = frame.y(0)
    for place in _spread(len(rows)):
        body += text("tick", frame.x(place), floor + 19, f"{rows[place]['threshold']:.2g}", "middle")
    for place, row in enumerate(rows):
        if chosen is not None and row["threshold"] == chosen:
            body += line("limit", frame.x(place), frame.top, frame.x(place), floor)
            anchor = "start" if place < len(rows) / 2 else "end"
            shift = 6 if anchor == "start" else -6
            body += text("limit-label", frame.x(place) + shift, frame.top + 10, f"chosen: {chosen:.2g}", anchor)
    sentences, taken = [], math.inf
    for name, label, css in (("missed_per_1000", "missed", "other"), ("alarms_per_1000", "alarms", "main")):
        at = [(frame.x(place), row[name]) for place, row in enumerate(rows) if row[name]["value"] is not None]
        if len(at) < 2:
            continue
        outline = [(x, frame.y(one["low"])) for x, one in at] + [(x, frame.y(one["high"])) for x, one in at[::-1]]
        body += _AREA.format(css=css, d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in outline))
        curve = [(x, frame.y(one["value"])) for x, one in at]
        body += path(css, curve)
        # The second label moves up if both curves end together.
        y = curve[-1][1] + 4.5 if abs(curve[-1][1] - taken) > 18 else taken - 16
        taken = curve[-1][1]
        body += text(f"{css}-label", curve[-1][0] + 8, y, label, "start")
        first, last = at[0][1], at[-1][1]
        sentences.append(
            f"{label.capitalize()}: {number(first['value'], 3)} of 1,000 at {rows[0]['threshold']:.2g}, "
            f"{number(last['value'], 3)} at {rows[-1]['threshold']:.2g}."
        )
    return svg(words, " ".join(sentences), frame.height, body)


def _square(frame: Frame, words: Words, ticks: Sequence[float] | None = None) -> Markup:
    """Draw axes and the diagonal."""
    ticks = [tick for tick in ticks or nice_ticks(1) if tick <= frame.x_max + 1e-9]
    diagonal = line("limit", frame.x(0), frame.y(0), frame.x(frame.x_max), frame.y(frame.y_max))
    return frame.axes(ticks, ticks, words) + diagonal


def _boxes(frame: Frame, points: Sequence[tuple[Written, Written]]) -> Markup:
    """Draw points, each with its box."""
    body = Markup()
    for x, y in points:
        left, top = frame.x(x["low"]), frame.y(y["high"])
        body += _BOX.format(css="main", x=left, y=top, w=frame.x(x["high"]) - left, h=frame.y(y["low"]) - top)
    return body + Markup().join(dot("main", frame.x(x["value"]), frame.y(y["value"])) for x, y in points)


def _between(frame: Frame, points: Sequence[tuple[Written, Written]]) -> Markup:
    """Draw the rectangle between each two neighbouring points, both corners included."""
    ends = [(0.0, 0.0), *((x["value"], y["value"]) for x, y in points), (1.0, 1.0)]
    body = Markup()
    for (left, low), (right, high) in pairwise(ends):
        w, h = abs(frame.x(right) - frame.x(left)), abs(frame.y(low) - frame.y(high))
        body += _SPAN.format(x=frame.x(min(left, right)), y=frame.y(max(low, high)), w=w, h=h)
    return body


def _complement(figure: Written) -> dict[str, float]:
    return {"value": 1 - figure["value"], "low": 1 - figure["high"], "high": 1 - figure["low"]}


def _spread(n: int) -> list[int]:
    """Return the places of at most a few labels, the first and the last included."""
    step = max(1, math.ceil((n - 1) / (_LABELS - 1)))
    return sorted({*range(0, n - 1, step)} - {place for place in range(n - 1) if n - 1 - place < step / 2} | {n - 1})


def _sentence(points: Sequence[tuple[Written, Written]], words: Words, area: KnownArea | None = None) -> str:
    parts = [f"{number(y['value'], 2)} {words.y} at {number(x['value'], 2)} {words.x}" for x, y in points]
    known = "" if area is None else f" {area.name[:1].upper()}{area.name[1:]}: {area.numbers}."
    return f"{'; '.join(parts)}.{known}"
