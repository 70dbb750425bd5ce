"""Soft votes of models on the command line."""

import json

import numpy as np
import pandas as pd
import pytest

from dpensemble.cli import main


@pytest.fixture
def train(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 2))
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "sick": np.where(X[:, 0] > 0, "yes", "no")})
    frame["who"] = np.arange(900) // 2
    frame[:700].to_csv(tmp_path / "private.csv", index=False)
    frame[700:].drop(columns=["sick", "who"]).to_csv(tmp_path / "public.csv", index=False)

    def train(*options):
        given = ["train", "soft-votes", "--private", tmp_path / "private.csv", "--public", tmp_path / "public.csv"]
        given += ["--target", "sick", "--classes", "no,yes", "--unit", "who", "--teachers", 50, "--delta", 1e-4]
        code = main([str(a) for a in [*given, "--out", tmp_path / "out", *options]])
        captured = capsys.readouterr()
        return code, captured.out, captured.err, tmp_path / "out"

    return train


@pytest.mark.parametrize("answers", ["probabilities", "parameters"])
def test_a_run_says_what_was_released(train, capsys, answers):
    code, out, _, folder = train("--answers", answers, "--seed", 1, "--json")
    assert code == 0
    record = json.loads(out)
    assert record["method"] == "soft-votes"
    assert (record["labels"], record["worst_case_spend"]) == (200, [])
    assert 0.999 < record["guarantee"]["epsilon"] <= 1
    assert record["guarantee"]["unit"] == "unit"
    settings = record["settings"]
    assert (settings["answers"], settings["n_teachers"], settings["rounds"]) == (answers, 50, 1)
    page = (folder / "report.html").read_text()
    assert "Every teacher" in page
    assert ("divided by the number of teachers" in page) == (answers == "parameters")
    assert "No unit was asked" not in page
    assert (folder / "certificate.json").exists()
    assert pd.read_csv(folder / "labels.csv").columns.tolist() == ["row", "label"]
    assert main(["report", str(folder)]) == 0
    assert "each of 50 teachers adds one vector" in capsys.readouterr().out


def test_what_it_has_not_is_refused(train, capsys):
    for options in (["--private-report"], ["--law", "gnmax"], ["--answers", "votes"]):
        code, _, err, folder = train(*options)
        assert code == 2
        assert err
        assert not folder.exists()
    assert main(["plan", "soft-votes"]) == 2
    assert "has no plan" in capsys.readouterr().err
