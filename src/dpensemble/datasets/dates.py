"""Columns of dates: the format of their entries, and the parts of each date."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble.datasets.columns import as_text

# Only the day of a time stamp is read. A format is used if nearly all public entries have it.
_FORMATS = ("%Y-%m-%d", "%Y/%m/%d", "%Y%m%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%d %b %Y", "%d-%b-%Y")
_NEARLY_ALL = 0.95
_FEWEST, _LOOKED_AT_FIRST = 3, 50
DATE_PARTS = ("year", "month", "weekday")


def date_formats(entries: pd.Series) -> list[str]:
    """Return formats in which nearly all present entries are dates. There are several if days may be months."""
    texts = entries.dropna()
    if len(texts) < _FEWEST or not _are_dates(texts.iloc[:_LOOKED_AT_FIRST], _FORMATS):
        return []
    return _are_dates(texts, _FORMATS)


def which_are_dates(entries: pd.Series) -> NDArray[np.bool_]:
    """Return which present entries are dates in the format in which most are dates."""
    texts = entries.dropna()
    begin = [float(_days(texts.iloc[:_LOOKED_AT_FIRST], one).notna().mean()) for one in _FORMATS]
    best = int(np.argmax(begin))
    if not begin[best]:
        return np.zeros(len(texts), dtype=bool)
    return np.asarray(_days(texts, _FORMATS[best]).notna().to_numpy(), dtype=bool)


def _are_dates(texts: pd.Series, formats: tuple[str, ...]) -> list[str]:
    return [one for one in formats if _days(texts, one).notna().mean() >= _NEARLY_ALL]


def _days(texts: pd.Series, how: str) -> pd.Series:
    """Return the day of each entry. Each entry is read separately, and what follows the day is its time."""
    try:
        days = texts.astype(str).str.strip()
    except UnicodeError:
        # Half of a pair of surrogates, which no date has.
        days = texts.map(lambda text: str(text).encode("utf-8", "replace").decode()).astype(str).str.strip()
    if " " not in how:
        days = days.str.split(r"[ T]", n=1, regex=True).str[0]
    # pandas replaces "now" and "today" by the current time.
    days = days.where(days.str.contains(r"\d"), "")
    return pd.to_datetime(days, format=how, errors="coerce")


def unreadable_dates(entries: pd.Series, how: str) -> pd.Series:
    """Return which entries are present but are not dates in a format."""
    written = as_text(entries)
    return written.notna() & _days(written.where(written.notna(), ""), how).isna()


def date_parts(entries: pd.Series, how: str) -> dict[str, pd.Series]:
    """Return year, month and weekday of entries in a format, missing where an entry is not such a date."""
    days = _days(entries.where(entries.notna(), ""), how)
    weekday = days.dt.day_name()
    return {
        "year": days.dt.year.astype(float),
        "month": days.dt.month.astype(float),
        "weekday": weekday.astype(object).where(weekday.notna(), np.nan),
    }
