"""Dates as people write them, read by one public format: the parts of each entry that is such a date.

A format comes from public rows or from a declaration. Nothing depends on the clock or on the language of a machine.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble.datasets.columns import as_text, distinct_entries
from dpensemble.errors import DataError

# Only the day of a time stamp is read. A format is used if nearly all public entries have it.
_FORMATS = ("%Y-%m-%d", "%Y/%m/%d", "%Y%m%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%d %b %Y", "%d-%b-%Y")
# Formats that are tried if none of these is. %B is the name of a month in English, German or French, in any form.
_MORE_FORMATS = (
    *("%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d-%m-%y", "%y-%m-%d"),
    *("%d %B %Y", "%d %B %y", "%B %d %Y", "%B %d %y"),
)
_NEARLY_ALL, _FEWEST, _LOOKED_AT_FIRST = 0.95, 3, 50
#: The first year that two digits name. 30 to 99 are years of the last century, as in spreadsheets, on any day.
PIVOT = 1930
_MONTHS = {
    start: number
    for number, starts in enumerate(
        (
            *("jan", "fev fevr feb", "mar marz maerz mrz mars", "apr avr april avril", "mai may", "jun juin juni"),
            *("jul juil juli july juillet", "aug aou aout", "sep sept", "okt oct", "nov", "dez dec"),
        ),
        start=1,
    )
    for start in starts.split()
} | {
    name: number
    for number, names in enumerate(
        (
            *("january januar janner jaenner janvier janv jan", "february februar fevrier", "march", "", "", "june"),
            *("", "august", "september septembre", "october oktober octobre", "november novembre"),
            "december dezember decembre",
        ),
        start=1,
    )
    for name in names.split()
}
#: What each part of a format looks like at least. Months by name are compared with all their names where they are read.
_SHAPES = {"%Y": r"\d{4}", "%y": r"\d{2}", "%m": r"\d{1,2}", "%d": r"\d{1,2}", "%b": r"[^\W\d_]{3}", " ": r"\s+"}
_ENGLISH = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_MONTH = r"(?P<B>[^\W\d_]{3,10})\.?"
_NAMED = {
    "dB": re.compile(rf"(?P<d>\d{{1,2}})\.?[\s/-]*{_MONTH}[\s,/-]*(?P<year>\d{{4}}|\d{{2}})(?:[T:\s].*)?"),
    "Bd": re.compile(
        rf"{_MONTH}[\s/-]*(?P<d>\d{{1,2}})(?:st|nd|rd|th)?[\s,./-]+(?P<year>\d{{4}}|\d{{2}})(?:[T:\s].*)?"
    ),
}


def is_date_format(text: str) -> bool:
    """Return whether a text is the format of dates: day, month and year, and perhaps a time."""
    used = re.findall(r"%(.)", text)
    days = [[one for one in used if one in group] for group in ("d", "mbB", "Yy")]
    return all(len(one) == 1 for one in days) and set(used) <= set("dmbBYyHMSfpI")


def without_time(how: str) -> str:
    """Return a declared format up to its time, which is not read. So a day without a time is read by it, too."""
    return re.split(r"[ T]?%[HI]", how, maxsplit=1)[0] if re.search(r"%[HI]", how) else how


def date_formats(entries: pd.Series, *, more: bool = True) -> list[str]:
    """Return formats in which nearly all present entries are dates. There are several if days may be months.

    Without `more`, only the formats of earlier versions are tried.
    """
    texts = entries.dropna()
    for formats in (_FORMATS, _MORE_FORMATS) if more else (_FORMATS,):
        if len(texts) >= _FEWEST and _are_dates(texts.iloc[:_LOOKED_AT_FIRST], formats):
            return _are_dates(texts, formats)
    return []


def require_one_date_format(name: str, formats: Sequence[str]) -> None:
    """Raise if days may be months or years."""
    if len(formats) > 1:
        first, second = (f"columns={{{name!r}: 'date:{one}'}}" for one in formats[:2])
        raise DataError(
            f"column {name!r} of the public table holds dates in which days may be months or years: give {first} or "
            f"{second}, or write dates as 2025-12-31."
        )


def which_are_dates(entries: pd.Series) -> NDArray[np.bool_]:
    """Return which present entries are dates in the format in which most are dates."""
    texts = entries.dropna()
    first = _Days.of(texts.iloc[:_LOOKED_AT_FIRST])
    begin = [float(first.are_dates(one).mean()) for one in _FORMATS]
    best = int(np.argmax(begin))
    if not begin[best]:
        return np.zeros(len(texts), dtype=bool)
    return _Days.of(texts).are_dates(_FORMATS[best])


def _are_dates(texts: pd.Series, formats: Sequence[str]) -> list[str]:
    days = _Days.of(texts)
    if days.begin_as_dates().mean() < _NEARLY_ALL:
        return []
    # Comparing shapes takes much less time than reading dates.
    likely = [one for one in formats if days.have_shape_of(one).mean() >= _NEARLY_ALL]
    return [one for one in likely if days.are_dates(one).mean() >= _NEARLY_ALL]


class _Days(NamedTuple):
    """The days of entries. Each entry is read separately, once for all entries that are alike.

    `places` are those of entries among the distinct texts, -1 for a missing entry. A text that does not begin as a date
    is empty. What follows a day is its time.
    """

    places: NDArray[np.intp]
    texts: list[str]

    @classmethod
    def of(cls, entries: pd.Series) -> Self:
        """Return the distinct texts of entries, without spaces around them."""
        places, distinct = distinct_entries(entries)
        texts = [str(entry).strip() for entry in distinct.tolist()]
        # Every format begins with a digit or a month. pandas replaces "now" and "today" by the current time.
        return cls(places, [text if re.match(r"\d|[^\W\d_]{3,10}\.?[\s/-]*\d", text) else "" for text in texts])

    def begin_as_dates(self) -> NDArray[np.bool_]:
        """Return which entries begin with a digit, or with a word and a digit."""
        return np.array([*map(bool, self.texts), False])[self.places]

    def have_shape_of(self, how: str) -> NDArray[np.bool_]:
        """Return which entries look like dates in one of the formats that are tried. An entry that is a date does."""
        days, how = self._written_as(how)
        shape = re.compile("".join(_SHAPES.get(part, re.escape(part)) for part in re.findall("%?.", how)))
        return np.array([*(shape.fullmatch(day) is not None for day in days), False])[self.places]

    def in_format(self, how: str) -> pd.Series:
        """Return the day of each distinct text, missing for a text that is not a date."""
        days, plain = self._written_as(how)
        dates = pd.to_datetime(pd.Series(days, dtype=object), format=plain, errors="coerce")
        if "%y" in how:
            # Python would read 30 to 68 as years of this century.
            dates = dates.where(~(dates.dt.year >= PIVOT + 100), dates - pd.DateOffset(years=100))
        return dates

    def _written_as(self, how: str) -> tuple[list[str], str]:
        """Return the part of each distinct text that is read, with English months, and its format."""
        if "%B" in how:
            order, length = "Bd" if how.index("%B") < how.index("%d") else "dB", 4 if "%Y" in how else 2
            days = [_with_english_month(text, order, length) for text in self.texts]
            return days, "%d %b %Y" if "%Y" in how else "%d %b %y"
        # A long s is an s where case is ignored, but pandas looks up the month by its letters and fails.
        days = ["" if "\u017f" in text else text for text in self.texts] if "%b" in how else self.texts
        return days if " " in how else [re.split("[ T]", text, maxsplit=1)[0] for text in days], how

    def are_dates(self, how: str) -> NDArray[np.bool_]:
        """Return which entries are dates in a format."""
        return np.append(self.in_format(how).notna().to_numpy(dtype=bool), False)[self.places]


def _with_english_month(text: str, order: str, length: int) -> str:
    """Return a date with the name of a month as day, English month and year, or an empty text."""
    match = _NAMED[order].fullmatch(text)
    if match is None or len(match["year"]) != length:
        return ""
    plain = unicodedata.normalize("NFKD", match["B"]).encode("ascii", "ignore").decode().lower()
    month = _MONTHS.get(plain)
    return "" if month is None else f"{match['d']} {_ENGLISH[month - 1]} {match['year']}"


def unreadable_dates(entries: pd.Series, how: str) -> pd.Series:
    """Return which entries are present but are not dates in a format."""
    written = as_text(entries)
    return written.notna() & ~_Days.of(written).are_dates(how)


def date_parts(entries: pd.Series, how: str) -> dict[str, pd.Series]:
    """Return year, month and weekday of entries in a format, missing where an entry is not such a date."""
    days = _Days.of(entries)
    dates = days.in_format(how)
    weekday = dates.dt.day_name()
    parts = {
        "year": dates.dt.year.astype(float),
        "month": dates.dt.month.astype(float),
        "weekday": weekday.astype(object).where(weekday.notna(), np.nan),
    }
    return {
        part: pd.Series(np.append(values.to_numpy(), np.nan)[days.places], index=entries.index, dtype=values.dtype)
        for part, values in parts.items()
    }
