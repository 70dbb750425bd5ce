"""CSV files as spreadsheets write them, read so that no row affects how another is read.

The first bytes of a file determine its encoding. After that, each byte that is not UTF-8 is decoded separately.
"""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any, TextIO

import pandas as pd

from dpensemble.datasets.csv_lines import header_of, tables_of_lines, wrong_length
from dpensemble.datasets.odd_bytes import AS_WINDOWS
from dpensemble.errors import DataError, FileError, InvalidParameterError

#: Endings of text files, optionally followed by ``.gz`` or ``.zip``.
ENDINGS = (".csv", ".tsv", ".txt")
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SEPARATORS = {";": "';'", "\t": "tab", "|": "'|'"}
# Longest line, and bytes that are read together.
_LONGEST_LINE, _CHUNK = 64 * 10**6, 2**16
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

    Raises
    ------
    InvalidParameterError
        If a setting has another value.
    """

    sep: str | None = None
    decimal: str | None = None
    multiline_text: bool = False

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

    def separator(self, path: Path) -> str:
        """Return the character that separates the columns of a file."""
        usual = "\t" if _endings(path)[0] == ".tsv" else ";" if self.decimal == "," else ","
        return _as_character(self.sep) or usual


def is_csv(path: Path) -> bool:
    """Return whether a file's ending is that of a text file, compressed or not."""
    inner, outer = _endings(path)
    return inner in ENDINGS or (outer == ".zip" and inner == "")


def read_csv(path: Path, how: CSVFormat, *, keep_broken: bool = False) -> pd.DataFrame:
    """Return the table in a file. Every entry is a text as it is written, or NaN if it is empty.

    With `keep_broken`, an unreadable line becomes a row in which every entry is missing. By default, it raises.
    """
    tables = list(_tables(path, how, None, keep_broken))
    return tables[0] if len(tables) == 1 else pd.concat(tables)


def csv_chunks(path: Path, how: CSVFormat, rows: int) -> Iterator[pd.DataFrame]:
    """Yield the table in a file in chunks of `rows` rows, with consecutive row numbers."""
    return _tables(path, how, rows, keep_broken=False)


def _tables(path: Path, how: CSVFormat, rows: int | None, keep_broken: bool) -> Iterator[pd.DataFrame]:
    sep = how.separator(path)
    _check_header(path, sep)
    with _open_text(path) as file:
        if how.multiline_text:
            tables = _multiline_tables(path, file, sep, rows)
        else:
            tables = tables_of_lines(path, file, header_of(file, sep), sep, rows, keep_broken=keep_broken)
        for table in tables:
            yield _with_points(table) if how.decimal == "," else table


def _multiline_tables(path: Path, file: TextIO, sep: str, rows: int | None) -> Iterator[pd.DataFrame]:
    read: Any = pd.read_csv(file, dtype=str, sep=sep, chunksize=rows, low_memory=False)
    for table in [read] if rows is None else read:
        if not isinstance(table.index, pd.RangeIndex):
            # A long first row would shift the columns of all other rows.
            raise DataError(
                f"{path} cannot be read: its rows have more entries than its header; separate columns only by "
                f"{_separator_words(sep)}, or name another separator (--sep)."
            )
        yield table


def _check_header(path: Path, sep: str) -> None:
    """Raise for repeated names, which would be renamed silently, and if the file has another separator."""
    with _open_text(path) as file:
        names = pd.read_csv(file, header=None, nrows=1, dtype=str, sep=sep).iloc[0]
    if names.dropna().duplicated().any():
        raise DataError(f"{path} names a column twice: rename one of them.")
    if len(names) == 1:
        # The name itself is not shown: without a header, it is a record.
        for other, sign_words in ((",", "','"), *_SEPARATORS.items()):
            if other in str(names[0]):
                flag = "tab" if other == "\t" else other
                raise DataError(
                    f"{path} has only one column if {_separator_words(sep)} separates columns, but {sign_words} in its "
                    f'first line: give --sep "{flag}".'
                )


@contextmanager
def _open_text(path: Path) -> Iterator[TextIOWrapper]:
    """Open a file as text, in the encoding that its first bytes show."""
    with _binary(path) as start:
        first = start.read(4)
    encoding = next((name for mark, name in _BOMS if first.startswith(mark)), "utf-8")
    if encoding == "utf-8" and b"\0" in first:
        raise FileError(f"{path} cannot be read: it is not in UTF-8; save it as UTF-8.")
    with (
        _binary(path) as file,
        TextIOWrapper(
            io.BufferedReader(_ShortLines(file, path, encoding), _CHUNK), encoding, errors=AS_WINDOWS, newline=""
        ) as text,
    ):
        yield text


class _ShortLines(io.RawIOBase):
    """A file with short lines, so that a small archive cannot fill the memory with one line."""

    def __init__(self, file: IO[bytes], path: Path, encoding: str) -> None:
        self._file, self._path, self._end, self._line = file, path, 0, 0
        width = {"utf-16": 2, "utf-32": 4}.get(encoding, 1)
        self._marks = [sign + bytes(width - 1) for sign in (b"\n", b"\r")]
        self._marks += [mark[::-1] for mark in self._marks if width > 1]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        """Read the next bytes, or raise if the last line is too long."""
        part = self._file.read(len(buffer))
        buffer[: len(part)] = part
        last = max(self._last(part, mark) for mark in self._marks)
        if last >= 0:
            self._line = self._end + last
        self._end += len(part)
        if self._end - self._line > _LONGEST_LINE:
            raise FileError(
                f"{self._path} cannot be read: it has a line of more than {_LONGEST_LINE / 10**6:.0f} MB; end each "
                "record with a line break."
            )
        return len(part)

    def _last(self, part: bytes, mark: bytes) -> int:
        """Return the last place of a mark that is a whole character, or -1."""
        place = part.rfind(mark)
        while place >= 0 and (self._end + place) % len(mark):
            place = part.rfind(mark, 0, place + len(mark) - 1)
        return place


@contextmanager
def _binary(path: Path) -> Iterator[IO[bytes]]:
    outer = _endings(path)[1]
    if outer == ".zip":
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if Path(name).suffix.lower() in ENDINGS and name[:2] != "__"]
            if len(names) != 1:
                raise FileError(f"{path} holds {len(names)} CSV files: put one table into it.")
            with archive.open(names[0]) as file:
                yield file
    elif outer == ".gz":
        with gzip.open(path) as file:
            yield file  # type: ignore[misc]
    else:
        with path.open("rb") as file:
            yield file


def _endings(path: Path) -> tuple[str, str]:
    """Return the endings of the table and of its compression. Either is empty if there is none."""
    outer = path.suffix.lower()
    if outer in (".gz", ".zip"):
        return Path(path.stem).suffix.lower(), outer
    return outer, ""


def _with_points(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table in which numbers with decimal commas have points. Each entry is converted separately."""

    def pointed(match: re.Match[str]) -> str:
        sign, whole, part, power = match.groups()
        return f"{sign}{whole.replace('.', '')}{'.' + part if part else ''}{power}"

    return pd.DataFrame(
        {name: table[name].str.replace(_COMMA_NUMBER, pointed, regex=True) for name in table.columns}, copy=False
    )


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
        return wrong_length(line, saw, expected)
    quoted = re.search(r"EOF inside string starting at row (\d+)", text)
    if quoted:
        return f"a quotation mark in line {int(quoted[1]) + 1:,} is never closed (the header is line 1)"
    return "its rows differ in length; separate columns by commas, or name the separator (--sep)"


def _as_character(sep: str | None) -> str | None:
    return "\t" if sep in ("tab", "\\t") else sep


def _separator_words(sep: str) -> str:
    return _SEPARATORS.get(sep, f"'{sep}'")
