"""A public file that is the private one is refused under any path. Equal content is only counted for the owner.

``train --jobs`` and ``train --cluster``: the release of one process, and refusals with exit code 2 and one sentence.
"""

import builtins
import json
import os
import pickle
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpensemble.cli import main
from dpensemble.datasets.partitions import ParquetParts
from dpensemble.report.record import RunRecord
from dpensemble.rows.passes import PROBLEMS
from dpensemble.workflow import outputs, table_files
from dpensemble.workflow.table_files import Workers, _is_same_file, _share_files

pytestmark = [
    pytest.mark.usefixtures("few_synthetic_rows"),
    pytest.mark.filterwarnings("ignore:public rows do not look:UserWarning"),
]
ROLES = "--target y --classes no,yes"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=300), "c": rng.choice(["a", "b"], size=300)})
    table.assign(y=np.where(table["x"] > 0, "yes", "no")).to_csv(tmp_path / "private.csv", index=False)
    rows = pd.DataFrame({"x": rng.normal(size=200), "c": rng.choice(["a", "b"], size=200)})
    rows.to_csv(tmp_path / "public.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("kind", ["same", "symbolic", "hard", "around", "chain"])
@pytest.mark.parametrize("role", ["public", "test"])
def test_the_private_file_is_refused_under_any_path(folder, capsys, kind, role):
    (folder / "sub").mkdir()
    path = {"same": "private.csv", "around": "sub/../private.csv"}.get(kind, "other.csv")
    if kind == "hard":
        os.link("private.csv", path)
    elif kind in ("symbolic", "chain"):
        (folder / "link.csv").symlink_to(folder / "private.csv")
        (folder / "other.csv").symlink_to("link.csv" if kind == "chain" else "private.csv")
    files = {"public": "public.csv"} | {role: path}
    line = ["train", "label-moments", "--private", "private.csv", *ROLES.split(), "--out", "run"]
    assert main([*line, *(word for name, file in files.items() for word in (f"--{name}", file))]) == 2
    assert f"the {role} table is the private table itself" in capsys.readouterr().err


def test_a_declaration_or_a_folder_may_not_be_the_private_file(folder, capsys):
    line = ["check", "--private", "private.csv", *ROLES.split()]
    assert main([*line, "--declared-columns", "private.csv"]) == 2
    assert "declared_columns is the private table itself" in capsys.readouterr().err
    (folder / "parts").mkdir()
    os.link("private.csv", "parts/1.parquet")
    assert _share_files(folder / "parts", folder / "private.csv")
    assert not _share_files(folder / "parts", folder / "public.csv")
    assert main([*line, "--public", "parts"]) == 2
    assert "share a file" in capsys.readouterr().err


def test_two_mounts_of_one_server_hold_one_file(folder, monkeypatch):
    paths = [folder / name for name in ("one", "two words", "other")]
    for path in paths:
        path.mkdir()
        (path / "t.csv").write_text("a\n")
    points = [str(path.resolve()).replace(" ", "\\040") for path in paths]
    mounts = [f"36 35 0:{n} /data {point} rw - nfs host:/export rw" for n, point in enumerate(points[:2])]
    mounts += [f"37 35 0:9 / {points[2]} rw - tmpfs tmpfs rw", "22 1 0:1 / / rw - overlay overlay rw"]
    (folder / "mounts").write_text("\n".join(mounts) + "\n")
    monkeypatch.setattr(table_files, "_MOUNTS", folder / "mounts")
    one, two, other = (path / "t.csv" for path in paths)
    assert _is_same_file(one, two)
    assert not _is_same_file(one, other)
    assert not _is_same_file(one, folder / "private.csv")
    assert not _is_same_file(one, folder / "nothing.csv")


def test_equal_rows_are_counted_for_the_owner(folder, capsys):
    shutil.copy("private.csv", "copy.csv")
    line = ["check", "--private", "private.csv", *ROLES.split(), "--public"]
    assert main([*line, "copy.csv"]) == 0
    assert "300 of 300 public rows equal a record in every feature, which is more" in capsys.readouterr().out
    assert main([*line, "public.csv", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["public_rows"], found["public_rows_equal_to_records"], found["more_than_chance"]) == (200, 0, False)
    assert set(found["layouts"]) == {"public", "private"}


LINES = ["", "{public}", "sep=;", '\ufeff\0,",,', "x,c,y"]


@dataclass
class Record:
    labels: int = 1
    to_dict = RunRecord.to_dict


def test_the_length_of_the_record_tells_no_count():
    texts = [outputs._record_text(Record(), {"equal": (count, 5)}) for count in (0, 7, 99999, None)]
    assert len(set(map(len, texts))) == 1
    assert [json.loads(text)["for_owner"]["equal"] for text in texts] == [0, 7, 99999, None]


def test_one_record_changes_nothing_that_others_see(folder, capsys):
    """Also a record that equals a public row: the same refusal or output, and files of the same names and sizes."""
    public = (folder / "public.csv").read_text().splitlines()[1]
    lines = (folder / "private.csv").read_text().splitlines()
    seen, counts = set(), []
    for odd in LINES:
        line = lines[7] if odd == "" else odd.format(public=f"{public},yes")
        (folder / "private.csv").write_text("\n".join([*lines[:7], line, *lines[8:]]) + "\n")
        words = ["--private", "private.csv", "--public", "public.csv", *ROLES.split(), "--quiet", "--out", "run"]
        more = ["--epsilon", "1", "--delta", "1e-3", "--overwrite", "--json"]
        code = main(["train", "label-moments", *words, *more])
        shown = capsys.readouterr()
        files = [folder / "run" / name for name in sorted(os.listdir(folder / "run"))]
        printed = set(json.loads(shown.out)), set(json.loads(shown.out)["data"])
        seen.add(repr((code, shown.err, [file.name for file in files], *map(sorted, printed))))
        record = json.loads((folder / "run" / "run.json").read_text())
        counts.append(record["for_owner"]["public_rows_equal_to_records"])
        assert "for_owner" not in shown.out
        assert (folder / "run" / "run.json").stat().st_mode & 0o777 == 0o600
    assert len(seen) == 1
    assert counts == [0, 1, *[0] * (len(LINES) - 2)]
    assert main(["report", "run", "--json"]) == 0
    assert "for_owner" not in capsys.readouterr().out


@pytest.fixture(scope="module")
def parts_folder(tmp_path_factory):
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


def train(parts_folder, capsys, *more, private="parts", public=("--public", "public.parquet")):
    out = parts_folder / "out"
    settings = "--target y --classes 0,1 --unit who --drop code --delta 1e-3 --insecure-release-seed 1 --quiet"
    tables = ["--private", private if ":" in private else str(parts_folder / private), "--out", str(out), "--overwrite"]
    rows = [*public[:1], *(str(parts_folder / name) for name in public[1:])]
    code = main(["train", "label-moments", *tables, *rows, *settings.split(), "--json", *more])
    shown = capsys.readouterr()
    if code:
        return code, shown.err
    record = json.loads(shown.out)
    record.pop("seconds")
    record.pop("created")
    return (out / "labels.csv").read_bytes(), (out / "certificate.json").read_bytes(), record


@pytest.mark.parametrize("bad", ["zero", pytest.param("raise", marks=pytest.mark.nightly)])
def test_parts_release_what_one_process_releases(parts_folder, capsys, monkeypatch, bad):
    expected = train(parts_folder, capsys, "--on-bad-record", bad)
    passes = []
    plain = ParquetParts.results
    monkeypatch.setattr(ParquetParts, "results", lambda self, work: passes.append(work) or plain(self, work))
    assert train(parts_folder, capsys, "--jobs", "1", "--on-bad-record", bad) == expected
    assert len(passes) > 2
    # A part is converted elsewhere, without any public row.
    assert len(pickle.dumps(passes[0])) < 30_000


@pytest.mark.nightly
def test_declared_columns_are_summed_in_parts(parts_folder, capsys):
    declared = parts_folder / "declared.json"
    declared.write_text(json.dumps({"size": [-3, 3], "town": ["York", "Bath"]}), encoding="utf-8")
    given = ("--drop", "code,day")
    expected = train(parts_folder, capsys, *given, public=("--declared-columns", "declared.json"))
    assert (
        train(parts_folder, capsys, "--jobs", "1", *given, public=("--declared-columns", "declared.json")) == expected
    )


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
def test_what_workers_cannot_do_is_refused(parts_folder, capsys, more, message):
    code, shown = train(parts_folder, capsys, *more)
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
def test_tables_that_workers_cannot_read_are_refused(parts_folder, capsys, private, more, message):
    code, shown = train(parts_folder, capsys, *more, private=private)
    assert code == 2
    assert message in shown


def test_a_bad_record_of_a_part_is_refused_by_code(parts_folder, capsys):
    code, shown = train(parts_folder, capsys, "--jobs", "1", "--on-bad-record", "raise", private="bad")
    assert code == 2
    assert PROBLEMS["record"] in shown
    assert "777" not in shown


def test_columns_that_differ_are_named_before_any_part_is_read(parts_folder, capsys):
    code, shown = train(
        parts_folder, capsys, "--jobs", "1", "--drop", "code,town", public=("--public", "parts/a.parquet")
    )
    assert code == 2
    code, shown = train(parts_folder, capsys, "--jobs", "1", "--drop", "nothing")
    assert code == 2
    assert "drop='nothing'" in shown


def test_spark_without_its_extra_or_java_is_refused(parts_folder, capsys, monkeypatch):
    plain = builtins.__import__

    def without(name, *arguments, **others):
        if name.startswith("pyspark"):
            raise ImportError(name)
        return plain(name, *arguments, **others)

    with monkeypatch.context() as patch:
        patch.setattr(builtins, "__import__", without)
        code, shown = train(parts_folder, capsys, "--cluster", "spark")
    assert (code, "needs pyspark, which is not installed" in shown) == (2, True)
    pytest.importorskip("pyspark")
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    code, shown = train(parts_folder, capsys, "--cluster", "spark")
    assert (code, "needs Java, which is not on this machine" in shown) == (2, True)


def test_tables_of_spark_have_names():
    assert Workers.is_table(Path("spark:clinic.visits"))
    assert not Workers.is_table(Path("visits.parquet"))
