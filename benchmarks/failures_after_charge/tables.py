"""Small random tables with what trips programs up: blanks, bad records, odd names of categories, three file formats."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

_CLASSES = (["0", "1"], ["no", "yes"], ["low", "middle", "high"], ["1", "2", "3", "4"])
_ENTRIES = (["a", "b", "any other"], ["any other", "none", "(blank)", "x"], ["7", "8"])


@dataclass(frozen=True, kw_only=True)
class RandomTables:
    """Names of the files that were written, and what is in them."""

    private: str
    public: str
    test: str
    classes: list[str]
    private_format: str
    has_blanks: bool
    #: The meaning of the entries of column ``consent``, or None if they are epsilons.
    levels: str | None


def write_tables(rng: np.random.Generator, folder: Path) -> RandomTables:
    """Write private, public and test tables, and `columns.json`, which declares the columns."""
    n_private, n_public, n_test = int(rng.integers(120, 300)), int(rng.choice([40, 120, 230])), 40
    classes = _CLASSES[rng.integers(len(_CLASSES))]
    entries = _ENTRIES[rng.integers(len(_ENTRIES))]
    n = n_private + n_public + n_test
    frame = pd.DataFrame({"x": rng.normal(size=n).round(4), "c": rng.choice(entries, size=n)})
    if rng.random() < 0.5:
        frame["z"] = rng.integers(0, 50, size=n)
    signal = frame["x"] + 0.5 * (frame["c"] == entries[0]) + 0.2 * rng.normal(size=n)
    places = np.argsort(np.argsort(signal)) * len(classes) // n
    has_blanks = bool(rng.random() < 0.3)
    if has_blanks:
        frame.loc[rng.random(n) < 0.05, "x"] = np.nan
    features = frame.copy()
    frame["y"] = np.array(classes)[places]
    private = frame[:n_private].copy()
    private["who"] = rng.integers(0, n_private // 2, size=n_private)
    levels = None
    is_low = private["who"] % 2 == 0
    if rng.random() < 0.5:
        private["consent"], levels = np.where(is_low, "low", "high"), "low=4,high=8"
    else:
        private["consent"] = np.where(is_low, 4.0, 8.0)
    private_format = str(rng.choice(["csv", "csv", "parquet", "folder"]))
    if rng.random() < 0.3:
        _add_bad_records(rng, private, private_format)
    test = frame[n_private + n_public :]
    # Now and then the public rows have labels.
    public = (frame if rng.random() < 0.3 else features)[n_private : n_private + n_public]
    others = "csv" if private_format == "csv" else "parquet"
    names = {
        "private": _write(private, folder / "private", private_format),
        "public": _write(public, folder / "public", others),
        "test": _write(test, folder / "test", others),
    }
    columns = {"x": [-3.0, 3.0], "c": entries} | ({"z": [0, 50]} if "z" in frame else {})
    (folder / "columns.json").write_text(json.dumps(columns), encoding="utf-8")
    return RandomTables(**names, classes=classes, private_format=private_format, has_blanks=has_blanks, levels=levels)


def _add_bad_records(rng: np.random.Generator, private: pd.DataFrame, private_format: str) -> None:
    """Let a few records have an undeclared label, infinity, no person, or text in the place of a number."""
    rows = rng.choice(len(private), size=4, replace=False)
    private.loc[rows[0], "y"] = "undeclared"
    private.loc[rows[1], "x"] = np.inf
    private["who"] = private["who"].astype("Int64")
    private.loc[rows[2], "who"] = pd.NA
    if private_format == "csv":
        private["x"] = private["x"].astype(object)
        private.loc[rows[3], "x"] = "much"


def _write(table: pd.DataFrame, path: Path, kind: str) -> str:
    if kind == "csv":
        table.to_csv(path.with_suffix(".csv"), index=False)
        return f"{path.name}.csv"
    if kind == "parquet":
        table.to_parquet(path.with_suffix(".parquet"))
        return f"{path.name}.parquet"
    path.mkdir()
    half = len(table) // 2
    table[:half].to_parquet(path / "part-0.parquet")
    table[half:].to_parquet(path / "part-1.parquet")
    return path.name
