"""What a page, a card and a terminal show of a student of a number: errors, intervals, and where numbers are.

All figures but those of test rows follow from released counts and from public rows. Exact figures of test rows are
shown if these rows are public, or to the owner.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from markupsafe import Markup

from dpensemble._checks import plural
from dpensemble.report.charts import Drawing, Words, nice_ticks
from dpensemble.report.record import RecordPart, RunRecord
from dpensemble.report.wording import percent

#: Entries of a record's data about a number. The page shows them in a section of their own.
NUMBER, OF_TEST_ROWS, OF_PUBLIC_ROWS = "number", "test_number", "public_number"
_SHOWN_OPEN = 0.01
# Title of the released table of numbers beyond the range.
_DEVIATIONS, _REMARKABLE = 3.0, 0.03
_BEYOND = "Share of numbers beyond the declared range"


def amount(value: float) -> str:
    """Write a number with three significant digits.

    Examples
    --------
    >>> amount(95258.9), amount(0.012345), amount(-3.0)
    ('95,300', '0.0123', '−3')
    """
    if not value or not math.isfinite(value):
        return f"{value:g}"
    digits = max(2 - math.floor(math.log10(abs(value))), -300)
    text = f"{round(value, digits):,.{max(digits, 0)}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.replace("-", "−")


def known_scores(record: RunRecord, *, is_private: bool) -> list[tuple[str, RecordPart]]:
    """Return exact figures that may be shown, and the rows that they are of."""
    shown: list[tuple[str, RecordPart]] = []
    if (test := record.data.get(OF_TEST_ROWS)) and (record.scores_are_public or is_private):
        shown.append(("test rows", test))
    if public := record.data.get(OF_PUBLIC_ROWS):
        shown.append(("public rows", public))
    return shown


def number_lines(record: RunRecord) -> Iterator[str]:
    """Yield what the terminal shows of a student of a number, for its owner, or nothing for classes."""
    facts = record.data.get(NUMBER)
    if facts is None:
        return
    for rows, score in known_scores(record, is_private=True):
        yield f"On {score['rows']:,} {rows}, without noise: {_of_score(score)}."
    if record.data.get(OF_TEST_ROWS) and not record.scores_are_public:
        yield "Figures of test rows are for you only, unless the test rows are public (--test-is-public)."
    yield (
        f"By released counts of training {plural(record.unit)}: {_errors(facts)}; R2 {_r2(facts)}. Noise hides long "
        "tails."
    )
    yield (
        f"Intervals of {_coverage(facts)} are {amount(facts['width'])} long for a typical public row, and "
        f"the middle 90% of all numbers {amount(facts['width_of_all'])}{_open(facts)}."
    )
    if (proven := facts.get("proven")) is not None:
        yield _proven(proven)
    if beyond := _far_beyond(record):
        yield beyond


def _of_score(score: RecordPart) -> str:
    r2 = "" if score["r2"] is None else f"R2 {score['r2']:.3f}, "
    return f"{r2}{_errors(score)}, and {percent(score['inside'])} of the numbers are inside intervals of 90%"


def _errors(facts: RecordPart) -> str:
    return (
        f"mean absolute error {amount(facts['error'])}, beside {amount(facts['error_of_median'])} for always giving "
        "the median"
    )


def _r2(facts: RecordPart) -> str:
    """Write R2 with its band."""
    r2 = facts.get("r2")
    if r2 is None:
        return "is hidden by noise"
    return f"{r2['value']:.2f} (95% band {r2['low']:.2f} to {r2['high']:.2f})"


def _coverage(facts: RecordPart) -> str:
    return f"{100 * facts['coverage']:g}%"


def _open(facts: RecordPart) -> str:
    """State for how many public rows an end of the interval is open."""
    ends = [(facts["open_below"], "lower"), (facts["open_above"], "upper")]
    parts = [f"{percent(share)} have an open {name} end" for share, name in ends if share >= _SHOWN_OPEN]
    return f"; {' and '.join(parts)}" if parts else ""


def _proven(proven: RecordPart) -> str:
    what = f"Intervals with a proven coverage of {_coverage(proven)}"
    if proven["width"] is None:
        return f"{what} could not be found: noise left nothing to prove. Take a larger epsilon or more records."
    return f"{what} are {amount(proven['width'])} long for a typical public row{_open(proven)}."


def summary_of_number(record: RunRecord) -> dict[str, object]:
    """Return what the first screen shows in place of how often labels are right. All of it may be published."""
    facts = record.data[NUMBER]
    better = facts["error"] < facts["error_of_median"]
    verdict = (
        f"It is off by about {amount(facts['error'])} on average. Always giving the median is off by about "
        f"{amount(facts['error_of_median'])}."
    )
    if not better:
        verdict += " So it is not better than always giving the median."
    if beyond := _far_beyond(record):
        verdict += f" {beyond}"
    coverage, width = _coverage(facts), amount(facts["width"])
    interval = f"Half of its intervals of {coverage} are shorter than {width}{_open(facts)}."
    return {
        "chart": _error_chart(facts),
        "verdict": verdict,
        "order": interval,
        "source": f"Computed from released noisy counts of the training {plural(record.unit)} and from public rows. "
        "The promise covers these figures. New records are a little worse.",
        "has_intervals": False,
    }


def number_not_for(record: RunRecord) -> list[str]:
    """Return what a student of a number must not be used for."""
    facts = record.data[NUMBER]
    return [
        f"Decisions about a person without somebody who checks them. It is off by about {amount(facts['error'])} on "
        "average, and one number in ten is outside its interval.",
        "The promise that an interval holds for each kind of record. It holds on average over records with alike "
        "predictions.",
        "Statements about causes. The model shows only what goes together.",
        f"People, places or times unlike those of the private {plural(record.unit)}, and numbers outside "
        f"{amount(facts['low'])} to {amount(facts['high'])}.",
        "A claim that groups of people are treated alike. Nobody measured that.",
    ]


def card_quality_of_number(record: RunRecord) -> dict[str, object]:
    """Return the part of a model card about how good a student of a number is, with what may be published only."""
    facts, r2 = record.data[NUMBER], record.data[NUMBER].get("r2")
    quality: dict[str, object] = {
        "known_from": f"noisy counts of the training {plural(record.unit)}, and public rows",
        "measures": {"mae": facts["error"]} | ({} if r2 is None else {"r2": r2["value"]}),
        "intervals": {} if r2 is None else {"r2": [r2["low"], r2["high"]]},
        "mae_of_always_the_median": facts["error_of_median"],
        "coverage": facts["coverage"],
        "typical_length_of_intervals": facts["width"],
        "length_of_the_middle_of_all_numbers": facts["width_of_all"],
        "open_ends": {"below": facts["open_below"], "above": facts["open_above"]},
        "proven": facts.get("proven"),
    }
    for rows, score in known_scores(record, is_private=False):
        quality[f"on_{rows.replace(' ', '_')}"] = dict(score)
    return quality


def number_section(record: RunRecord, *, is_private: bool) -> dict[str, object] | None:
    """Return what the page shows about a student of a number, or None for classes."""
    facts = record.data.get(NUMBER)
    if facts is None:
        return None
    scores = known_scores(record, is_private=is_private)
    return {
        "heads": ["Released counts", *(f"{score['rows']:,} {rows}" for rows, score in scores)],
        "rows": [*_rows(facts, [score for _, score in scores]), *_beyond(record, len(scores))],
        "chart": _groups_chart(facts["groups"]),
        "n_groups": len(facts["groups"]),
        "proven": None if facts.get("proven") is None else _proven(facts["proven"]),
        "is_exact": bool(scores),
        "has_r2": facts.get("r2") is not None,
    }


def _rows(facts: RecordPart, scores: Sequence[RecordPart]) -> list[tuple[str, list[str]]]:
    def exact(name: str, write: Callable[[float], str]) -> list[str]:
        return ["not known" if score.get(name) is None else write(score[name]) for score in scores]

    r2 = "hidden by noise" if facts.get("r2") is None else _r2(facts)
    opened = [percent(facts["open_below"]), percent(facts["open_above"])]
    none = ["" for _ in scores]
    rows = [
        ("Mean absolute error of the median", [amount(facts["error"]), *exact("error", amount)]),
        ("The same of always giving one median", [amount(facts["error_of_median"]), *exact("error_of_median", amount)]),
        ("R2 of the mean", [r2, *exact("r2", lambda value: f"{value:.3f}")]),
        ("Numbers inside intervals of 90%", ["", *exact("inside", percent)]),
        ("Length of an interval of 90%, for a typical public row", [amount(facts["width"]), *none]),
        ("Length of the middle 90% of all numbers", [amount(facts["width_of_all"]), *none]),
        ("Public rows whose lower, and upper, end is open", [" and ".join(opened), *none]),
    ]
    return [(figure, values) for figure, values in rows if any(values)]


def _beyond(record: RunRecord, n_scores: int) -> list[tuple[str, list[str]]]:
    """Return the released shares of numbers beyond the range, with the deviation of their noise."""
    tables = [table["rows"] for table in record.released_tables if table["title"] == _BEYOND]
    return [
        (f"Numbers {label} of the range", [f"{percent(max(share, 0.0))} ± {percent(noise)}", *[""] * n_scores])
        for rows in tables
        for label, share, noise in rows
    ]


def _far_beyond(record: RunRecord) -> str:
    """Return a warning if released shares show that many numbers are beyond the range, or nothing."""
    shares = [row for table in record.released_tables if table["title"] == _BEYOND for row in table["rows"]]
    least = sum(max(share - _DEVIATIONS * noise, 0.0) for _, share, noise in shares)
    if least < _REMARKABLE:
        return ""
    share = sum(max(share, 0.0) for _, share, _ in shares)
    return (
        f"About {percent(min(share, 1.0))} of the numbers are beyond the declared range and count as its end, so true "
        "errors are larger."
    )


def _error_chart(facts: RecordPart) -> Markup:
    """Draw both errors as bars."""
    drawing = Drawing(Words("errors", "Mean absolute error"), height=96, left=6, right=22)
    most = max(facts["error"], facts["error_of_median"], 1e-300)
    sentences = []
    bars = (("this model", "main", "error"), ("always the median", "other", "error_of_median"))
    for place, (label, css, name) in enumerate(bars):
        y, shown = 4 + 46 * place, amount(facts[name])
        drawing.text("name", drawing.left + 4, y + 14, label, "start")
        drawing.rect(css, drawing.left, y + 20, drawing.x(facts[name] / most) - drawing.left, 18)
        drawing.label(f"{css}-label", drawing.x(1), y + 14, shown, "end")
        sentences.append(f"{label}: {shown}.")
    drawing.line("axis", drawing.left, 4, drawing.left, 94)
    return drawing.svg(" ".join(sentences))


def _groups_chart(groups: Sequence[RecordPart]) -> Markup:
    """Draw where the true numbers of each group of predictions are: the middle 90 %, the middle half, the median."""
    values = [value for group in groups for value in (*group["numbers"], *group["predicted"])]
    low, high = min(values), max(values)
    room = (high - low) or 1.0
    floor = 8 + 66 * len(groups)
    drawing = Drawing(Words("numbers", "True numbers by groups of predictions"), height=floor + 26, left=10, right=24)

    def at(value: float) -> float:
        return drawing.x((value - low) / room)

    step = nice_ticks(room, 4)[1]
    for place in range(math.ceil(low / step), math.floor(high / step) + 1):
        drawing.line("grid", at(step * place), 4, at(step * place), floor)
        drawing.text("tick", at(step * place), floor + 19, amount(step * place), "middle")
    sentences = []
    for place, group in enumerate(groups):
        y, (p10, p50, p90), (q05, q25, q50, q75, q95) = 8 + 66 * place, group["predicted"], group["numbers"]
        head = f"predicted {amount(p10)} to {amount(p90)}"
        drawing.label("name", drawing.left, y + 12, f"{head} ({100 * group['share']:.0f}% of records)", "start")
        drawing.rect("other", at(p10), y + 19, max(at(p90) - at(p10), 2.0), 7)
        drawing.rect("main", at(q25), y + 32, max(at(q75) - at(q25), 2.0), 16)
        drawing.line("whisker", at(q05), y + 40, at(q95), y + 40)
        for end in (q05, q95):
            drawing.line("whisker", at(end), y + 34, at(end), y + 46)
        drawing.line("whisker", at(q50), y + 29, at(q50), y + 51)
        sentences.append(
            f"{head.capitalize()}, half of them below {amount(p50)}: the middle 90% of the true numbers are "
            f"{amount(q05)} to {amount(q95)}, with the median {amount(q50)}."
        )
    return drawing.svg(" ".join(sentences))
