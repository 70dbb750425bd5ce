"""What the page shows about the quality of a student, beyond one accuracy."""

from __future__ import annotations

from markupsafe import Markup

from dpensemble.report.quality_lines import KnownArea, Written, between
from dpensemble.report.quality_pictures import (
    calibration_picture,
    precision_recall_picture,
    roc_picture,
    threshold_picture,
)
from dpensemble.report.record import RunRecord
from dpensemble.report.wording import number, shorten

_MOST_CLASSES = 10
_LONGEST = 30
_LOSS = "Logarithmic loss of one probability for each bin (not of the student)"
_NO_BREAK = "\N{NO-BREAK SPACE}"


def quality_view(record: RunRecord, *, is_private: bool) -> dict[str, object] | None:
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


def _headline(score: Written, *, two_classes: bool) -> list[tuple[str, str]]:
    accuracy = {"value": score["accuracy"], "low": score["accuracy_low"], "high": score["accuracy_high"]}
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


def _pictures(curves: list[Written], decision: Written | None) -> list[tuple[str, Markup]]:
    """Return a heading and a drawing for each picture that noise does not hide."""
    (one,) = curves
    chosen = None if decision is None else decision["threshold"]
    drawings = {
        "ROC curve": roc_picture(one, "roc"),
        "Precision and recall": precision_recall_picture(one, "precision-recall"),
        "Calibration": calibration_picture(one, "calibration"),
        "Alarms and missed cases": threshold_picture(one, "thresholds", chosen),
    }
    return [(head, drawing) for head, drawing in drawings.items() if drawing is not None]


def _roc_pictures(curves: list[Written]) -> list[tuple[str, Markup]]:
    drawings = {
        f"{shorten(one['class'], _LONGEST)} against the rest": roc_picture(one, f"roc-{place}")
        for place, one in enumerate(curves[:_MOST_CLASSES], start=1)
    }
    return [(head, drawing) for head, drawing in drawings.items() if drawing is not None]


def _classes(score: Written) -> list[tuple[str, list[str]]]:
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


def _groups(groups: list[Written], decision: Written | None) -> tuple[list[str], list[tuple[str, list[str]]]]:
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


def _decision(decision: Written) -> dict[str, object]:
    costs = decision["costs"]
    return {
        "positive": shorten(decision["positive_class"], _LONGEST),
        "threshold": f"{decision['threshold']:.4g}",
        "why": decision["why"],
        "missed": number(costs["false_negative"]),
        "alarm": number(costs["false_positive"]),
        "rows": [
            (
                f"{row['threshold']:.4g} ({row['name']})",
                [_cell(row[name], 0) for name in ("alarms", "missed", "false_alarms", "cost")],
            )
            for row in decision["per_1000"]
        ],
    }


def _area_cell(area: KnownArea | None) -> str:
    if area is None:
        return "unknown"
    value, bracket, band = area.numbers.partition(" (") if area.value is not None else ("", "", area.numbers)
    named = "" if area.is_of_student else " over bins"
    return f"{value}{bracket}{band.replace(' ', _NO_BREAK)}{named}"


def _cell(figure: Written, decimals: int | None) -> str:
    """Write a figure and its band for a table, where a line may end before the band, but not within the band."""
    value, bracket, band = between(figure, decimals).partition(" (")
    return f"{value}{bracket}{band.replace(' ', _NO_BREAK)}"
