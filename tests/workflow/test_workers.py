"""`train --jobs` and `train --cluster`: the release of one process, and refusals with exit code 2 and one sentence."""

import builtins
import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpensemble.cli import main
from dpensemble.datasets.partitions import ParquetParts
from dpensemble.rows.passes import PROBLEMS
from dpensemble.workflow.table_files import Workers

pytestmark = [pytest.mark.filterwarnings("ignore:public rows do not look:UserWarning")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("workers")
    rng = np.random.default_rng(0)
    n = 700
    table = pd.DataFrame({"size": rng.normal(size=n), "town": rng.choice(["York", "Bath"], n), "code": 1})
    table["y"], table["who"] = np.where(table["size"] > 0, 1, 0), rng.integers(0, 150, n)
    table["day"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D")
    (place / "parts").mkdir()
    for name, part in zip("abc", np.array_split(np.arange(300), 3), strict=True):
        table.iloc[part].to_parquet(place / "parts" / f"{name}.parquet", index=False)
    table.iloc[300:].drop(columns=["who", "y"]).to_parquet(place / "public.parquet", index=False)
    table.iloc[:300].to_csv(place / "private.csv", index=False)
    (place / "bad").mkdir()
    table.assign(y=777).to_parquet(place / "bad" / "a.parquet", index=False)
    return place


def train(folder, capsys, *more, private="parts", public=("--public", "public.parquet")):
    out = folder / "out"
    settings = "--target y --classes 0,1 --unit who --drop code --delta 1e-3 --insecure-release-seed 1 --quiet"
    tables = ["--private", private if ":" in private else str(folder / private), "--out", str(out), "--overwrite"]
    rows = [*public[:1], *(str(folder / name) for name in public[1:])]
    code = main(["train", "label-moments", *tables, *rows, *settings.split(), "--json", *more])
    shown = capsys.readouterr()
    if code:
        return code, shown.err
    record = json.loads(shown.out)
    record.pop("seconds")
    record.pop("created")
    return (out / "labels.csv").read_bytes(), (out / "certificate.json").read_bytes(), record


@pytest.mark.parametrize("bad", ["zero", pytest.param("raise", marks=pytest.mark.nightly)])
def test_parts_release_what_one_process_releases(folder, capsys, monkeypatch, bad):
    expected = train(folder, capsys, "--on-bad-record", bad)
    passes = []
    plain = ParquetParts.results
    monkeypatch.setattr(ParquetParts, "results", lambda self, work: passes.append(work) or plain(self, work))
    assert train(folder, capsys, "--jobs", "1", "--on-bad-record", bad) == expected
    assert len(passes) > 2
    # A part is converted elsewhere, without any public row.
    assert len(pickle.dumps(passes[0])) < 30_000


@pytest.mark.nightly
def test_declared_columns_are_summed_in_parts(folder, capsys):
    declared = folder / "declared.json"
    declared.write_text(json.dumps({"size": [-3, 3], "town": ["York", "Bath"]}), encoding="utf-8")
    given = ("--drop", "code,day")
    expected = train(folder, capsys, *given, public=("--declared-columns", "declared.json"))
    assert train(folder, capsys, "--jobs", "1", *given, public=("--declared-columns", "declared.json")) == expected


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--jobs", "0"), "jobs=0"),
        (("--cluster", "dask", "--jobs", "-1"), "jobs=-1 are processes of this machine"),
        (("--jobs", "2", "--holdout-score", "0.01"), "would hold back 1, which is too few for a score"),
        (("--jobs", "2", "--baseline"), "baseline=True requires all private records in memory"),
        (("--cluster", "dask"), "requires the address of a scheduler"),
        (("--cluster", "dask", "--jobs", "2"), "jobs=2 are processes of this machine"),
        (("--scheduler", "tcp://127.0.0.1:1"), "as do --cluster and --scheduler"),
    ],
)
def test_what_workers_cannot_do_is_refused(folder, capsys, more, message):
    code, shown = train(folder, capsys, *more)
    assert code == 2
    # Notes about columns may come first.
    assert message in shown.splitlines()[-1]


@pytest.mark.parametrize(
    ("private", "more", "message"),
    [
        ("private.csv", ("--jobs", "2"), "jobs=2 requires a private table in Parquet"),
        ("private.csv", ("--cluster", "dask"), "cluster='dask' requires a private table in Parquet"),
        ("spark:clinic.visits", (), "is a table of Spark: give --cluster spark"),
        ("spark:clinic.visits", ("--jobs", "2"), "is a table of Spark: give --cluster spark"),
    ],
)
def test_tables_that_workers_cannot_read_are_refused(folder, capsys, private, more, message):
    code, shown = train(folder, capsys, *more, private=private)
    assert code == 2
    assert message in shown


def test_a_bad_record_of_a_part_is_refused_by_code(folder, capsys):
    code, shown = train(folder, capsys, "--jobs", "1", "--on-bad-record", "raise", private="bad")
    assert code == 2
    assert PROBLEMS["record"] in shown
    assert "777" not in shown


def test_columns_that_differ_are_named_before_any_part_is_read(folder, capsys):
    code, shown = train(folder, capsys, "--jobs", "1", "--drop", "code,town", public=("--public", "parts/a.parquet"))
    assert code == 2
    code, shown = train(folder, capsys, "--jobs", "1", "--drop", "nothing")
    assert code == 2
    assert "drop='nothing'" in shown


def test_spark_without_its_extra_or_java_is_refused(folder, capsys, monkeypatch):
    plain = builtins.__import__

    def without(name, *arguments, **others):
        if name.startswith("pyspark"):
            raise ImportError(name)
        return plain(name, *arguments, **others)

    with monkeypatch.context() as patch:
        patch.setattr(builtins, "__import__", without)
        code, shown = train(folder, capsys, "--cluster", "spark")
    assert (code, "needs pyspark, which is not installed" in shown) == (2, True)
    pytest.importorskip("pyspark")
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    code, shown = train(folder, capsys, "--cluster", "spark")
    assert (code, "needs Java, which is not on this machine" in shown) == (2, True)


def test_tables_of_spark_have_names():
    assert Workers.is_table(Path("spark:clinic.visits"))
    assert not Workers.is_table(Path("visits.parquet"))
