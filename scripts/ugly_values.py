"""Read generated ugly tables whose true values are known: each entry is read as what it is, or blank, or refused.

    python scripts/ugly_values.py --tables 500 --seed 0

A table is a public and a private file of one locale, in one kind of file. Every other table has a column that two
formats explain. Such a table must be refused with both options, and each option must work when it is pasted. This
generator and its truth share no code with the reader. Every table is made from a seed of its own.
"""

from __future__ import annotations

import argparse
import bz2
import contextlib
import datetime
import gzip
import io
import lzma
import math
import re
import shlex
import shutil
import sys
import tempfile
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np
import pandas as pd
import pyarrow as pa

from dpensemble.cli import main
from dpensemble.datasets import CSVFormat, TablePreparation
from dpensemble.datasets.formats import entry_rules
from dpensemble.workflow.table_files import ReadOptions, TableFiles
from dpensemble.workflow.tables import file_tables

N_PUBLIC, N_PRIVATE = 60, 24
#: What an entry means: a number, a day, a text, or None for a blank.
Meaning = float | datetime.date | str | None
#: What is in a cell: a text, or a number or a day that a workbook stores.
Cell = str | float | datetime.date

_GERMAN = [
    "Januar",
    "Februar",
    "März",
    "April",
    "Mai",
    "Juni",
    "Juli",
    "August",
    "September",
    "Oktober",
    "November",
    "Dezember",
]
_FRENCH = [
    "janvier",
    "février",
    "mars",
    "avril",
    "mai",
    "juin",
    "juillet",
    "août",
    "septembre",
    "octobre",
    "novembre",
    "décembre",
]
_ENGLISH = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]


@dataclass(frozen=True)
class Locale:
    """How the people of one country write numbers and days, and how their programs export tables.

    `money` and `percent` have {} for the number. `days` have the option that declares them, `clear` days need none.
    """

    name: str
    decimal: str
    thousands: str
    money: tuple[str, ...]
    percent: tuple[str, ...]
    days: str
    clear: tuple[str, ...]
    sep: str
    months: tuple[str, ...]
    blanks: tuple[str, ...]
    indian: bool = False


LOCALES = (
    Locale(
        "en-US",
        ".",
        ",",
        ("${}", "${} ", "USD {}", "{} USD"),
        ("{}%", "{} %"),
        "%m/%d/%Y",
        ("%Y-%m-%d", "%d%b%Y", "%B %d, %Y", "%b %d, %Y"),
        ",",
        tuple(_ENGLISH),
        (".", "n/a", "NA", "#N/A", ".A", "Unknown"),
    ),
    Locale(
        "en-GB",
        ".",
        ",",
        ("£{}", "GBP {}", "£ {}"),
        ("{}%",),
        "%d/%m/%Y",
        ("%d %B %Y", "%d-%b-%Y", "%d/%m/%Y", "%d/%m/%y"),
        ",",
        tuple(_ENGLISH),
        ("-", "N/A", "not known", "*", "#NULL!"),
    ),
    Locale(
        "de-DE",
        ",",
        ".",
        ("{} €", "{}\u00a0€", "€ {}", "{} EUR"),
        ("{} %", "{}\u00a0%", "{}%"),
        "%d.%m.%Y",
        ("%d.%m.%Y", "%d.%m.%y", "%d. %B %Y", "%Y-%m-%d"),
        ";",
        tuple(_GERMAN),
        ("k.A.", "-", "#NV", "fehlt", "keine Angabe"),
    ),
    Locale(
        "de-CH",
        ".",
        "'",
        ("CHF {}", "{} CHF", "Fr. {}", "SFr. {}"),
        ("{}%", "{} %"),
        "%d.%m.%Y",
        ("%d.%m.%Y", "%d. %B %Y"),
        ";",
        tuple(_GERMAN),
        ("k. A.", "–", "unbekannt", "#DIV/0!"),
    ),
    Locale(
        "fr-FR",
        ",",
        "\u202f",
        ("{} €", "{}\u00a0€", "{} EUR"),
        ("{}\u00a0%", "{} %", "{}\u202f%"),
        "%d/%m/%Y",
        ("%d/%m/%Y", "%d %B %Y", "%d %b %Y"),
        ";",
        tuple(_FRENCH),
        ("n.d.", "manquant", "inconnu", "#N/A", "ND"),
    ),
    Locale(
        "en-IN",
        ".",
        ",",
        ("₹{}", "₹ {}", "Rs. {}", "INR {}"),
        ("{}%",),
        "%d/%m/%Y",
        ("%d-%b-%Y", "%d/%m/%Y", "%Y-%m-%d"),
        ",",
        tuple(_ENGLISH),
        ("NA", "nil", "?", "not available"),
        indian=True,
    ),
    Locale(
        "sv-SE",
        ",",
        "\u00a0",
        ("{} kr", "{} SEK", "SEK {}"),
        ("{} %", "{}\u00a0%"),
        "%d/%m/%Y",
        ("%Y-%m-%d", "%Y%m%d"),
        ";",
        (),
        (".", "-", "#N/A", "null"),
    ),
    Locale(
        "pl-PL",
        ",",
        " ",
        ("{} zł", "{} PLN"),
        ("{}%", "{} %"),
        "%d.%m.%Y",
        ("%d.%m.%Y", "%d.%m.%y", "%Y-%m-%d"),
        ";",
        (),
        ("-", "b.d.", "NULL", "?"),
    ),
)
UNITS = (" kg", " mmol/L", " mg/dl", " cm", " Jahre", " µg/l", "kg", " 10^9/L", " °C", " mm Hg")
NAMES = (
    "Größe (cm)",
    "a=b",
    "p's",
    'so "x"',
    "né",
    "50 %",
    "total",
    "x",
    "Alter [Jahre]",
    "$",
    "a b",
    "q;r",
    "z,1",
    "#",
)


@dataclass
class Column:
    """A generated column: cells and their meaning, public ones first.

    `options` are both declarations that the error has to offer, the true one first, where two formats explain the
    public rows. `other_meanings` are what cells mean by the second one. `numbers` is whether the column should be read
    as numbers or days.
    """

    kind: str
    cells: list[Cell]
    meanings: list[Meaning]
    options: tuple[str, ...] = ()
    other_meanings: list[Meaning] = field(default_factory=list)
    numbers: bool = True
    #: Rows with entries that another hand wrote. They may be blank.
    odd: set[int] = field(default_factory=set)
    #: Whether the column may also be read at once, because each entry has one meaning only.
    may_be_read: bool = False


def number_text(value: float, decimals: int, thousands: str, decimal: str, *, indian: bool = False) -> str:
    """Return a number that is not negative, as it is written with these marks."""
    whole, _, part = f"{value:.{decimals}f}".partition(".")
    groups = [whole[-3:]]
    rest, size = whole[:-3], 2 if indian else 3
    while rest:
        groups.append(rest[-size:])
        rest = rest[:-size]
    return thousands.join(reversed(groups)) + (decimal + part if part else "")


def day_text(day: datetime.date, how: str, months: tuple[str, ...]) -> str:
    """Return a day in a format, with months of the locale. Nothing depends on the machine's language."""
    names = months or tuple(_ENGLISH)
    short = names[day.month - 1][:3]
    values = {"%Y": f"{day.year}", "%y": f"{day.year % 100:02}", "%m": f"{day.month:02}", "%d": f"{day.day:02}"}
    values |= {"%B": names[day.month - 1], "%b": short}
    return re.sub("%[YymdBb]", lambda match: values[match[0]], how)


def _values(rng: np.random.Generator, n: int, decimals: int, scale: float) -> list[float]:
    return [round(float(value), decimals) for value in rng.lognormal(size=n) * scale]


def _marks(rng: np.random.Generator, locale: Locale) -> str:
    spaces = {"\u202f": "\u202f\u00a0 ", "\u00a0": "\u00a0\u202f ", "'": "'\u2019"}
    return str(rng.choice(list(spaces.get(locale.thousands, locale.thousands))))


def _with_blanks(column: Column, rng: np.random.Generator, blanks: tuple[str, ...], *, also_public: bool) -> Column:
    """Put texts for a blank into some rows."""
    text = str(rng.choice(blanks))
    for row in np.flatnonzero(rng.random(len(column.cells)) < 0.15).tolist():
        if row >= N_PUBLIC or also_public:
            column.cells[row], column.meanings[row] = text, None
            if column.other_meanings:
                column.other_meanings[row] = None
    return column


def _numbers(
    kind: str, rng: np.random.Generator, locale: Locale, dress: str, n: int, *, decimals: int, scale: float
) -> Column:
    values, mark = _values(rng, n, decimals, scale), _marks(rng, locale)
    mark = "" if rng.random() < 0.3 else mark
    minus = str(rng.choice(["-{}", "\u2212{}", "({})", "{}-", "- {}"]))
    negative = rng.random(n) < (0.25 if rng.random() < 0.4 and kind != "percent" else 0)
    cells: list[Cell] = []
    meanings: list[Meaning] = []
    for value, below in zip(values, negative.tolist(), strict=True):
        text = dress.format(number_text(value, decimals, mark, locale.decimal, indian=locale.indian))
        cells.append(minus.format(text) if below and value else text)
        meanings.append(-value if below else value)
    # The first ones show the decimal sign, and that the mark groups thousands.
    for row, sign in ((0, 1.0), (1, 1.0), (N_PUBLIC - 1, 1.0)):
        value = round(1234.5 + row + 0.25 * (decimals > 1), min(decimals, 2))
        cells[row] = dress.format(number_text(value, decimals, mark, locale.decimal, indian=locale.indian))
        meanings[row] = sign * value
    return Column(kind, cells, meanings)


def plain(rng: np.random.Generator, locale: Locale, n: int) -> Column:
    """Numbers with a decimal sign and perhaps with thousands."""
    decimals = int(rng.choice([1, 2, 2, 4]))
    return _numbers("plain", rng, locale, "{}", n, decimals=decimals, scale=10.0 ** rng.integers(0, 6))


def money(rng: np.random.Generator, locale: Locale, n: int) -> Column:
    """Amounts in the currency of the locale."""
    return _numbers(
        "money", rng, locale, str(rng.choice(locale.money)), n, decimals=2, scale=10.0 ** rng.integers(1, 6)
    )


def percent(rng: np.random.Generator, locale: Locale, n: int) -> Column:
    """Percentages."""
    return _numbers("percent", rng, locale, str(rng.choice(locale.percent)), n, decimals=1, scale=20)


def unit(rng: np.random.Generator, locale: Locale, n: int) -> Column:
    """Measurements with a unit."""
    return _numbers("unit", rng, locale, "{}" + str(rng.choice(UNITS)), n, decimals=int(rng.choice([1, 2])), scale=30)


def limits(rng: np.random.Generator, locale: Locale, n: int) -> Column:
    """Laboratory values, some of them below a limit of detection."""
    column = _numbers("limits", rng, locale, "{}", n, decimals=2, scale=3)
    sign = str(rng.choice(["<", "< ", "≤", "<="]))
    for row in np.flatnonzero(rng.random(n) < 0.2).tolist():
        column.cells[row], column.meanings[row] = f"{sign}0{locale.decimal}1", 0.1
    return column


def counts(rng: np.random.Generator, locale: Locale, n: int) -> Column:
    """Whole numbers without any mark, and texts for a blank among them."""
    values = rng.integers(0, 100_000, n).tolist()
    column = Column("counts", [str(value) for value in values], [float(value) for value in values])
    return _with_blanks(column, rng, locale.blanks[:1], also_public=bool(rng.random() < 0.7))


def days(rng: np.random.Generator, locale: Locale, n: int) -> Column:
    """Days in a format that public rows show."""
    how = str(rng.choice(locale.clear))
    first = datetime.date(1931 if "%y" not in how else 1935, 1, 1)
    some = [first + datetime.timedelta(days=int(one)) for one in rng.integers(0, 33_000, n)]
    some[:4] = [datetime.date(1960 + row, row + 3, 28 - row) for row in range(4)]
    if "%y" in how:
        some = [day.replace(year=1930 + day.year % 100, day=min(day.day, 28)) for day in some]
    time = " 10:30:00" if rng.random() < 0.1 and how in ("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y") else ""
    return Column("days", [day_text(day, how, locale.months) + time for day in some], list(some))


def stored(rng: np.random.Generator, locale: Locale, n: int) -> Column:
    """Numbers that a workbook stores, beside numbers that were typed as texts. In other files, texts only."""
    decimals = int(rng.choice([1, 2, 3]))
    column = _numbers("stored", rng, locale, "{}", n, decimals=decimals, scale=10.0 ** rng.integers(0, 4))
    share = rng.choice([0.02, 0.5, 0.9, 1])
    # If all typed numbers have three digits behind their sign, they may be thousands.
    by_point = ("number:1,234.5", "number:1.234,5")
    column.options, column.may_be_read = by_point if locale.decimal == "." else by_point[::-1], True
    for row in np.flatnonzero(rng.random(n) < share).tolist():
        meaning = column.meanings[row]
        if isinstance(meaning, float):
            column.cells[row] = meaning
    return column


def stored_days(rng: np.random.Generator, locale: Locale, n: int) -> Column:
    """Days that a workbook stores, beside a few that were typed."""
    column = days(rng, locale, n)
    share = rng.choice([0.5, 1])
    for row in np.flatnonzero(rng.random(n) < share).tolist():
        meaning = column.meanings[row]
        if isinstance(meaning, datetime.date):
            column.cells[row] = meaning
    return Column("stored days", column.cells, column.meanings, numbers=bool(share == 1))


def codes(rng: np.random.Generator, locale: Locale, n: int) -> Column:  # noqa: ARG001
    """Texts that do not mean numbers, although some look like numbers."""
    kinds: list[Callable[[int], str]] = [
        lambda x: f"{x % 90 * 11:05d}",
        lambda x: f"{x % 5 * 10}-{x % 5 * 10 + 9}",
        lambda x: f"{x % 7 + 1}/{x % 3 + 10}",
        lambda x: f"E{x % 9}.{x % 4}",
        lambda x: f"{x % 12 + 1}{'ABC'[x % 3]}",
        lambda x: f"{x % 20 + 1}{'th' if x % 2 else 'st'}",
        lambda x: f"{x % 40} {('kg', 'lb')[x % 2]}",
        lambda x: f"{('$', '€')[x % 2]}{x % 50}",
        lambda x: ("yes", "no", "1", "0")[x % 4],
        lambda x: f"+49 {x % 90 + 10} {x % 1000:03d}",
        lambda x: f"{x % 20}:{x % 60:02d}",
        lambda x: f"{x % 9}.{x % 12}.{x % 7}",
        lambda x: f"§ {x % 30}",
        lambda x: f"{x % 13}½",
    ]
    text = kinds[rng.integers(len(kinds))]
    cells = [text(int(x)) for x in rng.integers(0, 1000, n)]
    return Column("codes", list(cells), list(cells), numbers=False)


def grouped(rng: np.random.Generator, locale: Locale, n: int) -> Column:
    """Numbers with one mark and three digits behind it: thousands, or thousandths."""
    as_thousands = bool(rng.random() < 0.5)
    mark = "," if (locale.decimal == ",") != as_thousands else "."
    dress = str(rng.choice(["{}", "{}", locale.money[0], locale.percent[0], "{} kg"]))
    whole, part = rng.integers(1, 999, n), rng.integers(0, 1000, n)
    cells: list[Cell] = [dress.format(f"{a}{mark}{b:03d}") for a, b in zip(whole, part, strict=True)]
    large = [float(1000 * a + b) for a, b in zip(whole, part, strict=True)]
    small = [float(f"{a}.{b:03d}") for a, b in zip(whole, part, strict=True)]
    kind = "percent" if "%" in dress else "number"
    examples = ("1,234.5", "1.234,5")
    is_comma = mark == ("." if as_thousands else ",")
    options = tuple(f"{kind}:{examples[one]}" for one in (is_comma, not is_comma))
    truth, other = (large, small) if as_thousands else (small, large)
    return Column("grouped", cells, list(truth), options, list(other))


def low_days(rng: np.random.Generator, locale: Locale, n: int) -> Column:
    """Days below 13, which may be months."""
    year, mark = str(rng.choice(["%Y", "%y"])), "/"
    how = locale.days.replace(".", mark).replace("%Y", year)
    other_how = f"%m{mark}%d{mark}{year}" if how.startswith("%d") else f"%d{mark}%m{mark}{year}"
    some = [
        datetime.date(int(rng.integers(1990, 2025)), int(rng.integers(1, 13)), int(rng.integers(1, 13)))
        for _ in range(n)
    ]
    some[0], some[1] = datetime.date(2001, 2, 3), datetime.date(2002, 11, 12)
    cells: list[Cell] = [day_text(day, how, ()) for day in some]
    return Column(
        "low days", cells, list(some), (f"date:{how}", f"date:{other_how}"),
        [day.replace(day=day.month, month=day.day) for day in some],
    )  # fmt: skip


def short_years(rng: np.random.Generator, locale: Locale, n: int) -> Column:  # noqa: ARG001
    """Three numbers of two digits: the first or the last may be the year."""
    some = [
        datetime.date(int(rng.integers(2001, 2029)), int(rng.integers(1, 13)), int(rng.integers(1, 29)))
        for _ in range(n)
    ]
    some[0] = datetime.date(2013, 2, 21)
    own, other = ("%d-%m-%y", "%y-%m-%d") if rng.random() < 0.5 else ("%y-%m-%d", "%d-%m-%y")
    swapped = [datetime.date(2000 + day.day, day.month, day.year - 2000) for day in some]
    return Column(
        "short years",
        [day_text(day, own, ()) for day in some],
        list(some),
        (f"date:{own}", f"date:{other}"),
        list(swapped),
    )


def two_hands(rng: np.random.Generator, locale: Locale, n: int) -> Column:  # noqa: ARG001
    """Decimal points in some rows, and decimal commas in others."""
    values = _values(rng, n, 2, 30)
    commas = rng.random(n) < 0.5
    commas[:2] = True, False
    cells: list[Cell] = [
        f"{value:.2f}".replace(".", "," if comma else ".") for value, comma in zip(values, commas, strict=True)
    ]
    # Each may be blank, by either option. Nobody can mean another number.
    options = ("number:1,234.5", "number:1.234,5")
    return Column("two hands", cells, list(values), options, list(values), odd=set(range(n)))


def half_shares(rng: np.random.Generator, locale: Locale, n: int) -> Column:
    """Percentages in half of the rows, and shares of one in the others."""
    cells: list[Cell] = []
    meanings: list[Meaning] = []
    for row, value in enumerate(_values(rng, n, 1, 20)):
        share = row % 2 == 1
        number = round(min(value, 99) / 100, 3) if share else value
        text = number_text(number, 4 if share else 1, "", locale.decimal)
        cells.append(text if share else locale.percent[0].format(text))
        meanings.append(number)
    return Column("half shares", cells, meanings, ("percent", "drop"), [])


CLEAR = (plain, money, percent, unit, limits, counts, days, stored, stored_days, codes)
AMBIGUOUS = (grouped, low_days, short_years, two_hands, half_shares)


def odd_entries(rng: np.random.Generator, locale: Locale) -> list[tuple[str, Meaning]]:
    """Return entries of another hand, with what each means. No correct reader gives any other number or day."""
    value = int(rng.integers(11, 99))
    other = "," if locale.decimal == "." else "."
    return [
        *((f"{value}{other}5", value + 0.5), (f"{value}{other}25", value + 0.25), (f"{value} lb", None)),
        *(
            (f"{value}-{value + 9}", None),
            (f"ca. {value}", None),
            (f"{value}/80", None),
            ("1.2.3.4", None),
            ("%", None),
        ),
        *((f"{value}{other}5{locale.decimal}5", None), ("31.02.2021", None), ("2021-13-45", None), ("1e999", None)),
        *(("inf", None), ("nan", None), ("-", None), ("", None), ("TRUE", None), ("0x1F", None), ("now", None)),
        *((f"{value} {value}", None), (f"${value} CHF", None), ("(5", None), ("--5", None), ("5%%", None), ("½", None)),
        *(("12:30", None), ("twelve", None), ("Mär", None), ("99/99/9999", None), ("1" * 400, None), ("٣", None)),
        *((f"{value}'5", None), ("1,2,3", None), ("1.2,3.4", None), (f"{value}th", None), ("=1+1", None)),
    ]


def with_odd_entries(column: Column, rng: np.random.Generator, locale: Locale) -> Column:
    """Replace some private entries of a column of numbers or days by those of another hand."""
    for row in np.flatnonzero(rng.random(len(column.cells)) < 0.25).tolist():
        if row >= N_PUBLIC:
            entries = odd_entries(rng, locale)
            column.cells[row], column.meanings[row] = entries[rng.integers(len(entries))]
            column.odd.add(row)
    return column


@dataclass
class Table:
    """A table of one locale, in which kind of file, and with which options it is read."""

    locale: Locale
    columns: dict[str, Column]
    file: str
    encoding: str
    options: list[str]

    def cells(self, rows: range) -> list[list[Cell]]:
        """Return the header and some rows, with a label at the end."""
        header: list[Cell] = [*self.columns, "y"]
        return [header, *([*(one.cells[row] for one in self.columns.values()), ("no", "yes")[row % 2]] for row in rows)]


def table_of(seed: int) -> Table:
    """Return the table of a seed. Every other one has a column that two formats explain."""
    rng = np.random.default_rng(seed)
    locale = LOCALES[seed // 2 % len(LOCALES)]
    makers = [CLEAR[place] for place in rng.integers(len(CLEAR), size=rng.integers(2, 6))]
    if seed % 2:
        makers += [AMBIGUOUS[seed // 2 % len(AMBIGUOUS)]]
        makers += [AMBIGUOUS[rng.integers(len(AMBIGUOUS))]] if rng.random() < 0.2 else []
    makers = [makers[place] for place in rng.permutation(len(makers))]
    names = [str(name) for name in rng.permutation(list(NAMES))]
    file = str(rng.choice(["csv", "csv", "tsv", "xlsx", "xlsx", "csv.gz", "csv.xz", "csv.zst", "csv.bz2"]))
    columns = {}
    for name, maker in zip(names, makers, strict=False):
        column = maker(rng, locale, N_PUBLIC + N_PRIVATE)
        if column.numbers and rng.random() < 0.5 and maker not in (stored_days,):
            column = _with_blanks(column, rng, locale.blanks, also_public=bool(rng.random() < 0.7))
        if column.numbers and (column.may_be_read or not column.options) and rng.random() < 0.7:
            column = with_odd_entries(column, rng, locale)
        if file != "xlsx":
            column.cells = [_typed(cell, locale) for cell in column.cells]
        column.may_be_read |= column.kind == "two hands" and file == "xlsx"
        columns[name] = column
    if {column.kind for column in columns.values()} <= {"codes", "stored days"}:
        # Ids and days of several hands are left out, and a table without any other column is refused.
        columns[names[len(columns)]] = plain(rng, locale, N_PUBLIC + N_PRIVATE)
    table = Table(locale, columns, file, "utf-8", [])
    if file.startswith("csv"):
        table.options += ["--sep", locale.sep] if rng.random() < 0.4 or locale.sep == ";" else []
        # Numbers without any sign then have a decimal comma in this file, in every column.
        commas_only = not any(column.kind in ("grouped", "two hands") for column in columns.values())
        if locale.decimal == "," and rng.random() < 0.3 and commas_only:
            table.options += ["--decimal", ","]
    encodings = [str(rng.choice(["utf-8", "utf-8-sig", "utf-16", "cp1252"])), "utf-8"]
    texts = "".join(str(cell) for row in table.cells(range(N_PUBLIC + N_PRIVATE)) for cell in row)
    table.encoding = next(one for one in encodings if _can_encode(texts, one))
    return table


def _typed(cell: Cell, locale: Locale) -> str:
    if isinstance(cell, float):
        return repr(cell).replace(".", locale.decimal)
    return cell if isinstance(cell, str) else cell.isoformat()


def _can_encode(texts: str, encoding: str) -> bool:
    try:
        texts.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def write(table: Table, path: Path, rows: range) -> Path:
    """Write some rows of a table, and return the path."""
    path = path.with_suffix(f".{table.file}")
    cells = table.cells(rows)
    if table.file == "xlsx":
        _write_workbook(path, cells)
        return path
    sep = "\t" if table.file == "tsv" else table.locale.sep
    frame = pd.DataFrame(cells[1:], columns=cells[0])
    content = frame.to_csv(index=False, sep=sep).encode(table.encoding)
    pack = {"gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress}
    ending = table.file.rpartition(".")[2]
    if ending == "zst":
        content = pa.compress(content, codec="zstd", asbytes=True)
    path.write_bytes(pack[ending](content) if ending in pack else content)
    return path


def _write_workbook(path: Path, cells: list[list[Cell]]) -> None:
    """Write a workbook as Excel does: texts, numbers, and days as numbers with a format."""
    main_part = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    document = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006/relationships"

    def cell(value: Cell) -> str:
        if isinstance(value, float):
            return f"<c><v>{value!r}</v></c>"
        if isinstance(value, datetime.date):
            return f'<c s="1"><v>{(value - datetime.date(1899, 12, 30)).days}</v></c>'
        return f'<c t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>' if value else "<c/>"

    rows = "".join(f"<row>{''.join(map(cell, row))}</row>" for row in cells)
    first = f'<Relationship Id="r1" Type="{document}/{{}}" Target="{{}}"/>'
    link = f'<Relationships xmlns="{package}">{first}{{}}</Relationships>'
    styles = f'<Relationship Id="r2" Type="{document}/styles" Target="styles.xml"/>'
    parts = {
        "_rels/.rels": link.format("officeDocument", "xl/workbook.xml", ""),
        "xl/workbook.xml": f'<workbook xmlns="{main_part}" xmlns:r="{document}"><sheets>'
        '<sheet name="Data" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": link.format("worksheet", "worksheets/sheet1.xml", styles),
        "xl/styles.xml": f'<styleSheet xmlns="{main_part}"><cellXfs count="2"><xf numFmtId="0"/><xf numFmtId="14"/>'
        "</cellXfs></styleSheet>",
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{main_part}"><sheetData>{rows}</sheetData></worksheet>',
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


@dataclass
class Outcome:
    """How one table was read: what went wrong, and what became of its columns and entries."""

    wrong: list[str] = field(default_factory=list)
    columns: Counter[tuple[str, str]] = field(default_factory=Counter)
    entries: Counter[str] = field(default_factory=Counter)


def checked(arguments: list[str]) -> tuple[int, str]:
    """Run ``dpensemble check``, and return its exit code, and its messages or notes."""
    texts = io.StringIO()
    with contextlib.redirect_stderr(texts), contextlib.redirect_stdout(texts):
        code = main(["check", *arguments])
    return code, texts.getvalue()


def judged(table: Table, folder: Path) -> Outcome:
    """Read a table as a user does, paste the options that errors offer, and compare all entries with the truth."""
    outcome = Outcome()
    paths = [
        *("--private", str(write(table, folder / "private", range(N_PUBLIC, N_PUBLIC + N_PRIVATE)))),
        *("--public", str(write(table, folder / "public", range(N_PUBLIC)))),
    ]
    arguments = [*paths, "--target", "y", "--classes", "no,yes", *table.options]
    waiting = {name: column for name, column in table.columns.items() if column.options}
    pasted: list[str] = []
    others: list[str] = []
    code, told = checked(arguments)
    while code == 2 and waiting:
        offered = _offered(told)
        name = offered[0].rpartition("=")[0] if offered else ""
        column = waiting.pop(name, None)
        if column is None or {one.rpartition("=")[2] for one in offered} != set(column.options):
            outcome.wrong.append(f"a refusal offers {offered}: {told.strip()}")
            return outcome
        outcome.columns[column.kind, "refused with both options"] += 1
        pasted += ["--column", f"{name}={column.options[0]}"]
        others += ["--column", f"{name}={column.options[1]}"]
        code, told = checked([*arguments, *pasted])
    for name, column in waiting.items():
        if column.may_be_read:
            continue
        if f"  {name} (left out)" in told or f"  {name} (category)" in told:
            # Many public entries, such as b.d., are neither numbers nor days nor known blanks, and `check` shows this.
            outcome.columns[column.kind, "stays text, as check shows"] += 1
            continue
        outcome.wrong.append(f"column {name!r} ({column.kind}) was not refused")
    if code:
        outcome.wrong.append(f"exit code {code}: {told.strip()}")
        return outcome
    _compare(table, arguments, pasted, outcome, other=False)
    if others:
        code, told = checked([*arguments, *others])
        if code:
            outcome.wrong.append(f"the other option ends with exit code {code}: {told.strip()}")
        else:
            _compare(table, arguments, others, outcome, other=True)
    return outcome


def _offered(told: str) -> list[str]:
    """Return the declarations that a message offers, as a shell reads them."""
    offered = []
    for part in told.split("--column ")[1:]:
        reader = shlex.shlex(part, posix=True, punctuation_chars=False)
        reader.whitespace_split, reader.commenters = True, ""
        with contextlib.suppress(ValueError):
            offered.append(str(reader.get_token()).rstrip(",."))
    return offered


def _compare(table: Table, arguments: list[str], declared: list[str], outcome: Outcome, *, other: bool) -> None:
    given = dict(zip(arguments[::2], arguments[1::2], strict=True))
    entries = entry_rules(declared[1::2], None, None)
    files = TableFiles(
        private=Path(given["--private"]), public=Path(given["--public"]), target="y", classes=["no", "yes"],
        drop=tuple(entries.dropped), form=CSVFormat(given.get("--sep"), given.get("--decimal"), False, None, None),
        entries=entries,
    )  # fmt: skip
    tables = file_tables(files, ReadOptions(blanks=True, takes_blocks=True, on_bad_record="zero"))
    preparation = TablePreparation(None, **tables.entries.settings()).fit(tables.X_public)
    public, private = preparation.transform(tables.X_public), preparation.transform(tables.X_private)
    read = pd.concat([public, private], ignore_index=True)
    kinds = dict(zip(preparation.feature_names_in_, preparation.kinds_, strict=True))
    for name, column in table.columns.items():
        if name not in kinds or (other and column.options and not column.other_meanings):
            continue
        meanings = column.other_meanings if other and column.other_meanings else column.meanings
        lost = 0
        for row, (wrong, verdict) in enumerate(_verdicts(name, column, meanings, kinds[name], read)):
            if wrong:
                cell = column.cells[row]
                outcome.wrong.append(
                    f"{name!r} ({column.kind}) row {row}: {cell!r} is {meanings[row]!r}, read as {verdict}"
                )
            else:
                outcome.entries[verdict] += 1
                lost += verdict == "lost"
        if lost > 0.05 * len(column.cells):
            outcome.wrong.append(f"{name!r} ({column.kind}): {lost} entries are blank without need, {column.cells[:4]}")
        if not other:
            outcome.columns[column.kind, f"read as {kinds[name]}"] += 1


def _verdicts(
    name: str, column: Column, meanings: list[Meaning], kind: str, read: pd.DataFrame
) -> Iterator[tuple[bool, str]]:
    """Yield for each entry whether it is wrong, and what became of it."""
    for row, meaning in enumerate(meanings):
        if kind == "date":
            yield _of_day(name, meaning, read.iloc[row], odd=row in column.odd)
        elif kind in ("number", "written number"):
            number = float(read[name].iloc[row])
            if math.isnan(number):
                yield False, "blank" if meaning is None else "odd, blank" if row in column.odd else "lost"
            elif math.isinf(number) and row in column.odd:
                yield False, "infinite, a bad record"
            elif kind == "number" and meaning is not None and column.cells[row] == _digits(number, column.cells[row]):
                # Days such as 20251231 and codes such as 00123 in a column of digits are read as these numbers.
                yield False, "digits"
            elif isinstance(meaning, float) and math.isclose(number, meaning, rel_tol=1e-9, abs_tol=1e-12):
                yield False, "number"
            else:
                yield True, repr(number)
        else:
            yield False, "text"


def _digits(number: float, cell: Cell) -> str:
    return f"{number:.0f}".zfill(len(cell)) if isinstance(cell, str) else ""


def _of_day(name: str, meaning: Meaning, parts: pd.Series, *, odd: bool) -> tuple[bool, str]:
    known = {part: parts[f"{name}: {part}"] for part in ("year", "month", "weekday") if f"{name}: {part}" in parts}
    if all(pd.isna(value) for value in known.values()):
        return False, "blank" if meaning is None else "odd, blank" if odd else "lost"
    if not isinstance(meaning, datetime.date):
        return True, str(known)
    truth = {"year": meaning.year, "month": meaning.month, "weekday": meaning.strftime("%A")}
    return any(truth[part] != value for part, value in known.items()), "day" if known else "lost"


def run(tables: int, seed: int) -> Outcome:
    """Read `tables` tables, print what was wrong, and return what became of all columns and entries."""
    whole = Outcome()
    for number in range(seed, seed + tables):
        folder = Path(tempfile.mkdtemp(prefix="ugly-"))
        try:
            table = table_of(number)
            outcome = judged(table, folder)
        except Exception:
            outcome = Outcome(wrong=[traceback.format_exc()])
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        for text in outcome.wrong[:4]:
            print(f"seed {number} ({table.locale.name}, {table.file}, {table.options}): {text}")
        whole.wrong += [f"seed {number}: {text}" for text in outcome.wrong]
        if (number + 1 - seed) % 50 == 0:
            print(f"{number + 1 - seed} tables, {len(whole.wrong)} wrong", file=sys.stderr, flush=True)
        whole.columns += outcome.columns
        whole.entries += outcome.entries
    return whole


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    result = run(given.tables, given.seed)
    for (kind, way), count in sorted(result.columns.items()):
        print(f"{kind:>12}  {way:<28} {count:>5}")
    print(dict(result.entries), f"{len(result.wrong)} wrong")
    raise SystemExit(1 if result.wrong else 0)
