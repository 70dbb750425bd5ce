"""What a page, a card and the terminal show of times until an event: a life table, or risks of rows.

A life table has curves with bands and numbers at risk. A model of risks has risks of public rows beside the curve of
everybody, which the same run releases.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from dpensemble._checks import plural
from dpensemble.relations import Relation
from dpensemble.report.charts import Drawing, Words
from dpensemble.report.record import RecordPart, RunRecord
from dpensemble.report.wording import number, percent, shorten

# Curves of one picture, and times below a picture.
_MOST_DRAWN, _MOST_TICKS = 4, 6
# Ticks keep this share of the axis between them.
_APART = 0.13
_LINE = 20
# Below this p-value a page states a difference.
_SIGNIFICANT, _SMALLEST = 0.05, 0.001
# Columns of the file, from a curve and from the incidence of a kind of event.
_COLUMNS = ("at_risk", "at_risk_noise", "events", "censored", "survival", "low", "high", "sample_low", "sample_high")
_OF_KIND = ("chance", "low", "high")


def life_table_rows(table: RecordPart) -> Sequence[RecordPart]:
    """Return the released numbers, a row for each stratum and time. What is not known is None."""
    rows = []
    for curve in table["curves"]:
        for place, time in enumerate(curve["times"]):
            row = {"stratum": curve["stratum"], "time": time}
            row |= {name: curve[name][place] for name in (*_COLUMNS, "cumulative_hazard")}
            for kind in curve["incidence"]:
                row |= {f"incidence {kind['kind']} {name}": kind[name][place] for name in _OF_KIND}
            rows.append(row)
    names = ("stratum", "time", *_COLUMNS, "cumulative_hazard")
    return rows or [dict.fromkeys(names)]


def life_table_view(record: RunRecord) -> RecordPart | None:
    """Return what the page shows of a life table, or None for a run that made a student."""
    table = record.life_table
    if table is None:
        return None
    curves = table["curves"]
    groups = [curves[start : start + _MOST_DRAWN] for start in range(0, len(curves), _MOST_DRAWN)]
    competing = _competing(table)
    return {
        "what": list(_what(record, table)),
        "heads": [f"{_shown(table).capitalize()} {_when(table, time)}" for time in table["at"]],
        "rows": [(_name(curve), *_summary(table, curve)) for curve in curves],
        "has_strata": len(curves) > 1,
        "test": _test_in_words(table),
        "limits": list(_limits(record, table)),
        "ends": list(_ends(table)),
        "free": _free(table),
        "charts": [_survival_chart(table, group, place) for place, group in enumerate(groups)],
        "incidences": [
            (_name(curve) if len(curves) > 1 else "", _incidence_chart(table, curve, place))
            for place, curve in enumerate(curves)
            if competing and curve["times"]
        ],
        "tables": [(_name(curve), list(_table_rows(table, curve))) for curve in curves],
        "unit": table["time_unit"] or "time",
    }


def life_table_card(record: RunRecord) -> RecordPart | None:
    """Return what a card states of a life table, all of which is released, or None for a run that made a student."""
    table = record.life_table
    if table is None:
        return None
    words = [*_what(record, table), *life_table_lines(record)]
    return {"in_words": words, "not_for": list(_limits(record, table)), **table}


def life_table_lines(record: RunRecord) -> Iterator[str]:
    """Yield the result of a life table as lines of text."""
    table = record.life_table
    if table is None:
        return
    for curve in table["curves"]:
        median, shares = _summary(table, curve)
        known = [f"{_when(table, time)} {share}" for time, share in zip(table["at"], shares, strict=True)]
        half = "any event" if _competing(table) else "the event"
        yield f"{_name(curve)}: {_shown(table)} {', '.join(known)}. Half had {half} by: {median}."
    if (test := _test_in_words(table)) is not None:
        yield test
    yield from _ends(table)
    yield "Intervals are 95% bands for the population, and include the noise."


def _name(curve: RecordPart) -> str:
    return curve["stratum"] or "Everybody"


def _free(table: RecordPart) -> str:
    return f"free of {'any' if _competing(table) else 'the'} event"


def _shown(table: RecordPart) -> str:
    """Return what shares on the first screen are of: of events that compete, those who had the first kind."""
    return f"had “{table['what']}” by" if _competing(table) else "free of the event at"


def _competing(table: RecordPart) -> bool:
    return len(table["curves"][0]["incidence"]) > 1


def _when(table: RecordPart, time: float) -> str:
    return f"{number(time)} {table['time_unit']}".strip()


def _what(record: RunRecord, table: RecordPart) -> Iterator[str]:
    """Yield what the table is of, in sentences."""
    bins, curves, unit = table["bins"], table["curves"], record.unit
    yield f"Time until “{table['what']}”, in {len(bins)} bins up to {_when(table, bins[-1])}."
    units = record.data.get("private_units")
    if units is None or "private_units" in record.unprotected_data:
        yield f"The number of private {plural(unit)} is not published."
    else:
        yield f"The table is of {units:,} private {plural(unit) if units != 1 else unit}."
    if len(curves) > 1:
        yield f"It has {len(curves)} strata, whose values were declared. Their sizes are released with noise."
    if _competing(table):
        yield "Events compete: each kind has its own chance, and a curve shows who is free of all of them."


def _summary(table: RecordPart, curve: RecordPart) -> tuple[str, list[str]]:
    """Return by when half had the event, and shares with or without the event at declared times, in words."""
    median, low, high = curve["median"]
    last = curve["times"][-1] if curve["times"] else None
    if median is None:
        half = "not shown" if last is None else f"not by {_when(table, last)}"
        half += "" if low is None else f" (perhaps by {_when(table, low)})"
    else:
        latest = f"{number(high)}" if high is not None else "later than shown"
        half = f"{_when(table, median)} ({'not known' if low is None else number(low)} to {latest})"
    return half, [_share(curve, time) for time in table["at"]]


def _share(curve: RecordPart, time: float) -> str:
    if time not in curve["times"]:
        return "not shown"
    place = curve["times"].index(time)
    if len(curve["incidence"]) > 1:
        return _with_band(*(curve["incidence"][0][name][place] for name in _OF_KIND))
    return _with_band(curve["survival"][place], curve["low"][place], curve["high"][place])


def _with_band(share: float, low: float | None, high: float | None) -> str:
    band = "no band" if low is None or high is None else f"{100 * low:.0f} to {100 * high:.0f}%"
    return f"{percent(share)} ({band})"


def _test_in_words(table: RecordPart) -> str | None:
    test = table["log_rank"]
    if test is None:
        return None if len(table["curves"]) < 2 else "No log-rank test: too few people are at risk, beside the noise."
    chance = f"p < {_SMALLEST}" if test["p_value"] < _SMALLEST else f"p = {test['p_value']:.3f}"
    shows = (
        "the strata differ by more than chance and noise explain"
        if test["p_value"] < _SIGNIFICANT
        else "no difference of strata is shown, which does not prove that there is none"
    )
    of = f" of “{table['what']}”, with other events as censorings" if _competing(table) else ""
    return f"Log-rank test{of}, with the noise in its variance: {chance}; {shows}."


def _limits(record: RunRecord, table: RecordPart) -> Iterator[str]:
    """Yield what must not be concluded."""
    people = plural(record.unit)
    yield "The prognosis of one person. The curves are of groups, and every number has noise."
    if len(table["curves"]) > 1:
        yield "Causes. Strata can differ in age or illness, which the test does not adjust for."
    if record.guarantee["relation"] == Relation.REPLACE_ONE.value and len(table["curves"]) > 1:
        yield f"Sizes of strata. Only the number of all {people} is exact."
    yield "Times between the ends of bins, and times after a curve ends."
    yield f"Anything, if {people} who were censored differ from those who stayed. No table shows that."


def _ends(table: RecordPart) -> Iterator[str]:
    """Yield for each curve that ends before the horizon where it ends."""
    for curve in table["curves"]:
        if len(curve["times"]) == len(table["bins"]):
            continue
        where = f"ends at {_when(table, curve['times'][-1])}" if curve["times"] else "is not shown at all"
        yield f"{_name(curve)}: the curve {where}, where too few are at risk beside the noise."


def _table_rows(table: RecordPart, curve: RecordPart) -> Iterator[tuple[str, ...]]:
    for place, time in enumerate(curve["times"]):
        risk, noise = curve["at_risk"][place], curve["at_risk_noise"][place]
        share = _with_band(curve["survival"][place], curve["low"][place], curve["high"][place])
        events, censored = f"{curve['events'][place]:,.0f}", f"{curve['censored'][place]:,.0f}"
        yield _when(table, time), f"{risk:,.0f} ± {noise:.0f}", events, censored, share


def _ticks(table: RecordPart) -> list[float]:
    """Return 0 and ends of bins that lie far enough apart to have numbers below them, with the horizon."""
    ends, ticks = table["bins"], [0.0]
    for end in ends[:-1]:
        if end - ticks[-1] >= _APART * ends[-1] and ends[-1] - end >= _APART * ends[-1]:
            ticks.append(end)
    return [*ticks[:_MOST_TICKS], ends[-1]]


def _colours(n_curves: int) -> list[str]:
    return ["main"] if n_curves == 1 else [f"group-{place}" for place in range(1, n_curves + 1)]


def _axes(drawing: Drawing, table: RecordPart) -> None:
    floor, end = drawing.y(0), drawing.x(drawing.x_max)
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        drawing.line("grid", drawing.left, drawing.y(share), end, drawing.y(share))
        drawing.text("tick", drawing.left - 8, drawing.y(share) + 4.5, f"{100 * share:.0f}%", "end")
    for tick in _ticks(table):
        drawing.text("tick", drawing.x(tick), floor + 19, number(tick), "middle")
    drawing.line("axis", drawing.left, floor, end, floor)
    drawing.text("name", (drawing.left + end) / 2, floor + 38, table["time_unit"] or "time", "middle")
    drawing.text("name", 4, 16, drawing.words.y, "start")


def _line_with_band(
    drawing: Drawing,
    css: str,
    times: Sequence[float],
    line: Sequence[float],
    band: Sequence[Sequence[float]],
    start: float,
) -> None:
    """Draw a line from its value at time 0, with its band as far as there is one."""
    low, high = band
    banded = [place for place in range(len(times)) if low[place] is not None]
    if banded:
        over = [(0.0, start)] + [(times[place], high[place]) for place in banded]
        under = [(times[place], low[place]) for place in reversed(banded)]
        drawing.area(css, [(drawing.x(x), drawing.y(y)) for x, y in over + under])
    points = [(0.0, start), *zip(times, line, strict=True)]
    drawing.path(css, [(drawing.x(x), drawing.y(y)) for x, y in points])


def _survival_chart(table: RecordPart, curves: Sequence[RecordPart], place: int) -> Markup:
    """Draw curves with bands, and the released numbers at risk below them."""
    below = 32 + (2 * _LINE + 4) * len(curves)
    words = Words(f"survival-{place}", "Curves with 95% bands", table["time_unit"] or "time", _free(table))
    last = table["bins"][-1]
    drawing = Drawing(words, last, 1, height=290 + below, left=58, right=26, bottom=48 + below)
    _axes(drawing, table)
    sentences, y = [], drawing.y(0) + 64
    drawing.text("tick", 4, y, "Released number at risk", "start")
    for css, curve in zip(_colours(len(curves)), curves, strict=True):
        times = curve["times"]
        if times:
            _line_with_band(drawing, css, times, curve["survival"], (curve["low"], curve["high"]), 1.0)
        y += _LINE + 4
        drawing.text(f"{css}-label", 4, y, shorten(_name(curve), 52), "start")
        y += _LINE
        for tick in _ticks(table):
            drawing.text("tick", drawing.x(tick), y, _at_risk(table, curve, tick), "middle")
        shown = f"{percent(curve['survival'][-1])} at {_when(table, times[-1])}" if times else "not shown"
        sentences.append(f"{_name(curve)}: {shown}.")
    return drawing.svg(" ".join(sentences))


def _at_risk(table: RecordPart, curve: RecordPart, time: float) -> str:
    """Return the released number at risk from a time on, or a dash where none is shown."""
    starts = [0.0, *table["bins"]]
    place = starts.index(time)
    return f"{curve['at_risk'][place]:,.0f}" if place < len(curve["at_risk"]) else "–"


def _incidence_chart(table: RecordPart, curve: RecordPart, place: int) -> Markup:
    """Draw the chance of each kind of event, with bands."""
    kinds = curve["incidence"]
    words = Words(f"incidence-{place}", "Chance of each kind of event", table["time_unit"] or "time", "had the event")
    below = 20 + _LINE * len(kinds)
    drawing = Drawing(words, table["bins"][-1], 1, height=290 + below, left=58, right=26, bottom=48 + below)
    _axes(drawing, table)
    sentences, y = [], drawing.y(0) + 46
    for css, kind in zip(_colours(len(kinds)), kinds, strict=True):
        _line_with_band(drawing, css, curve["times"], kind["chance"], (kind["low"], kind["high"]), 0.0)
        y += _LINE
        last = f"code {kind['kind']}: {percent(kind['chance'][-1])} by {_when(table, curve['times'][-1])}"
        drawing.text(f"{css}-label", 58, y, shorten(last, 52), "start")
        sentences.append(f"{last}.")
    return drawing.svg(" ".join(sentences))


#: Entry of a record's data about risks of rows. The page shows it in a section of its own.
RISK = "risk"
# Rows of the table of risks, beside those of the first screen.
_MOST_ROWS = 12
# Names of risks of public rows, and how the page calls them.
_ROWS = {"low": "end of the lowest tenth", "median": "middle row", "high": "start of the highest tenth"}


def risk_lines(record: RunRecord) -> Iterator[str]:
    """Yield what the terminal shows of a student of risks, or nothing for another run."""
    table = record.data.get(RISK)
    if table is None:
        return
    for time in table["at"]:
        yield f"By {_when(table, time)}: {_of_all(table, time)}; {_rows_by(table, time)}."
    yield from _ends(table)
    yield from _measured(record) or [_NOT_MEASURED]
    yield "Intervals are 95% bands for the population, and include the noise."


_NOT_MEASURED = "Nobody measured how well these risks order people."


def _measured(record: RunRecord) -> list[str]:
    """Return how good the risks are on held-back units, in sentences, or nothing if nobody measured that."""
    table = record.data[RISK]
    score = table.get("score")
    if score is None:
        return []
    own, order = score["integrated"], score["concordance"]
    sentences = [
        f"Of two of {score['units']:,} held-back {plural(record.unit)}, the one with the earlier event has the higher "
        f"risk in {_band_of(order)} of pairs, and by a coin in 50%."
    ]
    if own is None:
        return [*sentences, "Censoring hides the Brier score."]
    return [
        *sentences,
        f"The Brier score up to {_when(table, score['until'])} is {_band_of(own['model'], 3)}, and for everybody alike "
        f"{_band_of(own['alike'], 3)}. The gain is {_band_of(own['better'], 3)}.",
    ]


def _band_of(figure: RecordPart, decimals: int | None = None) -> str:
    """Write a figure and its band, in per cent without decimals."""

    def write(value: float) -> str:
        return percent(value) if decimals is None else f"{value:.{decimals}f}"

    return f"{write(figure['value'])} ({write(figure['low'])} to {write(figure['high'])})"


def _of_all(table: RecordPart, time: float) -> str:
    share = _everybody(table, time)
    return "noise hides how many of all had the event" if share is None else f"{share} of all had the event"


def _everybody(table: RecordPart, time: float) -> str | None:
    """Write the share of everybody with the event by a time, with its band, or None if noise hides the share."""
    curve = table["curves"][0]
    if time not in curve["times"]:
        return None
    place = curve["times"].index(time)
    if _competing(table):
        return _with_band(*(curve["incidence"][0][name][place] for name in _OF_KIND))
    low, high = curve["low"][place], curve["high"][place]
    turned = (None, None) if low is None or high is None else (1 - high, 1 - low)
    return _with_band(1 - curve["survival"][place], *turned)


def _rows_by(table: RecordPart, time: float) -> str:
    low, high = (percent(table["public"][name][table["bins"].index(time)]) for name in ("low", "high"))
    return f"a tenth of public rows has a risk below {low}, and a tenth above {high}"


def summary_of_risk(record: RunRecord) -> dict[str, object]:
    """Return what the first screen shows in place of how often labels are right. All of it may be published."""
    table = record.data[RISK]
    time = table["at"][-1]
    rows, held = _rows_by(table, time), f" and held-back {plural(record.unit)}" if "score" in table else ""
    return {
        "chart": _risk_chart(table),
        "verdict": f"By {_when(table, time)}, {rows}; {_of_all(table, time)}.",
        "order": " ".join(_measured(record)) or _NOT_MEASURED,
        "source": f"Computed from the published model, from public rows and from the released life table{held}. The "
        "promise covers these figures.",
        "has_intervals": False,
    }


def risk_not_for(record: RunRecord) -> list[str]:
    """Return what a student of risks must not be used for."""
    table, people = record.data[RISK], plural(record.unit)
    order = "" if "score" in table else ", and nobody measured how well risks order people"
    return [
        f"Decisions about a person without somebody who checks them. A risk has no band here{order}.",
        "Statements about causes. The model shows only what goes together.",
        f"Times after {_when(table, table['bins'][-1])}, and {people}, places or times unlike the private ones.",
        "Single risks if two groups change places over time: hazards of two rows keep one ratio here.",
        f"Anything, if {people} who were censored differ from equal ones who stayed. No model shows that.",
    ]


def card_quality_of_risk(record: RunRecord) -> RecordPart:
    """Return the part of a model card about risks, all of which is released or follows from public rows."""
    table = record.data[RISK]
    known = {"known_from": "a released life table, and public rows; nobody measured how well risks order people"}
    measured: dict[str, RecordPart] = {}
    if score := table.get("score"):
        known = {"known_from": f"{score['units']:,} held-back private {plural(record.unit)}, with noise"}
        measured = {"concordance": score["concordance"]}
        if own := score["integrated"]:
            measured |= {"integrated_brier": own["model"], "integrated_brier_of_everybody_alike": own["alike"]}
    bands = {"intervals": {name: [one["low"], one["high"]] for name, one in measured.items()}} if measured else {}
    return known | bands | {"measures": {name: one["value"] for name, one in measured.items()}, "risk": dict(table)}


def risk_section(record: RunRecord) -> RecordPart | None:
    """Return what the page shows about a student of risks, or None for another run."""
    table = record.data.get(RISK)
    if table is None:
        return None
    step, curve = -(-len(table["bins"]) // _MOST_ROWS), table["curves"][0]
    heads = ["By", "everybody", "mean of public rows", *_ROWS.values()]
    return {
        "chart": _survival_chart(table, [curve], 0),
        "competes": _competing(table),
        "incidence": _incidence_chart(table, curve, 0) if _competing(table) and curve["times"] else None,
        "heads": heads,
        "rows": [
            (
                _when(table, time),
                [
                    _everybody(table, time) or "hidden by noise",
                    *(percent(table["public"][name][place]) for name in ("mean", *_ROWS)),
                ],
            )
            for place, time in enumerate(table["bins"])
            if not place % step or time in (*table["at"], table["bins"][-1])
        ],
        "ends": list(_ends(table)),
        "what": table["what"],
        "score": _score_view(record),
    }


def _score_view(record: RunRecord) -> RecordPart | None:
    """Return what the page shows of the score on held-back units, or None without one."""
    table = record.data[RISK]
    score = table.get("score")
    if score is None:
        return None
    last = score["times"][-1]["time"]
    return {
        "sentences": _measured(record),
        "noise": number(score["sigma"], 3),
        "limit": number(score["weight_limit"]),
        "chart": _calibration_chart(table, score["times"][-1]),
        "caption": f"Risk by {_when(table, last)}, by groups",
        "rows": [
            (
                _when(table, one["time"]),
                [
                    percent(one["predicted"]),
                    _band_of(one["observed"]),
                    *(
                        ["hidden by censoring"] * 2
                        if one["brier"] is None
                        else [_band_of(one["brier"][name], 3) for name in ("model", "alike")]
                    ),
                ],
            )
            for one in score["times"]
        ],
    }


def _calibration_chart(table: RecordPart, at: RecordPart) -> Markup:
    """Draw the observed share of each group over the mean risk of the group, with bands."""
    words = Words("calibration-of-risks", f"Risks by {_when(table, at['time'])}", "mean risk of a group", "observed")
    drawing = Drawing(words, 1, 1, height=320, left=58, right=26, bottom=52)
    ticks = (0.0, 0.25, 0.5, 0.75, 1.0)
    drawing.axes(ticks, ticks)
    drawing.line("limit", drawing.x(0), drawing.y(0), drawing.x(1), drawing.y(1))
    sentences = []
    for one in at["groups"]:
        x, seen = drawing.x(one["predicted"]), one["observed"]
        drawing.line("line main", x, drawing.y(seen["low"]), x, drawing.y(seen["high"]))
        drawing.dot("main", x, drawing.y(seen["value"]))
        sentences.append(f"mean risk {percent(one['predicted'])}, observed {_band_of(seen)}")
    return drawing.svg(f"{'; '.join(sentences)}.")


def _risk_chart(table: RecordPart) -> Markup:
    """Draw how the risk of three public rows grows along time."""
    below = 20 + _LINE * len(_ROWS)
    words = Words("risks", "Risks of three public rows", table["time_unit"] or "time", "risk of the event")
    drawing = Drawing(words, table["bins"][-1], 1, height=290 + below, left=58, right=26, bottom=48 + below)
    _axes(drawing, table)
    sentences, y = [], drawing.y(0) + 46
    for css, (name, label) in zip(_colours(len(_ROWS)), _ROWS.items(), strict=True):
        values = table["public"][name]
        drawing.path(
            css, [(drawing.x(x), drawing.y(v)) for x, v in zip((0.0, *table["bins"]), (0.0, *values), strict=True)]
        )
        y += _LINE
        last = f"{label}: {percent(values[-1])} by {_when(table, table['bins'][-1])}"
        drawing.text(f"{css}-label", 58, y, shorten(last, 52), "start")
        sentences.append(f"{last}.")
    return drawing.svg(" ".join(sentences))
