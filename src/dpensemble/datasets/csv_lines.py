"""Lines of a CSV file, read separately: a record is a line, and no line affects how another is read."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import TextIO

import pandas as pd

from dpensemble.errors import FileError

# Lines that pandas reads together. Rows get consecutive numbers, and only the texts of these lines are stored twice.
_LINES_AT_ONCE = 2**16
# Characters after which no more lines are read together, so that chunks of long lines fit into memory.
_CHARACTERS_AT_ONCE = 2**27
# Longest quoted text. The standard library's limit is 2**17 characters.
_LONGEST = 2**31 - 1


def header_of(text: TextIO, sep: str) -> list[str]:
    """Read the first line that is not blank, and return its names as pandas writes them."""
    line = next((line for line in text if not _is_blank(line, sep)), "")
    return list(pd.read_csv(StringIO(line), sep=sep, nrows=0, dtype=str, index_col=False).columns)


def tables_of_lines(
    path: Path, text: TextIO, names: list[str], sep: str, rows: int | None, *, keep_broken: bool
) -> Iterator[pd.DataFrame]:
    """Yield the records after a header as tables of texts, with consecutive row numbers.

    `path` is for messages, and `text` was opened with ``newline=""``. With ``rows=None``, the size of the tables is
    chosen automatically. With `keep_broken`, a broken line becomes a row in which every entry is missing. By default it
    raises. A line is broken if it has an open quotation mark, or another number of entries than the header.
    """
    start, n_tables = 0, 0
    lines = _whole_lines(path, text, len(names), sep, keep_broken)
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


def _broken(n_names: int, sep: str) -> str:
    """Return a line in which every entry is missing."""
    return sep * (n_names - 1) + "\n" if n_names > 1 else '""\n'


def _whole_lines(path: Path, text: TextIO, n_names: int, sep: str, keep_broken: bool) -> Iterator[str]:
    """Yield lines that pandas reads as exactly one row each, with one entry for each name."""
    broken = _broken(n_names, sep)
    for number, line in enumerate(text, start=2):
        if _is_blank(line, sep):
            continue
        bare = line.rstrip("\r\n")
        if '"' not in bare and bare.count(sep) == n_names - 1:
            yield bare + "\n"
            continue
        entries = _entries(bare, sep)
        if entries is not None and len(entries) == n_names:
            yield sep.join(f'"{entry.replace(chr(34), chr(34) * 2)}"' for entry in entries) + "\n"
        elif keep_broken:
            yield broken
        else:
            raise FileError(f"{path} cannot be read: {_why(entries, number, n_names)}.")


def _entries(line: str, sep: str) -> list[str] | None:
    """Return the entries of a line without its end, or None if a quotation mark is never closed."""
    usual = csv.field_size_limit(_LONGEST)
    try:
        reader = csv.reader([line, "x"], delimiter=sep)
        entries = next(reader)
        return entries if reader.line_num == 1 else None
    finally:
        csv.field_size_limit(usual)


def _why(entries: list[str] | None, number: int, n_names: int) -> str:
    if entries is None:
        return (
            f"a quotation mark in line {number:,} is never closed (the header is line 1); close it, or give "
            "--multiline-text if texts hold line breaks"
        )
    return wrong_length(number, len(entries), n_names)


def wrong_length(line: int, n_entries: int, n_names: int) -> str:
    """Return which line has another number of entries than the header."""
    return (
        f"line {line:,} has {n_entries} entries, but the header has {n_names} (the header is line 1); quote entries "
        "that hold a separator, or name the right one (--sep)"
    )


def _is_blank(line: str, sep: str) -> bool:
    return not line.strip(" \t\r\n".replace(sep, ""))
