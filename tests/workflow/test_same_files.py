"""A public file that is the private one is refused under any path. Equal content is only counted for the owner."""

import json
import os
import shutil
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from dpensemble.cli import main
from dpensemble.report.record import RunRecord
from dpensemble.workflow import outputs, table_files
from dpensemble.workflow.table_files import _is_same_file, _share_files

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")
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
