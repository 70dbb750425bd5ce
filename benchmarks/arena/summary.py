"""Means and spreads of results, and differences between contestants."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from arena.contestants import CONTESTANTS
from arena.relations import NOMINAL, UNNAMED, budgets
from arena.results import Task

#: By metric, whether more is better.
METRICS = {"accuracy": True, "auroc": True, "log_loss": False, "brier": False, "ece": False}
_KEY = list(Task.__dataclass_fields__)
_BY_NAME = {one.name: one for one in CONTESTANTS}
_VERSION = " (version "


def table_of(rows: Iterable[dict], splits: Sequence[int], earlier: bool = False) -> pd.DataFrame:
    """Return the results of some splits as a frame; `error` is missing where all went well.

    Results of a contestant's earlier versions are left out, or with `earlier` stand beside as contestants of their
    own, e.g. ``label-moments (version 1)``.
    """
    frame = pd.DataFrame(list(rows), columns=[*_KEY, *METRICS, "zeros", "seconds", "error"])
    frame["epsilon"] = frame["epsilon"].astype(float)
    frame = frame[frame["split"].isin(splits) & frame["contestant"].isin(_BY_NAME)]
    is_old = frame["version"] != frame["contestant"].map({name: one.version for name, one in _BY_NAME.items()})
    if not earlier:
        return frame[~is_old]
    old_names = frame["contestant"] + _VERSION + frame["version"].astype(str) + ")"
    return frame.assign(contestant=frame["contestant"].where(~is_old, old_names))


def title(name: str) -> str:
    """Return a contestant's title.

    A dagger marks contestants that name no relation, a double dagger settings that were chosen by test rows.
    """
    one = _BY_NAME[base(name)]
    marks = " †" * (one.relation == UNNAMED) + " ‡" * one.by_test
    return one.title + name[len(one.name) :] + marks


def base(name: str) -> str:
    """Return the name of a contestant without an earlier version."""
    return name.split(_VERSION, maxsplit=1)[0]


def is_by_test(name: str) -> bool:
    """Return whether the settings of a contestant were chosen by test rows."""
    return _BY_NAME[base(name)].by_test


def is_private(name: str) -> bool:
    """Return whether a contestant promises anything."""
    return _BY_NAME[base(name)].relation is not None


def ordered(frame: pd.DataFrame, private: bool) -> list[str]:
    """Return the names of contestants that have results, in the order of their declarations."""
    names = [name for name in frame["contestant"].unique() if is_private(name) == private]
    return sorted(names, key=lambda name: (list(_BY_NAME).index(base(name)), name))


def like_for_like(frame: pd.DataFrame) -> pd.DataFrame:
    """Return results at the budgets at which all contestants promise the same when a record is replaced."""
    bases = frame["contestant"].str.split(_VERSION, regex=False).str[0]
    return frame[
        frame["budget"] == bases.map({name: budgets(one.relation, False)[0] for name, one in _BY_NAME.items()})
    ]


def nominal(frame: pd.DataFrame) -> pd.DataFrame:
    """Return results at the epsilon of the table, whatever relation it is for."""
    return frame[frame["budget"] == NOMINAL]


def at(frame: pd.DataFrame, epsilon: float, tables: Iterable[str]) -> pd.DataFrame:
    """Return the results of some tables at one epsilon, and those without privacy."""
    kept = (frame["epsilon"] == epsilon) | frame["epsilon"].isna()
    return frame[kept & frame["table"].isin(list(tables))]


@dataclass(frozen=True)
class Cell:
    """One contestant on one table: the mean over splits of each split's mean, and two spreads.

    `over_draws` is the standard deviation over noise draws within a split (the root of the mean variance), and
    `over_splits` the standard deviation of the splits' means; both are NaN where there is one of them only.
    """

    mean: float
    over_draws: float
    over_splits: float
    fits: int
    errors: int


def cell(part: pd.DataFrame, metric: str) -> Cell:
    """Return the summary of one contestant's results on one table at one epsilon."""
    good = part[part["error"].isna() & part[metric].notna()]
    of_splits = good.groupby("split")[metric]
    means, variances = of_splits.mean(), of_splits.var(ddof=1).dropna()
    return Cell(
        mean=float(means.mean()) if len(means) else np.nan,
        over_draws=float(np.sqrt(variances.mean())) if len(variances) else np.nan,
        over_splits=float(means.std(ddof=1)) if len(means) > 1 else np.nan,
        fits=len(good),
        errors=int(part["error"].notna().sum()),
    )


def cells(frame: pd.DataFrame, metric: str) -> dict[tuple[str, str], Cell]:
    """Return cells by table and contestant."""
    return {key: cell(part, metric) for key, part in frame.groupby(["table", "contestant"], sort=False)}


def split_means(part: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return means over draws of one table's results, splits by contestants; the worst there is after an error."""
    worst = -np.inf if METRICS[metric] else np.inf
    held = part.assign(value=part[metric].where(part["error"].isna(), worst)).dropna(subset="value")
    return held.pivot_table(index="split", columns="contestant", values="value", aggfunc="mean")


def differences(frame: pd.DataFrame, one: str, other: str, metric: str) -> pd.Series:
    """Return by how much one contestant is better than another, by table: the mean over splits that both have.

    Infinite where one of them ended in an error.
    """
    sign = 1 if METRICS[metric] else -1
    by_table = {}
    for table, part in frame.groupby("table", sort=False):
        means = split_means(part, metric)
        if {one, other} <= set(means.columns):
            both = means[[one, other]].dropna()
            both = both[~np.isinf(both).all(axis=1)]
            if len(both):
                by_table[table] = sign * (both[one] - both[other]).mean()
    return pd.Series(by_table, dtype=float)
