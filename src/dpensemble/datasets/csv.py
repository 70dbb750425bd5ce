"""Files of texts, CSV and workbooks of Excel, read so that no row affects how another is read.

The layout of a file is its header line, the separator of its columns, and their names. All lines of a public file may
decide its layout. Each other file is read as the public file and its own header line show, or as options state. Its
records decide nothing, so neighbouring files have the same layout and the same error. A record is a line, and no line
affects how another is read. A row of a workbook is read as a line (see `dpensemble.datasets.excel`).
"""

from __future__ import annotations

import csv
import gzip
import lzma
import re
import zipfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from io import StringIO
from itertools import chain, islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, TextIO, cast

import pandas as pd

from dpensemble._checks import integer_between
from dpensemble._files import is_pipe, text_file
from dpensemble.datasets.excel import SEPARATOR, is_workbook, opened_sheet
from dpensemble.datasets.frames import require_names
from dpensemble.errors import DataError, FileError, InvalidParameterError

#: Names of separators that look odd in a message.
_SEPARATORS = {";": "';'", "\t": "tab", "|": "'|'"}
# Lines of a public file that show its layout, and lines among which a header is looked for.
_SHOWING, _HIGHEST = 1000, 50
# Longest quoted text. The standard library's limit is 2**17 characters.
_LONGEST = 2**31 - 1
# White space of any kind, and invisible characters that editors leave beside a name.
_SPACES = "".join(filter(str.isspace, map(chr, range(0x3001)))) + "\ufeff\u200b\u200e\u200f\u2060"
# Only to tell a header from records: dates count, too.
_NUMBER = re.compile(r"[+-]?\d[\d.,:/ -]*(e[+-]?\d+)?%?", re.IGNORECASE)
# The first line of a file for Excel, which may be filled up with separators.
_SEP_LINE = re.compile(r"[\ufeff\s]*\"?sep=([^\w\".\r\n])\1*\"?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Expected:
    """What is known about a file before it is read, from options, the public table, a declaration or a student.

    A column whose name is one of `names` but for spaces gets that name. A header line has all `required` names.
    `sep` and `lines_above` are those of the public file. With `search`, the header may be any of the first lines, which
    is only for rows that no guarantee protects. In messages, `whose` table has the names.
    """

    names: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()
    sep: str | None = None
    lines_above: int = 0
    search: bool = False
    whose: str = "the public table"


@dataclass(frozen=True, slots=True)
class CSVLayout:
    """The layout of one file.

    `header` is the place of the header line, counted from 0, and `lines_above` counts the lines above it that are not
    blank, without a line that names the separator (`has_sep_line`). The last `n_optional` columns of `names` have no
    name in the file, so records may lack them. `n_entries` counts all entries of the header, and `n_spaced` names with
    spaces around them. `sheet` is the sheet of a workbook.
    """

    sep: str
    header: int
    names: tuple[str, ...]
    n_optional: int = 0
    n_entries: int = 0
    lines_above: int = 0
    has_sep_line: bool = False
    n_spaced: int = 0
    sheet: str | None = None

    def words(self, stated_sep: str | None) -> str:
        """Return the layout in words, and what decided it. `stated_sep` is the separator that an option states."""
        by = "sep= in its first line" if self.has_sep_line else "--sep" if stated_sep else "usual, or as public"
        facts = [f"{_separator_words(self.sep)} separates columns ({by})"]
        facts = [
            *(facts if self.sheet is None else [f"sheet {self.sheet!r}"]),
            f"the header is line {self.header + 1:,}",
        ]
        if self.lines_above:
            facts.append(f"lines above the header that are skipped: {self.lines_above:,}")
        if self.sheet is None and self.n_entries > len(self.names) - self.n_optional:
            facts.append("separators at the ends of lines are left out")
        if self.n_spaced:
            facts.append(f"names without the spaces around them: {self.n_spaced:,}")
        return "; ".join(facts)


_Lines = Sequence[tuple[int, list[str]]]


class _Top:
    """The first lines of a file, read as far as needed."""

    def __init__(self, path: Path, lines: Iterator[str], how: CSVFormat, like: Expected) -> None:
        self.path, self.how, self.like = path, how, like
        self._stated_sep, self._usual_sep = _as_character(how.sep), how.separator(path)
        self._rest, self._lines = lines, list[str]()
        self._known = _known_names(like.names)
        first = self._first_at(0, self._usual_sep)
        named = None if is_workbook(path) else _SEP_LINE.fullmatch(self.line(first))
        self.has_sep_line = named is not None
        self.start = first + 1 if named else 0
        self.seps = self._seps(named and named[1])

    def _seps(self, named: str | None) -> list[str]:
        if is_workbook(self.path):
            return [SEPARATOR]
        if named is None:
            own, usual = self._stated_sep, [self.like.sep, self._usual_sep]
            return [own] if own is not None else list(dict.fromkeys(one for one in usual if one is not None))
        if self._stated_sep not in (None, named):
            raise DataError(
                f"{self.path} names another separator in its first line (sep=) than --sep does: leave out --sep, or "
                "correct that line."
            )
        return [named]

    def line(self, place: int) -> str:
        """Return a line, or an empty text after the last line."""
        while len(self._lines) <= place:
            line = next(self._rest, None)
            if line is None:
                return ""
            self._lines.append(line)
        return self._lines[place]

    def _first_at(self, place: int, sep: str) -> int:
        """Return the place of the first line from `place` on that is not blank."""
        start = place
        while (line := self.line(place)) and _is_blank(line, sep):
            place += 1
        return place if line else start

    def place(self, lines_above: int, sep: str) -> int:
        """Return the place of the header if so many lines stand above it, blank ones included."""
        return self._first_at(self.start + lines_above, sep)

    def place_below(self, texts_above: int, sep: str) -> int:
        """Return the place of the header if so many lines that are not blank stand above it."""
        place = self.place(0, sep)
        for _ in range(texts_above):
            place = self._first_at(place + 1, sep)
        return place

    def shown(self, sep: str) -> _Lines:
        """Return places and entries of many lines at the top. Only for public files."""
        self.line(self.start + _SHOWING)
        places = range(self.start, min(len(self._lines), self.start + _SHOWING))
        read = ((place, _entries_of(self._lines[place].rstrip("\r\n"), sep)) for place in places)
        lines = [(place, entries) for place, entries in read if entries and not _is_blank(self._lines[place], sep)]
        if not is_workbook(self.path):
            return lines
        # As spreadsheets write lines: rows of a workbook end with their last cell.
        width = max((len(entries) for _, entries in lines), default=0)
        return [(place, entries + [""] * (width - len(entries))) for place, entries in lines]

    def header(self, place: int, sep: str) -> CSVLayout:
        """Return the layout if a line is the header."""
        entries = self._entries(place, sep)
        names = [self._name(entry, number) for number, entry in enumerate(entries)]
        n_named = len(entries)
        while n_named > 1 and not entries[n_named - 1].strip(_SPACES):
            n_named -= 1
        # A trailing column without a name is one only if the public table has it.
        width = max([n_named, *(number + 1 for number, name in enumerate(names) if name in self.like.names)])
        return CSVLayout(
            sep=sep,
            header=place,
            names=tuple(names[:width]),
            n_optional=width - n_named,
            n_entries=len(entries),
            lines_above=sum(not _is_blank(self.line(above), sep) for above in range(self.start, place)),
            has_sep_line=self.has_sep_line,
            n_spaced=sum(entry != entry.strip(_SPACES) != "" for entry in entries),
        )

    def names(self, place: int, sep: str) -> set[str]:
        """Return the names in a line, none if it cannot be read."""
        try:
            return set(self.header(place, sep).names)
        except FileError:
            return set()

    def _entries(self, place: int, sep: str) -> list[str]:
        line = self.line(place).rstrip("\r\n")
        if _is_blank(line, sep):
            raise FileError(f"{self.path} cannot be read: it is empty.")
        entries = _entries_of(line, sep)
        if entries is None and self.how.multiline_text:
            with _long_fields():
                entries = next(csv.reader(chain(self._lines[place:], self._rest), delimiter=sep), None)
        if entries is None:
            raise FileError(f"{self.path} cannot be read: a quotation mark in its header is never closed; close it.")
        return entries

    def _name(self, entry: str, number: int) -> str:
        if entry in self.like.names and entry:
            return entry
        name = _stripped(entry)
        return self._known.get(name, name) if name else f"Unnamed: {number}"


def _stripped(entry: str) -> str:
    """Return a name without spaces around it, and without quotation marks that stood between spaces."""
    name = entry.strip(_SPACES)
    if name != entry and len(name) > 1 and name[0] == name[-1] == '"':
        name = name[1:-1].replace('""', '"').strip(_SPACES)
    return name


def _known_names(names: Collection[str]) -> dict[str, str]:
    """Return names by their form without spaces, if no two of them have the same."""
    counts = Counter(map(_stripped, names))
    return {_stripped(name): name for name in names if counts[_stripped(name)] == 1}


def _of_other(top: _Top) -> tuple[int, str]:
    """Return place and separator of the header of a file whose records decide nothing."""
    like, required, stated = top.like, top.like.required, top.how.skip_lines
    firsts = [(top.place(0, sep), sep) for sep in top.seps]
    # Options count all lines. Files may have other blank lines than the public one.
    numbers = range(like.lines_above, like.lines_above + 1) if not like.search else range(1, _HIGHEST)
    below = [
        (top.place_below(number, sep) if stated is None else top.place(stated, sep), sep)
        for number in (numbers if stated is None else (stated,))
        for sep in top.seps
    ]
    if not required:
        return below[0]
    for place, sep in firsts:
        # The first line is a title or a header, but never a record.
        if 2 * len(required & top.names(place, sep)) > len(required):
            return place, sep
    for place, sep in below:
        # All names, since part of them could be a record of a file without lines above its header.
        if required <= top.names(place, sep):
            return place, sep
    if (like.lines_above if stated is None else stated) and not like.search:
        raise DataError(
            f"the columns of {like.whose} are neither in the first line of {top.path} nor below as many lines as "
            "--skip-lines or the public table shows: give --skip-lines with the number of lines above the header, or "
            "write both files alike."
        )
    return firsts[0]


def _of_public(top: _Top) -> tuple[int, str]:
    """Return place and separator of the header of a public file, all of whose lines may be looked at."""
    sep, stated = top.seps[0], top.how.skip_lines
    first = top.place(0, sep)
    lines = top.shown(sep)
    if not lines or lines[0][0] != first:
        return first, sep
    if stated is None:
        # A header such as a;b;c is not a title, although decimal commas divide the records below it.
        is_other = len(lines[0][1]) == 1 and any(sign != sep and sign in lines[0][1][0] for sign in ";\t|")
        return first if is_other else _below_titles(lines), sep
    place, entries = top.place(stated, sep), dict(lines)
    numeric = _number_columns(lines)
    # The lines above a header may stand in another file of the run only.
    plain = _like_records(entries.get(place, []), numeric) and not _like_records(entries[first], numeric)
    return first if plain else place, sep


def _below_titles(lines: _Lines) -> int:
    """Return the place of the first line that can be the header, if all lines above it are titles."""
    width = _usual_length(lines)
    filled = sorted(_n_core(entries) for _, entries in lines if len(entries) == width)
    # Columns without those at the end that are blank in all rows but a few. A title or a header may be longer.
    n_filled = filled[-1 - len(filled) // 20]
    titles: list[list[str]] = []
    for place, entries in lines[:_HIGHEST]:
        enough = len(entries) == width and _n_filled(entries) >= max(2, (n_filled + 1) // 2)
        if not (enough or n_filled <= _n_core(entries) <= width):
            titles.append(entries)
            continue
        if not titles:
            return place
        numeric = _number_columns(lines)
        # Without numbers, only a title of a single entry is surely no header.
        sure = not _like_records(entries, numeric) and (numeric or all(_n_filled(title) == 1 for title in titles))
        return place if sure else lines[0][0]
    return lines[0][0]


def _usual_length(lines: _Lines) -> int:
    """Return the number of entries of most lines below the top ones."""
    counts = Counter(len(entries) for _, entries in lines[len(lines) // 2 :])
    return max(counts, key=lambda length: (counts[length], length))


def _n_core(entries: Sequence[str]) -> int:
    """Return the number of entries without blank ones at the end."""
    return max((number + 1 for number, entry in enumerate(entries) if entry.strip(_SPACES)), default=0)


def _n_filled(entries: Sequence[str]) -> int:
    return sum(bool(entry.strip(_SPACES)) for entry in entries)


def _number_columns(lines: _Lines) -> set[int]:
    """Return the columns that hold numbers in most lines of the usual length."""
    width = _usual_length(lines)
    rows = [entries for _, entries in lines if len(entries) == width]
    return {
        place for place, column in enumerate(zip(*rows, strict=True)) if 2 * sum(map(_is_number, column)) > len(rows)
    }


def _like_records(entries: Sequence[str], numeric: Collection[int]) -> bool:
    """Return whether an entry is a number in a column of numbers, so that the line is no header."""
    return any(_is_number(entry) for number, entry in enumerate(entries) if number in numeric)


def _is_number(entry: str) -> bool:
    return _NUMBER.fullmatch(entry.strip(_SPACES)) is not None


def _check(path: Path, layout: CSVLayout, sep: str, *, public: bool) -> None:
    """Raise for repeated names, and if the file has another separator."""
    require_names(str(path), layout.names, quoted=public)
    if layout.n_entries == 1:
        # The name itself is not shown: without a header, it is a record.
        for other, sign_words in ((",", "','"), *_SEPARATORS.items()):
            if other in layout.names[0]:
                flag = "tab" if other == "\t" else other
                raise DataError(
                    f"{path} has only one column if {_separator_words(sep)} separates columns, but {sign_words} in its "
                    f'first line: give --sep "{flag}".'
                )


def _separator_words(sep: str) -> str:
    """Return a separator as it is written in messages."""
    return _SEPARATORS.get(sep, f"'{sep}'")


class _long_fields:  # noqa: N801
    """Let the standard library read long quoted texts in the block."""

    def __enter__(self) -> None:
        self._usual = csv.field_size_limit(_LONGEST)

    def __exit__(self, *_: object) -> None:
        csv.field_size_limit(self._usual)


def _entries_of(line: str, sep: str) -> list[str] | None:
    """Return the entries of a line without its end, or None if a quotation mark is never closed."""
    if '"' not in line:
        return line.split(sep)
    with _long_fields():
        reader = csv.reader([line, "x"], delimiter=sep)
        entries = next(reader)
        return entries if reader.line_num == 1 else None


def _is_blank(line: str, sep: str) -> bool:
    """Return whether a line holds nothing but spaces."""
    return not line.strip(" \t\r\n".replace(sep, ""))


#: Texts that pandas reads as blanks.
BLANKS = frozenset(
    (
        *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
        *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
    )
)
# Lines that pandas reads together. Rows get consecutive numbers, and only the texts of these lines are stored twice.
_LINES_AT_ONCE = 2**16
# Characters after which no more lines are read together, so that chunks of long lines fit into memory.
_CHARACTERS_AT_ONCE = 2**27


def _tables_of_lines(
    path: Path,
    text: Iterable[str],
    layout: CSVLayout,
    rows: int | None,
    *,
    keep_broken: bool,
    not_blank: Mapping[str, Collection[str]],
) -> Iterator[pd.DataFrame]:
    """Yield the records after a header as tables of texts, with consecutive row numbers.

    `path` is for messages, and lines of `text` have their own ends. With ``rows=None``, the size of the tables is
    chosen automatically. With `keep_broken`, a broken line becomes a row in which every entry is missing. By default it
    raises. A line is broken if it has an open quotation mark, or another number of entries than the header. Blank
    entries at the end of a line, which no name belongs to, do not count. `not_blank` has texts that are entries of a
    column, although they mean a blank elsewhere.
    """
    start, n_tables = 0, 0
    names, sep, blanks = list(layout.names), layout.sep, _blanks_of(list(layout.names), not_blank)
    text = iter(text)
    for _ in islice(text, layout.header + 1):
        pass
    lines = _whole_lines(path, text, layout, keep_broken)
    while (part := _some(lines, rows or _LINES_AT_ONCE)) or not n_tables:
        n_tables += 1
        table = pd.read_csv(
            # pandas removes a byte order mark from the first line that it reads, which must not be a record.
            StringIO(_broken(len(names), sep) + "".join(part)),
            header=None,
            names=names,
            index_col=False,
            dtype=str,
            sep=sep,
            skip_blank_lines=False,
            low_memory=False,
            na_values=blanks,
            keep_default_na=blanks is None,
        )
        table = table.iloc[1:]
        table.index = pd.RangeIndex(start, start + len(table))
        start += len(table)
        yield table


def _some(lines: Iterator[str], most: int) -> list[str]:
    """Return the next lines: at most a number of them, and fewer if they are very long."""
    part: list[str] = []
    n_characters = 0
    while len(part) < most and n_characters < _CHARACTERS_AT_ONCE and (line := next(lines, None)) is not None:
        part.append(line)
        n_characters += len(line)
    return part


def _blanks_of(names: list[str], not_blank: Mapping[str, Collection[str]]) -> dict[str, list[str]] | None:
    """Return the texts that are blanks in each column, or None if these are the usual ones in all columns."""
    if not not_blank:
        return None
    return {name: sorted(BLANKS.difference(not_blank.get(name, ()))) for name in names}


def _broken(n_names: int, sep: str) -> str:
    """Return a line in which every entry is missing."""
    return sep * (n_names - 1) + "\n" if n_names > 1 else '""\n'


def _whole_lines(path: Path, text: Iterator[str], layout: CSVLayout, keep_broken: bool) -> Iterator[str]:
    """Yield lines that pandas reads as exactly one row each, with one entry for each name."""
    sep, n_names, header = layout.sep, len(layout.names), layout.header + 1
    broken = _broken(n_names, sep)
    for number, line in enumerate(text, start=header + 1):
        if _is_blank(line, sep):
            continue
        bare = line.rstrip("\r\n")
        if '"' not in bare and bare.count(sep) == n_names - 1:
            yield bare + "\n"
            continue
        entries = _entries_of(bare, sep)
        fitting = None if entries is None else _fitting(entries, n_names, layout.n_optional)
        if fitting is not None:
            yield sep.join(f'"{entry.replace(chr(34), chr(34) * 2)}"' for entry in fitting) + "\n"
        elif keep_broken:
            yield broken
        else:
            raise FileError(f"{path} cannot be read: {_why(entries, number, n_names, header)}.")


def _fitting(entries: list[str], n_names: int, n_optional: int) -> list[str] | None:
    """Return one entry for each name, or None. Only this record's own entries count."""
    if len(entries) < n_names:
        missing = n_names - len(entries)
        return entries + [""] * missing if missing <= n_optional else None
    # Separators at the end of a line, as spreadsheets write them.
    return None if any(map(str.strip, entries[n_names:])) else entries[:n_names]


def _why(entries: list[str] | None, number: int, n_names: int, header: int) -> str:
    if entries is None:
        return (
            f"a quotation mark in line {number:,} is never closed (the header is line {header:,}); close it, or give "
            "--multiline-text if texts hold line breaks"
        )
    return _wrong_length(number, len(entries), n_names, header)


def _wrong_length(line: int, n_entries: int, n_names: int, header: int = 1) -> str:
    """Return which line has another number of entries than the header."""
    return (
        f"line {line:,} has {n_entries} entries, but the header has {n_names} (the header is line {header:,}); quote "
        "entries that hold a separator, or name the right one (--sep)"
    )


#: Endings of text files, and those that may follow them.
_ENDINGS = (".csv", ".tsv", ".txt")
_PACKED = (".gz", ".zip", ".bz2", ".xz", ".zst")
# Digits in groups of three, and a decimal comma: 1.234,5.
_COMMA_NUMBER = r"^(?=.*\d)\s*([+-]?)(\d{1,3}(?:\.\d{3})+|\d*)(?:,(\d+))?((?:[eE][+-]?\d+)?)\s*$"


@dataclass(frozen=True, slots=True)
class CSVFormat:
    """How a CSV file, or a workbook of Excel, is written.

    Parameters
    ----------
    sep : str or None
        Separator of columns, one character or ``"tab"``. None is a comma, and a tab in ``.tsv`` files.
    decimal : {".", ","} or None
        Decimal sign of numbers. None is a point. With a comma, points group thousands: 1.234,5.
    multiline_text : bool
        Whether quoted texts may hold line breaks. Then one open quotation mark changes how all later
        lines are read, and the guarantee is for records as they are read, not for lines of the file.
    skip_lines : int or None
        Lines above the header, such as titles, besides a line ``sep=;``. A file without such lines may begin with the
        header. None is what the public file shows.
    sheet : str or None
        Sheet of a workbook. None is the only visible one.

    Raises
    ------
    InvalidParameterError
        If a setting has another value.
    """

    sep: str | None = None
    decimal: str | None = None
    multiline_text: bool = False
    skip_lines: int | None = None
    sheet: str | None = None

    def __post_init__(self) -> None:
        sep = _as_character(self.sep)
        if sep is not None and (len(sep) != 1 or sep.isalnum() or sep in '".\r\n'):
            raise InvalidParameterError(
                f'sep={self.sep!r} is not a separator of columns: use one character such as ";", or "tab".',
                parameter="sep",
            )
        if self.decimal not in (None, ".", ","):
            raise InvalidParameterError(f'decimal={self.decimal!r} is unknown: use "." or ",".', parameter="decimal")
        if self.decimal == "," == sep:
            raise InvalidParameterError(
                'decimal="," and sep="," cannot be combined; files with decimal commas usually have sep=";".',
                parameter="decimal",
            )
        if self.skip_lines is not None:
            integer_between("skip_lines", self.skip_lines, 0)

    def separator(self, path: Path) -> str:
        """Return the character that separates the columns of a file."""
        if is_workbook(path):
            return SEPARATOR
        usual = "\t" if _endings(path)[0] == ".tsv" else ";" if self.decimal == "," else ","
        return _as_character(self.sep) or usual


def is_csv(path: Path) -> bool:
    """Return whether a file holds texts: CSV, compressed or not or from a pipe, or a workbook of Excel."""
    inner, outer = _endings(path)
    return inner in _ENDINGS or (outer == ".zip" and inner == "") or is_workbook(path) or is_pipe(path)


def read_csv(
    path: Path,
    how: CSVFormat,
    *,
    like: Expected | None = None,
    public: bool = False,
    keep_broken: bool = False,
    not_blank: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> pd.DataFrame:
    """Return the table in a file. Every entry is a text as it is written, or NaN if it is empty or means a blank.

    All lines of a `public` file may decide its layout. With `keep_broken`, an unreadable line becomes a row in which
    every entry is missing. By default, it raises. `not_blank` has texts that are entries of a column, although they
    mean a blank elsewhere.
    """
    layout = csv_layout(path, how, like=like, public=public)
    tables = list(_read_tables(path, how, layout, None, keep_broken, not_blank))
    table = tables[0] if len(tables) == 1 else pd.concat(tables)
    if not public:
        return table
    # Separators at the ends of lines make columns without names and entries.
    width = len(layout.names)
    while width > len(layout.names) - layout.n_optional and table.iloc[:, width - 1].isna().all():
        width -= 1
    return table.iloc[:, :width]


def csv_chunks(path: Path, how: CSVFormat, rows: int, like: Expected | None = None) -> Iterator[pd.DataFrame]:
    """Yield the table in a file in chunks of `rows` rows, with consecutive row numbers."""
    return _read_tables(path, how, csv_layout(path, how, like=like), rows, keep_broken=False, not_blank={})


def csv_layout(path: Path, how: CSVFormat, *, like: Expected | None = None, public: bool = False) -> CSVLayout:
    """Return the layout of a file. Records of a file that is not `public` do not decide it."""
    like = Expected() if like is None else like
    if not public or is_pipe(path) or not path.exists():
        return _layout(path, how, like, public)
    state = path.stat()
    return _public_layout(path, how, like, state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=16)
def _public_layout(path: Path, how: CSVFormat, like: Expected, *_: int) -> CSVLayout:
    """Return the layout of a public file in one state. A run asks several times, and a thousand lines may decide it."""
    return _layout(path, how, like, public=True)


def _layout(path: Path, how: CSVFormat, like: Expected, public: bool) -> CSVLayout:
    with _opened(path, how) as (sheet, lines):
        top = _Top(path, iter(lines), how, like)
        place, sep = _of_public(top) if public else _of_other(top)
        layout = top.header(place, sep)
    _check(path, layout, sep, public=public)
    if like.required and not set(like.required) & set(layout.names):
        raise DataError(
            f"the first line of {path} names none of the columns of {like.whose}: write names there, or give "
            "--skip-lines with the number of lines above the header."
        )
    if sheet is not None:
        # Cells right of the header are ignored, and rows end with their last cell.
        names = layout.names[: len(layout.names) - layout.n_optional]
        return replace(layout, names=names, n_optional=0, n_entries=len(names), sheet=sheet)
    if how.decimal == "," == layout.sep:
        raise DataError(f"{path} has commas between columns, but decimal={how.decimal!r}: leave out --decimal.")
    if public and layout.n_entries > len(layout.names):
        unnamed = tuple(f"Unnamed: {number}" for number in range(len(layout.names), layout.n_entries))
        return replace(layout, names=layout.names + unnamed, n_optional=layout.n_optional + len(unnamed))
    return layout


@contextmanager
def _opened(path: Path, how: CSVFormat, layout: CSVLayout | None = None) -> Iterator[tuple[str | None, Iterable[str]]]:
    """Yield the name of the sheet of a workbook, or None, and the lines of a file, whose `layout` may be known."""
    if not is_workbook(path):
        with text_file(path, _ENDINGS) as file:
            yield None, file
        return
    known = {} if layout is None else {"header": layout.header, "width": len(layout.names)}
    with opened_sheet(path, how.sheet, decimal=how.decimal or ".", **known) as sheet:
        yield sheet


def _read_tables(
    path: Path,
    how: CSVFormat,
    layout: CSVLayout,
    rows: int | None,
    keep_broken: bool,
    not_blank: Mapping[str, Collection[str]],
) -> Iterator[pd.DataFrame]:
    with _opened(path, how, layout) as (sheet, lines):
        if how.multiline_text and sheet is None:
            tables = _multiline_tables(path, cast(TextIO, lines), layout, rows, not_blank)
        else:
            tables = _tables_of_lines(path, lines, layout, rows, keep_broken=keep_broken, not_blank=not_blank)
        for table in tables:
            yield _with_points(table) if how.decimal == "," else table


def _multiline_tables(
    path: Path, file: TextIO, layout: CSVLayout, rows: int | None, not_blank: Mapping[str, Collection[str]]
) -> Iterator[pd.DataFrame]:
    for _ in islice(file, layout.header):
        pass
    blanks = _blanks_of(list(layout.names), not_blank)
    read: Any = pd.read_csv(
        file,
        dtype=str,
        sep=layout.sep,
        chunksize=rows,
        low_memory=False,
        na_values=blanks,
        keep_default_na=blanks is None,
    )
    for table in [read] if rows is None else read:
        if not isinstance(table.index, pd.RangeIndex):
            # A long first row would shift the columns of all other rows.
            raise DataError(
                f"{path} cannot be read: its rows have more entries than its header; separate columns only by "
                f"{_separator_words(layout.sep)}, or name another separator (--sep)."
            )
        named = table.iloc[:, : len(layout.names)]
        yield named.set_axis(list(layout.names), axis=1)


def _endings(path: Path) -> tuple[str, str]:
    """Return the endings of the table and of its compression. Either is empty if there is none."""
    outer = path.suffix.lower()
    if outer in _PACKED:
        return Path(path.stem).suffix.lower(), outer
    return outer, ""


def _with_points(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table in which numbers with decimal commas have points. Each entry is converted separately."""
    return pd.DataFrame(
        {name: table[name].str.replace(_COMMA_NUMBER, _pointed, regex=True) for name in table.columns}, copy=False
    )


def with_point(text: str) -> str:
    """Return a text in which a number with a decimal comma has a point, as the reader of such files returns it."""
    return re.sub(_COMMA_NUMBER, _pointed, text)


def _pointed(match: re.Match[str]) -> str:
    sign, whole, part, power = match.groups()
    return f"{sign}{whole.replace('.', '')}{'.' + part if part else ''}{power}"


def looks_like_decimal_comma(text: str) -> bool:
    """Return whether an entry would be a number with a point in place of its comma."""
    return "," in text and any(map(str.isdigit, text)) and re.match(_COMMA_NUMBER, text) is not None


def advice(error: Exception, kind: str) -> str:
    """Return what to do about a table that pandas could not read. pandas' own text may quote entries."""
    if isinstance(error, pd.errors.ParserError):
        return _of_parser(str(error))
    reasons: dict[type[Exception], str] = {
        FileNotFoundError: "there is no such file",
        IsADirectoryError: "it is a folder",
        PermissionError: "you have no permission to read it",
        UnicodeError: "it is not in UTF-8; save it as UTF-8",
        pd.errors.EmptyDataError: "it is empty",
        zipfile.BadZipFile: "it is not a zip file",
        gzip.BadGzipFile: "it is not a gzip file",
        lzma.LZMAError: "it is not an xz file, or one that needs much memory",
        EOFError: "it ends too soon",
        MemoryError: "it needs more memory than there is",
    }
    return next((words for one, words in reasons.items() if isinstance(error, one)), f"it is not a {kind} table")


def _of_parser(text: str) -> str:
    """Keep only the numbers of pandas' message."""
    if "out of memory" in text:
        return "it needs more memory than there is"
    lengths = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", text)
    if lengths:
        expected, line, saw = map(int, lengths.groups())
        return _wrong_length(line, saw, expected)
    quoted = re.search(r"EOF inside string starting at row (\d+)", text)
    if quoted:
        return f"a quotation mark in line {int(quoted[1]) + 1:,} is never closed (the header is line 1)"
    return "its rows differ in length; separate columns by commas, or name the separator (--sep)"


def _as_character(sep: str | None) -> str | None:
    return "\t" if sep in ("tab", "\\t") else sep
