"""Folders of Parquet parts as one table, and as blocks of records.

Arrow streams: the release of `fit`, to the last bit, from any source that can be read again.
"""

import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dpensemble import LabelMomentsClassifier
from dpensemble.datasets import ParquetBlocks, read_table
from dpensemble.datasets.arrow import ArrowBlocks, ArrowPart, ParquetTable
from dpensemble.datasets.frames import exact_frame
from dpensemble.errors import DataError, FileError, InvalidParameterError


@pytest.fixture
def folder(tmp_path):
    """Three parts, one of them empty and one in a sub-folder, with their columns in different orders."""
    parts = tmp_path / "private"
    (parts / "2026").mkdir(parents=True)
    table = pd.DataFrame({"size": [1.0, 2.0, 3.0], "town": ["a", "b", "a"], "who": ["7", "8", "7"], "y": [0, 1, 1]})
    table.to_parquet(parts / "1.parquet")
    table.iloc[:0].to_parquet(parts / "2.parquet")
    (table[["y", "who", "town", "size"]] + table[["y", "who", "town", "size"]]).assign(
        who=[7, 9, 7], town="c", y=[1, 0, 0]
    ).to_parquet(parts / "2026" / "3.PQ")
    (parts / "_SUCCESS").touch()
    (parts / ".1.parquet.crc").touch()
    return parts


def test_parts_are_one_table(folder):
    found = read_table(folder)
    assert list(found) == ["size", "town", "who", "y"]
    assert found["size"].tolist() == [1, 2, 3, 2, 4, 6]
    assert found["town"].tolist() == ["a", "b", "a", "c", "c", "c"]
    table = ParquetTable(folder)
    assert table.n_rows == 6
    assert table.n_bytes > 0
    for rows in (1, 2, 100):
        blocks = list(table.blocks(["y", "size"], rows))
        assert max(map(len, blocks)) <= rows
        assert pd.concat(blocks)["size"].tolist() == found["size"].tolist()


def test_a_unit_spread_over_parts_is_one_unit(folder):
    """It is the text 7 in one part and the number 7 in another."""
    read = ParquetBlocks(folder, "y", unit="who", drop=["town"])
    assert read.units.tolist() == [0, 1, 0, 0, 2, 0]
    assert read.n_records == 6
    for _ in range(2):
        blocks = list(read())
        assert all(list(rows) == ["size"] for rows, _ in blocks)
        assert np.concatenate([labels for _, labels in blocks]).tolist() == [0, 1, 1, 1, 0, 0]


def test_what_pandas_wrote_as_an_index_is_no_column(tmp_path):
    pd.DataFrame({"a": [1, 2]}, index=["x", "y"]).to_parquet(tmp_path / "t.parquet")
    table = ParquetTable(tmp_path / "t.parquet")
    assert table.columns == ["a"]
    assert [list(block) for block in table.blocks()] == [["a"]]
    assert list(read_table(tmp_path / "t.parquet")) == ["a"]


def test_parts_that_do_not_belong_together_are_refused_without_names(folder):
    pd.DataFrame({"size": [1.0], "name of Smith": ["a"]}).to_parquet(folder / "4.parquet")
    with pytest.raises(DataError, match="4 parts, and 1 of them have other columns than the first") as caught:
        ParquetTable(folder)
    assert "Smith" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda folder: (folder / "notes.txt").write_text("x"), FileError, "other files than .parquet"),
        (lambda folder: (folder / "4.parquet").write_text("x"), FileError, "a part that cannot be read as Parquet"),
        (lambda folder: (folder / "2026").rename(folder / "year=2026"), FileError, "in the names of its folders"),
        (lambda folder: [os.remove(folder / n) for n in ("1.parquet", "2026/3.PQ")], DataError, "has no rows"),
        (
            lambda folder: [os.remove(folder / n) for n in ("1.parquet", "2026/3.PQ", "2.parquet")],
            FileError,
            "a folder without Parquet files",
        ),
    ],
)
def test_folders_that_are_no_table_are_refused_in_one_sentence(folder, change, error, message):
    change(folder)
    with pytest.raises(error, match=message) as caught:
        read_table(folder)
    assert "\n" not in str(caught.value)


def test_a_part_that_changes_between_rounds_is_noticed(folder):
    read = ParquetBlocks(folder, "y", unit="who")
    assert len(list(read())) == 2
    table = pd.read_parquet(folder / "1.parquet")
    pd.concat([table, table]).to_parquet(folder / "1.parquet")
    with pytest.raises(DataError, match="was changed while it was read"):
        list(read())


def test_a_missing_column_or_unit_is_refused(folder):
    with pytest.raises(DataError, match="target='z' is not a column"):
        ParquetBlocks(folder, "z")
    with pytest.raises(DataError, match="unit='z' is not a column"):
        ParquetBlocks(folder, "y", unit="z")
    table = pd.read_parquet(folder / "1.parquet").assign(who=["7", None, "8"])
    table.to_parquet(folder / "1.parquet")
    with pytest.raises(DataError, match="rows without a unit"):
        ParquetBlocks(folder, "y", unit="who")


def casts_views():
    """Return whether this version of pyarrow casts texts that are stored apart."""
    try:
        return pa.array(["a"], type=pa.string_view()).cast(pa.large_string()) is not None
    except pa.ArrowNotImplementedError:
        return False


needs_views = pytest.mark.skipif(not casts_views(), reason="this version of pyarrow does not cast views")


@needs_views
def test_dictionaries_of_views_and_runs_are_decoded():
    words = pa.array(["a", None, "b", "a"], type=pa.string_view())
    codes = pa.array([0, None, 1, 0], type=pa.int32())
    views = pa.DictionaryArray.from_arrays(codes, pa.array(["a", "b"], type=pa.string_view()))
    runs = pa.RunEndEncodedArray.from_arrays([1, 2, 3, 4], pa.array(["a", None, "b", "a"]))
    found = exact_frame(pa.table({"words": words, "views": views, "runs": runs}))
    for name in found:
        assert found[name].isna().tolist() == [False, True, False, False]
        assert found[name].dropna().tolist() == ["a", "b", "a"]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pytest.param(pa.string_view(), marks=needs_views)], ids=str
)
def test_a_text_that_is_not_utf8_is_read_as_from_csv(kind):
    bad = pa.array([b"York", b"Ann \xff"], type=pa.binary() if kind == pa.string() else pa.large_binary())
    texts = bad.cast(pa.string_view(), safe=False) if kind == pa.string_view() else bad.view(kind)
    table = pa.table({"town": texts, "size": [1, 2]})
    for data in (table, table.to_batches()[0]):
        assert exact_frame(data)["town"].tolist() == ["York", "Ann ÿ"]


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=300), "b": rng.choice(["x", "y"], 300), "who": np.arange(300) // 2})
    table["y"] = (table["a"] > 0).astype(int)
    return table[100:].reset_index(drop=True), table[:100][["a", "b"]]


def released(table, public, read=None):
    model = LabelMomentsClassifier(classes=[0, 1], delta=1e-3, insecure_release_seed=2)
    if read is None:
        return (
            model.fit(table[["a", "b"]], table["y"], X_public=public, units=table["who"]).moments_[-1].values.tolist()
        )
    return model.fit_blocks(read, X_public=public, units=read.units).moments_[-1].values.tolist()


@pytest.mark.usefixtures("few_synthetic_rows")
def test_streams_release_what_a_table_releases(world):
    table, public = world
    arrow = pa.Table.from_pandas(table)
    for source in (arrow, lambda: arrow.to_reader(max_chunksize=33)):
        assert released(table, public, ArrowBlocks(source, "y", unit="who", rows=50)) == released(table, public)


@pytest.mark.usefixtures("few_synthetic_rows")
def test_what_cannot_be_read_again_is_refused(world):
    table, _ = world
    with pytest.raises(InvalidParameterError, match="read only once"):
        ArrowBlocks(pa.Table.from_pandas(table).to_reader(), "y")
    with pytest.raises(InvalidParameterError, match="no Arrow stream"):
        ArrowBlocks([1, 2], "y")
    with pytest.raises(DataError, match="not one column"):
        ArrowBlocks(pa.Table.from_pandas(table), "z")


@pytest.mark.usefixtures("few_synthetic_rows")
@pytest.mark.parametrize("first_executions", [2, 3])
def test_records_are_not_taken_for_those_of_other_units(world, first_executions):
    table, public = world
    arrow, others = pa.Table.from_pandas(table), pa.Table.from_pandas(table.iloc[::-1])
    executions = iter([arrow] * first_executions)
    read = ArrowBlocks(lambda: next(executions, others).to_reader(), "y", unit="who")
    with pytest.raises(DataError, match="order the query") as refusal:
        released(table, public, read)
    assert not any(character.isdigit() for character in str(refusal.value))


@pytest.mark.usefixtures("few_synthetic_rows")
def test_a_part_takes_rows_in_any_order(world):
    table, public = world
    arrow, others = pa.Table.from_pandas(table), pa.Table.from_pandas(table.iloc[::-1])
    executions = iter([arrow, others, arrow])
    part = ArrowPart(lambda: next(executions, others).to_reader(max_chunksize=33), "y", unit="who")
    model = LabelMomentsClassifier(classes=[0, 1], delta=1e-3, insecure_release_seed=2)
    assert model.fit_blocks(part, X_public=public).moments_[-1].values.tolist() == released(table, public)


@pytest.mark.usefixtures("few_synthetic_rows")
def test_a_part_whose_rows_change_is_refused(world):
    table, public = world
    arrow = pa.Table.from_pandas(table)
    executions = iter([arrow] * 3)
    part = ArrowPart(lambda: next(executions, arrow.slice(1)).to_reader(), "y", unit="who")
    model = LabelMomentsClassifier(classes=[0, 1], delta=1e-3, insecure_release_seed=2)
    with pytest.raises(DataError, match="changed between two passes"):
        model.fit_blocks(part, X_public=public)


@pytest.mark.usefixtures("few_synthetic_rows")
def test_duckdb_and_polars(world):
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    table, public = world
    connection = duckdb.connect()
    connection.register("records", table)
    query = "select a, b, who, y from records"
    for source in (
        lambda: connection.sql(query).to_arrow_reader(64),
        polars.from_pandas(table),
        lambda: polars.from_pandas(table).lazy().collect(),
    ):
        assert released(table, public, ArrowBlocks(source, "y", unit="who")) == released(table, public)
