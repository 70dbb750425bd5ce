"""CSV files as Excel, Windows and Europe write them. No row decides how another is read.

Exports of spreadsheets and offices: read as the plain file, or refused alike for all neighbours.
"""

import gzip
import zipfile
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpensemble.datasets import read_table
from dpensemble.datasets.csv import CSVFormat, Expected, csv_layout, looks_like_decimal_comma, read_csv
from dpensemble.datasets.tables import table_chunks, take_kinds
from dpensemble.errors import DataError, DPEnsembleError, FileError, InvalidParameterError
from dpensemble.workflow import ReadOptions, TableFiles, file_tables

TEXT = "name,size\nJosé,1.5\nÖzge,2\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encodings_of_spreadsheets_are_told_by_their_first_bytes(tmp_path, encoding):
    path = tmp_path / "t.csv"
    path.write_bytes(TEXT.encode(encoding))
    table = read_table(path, guess=True)
    assert table.to_dict("list") == {"name": ["José", "Özge"], "size": [1.5, 2.0]}


def test_one_odd_byte_changes_no_other_row(tmp_path):
    """A file is not read again in another encoding because one record is written in it."""
    path, rows = tmp_path / "t.csv", "name,size\nJosé,1\nZoë,2\n".encode()
    path.write_bytes(rows)
    before = read_table(path)
    path.write_bytes(rows + "Ren\u00e9,3\n".encode("cp1252") + b"\x81\xff,4\n")
    after = read_table(path)
    assert after[:2].equals(before)
    assert after["name"].tolist()[2:] == ["René", "\ufffdÿ"]


@pytest.mark.parametrize("name", ["t.csv.gz", "t.zip", "t.csv.zip", "t.tsv", "t.txt"])
def test_compressed_files_and_other_endings(tmp_path, name):
    path = tmp_path / name
    text = TEXT.replace(",", "\t") if name.endswith("tsv") else TEXT
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    elif name.endswith(".zip"):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("inner.csv", text)
            archive.writestr("readme.md", "not a table")
    else:
        path.write_text(text, encoding="utf-8")
    assert read_table(path)["name"].tolist() == ["José", "Özge"]


def test_semicolons_and_decimal_commas(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a;b;c;d\n1,5;1.234,5;x,y;-,5\n2;1.000;1,2;3e5\n")
    table = read_table(path, guess=True, decimal=",")
    assert table["a"].tolist() == [1.5, 2.0]
    assert table["b"].tolist() == [1234.5, 1000.0]
    assert table["c"].tolist() == ["x,y", "1.2"]
    assert table["d"].tolist() == [-0.5, 3e5]
    assert read_table(path, sep=";")["a"].tolist() == ["1,5", "2"]


@pytest.mark.parametrize(("sep", "flag"), [(";", '";"'), ("\t", '"tab"'), ("|", '"|"')])
def test_another_separator_is_named(tmp_path, sep, flag):
    path = tmp_path / "t.csv"
    path.write_text(f"secret{sep}b\n1{sep}2\n")
    with pytest.raises(DataError, match="give --sep") as caught:
        read_table(path)
    assert f"--sep {flag}" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert read_table(path, sep=flag.strip('"'))["b"].tolist() == ["2"]


def test_a_decimal_comma_among_numbers_is_hinted_at():
    public = pd.DataFrame({"a": [1.5, 2.0]})
    private = pd.DataFrame({"a": ["1.0", "7,25"]})
    with pytest.raises(DataError, match=r"first in row 1, counting from 0.; if numbers .* give --decimal") as caught:
        take_kinds("private", private, public)
    assert "7,25" not in str(caught.value)
    with pytest.raises(DataError, match="correct, blank or drop them"):
        take_kinds("private", pd.DataFrame({"a": ["1", "old"]}), public)
    assert looks_like_decimal_comma("1.234,5")
    assert not any(map(looks_like_decimal_comma, ("a,b", ",", "1.5", "1,2,3")))


BAD = [
    ("t.csv", "a,b\n1,2\n1,2,3\n", FileError, "line 3 has 3 entries, but the header has 2"),
    ("t.csv", 'a,b\n1,"2\n3,4\n', FileError, "a quotation mark in line 2 is never closed"),
    ("t.csv", "a,b\n1,2,3\n", FileError, "line 2 has 3 entries, but the header has 2"),
    ("t.csv", "a,b\n1,2\n3\n", FileError, "line 3 has 1 entries, but the header has 2"),
    ("t.csv", "a\0b", FileError, "not in UTF-8"),
    ("t.csv.gz", "no gzip", FileError, "it is not a gzip file"),
    ("t.zip", "no zip", FileError, "it is not a zip file"),
    ("t.xlsx", "", FileError, "it is not an Excel workbook"),
    ("t.xlsx", "\0" * 4, FileError, "it is not an Excel workbook"),
    ("t.xlsm", "", FileError, "save it as .xlsx or CSV in the program that made it"),
    ("t.csv.bz2", "no bzip2", FileError, "it is not a bz2"),
    ("t.csv.xz", "this is no xz file", FileError, "it is not an xz file"),
    ("t.csv.zst", "no zstd", FileError, "it is not a zst"),
    ("t.duckdb", "", FileError, "t.duckdb:TABLE, otherwise use .csv"),
    ("t.csv", None, FileError, "there is no such file"),
]


@pytest.mark.parametrize(("name", "content", "error", "message"), BAD)
def test_broken_files_are_told_in_one_sentence(tmp_path, name, content, error, message):
    if content is not None:
        (tmp_path / name).write_bytes(content.encode())
    for read in (read_table, lambda path: list(table_chunks(path))):
        with pytest.raises(error, match=message) as caught:
            read(tmp_path / name)
        assert "\n" not in str(caught.value)


def test_a_zip_file_holds_one_table(tmp_path):
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        for name in ("a.csv", "b.csv"):
            archive.writestr(name, TEXT)
    with pytest.raises(FileError, match="holds 2 CSV files"):
        read_table(tmp_path / "t.zip")


@pytest.mark.parametrize(
    ("sep", "decimal"), [("", None), ("ab", None), ("1", None), ('"', None), (None, ";"), (",", ",")]
)
def test_formats_that_cannot_be(tmp_path, sep, decimal):
    with pytest.raises(InvalidParameterError, match=r"sep=|decimal="):
        read_table(tmp_path / "t.csv", sep=sep, decimal=decimal)


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_chunks_are_the_table_with_rows_numbered_through(tmp_path, name):
    whole = pd.DataFrame({"a": range(25), "b": [f"x{i}" for i in range(25)]})
    path = tmp_path / name
    whole.to_csv(path, index=False) if name.endswith("csv") else whole.to_parquet(path)
    chunks = list(table_chunks(path, 10))
    assert [len(chunk) for chunk in chunks] == [10, 10, 5]
    assert pd.concat(chunks).equals(read_table(path))


AGES = np.random.default_rng(0).integers(18, 90, 12)
PRIVATE = [["age", "ward", "ill"], *([str(a), "n" if a % 2 else "s, w", "yes" if a > 50 else "no"] for a in AGES)]
PUBLIC = [row[:2] for row in PRIVATE]


@dataclass(frozen=True)
class Written:
    """How a table is written to a file."""

    sep: str = ","
    quoted: bool = False
    sep_line: bool = False
    titles: tuple[str, ...] = ()
    ends: tuple[int, int] = (0, 0)
    around: tuple[str, str] = ("", "")
    encoding: str = "utf-8"
    line_end: str = "\n"

    def text(self, rows):
        def line(row, quoted):
            quote = [entry if not quoted and self.sep not in entry else f'"{entry}"' for entry in row]
            return self.sep.join(quote)

        names = [f"{self.around[0]}{name}{self.around[1]}" for name in rows[0]]
        header = line(names, self.quoted) + self.sep * self.ends[0]
        records = [line(row, self.quoted) + self.sep * self.ends[1] for row in rows[1:]]
        lines = [*([f"sep={self.sep}"] if self.sep_line else []), *self.titles, header, *records]
        return self.line_end.join(lines) + self.line_end

    def write(self, path, rows):
        path.write_bytes(self.text(rows).encode(self.encoding))


TITLES = st.sampled_from(
    ["Extract of 2025", "", "# made by R", "Ward; all", "Ward, all, of 2025, more", "Extract,,", "sep"]
)
LAYOUTS = st.builds(
    Written,
    sep=st.sampled_from([",", ";", "\t", "|"]),
    quoted=st.booleans(),
    sep_line=st.booleans(),
    titles=st.lists(TITLES, max_size=3).map(tuple),
    ends=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    around=st.sampled_from([("", ""), (" ", ""), ("", " "), ("\u00a0", "\t "), ("\ufeff", "")]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    line_end=st.sampled_from(["\n", "\r\n", "\r"]),
)


def files_of(folder, form=None):
    return TableFiles(
        private=folder / "private.csv",
        public=folder / "public.csv",
        target="ill",
        classes=["no", "yes"],
        form=CSVFormat() if form is None else form,
    )


def read_or_message(files):
    try:
        tables = file_tables(files, ReadOptions(blanks=True, on_bad_record="zero"))
    except DPEnsembleError as error:
        return str(error)
    return tables


def plain(folder):
    for name, rows in (("private", PRIVATE), ("public", PUBLIC)):
        Written().write(folder / f"{name}.csv", rows)
    return read_or_message(files_of(folder))


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return plain(tmp_path_factory.mktemp("plain"))


def assert_same(tables, expected):
    pd.testing.assert_frame_equal(tables.X_private, expected.X_private)
    pd.testing.assert_frame_equal(tables.X_public, expected.X_public)
    assert tables.y_private.tolist() == expected.y_private.tolist()


ODD_LINES = st.one_of(
    st.sampled_from(
        ["sep=;", "age,ward,ill", "age;ward;ill;", '"', ",,,,", "Extract of 2025", "\ufeff", "\0", "a\tb|c"]
    ),
    st.text(alphabet="ab1,;\"\t|\ufeff\0 '=é", max_size=12),
)


@given(public=LAYOUTS, private=LAYOUTS, alike=st.booleans(), stated=st.booleans(), odd=ODD_LINES)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_layouts_are_read_as_the_plain_file_or_refused_alike(tmp_path, expected, public, private, alike, stated, odd):
    """Also with one record replaced by any line: the same refusal, and the other records as before."""
    private = public if alike else private
    public.write(tmp_path / "public.csv", PUBLIC)
    private.write(tmp_path / "private.csv", PRIVATE)
    form = CSVFormat(sep=private.sep) if stated else CSVFormat()
    found = read_or_message(files_of(tmp_path, form))
    if not isinstance(found, str):
        assert_same(found, expected)
    lines = private.text(PRIVATE).split(private.line_end)
    place = len(lines) - 6
    (tmp_path / "private.csv").write_bytes(
        private.line_end.join([*lines[:place], odd + ",x", *lines[place + 1 :]]).encode(private.encoding)
    )
    after = read_or_message(files_of(tmp_path, form))
    if isinstance(found, str):
        assert after == found
        assert not any(entry in found for row in PRIVATE[1:] for entry in row if len(entry) > 2)
        return
    row = len(AGES) - 5
    assert after.X_private.drop(index=row).equals(found.X_private.drop(index=row))
    assert after.y_private.drop(index=row).equals(found.y_private.drop(index=row))


READ = [
    Written(sep=";", sep_line=True),
    Written(titles=("Extract of 2025",)),
    Written(titles=("Extract of 2025", "", "# by R")),
    Written(titles=("Extract, of, all, wards",)),
    Written(titles=("Extract,",)),
    Written(sep=";", sep_line=True, titles=("Extract of 2025",), ends=(2, 2)),
    Written(ends=(1, 0)),
    Written(ends=(0, 1)),
    Written(ends=(3, 1), quoted=True),
    Written(around=("\u00a0 ", "\t")),
    Written(around=("\ufeff", " "), encoding="utf-8-sig", quoted=True),
    Written(encoding="utf-16", line_end="\r"),
]


@pytest.mark.parametrize("which", ["both", "public", "private"])
@pytest.mark.parametrize("layout", READ, ids=range(len(READ)))
def test_exports_are_read(tmp_path, expected, layout, which):
    other = Written()
    (layout if which != "private" else other).write(tmp_path / "public.csv", PUBLIC)
    (layout if which != "public" else other).write(tmp_path / "private.csv", PRIVATE)
    found = read_or_message(files_of(tmp_path))
    if layout.titles and which == "private":
        assert "--skip-lines" in found
        n_titles = len(layout.titles)
        found = read_or_message(files_of(tmp_path, CSVFormat(skip_lines=n_titles)))
    assert_same(found, expected)


def test_an_option_wins_over_a_title_that_looks_like_a_header(tmp_path, expected):
    layout = Written(titles=("Extract,all",))
    layout.write(tmp_path / "public.csv", PUBLIC)
    layout.write(tmp_path / "private.csv", PRIVATE)
    assert "target='ill' is not a column" in read_or_message(files_of(tmp_path))
    assert_same(read_or_message(files_of(tmp_path, CSVFormat(skip_lines=1))), expected)


def test_a_record_that_is_a_header_is_not_looked_for(tmp_path):
    """The header lacks a name, and one record holds all names: the run is refused as without this record."""
    Written().write(tmp_path / "public.csv", PUBLIC)
    messages = []
    for record in (["50", "n", "yes"], ["age", "ward", "ill"]):
        Written().write(tmp_path / "private.csv", [["Age", "Ward", "ill"], record, *PRIVATE[1:]])
        messages.append(read_or_message(files_of(tmp_path)))
    assert messages[0] == messages[1]
    assert "none of the columns of the public table" in messages[0]


def test_surplus_entries_are_the_fault_of_their_record(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b,\n1,2,\n3,4\n5,6,7\n8,9,,,\n")
    assert read_csv(path, CSVFormat(), keep_broken=True)["b"].fillna("?").tolist() == ["2", "4", "?", "9"]
    with pytest.raises(FileError, match="line 4 has 3 entries, but the header has 2"):
        read_csv(path, CSVFormat())
    # A public column without a name keeps its place.
    assert list(read_csv(path, CSVFormat(), public=True).dropna().columns) == ["a", "b", "Unnamed: 2"]
    known = Expected(names=frozenset({"Unnamed: 2"}))
    assert read_csv(path, CSVFormat(), like=known, keep_broken=True)["Unnamed: 2"].tolist()[2] == "7"


def test_a_half_character_in_utf_16_changes_no_other_record(tmp_path):
    path = tmp_path / "t.csv"
    start = "a,b\n1,x\n".encode("utf-16")
    path.write_bytes(start + b"\x00\xdc,\x00y\x00\n\x00" + "3,z\n".encode("utf-16-le"))
    table = read_csv(path, CSVFormat(), keep_broken=True)
    assert table["b"].tolist()[::2] == ["x", "z"]


@pytest.mark.parametrize(
    ("text", "form", "message"),
    [
        ("sep=;\na;b\n1;2\n", CSVFormat(sep="|"), "another separator in its first line"),
        ("sep=,\na,b\n1,2\n", CSVFormat(decimal=","), "leave out --decimal"),
        ("a, a\n1,2\n", CSVFormat(), "names a column twice"),
        ('"a,b\n1,2\n', CSVFormat(), "quotation mark in its header"),
        ("\n\n", CSVFormat(), "it is empty"),
    ],
)
def test_layouts_that_cannot_be_are_refused(tmp_path, text, form, message):
    path = tmp_path / "t.csv"
    path.write_text(text)
    for public in (True, False):
        with pytest.raises((DataError, FileError), match=message):
            csv_layout(path, form, public=public)


def test_the_layout_is_stated_in_words(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("sep=;\nTitle\n a;b;\n1;2;\n3;4;\n")
    words = csv_layout(path, CSVFormat(), public=True).words(None)
    for part in ("';' separates columns (sep= in its first line)", "the header is line 3", "skipped: 1", "left out"):
        assert part in words


@pytest.mark.parametrize(("sign", "flag"), [(";", ";"), ("\t", "tab"), ("|", "|")])
def test_a_header_with_another_separator_is_no_title_above_decimal_commas(tmp_path, sign, flag):
    """Split by commas, records of a German export have more entries than their header."""
    path = tmp_path / "umsatz.csv"
    lines = [sign.join(("Nr", "Umsatz", "Quote")), *(sign.join((f"M{x}", f"{x},50 €", f"{x},5 %")) for x in range(30))]
    path.write_text("\n".join(lines) + "\n", encoding="cp1252")
    with pytest.raises(DataError) as raised:
        csv_layout(path, CSVFormat(), public=True)
    assert f'give --sep "{flag}"' in str(raised.value)


def test_a_file_that_changed_has_a_new_layout(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n")
    before = csv_layout(path, CSVFormat(), public=True)
    assert csv_layout(path, CSVFormat(), public=True) is before
    path.write_text("a;b\n1;2\n")
    assert csv_layout(path, CSVFormat(sep=";"), public=True).names == ("a", "b")
    path.write_text("title\nc,d\n1,2\n3,4\n")
    assert csv_layout(path, CSVFormat(), public=True).names == ("c", "d")
