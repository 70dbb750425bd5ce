"""Private records that are read in blocks: the same release as from memory, and what is refused."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from dpensemble.cli import main
from dpensemble.errors import DataError
from dpensemble.methods import LabelMomentsClassifier, SubsampleAggregateClassifier
from dpensemble.workflow import ReadOptions, private_rows, table_files

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
    """The same without blanks."""
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
    for method in ("saa", "label-moments"):
        command = ["train", method, "--private", str(files / "parts"), "--public", str(files / "public.csv"), "--fill"]
        settings = ["--target", "y", "--classes", "no,yes", "--unit", "who", "--delta", "0.001", "--epsilon", "8"]
        assert main([*command, *settings, "--out", str(files / "out"), "--quiet"]) == 2
    assert len(taken) == 2
    assert all(own is given and own is not None for own, given in taken)
