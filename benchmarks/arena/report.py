"""The report in Markdown, and the pictures."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from arena import summary
from arena.contestants import CONTESTANTS
from arena.environments import rival_python, table_packages
from arena.sources import MOST_PRIVATE, read
from arena.summary import METRICS, PRIVATE, WITHOUT
from arena.tables import TABLES

_TITLE = {one.name: one.title for one in CONTESTANTS}
_METRIC = {"accuracy": "Accuracy", "auroc": "AUROC", "brier": "Brier score (less is better)"}
_INTRODUCTION = f"""# Arena

Each table is split into a third private, a third public without labels and a third for testing; private rows beyond
{MOST_PRIVATE:,} are left out. delta is 1e-5. Whoever needs numbers gets one-hot columns, standardised by public rows.

**Relations differ**: this library's methods promise their epsilon when a record is *replaced*; DP-SGD and DP-EBM when
one is *added or removed*, which promises less: when one is replaced, their epsilon is about twice the one shown. They
are shown at the relation that favours them; what they reach at epsilon 0.5 is about what they would at epsilon 1 under
the stricter one.

A cell is the mean over splits, with the sample standard deviation. **Bold** is the best private mean of a table. `*`
marks cells with fewer splits than the fullest of the table, `E` an error in at least one split (then the mean is of the
others), and a blank what has not been run. DP-EBM and private majorities are for two classes only; PATE is run on more.
"""


def write_report(known: dict, home: Path, out: Path) -> None:
    """Write ``report.md`` and pictures of all results that are known."""
    frame = summary.table_of(known.values())
    if frame.empty:
        print("no results yet, so no report")
        return
    out.mkdir(parents=True, exist_ok=True)
    facts = _facts(home)
    groups = {
        "Two classes": [name for name, fact in facts.items() if fact["classes"] == "2"],
        "More classes": [name for name, fact in facts.items() if fact["classes"] != "2"],
    }
    epsilons = sorted(frame["epsilon"].dropna().unique())
    parts = [_INTRODUCTION, _tables(facts), _contestants(), _errors(frame), _ranks(frame, groups, epsilons)]
    parts += [_head_to_head(frame, groups, epsilons), _cells(frame, groups, epsilons), _seconds(frame, groups)]
    (out / "report.md").write_text("\n".join(parts), encoding="utf-8")
    _pictures(frame, groups, epsilons, home, out)
    print(f"wrote {out / 'report.md'}")


def _markdown(head: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    head = list(head)
    written = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in written) + "\n"


def _facts(home: Path) -> dict[str, dict[str, str]]:
    found = {}
    for table in TABLES:
        X, y, classes = read(table, table_packages(home))
        categories = sum(X[name].dtype != float for name in X)
        found[table.name] = {
            "title": table.title,
            "rows": f"{len(X):,}",
            "columns": f"{X.shape[1]}, {categories} of categories",
            "classes": str(len(classes)),
            "largest": f"{np.bincount(y).max() / len(y):.3f}",
            "package": table.package,
            "licence": table.licence,
        }
    return found


def _tables(facts: dict[str, dict[str, str]]) -> str:
    head = ("table", "what", "rows", "columns", "classes", "largest class", "package", "licence")
    lines = ((name, *fact.values()) for name, fact in facts.items())
    return "## Tables\n\n" + _markdown(head, lines)


def _contestants() -> str:
    lines = ((one.name, one.title, one.relation or "none", one.guarantee) for one in CONTESTANTS)
    return "## Contestants\n\n" + _markdown(("name", "what", "relation", "guarantee"), lines)


def _errors(frame: pd.DataFrame) -> str:
    wrong = frame[frame["error"].notna()]
    if wrong.empty:
        return f"{len(frame):,} fits, none of which ended in an error.\n"
    counted = wrong.groupby(["contestant", "table", "error"]).size()
    lines = ((who, table, str(times), error.replace("|", "/")) for (who, table, error), times in counted.items())
    head = ("contestant", "table", "times", "error")
    return f"{len(frame):,} fits, {len(wrong):,} of which ended in an error:\n\n" + _markdown(head, lines)


def _ranks(frame: pd.DataFrame, groups: dict[str, list[str]], epsilons: list[float]) -> str:
    text = ["## Mean ranks of private contestants\n\nOne is the best; an error is behind everybody else.\n"]
    for group, tables in groups.items():
        for metric in METRICS:
            found = {e: summary.ranks(summary.at(frame, e, tables), metric) for e in epsilons}
            names = [name for name in PRIVATE if any(name in series for series, _ in found.values())]
            names.sort(key=lambda name: np.nanmean([series.get(name, np.nan) for series, _ in found.values()]))
            head = [f"{group}: {_METRIC[metric]}", *(f"epsilon {e:g} ({len(found[e][1])} tables)" for e in epsilons)]
            lines = [
                [_TITLE[name], *(f"{found[e][0][name]:.1f}" if name in found[e][0] else "" for e in epsilons)]
                for name in names
            ]
            text.append(_markdown(head, lines))
    return "\n".join(text)


def _head_to_head(frame: pd.DataFrame, groups: dict[str, list[str]], epsilons: list[float]) -> str:
    text = ["## Head to head\n\nTables won and lost by the mean over splits; what was lost, with the difference.\n"]
    for group, tables in groups.items():
        there = set(frame.loc[frame["table"].isin(tables) & frame["error"].isna(), "contestant"])
        ours = [name for name in ("label-moments", "private-majority", "pate") if name in there]
        lines = []
        for other in (name for name in PRIVATE if ours and name in there and name != ours[0]):
            for epsilon in epsilons:
                held = summary.at(frame, epsilon, tables)
                told = [_won(summary.differences(held, ours[0], other, metric)) for metric in ("accuracy", "auroc")]
                lines.append([_TITLE[other], f"{epsilon:g}", *told])
        if lines:
            text.append(f"{group}, {_TITLE[ours[0]]} against\n")
            text.append(_markdown(("contestant", "epsilon", "accuracy", "AUROC"), lines))
    return "\n".join(text)


def _won(differences: pd.Series) -> str:
    lost = differences[differences < 0].sort_values()
    told = ", ".join(f"{table} {value:+.3f}" for table, value in lost.items())
    return f"{(differences > 0).sum()} won, {len(lost)} lost" + (f" ({told})" if told else "")


def _cells(frame: pd.DataFrame, groups: dict[str, list[str]], epsilons: list[float]) -> str:
    text = ["## Results\n"]
    for group, tables in groups.items():
        for epsilon in epsilons:
            for metric in METRICS:
                held = summary.at(frame, epsilon, tables)
                found = summary.cells(held, metric)
                names = [name for name in (*PRIVATE, *WITHOUT) if any(name == who for _, who in found)]
                lines = [[table, *_line(table, names, found, metric)] for table in tables]
                text.append(f"### {group}, epsilon {epsilon:g}: {_METRIC[metric]}\n")
                text.append(_markdown(["table", *(_TITLE[name] for name in names)], lines))
    return "\n".join(text)


def _line(table: str, names: list[str], found: dict, metric: str) -> list[str]:
    here = {name: found[table, name] for name in names if (table, name) in found}
    private = [cell[0] for name, cell in here.items() if name in PRIVATE and cell[2]]
    best = (max if METRICS[metric] else min)(private, default=np.nan)
    most = max((cell[2] + cell[3] for cell in here.values()), default=0)
    written = []
    for name in names:
        if name not in here:
            written.append("")
            continue
        mean, spread, splits, errors = here[name]
        text = "" if not splits else f"{mean:.3f}" + ("" if np.isnan(spread) else f" ±{spread:.3f}")
        text = f"**{text}**" if name in PRIVATE and splits and mean == best else text
        written.append(text + ("*" if splits + errors < most else "") + (" E" if errors else ""))
    return written


def _seconds(frame: pd.DataFrame, groups: dict[str, list[str]]) -> str:
    tables = [table for group in groups.values() for table in group]
    names = [name for name in (*PRIVATE, *WITHOUT) if name in set(frame["contestant"])]
    median = frame.groupby(["table", "contestant"])["seconds"].median()
    lines = [
        [table, *(f"{median[table, name]:.1f}" if (table, name) in median.dropna() else "" for name in names)]
        for table in tables
    ]
    note = "Median over splits and epsilons of fit and prediction on one core, which other work may have shared.\n"
    return f"## Seconds\n\n{note}\n" + _markdown(["table", *(_TITLE[name] for name in names)], lines)


def _pictures(frame: pd.DataFrame, groups: dict[str, list[str]], epsilons: list[float], home: Path, out: Path) -> None:
    """Draw in the rivals' environment, which has matplotlib."""
    points = [
        {"group": group, "epsilon": epsilon, "metric": metric, "table": table, "contestant": who, "mean": cell[0]}
        for group, tables in groups.items()
        for epsilon in epsilons
        for metric in METRICS
        for (table, who), cell in summary.cells(summary.at(frame, epsilon, tables), metric).items()
        if cell[2]
    ]
    drawn = {"titles": _TITLE, "private": PRIVATE, "metrics": _METRIC, "tables": groups, "points": points}
    (out / "points.json").write_text(json.dumps(drawn), encoding="utf-8")
    script = Path(__file__).with_name("picture.py")
    subprocess.run([str(rival_python(home)), str(script), str(out / "points.json")], check=True)  # noqa: S603
