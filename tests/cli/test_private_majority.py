"""Majorities of private teachers on the command line."""

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
    frame[:600].to_csv(tmp_path / "private.csv", index=False)
    frame[600:].drop(columns="sick").to_csv(tmp_path / "public.csv", index=False)

    def train(*options, method="private-majority", teachers=("--teachers", 5)):
        given = ["train", "--private", tmp_path / "private.csv", "--public", tmp_path / "public.csv"]
        given += ["--target", "sick", "--classes", "no,yes", "--method", method, *teachers, "--delta", 1e-4]
        code = main([str(a) for a in [*given, "--out", tmp_path / "out", "--json", *options]])
        captured = capsys.readouterr()
        return code, captured.out, captured.err, tmp_path / "out"

    return train


def test_models_label_every_public_row_and_say_so(train, capsys):
    code, out, _, folder = train("--sharing", "partition", "--private-report")
    assert code == 0
    record = json.loads(out)
    assert record["method"] == "private-majority"
    assert record["labels"] == 300
    assert record["guarantee"]["epsilon"] == 1
    assert record["worst_case_spend"] == [[1, 1.0], [300, 1.0]]
    assert record["settings"]["teacher"] == "private logistic regression"
    assert (record["settings"]["law_name"], record["settings"]["noise_chosen"]) == ("majority", "none")
    assert "Majority of private teachers" in (folder / "report.html").read_text()
    assert main(["report", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert "Noise: none on the votes" in shown
    assert "use the rest of the budget" not in shown


def test_it_has_eleven_teachers_unless_told_otherwise(train, capsys):
    code, out, _, folder = train(teachers=())
    assert code == 0
    record = json.loads(out)
    assert record["settings"]["n_teachers"] == 11
    assert 0.999 < record["guarantee"]["epsilon"] <= 1
    # All of them learn all 600 records.
    assert main(["report", str(folder)]) == 0
    assert "use fewer teachers" not in capsys.readouterr().out


@pytest.mark.parametrize("teachers", ["ballots", "fresh-models"])
def test_noisy_answers_spend_the_budget(train, teachers):
    code, out, _, _ = train(
        "--private-teachers", teachers, "--teacher-epsilon", 0.5, "--max-labels", 10, "--law", "sub"
    )
    assert code == 0
    record = json.loads(out)
    assert record["labels"] == 10
    assert (record["settings"]["law_name"], record["settings"]["noise_chosen"]) == ("sub", "fitted")
    assert 0.99 < record["guarantee"]["epsilon"] <= 1
    assert len(record["worst_case_spend"]) == 10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--sigma", 3), "No such option: --sigma"),
        (("--analysis", "data-dependent"), "No such option: --analysis"),
        (("--law", "darrm"), "does not compose over answers"),
        (("--private-teachers", "ballots"), "max_labels=None"),
        (
            ("--private-teachers", "ballots", "--max-labels", 5, "--teacher-epsilon", 0),
            "--teacher-epsilon: teacher_privacy=0.0 is not a number",
        ),
        (("--rule", "solved"), "it belongs to the methods upsampling-pate"),
        (("--partitions", 3), "it belongs to the method dpbag"),
    ],
)
def test_options_that_contradict_it(train, options, message):
    code, _, err, folder = train(*options)
    assert code == 2
    assert message in " ".join(err.split())
    assert not folder.exists()


@pytest.mark.parametrize("option", ["--sharing=partition", "--private-teachers=ballots", "--teacher-epsilon=1"])
def test_its_options_are_for_it_alone(train, option):
    code, _, err, _ = train(option, method="gnmax")
    assert code == 2
    assert f"{option.split('=')[0]}; it belongs to the method private-majority" in err


def test_there_is_no_plan_for_it(capsys):
    assert main(["plan", "--method", "private-majority"]) == 2
    assert "has no plan" in capsys.readouterr().err
