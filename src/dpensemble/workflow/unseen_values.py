"""Entries of new rows that a student has no place for: dates in another format, and categories it never saw."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

from dpensemble.datasets import TableEncoder
from dpensemble.datasets.columns import as_text
from dpensemble.datasets.preparation import BLANK, unreadable_dates

_MOST_NAMED = 8


class UnseenValues:
    """Counts of rows whose entries a student cannot make use of, column by column."""

    def __init__(self, student: Any) -> None:
        self.rows = 0
        self.dates: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()
        encoder = student.named_steps["encoder"]
        preparation = student.named_steps.get("table", getattr(encoder, "preparation_", None))
        self._formats = {} if preparation is None else preparation.dates_
        self._categories = _categories(encoder)

    def add(self, table: pd.DataFrame) -> None:
        """Count what is in a table, whose columns are of the kinds that the student was trained on."""
        self.rows += len(table)
        for name, date in self._formats.items():
            self.dates[name] += int(unreadable_dates(table[name], date["format"]).sum())
        for name, categories in self._categories.items():
            if name in table:
                entries = as_text(table[name].dropna())
                self.unknown[name] += int((~entries.isin(categories)).sum())

    def sentence(self) -> str | None:
        """Return what to tell people, None where every entry was understood."""
        parts = [
            (+self.dates, "a date that cannot be read", "which counts as blank"),
            (+self.unknown, "a category that is new or rare to the student", "which counts as any other"),
        ]
        sentences = [f"{what} in {_columns(counter)}, {counts}" for counter, what, counts in parts if counter]
        return f"of {self.rows:,} rows some have {'; and '.join(sentences)}." if sentences else None


def _columns(found: Counter[str]) -> str:
    named = [f"{name!r} ({count:,})" for name, count in found.most_common(_MOST_NAMED)]
    rest = len(found) - len(named)
    return ", ".join([*named, f"{rest:,} more columns"] if rest else named)


def _categories(encoder: object) -> dict[str, set[str]]:
    """Return the categories of each column that a fitted encoder or feature map has a place for."""
    if isinstance(encoder, TableEncoder):
        columns = encoder.encoder_
        name, one_hot, mask = columns.transformers_[1]
        if name != "categories" or not np.any(mask):
            return {}
        names = columns.feature_names_in_[mask]
        return {
            one: {str(entry) for entry in entries} - {BLANK}
            for one, entries in zip(names, one_hot.categories_, strict=True)
        }
    if hasattr(encoder, "base_"):
        # What a map of cells knows is in its own columns.
        own = getattr(encoder, "columns", None)
        return _categories(encoder.base_) if own is None else _values_by_column(own, "values")
    return _values_by_column(getattr(encoder, "columns_", []), "categories")


def _values_by_column(columns: Any, key: str) -> dict[str, set[str]]:
    return {one["name"]: set(map(str, one[key])) for one in columns if one["kind"] == "category"}
