"""Text columns of public rows in which most entries are numbers or dates, or look like them, and the rest are not.

One odd entry makes a column text, because no private entry may decide how a column is read. So its numbers become
categories. No private row is read here, and public entries may be quoted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dpensemble.datasets.columns import as_text, numbers_of
from dpensemble.datasets.dates import which_are_dates

# A share of entries above this is most of them.
_MOST = 0.5
# With fewer different numbers, categories serve as well. A note is then a remark, and with very few there is none.
_FEW, _VERY_FEW = 10, 3
_MOST_QUOTED, _LONGEST = 3, 24
_UNITS, _SAME_UNIT, _CODES = 3, 0.5, 0.05

_THOUSANDS = "[.,'’ʼ`_\\s]"
_DRESSED = re.compile(
    rf"""
    [('"]*\s*
    (?:[<>≤≥=~≈≃±'*]|ca\.?|>=|<=)*\s*
    [+\-−–]?\s*(?:[$€£¥₹₽₩₺₫฿₴₪¢]|US\$|R\$|[A-Z]{{3}}\b|Fr\.?|kr\.?)?\s*[+\-−–]?\s*
    (?:\d{{1,3}}(?:,\d{{2}})*(?:{_THOUSANDS}\d{{3}})+(?:[.,]\d+)?|\d+(?:[.,]\d*)?|[.,]\d+)
    (?:[eE][+\-−]?\d+)?\s*
    (?P<unit>(?:10\^?\d|[^\d\s,;:()+*†\-])[^\s,;:()]{{0,11}}(?:\s[^\W\d]{{1,3}})?)?
    \s*[)'"]*[+\-*†‡]*
    """,
    re.VERBOSE,
)
_DECIMAL_COMMA = re.compile(r"^\D*\d{1,3}(\.\d{3})*,\d{1,2}\D*$|^\D*\d+,\d{1,2}\D*$")
_ORDINAL = re.compile(r"(st|nd|rd|th|º|ª|er|e|\.)", re.IGNORECASE)
_SHORT_DATE = re.compile(r"\s*\d{1,2}([./-])\d{1,2}\1\d{2}\s*|\s*\d{1,2}[ -]?[A-Za-z]{3}[ -]?\d{2}\s*")


@dataclass(frozen=True, slots=True)
class NumberLike:
    """What a column of texts mostly holds, as the beginning of a sentence, the cure, and whether it is doubtful."""

    text: str
    cure: str
    is_doubtful: bool


def number_like(name: str, entries: pd.Series) -> NumberLike | None:
    """Return what is remarkable about a column of public texts without blanks, or None if it holds categories."""
    texts = as_text(entries).astype(str)
    if not len(texts):
        return None
    distinct = texts.value_counts()
    values, frequency = distinct.index.to_series(), distinct.to_numpy()
    numbers = numbers_of(pd.DataFrame({name: values.to_numpy(dtype=object)}))[0][:, 0]
    plain = np.isfinite(numbers)
    share = float(frequency[plain].sum() / len(texts))
    different = len(set(numbers[plain].tolist()))
    if _are_codes(values[plain]):
        return None
    if share > _MOST and different >= _VERY_FEW:
        return _with_odd_ones(name, distinct[~plain], share, different)
    dressed = _dressed(values, frequency)
    share = float(frequency[plain | dressed].sum() / len(texts))
    if share > _MOST and int((plain | dressed).sum()) >= _FEW:
        return _with_signs(name, distinct[dressed], distinct[~(plain | dressed)], share)
    return _dates(name, distinct, values, frequency)


def _with_odd_ones(name: str, odd: pd.Series, share: float, different: int) -> NumberLike:
    if not len(odd):
        stored = f"column {name!r} is not read as numbers, because the table stores its numbers as texts"
        return NumberLike(stored, "store them as numbers in all tables", False)
    return NumberLike(
        f"column {name!r} is not read as numbers, because {percent(1 - share)} of its public entries are none: "
        f"{quoted(odd)} (the other {percent(share)} are)",
        "blank these entries, or write them as numbers, in all tables",
        different >= _FEW,
    )


def _with_signs(name: str, dressed: pd.Series, odd: pd.Series, share: float) -> NumberLike:
    commas = sum(int(count) for text, count in dressed.items() if _DECIMAL_COMMA.fullmatch(str(text)))
    decimal = ' (if commas are decimal signs, with --decimal ",")' if 2 * commas > dressed.sum() else ""
    rest = f"; the others are {quoted(odd)}" if len(odd) else ""
    return NumberLike(
        f"column {name!r} is not read as numbers, although {percent(share)} of its public entries look like numbers "
        f"with signs or units: {quoted(dressed)}{rest}",
        f"write plain numbers such as 1200.5 in all tables{decimal}",
        True,
    )


def _dates(name: str, distinct: pd.Series, values: pd.Series, frequency: np.ndarray) -> NumberLike | None:
    short = np.array([_SHORT_DATE.fullmatch(text) is not None for text in values], dtype=bool)
    share = float(frequency[short].sum() / frequency.sum())
    if share > _MOST and int(short.sum()) >= _FEW:
        return NumberLike(
            f"column {name!r} is not read as dates, because the years of {percent(share)} of its public entries have "
            f"two digits: {quoted(distinct[short])}",
            "write dates as 2025-12-31 in all tables",
            True,
        )
    if len(values) < _FEW:
        return None
    is_date = which_are_dates(values)
    share = float(frequency[is_date].sum() / frequency.sum())
    if share <= _MOST or is_date.all():
        return None
    return NumberLike(
        f"column {name!r} is not read as dates, because {percent(1 - share)} of its public entries are none in the "
        f"format of the others: {quoted(distinct[~is_date])}",
        "blank these entries, or write them as 2025-12-31, in all tables",
        True,
    )


def _dressed(values: pd.Series, frequency: np.ndarray) -> np.ndarray:
    """Return which distinct texts look like numbers with signs or units, if there are few units."""
    matches = [_DRESSED.fullmatch(text.strip()) for text in values]
    units: dict[str, int] = {}
    dressed = np.zeros(len(values), dtype=bool)
    for place, match in enumerate(matches):
        unit = (match["unit"] or "") if match else ""
        if match and not _ORDINAL.fullmatch(unit):
            dressed[place] = True
            units[unit] = units.get(unit, 0) + int(frequency[place])
    common = max(units.values(), default=0) > _SAME_UNIT * sum(units.values())
    return dressed if common or len(units) <= _UNITS else np.zeros(len(values), dtype=bool)


def _are_codes(plain: pd.Series) -> bool:
    """Return whether numbers are codes: some begin with zeros, as amounts rarely do."""
    return len(plain) > 0 and float(plain.str.fullmatch(r"0\d+").mean()) > _CODES


def quoted(counts: pd.Series) -> str:
    """Quote the most frequent of some texts, cut and without characters that a terminal obeys."""
    shown: Iterator[str] = ("".join(map(_visible, str(text))) for text in counts.index[:_MOST_QUOTED])
    quoted = [repr(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}...") for text in shown]
    more = len(counts) - len(quoted)
    return ", ".join(quoted) + (f" and {more:,} more" if more > 0 else "")


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    return " " if character.isspace() else "\N{REPLACEMENT CHARACTER}"


def percent(share: float) -> str:
    """Return a share as a percentage in words, never rounded up to 100 %."""
    return f"{100 * share:.2g} %" if share < 0.995 else f"{int(10_000 * share) / 100:g} %"
