"""Tables of one run, as they are read from files."""

import datetime
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpensemble._checks import declared_labels
from dpensemble.cli import main
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.workflow import ReadOptions, TableFiles, file_tables

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")


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
def test_features_of_any_type_in_parquet_are_read_and_units_of_few(tmp_path, kind, in_blocks):
    columns = {"size": pa.array([1.0, 2.0, 3.0, 4.0]), "y": pa.array([0, 1, 0, 1]), "odd": COLUMNS[kind]}
    pq.write_table(pa.table(columns), tmp_path / "public.parquet")
    ids = pa.array(["p", "q", "r", "p"]).dictionary_encode()
    pq.write_table(pa.table(columns | {"who": ids, "when": COLUMNS[kind]}), tmp_path / "private.parquet")
    files = TableFiles(
        private=tmp_path / "private.parquet",
        public=tmp_path / "public.parquet",
        target="y",
        classes=[0, 1],
        unit="who",
        drop=["when"],
    )
    options = ReadOptions(takes_blocks=True, in_blocks=in_blocks)
    with pytest.raises(DataError, match=r"unit='when' has the type .*, in which one id may have several forms"):
        file_tables(replace(files, unit="when", drop=["who"]), options)
    tables = file_tables(files, options)
    units = tables.units if tables.stream is None else tables.stream.units
    assert tables.n_units == 3
    assert units[0] == units[3]
    rows = tables.X_private if tables.stream is None else next(tables.stream.read())[0]
    assert list(rows) == ["size", "odd"]
    assert rows["odd"][0] == rows["odd"][3] != rows["odd"][1]


ENTRIES = [(["p", "p", "q", "r"], ["p", "p", "q", "r"]), ([7, 7, 8, 9], ["7", "7", "8", "9"]), ([""] * 4, None)]


@pytest.mark.parametrize(("entries", "units"), ENTRIES)
def test_public_units_are_read_where_the_public_table_has_the_column(files, entries, units):
    public = pd.read_csv(files["public"]).assign(who=entries)
    public.to_csv(files["public"], index=False)
    tables = file_tables(TableFiles(**files, classes=["no", "yes, badly"]))
    assert list(tables.X_public) == ["age"]
    assert tables.public_units == units


def test_public_units_are_unknown_where_the_public_table_lacks_the_column(files):
    assert file_tables(TableFiles(**files, classes=["no", "yes, badly"])).public_units is None


def test_public_rows_of_which_some_have_no_unit_are_refused(files):
    pd.read_csv(files["public"]).assign(who=["p", "", "q", "r"]).to_csv(files["public"], index=False)
    with pytest.raises(DataError, match=r"the public table has rows without a unit in column 'who' \(first in row 1"):
        file_tables(TableFiles(**files, classes=["no", "yes, badly"]))


@pytest.fixture
def visits(tmp_path, monkeypatch):
    """Alike visits, 5 of each of 100 private and 80 public people."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, n_people in (("private", 100), ("public", 80)):
        x = np.repeat(rng.normal(size=n_people), 5)
        sick = np.where(x + rng.normal(size=len(x)) > 0, "yes", "no")
        pd.DataFrame({"x": x, "who": np.repeat(np.arange(n_people), 5), "sick": sick}).to_csv(
            f"{name}.csv", index=False
        )
    line = "train label-moments --private private.csv --public public.csv --target sick --classes no,yes --unit who"
    return f"{line} --delta 1e-3 --epsilon 3 --rounds 1 --quiet --out run --overwrite".split()


def test_a_run_states_whether_public_rows_look_like_the_private_ones(visits, capsys):
    assert main(visits) == 0
    data = json.loads(Path("run/run.json").read_text())["data"]
    assert (data["public_units"], data["public_rows_unlike"]) == (80, "no sign of it")
    assert "unlike" not in data
    assert data["columns"] == 1
    pd.read_csv("public.csv").drop(columns="who").to_csv("public.csv", index=False)
    capsys.readouterr()
    assert main(visits) == 0
    data = json.loads(Path("run/run.json").read_text())["data"]
    assert (data.get("public_units"), data["public_rows_unlike"]) == (None, "cannot be decided")
    assert "the test cannot decide whether public rows look like the private ones" in data["unlike"]
    assert "the test cannot decide" in " ".join(capsys.readouterr().out.split())
    assert "the test cannot decide" in Path("run/report.html").read_text().lower()


def test_methods_that_compare_nothing_take_a_public_table_with_units(visits):
    assert main([*visits[:1], "pate", *visits[2:-6], "--teachers", "10", "--quiet", "--out", "voted"]) == 0
