"""A released quality, and a decision, as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dpensemble.report.record import RunRecord
from dpensemble.report.wording import counted, percent

#: A part of a record, as JSON holds it.
Written = Mapping[str, Any]
# With this number of bins or more, an area is never called unknown.
_KNOWN_BINS = 4
_SPREAD = "auroc_if_spread_as_public_rows"


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
    def of(cls, score: Written, curves: Written | None = None) -> KnownArea | None:
        """Read the area of a class, by default of the first, or return None if nothing is known."""
        every = score.get("one_against_rest") or []
        curves = curves if curves is not None else every[0] if len(every) == 1 else None
        if curves is not None:
            area, spread, is_of_student = curves["auroc"], curves.get(_SPREAD), _SPREAD in curves
            n_bins = len(curves["thresholds"]) + 1
        elif score.get("auroc_low") is not None:
            area = {"value": score["auroc"], "low": score["auroc_low"], "high": score["auroc_high"]}
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

    @property
    def in_between(self) -> str:
        """What public rows suggest between both ends. Empty if nothing is known."""
        return "" if self.spread is None else f"{self.spread:.3f} if spread within bins as on public rows"


def quality_lines(record: RunRecord) -> Iterator[str]:
    """Yield what a run released about the quality of its student, and the threshold for the costs of decisions."""
    score, decision = record.data.get("released_score"), record.data.get("decision")
    if score:
        yield _score_line(score, record.unit)
        for curves in score.get("one_against_rest", []):
            if len(score["one_against_rest"]) > 1:
                yield f"{curves['class']} against the rest: {_area(KnownArea.of(score, curves))}."
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
    if score.get("auroc_low") is not None:
        parts.append(_area(KnownArea.of(score)))
    return (
        f"Quality on {counted(score['units'], f'held-back {unit}')}, released with noise under the same guarantee "
        f"(95% intervals in brackets): {', '.join(parts)}."
    )


def _area(area: KnownArea | None) -> str:
    """Write an area: an interval without a value, if only bins are known."""
    if area is None:
        return "AUROC unknown"
    if not area.is_of_student or area.value is not None:
        return f"{area.name} {area.numbers}"
    more = f" ({area.in_between})" if area.in_between else ""
    return f"AUROC of the student between {area.low:.3f} and {area.high:.3f} with 95%{more}"


def between(figure: Written, decimals: int | None) -> str:
    """Write a figure and its band, in per cent if no number of decimals is given. Noise may hide the figure."""

    def write(value: float) -> str:
        return percent(value) if decimals is None else f"{value:,.{decimals}f}"

    if figure["value"] is None:
        return "unknown"
    return f"{write(figure['value'])} ({write(figure['low'])} to {write(figure['high'])})"
