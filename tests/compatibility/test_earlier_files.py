"""Files that version 0.2.0 wrote before issue 28 must open for good. Never write them again."""

import json
import os
import shutil
from pathlib import Path

import pandas as pd
import pytest
import sklearn

from dpensemble.cli import main

FILES = Path(__file__).parent / "earlier_files"
RUNS = ["moments-run", "votes-run", "soft-run"]


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Copy the files to a place of their own, with a signing key that only its owner can read."""
    place = tmp_path / "files"
    shutil.copytree(FILES, place)
    for key in (place / "state" / "dpensemble").iterdir():
        os.chmod(key, 0o600)
    monkeypatch.chdir(place)
    monkeypatch.setenv("DPENSEMBLE_STATE", str(place / "state" / "dpensemble"))
    return place


def run(capsys, line):
    code = main(line.split())
    return code, capsys.readouterr().out


def numbers(version):
    """Return the first two numbers of a version."""
    return tuple(map(int, version.split(".")[:2]))


@pytest.mark.parametrize("name", RUNS)
def test_an_earlier_run_shows_the_same_report(files, capsys, name):
    code, out = run(capsys, f"report {name} --json")
    assert code == 0
    shown = json.loads(out)
    # What was released is stated by newer versions only.
    assert shown.pop("releases")
    assert shown == json.loads((files / f"{name}.report.json").read_text(encoding="utf-8"))
    assert run(capsys, f"report {name} --out page.html")[0] == 0
    assert "<html" in (files / "page.html").read_text(encoding="utf-8")


def test_an_earlier_private_report_opens(files, capsys):
    assert run(capsys, "report votes-run --private --out private.html")[0] == 0
    assert "<html" in (files / "private.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", RUNS)
def test_an_earlier_student_predicts_the_same(files, capsys, name):
    written = json.loads((files / name / "run.json").read_text(encoding="utf-8"))["versions"]["scikit-learn"]
    if name != "moments-run" and numbers(sklearn.__version__) < numbers(written):
        pytest.skip(f"scikit-learn {sklearn.__version__} does not read classifiers of scikit-learn {written}")
    assert run(capsys, f"predict {name} public.csv --proba --out now.csv")[0] == 0
    now, before = pd.read_csv(files / "now.csv"), pd.read_csv(files / f"{name}.predictions.csv")
    pd.testing.assert_frame_equal(now, before, rtol=1e-9)


@pytest.mark.parametrize(("name", "expected"), [("moments-run", 0), ("votes-run", 0), ("soft-run", 1)])
def test_an_earlier_certificate_is_verified(files, capsys, name, expected):
    code, out = run(capsys, f"verify {name}/certificate.json")
    assert code == expected
    assert ("NOT FOR RELEASE" in out) is (name == "soft-run")


def test_an_earlier_ledger_is_verified_and_charged(files, capsys):
    code, out = run(capsys, "ledger verify ledger.db")
    assert (code, "4 entries, 1 accounts, 2 releases" in out) == (0, True)
    line = (
        "train soft-votes --private private.csv --public public.csv --fill --target ill --classes no,yes --teachers 40"
        " --epsilon 0.2 --delta 1e-5 --seed 0 --ledger ledger.db --data-set patients --out next --quiet"
    )
    assert run(capsys, line)[0] == 0
    assert "3 releases" in run(capsys, "ledger verify ledger.db")[1]
    too_much = line.replace("--epsilon 0.2", "--epsilon 3").replace("--out next", "--out refused")
    assert run(capsys, too_much)[0] == 2
    assert not (files / "refused").exists()
