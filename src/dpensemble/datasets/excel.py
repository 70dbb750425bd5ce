"""Workbooks of Excel (``.xlsx``) as lines of text, cell by cell, as Excel saves them as text.

A record is a row below the header with an entry in a column of the header. Type, format and stored value of a cell
decide its text, and nothing else does. Formulas are what they last computed. Cells right of the header are ignored,
however far away they are.

A stranger may have written the file, so it is unpacked and parsed within limits before calamine reads any of it. This
reader gives calamine small workbooks in memory, with rows that have no gaps and cells that it can surely read. So no
cell decides how much memory is needed, or that another cell cannot be read.
"""

from __future__ import annotations

import datetime
import importlib
import math
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from posixpath import dirname, join, normpath
from types import ModuleType
from xml.parsers import expat
from xml.sax.saxutils import escape

from dpensemble.errors import DataError, FileError

#: Separator of the lines, which a sheet does not have.
SEPARATOR = "\t"
_ENDING = ".xlsx"
_NOT_A_ZIP = b"\xd0\xcf\x11\xe0"
# Most rows and columns of a sheet, and characters of a cell, that Excel has.
_MOST_ROWS, _MOST_COLUMNS, _LONGEST_TEXT = 2**20, 2**14, 2**15 - 1
# Most bytes of a sheet and of any other part once they are unpacked, and of one piece of XML.
_LARGEST_SHEET, _LARGEST_PART, _LARGEST_PIECE = 8 * 10**9, 2**29, 2**24
_CHUNK = 2**18
# Cells that calamine reads together: few at first, since a layout needs only the top of a sheet.
_FIRST_CELLS, _MOST_CELLS = 2**14, 2**21
# Days that are dates in Excel. calamine cannot convert others.
_LAST_DAY = 2_958_466
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_LIKE_THOUSANDS = re.compile(r"-?[1-9][0-9]{0,2}\.[0-9]{3}")
_QUOTED = re.compile('[\t\r\n"]')
# Whole numbers that are written without an exponent, and a fraction of a second that only rounding has left.
_WHOLE, _MICROSECONDS = 10**15, 2000
_STYLE = re.compile("[0-9]{1,6}")
_PLACE = re.compile(r"([A-Z]{1,3})([0-9]{1,7})")
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_DOCUMENT = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"


def is_workbook(path: Path) -> bool:
    """Return whether a file's ending is that of a workbook of Excel."""
    return path.suffix.lower() == _ENDING


@contextmanager
def opened_sheet(
    path: Path, name: str | None, *, decimal: str = ".", header: int | None = None, width: int | None = None
) -> Iterator[tuple[str, Iterator[str]]]:
    """Yield the name and the lines of a sheet: the one called `name`, or the only one that is visible.

    There is a line for each row, which is blank if the row has no entry. Numbers have the sign `decimal`. With a
    `width`, each line has that many entries, and cells right of them are ignored. Merged cells in the `header`, a row
    counted from 0, raise an error after the last line. By default a line ends with its last entry.

    Raises
    ------
    FileError, DataError
        If the file is not a workbook, cannot be read within the limits, or lacks the sheet.
    """
    with path.open("rb") as file:
        if file.read(4) == _NOT_A_ZIP:
            raise FileError(
                f"{path} cannot be read: it is protected by a password, or of an old Excel; save it as .xlsx without "
                "a password."
            )
    calamine = _calamine(path)
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile:
        raise FileError(f"{path} cannot be read: it is not an Excel workbook.") from None
    with archive:
        try:
            book = _Book.of(path, archive)
            own_name, sheet = book.sheet(name)
            rows = _Rows(path, book.n_texts, header, width)
            yield own_name, _lines(calamine, book, sheet, rows, decimal)
        except expat.ExpatError:
            raise FileError(f"{path} cannot be read: its XML is damaged; save it again in Excel.") from None
        except calamine.CalamineError:
            raise FileError(_damaged(path)) from None
        except BaseException as error:
            # A failed assertion of the library raises an error that is not an Exception.
            if type(error).__name__ != "PanicException":
                raise
            raise FileError(_damaged(path)) from None


def _damaged(path: Path) -> str:
    return f"{path} cannot be read: its cells are damaged; save it again in Excel."


def _calamine(path: Path) -> ModuleType:
    try:
        return importlib.import_module("python_calamine")
    except ImportError:
        raise FileError(
            f'{path} needs python-calamine, which is not installed: run pip install "dpensemble[excel]".'
        ) from None


@dataclass(frozen=True)
class _Book:
    """What a workbook holds beside its cells. `styles` and `texts` are whole parts, which all sheets share."""

    path: Path
    archive: zipfile.ZipFile
    #: Name, whether it is visible, and part of each sheet of cells.
    sheets: Sequence[tuple[str, bool, str]]
    styles: bytes
    texts: bytes
    n_texts: int
    since_1904: bool

    @classmethod
    def of(cls, path: Path, archive: zipfile.ZipFile) -> _Book:
        """Read the parts of a workbook that state how its cells are read."""
        if any(name.lower().endswith("vbaproject.bin") for name in archive.namelist()):
            raise FileError(f"{path} holds macros: save it as a workbook without macros (.xlsx).")
        about = _related(path, archive, "")
        main = next((target for kind, target in about.values() if kind == "officeDocument"), "xl/workbook.xml")
        related = _related(path, archive, main)
        found: list[tuple[str, str, str]] = []
        settings = {"date1904": ""}

        def start(name: str, values: dict[str, str]) -> None:
            if name == "workbookPr":
                settings["date1904"] = values.get("date1904", "")
            elif name == "sheet":
                found.append((values.get("name", ""), values.get("state", "visible"), values.get("id", "")))

        _parse(path, _part(path, archive, main), start)
        sheets = [(name, state == "visible", related.get(link, ("", ""))) for name, state, link in found]
        shared = {kind: target for kind, target in related.values() if kind in ("styles", "sharedStrings")}
        # Some programs leave the relationships of usual names out.
        texts, styles = (
            _part(path, archive, shared.get(kind, join(dirname(main), f"{kind}.xml")), needed=False)
            for kind in ("sharedStrings", "styles")
        )
        counts = [0]

        def count(name: str, _: dict[str, str]) -> None:
            counts[0] += name == "si"

        for part in filter(None, (texts, styles)):
            _parse(path, part, count)
        return cls(
            path=path,
            archive=archive,
            sheets=[(name, visible, target) for name, visible, (kind, target) in sheets if kind == "worksheet"],
            styles=styles,
            texts=texts,
            n_texts=counts[0],
            since_1904=settings["date1904"] in ("1", "true"),
        )

    def sheet(self, name: str | None) -> tuple[str, str]:
        """Return the name and the part of the sheet called `name`, or of the only visible one."""
        named = [(own, part) for own, visible, part in self.sheets if (visible if name is None else own == name)]
        if len(named) == 1:
            return named[0]
        if name is not None:
            raise DataError(f"sheet={name!r} is not a sheet of {self.path}: give the name of one (--sheet).")
        raise DataError(f"{self.path} has {len(named)} visible sheets: name one (--sheet).")


def _part(path: Path, archive: zipfile.ZipFile, name: str, *, needed: bool = True) -> bytes:
    """Return a part of the workbook, unpacked within the limit. What the archive states about sizes is not trusted."""
    own = _member(archive, name)
    if own is None:
        if needed:
            raise FileError(f"{path} cannot be read: it is not an Excel workbook.")
        return b""
    with archive.open(own) as file:
        content = file.read(_LARGEST_PART + 1)
    if len(content) > _LARGEST_PART:
        raise FileError(_too_large(path, _LARGEST_PART))
    return content


def _too_large(path: Path, limit: int) -> str:
    return f"{path} cannot be read: a part of it has more than {limit / 10**6:,.0f} MB once it is unpacked; use .csv."


def _member(archive: zipfile.ZipFile, name: str) -> str | None:
    """Return the member of an archive, which some programs write in other capitals."""
    names = archive.namelist()
    return name if name in names else next((one for one in names if one.lower() == name.lower()), None)


def _related(path: Path, archive: zipfile.ZipFile, part: str) -> dict[str, tuple[str, str]]:
    """Return by id the end of the type and the target of each relationship of a part."""
    related: dict[str, tuple[str, str]] = {}
    folder, file = dirname(part), part.rpartition("/")[2]

    def start(name: str, values: dict[str, str]) -> None:
        if name == "Relationship":
            target = values.get("Target", "")
            place = target[1:] if target.startswith("/") else normpath(join(folder, target))
            related[values.get("Id", "")] = values.get("Type", "").rpartition("/")[2], place

    content = _part(path, archive, join(folder, "_rels", f"{file}.rels"), needed=not part)
    if content:
        _parse(path, content, start)
    return related


def _parser(path: Path, start: Callable[[str, dict[str, str]], None]) -> expat.XMLParserType:
    """Return a parser of XML that calls `start` with names without their namespaces, and refuses declarations."""
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True

    def refuse(*_: object) -> None:
        raise FileError(f"{path} cannot be read: its XML declares entities, which no spreadsheet program writes.")

    def plain(name: str, values: dict[str, str]) -> None:
        for key in values:
            if " " in key:
                values = {key.rpartition(" ")[2]: value for key, value in values.items()}
                break
        start(_local(name), values)

    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.StartElementHandler = plain
    return parser


@lru_cache(maxsize=1024)
def _local(name: str) -> str:
    """Return a name without its namespace. A sheet repeats few names very often."""
    return name.rpartition(" ")[2]


def _parse(path: Path, content: bytes, start: Callable[[str, dict[str, str]], None]) -> None:
    parser = _parser(path, start)
    for place in range(0, len(content), _CHUNK):
        _feed(path, parser, content[place : place + _CHUNK], place + _CHUNK)
    parser.Parse(b"", True)


def _feed(path: Path, parser: expat.XMLParserType, chunk: bytes, end: int) -> None:
    """Parse the next bytes. The parser keeps a piece, such as one tag, until it is complete."""
    parser.Parse(chunk, False)
    if end - max(parser.CurrentByteIndex, 0) > _LARGEST_PIECE:
        raise FileError(_too_large(path, _LARGEST_PIECE))


@dataclass(slots=True)
class _Cell:
    """A cell while it is parsed: its column from 0, its type, its format, its value, and its own text if it has one."""

    column: int
    kind: str
    style: str
    value: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)

    def written(self, row: int, n_texts: int) -> str:
        """Return the cell for calamine, or nothing if it is blank, an error, or not readable."""
        how = self._how(n_texts)
        return "" if how is None else f'<c r="{_letters(self.column)}{row}"{how[0]}><v>{how[1]}</v></c>'

    def _how(self, n_texts: int) -> tuple[str, str] | None:
        """Return attributes and value with which calamine surely reads the cell, or None."""
        value = "".join(self.value)
        if self.kind in ("inlineStr", "str", "d"):
            text = "".join(self.text) if self.kind == "inlineStr" else value
            # A carriage return would become a line feed.
            return (' t="str"', escape(text, {"\r": "&#13;"})) if text else None
        value = value.strip()
        if self.kind == "s":
            known = value.isascii() and value.isdigit() and len(value) < 10 and int(value) < n_texts
            return (' t="s"', str(int(value))) if known else None
        if self.kind == "b":
            return (' t="b"', value) if value in ("0", "1") else None
        if self.kind != "n" or _NUMBER.fullmatch(value) is None:
            return None
        number = float(value)
        if math.isinf(number):
            return ' t="str"', value
        return f' s="{self.style}"' if _STYLE.fullmatch(self.style) and 0 <= number < _LAST_DAY else "", value


class _Rows:
    """Rows of a sheet from its XML, as cells for calamine. `width` is None, or the number of columns that are read."""

    def __init__(self, path: Path, n_texts: int, header: int | None, width: int | None) -> None:
        self.width, self._n_columns = width, _MOST_COLUMNS if width is None else width
        self._path, self.n_texts, self._header = path, n_texts, header
        #: Number of each row from 1, and its cells.
        self.rows: list[tuple[int, list[_Cell]]] = []
        self.has_merged_header = False
        self._number, self._column = 0, -1
        self._cell: _Cell | None = None
        self._cells: list[_Cell] = []
        self._into: list[str] | None = None
        self._skipped, self._n_left = 0, 0
        self.parser = _parser(path, self._start)
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters

    def _start(self, name: str, values: dict[str, str]) -> None:
        if name == "c":
            self._start_cell(values)
        elif name == "row":
            self._number = _later(values.get("r", ""), self._number)
            self._column, self._cells = -1, []
            if self._number > _MOST_ROWS:
                raise FileError(f"{self._path} cannot be read: its sheet has more than {_MOST_ROWS:,} rows; use .csv.")
        elif name == "mergeCell":
            self.has_merged_header |= self._is_of_header(values.get("ref", ""))
        elif self._cell is not None:
            # Readings of Japanese words stand beside the text.
            self._skipped += name == "rPh"
            self._into = {"v": self._cell.value, "t": self._cell.text}.get(name) if not self._skipped else None

    def _start_cell(self, values: dict[str, str]) -> None:
        place = _PLACE.fullmatch(values.get("r", ""))
        column = -1 if place is None else _column(place[1])
        self._column = column if column > self._column else self._column + 1
        self._cell = _Cell(self._column, values.get("t", "n"), values.get("s", ""))
        self._n_left = _LONGEST_TEXT

    def _is_of_header(self, text: str) -> bool:
        """Return whether a range of merged cells is partly in a column and the row of the header."""
        first, _, last = text.replace("$", "").partition(":")
        start, end = _PLACE.fullmatch(first), _PLACE.fullmatch(last)
        if start is None or end is None or self._header is None:
            return False
        return int(start[2]) <= self._header + 1 <= int(end[2]) and _column(start[1]) < self._n_columns

    def _end(self, name: str) -> None:
        name = _local(name)
        self._into = None
        if name == "c" and self._cell is not None:
            if self._column < self._n_columns and (self._cell.value or self._cell.text):
                self._cells.append(self._cell)
            self._cell = None
        elif name == "row" and self._cells:
            self.rows.append((self._number, self._cells))
            self._cells = []
        elif name == "rPh":
            self._skipped -= 1

    def _characters(self, text: str) -> None:
        if self._into is not None and self._n_left > 0:
            self._into.append(text[: self._n_left])
            self._n_left -= len(text)


def _later(text: str, number: int) -> int:
    """Return the number of a row or the next one if the text is not the number of a later row."""
    own = int(text) if text.isascii() and text.isdigit() and len(text) < 8 else 0
    return own if number < own <= _MOST_ROWS else number + 1


@lru_cache(maxsize=_MOST_COLUMNS)
def _column(letters: str) -> int:
    """Return the place of a column, counted from 0, or -1 if no sheet has it."""
    place = 0
    for letter in letters:
        place = 26 * place + ord(letter) - 64
    return place - 1 if place <= _MOST_COLUMNS else -1


@lru_cache(maxsize=_MOST_COLUMNS)
def _letters(column: int) -> str:
    letters = ""
    while column >= 0:
        column, letter = divmod(column, 26)
        letters, column = chr(65 + letter) + letters, column - 1
    return letters


def _lines(calamine: ModuleType, book: _Book, part: str, rows: _Rows, decimal: str) -> Iterator[str]:
    """Yield a line for each row of a sheet, and raise after the last one if cells of the header are merged."""
    number, widest, most = 0, 0, _FIRST_CELLS
    waiting: list[tuple[int, list[_Cell]]] = []
    for row, cells in _rows(book, part, rows):
        width = max(widest, cells[-1].column + 1)
        if waiting and (len(waiting) + 1) * width > most:
            yield from _lines_of(calamine, book, waiting, number, rows.width, decimal)
            number, waiting, most = waiting[-1][0], [], min(2 * most, _MOST_CELLS)
            width = cells[-1].column + 1
        waiting.append((row, cells))
        widest = width
    yield from _lines_of(calamine, book, waiting, number, rows.width, decimal)
    # Merged cells stand below all rows.
    if rows.has_merged_header:
        raise DataError(f"{book.path} has merged cells in its header: write one name into each column of a single row.")


def _rows(book: _Book, part: str, rows: _Rows) -> Iterator[tuple[int, list[_Cell]]]:
    """Yield the rows that have cells while the sheet is unpacked."""
    own, end = _member(book.archive, part), 0
    if own is None:
        raise FileError(f"{book.path} cannot be read: it is not an Excel workbook.")
    with book.archive.open(own) as file:
        while chunk := file.read(_CHUNK):
            end += len(chunk)
            if end > _LARGEST_SHEET:
                raise FileError(_too_large(book.path, _LARGEST_SHEET))
            _feed(book.path, rows.parser, chunk, end)
            yield from rows.rows
            rows.rows.clear()
        rows.parser.Parse(b"", True)
    yield from rows.rows


def _lines_of(
    calamine: ModuleType, book: _Book, rows: list[tuple[int, list[_Cell]]], number: int, width: int | None, decimal: str
) -> Iterator[str]:
    """Yield the lines of some rows, and a blank line for each row above them, after row `number`, without a cell."""
    if not rows:
        return
    cells = "".join(
        f'<row r="{place}">{"".join(cell.written(place, book.n_texts) for cell in own)}</row>'
        for place, (_, own) in enumerate(rows, start=1)
    )
    small = calamine.CalamineWorkbook.from_filelike(_small_book(book, cells))
    values = small.get_sheet_by_index(0).to_python(skip_empty_area=False)
    # Rows at the end whose cells are all blank are not there.
    values += [[]] * (len(rows) - len(values))
    for (own_number, _), entries in zip(rows, values, strict=True):
        yield from ["\n"] * (own_number - number - 1)
        number = own_number
        yield _line([_text(entry, decimal) for entry in entries], width)


def _line(texts: list[str], width: int | None) -> str:
    """Return a line with `width` entries, or one that ends with its last entry."""
    if width is None:
        while texts and not texts[-1]:
            texts.pop()
    else:
        texts = texts[:width] + [""] * (width - len(texts))
    quoted = (f'"{text.replace(chr(34), chr(34) * 2)}"' if _QUOTED.search(text) else text for text in texts)
    return SEPARATOR.join(quoted) + "\n"


def _text(entry: object, decimal: str) -> str:
    """Return the text of a cell from its type and value: a number with all its digits, and an ISO date."""
    if isinstance(entry, bool):
        return "TRUE" if entry else "FALSE"
    if isinstance(entry, float):
        if entry.is_integer() and abs(entry) < _WHOLE:
            return str(int(entry))
        text = repr(entry)
        # A stored 1.234 is never 1234, as a text of these digits may be.
        return (f"{text}0" if _LIKE_THOUSANDS.fullmatch(text) else text).replace(".", decimal)
    if isinstance(entry, datetime.datetime) and entry.microsecond < _MICROSECONDS:
        entry = entry.replace(microsecond=0)
    return str(entry)


def _small_book(book: _Book, rows: str) -> BytesIO:
    """Return a workbook in memory with these rows."""
    relation = f'<Relationship Id="r1" Type="{_DOCUMENT}/{{}}" Target="{{}}"/>'.format
    relations = f'<Relationships xmlns="{_PACKAGE}/relationships">{{}}</Relationships>'.format
    parts: dict[str, str | bytes] = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types"/>',
        "_rels/.rels": relations(relation("officeDocument", "xl/workbook.xml")),
        "xl/workbook.xml": (
            f'<workbook xmlns="{_MAIN}" xmlns:r="{_DOCUMENT}"><workbookPr date1904="{int(book.since_1904)}"/>'
            '<sheets><sheet name="t" sheetId="1" r:id="r1"/></sheets></workbook>'
        ),
        "xl/_rels/workbook.xml.rels": relations(relation("worksheet", "worksheets/sheet1.xml")),
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{_MAIN}"><sheetData>{rows}</sheetData></worksheet>',
    }
    parts |= {"xl/styles.xml": book.styles} if book.styles else {}
    parts |= {"xl/sharedStrings.xml": book.texts} if book.texts else {}
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    file.seek(0)
    return file
