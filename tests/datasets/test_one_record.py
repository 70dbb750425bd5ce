"""Conformance of readers: when one record changes, no other record is read differently.

Every reader and every kind of column: CSV lines, Parquet rows in one file or in parts, whole or in blocks, and tables.
"""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from dpensemble.datasets import ParquetBlocks, TablePreparation, read_table
from dpensemble.datasets.columns import texts_of
from dpensemble.datasets.csv import CSVFormat, read_csv
from dpensemble.datasets.tables import as_kinds, table_chunks
from dpensemble.errors import FileError

HUGE = 2**53 + 1
N_ROWS, PLACE = 12, 7
# A type of pyarrow, entries of ordinary records, and what one record may hold instead.
KINDS = {
    "int64": (pa.int64(), [HUGE, HUGE + 2, 5], [None, 0, -(2**63), 2**63 - 1]),
    "uint64": (pa.uint64(), [HUGE, 2**63 + 1, 5], [None, 2**64 - 1]),
    "int8": (pa.int8(), [1, 2, 3], [None, -128]),
    "float": (pa.float64(), [0.1, float(2**53), 3.0], [None, float("nan"), float("inf"), 1e308]),
    "half": (pa.float32(), [0.1, 2.0, 3.0], [None, float("-inf")]),
    "truth": (pa.bool_(), [True, False, True], [None]),
    "text": (pa.string(), ["a", "7", "7.0"], [None, "", "nan", "1e400", "\x00"]),
    "code": (pa.dictionary(pa.int32(), pa.int64()), [HUGE, HUGE + 2, 5], [None, 2**63 - 1]),
    "word": (pa.dictionary(pa.int8(), pa.string()), ["a", "b", "a"], [None, "9"]),
    "money": (pa.decimal128(38, 2), [Decimal("1.50"), Decimal("2.00"), Decimal(HUGE)], [None, Decimal("1e35")]),
    "day": (pa.date32(), [datetime.date(2020, 1, 1), datetime.date(1999, 12, 31)], [None, datetime.date(9999, 1, 1)]),
    "moment": (pa.timestamp("us"), [datetime.datetime(2020, 1, 1, 12)], [None, datetime.datetime(9999, 1, 1)]),
    "list": (pa.list_(pa.int64()), [[HUGE, 1], [2]], [None, [], [None, 1]]),
    "struct": (pa.struct({"x": pa.int64()}), [{"x": HUGE}], [None, {"x": None}]),
}
NUMBERS = ("int64", "uint64", "int8", "float", "half", "truth", "text", "code", "money")


def entries_of(kind):
    ordinary = KINDS[kind][1]
    return [ordinary[i % len(ordinary)] for i in range(N_ROWS)]


def written(path, kind, entries):
    """Write a file, or three parts of a folder, whose schema does not depend on the entries."""
    table = pa.table({"x": pa.array(entries, type=KINDS[kind][0]), "y": pa.array([0, 1] * (N_ROWS // 2))})
    if path.suffix:
        parquet.write_table(table, path, row_group_size=5)
        return
    path.mkdir(exist_ok=True)
    for part, (start, stop) in enumerate(((0, 4), (4, 9), (9, N_ROWS))):
        parquet.write_table(table.slice(start, stop - start), path / f"{part}.parquet")


def whole(path):
    return read_table(path)[["x"]]


def in_chunks(path):
    return pd.concat([chunk[["x"]].astype(object) for chunk in table_chunks(path, 3)])


def in_blocks(path):
    return pd.concat([rows.astype(object) for rows, _ in ParquetBlocks(path, "y", rows=4)()])


def others(table):
    return np.delete(table.to_numpy(dtype=object)[:, 0], PLACE).tolist()


def as_read(table, *, number):
    """Read a column as the public table has it: as numbers where it holds some, else as texts."""
    return as_kinds("private", table, ["x"]) if number else texts_of(table)


@pytest.mark.parametrize("read", [whole, in_chunks, in_blocks])
@pytest.mark.parametrize("name", ["t.parquet", "parts"])
@pytest.mark.parametrize("kind", KINDS)
def test_other_rows_of_parquet_are_read_the_same(tmp_path, kind, name, read):
    path, entries = tmp_path / name, entries_of(kind)
    written(path, kind, entries)
    before = read(path)
    texts = others(as_read(before, number=False))
    # Exactly as they are written: rounding all of them alike would pass a comparison.
    if kind in ("int64", "uint64", "code"):
        assert texts == others(pd.DataFrame({"x": [str(entry) for entry in entries]}))
    for odd in KINDS[kind][2]:
        written(path, kind, [*entries[:PLACE], odd, *entries[PLACE + 1 :]])
        after = read(path)
        assert others(as_read(after, number=False)) == texts, odd
        if kind in NUMBERS and kind != "text":
            assert others(as_read(after, number=True)) == others(as_read(before, number=True)), odd


@pytest.mark.parametrize("name", ["t.parquet", "parts"])
def test_other_units_are_numbered_the_same(tmp_path, name):
    def units(entries):
        path = tmp_path / name
        written(path, "int64", entries)
        return ParquetBlocks(path, "y", unit="x").units

    entries = [HUGE, HUGE + 1] * 6
    assert units(entries).tolist() == [0, 1] * 6
    assert len(set(units([*entries[:PLACE], 3, *entries[PLACE + 1 :]]).tolist())) == 3


def test_a_part_of_another_type_changes_no_other_part(tmp_path):
    """A null makes pandas write floats into the part in which it lies."""
    for number, entries in enumerate(([HUGE, HUGE + 2], [1.0, None])):
        pd.DataFrame({"x": entries, "y": [0, 1]}).to_parquet(tmp_path / f"{number}.parquet")
    for read in (whole, in_chunks, in_blocks):
        assert as_read(read(tmp_path), number=False)["x"].tolist()[:3] == [str(HUGE), str(HUGE + 2), "1"]


@pytest.mark.parametrize("dtype", ["Int64", "UInt64", "category", "object", "int64[pyarrow]"])
@pytest.mark.parametrize("number", [True, False])
def test_other_rows_of_a_table_are_read_the_same(dtype, number):
    entries = [HUGE, HUGE + 2, 5] * 4

    def table(odd):
        values = pd.array([*entries[:PLACE], odd, *entries[PLACE + 1 :]], dtype="object")
        if dtype == "category":
            return pd.DataFrame({"x": pd.Categorical(values, categories=[HUGE, HUGE + 2, 5, 7])})
        return pd.DataFrame({"x": pd.array(values, dtype=dtype)})

    before = others(as_read(table(7), number=number))
    for odd in (None, 7, *((10**400, Decimal("1.5"), 1e400) if dtype == "object" and not number else ())):
        assert others(as_read(table(odd), number=number)) == before, odd


PIECES = ['"', '""', *",;\ta7'#\\ ", "1e400", "NA", "\x00", "\x85", "\u2028", "\ufeff", "\x1a"]


@pytest.mark.parametrize("rows", [None, 3])
@pytest.mark.parametrize("form", [CSVFormat(), CSVFormat(sep=";", decimal=","), CSVFormat(sep="tab")])
def test_other_lines_are_read_the_same(tmp_path, form, rows):
    """A hundred random lines in place of one record, each with quotation marks, separators and odd characters."""
    path, draw = tmp_path / "t.csv", np.random.default_rng(0)
    sep = form.separator(path)
    lines = [sep.join((f"{i}", f'"he said ""{i}"""', "plain", "")) for i in range(N_ROWS)]

    def read(odd):
        text = "\n".join([sep.join("abcd"), *lines[:PLACE], odd, *lines[PLACE + 1 :]])
        path.write_text(text + "\n", encoding="utf-8")
        return read_csv(path, form, keep_broken=True)

    before = read(lines[PLACE])
    assert before["b"].tolist() == [f'he said "{i}"' for i in range(N_ROWS)]
    n_broken = 0
    for _ in range(100):
        odd = "".join(draw.choice(PIECES, size=draw.integers(1, 12)))
        if not odd.strip(" \t"):
            continue
        after = read(odd)
        assert after.drop(index=PLACE).equals(before.drop(index=PLACE)), repr(odd)
        n_broken += bool(after.loc[PLACE].isna().all())
    assert 50 < n_broken < 100


def test_an_open_quotation_mark_is_one_broken_line(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('a,b\n1,x\n2,"y\n3,z\n4,"two\nlines"\n', encoding="utf-8")
    with pytest.raises(FileError, match=r"quotation mark in line 3 is never closed.*--multiline-text"):
        read_table(path)
    assert read_csv(path, CSVFormat(), keep_broken=True)["b"].isna().tolist() == [False, True, False, True, True]
    path.write_text('a,b\n1,x\n4,"two\nlines"\n', encoding="utf-8")
    assert read_table(path, multiline_text=True)["b"].tolist() == ["x", "two\nlines"]


def test_long_texts_in_quotation_marks_are_read(tmp_path):
    path, text = tmp_path / "t.csv", "note, " * 40_000
    path.write_text(f'a,b\n1,"{text}"\n', encoding="utf-8")
    assert read_table(path)["b"].tolist() == [text]


def test_dates_do_not_depend_on_the_clock():
    public = pd.DataFrame({"day": [f"2025-0{month}-03" for month in range(1, 9)], "x": 1.0})
    preparation = TablePreparation().fit(public)
    read = preparation.transform(pd.DataFrame({"day": ["now", "today", "NOW", "2025-02-03"], "x": 1.0}))
    assert read["day: month"].isna().tolist() == [True, True, True, False]


def test_a_byte_order_mark_belongs_to_its_record_wherever_parts_begin(tmp_path, monkeypatch):
    from dpensemble.datasets import csv

    monkeypatch.setattr(csv, "_LINES_AT_ONCE", 2)
    lines = [f"\ufeff{place},{place}" for place in range(5)]
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "\n".join(lines) + "\n", encoding="utf-8")
    whole = read_table(path)
    assert whole["a"].tolist() == [f"\ufeff{place}" for place in range(5)]
    path.write_text("a,b\n" + "\n".join(lines[1:]) + "\n", encoding="utf-8")
    assert read_table(path)["a"].tolist() == whole["a"].tolist()[1:]
