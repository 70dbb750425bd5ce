"""Means, ranks and differences of results."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from arena.contestants import CONTESTANTS

#: By metric, whether more is better.
METRICS = {"accuracy": True, "auroc": True, "brier": False}
PRIVATE = [one.name for one in CONTESTANTS if one.relation is not None]
WITHOUT = [one.name for one in CONTESTANTS if one.relation is None]


def table_of(rows: Iterable[dict]) -> pd.DataFrame:
    """Return results as a frame, those of the present settings only; `error` is missing where all went well."""
    versions = {one.name: one.version for one in CONTESTANTS}
    columns = ["table", "contestant", "version", "epsilon", "split", *METRICS, "seconds", "error"]
    frame = pd.DataFrame(list(rows), columns=columns)
    frame["epsilon"] = frame["epsilon"].astype(float)
    return frame[frame["version"] == frame["contestant"].map(versions)]


def at(frame: pd.DataFrame, epsilon: float, tables: Iterable[str]) -> pd.DataFrame:
    """Return the results of some tables at one epsilon, and those without privacy."""
    kept = (frame["epsilon"] == epsilon) | frame["epsilon"].isna()
    return frame[kept & frame["table"].isin(list(tables))]


def ranks(frame: pd.DataFrame, metric: str) -> tuple[pd.Series, list[str]]:
    """Return each private contestant's mean rank over tables, and the tables.

    One is the best. A table counts if every contestant that has results here has some of it, and then with the splits
    that all of them have; who ended in an error on one of them is behind all others.
    """
    frame = frame[frame["contestant"].isin(PRIVATE)]
    best_is_most = METRICS[metric]
    worst = -np.inf if best_is_most else np.inf
    held = frame.assign(value=frame[metric].where(frame["error"].isna(), worst))
    places, tables = [], []
    for table, part in held.groupby("table", sort=False):
        wide = part.pivot_table(index="split", columns="contestant", values="value", aggfunc="first")
        wide = wide.reindex(columns=frame["contestant"].unique()).dropna()
        if len(wide):
            places.append(wide.mean().rank(ascending=not best_is_most))
            tables.append(table)
    if not places:
        return pd.Series(dtype=float), []
    return pd.concat(places, axis=1).mean(axis=1).sort_values(), tables


def differences(frame: pd.DataFrame, one: str, other: str, metric: str) -> pd.Series:
    """Return by how much one contestant is better than another, by table: the mean over splits that both have.

    Infinite where one of them ended in an error.
    """
    sign = 1 if METRICS[metric] else -1
    found = {}
    for table, part in frame.groupby("table", sort=False):
        wide = part.assign(value=(sign * part[metric]).where(part["error"].isna(), -np.inf)).pivot_table(
            index="split", columns="contestant", values="value", aggfunc="first"
        )
        if {one, other} <= set(wide.columns):
            both = wide[[one, other]].dropna()
            both = both[~np.isinf(both).all(axis=1)]
            if len(both):
                found[table] = (both[one] - both[other]).mean()
    return pd.Series(found, dtype=float)


def cells(frame: pd.DataFrame, metric: str) -> dict[tuple[str, str], tuple[float, float, int, int]]:
    """Return mean, sample standard deviation, splits and errors of a metric, by table and contestant."""
    found = {}
    for key, part in frame.groupby(["table", "contestant"], sort=False):
        good = part.loc[part["error"].isna(), metric]
        spread = good.std(ddof=1) if len(good) > 1 else np.nan
        found[key] = (good.mean() if len(good) else np.nan, spread, len(good), int(part["error"].notna().sum()))
    return found
