"""What a page shows when groups of records have their own budgets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from dpensemble._checks import round_up
from dpensemble.relations import Basis
from dpensemble.report import wording
from dpensemble.report.charts import GROUP_COLOURS, Limit, Mark, Series, Words, line_chart
from dpensemble.report.record import PrivateRecord, RunRecord

#: Largest number of groups that a reader can distinguish in a chart.
_MOST_DRAWN = len(GROUP_COLOURS[0])
_WITHHELD = "withheld"
#: Names of budgets that all records might share.
SHARED_BUDGETS = {"minimum": "smallest", "average": "average", "maximum": "largest"}
_MARKS = {"minimum": "min", "average": "avg", "maximum": "max"}
_TALL = 360
# Number of characters that always fit beside the chart.
_LABEL = 13


def personal_view(record: RunRecord, private: PrivateRecord | None) -> dict[str, Any] | None:
    """Return what the page shows about groups, or None if every record has the same budget."""
    if not record.groups:
        return None
    drawn = _drawn_groups(record.groups)
    heads, rows = _table(record, private)
    return {
        "figures": [_figure(record.groups[index]) for index in drawn],
        "left_out": len(record.groups) - len(drawn),
        "heads": heads,
        "rows": rows,
        "plain": _plain(record, is_private=private is not None),
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


def history_chart(history: History, axis: str) -> Markup:
    """Draw each group's spend, its budget and one budget's labels (Mühl and Boenisch 2022, figure 2)."""
    curves = [Series("one for all", history.plain, "other")]
    limits = []
    for colour, index in enumerate(_drawn_groups(history.groups), start=1):
        (name, budget), css = history.groups[index], f"group-{colour}"
        # Under a gate, spending is recorded after chunks of queries, so nothing is spent before the first chunk.
        points = [(0, 0.0)] if history.spend and history.spend[0][0] > 1 else []
        points += [(count, spent[index]) for count, spent in history.spend]
        shown = wording.number(budget, 3)
        # A group that is named by its epsilon is labelled by it.
        unnamed = name.replace(".", "", 1).isdigit()
        curves.append(Series(f"ε {shown}" if unnamed else wording.shorten(name, _LABEL), points, css))
        named = "budget" if unnamed else wording.shorten(name, _LABEL - len(shown) - 2) + ":"
        limits.append(Limit(f"{named} {shown}", budget, css))
    if history.own:
        curves.append(Series("largest spent", history.own, "main"))
    marks = [Mark(_MARKS.get(name, name), labels, at, "other") for name, at, labels in history.marks if labels > 0]
    words = Words("spend", f"Privacy spent by each group, by number of {axis}", axis, "epsilon")
    return line_chart(curves, limits, words, marks, height=_TALL)


def _figure(group: dict[str, Any]) -> dict[str, str]:
    epsilon = group["epsilon"]
    factor = (
        f"a factor of {wording.number(round_up(math.exp(epsilon), 3), 3)}" if epsilon < 700 else "an unlimited factor"
    )
    return {"name": group["name"], "epsilon": _epsilon(epsilon), "factor": factor}


def _epsilon(value: float) -> str:
    """Write an epsilon, rounded up so that no guarantee looks stronger than it is."""
    return wording.number(round_up(value, 4), 4) if value else "0"


def _table(record: RunRecord, private: PrivateRecord | None) -> tuple[list[str], list[tuple[str, str, list[str]]]]:
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
            f"{100 * group[varied]:.3g}% of queries" if varied == "frequency" else wording.number(group[varied], 4),
        ]
        rows.append((colours.get(index, ""), group["name"], row))
    teachers = ["Teachers"] if has_teachers else []
    return ["Group", "Budget", "Spent", "Records", *teachers, heads[varied]], rows


def _count(value: int | None) -> str:
    return "not known" if value is None else wording.number(value)


def _plain(record: RunRecord, *, is_private: bool) -> list[tuple[str, str, str]]:
    """Compare the run with what one budget for all records would have bought."""
    rows = [
        (f"The {SHARED_BUDGETS.get(e['name'], e['name'])}", _epsilon(e["epsilon"]), wording.number(e["labels"]))
        for e in record.plain_labels
    ]
    # The others are worst-case counts of answered queries. They do not apply to a gate or an analysis of the votes.
    alike = record.guarantee["basis"] == Basis.WORST_CASE.value and not record.gated
    if rows and alike and (record.labels_are_public or is_private):
        rows.append(("Each group its own: this run", "as above", wording.number(record.asked)))
    return rows
