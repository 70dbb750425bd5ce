"""A released quality, and a decision, as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dpensemble.report.record import RunRecord
from dpensemble.report.wording import counted, percent

#: A part of a record, as JSON holds it.
Written = Mapping[str, Any]


def quality_lines(record: RunRecord) -> Iterator[str]:
    """Yield what a run released about the quality of its student, and the threshold for the costs of decisions."""
    score, decision = record.data.get("released_score"), record.data.get("decision")
    if score:
        yield _score_line(score, record.unit)
        for curves in score.get("one_against_rest", []):
            if len(score["one_against_rest"]) > 1:
                yield f"{curves['class']} against the rest: AUROC {between(curves['auroc'], 3)}."
        for column, groups in score.get("groups", {}).items():
            parts = [f"{one['group']} {between(one['accuracy'], None)}" for one in groups]
            yield f"Right by {column} (these intervals hold together): {', '.join(parts)}."
    if decision:
        yield f"Threshold for {decision['positive_class']}: {decision['threshold']:.4g}. {decision['why']}"
        for row in decision["per_1000"]:
            parts = [
                f"{between(row[name], 0)} {words}"
                for name, words in (("alarms", "alarms"), ("missed", "missed cases"), ("false_alarms", "false alarms"))
            ]
            yield f"Per 1,000 people at {row['threshold']:.4g} ({row['name']}): {', '.join(parts)}."


def _score_line(score: Written, unit: str) -> str:
    accuracy = {"value": score["accuracy"], "low": score["accuracy_low"], "high": score["accuracy_high"]}
    parts = [f"right {between(accuracy, None)}"]
    if score.get("most_common"):
        parts.append(f"always the most common class {between(score['most_common'], None)}")
    if score["auroc"] is not None:
        area = {"value": score["auroc"], "low": score["auroc_low"], "high": score["auroc_high"]}
        parts.append(f"AUROC {between(area, 3)}")
    return (
        f"Quality on {counted(score['units'], f'held-back {unit}')}, released with noise under the same guarantee "
        f"(95% intervals in brackets): {', '.join(parts)}."
    )


def between(figure: Written, decimals: int | None) -> str:
    """Write a figure and its band, in per cent if no number of decimals is given. Noise may hide the figure."""

    def write(value: float) -> str:
        return percent(value) if decimals is None else f"{value:,.{decimals}f}"

    if figure["value"] is None:
        return "unknown"
    return f"{write(figure['value'])} ({write(figure['low'])} to {write(figure['high'])})"
