"""Runs that an earlier version began, and that ended after their charge, are finished from what they had drawn."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from dpensemble.cli import main

#: Written by `write_unfinished.py`. A later version adds a folder, and these stay as they are.
RUNS = sorted(Path(__file__).parent.glob("unfinished-*/*"))


@pytest.mark.parametrize("run", RUNS, ids=[f"{run.parent.name}-{run.name}" for run in RUNS])
def test_a_run_of_an_earlier_version_is_finished_with_the_noise_that_it_had_drawn(run, tmp_path, monkeypatch, capsys):
    place = tmp_path / "place"
    shutil.copytree(run, place)
    monkeypatch.chdir(place)
    monkeypatch.setenv("DPENSEMBLE_STATE", str(tmp_path / "state"))
    journal = json.loads((place / "stopped" / "journal.json").read_text(encoding="utf-8"))
    # As if the run had begun here. The signature was of another folder and of another user's key.
    here = json.dumps(journal | {"signature": ""}).replace(journal["about"]["working_folder"], str(place))
    (place / ".dpensemble-run").mkdir()
    (place / ".dpensemble-run" / "journal.json").write_text(here, encoding="utf-8")
    shutil.copy(place / "stopped" / "drawn.jsonl", place / ".dpensemble-run" / "drawn.jsonl")
    # A checkout need not keep that they are for their owner only.
    for path in [place / ".dpensemble-run", *(place / ".dpensemble-run").iterdir()]:
        path.chmod(0o700 if path.is_dir() else 0o600)
    assert main(["recover", "run", "--unsigned", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["placed"], found["budgets"]) == (True, journal["budgets"])
    assert main(["predict", "run", "public.csv", "--proba", "--out", "now.csv"]) == 0
    # The fit of a later version reads the same noisy sums a little better.
    pd.testing.assert_frame_equal(pd.read_csv("now.csv"), pd.read_csv("predictions.csv"), atol=5e-3)
