"""Every file of a run with seeded noise is marked as not for release, and no file of a release is."""

import csv
import json

import numpy as np
import pytest

from dpensemble import load_classifier
from dpensemble.cli import main
from dpensemble.errors import NotForReleaseWarning
from dpensemble.report.record import PrivateRecord
from dpensemble.workflow.outputs import RunFile

TRAIN = (
    "train saa --private private.csv --public public.csv --target y --classes 0,1 --delta 1e-4 --jobs 1 --seed 0 "
    "--teachers 40 --certificate --private-report --log-json log --out run --quiet"
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, columns, rows in (("private", "a,b,y", 800), ("public", "a,b", 300)):
        table = rng.normal(size=(rows, 2))
        table = np.column_stack([table, table[:, 0] > 0]) if columns.endswith("y") else table
        np.savetxt(f"{name}.csv", table, delimiter=",", header=columns, comments="", fmt="%g")
    return tmp_path


def parsed(path):
    return json.loads(path.read_text())


def is_experiment(path):
    return "not a release" in path.read_text().lower()


def labels_marked(path):
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert rows
    marks = {row.get("for_release") for row in rows}
    assert marks in ({"false"}, {None})
    return marks == {"false"}


def student_marked(path):
    try:
        student = load_classifier(path)
    except NotForReleaseWarning:
        # Warnings are errors in tests.
        return True
    assert student.for_release_ is True
    return False


MARKED = {
    "private.json": lambda path: parsed(path)["for_release"] is False,
    "private-report.html": is_experiment,
    "report.html": is_experiment,
    "student.skops": student_marked,
    "labels.csv": labels_marked,
    "certificate.json": lambda path: parsed(path)["for_release"] is False,
    "card.json": lambda path: parsed(path)["for_release"] is False,
    "card.md": is_experiment,
    "run.json": lambda path: parsed(path)["guarantee"]["for_release"] is False and bool(parsed(path)["experiment"]),
}


@pytest.mark.parametrize("seeded", [True, False])
def test_every_file_of_a_seeded_run_is_marked(folder, capsys, seeded):
    assert main([*TRAIN.split(), *(["--insecure-release-seed", "1"] if seeded else [])]) == 0
    assert ("NOT FOR RELEASE" in capsys.readouterr().out) is seeded
    # A life table has a file of its own, and no student.
    assert {path.name for path in (folder / "run").iterdir()} == set(RunFile) - {RunFile.LIFE_TABLE} == set(MARKED)
    assert {name: mark(folder / "run" / name) for name, mark in MARKED.items()} == dict.fromkeys(MARKED, seeded)

    # What later commands write and print, too.
    assert main(["report", "run", "--out", "page.html", "--registry", "entry.yaml"]) == 0
    assert is_experiment(folder / "page.html") is seeded
    assert is_experiment(folder / "entry.yaml") is seeded
    capsys.readouterr()
    assert main(["predict", "run", "public.csv", "--out", "labels.csv"]) == 0
    assert ("NOT FOR RELEASE" in capsys.readouterr().err) is seeded
    assert main(["verify", "run"]) == int(seeded)
    assert ("NOT FOR RELEASE" in capsys.readouterr().out) is seeded
    events = [json.loads(line) for line in (folder / "log").read_text().splitlines()]
    (placed,) = [event for event in events if event["event"] == "release placed"]
    assert placed["for_release"] is not seeded


@pytest.mark.parametrize("seeded", [True, False])
def test_the_account_of_a_killed_run_is_marked(folder, monkeypatch, seeded):
    def fail(*_arguments, **_settings):
        raise RuntimeError

    monkeypatch.setattr("dpensemble.cli.train.write_outcome", fail)
    assert main([*TRAIN.split(), *(["--insecure-release-seed", "1"] if seeded else [])]) == 1
    assert ("for_release" in parsed(folder / ".dpensemble-run" / "journal.json")["about"]) is seeded


def test_private_statistics_of_earlier_versions_state_nothing():
    record = PrivateRecord(epsilon_spent=1.0, spend=[], margins=[], constant_teachers=0, failed_teachers=0)
    values = record.to_dict()
    del values["for_release"]
    assert PrivateRecord.from_dict(values) == record
    assert record.for_release is None
