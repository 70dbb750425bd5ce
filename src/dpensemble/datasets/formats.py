"""How the entries of a column are written: numbers with signs and units, dates, and texts that stand for a blank.

The format of a column follows from public rows and declarations only. An entry of a private or
new row that does not fit is blank, and no entry changes how another is read. If public rows allow two formats that
give different numbers or days, no format is chosen: the table is refused until one of them is declared.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble._checks import shown
from dpensemble._entries import Floats, Rows
from dpensemble.datasets.columns import as_text, distinct_texts, numbers_of
from dpensemble.datasets.dates import is_date_format
from dpensemble.errors import DataError, InvalidParameterError


class Kind(StrEnum):
    """Kinds of columns that a user declares. A date has its format after a colon, and a number may have an example."""

    NUMBER = "number"
    PERCENT = "percent"
    MONEY = "money"
    DATE = "date"
    CATEGORY = "category"
    TEXT = "text"
    ID = "id"
    DROP = "drop"

    @property
    def is_number(self) -> bool:
        """Whether entries are numbers."""
        return self in (Kind.NUMBER, Kind.PERCENT, Kind.MONEY)


# A text as Python writes it.
_LITERAL = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_KINDS = ", ".join("date:FORMAT" if kind == "date" else kind for kind in Kind)
# Key of blanks that are declared for all columns.
_EVERY_COLUMN = ""
#: The decimal mark of files with workbooks among them, which store numbers as numbers.
_STORED = "stored"
#: The present rules of reading. Runs of earlier versions began with the rules 1. The rules 2 read numbers with signs,
#: and the rules 3 leave out columns that name people.
RULES = 3
#: The first rules that read numbers with signs, and dates in more formats.
WRITTEN_NUMBERS = 2

# Public entries of which this share must fit. With fewer different numbers, categories serve as well.
_NEARLY_ALL, _FEW, _VERY_FEW, _CODES = 0.95, 10, 3, 0.05
# Entries that only one decimal mark explains must be this share of those that two explain, or they may be mistyped.
_EVIDENCE = 0.01

_SPACES = re.compile(r"\s|[\u200b\u2060\ufeff]")
_SAME = str.maketrans(
    {
        **dict.fromkeys("\u2212\u2013\u2010\u2011\ufe63\uff0d", "-"),
        **dict.fromkeys("\u2019\u02bc\u2018\u00b4`\u2032", "'"),
        **dict(zip("\uff10\uff11\uff12\uff13\uff14\uff15\uff16\uff17\uff18\uff19", "0123456789", strict=True)),
        "\uff0c": ",",
        "\uff0e": ".",
        "\uff05": "%",
        "\u2264": "<",
        "\u2265": ">",
    }
)
# Codes of currencies that stand beside amounts.
_CODES_OF_CURRENCIES = (
    "USD|EUR|GBP|CHF|JPY|CNY|INR|RUB|KRW|BRL|CAD|AUD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|RON|BGN|TRY|ZAR|MXN|ARS|CLP|COP|ILS|"
    "SGD|HKD|TWD|THB|IDR|MYR|PHP|VND|UAH|AED|SAR|EGP|NGN|KES"
)
_CURRENCY = (
    r"(?:US\$|C\$|CA\$|A\$|AU\$|NZ\$|R\$|[$€£¥₹₽₩₺₫฿₴₪₦¢]|Fr\.|SFr\.|kr\.?|Rs\.?|zł|Kč|"
    rf"{_CODES_OF_CURRENCIES})"
)
_CORE = r"[0-9]+(?:(?:[.,']|\x20(?=[0-9]{3}(?:[^0-9^.]|[.,][0-9]|$)))[0-9]+)*[.,]?|[.,][0-9]+"
_ENTRY = re.compile(
    rf"""
    (?P<open>\()?\s?
    (?P<limit>[<>]=?)?\s?
    (?P<sign>[+-])?\s?
    (?P<before>{_CURRENCY}|%)?\s?
    (?P<inner>[+-])?
    (?P<core>{_CORE})
    (?P<power>[eE][+-]?[0-9]{{1,3}})?
    (?P<trailing>\s?-(?=\s|$))?\s?
    (?P<after>(?:10\^?[0-9]|[^\d\s,;:()+*†‡'"<>=~?!#./&@|_\[\]\\-])(?:[^\s,;:()]{{0,10}}[^\s,;:()-])?(?:\s[^\W\d]{{1,3}})?)?
    (?P<last>\s?-)?\s?
    (?P<close>\))?
    """,
    re.VERBOSE,
)
# Brackets of a negative amount may stand behind the sign of the currency.
_AFTER_CURRENCY = re.compile(rf"^({_CURRENCY})\s?\((.+)\)$")
_ORDINAL = re.compile(r"(st|nd|rd|th|º|ª|er|ère|e|x)", re.IGNORECASE)
_PLURAL = re.compile(r"(?<=[^\W\d_]{2})(s|e)$")
_GROUPED = {mark: re.compile(rf"[1-9][0-9]{{0,2}}(?:{re.escape(mark)}[0-9]{{3}})+") for mark in (",", ".", "'", " ")}
_THREE_DIGITS = re.compile(r"[+-]?[1-9][0-9]{0,2}\.[0-9]{3}")
_LAKHS = re.compile(r"[1-9][0-9]?(?:,[0-9]{2})+,[0-9]{3}")
# What SAS, SPSS, Excel and people write for an entry that is missing.
_BLANK = re.compile(
    r"[.\-_*?/~\s]+|\.[a-z_]|#[a-z0-9/]+[!?]?|n\W?\s?[adbv]\W?|nan|nil|null|none|missing|unknown|sysmis|"
    r"not (done|available|known|applicable|reported|measured)|unk|tbd|k\W?\s?a\W?|keine angabe|unbekannt|fehlt|fehlend|"
    r"inconnue?|manquante?|non (renseigné|disponible|connu)e?|nr|nd|ns|nc",
    re.IGNORECASE,
)


def is_blank_text(text: str) -> bool:
    """Return whether a public text usually stands for a missing entry."""
    return _BLANK.fullmatch(text.translate(_SAME).strip()) is not None


def without_blank_texts(texts: pd.Series) -> pd.Series:
    """Return the present public texts that do not usually stand for a missing entry."""
    places, distinct = distinct_texts(texts)
    return texts[~np.array([*map(is_blank_text, distinct), True], dtype=bool)[places]]


@dataclass(frozen=True, slots=True)
class _Written:
    """The parts of an entry that looks like a number: its digits and marks, its unit, and what stands around them."""

    core: str
    unit: str
    currency: bool
    negative: bool
    limit: str
    brackets: bool
    trailing: bool
    power: int

    @classmethod
    def of(cls, text: str) -> _Written | None:
        """Return the parts, or None for an entry that is not a number with a sign or a unit."""
        plain = _AFTER_CURRENCY.sub(r"(\1\2)", _SPACES.sub(" ", text.translate(_SAME)).strip())
        match = _ENTRY.fullmatch(plain)
        if match is None or bool(match["open"]) != bool(match["close"]):
            return None
        before, after = match["before"] or "", (match["after"] or "").strip()
        trailing = bool(match["trailing"] or match["last"])
        signs = [match["sign"], match["inner"], "-" if trailing else None, "-" if match["open"] else None]
        if (before and after) or sum(sign is not None for sign in signs) > 1 or _ORDINAL.fullmatch(after):
            return None
        # 7½ is not 7, and 7² is not 7 either.
        if after[:1].isnumeric() and not after.startswith("10"):
            return None
        return cls(
            core=match["core"],
            unit=before or after,
            currency=re.fullmatch(_CURRENCY, before or after) is not None,
            negative="-" in signs,
            limit=(match["limit"] or "")[:1],
            brackets=bool(match["open"]),
            trailing=trailing,
            power=int((match["power"] or "e0")[1:]),
        )

    def size(self, decimal: str, marks: str) -> float | None:
        """Return the number without its sign, or None if the marks do not fit."""
        whole, found, part = self.core.partition(decimal)
        if decimal in part or (part and not part.isdigit()) or (found and not whole and not part):
            return None
        if whole and not whole.isdigit():
            groups = [mark for mark in marks if mark != decimal and _is_grouped(whole, mark)]
            if not groups:
                return None
            whole = whole.replace(groups[0], "")
        return float(f"{whole or '0'}.{part or '0'}e{self.power}")

    def sizes(self) -> tuple[float | None, float | None]:
        """Return the number by a decimal point, and by a decimal comma."""
        return self.size(".", ",' "), self.size(",", ".' ")

    @property
    def marks(self) -> set[str]:
        """Points, commas, apostrophes and spaces in the number."""
        return set(self.core) & set(".,' ")


def _is_grouped(whole: str, mark: str) -> bool:
    return _GROUPED[mark].fullmatch(whole) is not None or (mark == "," and _LAKHS.fullmatch(whole) is not None)


@dataclass(frozen=True, kw_only=True)
class NumberFormat:
    """How the numbers of one column are written.

    `decimal` is the decimal mark, or empty if public rows show none: then an entry with a mark is read only if nothing
    else can be meant. `marks` group thousands. `unit` is the only unit. `bare` is whether numbers without the unit are
    read. `brackets` and `trailing` are whether negative amounts are in brackets, or have their sign behind. With
    `limits`, <5 is read as 5 times `below`, and >5 as 5. With `points`, numbers without any sign have decimal points
    already, because the reader of the file put them there. With `stored`, numbers without any sign that cannot be
    thousands have decimal points, because a workbook stores them.
    """

    kind: str = Kind.NUMBER.value
    decimal: str = ""
    marks: str = ""
    unit: str = ""
    bare: bool = True
    brackets: bool = False
    trailing: bool = False
    limits: bool = False
    below: float = 1.0
    points: bool = False
    stored: bool = False

    def number(self, text: str) -> float:
        """Return what one entry is, or NaN if the entry does not fit."""
        written = _Written.of(text)
        return np.nan if written is None else self._number(written)

    def _number(self, written: _Written) -> float:
        if not self._fits(written):
            return np.nan
        size = written.size(self.decimal, self.marks) if self.decimal else self._only_size(written)
        if size is None or not np.isfinite(size):
            return np.nan
        return (-size if written.negative else size) * (self.below if written.limit == "<" else 1.0)

    def _fits(self, written: _Written) -> bool:
        if written.unit != self.unit and not _is_plural(written.unit, self.unit) and (written.unit or not self.bare):
            return False
        return (
            (self.limits or not written.limit)
            and (self.brackets or not written.brackets)
            and (self.trailing or not written.trailing)
        )

    def _only_size(self, written: _Written) -> float | None:
        """Return the number if both decimal marks give the same, or only one gives any."""
        point, comma = written.size(".", self.marks), written.size(",", self.marks)
        both = written.sizes()
        if None not in both and both[0] != both[1]:
            return None
        return comma if point is None else point

    def numbers(self, entries: pd.Series) -> Floats:
        """Return what each entry is, NaN for those that do not fit. Each distinct text is read once."""
        places, texts = distinct_texts(entries)
        values = np.full(len(texts) + 1, np.nan)
        if texts:
            # Most entries are plain, and pandas reads these fast.
            if self.bare and (self.points or self.decimal == "."):
                values[:-1] = _plain_numbers(texts)
            elif self.bare and self.stored:
                values[:-1] = np.where(_may_be_thousands(texts), np.nan, _plain_numbers(texts))
            for place in np.flatnonzero(np.isnan(values[:-1])).tolist():
                values[place] = self.number(texts[place])
        return values[places]

    def written(self, number: float) -> str:
        """Return a stored number as this format reads it."""
        # More than three digits behind the mark, so that the mark groups no thousands.
        text = f"{np.format_float_positional(number)}0000"
        return text.replace(".", self.decimal) if self.decimal and not (self.points or self.stored) else text

    def words(self) -> str:
        """Return the format in words, such as "money in $, as 1,234.5"."""
        parts = [self.kind + (f" in {self.unit}" if self.unit and self.kind != Kind.PERCENT else "")]
        if self.decimal or self.marks:
            parts.append(f"as 1{self.marks[:1]}234" + (f"{self.decimal}5" if self.decimal else ""))
        if self.unit and self.bare:
            parts.append(f"with or without {self.unit}")
        if self.brackets:
            parts.append("negative in brackets")
        if self.limits:
            parts.append("<5 as " + ("5" if self.below == 1 else "2.5"))
        return ", ".join(parts)


def _is_plural(one: str, other: str) -> bool:
    return len(one) > 2 and len(other) > 2 and _PLURAL.sub("", one) == _PLURAL.sub("", other)


def _may_be_thousands(texts: list[str]) -> NDArray[np.bool_]:
    return np.array([_THREE_DIGITS.fullmatch(text.strip()) is not None for text in texts], dtype=bool)


def _plain_numbers(texts: list[str]) -> Floats:
    """Return texts as floats as a column of numbers is read, NaN for other and infinite ones."""
    # The texts of pandas hold no half characters, and no number has one.
    whole = [text if text.isascii() else text.encode("utf-8", "replace").decode() for text in texts]
    values = numbers_of(pd.DataFrame({0: np.array(whole, dtype=object)}))[0][:, 0]
    return np.where(np.isfinite(values), values, np.nan)


class _Counted(NamedTuple):
    """Distinct public texts and how often each occurs."""

    texts: list[str]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, entries: pd.Series) -> Self:
        places, texts = distinct_texts(entries)
        return cls(texts, np.bincount(places[places >= 0], minlength=len(texts)))

    def without(self, which: NDArray[np.bool_]) -> _Counted:
        keep = np.flatnonzero(~which).tolist()
        return _Counted([self.texts[place] for place in keep], self.counts[keep])


@dataclass(frozen=True, kw_only=True)
class EntryRules:
    """What a user declares about the entries of columns, and what is known about all files of a run.

    Parameters
    ----------
    columns : mapping of str to str
        The kind of a column: ``number``, ``percent``, ``money``, ``date:FORMAT``, ``category``, ``text``, ``id`` or
        ``drop``. A number may have an example that shows its marks, and its sign if no public entry does:
        ``number:1.234,5`` or ``money:$1,234.5``.
    blank : sequence, or mapping of str to sequence
        Entries that stand for a blank, in all columns or by column. The empty name is for all columns, too.
    below_limit : {"limit", "half"}
        What <5 is: the limit itself, or half of it.
    decimal : {".", ",", "stored"}, optional
        Decimal mark of numbers in the files. Numbers without a sign have points already. ``"stored"`` is for workbooks:
        the numbers that they store have points, and do not show how people write numbers there.
    rules : int
        The version of these rules.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    blank: Mapping[str, Sequence[object]] | Sequence[object] = field(default_factory=dict)
    below_limit: str = "limit"
    decimal: str | None = None
    rules: int = RULES
    _blanks: Mapping[str, Sequence[object]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_column = self.blank if isinstance(self.blank, Mapping) else {_EVERY_COLUMN: self.blank}
        object.__setattr__(self, "_blanks", by_column)
        for name, declared in self.columns.items():
            _require_declaration(name, declared)
        if self.below_limit not in ("limit", "half"):
            raise InvalidParameterError(
                f"below_limit={self.below_limit!r:.40} is unknown: use 'limit' or 'half'.", parameter="below_limit"
            )

    def settings(self) -> dict[str, Rows]:
        """Return these rules as arguments of a step that reads tables."""
        names = [name for name in self.columns if name not in self.dropped]
        return {
            "columns": {name: self.columns[name] for name in names} or None,
            "blank": {name: list(blanks) for name, blanks in self._blanks.items()} or None,
            "below_limit": self.below_limit,
            "decimal": self.decimal,
            "rules": self.rules,
        }

    def without(self, name: str) -> EntryRules:
        """Return the same rules without what is declared about one column by its name."""
        columns = {other: kind for other, kind in self.columns.items() if other != name}
        blanks = {other: one for other, one in self._blanks.items() if other != name}
        return replace(self, columns=columns, blank=blanks)

    @property
    def dropped(self) -> list[str]:
        """Columns that are left out of every table."""
        return [name for name, declared in self.columns.items() if declared == Kind.DROP]

    def kind(self, name: str) -> Kind | None:
        """Return the declared kind of a column, without its format, or None."""
        declared = self.columns.get(name)
        return None if declared is None else Kind(declared.partition(":")[0])

    def form(self, name: str) -> str:
        """Return what follows the declared kind of a column: the format of its dates, or an example of its numbers."""
        return self.columns.get(name, "").partition(":")[2]

    def blanks_of(self, name: str) -> list[str]:
        """Return the texts that are declared blanks of a column."""
        declared = [*self._blanks.get(_EVERY_COLUMN, ()), *self._blanks.get(name, ())]
        # A table may have thousands of columns, most of them without any.
        texts = as_text(pd.Series(declared, dtype=object)).dropna() if declared else ()
        return [str(text).strip() for text in texts]

    def require_columns(self, names: Sequence[str]) -> None:
        """Raise for a declaration of a column that does not exist."""
        known = set(map(str, names))
        for parameter, given in (("columns", self.columns), ("blank", self._blanks)):
            unknown = [name for name in given if name not in known and name != _EVERY_COLUMN]
            if unknown:
                raise InvalidParameterError(
                    f"{parameter} names {shown(unknown[0])}, which is not a column of the public table: name one of "
                    "its columns.",
                    parameter=parameter,
                )

    def require_some(self, name: str, kind: str, present: Sized, fits: Rows) -> None:
        """Raise if public entries are present in a column that is declared to hold a kind, and none fits."""
        if len(present) and not np.any(fits):
            raise InvalidParameterError(
                f"columns={{{name!r}: {self.columns[name]!r}}} declares {kind}, but no public entry of the column is "
                "read by it: declare another kind.",
                parameter="columns",
            )

    def format_of(self, name: str, entries: pd.Series) -> NumberFormat | None:
        """Return how the public entries of a column of texts are written as numbers, or None if they are not numbers.

        Raises
        ------
        DataError
            If two formats explain the entries and give different numbers, or if declared numbers are none.
        """
        if self.rules < WRITTEN_NUMBERS:
            return None
        kind, counted = self.kind(name), _Counted.of(entries)
        if kind is not None and not kind.is_number:
            return None
        blanks = set(self.blanks_of(name))
        is_blank = np.array([text.strip() in blanks or is_blank_text(text) for text in counted.texts], dtype=bool)
        rest = counted.without(is_blank)
        if kind is None and not rest.texts:
            return None
        public = _PublicNumbers.of(rest, self.decimal)
        if kind is None and not public.are_numbers(has_blanks=bool(is_blank.any())):
            return None
        if kind is not None:
            self.require_some(name, "numbers", rest.texts, public.fits)
        found = public.format(name, self.form(name), kind)
        below = 0.5 if self.below_limit == "half" else 1.0
        return replace(found, below=below, limits=found.limits or (kind is not None and below != 1))


def entry_rules(
    columns: Sequence[str] | None,
    blanks: Sequence[str] | None,
    below_limit: str | None,
    *,
    declared: bool = False,
) -> EntryRules:
    """Return the rules of options such as ``--column age=number`` and ``--blank age=99``, each any number of times.

    A blank without the name of a column is for all columns. If columns are `declared`, there are no public rows that
    show how entries are written, so only columns to drop may be named.
    """
    kinds: dict[str, str] = {}
    for text in columns or ():
        # A name may hold the sign, as in BMI>=30, and a kind never does.
        name, equals, kind = text.rpartition("=")
        if not equals or not name or name in kinds:
            raise InvalidParameterError(
                f"column={text!r:.80} must be NAME=KIND, once for each column: use {_KINDS}.",
                parameter="column",
            )
        kinds[name] = kind
    blank: dict[str, list[object]] = {}
    for text in blanks or ():
        name, equals, entry = text.partition("=")
        blank.setdefault(name if equals else _EVERY_COLUMN, []).append(entry if equals else text)
    given = {"column": {*kinds.values()} - {Kind.DROP}, "blank": blank, "below_limit": below_limit}
    of_public = [name for name, one in given.items() if declared and one]
    if of_public:
        raise InvalidParameterError(
            f"{of_public[0]} is about entries as public rows write them, but declared_columns replace public rows: "
            f"leave {of_public[0]} out, and write plain numbers.",
            parameter=of_public[0],
        )
    with as_options():
        return EntryRules(columns=kinds, blank=blank, below_limit=below_limit or "limit")


@contextmanager
def as_options() -> Iterator[None]:
    """State declarations in errors as options of the command line."""
    try:
        yield
    except InvalidParameterError as error:
        raise InvalidParameterError(_with_options(error), parameter=error.parameter) from None
    except DataError as error:
        raise DataError(_with_options(error)) from None


def _with_options(error: Exception) -> str:
    return re.sub(rf"columns=\{{({_LITERAL}): ({_LITERAL})\}}", _as_option, str(error))


def _as_option(match: re.Match[str]) -> str:
    # An apostrophe stands between double quotes, which are easier to read than what shlex writes.
    declaration = f"{ast.literal_eval(match[1])}={ast.literal_eval(match[2])}"
    plain = "'" in declaration and not re.search(r'["$`\\!]', declaration)
    return f'--column "{declaration}"' if plain else f"--column {shlex.quote(declaration)}"


def _require_declaration(name: str, declared: object) -> None:
    kind, _, form = declared.partition(":") if isinstance(declared, str) else ("", "", "")
    if kind in ("number", "percent", "money") and (not form or _marks_of(form) is not None):
        return
    if kind in (Kind.CATEGORY, Kind.TEXT, Kind.ID, Kind.DROP) and not form:
        return
    if kind == Kind.DATE and is_date_format(form):
        return
    raise InvalidParameterError(
        f"columns={{{name!r}: {shown(declared)}}} is not a kind of column: use {_KINDS}, with a format such "
        "as date:%d.%m.%Y or number:1.234,5 after a colon.",
        parameter="columns",
    )


def _marks_of(example: str) -> tuple[str, str] | None:
    """Return the thousands mark and the decimal mark of an example such as 1.234,5 or 9,876.50."""
    written = _Written.of(example)
    core = "" if written is None or written.negative or written.limit or written.power else written.core
    match = re.fullmatch(r"[0-9]{1,3}([,.' ]?)[0-9]{3}([.,])[0-9]+", core)
    return None if match is None or match[1] == match[2] else (match[1], match[2])


def _unit_of(example: str) -> str:
    """Return the sign or the unit of an example such as $1,234.5, or an empty text."""
    written = _Written.of(example)
    return "" if written is None else written.unit


@dataclass(frozen=True)
class _PublicNumbers:
    """Distinct public texts, without blanks, of a column that may hold numbers.

    `plain` are numbers as a column of numbers holds them. `parts` are those of texts with the usual `unit`, or None.
    """

    counts: NDArray[np.int64]
    plain: NDArray[np.bool_]
    parts: list[_Written | None]
    unit: str
    texts: list[str]
    decimal: str | None

    @classmethod
    def of(cls, counted: _Counted, decimal: str | None) -> _PublicNumbers:
        parts = [_Written.of(text) for text in counted.texts]
        units: dict[str, int] = {}
        for part, count in zip(parts, counted.counts.tolist(), strict=True):
            if part is not None and part.unit:
                units[part.unit] = units.get(part.unit, 0) + count
        unit = max(units, key=lambda one: units[one], default="")
        own = [
            part if (part is not None and part.unit in ("", unit)) or (part and _is_plural(part.unit, unit)) else None
            for part in parts
        ]
        plain = np.isfinite(_plain_numbers(counted.texts)) if counted.texts else np.zeros(0, dtype=bool)
        return cls(counted.counts, plain, own, unit, counted.texts, decimal)

    @cached_property
    def sizes(self) -> Floats:
        """The numbers by a decimal point and by a decimal comma, NaN where the marks do not fit."""
        sizes = [(None, None) if part is None else part.sizes() for part in self.parts]
        return np.array(sizes, dtype=np.float64).reshape(len(self.parts), 2)

    @cached_property
    def fits(self) -> NDArray[np.bool_]:
        """Which texts are numbers by any mark."""
        return np.isfinite(self.sizes).any(axis=1) | self._has_points

    @cached_property
    def _has_points(self) -> NDArray[np.bool_]:
        """Which texts have points because the reader or the workbook writes points."""
        if self.decimal == _STORED:
            return self.plain & ~_may_be_thousands(self.texts)
        return self.plain & (self.decimal == ",")

    @cached_property
    def _judged(self) -> NDArray[np.bool_]:
        """Which texts show the decimal mark."""
        return self.fits & ~self._has_points

    def _evidence(self) -> tuple[int, int, int]:
        """Return how many entries only a point explains, only a comma, and either with another number."""
        point, comma = np.isfinite(self.sizes).T & self._judged
        either = point & comma & (self.sizes[:, 0] != self.sizes[:, 1])
        return tuple(int(self.counts[which].sum()) for which in (point & ~comma, comma & ~point, either))  # type: ignore[return-value]

    def are_numbers(self, *, has_blanks: bool) -> bool:
        """Return whether a column that nobody declared is read as numbers."""
        n_entries, odd = int(self.counts.sum()), ~self.fits
        if self.counts[odd].sum() > (1 - _NEARLY_ALL) * n_entries:
            return False
        values = self.sizes[self.fits]
        different = len(set(np.where(np.isfinite(values[:, 0]), values[:, 0], values[:, 1]).tolist()))
        dressed = any(part is not None and (part.unit or part.limit or part.brackets) for part in self.parts)
        point, comma, either = self._evidence()
        doubtful = either > 0 and max(point, comma) <= _EVIDENCE * either
        if not (dressed or has_blanks or odd.any() or not self.plain.all() or doubtful):
            # Numbers that a table stores as texts.
            return False
        if self._are_codes() or all(part is None or part.brackets for part in self.parts):
            return False
        enough = different >= _FEW or (different >= _VERY_FEW and 2 * different > n_entries)
        return enough or (different >= _VERY_FEW and not dressed and not odd.any() and bool(self.plain.all()))

    def _are_codes(self) -> bool:
        codes = np.array([re.fullmatch(r"0[0-9]+", text.strip()) is not None for text in self.texts], dtype=bool)
        return bool(self.fits.any()) and codes.sum() > _CODES * self.fits.sum()

    def format(self, name: str, example: str, kind: str | None) -> NumberFormat:
        """Return the format of these entries. `example` states marks."""
        stated = _marks_of(example) if example else None
        if stated is not None:
            marks, decimal = stated
        else:
            decimal = self.decimal if self.decimal in (".", ",") else self._decimal(name)
        seen = [part for part, fits in zip(self.parts, self.fits.tolist(), strict=True) if part is not None and fits]
        if stated is None:
            marks = "".join(mark for mark in ",.' " if mark != decimal and self._groups(mark, decimal))
        # A sign that no public entry has may be declared by the example.
        unit = self.unit or _unit_of(example)
        currency = any(part.currency for part in seen if part.unit)
        usual = Kind.MONEY if currency else Kind.PERCENT if self.unit == "%" else Kind.NUMBER
        bare = not self.unit or any(not part.unit for part in seen)
        if bare and self.unit == "%" and kind is None:
            self._require_one_scale(name)
        return NumberFormat(
            kind=str(kind or usual),
            decimal=decimal,
            marks=marks,
            unit=unit,
            bare=bare,
            brackets=any(part.brackets for part in seen),
            trailing=any(part.trailing for part in seen),
            limits=any(part.limit for part in seen),
            points=self.decimal == "," and example == "",
            stored=self.decimal == _STORED,
        )

    def _groups(self, mark: str, decimal: str) -> bool:
        """Return whether a mark groups thousands of some public entry."""
        for part, judged in zip(self.parts, self._judged.tolist(), strict=True):
            if part is not None and judged and mark in part.core:
                other = decimal or ("," if mark == "." else ".")
                if mark in part.core.partition(other)[0] and part.size(other, mark) is not None:
                    return True
        return False

    def _decimal(self, name: str) -> str:
        """Return the decimal mark that public entries show, or an empty text. Raise if two are possible."""
        point, comma, either = self._evidence()
        if (either and max(point, comma) <= _EVIDENCE * either) or (either and point and comma):
            raise self._two_formats(name)
        if point and comma:
            less, more = sorted((point, comma))
            if less > (1 - _NEARLY_ALL) * more:
                raise self._two_formats(name)
        return "" if not (point or comma) else "." if point >= comma else ","

    def _two_formats(self, name: str) -> DataError:
        differ = np.isfinite(self.sizes).all(axis=1) & (self.sizes[:, 0] != self.sizes[:, 1])
        place = int(np.flatnonzero(differ if differ.any() else self.fits)[0])
        text = shown(self.texts[place].strip())
        point, comma = (f"{size:.12g}" for size in self.sizes[place])
        kind = Kind.PERCENT if self.unit == "%" else Kind.NUMBER
        first, second = (f"columns={{{name!r}: '{kind}:{example}'}}" for example in ("1,234.5", "1.234,5"))
        if not differ.any():
            return DataError(
                f"column {name!r} of the public table has decimal points and decimal commas: write all numbers alike, "
                f"or give {first} to read only points, or {second} to read only commas."
            )
        return DataError(
            f"column {name!r} of the public table has numbers such as {text}, which may be {point} or {comma}: give "
            f"{first} if a point is the decimal sign ({point}), or {second} if a comma is ({comma})."
        )

    def _require_one_scale(self, name: str) -> None:
        """Raise if numbers without a sign are shares of 1 where the others are percentages."""
        values = np.where(np.isfinite(self.sizes[:, 0]), self.sizes[:, 0], self.sizes[:, 1])
        bare = np.array([part is not None and not part.unit for part in self.parts], dtype=bool) & self.fits
        signed = self.fits & ~bare
        if max(values[bare], default=0) <= 1 < max(values[signed], default=0):
            raise DataError(
                f"column {name!r} of the public table has percentages and also numbers up to 1 without a sign, which "
                f"may be shares: write all alike, give columns={{{name!r}: 'percent'}} to read these numbers as "
                f"percentages, or columns={{{name!r}: 'drop'}} to leave the column out."
            )


def decimal_of_files(stated: str | None, *, has_workbook: bool) -> str | None:
    """Return the decimal mark of files for `EntryRules`: the stated one, or that of stored numbers."""
    return stated or (_STORED if has_workbook else None)


def points_may_group(texts: pd.Series, values: Floats) -> bool:
    """Return whether public numbers such as 1.234 may as well be thousands, because every one has three digits behind.

    `values` are the texts as numbers.
    """
    present = np.isfinite(values)
    sizes = np.abs(values[present])
    # Almost all columns end here, without a look at their texts.
    if not len(sizes) or sizes.max() >= 1000:
        return False
    if (np.abs(sizes * 1000 - np.rint(sizes * 1000)) > _EVIDENCE / 1000).mean() > _EVIDENCE:
        return False
    grouped, others = set[str](), set[str]()
    for text in texts[present].tolist():
        if "." in text:
            fits = _THREE_DIGITS.fullmatch(text.strip()) is not None
            (grouped if fits else others).add(text.strip())
            if len(others) > _EVIDENCE * len(sizes):
                # There cannot be enough of the others.
                return False
    return len(grouped) >= _VERY_FEW and len(others) <= _EVIDENCE * len(grouped)
