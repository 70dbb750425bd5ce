"""Lines of a CSV file, read separately: a record is a line, and no line affects how another is read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import TextIO

import pandas as pd

from dpensemble.datasets.csv_layout import CSVLayout, entries_of, is_blank
from dpensemble.errors import FileError

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


def tables_of_lines(
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
    names, sep, blanks = list(layout.names), layout.sep, blanks_of(list(layout.names), not_blank)
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


def blanks_of(names: list[str], not_blank: Mapping[str, Collection[str]]) -> dict[str, list[str]] | None:
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
    return wrong_length(number, len(entries), n_names, header)


def wrong_length(line: int, n_entries: int, n_names: int, header: int = 1) -> str:
    """Return which line has another number of entries than the header."""
    return (
        f"line {line:,} has {n_entries} entries, but the header has {n_names} (the header is line {header:,}); quote "
        "entries that hold a separator, or name the right one (--sep)"
    )
