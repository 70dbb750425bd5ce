"""CSV files as Excel, Windows and Europe write them. No row decides how another is read."""

import gzip
import zipfile

import pandas as pd
import pytest

from dpensemble.datasets import read_table
from dpensemble.datasets.csv import looks_like_decimal_comma
from dpensemble.datasets.tables import table_chunks, take_kinds
from dpensemble.errors import DataError, FileError, InvalidParameterError

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
    ("t.xlsx", "", FileError, "save it as CSV there"),
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
