"""Sections of the report that compare contestants: ranks, head to head, and results by table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from arena import summary
from arena.markdown import markdown
from arena.ranks import LEVEL, Ranks, ranks
from arena.summary import METRICS, Cell, is_private, title

#: By metric, its name in the report.
NAMES = {
    "accuracy": "accuracy",
    "auroc": "AUROC",
    "log_loss": "log-loss (less is better)",
    "brier": "Brier score (less is better)",
    "ece": "calibration error (less is better)",
}
Groups = Mapping[str, Sequence[str]]


def ranked(frame: pd.DataFrame, groups: Groups, epsilons: Sequence[float]) -> dict[tuple[str, float, str], Ranks]:
    """Return ranks by group of tables, epsilon and metric, where two contestants or more can be ranked."""
    found = {
        (group, epsilon, metric): ranks(summary.at(frame, epsilon, tables), metric)
        for group, tables in groups.items()
        for epsilon in epsilons
        for metric in METRICS
    }
    return {key: one for key, one in found.items() if len(one.mean_ranks) > 1}


def rank_tables(found: dict[tuple[str, float, str], Ranks]) -> str:
    """Return one table of mean ranks a group and epsilon, with the tests."""
    text = [
        "## Mean ranks of private contestants\n\nOne is the best; a contestant with an error is behind all others. The "
        "p-value is that of the Friedman test for all contestants being alike. Mean ranks that differ by less than the "
        f"critical difference (Nemenyi test, level {LEVEL:g}) may differ by chance.\n"
    ]
    for group, epsilon in dict.fromkeys(key[:2] for key in found):
        here = {metric: found[group, epsilon, metric] for metric in METRICS if (group, epsilon, metric) in found}
        names = dict.fromkeys(name for one in here.values() for name in one.mean_ranks.index)
        lines = [[title(n), *(_rank(one.mean_ranks.get(n, np.nan)) for one in here.values())] for n in names]
        lines.append(["Friedman test, p", *(f"{one.p_value:.2g}" for one in here.values())])
        lines.append(["critical difference", *(_rank(one.critical_difference) for one in here.values())])
        lines.append(["tables", *(str(len(one.tables)) for one in here.values())])
        text.append(f"### {group}, epsilon {epsilon:g}: ranks\n")
        text.append(markdown(["contestant", *(NAMES[metric] for metric in here)], lines))
    return "\n".join(text)


def _rank(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.1f}"


def head_to_head(frame: pd.DataFrame, groups: Groups, epsilons: Sequence[float], ours: str) -> str:
    """Return which tables a contestant won and lost against each other private one."""
    text = ["## Head to head\n\nTables won and lost by the mean over splits; what was lost, with the difference.\n"]
    metrics = ("accuracy", "auroc", "log_loss")
    for group, tables in groups.items():
        held = frame[frame["table"].isin(tables)]
        names = summary.ordered(held[held["error"].isna()], private=True)
        if ours not in names:
            continue
        lines = []
        for other in (name for name in names if name != ours):
            for epsilon in epsilons:
                part = summary.at(held, epsilon, tables)
                differences = [summary.differences(part, ours, other, metric) for metric in metrics]
                if len(differences[0]):
                    lines.append([title(other), f"{epsilon:g}", *map(_won, differences)])
        text.append(f"{group}, {title(ours)} against\n")
        text.append(markdown(("contestant", "epsilon", *(NAMES[metric] for metric in metrics)), lines))
    return "\n".join(text)


def _won(differences: pd.Series) -> str:
    lost = differences[differences < 0].sort_values()
    listed = ", ".join(f"{table} {value:+.3f}" for table, value in lost.items())
    return f"{(differences > 0).sum()} won, {len(lost)} lost" + (f" ({listed})" if listed else "")


def by_table(frame: pd.DataFrame, groups: Groups, epsilons: Sequence[float], metrics: Sequence[str]) -> str:
    """Return tables of means and both spreads."""
    text = []
    for group, tables in groups.items():
        for epsilon in epsilons:
            part = summary.at(frame, epsilon, tables)
            for metric in metrics:
                found = summary.cells(part, metric)
                names = summary.ordered(part, private=True) + summary.ordered(part, private=False)
                lines = [[table, *_line(table, names, found, metric)] for table in tables]
                text.append(f"### {group}, epsilon {epsilon:g}: {NAMES[metric]}\n")
                text.append(markdown(["table", *(title(name) for name in names)], lines))
    return "\n".join(text)


def _line(table: str, names: Sequence[str], found: dict[tuple[str, str], Cell], metric: str) -> list[str]:
    here = {name: found[table, name] for name in names if (table, name) in found}
    private = [cell.mean for name, cell in here.items() if is_private(name) and cell.fits]
    best = (max if METRICS[metric] else min)(private, default=np.nan)
    # What has no privacy has one draw a split, so that only private cells can be compared in their fits.
    most = max((cell.fits + cell.errors for name, cell in here.items() if is_private(name)), default=0)
    written = []
    for name in names:
        if name not in here:
            written.append("")
            continue
        cell = here[name]
        text = written_cell(cell)
        text = f"**{text}**" if is_private(name) and cell.fits and cell.mean == best else text
        is_short = is_private(name) and cell.fits + cell.errors < most
        written.append(text + ("*" if is_short else "") + (" E" if cell.errors else ""))
    return written


def written_cell(cell: Cell) -> str:
    """Return the mean with the spreads that there are: ``0.823 ±0.004 (draws) ±0.010 (splits)``, without the words."""
    if not cell.fits:
        return ""
    spreads = "".join("" if np.isnan(s) else f" ±{s:.3f}" for s in (cell.over_draws, cell.over_splits))
    return f"{cell.mean:.3f}{spreads}"


def zeros(frame: pd.DataFrame, groups: Groups, epsilons: Sequence[float]) -> str:
    """Return how many probabilities of true classes were 0, by contestant and epsilon."""
    head = ["contestant", *(f"epsilon {epsilon:g}" for epsilon in epsilons)]
    text = []
    for group, tables in groups.items():
        lines = []
        for name in summary.ordered(frame, private=True) + summary.ordered(frame, private=False):
            part = frame[(frame["contestant"] == name) & frame["table"].isin(tables) & frame["zeros"].notna()]
            counts = [summary.at(part, epsilon, tables)["zeros"] for epsilon in epsilons]
            if len(part) and any(count.sum() for count in counts):
                lines.append([title(name), *(f"{count.sum():,.0f} in {len(count)} fits" for count in counts)])
        if lines:
            text.append(f"{group}, test rows whose true class got probability 0:\n\n{markdown(head, lines)}")
    return "\n".join(text) or "No true class got probability 0.\n"
