"""The output of `train --log-json` for programs: stages, steps and budgets, and nothing private."""

import json

import numpy as np
import pandas as pd
import pytest

from dpensemble._work import progress_bar, progress_heard_by
from dpensemble.cli import main

ASKED = "train saa --private private.csv --public public.csv --target y --classes no,yes --teachers 12 --epsilon 3"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=400), "site": rng.choice(["A", "B"], 400)})
    table["y"] = np.where(table["x"] > 0, "yes", "no")
    table[:300].to_csv(tmp_path / "private.csv", index=False)
    table[300:].drop(columns="y").to_csv(tmp_path / "public.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def events(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_run_from_its_beginning_to_its_end(folder, capsys):
    assert main([*ASKED.split(), "--out", "run", "--teacher", "decision-tree", "--jobs", "1", "--log-json", "log"]) == 0
    found = events(folder / "log")
    assert [one["event"] for one in found if one["event"] not in ("begins", "goes on", "ends")] == [
        "run begins", "tables read", "budget spent", "release placed", "run ends",
    ]  # fmt: skip
    assert found[0]["method"] == "saa"
    steps = [one["done"] for one in found if one["event"] == "goes on" and one["work"] == "Fitting teachers"]
    assert steps[-1] == 12
    assert len(steps) > 5
    assert next(one["budgets"] for one in found if one["event"] == "budget spent")[0]["epsilon"] == 3.0
    assert (folder / "log").stat().st_mode & 0o777 == 0o600
    # The progress of labelling may be secret, so only its beginning and its end are reported.
    assert {one["event"] for one in found if one.get("work") == "Labelling public rows"} == {"begins", "ends"}


def test_a_refusal_is_told_without_its_words(folder, capsys):
    pd.read_csv("private.csv").assign(x="Zaphod").to_csv("private.csv", index=False)
    for _ in range(2):
        assert main([*ASKED.split(), "--out", "run", "--log-json", "log", "--on-bad-record", "raise"]) == 2
    found = events(folder / "log")
    assert [one["event"] for one in found] == ["run begins", "run failed"] * 2
    assert found[1]["error"] == "DataError"
    assert "Zaphod" not in (folder / "log").read_text()


def test_a_log_that_cannot_be_written_is_refused_at_once(folder, capsys):
    assert main([*ASKED.split(), "--out", "run", "--log-json", "none/log"]) == 2
    assert "cannot be written" in capsys.readouterr().err
    assert not (folder / "run").exists()


def test_of_many_steps_some_are_told():
    told = []
    with progress_heard_by(lambda event, about: told.append((event, about))), progress_bar("Work", 1000) as advance:
        for _ in range(1000):
            advance(1)
    assert [event for event, _ in told] == ["begins", *["goes on"] * 20, "ends"]
    assert told[-2][1] == {"work": "Work", "done": 1000, "steps": 1000}
