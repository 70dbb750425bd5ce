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
#: A difference to the best rival that does not count.
CLOSE = 0.005
#: Contestants of this library.
_OWN = ("label-moments", "private-majority", "pate")
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


def gaps(frame: pd.DataFrame, groups: Groups, epsilons: Sequence[float], ours: str) -> str:
    """Return ours beside the best private rival by table, epsilon and metric, and what no privacy gives."""
    text = [
        "## Beside the best rival\n\nBy metric: ours, the best private rival (of other packages and DP-GD) with its "
        "difference to ours, and the best without privacy. Above 0 ours is better, also for log-loss. The standard "
        "error is of the differences by split and draw. The best of a table is known only after the fact, which "
        "favours rivals. In brackets, if better: the best whose settings were chosen by test rows.\n"
    ]
    metrics = ("accuracy", "auroc", "log_loss")
    for group, tables in groups.items():
        lines = [
            [table, f"{epsilon:g}", who, *(_gap(part, who, metric) for metric in metrics)]
            for table in tables
            for epsilon in epsilons
            for part in [summary.at(frame, epsilon, [table])]
            for who in sorted({name for name in part["contestant"] if summary.base(name) == ours}, reverse=True)
        ]
        if lines:
            text.append(f"### {group}: ours and the best rival\n")
            text += [_first(frame, tables, epsilons, who) for who in dict.fromkeys(line[2] for line in lines)]
            text.append(markdown(["table", "epsilon", "ours", *(NAMES[metric] for metric in metrics)], lines))
    return "\n".join(text)


def _gap(part: pd.DataFrame, ours: str, metric: str) -> str:
    """Return one cell: what ours has, the best rival with the difference to it, and the best without privacy."""
    sign = 1 if METRICS[metric] else -1
    good = part[part["error"].isna() & part[metric].notna()]
    means = good.groupby("contestant")[metric].mean() * sign
    if ours not in means:
        return ""
    is_rival = np.array([_is_rival(name) for name in means.index])
    by_test = np.array([summary.is_by_test(name) for name in means.index])
    text = f"{means[ours] * sign:.3f}"
    held = means[is_rival & ~by_test]
    if len(held):
        text += f", {_beside(good, ours, held.idxmax(), metric)}"
        tuned = means[is_rival & by_test]
        if len(tuned) and tuned.max() > held.max():
            text += f" [{_beside(good, ours, tuned.idxmax(), metric)}]"
    free = means[[not is_private(name) for name in means.index]]
    return text + (f", no privacy {free.max() * sign:.3f}" if len(free) else "")


def _is_rival(name: str) -> bool:
    return is_private(name) and summary.base(name) not in _OWN


def _first(frame: pd.DataFrame, tables: Sequence[str], epsilons: Sequence[float], ours: str) -> str:
    """Return a sentence: in how many tables, epsilons and metrics ours is first or within .005 of the best rival."""
    held = {metric: [] for metric in ("accuracy", "auroc", "log_loss")}
    for table in tables:
        for epsilon in epsilons:
            part = summary.at(frame, epsilon, [table])
            part = part[part["error"].isna() & part["epsilon"].notna()]
            rivals = [name for name in part["contestant"].unique() if _is_rival(name) and not summary.is_by_test(name)]
            for metric, gained in held.items():
                means = part.groupby("contestant")[metric].mean() * (1 if METRICS[metric] else -1)
                if ours in means and rivals:
                    gained.append(means[ours] - means[rivals].max())
    counts = (f"{NAMES[metric]} {sum(d >= -CLOSE for d in gained)} of {len(gained)}" for metric, gained in held.items())
    return f"First, or at most {CLOSE:g} behind the best rival, {title(ours)}: {', '.join(counts)}.\n"


def _beside(good: pd.DataFrame, ours: str, rival: str, metric: str) -> str:
    """Return a rival's mean, and by how much ours is better over the fits that both have."""
    values = good[good["contestant"].isin([ours, rival])].pivot_table(
        index=["split", "draw"], columns="contestant", values=metric
    )
    both = (values[ours] - values[rival]).dropna() * (1 if METRICS[metric] else -1)
    error = f" ±{both.std(ddof=1) / np.sqrt(len(both)):.3f}" if len(both) > 1 else ""
    return f"{rival} {values[rival].mean():.3f} ({both.mean():+.3f}{error})"


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
                lines = [[table, *_line(table, names, found, metric)] for table in tables if _is_held(table, found)]
                if not lines:
                    continue
                text.append(f"### {group}, epsilon {epsilon:g}: {NAMES[metric]}\n")
                text.append(markdown(["table", *(title(name) for name in names)], lines))
    return "\n".join(text)


def _is_held(table: str, found: Mapping[tuple[str, str], Cell]) -> bool:
    return any(table == held for held, _ in found)


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
