"""Workbooks of Excel as programs write them, from the XML of their cells."""

import zipfile
from xml.sax.saxutils import escape

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
DOCUMENT = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
# Formats of cells: general, a day, a moment, a time, and hours.
STYLES = (
    f'<styleSheet xmlns="{MAIN}"><numFmts count="1"><numFmt numFmtId="164" formatCode="yyyy\\-mm\\-dd hh:mm:ss"/>'
    '</numFmts><cellXfs count="5"><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="164"/><xf numFmtId="20"/>'
    '<xf numFmtId="46"/></cellXfs></styleSheet>'
)
SHARED = ("shared", "caf\u00e9 & more", " spaced ")


def cell(value, place=""):
    """Return a cell of a text, a number or a truth value, or one whose XML is given as bytes."""
    if isinstance(value, bytes):
        return value.decode()
    own = f' r="{place}"' if place else ""
    if value is None:
        return f"<c{own}/>"
    if isinstance(value, bool):
        return f'<c{own} t="b"><v>{int(value)}</v></c>'
    if isinstance(value, int | float):
        return f"<c{own}><v>{value!r}</v></c>"
    return f'<c{own} t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>'


def row(values, number=None):
    """Return a row of values, or of a text that is the XML of its cells."""
    cells = values if isinstance(values, str) else "".join(map(cell, values))
    return f"<row{'' if number is None else f' r={chr(34)}{number}{chr(34)}'}>{cells}</row>"


def sheet(rows, below="", above=""):
    """Return the XML of a sheet from rows, which follow each other from the first one."""
    written = "".join(row(values, number) for number, values in enumerate(rows, start=1))
    return f'{above}<worksheet xmlns="{MAIN}"><sheetData>{written}</sheetData>{below}</worksheet>'


def write(path, *rows, sheets=None, since_1904=False, shared=None, styles=STYLES, more=()):
    """Write a workbook with one sheet, or with `sheets`: name, state and XML. `more` are further parts."""
    sheets = [("Data", "visible", sheet(rows))] if sheets is None else sheets
    places = list(enumerate(sheets, start=1))
    texts = "".join(f'<si><t xml:space="preserve">{escape(text)}</t></si>' for text in SHARED)
    parts = {
        "_rels/.rels": related([("r1", "officeDocument", "/xl/workbook.xml")]),
        "xl/workbook.xml": (
            f'<workbook xmlns="{MAIN}" xmlns:r="{DOCUMENT}"><workbookPr date1904="{int(since_1904)}"/><sheets>'
            + "".join(
                f'<sheet name="{name}" sheetId="{n}" state="{state}" r:id="r{n}"/>' for n, (name, state, _) in places
            )
            + "</sheets></workbook>"
        ),
        "xl/_rels/workbook.xml.rels": related(
            [(f"r{n}", "worksheet", f"worksheets/sheet{n}.xml") for n, _ in places]
            + [("s", "styles", "styles.xml"), ("t", "sharedStrings", "sharedStrings.xml")]
        ),
        "xl/styles.xml": styles,
        "xl/sharedStrings.xml": f'<sst xmlns="{MAIN}">{texts}</sst>' if shared is None else shared,
        **{f"xl/worksheets/sheet{n}.xml": xml for n, (_, _, xml) in places},
        **dict(more),
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


def related(links):
    """Return the XML of relationships: id, end of the type, and target."""
    return (
        f'<Relationships xmlns="{PACKAGE}">'
        + "".join(
            f'<Relationship Id="{own}" Type="{DOCUMENT}/{kind}" Target="{target}"/>' for own, kind, target in links
        )
        + "</Relationships>"
    )


WHERE = [
    "",
    ' r="A6"',
    ' r="B6"',
    ' r="C1"',
    ' r="E6"',
    ' r="F6"',
    ' r="XFD6"',
    ' r="AAAA9"',
    ' r="0"',
    ' r="é"',
    ' r=""',
]
KINDS = ["", *(f' t="{kind}"' for kind in ("n", "s", "b", "e", "str", "inlineStr", "d", "odd", ""))]
STYLED = ["", *(f' s="{style}"' for style in ("0", "1", "2", "3", "4", "99", "-1", "x", "9" * 30))]
VALUES = [
    "",
    "0",
    "1",
    "2",
    "3",
    "-1",
    "43831.5",
    "1e5",
    "1e400",
    "nan",
    "inf",
    "TRUE",
    "#N/A",
    "é",
    " 7 ",
    "\n",
    "\t",
    "'",
]
VALUES += ["&quot;", '"', "a,b;c\td", "x" * 40_000, "9" * 400, "2958465.99", "2958466", "60", "0.99", "=1+1", "_x0000_"]
ROWS = ["", ' r="6"', ' r="0"', ' r="1048577"', ' r="1"', ' r="x"', ' r="-5"', ' hidden="1"', ' spans="1:16384"']


def odd_row(draw):
    """Return the XML of any row: cells of any type, place, format and value, in any order."""
    one = lambda texts: texts[draw.integers(len(texts))]  # noqa: E731
    cells = ""
    for _ in range(draw.integers(8)):
        value, text = one(VALUES), one(VALUES)
        body = one(
            [f"<v>{value}</v>", f"<is><t>{text}</t></is>", f"<f>A1</f><v>{value}</v>", "", f"<v>{value}</v><v/>"]
        )
        body += one(["", "", f"<is><r><t>{text}</t></r><rPh><t>no</t></rPh></is>", "<extLst><c/></extLst>"])
        cells += f"<c{one(WHERE)}{one(KINDS)}{one(STYLED)}>{body}</c>"
    return f"<row{one(ROWS)}>{cells}</row>"


def sheet_with(odd, header, records, place):
    """Return the XML of a sheet with an odd row, given as XML, before the record at a place."""
    before, after = ["".join(map(row, part)) for part in ((header, *records[:place]), records[place:])]
    return f'<worksheet xmlns="{MAIN}"><sheetData>{before}{odd}{after}</sheetData></worksheet>'
