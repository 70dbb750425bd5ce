"""UCI Adult: 48,842 census records, packaged as Parquet."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

import pandas as pd

from dpensemble.datasets.tables import read_table


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table with its target, all possible classes, a display name, and the terms and source of the data."""

    name: str
    X: pd.DataFrame
    y: pd.Series
    classes: tuple[str, ...]
    licence: str


def load_adult() -> Dataset:
    """Load UCI Adult (the 1994 US census extract), offline.

    Both published files are joined: 48,842 rows, 6 numeric and 8 categorical columns (108 features once one-hot
    encoded), target ``income``. Missing entries are the category ``"?"``, as published.

    References
    ----------
    B. Becker and R. Kohavi, "Adult", UCI Machine Learning Repository, 1996, https://doi.org/10.24432/C5XW20, CC BY 4.0.

    Examples
    --------
    >>> adult = load_adult()
    >>> adult.X.shape, adult.classes
    ((48842, 14), ('<=50K', '>50K'))
    """
    folder = resources.files("dpensemble.datasets") / "data"
    with resources.as_file(folder / "adult.parquet") as path:
        table = read_table(path)
    return Dataset(
        name="Adult (UCI census income)",
        X=table.drop(columns="income"),
        y=table["income"],
        classes=("<=50K", ">50K"),
        licence=(folder / "ADULT-LICENCE.txt").read_text(encoding="utf-8"),
    )
