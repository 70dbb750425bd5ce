"""Tables of one run, as they are read from files."""

import datetime

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpensemble.errors import InvalidParameterError
from dpensemble.workflow import ReadOptions, TableFiles, file_tables
from dpensemble.workflow.class_labels import declared_labels


@pytest.fixture
def files(tmp_path):
    rows = pd.DataFrame({"age": [20.0, 30.0, 40.0, 50.0], "who": list("abcd"), "sick": ["no", "yes, badly"] * 2})
    rows.to_csv(tmp_path / "private.csv", index=False)
    rows.drop(columns="who").to_csv(tmp_path / "public.csv", index=False)
    return {"private": tmp_path / "private.csv", "public": tmp_path / "public.csv", "target": "sick", "unit": "who"}


def test_classes_are_a_list_whose_labels_may_hold_commas(files):
    tables = file_tables(TableFiles(**files, classes=["no", "yes, badly"]))
    assert tables.classes == ["no", "yes, badly"]
    assert tables.y_private.tolist() == ["no", "yes, badly"] * 2
    assert list(tables.X_private) == ["age"]
    assert tables.units.tolist() == list("abcd")


@pytest.mark.parametrize(
    ("classes", "labels"), [([0, 1], [0, 1]), (["0", "1.5"], [0, 1.5]), ([True, False], ["True", "False"])]
)
def test_classes_are_numbers_if_all_of_them_can_be_read_as_numbers(classes, labels):
    assert declared_labels(classes) == labels


@pytest.mark.parametrize(
    ("classes", "message"), [("no,yes", "must be a list"), (["a", "A"], "twice"), (["a", ""], "empty label")]
)
def test_classes_that_are_no_labels_raise(files, classes, message):
    with pytest.raises(InvalidParameterError, match=message):
        file_tables(TableFiles(**files, classes=classes))


DAYS = [datetime.datetime(2024, 1, day, tzinfo=datetime.UTC) for day in (1, 2, 3, 1)]
COLUMNS = {
    "list": pa.array([[1, 2], [3], [], [1, 2]]),
    "struct": pa.array([{"a": 1}, {"a": 2}, {"a": 3}, {"a": 1}]),
    "map": pa.array([[("a", 1)], [("b", 2)], [], [("a", 1)]], pa.map_(pa.string(), pa.int64())),
    "date": pa.array([day.date() for day in DAYS]),
    "dictionary of times": pa.array(DAYS).dictionary_encode(),
    "float": pa.array([0.5, 1.5, 2.5, 0.5]),
}


@pytest.mark.parametrize("in_blocks", [False, True])
@pytest.mark.parametrize("kind", COLUMNS)
def test_units_and_features_of_any_type_in_parquet_are_read(tmp_path, kind, in_blocks):
    columns = {"size": pa.array([1.0, 2.0, 3.0, 4.0]), "y": pa.array([0, 1, 0, 1]), "odd": COLUMNS[kind]}
    pq.write_table(pa.table(columns), tmp_path / "public.parquet")
    pq.write_table(pa.table(columns | {"who": COLUMNS[kind]}), tmp_path / "private.parquet")
    files = TableFiles(
        private=tmp_path / "private.parquet",
        public=tmp_path / "public.parquet",
        target="y",
        classes=[0, 1],
        unit="who",
    )
    tables = file_tables(files, ReadOptions(takes_blocks=True, in_blocks=in_blocks))
    units = tables.units if tables.stream is None else tables.stream.units
    assert tables.n_units == 3
    assert units[0] == units[3]
    rows = tables.X_private if tables.stream is None else next(tables.stream.read())[0]
    assert list(rows) == ["size", "odd"]
    assert rows["odd"][0] == rows["odd"][3] != rows["odd"][1]
