"""CSV files as spreadsheets write them, read so that no row affects how another is read.

The first bytes of a file determine its encoding. After that, each byte that is not UTF-8 is decoded separately. A
record is a line, and no line affects how another is read.
"""

from __future__ import annotations

import gzip
import re
import zipfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from io import StringIO
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, TextIO

import pandas as pd

from dpensemble._checks import integer_between
from dpensemble._files import text_file
from dpensemble.datasets.csv_layout import CSVLayout, Expected, Stated, entries_of, is_blank, layout_of, separator_words
from dpensemble.errors import DataError, FileError, InvalidParameterError

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
    text: TextIO,
    layout: CSVLayout,
    rows: int | None,
    *,
    keep_broken: bool,
    not_blank: Mapping[str, Collection[str]],
) -> Iterator[pd.DataFrame]:
    """Yield the records after a header as tables of texts, with consecutive row numbers.

    `path` is for messages, and `text` was opened with ``newline=""``. With ``rows=None``, the size of the tables is
    chosen automatically. With `keep_broken`, a broken line becomes a row in which every entry is missing. By default it
    raises. A line is broken if it has an open quotation mark, or another number of entries than the header. Blank
    entries at the end of a line, which no name belongs to, do not count. `not_blank` has texts that are entries of a
    column, although they mean a blank elsewhere.
    """
    start, n_tables = 0, 0
    names, sep, blanks = list(layout.names), layout.sep, _blanks_of(list(layout.names), not_blank)
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


def _whole_lines(path: Path, text: TextIO, layout: CSVLayout, keep_broken: bool) -> Iterator[str]:
    """Yield lines that pandas reads as exactly one row each, with one entry for each name."""
    sep, n_names, header = layout.sep, len(layout.names), layout.header + 1
    broken = _broken(n_names, sep)
    for number, line in enumerate(text, start=header + 1):
        if is_blank(line, sep):
            continue
        bare = line.rstrip("\r\n")
        if '"' not in bare and bare.count(sep) == n_names - 1:
            yield bare + "\n"
            continue
        entries = entries_of(bare, sep)
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


#: Endings of text files, optionally followed by ``.gz`` or ``.zip``.
_ENDINGS = (".csv", ".tsv", ".txt")
# Digits in groups of three, and a decimal comma: 1.234,5.
_COMMA_NUMBER = r"^(?=.*\d)\s*([+-]?)(\d{1,3}(?:\.\d{3})+|\d*)(?:,(\d+))?((?:[eE][+-]?\d+)?)\s*$"


@dataclass(frozen=True, slots=True)
class CSVFormat:
    """How a CSV file is written.

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

    Raises
    ------
    InvalidParameterError
        If a setting has another value.
    """

    sep: str | None = None
    decimal: str | None = None
    multiline_text: bool = False
    skip_lines: int | None = None

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
        usual = "\t" if _endings(path)[0] == ".tsv" else ";" if self.decimal == "," else ","
        return _as_character(self.sep) or usual


def is_csv(path: Path) -> bool:
    """Return whether a file's ending is that of a text file, compressed or not."""
    inner, outer = _endings(path)
    return inner in _ENDINGS or (outer == ".zip" and inner == "")


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
    tables = list(_tables(path, how, layout, None, keep_broken, not_blank))
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
    return _tables(path, how, csv_layout(path, how, like=like), rows, keep_broken=False, not_blank={})


def csv_layout(path: Path, how: CSVFormat, *, like: Expected | None = None, public: bool = False) -> CSVLayout:
    """Return the layout of a file. Records of a file that is not `public` do not decide it."""
    like = Expected() if like is None else like
    stated = Stated(how.separator(path), _as_character(how.sep), how.skip_lines, how.multiline_text)
    with text_file(path, _ENDINGS) as file:
        layout = layout_of(path, file, stated, like, public=public)
    if how.decimal == "," == layout.sep:
        raise DataError(f"{path} has commas between columns, but decimal={how.decimal!r}: leave out --decimal.")
    if public and layout.n_entries > len(layout.names):
        unnamed = tuple(f"Unnamed: {number}" for number in range(len(layout.names), layout.n_entries))
        return replace(layout, names=layout.names + unnamed, n_optional=layout.n_optional + len(unnamed))
    return layout


def _tables(
    path: Path,
    how: CSVFormat,
    layout: CSVLayout,
    rows: int | None,
    keep_broken: bool,
    not_blank: Mapping[str, Collection[str]],
) -> Iterator[pd.DataFrame]:
    with text_file(path, _ENDINGS) as file:
        if how.multiline_text:
            tables = _multiline_tables(path, file, layout, rows, not_blank)
        else:
            tables = _tables_of_lines(path, file, layout, rows, keep_broken=keep_broken, not_blank=not_blank)
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
                f"{separator_words(layout.sep)}, or name another separator (--sep)."
            )
        named = table.iloc[:, : len(layout.names)]
        yield named.set_axis(list(layout.names), axis=1)


def _endings(path: Path) -> tuple[str, str]:
    """Return the endings of the table and of its compression. Either is empty if there is none."""
    outer = path.suffix.lower()
    if outer in (".gz", ".zip"):
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
        EOFError: "it ends too soon",
        MemoryError: "it needs more memory than there is",
    }
    return next((words for one, words in reasons.items() if isinstance(error, one)), f"it is not a {kind} table")


def _of_parser(text: str) -> str:
    """Keep only the numbers of pandas' message."""
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
