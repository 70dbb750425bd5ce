"""Released quality and decisions on the command line: a run, thresholds, bad input, and recovery."""

import json
import sys

import numpy as np
import pandas as pd
import pytest

import dpensemble.cli.train  # noqa: F401 - patched by name
from dpensemble.cli import main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=1500), "sex": rng.choice(["f", "m"], size=1500)})
    table["y"] = np.where(table["x"] + rng.normal(0, 0.6, 1500) > 1.2, "ill", "healthy")
    table[:1000].to_csv(tmp_path / "private.csv", index=False)
    table[1000:1300].drop(columns="y").to_csv(tmp_path / "public.csv", index=False)
    table[1300:].to_csv(tmp_path / "test.csv", index=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPENSEMBLE_STATE", str(tmp_path / "state"))
    return tmp_path


TRAIN = [
    *("train", "--private", "private.csv", "--public", "public.csv", "--target", "y", "--classes", "healthy,ill"),
    *("--epsilon", "4", "--delta", "1e-4", "--seed", "1", "--quiet", "--out", "run"),
]
QUALITY = ["--holdout-score", "0.3", "--groups", "sex", "--cost-false-negative", "5", "--cost-false-positive", "1"]


def test_a_run_states_its_cells_beforehand_and_its_quality_afterwards(folder, capsys):
    assert main([*TRAIN, *QUALITY, "--drop", "sex"]) == 0
    printed, errors = capsys.readouterr()
    assert "note: Quality of the student: 300 records are held back" in errors
    assert "by sex" in errors
    assert "Quality on 300 held-back records" in printed
    assert "always the most common class" in printed
    assert "Right by sex" in printed
    assert "Threshold for ill: " in printed
    assert "missed cases" in printed
    data = json.loads((folder / "run" / "run.json").read_text())["data"]
    # A dropped column is no feature, and its groups are compared all the same.
    assert "sex" not in data["kinds_of_columns"]
    assert [one["group"] for one in data["released_score"]["groups"]["sex"]] == ["f", "m", "other"]
    assert main(["verify", "run"]) == 0
    assert "for other records" in capsys.readouterr().out
    page = (folder / "run" / "report.html").read_text()
    assert "{" + "'value'" not in page
    assert main(["predict", "run", "test.csv"]) == 0
    assert "--positive-class ill decides by the costs of the run" in capsys.readouterr().err
    assert main(["predict", "run", "test.csv", "--threshold", "0.5"]) == 0
    assert "by the costs of the run" not in capsys.readouterr().err


def test_a_threshold_moves_labels_and_leaves_probabilities(folder, capsys):
    assert main(TRAIN) == 0
    capsys.readouterr()
    labels = {}
    for threshold in ("0", "0.2", "0.5", "1"):
        assert main(["predict", "run", "test.csv", "--threshold", threshold, "--proba", "--json"]) == 0
        labels[threshold] = pd.DataFrame(json.loads(capsys.readouterr().out))
    ill = labels["0.2"]["probability of ill"]
    for threshold, table in labels.items():
        assert table["probability of ill"].equals(ill)
        assert table["label"].tolist() == np.where(ill >= float(threshold), "ill", "healthy").tolist()
    assert main(["predict", "run", "test.csv", "--json"]) == 0
    assert "by the costs of the run" not in capsys.readouterr().err
    assert main(["predict", "run", "test.csv", "--threshold", "0.8", "--positive-class", "healthy", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == np.where(1 - ill >= 0.8, "healthy", "ill").tolist()


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (
            ["--cost-false-negative", "0", "--cost-false-positive", "1"],
            "cost_false_negative=0.0 must be a number above",
        ),
        (["--cost-false-negative", "3", "--cost-false-positive", "-1"], "cost_false_positive=-1.0 must be a number"),
        (["--cost-false-negative", "nan", "--cost-false-positive", "1"], "cost_false_negative=nan must be a number"),
        (["--cost-false-negative", "3"], "cost_false_positive must be given with the other cost"),
        (["--positive-class", "sick"], "positive_class='sick' is not a declared class"),
        (["--groups", "sex"], "groups require held-back units or test rows"),
        (["--groups", "ward", "--holdout-score", "0.2"], "groups='ward' is not a column of the public table"),
        (["--groups", "ward=a|b", "--holdout-score", "0.2"], "groups='ward' is not a column of the private table"),
        (["--groups", "y=ill", "--holdout-score", "0.2"], "groups='y' is also the target"),
        (["--groups", "sex", "--holdout-score", "0.2", "--test", "narrow.csv"], "not a column of the test table"),
        (["--holdout-score", "0.03", "--epsilon", "0.2"], "30 held-back units are too few for any cell"),
        (["--holdout-score", "0.6"], "holdout_score=0.6 is not a number from 0 to 0.5"),
    ],
)
def test_bad_input_ends_with_exit_code_2_and_leaves_nothing(folder, capsys, more, text):
    pd.read_csv("test.csv").drop(columns="sex").to_csv("narrow.csv", index=False)
    given = [one for one in TRAIN if not ("--epsilon" in more and one in ("--epsilon", "4"))]
    assert main([*given, *more]) == 2
    assert text in capsys.readouterr().err
    assert not (folder / "run").exists()
    assert not (folder / ".dpensemble-run").exists()


BAD_THRESHOLDS = [
    (["--threshold", "1.5"], "threshold=1.5 is not a number from 0 to 1"),
    (["--threshold", "-0.1"], "threshold=-0.1 is not a number from 0 to 1"),
    (["--threshold", "nan"], "threshold=nan is not a number from 0 to 1"),
    (["--positive-class", "ill"], "positive_class='ill' belongs to a threshold"),
    (["--threshold", "0.5", "--positive-class", "sick"], "positive_class='sick' is not a class of the student"),
]


def test_bad_thresholds_end_with_exit_code_2(folder, capsys):
    assert main(TRAIN) == 0
    for more, text in BAD_THRESHOLDS:
        capsys.readouterr()
        assert main(["predict", "run", "test.csv", *more, "--out", "labels.csv"]) == 2
        assert text in capsys.readouterr().err
        assert not (folder / "labels.csv").exists()


def test_a_student_of_three_classes_takes_no_threshold(folder, capsys):
    for name in ("private", "public"):
        table = pd.read_csv(f"{name}.csv")
        table["y"] = np.digitize(table["x"], [-0.5, 0.5])
        (table if name == "private" else table.drop(columns="y")).to_csv(f"{name}.csv", index=False)
    three = [("0,1,2" if one == "healthy,ill" else one) for one in TRAIN]
    assert main([*three, "--holdout-score", "0.3"]) == 0
    capsys.readouterr()
    assert main(["predict", "run", "test.csv", "--threshold", "0.5"]) == 2
    assert "requires a student of two classes, and this one has 3" in capsys.readouterr().err


@pytest.mark.parametrize("step", ["scored", "quality_facts"])
def test_a_run_that_failed_after_its_charge_is_finished_with_the_same_cells(folder, capsys, monkeypatch, step):
    def fail(*_, **__):
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr("dpensemble.cli.train.rehearse", lambda *_, **__: None)
        # Here `dpensemble.workflow.train` is a module, not the function.
        patched.setattr(sys.modules["dpensemble.workflow.train"], step, fail)
        assert main([*TRAIN, *QUALITY]) == 1
    lines = (folder / ".dpensemble-run" / "drawn.jsonl").read_text().splitlines()
    capsys.readouterr()
    assert main(["recover", "run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["placed"] is True
    score = json.loads((folder / "run" / "run.json").read_text())["data"]["released_score"]
    drawn = np.concatenate([np.ravel(one["cells"]) for one in score["histograms"]])
    if step == "quality_facts":
        # Drawn before the failure: the finished run shows the stored cells.
        stored = json.loads(lines[-1])["value"]["array"]
        assert np.allclose(drawn, np.array(stored) / 2**32)
    assert np.isfinite(drawn).all()
