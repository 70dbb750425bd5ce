"""Workbooks of Excel: no cell affects how another is read, and a stranger's file is read within limits."""

import numpy as np
import pandas as pd
import pytest

from dpensemble.datasets import TablePreparation, excel, read_table
from dpensemble.datasets.csv import CSVFormat, Expected, csv_layout, read_csv
from dpensemble.datasets.tables import table_chunks
from dpensemble.errors import DataError, FileError

from ..workbooks import MAIN, odd_row, sheet, sheet_with, write

HEADER = ("name", "age", "day", "sure", "note")
RECORD = (
    "Ann",
    3.5,
    b'<c s="1"><v>43831</v></c>',
    True,
    b'<c t="s"><v>1</v></c>',
)
# Cells and their texts.
CELLS = [
    (b"<c><v>3</v></c>", "3"),
    (b"<c><v>3.0</v></c>", "3"),
    (b"<c><v>0.30000000000000004</v></c>", "0.30000000000000004"),
    (b"<c><v>1E-7</v></c>", "1e-07"),
    (b"<c><v>12345678901234567890</v></c>", "1.2345678901234567e+19"),
    (b"<c><v>1e400</v></c>", "1e400"),
    (b"<c><v>one</v></c>", None),
    (b'<c s="1"><v>43831</v></c>', "2020-01-01"),
    (b'<c s="2"><v>43831.5</v></c>', "2020-01-01 12:00:00"),
    (b'<c s="2"><v>43831.524259259</v></c>', "2020-01-01 12:34:56"),
    (b'<c s="3"><v>0.5</v></c>', "12:00:00"),
    (b'<c s="1"><v>-1</v></c>', "-1"),
    (b'<c s="1"><v>1e300</v></c>', "1e+300"),
    (b'<c s="77"><v>5</v></c>', "5"),
    (b'<c t="d"><v>2020-01-01</v></c>', "2020-01-01"),
    (b'<c t="b"><v>1</v></c>', "TRUE"),
    (b'<c t="b"><v>0</v></c>', "FALSE"),
    (b'<c t="e"><v>#N/A</v></c>', None),
    (b'<c t="e"><v>#DIV/0!</v></c>', None),
    (b'<c t="s"><v>0</v></c>', "shared"),
    (b'<c t="s"><v>99</v></c>', None),
    (b'<c t="s"><v>-1</v></c>', None),
    (b'<c t="str"><f>A1&amp;"x"</f><v>007</v></c>', "007"),
    (b"<c><f>SUM(A1:A2)</f><v>4</v></c>", "4"),
    (b'<c t="inlineStr"><is><r><t>ri</t></r><r><t>ch</t></r><rPh><t>no</t></rPh></is></c>', "rich"),
    (b'<c t="inlineStr"><is><t>a "b"\tc</t></is></c>', 'a "b"\tc'),
    (b'<c t="inlineStr"><is><t>two\nlines</t></is></c>', "two\nlines"),
    (b'<c t="inlineStr"><is><t>NA</t></is></c>', None),
    (b'<c t="unknown"><v>1</v></c>', None),
    (b"<c/>", None),
]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "t.xlsx"


@pytest.mark.parametrize(("xml", "text"), CELLS)
def test_a_cell_is_read_by_itself(path, xml, text):
    write(path, ("a", "b"), (xml, "x"), ("7", "y"))
    table = read_table(path)
    assert table["b"].tolist() == ["x", "y"]
    assert table["a"].tolist()[1] == "7"
    assert table["a"].isna()[0] if text is None else table["a"][0] == text


def test_days_since_1904_and_decimal_commas(path):
    write(path, ("day", "x"), (b'<c s="1"><v>1</v></c>', 1234.5), (None, "1.234,5"), (None, 0.5), since_1904=True)
    table = read_table(path, decimal=",")
    assert table["day"][0] == "1904-01-02"
    assert table["x"].tolist() == ["1234.5", "1234.5", "0.5"]
    assert read_table(path, decimal=",", guess=True)["x"].tolist() == [1234.5, 1234.5, 0.5]


def test_titles_blank_rows_and_cells_beside_the_table(path):
    """A record is a row with an entry in a column of the header."""
    title, blank = ("Export of May",), ()
    rows = [("a", 1, None, None, "beside"), (None, None, None, "beside"), ("b", 2), ("c", None), blank, ("d", 4)]
    rows += [("more", place) for place in range(60)]
    write(path, title, blank, ("name", "x"), *rows)
    public = read_table(path, guess=True)
    assert public.columns.tolist() == ["name", "x"]
    assert public["x"].tolist()[:2] == [1, 2]
    layout = csv_layout(path, CSVFormat(), public=True)
    assert (layout.header, layout.lines_above, layout.words(None)[:12]) == (2, 1, "sheet 'Data'")
    like = Expected(required=frozenset({"name", "x"}), lines_above=1)
    private = read_csv(path, CSVFormat(sep=";", multiline_text=True), like=like)
    assert private["name"].tolist() == ["a", "b", "c", "d", *["more"] * 60]
    pd.testing.assert_frame_equal(private, pd.concat(table_chunks(path, 20, skip_lines=1)))


def test_sheets_are_named_or_the_only_visible_one(path):
    data, other = sheet([("a", "b"), (1, 2)]), sheet([("c", "d"), (3, 4)])
    write(path, sheets=[("Old", "hidden", other), ("Data", "visible", data), ("Notes", "veryHidden", other)])
    assert read_table(path).columns.tolist() == ["a", "b"]
    assert read_table(path, sheet="Old").columns.tolist() == ["c", "d"]
    with pytest.raises(DataError, match=r"sheet='Data ' is not a sheet of .* \(--sheet\)"):
        read_table(path, sheet="Data ")
    write(path, sheets=[("Old", "visible", other), ("Data", "visible", data)])
    with pytest.raises(DataError, match="has 2 visible sheets: name one"):
        read_table(path)


@pytest.mark.parametrize("ref", ["A1:B1", "B1:B2", "$A$1:$A$3"])
def test_merged_and_repeated_headers_are_refused_without_quoting(path, ref):
    below = f'<mergeCells count="2"><mergeCell ref="F1:H1"/><mergeCell ref="{ref}"/></mergeCells>'
    write(path, sheets=[("S", "visible", sheet([("secret", "b"), (1, 2), (3, 4)], below))])
    for read in (read_table, lambda path: list(table_chunks(path))):
        with pytest.raises(DataError, match="merged cells in its header") as caught:
            read(path)
        assert "secret" not in str(caught.value)
    merged_records = '<mergeCells count="1"><mergeCell ref="A2:B3"/></mergeCells>'
    write(path, sheets=[("S", "visible", sheet([("secret", "b"), (1, 2), (3, 4)], merged_records))])
    assert len(read_table(path)) == 2
    write(path, ("secret", "secret"), (1, 2))
    with pytest.raises(DataError) as caught:
        read_table(path)
    assert "secret" not in str(caught.value)


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"sheets": [("S", "visible", sheet([("a",), ("&b;",)], above=BOMB))]}, "declares entities"),
        ({"shared": f'{BOMB}<sst xmlns="{MAIN}"><si><t>&b;</t></si></sst>'}, "declares entities"),
        ({"styles": f'{BOMB}<styleSheet xmlns="{MAIN}"/>'}, "declares entities"),
        ({"more": [("xl/workbook.xml", BOMB + "<workbook/>")]}, "declares entities"),
        ({"more": [("xl/vbaProject.bin", "code")]}, "holds macros"),
        ({"sheets": [("S", "visible", "<worksheet><sheetData><row>")]}, "XML is damaged"),
        ({"styles": "no XML"}, "XML is damaged"),
        ({"sheets": [("S", "visible", "<a " + "x" * 2**17 + "='1'/>")]}, "more than 0 MB once it is unpacked"),
        ({"sheets": [("S", "visible", sheet([("a",), ("b" * 2**18,)]))]}, "more than 0 MB once it is unpacked"),
        ({"shared": f'<sst xmlns="{MAIN}">{"<si/>" * 2**16}</sst>'}, "more than 0 MB once it is unpacked"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_files_of_strangers_are_read_within_limits(path, monkeypatch, how, message):
    monkeypatch.setattr(excel, "_CHUNK", 2**12)
    monkeypatch.setattr(excel, "_LARGEST_PIECE", 2**15)
    monkeypatch.setattr(excel, "_LARGEST_PART", 2**17)
    monkeypatch.setattr(excel, "_LARGEST_SHEET", 2**17)
    write(path, ("a", "b"), (1, 2), **how)
    with pytest.raises(FileError, match=message) as caught:
        read_table(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "protected by a password, or of an old Excel"),
        (b"PK\x03\x04 no archive", "not an Excel workbook"),
        (b"a,b\n1,2\n", "not an Excel workbook"),
    ],
)
def test_other_files_are_told_in_one_sentence(path, content, message):
    path.write_bytes(content)
    with pytest.raises(FileError, match=message):
        read_table(path)


def test_the_extra_is_named_if_it_is_missing(path, monkeypatch):
    def missing(name):
        raise ImportError(name)

    write(path, ("a", "b"), (1, 2))
    monkeypatch.setattr(excel.importlib, "import_module", missing)
    with pytest.raises(FileError, match=r"pip install .dpensemble\[excel\]"):
        read_table(path)


def test_the_widest_sheet_and_a_cell_in_its_last_corner(path):
    names = [f"c{place}" for place in range(2**14)]
    write(path, names, range(2**14))
    assert read_table(path).iloc[0].tolist()[-2:] == ["16382", "16383"]
    far = '<c r="A1048576"><v>5</v></c><c r="XFD1048576"><v>6</v></c>'
    xml = sheet([("a", "b"), (1, 2)]).replace("</sheetData>", f'<row r="1048576">{far}</row></sheetData>')
    write(path, sheets=[("S", "visible", xml)])
    assert read_table(path)["a"].tolist() == ["1", "5"]


def test_rows_are_read_alike_in_any_number_of_parts(path, monkeypatch):
    rows = [(place, f"t{place}" if place % 3 else None, b'<c s="1"><v>43831</v></c>') for place in range(50)]
    write(path, ("a", "b", "c"), *rows)
    whole = read_table(path)
    monkeypatch.setattr(excel, "_FIRST_CELLS", 4)
    monkeypatch.setattr(excel, "_MOST_CELLS", 16)
    monkeypatch.setattr(excel, "_CHUNK", 7)
    pd.testing.assert_frame_equal(read_table(path), whole)


N_ROWS, PLACE = 9, 4


@pytest.mark.parametrize("n_mutations", [40, 1500])
def test_other_rows_are_read_the_same_whatever_one_row_holds(path, n_mutations):
    draw = np.random.default_rng(n_mutations)
    names = Expected(required=frozenset(HEADER))

    def read(odd):
        xml = sheet_with(odd, HEADER, [(f"r{place}", *RECORD[1:]) for place in range(N_ROWS)], PLACE)
        return read_csv(write(path, sheets=[("S", "visible", xml)]), CSVFormat(), like=names, keep_broken=True)

    usual = read("<row><c><v>1</v></c></row>")
    others = usual.drop(index=PLACE).to_numpy().tolist()
    assert len(others) == N_ROWS
    n_blank = 0
    for _ in range(n_mutations):
        odd = odd_row(draw)
        table = read(odd)
        # A row without an entry is not a record, as a blank line is not.
        n_blank += len(table) == N_ROWS
        rest = table if len(table) == N_ROWS else table.drop(index=PLACE)
        assert rest.columns.tolist() == usual.columns.tolist()
        assert repr(rest.to_numpy().tolist()) == repr(others), odd[:500]
    assert n_blank < n_mutations / 2


def test_a_panic_of_the_library_is_one_sentence(tmp_path, monkeypatch, capsys):
    """pyo3 raises it as a BaseException, which no handler of errors would catch."""
    import python_calamine

    class PanicException(BaseException):
        pass

    def panic(_):
        raise PanicException("called `Result::unwrap()` on an `Err` value: 4711")

    write(tmp_path / "t.xlsx", ["a", "b"], [1, 2])
    monkeypatch.setattr(python_calamine.CalamineWorkbook, "from_filelike", panic, raising=False)
    with pytest.raises(
        FileError, match=r"t\.xlsx cannot be read: its cells are damaged; save it again in Excel"
    ) as told:
        read_table(tmp_path / "t.xlsx")
    assert "4711" not in str(told.value)


ODD_STYLES = [
    "",
    "<x/>",
    '<styleSheet><cellXfs count="1"><xf numFmtId="0"/>',
    '<styleSheet><numFmts><numFmt numFmtId="164" formatCode="&#0;"/></numFmts></styleSheet>',
    '<styleSheet><numFmts><numFmt formatCode="[[[\\"/></numFmts><cellXfs><xf/><xf numFmtId="-1"/></cellXfs>'
    "</styleSheet>",
    '<styleSheet><cellXfs count="99999999999999999999"><xf numFmtId="99999999999999999999"/></cellXfs></styleSheet>',
    '<styleSheet><cellStyles count="999999999999999"><cellStyle xfId="9"/></cellStyles></styleSheet>',
]


@pytest.mark.parametrize("styles", ODD_STYLES)
def test_odd_styles_are_read_or_refused_in_one_sentence(tmp_path, styles):
    write(tmp_path / "t.xlsx", ["a", "b"], [1.5, b'<c s="1"><v>45000</v></c>'], styles=styles)
    try:
        assert read_table(tmp_path / "t.xlsx")["a"].tolist() == ["1.5"]
    except FileError as error:
        told = str(error)
        assert told.startswith(f"{tmp_path / 't.xlsx'} cannot be read: ")


def test_moments_are_read_as_their_day(tmp_path):
    """Cells with a time, without one, and both. A declared format with a time reads them, too."""
    moments = [b"<c s='2'><v>%r</v></c>" % (45000 + 9 * i + (0.371 * i) % 1) for i in range(40)]
    mixed = [b"<c s='1'><v>%r</v></c>" % (45000 + 9 * i + (0.25 if i % 3 else 0)) for i in range(40)]
    write(
        tmp_path / "t.xlsx",
        ["a", "b", "x"],
        *([a, b, i % 7] for i, (a, b) in enumerate(zip(moments, mixed, strict=True))),
    )
    public = read_table(tmp_path / "t.xlsx", guess=True)
    for columns in (None, {"a": "date:%Y-%m-%d %H:%M:%S", "b": "date:%Y-%m-%dT%H:%M"}):
        preparation = TablePreparation(columns=columns).fit(public)
        read = preparation.transform(public)
        assert {name: date["format"] for name, date in preparation.dates_.items()} == {"a": "%Y-%m-%d", "b": "%Y-%m-%d"}
        days = pd.Timestamp("1899-12-30") + pd.to_timedelta(45000 + 9 * np.arange(40), unit="D")
        for name in "ab":
            assert read[f"{name}: month"].tolist() == days.month.tolist()
            assert not preparation.unread(public)[name].any()
    old = TablePreparation(columns={"b": "date:%Y-%m-%d %H:%M:%S"}, rules=2).fit(public)
    assert old.unread(public)["b"].any()
