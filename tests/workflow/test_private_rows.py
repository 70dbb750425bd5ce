"""Private records in blocks or parts: the same release as from memory, and what is refused.

Held-back records are those of a table in memory, and never among the others.
"""

import json
import os
import re
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
from dpensemble.methods import LabelMomentsClassifier, SubsampleAggregateClassifier
from dpensemble.rows.source import BlockSource, rows_here, source_without
from dpensemble.workflow import ReadOptions, private_rows, table_files
from dpensemble.workflow.private_rows import PrivateStream, RowsOfFiles, UnchangedFiles
from dpensemble.workflow.table_files import TableFiles, Workers
from dpensemble.workflow.tables import file_tables
from dpensemble.workflow.targets import DeclaredTimes

pytestmark = [
    pytest.mark.filterwarnings("ignore:public rows do not look:UserWarning"),
    pytest.mark.usefixtures("few_synthetic_rows"),
]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    n = 400
    size, town = rng.normal(size=n), rng.choice(["York", "Bath", "Ely"], n)
    y = np.where(size + (town == "Bath") + rng.normal(size=n) / 2 > 0, "yes", "no")
    size[rng.random(n) < 0.05] = np.nan
    return pd.DataFrame({"size": size, "town": town, "who": rng.integers(0, 150, n).astype(str), "y": y})


@pytest.fixture
def files(table, tmp_path):
    """The same 300 private records as one file and as a folder, with public rows beside them."""
    private, parts = table.iloc[:300], tmp_path / "parts"
    parts.mkdir()
    private.to_parquet(tmp_path / "private.parquet", row_group_size=50)
    for place, rows in enumerate(np.array_split(np.arange(300), [0, 7, 150])):
        private.iloc[rows].to_parquet(parts / f"{place}.parquet", index=False)
    table.iloc[300:].drop(columns=["who", "y"]).to_csv(tmp_path / "public.csv", index=False)
    return tmp_path


def train(folder, private, capsys, *more, method="label-moments"):
    settings = "--target y --classes no,yes --delta 1e-3 --insecure-release-seed 1 --quiet --overwrite --json"
    tables = ["--private", str(folder / private), "--public", str(folder / "public.csv"), "--out", str(folder / "out")]
    code = main(["train", method, *tables, *settings.split(), *more])
    shown = capsys.readouterr()
    return code, json.loads(shown.out) if code == 0 else shown.err


@pytest.mark.parametrize("unit", [("--drop", "who"), ("--unit", "who")])
def test_a_folder_and_a_file_in_blocks_release_what_memory_does(files, capsys, monkeypatch, unit):
    code, memory = train(files, "private.parquet", capsys, *unit)
    assert code == 0
    student = (files / "out" / "labels.csv").read_bytes()
    read = []
    plain = private_rows.ParquetBlocks.__call__
    monkeypatch.setattr(private_rows.ParquetBlocks, "__call__", lambda self: read.append(self) or plain(self))
    for private, more in (("parts", ()), ("private.parquet", ("--in-blocks",))):
        read.clear()
        code, found = train(files, private, capsys, *unit, *more)
        assert code == 0
        assert read
        for key in ("labels", "guarantee", "effects"):
            assert found[key] == memory[key]
        for key in ("private_records", "private_units"):
            assert found["data"][key] == memory["data"][key]
        assert (files / "out" / "labels.csv").read_bytes() == student


def test_a_large_file_is_read_in_blocks_unasked(files, monkeypatch):
    file = files / "private.parquet"
    able = ReadOptions(takes_blocks=True)
    assert not able.reads_in_blocks(file)
    monkeypatch.setattr(table_files, "LARGE", 100)
    assert able.reads_in_blocks(file)
    assert not ReadOptions().reads_in_blocks(file)


@pytest.fixture
def complete(files):
    """The same source_without blanks."""
    whole = pd.read_parquet(files / "parts").fillna({"size": 0.0})
    for old in (files / "parts").iterdir():
        old.unlink()
    whole.iloc[:80].to_parquet(files / "parts" / "1.parquet")
    whole.iloc[80:].to_parquet(files / "parts" / "2.parquet")
    whole.to_parquet(files / "private.parquet")
    pd.read_csv(files / "public.csv").fillna(0.0).to_csv(files / "public.csv", index=False)
    return files


VOTES = ("--unit", "who", "--teachers", "10", "--jobs", "1", "--seed", "0")


def test_votes_on_blocks_are_those_on_memory(complete, capsys, monkeypatch):
    code, memory = train(complete, "private.parquet", capsys, *VOTES, method="saa")
    assert code == 0
    released = (complete / "out" / "labels.csv").read_bytes()
    monkeypatch.setattr("dpensemble.teachers.ensemble._BYTES_AT_ONCE", 8 * 4 * 100)
    for private, more in (("parts", ()), ("private.parquet", ("--in-blocks",))):
        code, found = train(complete, private, capsys, *VOTES, *more, method="saa")
        assert code == 0
        assert found["guarantee"] == memory["guarantee"]
        assert found["data"] | {"name": ""} == memory["data"] | {"name": ""}
        assert (complete / "out" / "labels.csv").read_bytes() == released


@pytest.mark.parametrize("more", [("--baseline",), ("--relation", "add-or-remove-one")])
def test_votes_take_a_folder_into_memory_where_they_must(complete, capsys, more):
    code, found = train(complete, "parts", capsys, *VOTES, *more, method="saa")
    assert code == 0
    assert found["data"]["private_records"] == 300
    code, shown = train(complete, "parts", capsys, *VOTES, *more, "--in-blocks", method="saa")
    assert code == 2
    assert more[0].strip("-") in shown


def test_other_methods_take_a_folder_into_memory(complete, capsys):
    settings = ["--budgets", "6:50%,8:50%"]
    code, found = train(complete, "parts", capsys, *VOTES, *settings, method="weighting-pate")
    assert code == 0, found
    assert found["data"]["private_records"] == 300


@pytest.mark.parametrize(
    ("change", "more", "message"),
    [
        ({"size": "five"}, (), "column 'size' is numbers in the public table but has entries that are not numbers"),
        ({"y": None}, (), "rows without a target in column 'y'"),
        ({"y": "maybe"}, (), "contain one that is not among"),
        ({"who": None}, ("--unit", "who"), "rows without a unit in column 'who'"),
        ({"size": np.inf}, (), "infinite values in size"),
        ({}, ("--baseline",), "baseline=True requires all private records in memory"),
        ({}, ("--target", "town"), "is also|(is|are) not among|lacks"),
        ({}, ("--unit", "nobody"), "unit='nobody' is not a column of the private table"),
    ],
)
def test_a_bad_last_part_is_found_before_anything_is_spent(files, capsys, change, more, message):
    """Only the last record of the last part is bad. Earlier blocks are fine."""
    last = pd.read_parquet(files / "parts" / "3.parquet")
    bad = last.iloc[[-1]].astype(object)
    for column, entry in change.items():
        bad[column] = entry
        if isinstance(entry, str) and column == "size":
            bad = bad.astype({"size": str})
    if change:
        bad.to_parquet(files / "parts" / "4.parquet", index=False)
    drop = () if "--unit" in more else ("--drop", "who")
    code, shown = train(files, "parts", capsys, "--on-bad-record", "raise", *drop, *more)
    assert code == 2
    assert len(shown.strip().splitlines()) == 1
    assert re.search(message, shown), shown
    assert "Traceback" not in shown
    assert not (files / "out").exists()
    assert not list(files.glob(".dpensemble-*"))


def test_in_blocks_needs_parquet_and_public_rows_elsewhere(files, capsys):
    code, shown = train(files, "public.csv", capsys, "--in-blocks", "--public", str(files / "private.parquet"))
    assert code == 2
    assert "requires a private table in Parquet" in shown
    pd.read_csv(files / "public.csv").to_parquet(files / "parts" / "public.parquet")
    code, shown = train(files, "parts", capsys, "--public", str(files / "parts" / "public.parquet"))
    assert code == 2
    assert "is in the private table's folder" in shown


def test_units_of_blocks_are_those_of_memory(table):
    """A unit's records share one weight at all places. Too few or too many entries are refused."""
    private, public = table.iloc[:300], table.iloc[300:][["size", "town"]]
    X, y, units = private[["size", "town"]], private["y"].to_numpy(), private["who"].to_numpy()

    def blocks():
        for rows in np.array_split(np.arange(300), 9):
            yield X.iloc[rows], y[rows]

    def model():
        return LabelMomentsClassifier(classes=["no", "yes"], delta=1e-3, insecure_release_seed=0)

    whole = model().fit(X, y, X_public=public, units=units)
    found = model().fit_blocks(blocks, X_public=public, units=units)
    plain = model().fit_blocks(blocks, X_public=public)
    for one, other in zip(whole.moments_, found.moments_, strict=True):
        assert np.array_equal(one.values, other.values)
    assert not np.array_equal(plain.moments_[0].values, found.moments_[0].values)
    assert found.guarantee_ == whole.guarantee_
    assert found.guarantee_.unit == "unit"
    for wrong in (units[:-1], np.append(units, "x")):
        with pytest.raises(DataError, match="entries than blocks have records"):
            model().fit_blocks(blocks, X_public=public, units=wrong)
    y[299] = "maybe"
    with pytest.raises(DataError, match=r"the first in row 299, counting from 0"):
        model().fit_blocks(blocks, X_public=public)


def test_records_of_nobody_are_left_out_of_blocks_as_in_memory(files, capsys):
    """They must not count as one unit, which a person could join by the loss of an id."""
    private = pd.read_parquet(files / "private.parquet").assign(who=lambda table: table["who"].astype(object))
    private.loc[::5, "who"] = None
    private.to_parquet(files / "private.parquet")
    released = []
    for blocks in ((), ("--in-blocks",)):
        code, record = train(files, "private.parquet", capsys, "--unit", "who", *blocks)
        assert code == 0, record
        released.append({name: value for name, value in record.items() if name not in ("created", "seconds", "out")})
    assert released[0] == released[1]


def test_a_reader_of_a_stream_states_whose_records_have_no_unit(files, monkeypatch):
    """Methods that vote ask the reader, too, since -1 among the units of a user is an id as any other."""
    taken = []

    def fit_blocks(self, read, **more):
        taken.append((read.units, more["units"]))
        raise DataError("enough")

    monkeypatch.setattr(SubsampleAggregateClassifier, "fit_blocks", fit_blocks)
    monkeypatch.setattr(LabelMomentsClassifier, "fit_blocks", fit_blocks)
    for method in (["saa", "--fill"], ["label-moments"]):
        command = ["train", *method, "--private", str(files / "parts"), "--public", str(files / "public.csv")]
        settings = ["--target", "y", "--classes", "no,yes", "--unit", "who", "--delta", "0.001", "--epsilon", "8"]
        assert main([*command, *settings, "--out", str(files / "out"), "--quiet"]) == 2
    assert len(taken) == 2
    assert all(own is given and own is not None for own, given in taken)


N = 600


@pytest.fixture(scope="module")
def held_folder(tmp_path_factory):
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


def train_held(held_folder, capsys, private, *more, method="label-moments"):
    out = held_folder / "out"
    tables = [
        "--private",
        str(held_folder / private),
        "--public",
        str(held_folder / "public.parquet"),
        "--out",
        str(out),
    ]
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
def in_memory(held_folder):
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
def test_the_score_is_that_of_a_table_in_memory(held_folder, capsys, in_memory, private, more):
    """Labels, histograms by group and the guarantee are the same to the last bit."""
    same = UNITS if "--unit" in more else ROWS
    if same not in in_memory:
        in_memory[same] = train_held(held_folder, capsys, "private.parquet", "--holdout-score", "0.3", *same)
    expected = in_memory[same]
    assert train_held(held_folder, capsys, private, "--holdout-score", "0.3", *more) == expected
    assert [one["group"] for one in expected[1]["groups"]["ward"]] == ["a", "b", "other"]


@pytest.mark.parametrize("more", [UNITS, pytest.param(ROWS, marks=pytest.mark.nightly)])
def test_votes_have_the_score_of_a_table_in_memory(held_folder, capsys, more):
    given = (*more, "--holdout-score", "0.3", "--teachers", "20")
    expected = train_held(held_folder, capsys, "private.parquet", *given, method="pate")
    assert expected[1]["units"] > 20
    assert train_held(held_folder, capsys, "parts", *given, method="pate") == expected


@pytest.mark.parametrize("more", [("--jobs", "1"), ()])
def test_held_back_units_teach_nothing(held_folder, capsys, monkeypatch, more):
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
    assert train_held(held_folder, capsys, "parts", *UNITS, "--holdout-score", "0.3", *more)[1]["units"] > 20
    private = pd.read_parquet(held_folder / "private.parquet")
    held = seen["held"]
    assert not set(private["who"][held]) & set(private["who"][~held])
    if more:
        assert sorted(seen["whos"]) == sorted(private["who"][~held])


def _noted(tables, whos):
    for table in tables:
        whos.extend(table["who"])
        yield table


def test_parts_without_rows_have_all_others(held_folder):
    private = pd.read_parquet(held_folder / "private.parquet")
    held = np.random.default_rng(1).random(N) < 0.3
    arrow = pa.Table.from_pandas(private, preserve_index=False)
    for table in (
        ParquetParts(held_folder / "parts", "y"),
        ArrowPart(lambda: arrow.to_reader(max_chunksize=70), "y"),
        ParquetParts(held_folder / "parts", "y").without(~held),
    ):
        rest = table.without(held)
        rows = pd.concat(rest.results(lambda tables: pd.concat(list(tables))), ignore_index=True)
        assert rows["size"].tolist() == private["size"][~held].tolist()
    whole = pd.concat(ParquetParts(held_folder / "parts", "y").results(lambda tables: pd.concat(list(tables))))
    assert len(whole) == N
    with pytest.raises(DataError, match="held has 3 entries for 600 rows"):
        ParquetParts(held_folder / "parts", "y").without(np.ones(3, dtype=bool))


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


def test_a_file_that_changes_after_its_units_were_numbered_is_refused(held_folder, capsys, monkeypatch):
    """The places of persons are those of the first pass."""
    plain = RowsOfFiles.at

    def at(self, held):
        os.utime(held_folder / "parts" / "b.parquet")
        return plain(self, held)

    monkeypatch.setattr(RowsOfFiles, "at", at)
    code, shown = train_held(held_folder, capsys, "parts", *UNITS, "--holdout-score", "0.3", "--jobs", "1")
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
def dated(held_folder, tmp_path, capsys, monkeypatch):
    """Write private and public tables with dates, and return a place among the held-back records of a run on them."""
    held = []
    plain = RowsOfFiles.at
    monkeypatch.setattr(RowsOfFiles, "at", lambda self, places: held.append(places) or plain(self, places))
    (tmp_path / "parts").mkdir()
    for name, place in (("private", "parts/a"), ("public", "public")):
        table = pd.read_parquet(held_folder / f"{name}.parquet")
        days = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(len(table)), unit="D")
        table = table.assign(day=days.strftime("%Y-%m-%d"), **({"y": table["y"].astype(float)} if "y" in table else {}))
        table.to_parquet(tmp_path / f"{place}.parquet", index=False)
    assert len(train_held(tmp_path, capsys, "parts", *ROWS, "--holdout-score", "0.3")) == 3
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
        ended = train_held(tmp_path, capsys, private, *given, method=method)
    assert (len(ended) == 3) == bool(charges)
    if column == "y" or entry == np.inf:
        assert ended[0] == 2
        assert "private" in ended[1] or "held-back" in ended[1]
    assert "2024-02-31" not in str(ended)
    if entry == np.inf:
        assert f"row {dated}, counting from 0" in ended[1]


def test_held_back_times_are_those_of_their_places(tmp_path):
    """Codes and times are one target of two columns, in blocks, in parts and in memory."""
    n, rng = 30, np.random.default_rng(3)
    table = pd.DataFrame({"size": rng.normal(size=n), "days": rng.uniform(0, 9, n), "status": rng.integers(0, 2, n)})
    (tmp_path / "parts").mkdir()
    for place, rows in enumerate(np.array_split(np.arange(n), [0, 7])):
        table.iloc[rows].to_parquet(tmp_path / "parts" / f"{place}.parquet", index=False, row_group_size=5)
    table[["size"]].to_csv(tmp_path / "public.csv", index=False)
    times = DeclaredTimes.of_options("days", "status=1", "2,4,8")
    files = TableFiles(
        private=tmp_path / "parts",
        public=tmp_path / "public.csv",
        target="status",
        classes=times.codes,
        times=times,
    )
    held = rng.random(n) < 0.3
    wanted = {True: table[held], False: table[~held]}
    for workers in (None, Workers(jobs=1)):
        options = ReadOptions(blanks=True, takes_blocks=True, on_bad_record="zero", workers=workers)
        stream = file_tables(files, options).stream
        for one in (stream, PrivateStream.in_memory(table[["size"]], table[["status", "days"]], None, None)):
            rest, back = one.divided(held)
            blocks = [*rest.read()]
            taught = pd.concat([rows for rows, _ in blocks]), pd.concat([y for _, y in blocks])
            for rows, y, own in ((*taught, wanted[False]), (back.rows, back.labels, wanted[True])):
                np.testing.assert_array_equal(rows["size"], own["size"])
                np.testing.assert_array_equal(y, own[["status", "days"]])
        if workers is not None:
            reports = stream.divided(held)[0].parts.results(lambda tables: [one.y for one in tables])
            read = pd.concat([part for report in reports for part in report])
            np.testing.assert_array_equal(read, wanted[False][["status", "days"]])
