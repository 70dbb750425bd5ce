"""Teachers that draw their records, on the command line."""

import json

import pytest

from dpensemble.cli import main

PLAN = ("plan", "--method", "bagged-pate", "--records", "2000", "--teachers", "40")
TRAIN = ("train", "--dataset", "adult", "--method", "bagged-pate", "--out")


@pytest.fixture
def run(capsys):
    def run(*arguments):
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_plan_tells_what_a_partition_would_buy(run):
    code, out, _ = run(*PLAN, "--sigma", 9, "--epsilon", 2, "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["method"], found["law_name"], found["scheme"]) == ("bagged-pate", "gnmax", "distinct")
    assert found["subsample"] == 25
    assert found["held"] == 0.5
    assert found["labels"] > 1.5 * found["partition_labels"] > 0
    assert found["quality"][0]["wrong_label_rate"] == 0.5
    code, out, _ = run(*PLAN, "--sigma", 9, "--epsilon", 2)
    assert code == 0
    assert f"{found['labels']} labels at epsilon 2" in out
    assert "one partition, same noise" in out


def test_plan_finds_noise_and_epsilon(run):
    _, out, _ = run(*PLAN, "--epsilon", 2, "--labels", 30, "--law", "lnmax", "--scheme", "subsets", "--json")
    found = json.loads(out)
    assert found["labels"] == 30
    assert found["scale"] > 0
    given = ("--law", "lnmax", "--scheme", "subsets", "--scale", found["scale"], "--json")
    _, out, _ = run(*PLAN, "--labels", 30, *given)
    assert json.loads(out)["epsilon"] == pytest.approx(2.0, rel=0.02)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((*PLAN[:3],), "requires --records"),
        ((*PLAN, "--subsample", 51), "distinct draws"),
        ((*PLAN, "--models", 3), "No such option: --models"),
        ((*PLAN, "--threshold", 3), "No such option: --threshold"),
        (
            (*PLAN, "--law", "confident-gnmax"),
            "law of bagged-pate must be one of gnmax, lnmax, optimal, randomized",
        ),
        ((*PLAN, "--agreement", 2), "agreement=2"),
        ((*PLAN, "--epsilon", 1, "--labels", 3, "--sigma", 2), "cannot all be given"),
        ((*TRAIN, "out", "--threshold", 3), "No such option: --threshold"),
        ((*TRAIN, "out", "--partitions", 3), "it belongs to the method dpbag"),
        ((*TRAIN, "out", "--analysis", "until-spent"), "No such option: --analysis; it belongs to"),
        ((*TRAIN, "out", "--sharing", "everyone"), "--sharing; it belongs to the method private-majority"),
        (
            (*TRAIN, "out", "--budgets", "0.5:50%,1:50%"),
            "No such option: --budgets; it belongs to the methods upsampling-pate",
        ),
        (
            ("train", "--dataset", "adult", "--method", "gnmax", "--subsample", 3, "--out", "out"),
            "it belongs to the method bagged-pate",
        ),
        ((*TRAIN, "out", "--relation", "add-or-remove-one"), "would be computed from the number of records"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(run, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*options)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_train_writes_a_report(run, tmp_path):
    settings = ("--teachers", 50, "--max-labels", 40, "--scheme", "with-replacement", "--subsample", 8)
    code, out, _ = run(*TRAIN, tmp_path / "out", *settings, "--law", "lnmax", "--seed", 0, "--json")
    assert code == 0
    record = json.loads(out)
    assert record["method"] == "bagged-pate"
    assert record["labels"] == 40
    assert 0.97 < record["guarantee"]["epsilon"] <= 1
    assert record["worst_case_spend"][-1][0] == 40
    assert record["settings"]["votes_per_record"] == 50
    assert any("stays secret" in text for text in record["guarantee"]["assumptions"])
    assert (tmp_path / "out" / "report.html").exists()
