"""Held-back records of private files in blocks or parts: those of a table in memory, and never among the others."""

import json
import os
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpensemble.cli.train
from dpensemble._spending import listen
from dpensemble.cli import main
from dpensemble.datasets.arrow import ArrowPart
from dpensemble.datasets.partitions import ParquetParts
from dpensemble.errors import DataError, FileError
from dpensemble.rows.source import BlockSource, rows_here, source_without
from dpensemble.workflow.private_rows import RowsOfFiles, UnchangedFiles

pytestmark = [pytest.mark.filterwarnings("ignore:public rows do not look:UserWarning")]

N = 600


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("held")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"size": rng.normal(size=N + 300), "town": rng.choice(["York", "Bath"], N + 300)})
    table["y"] = np.where(table["size"] + rng.normal(0, 0.5, len(table)) > 0, 1, 0)
    # Records of a person lie in several parts.
    table["who"] = rng.integers(0, 200, len(table))
    table["ward"] = rng.choice(["a", "b", "c"], len(table))
    private, public = table[:N], table[N:].drop(columns=["who", "y"])
    (place / "parts").mkdir()
    for name, part in zip("abc", np.split(np.arange(N), [50, 320]), strict=True):
        private.iloc[part].to_parquet(place / "parts" / f"{name}.parquet", index=False, row_group_size=100)
    private.to_parquet(place / "private.parquet", index=False)
    private.to_feather(place / "private.arrow")
    private.to_orc(place / "private.orc", index=False)
    public.drop(columns="ward").to_parquet(place / "public.parquet", index=False)
    return place


def train(folder, capsys, private, *more, method="label-moments"):
    out = folder / "out"
    tables = ["--private", str(folder / private), "--public", str(folder / "public.parquet"), "--out", str(out)]
    settings = "--target y --classes 0,1 --delta 1e-3 --epsilon 4 --seed 1 --insecure-release-seed 1"
    tables += ["--overwrite", "--quiet", "--json"]
    code = main(["train", method, *tables, *settings.split(), *more])
    shown = capsys.readouterr()
    if code:
        return code, shown.err
    record = json.loads(shown.out)
    return (out / "labels.csv").read_bytes(), record["data"]["released_score"], record["guarantee"]


GROUPS = ("--groups", "town,ward=a|b")
UNITS = (*GROUPS, "--unit", "who")
ROWS = (*GROUPS, "--drop", "who,ward")


@pytest.fixture(scope="module")
def in_memory(folder):
    """Results of tables in memory, by their options."""
    return {}


@pytest.mark.parametrize(
    ("private", "more"),
    [
        ("parts", UNITS),
        ("parts", (*UNITS, "--jobs", "1")),
        ("private.arrow", UNITS),
        ("parts", ROWS),
        ("parts", (*ROWS, "--jobs", "1")),
        pytest.param("parts", (*UNITS, "--jobs", "-1"), marks=pytest.mark.nightly),
        pytest.param("private.parquet", (*ROWS, "--in-blocks"), marks=pytest.mark.nightly),
        pytest.param("private.arrow", (*ROWS, "--on-bad-record", "raise"), marks=pytest.mark.nightly),
        pytest.param("private.orc", UNITS, marks=pytest.mark.nightly),
    ],
)
def test_the_score_is_that_of_a_table_in_memory(folder, capsys, in_memory, private, more):
    """Labels, histograms by group and the guarantee are the same to the last bit."""
    same = UNITS if "--unit" in more else ROWS
    if same not in in_memory:
        in_memory[same] = train(folder, capsys, "private.parquet", "--holdout-score", "0.3", *same)
    expected = in_memory[same]
    assert train(folder, capsys, private, "--holdout-score", "0.3", *more) == expected
    assert [one["group"] for one in expected[1]["groups"]["ward"]] == ["a", "b", "other"]


@pytest.mark.parametrize("more", [UNITS, pytest.param(ROWS, marks=pytest.mark.nightly)])
def test_votes_have_the_score_of_a_table_in_memory(folder, capsys, more):
    given = (*more, "--holdout-score", "0.3", "--teachers", "20")
    expected = train(folder, capsys, "private.parquet", *given, method="pate")
    assert expected[1]["units"] > 20
    assert train(folder, capsys, "parts", *given, method="pate") == expected


@pytest.mark.parametrize("more", [("--jobs", "1"), ()])
def test_held_back_units_teach_nothing(folder, capsys, monkeypatch, more):
    """No record of a held-back person is among those that are summed, and no other record is missing."""
    seen = {}
    plain = RowsOfFiles.at

    def at(self, held):
        rows = plain(self, held)
        seen["held"] = held
        return rows

    monkeypatch.setattr(RowsOfFiles, "at", at)
    results = ParquetParts.results

    def counted(self, work):
        seen["whos"] = []
        return results(self, lambda tables: work(_noted(tables, seen["whos"])))

    monkeypatch.setattr(ParquetParts, "results", counted)
    assert train(folder, capsys, "parts", *UNITS, "--holdout-score", "0.3", *more)[1]["units"] > 20
    private = pd.read_parquet(folder / "private.parquet")
    held = seen["held"]
    assert not set(private["who"][held]) & set(private["who"][~held])
    if more:
        assert sorted(seen["whos"]) == sorted(private["who"][~held])


def _noted(tables, whos):
    for table in tables:
        whos.extend(table["who"])
        yield table


def test_parts_without_rows_have_all_others(folder):
    private = pd.read_parquet(folder / "private.parquet")
    held = np.random.default_rng(1).random(N) < 0.3
    arrow = pa.Table.from_pandas(private, preserve_index=False)
    for table in (
        ParquetParts(folder / "parts", "y"),
        ArrowPart(lambda: arrow.to_reader(max_chunksize=70), "y"),
        ParquetParts(folder / "parts", "y").without(~held),
    ):
        rest = table.without(held)
        rows = pd.concat(rest.results(lambda tables: pd.concat(list(tables))), ignore_index=True)
        assert rows["size"].tolist() == private["size"][~held].tolist()
    whole = pd.concat(ParquetParts(folder / "parts", "y").results(lambda tables: pd.concat(list(tables))))
    assert len(whole) == N
    with pytest.raises(DataError, match="held has 3 entries for 600 rows"):
        ParquetParts(folder / "parts", "y").without(np.ones(3, dtype=bool))


def test_a_file_that_changes_after_records_were_held_back_ends_the_pass(tmp_path):
    """A row that moves to another place could be held back and summed."""
    file = tmp_path / "a.parquet"
    table = pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": [0, 1, 0]})
    table.to_parquet(file, index=False)
    held = np.array([True, False, False])
    parts, files = ParquetParts(file, "y"), UnchangedFiles([file])
    rest = source_without(parts, held, files.require_same)

    def read():
        yield pd.read_parquet(file)[["x"]], pd.read_parquet(file)["y"].to_numpy()

    blocks = partial(rows_here, source_without(BlockSource(read, fixed_places=True), held, files.require_same))
    assert [frame["x"].tolist() for frame in rest.results(lambda tables: next(iter(tables)))] == [[2.0, 3.0]]
    assert [block["x"].tolist() for block, _ in blocks()] == [[2.0, 3.0]]
    table.iloc[[1, 0, 2]].to_parquet(file, index=False)
    os.utime(file, ns=(0, 0))
    with pytest.raises(DataError, match="changed or removed during the run"):
        list(blocks())
    # A part whose size differs is refused where it is read.
    with pytest.raises((DataError, FileError), match="was changed"):
        list(rest.results(list))
    file.unlink()
    with pytest.raises(DataError, match="changed or removed"):
        files.require_same()


def test_a_file_that_changes_after_its_units_were_numbered_is_refused(folder, capsys, monkeypatch):
    """The places of persons are those of the first pass."""
    plain = RowsOfFiles.at

    def at(self, held):
        os.utime(folder / "parts" / "b.parquet")
        return plain(self, held)

    monkeypatch.setattr(RowsOfFiles, "at", at)
    code, shown = train(folder, capsys, "parts", *UNITS, "--holdout-score", "0.3", "--jobs", "1")
    assert (code, "changed" in shown) == (2, True)


def test_other_numbers_of_records_than_before_are_refused():
    def read():
        yield pd.DataFrame({"x": [1.0]}), np.array([0])

    with pytest.raises(DataError, match="changed its number of records"):
        list(rows_here(source_without(BlockSource(read, fixed_places=True), np.array([True, False]))))


def test_a_block_of_held_back_rows_alone_is_left_out():
    def read():
        for x in (1.0, 2.0):
            yield pd.DataFrame({"x": [x]}), np.array([0])

    blocks = rows_here(source_without(BlockSource(read, fixed_places=True), np.array([True, False])))
    assert [block["x"].tolist() for block, _ in blocks] == [[2.0]]


@pytest.fixture
def dated(folder, tmp_path, capsys, monkeypatch):
    """Write private and public tables with dates, and return a place among the held-back records of a run on them."""
    held = []
    plain = RowsOfFiles.at
    monkeypatch.setattr(RowsOfFiles, "at", lambda self, places: held.append(places) or plain(self, places))
    (tmp_path / "parts").mkdir()
    for name, place in (("private", "parts/a"), ("public", "public")):
        table = pd.read_parquet(folder / f"{name}.parquet")
        days = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(len(table)), unit="D")
        table = table.assign(day=days.strftime("%Y-%m-%d"), **({"y": table["y"].astype(float)} if "y" in table else {}))
        table.to_parquet(tmp_path / f"{place}.parquet", index=False)
    assert len(train(tmp_path, capsys, "parts", *ROWS, "--holdout-score", "0.3")) == 3
    return int(np.flatnonzero(held[-1])[0])


@pytest.mark.parametrize("method", ["label-moments", "pate"])
@pytest.mark.parametrize(
    ("column", "entry"), [("y", 7.0), ("size", np.inf), ("size", 1.797e308), ("day", "2024-02-31"), ("town", None)]
)
@pytest.mark.parametrize("private", ["parts", pytest.param("parts/a.parquet", marks=pytest.mark.nightly)])
def test_a_bad_held_back_record_costs_nothing(dated, tmp_path, capsys, monkeypatch, private, method, column, entry):
    """The record raises before the charge, or the method takes it. `parts/a.parquet` is read into memory."""
    # A rehearsal announces a budget, too, and spends nothing.
    monkeypatch.setattr(dpensemble.cli.train, "rehearse", lambda *_, **__: None)
    file = tmp_path / "parts" / "a.parquet"
    table = pd.read_parquet(file)
    table.loc[dated, column] = entry
    table.to_parquet(file, index=False)
    charges = []
    with listen(charges.append):
        given = (*ROWS, "--holdout-score", "0.3", "--on-bad-record", "raise")
        ended = train(tmp_path, capsys, private, *given, method=method)
    assert (len(ended) == 3) == bool(charges)
    if column == "y" or entry == np.inf:
        assert ended[0] == 2
        assert "private" in ended[1] or "held-back" in ended[1]
    assert "2024-02-31" not in str(ended)
    if entry == np.inf:
        assert f"row {dated}, counting from 0" in ended[1]
