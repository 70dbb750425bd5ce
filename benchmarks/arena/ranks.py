"""Mean ranks over tables, and which differences of ranks are more than chance (Demsar 2006, JMLR 7)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
from scipy import stats

from arena.summary import METRICS, is_private, split_means

#: The chance that any two equal contestants differ by more than the critical difference.
LEVEL = 0.05


@dataclass(frozen=True)
class Ranks:
    """Mean ranks of private contestants (one is the best), the tables behind them, and the two tests.

    `p_value` is that of the Friedman test in Iman and Davenport's form, for the hypothesis that all contestants are
    alike. Two contestants differ by the Nemenyi test if their mean ranks differ by `critical_difference` or more. Both
    are NaN for fewer than two contestants or tables.
    """

    mean_ranks: pd.Series
    tables: tuple[str, ...]
    p_value: float
    critical_difference: float


def ranks(frame: pd.DataFrame, metric: str) -> Ranks:
    """Rank contestants by their means on each table.

    A table counts if every private contestant that has results here has some of it, and then with the splits that all
    of them have. A contestant that ended in an error on one of them is behind all others.
    """
    frame = frame[frame["contestant"].map(is_private).astype(bool)]
    names = frame["contestant"].unique()
    places, tables = [], []
    for table, part in frame.groupby("table", sort=False):
        means = split_means(part, metric).reindex(columns=names).dropna()
        if len(means):
            places.append(means.mean().rank(ascending=not METRICS[metric]))
            tables.append(str(table))
    if not places:
        return Ranks(pd.Series(dtype=float), (), np.nan, np.nan)
    table_ranks = pd.concat(places, axis=1)
    mean_ranks = table_ranks.mean(axis=1).sort_values()
    return Ranks(
        mean_ranks,
        tuple(tables),
        friedman(mean_ranks.to_numpy(), len(tables)),
        critical_difference(len(mean_ranks), len(tables)),
    )


def friedman(mean_ranks: np.ndarray, tables: int) -> float:
    """Return the p-value of the Friedman test from mean ranks, by the F distribution (Iman and Davenport 1980)."""
    k = len(mean_ranks)
    if k < 2 or tables < 2:
        return np.nan
    chi_square = 12 * tables / (k * (k + 1)) * (float((mean_ranks**2).sum()) - k * (k + 1) ** 2 / 4)
    rest = tables * (k - 1) - chi_square
    # All tables rank alike.
    if rest <= 1e-9:
        return 0.0
    return float(stats.f.sf((tables - 1) * chi_square / rest, k - 1, (k - 1) * (tables - 1)))


@cache
def critical_difference(contestants: int, tables: int, level: float = LEVEL) -> float:
    """Return Nemenyi's critical difference of mean ranks: ``q sqrt(k (k + 1) / (6 N))``."""
    if contestants < 2 or tables < 2:
        return np.nan
    q = stats.studentized_range.ppf(1 - level, contestants, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(contestants * (contestants + 1) / (6 * tables)))
