"""Entries of new rows that a student cannot use: dates in another format, and categories that it never saw."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pandas as pd

from dpensemble.datasets.columns import as_text, unreadable_dates
from dpensemble.datasets.preparation import statements_of

_MOST_NAMED = 8


class UnseenValues:
    """Counts of rows with entries that a student cannot use, by column."""

    def __init__(self, student: Any) -> None:
        self.rows = 0
        self.dates: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()
        encoder = statements_of(student.named_steps["encoder"])
        preparation = student.named_steps.get("table", encoder.preparation_)
        self._formats = {} if preparation is None else preparation.dates_
        self._categories = encoder.known_categories

    def add(self, table: pd.DataFrame) -> None:
        """Count such entries in a table whose columns have the kinds that the student was trained on."""
        self.rows += len(table)
        for name, date in self._formats.items():
            self.dates[name] += int(unreadable_dates(table[name], date["format"]).sum())
        for name, categories in self._categories.items():
            if name in table:
                entries = as_text(table[name].dropna())
                self.unknown[name] += int((~entries.isin(categories)).sum())

    def sentence(self) -> str | None:
        """Return a sentence for people, or None if every entry can be used."""
        parts = [
            (+self.dates, "a date that cannot be read", "which counts as blank"),
            (+self.unknown, "a category that is new or rare to the student", "which counts as any other"),
        ]
        sentences = [f"{what} in {_columns(counter)}, {counts}" for counter, what, counts in parts if counter]
        return f"of {self.rows:,} rows some have {'; and '.join(sentences)}." if sentences else None


def _columns(counts: Counter[str]) -> str:
    named = [f"{name!r} ({count:,})" for name, count in counts.most_common(_MOST_NAMED)]
    rest = len(counts) - len(named)
    return ", ".join([*named, f"{rest:,} more columns"] if rest else named)
