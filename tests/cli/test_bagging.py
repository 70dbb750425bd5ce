"""``dpensemble plan --method bagging``, and what refuses it."""

import json

import pytest

from dpensemble.accounting import published_bagging
from dpensemble.allocation import BootstrapScheme
from dpensemble.cli import main

BAGGING = ("--method", "bagging", "--records", 60_000)


@pytest.fixture
def run(capsys):
    def run(*arguments, command="plan"):
        code = main([command, *(str(a) for a in arguments)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def plan(run):
    def plan(*arguments):
        code, out, errors = run(*BAGGING, *arguments, "--json")
        assert (code, errors) == (0, "")
        return json.loads(out)

    return plan


def test_what_a_subsample_promises(plan):
    found = plan("--subsample", 300)
    epsilon, delta = published_bagging(BootstrapScheme("with-replacement", 1, 300), 60_000)
    warning = found.pop("warning")
    assert found == {
        "method": "bagging",
        "basis": "worst-case",
        "epsilon": 0.0,
        "delta": delta,
        "published": {"epsilon": epsilon, "delta": delta},
        "records": 60_000,
        "subsample": 300,
        "models": 1,
        "scheme": "with-replacement",
    }
    assert warning.startswith("WARNING: delta is not below 1 / 60,000")
    assert "about 299 of the 60,000 records" in warning


def test_models_and_schemes(plan):
    distinct = plan("--subsample", 100, "--models", 3, "--scheme", "distinct")
    assert (distinct["delta"], distinct["published"]["delta"], distinct["models"]) == (0.005, 0.005, 3)
    subsets = plan("--subsample", 100, "--models", 3, "--scheme", "subsets")
    assert subsets["published"] is None
    assert 0.00499 < subsets["delta"] < 0.005


def test_the_largest_subsample_within_a_delta(plan):
    assert plan("--delta", 0.005)["subsample"] == 300
    found = plan("--delta", 0.01, "--models", 4, "--scheme", "distinct")
    assert (found["subsample"], found["delta"]) == (150, 0.01)


def test_for_people(run):
    code, out, errors = run(*BAGGING, "--subsample", 300)
    assert (code, errors) == (0, "")
    assert "Delta 0.004988 at epsilon 0: about 299 of 60,000 records may be exposed" in out
    assert "epsilon 0.005 and delta 0.004988" in out
    assert "300 of 60,000 records" in out
    assert "Delta by size of the subsamples" in out
    assert "WARNING: delta is not below 1 / 60,000" in out
    code, out, _ = run("--method", "bagging", "--records", 20, "--subsample", 3, "--scheme", "subsets")
    assert code == 0
    assert "the paper's pair" not in out
    # Thirty out of twenty cannot be drawn without repeats.
    row = next(line for line in out.splitlines() if line.startswith("│ 30 "))
    assert row.count(" - ") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--subsample", "3"], "requires --records, the number of private records"),
        (["--records", "10"], "requires either --subsample, to find delta, or --delta"),
        (
            ["--records", "10", "--subsample", "3", "--delta", "0.3"],
            "but each determines the other: give only one",
        ),
        (["--records", "0", "--subsample", "3"], "--records: n_units=0 is not an integer from 1"),
        (["--records", "10", "--subsample", "0"], "subsample=0 is not an integer from 1"),
        (
            ["--records", "10", "--subsample", "3", "--models", "0"],
            "--models: n_models=0 is not an integer from 1",
        ),
        (["--records", "10", "--subsample", "3", "--scheme", "poisson"], "--scheme"),
        (
            ["--records", "10", "--subsample", "11", "--scheme", "subsets"],
            "subsample=11 is more than the 10 private",
        ),
        (
            ["--records", "10", "--subsample", "4", "--models", "3", "--scheme", "distinct"],
            "makes 12 distinct draws",
        ),
        (["--records", "10", "--subsample", "10", "--scheme", "subsets"], "with certainty, so delta would be 1"),
        (["--records", "60000", "--delta", "1e-5"], "one record each need delta=1.667e-05 at any epsilon"),
        (["--records", "60000", "--delta", "1"], "delta=1.0 is not a number strictly between 0 and 1"),
        (["--records", "60000", "--delta", "nan"], "delta=nan"),
        (["--records", "10", "--subsample", "3", "--epsilon", "1"], "No such option: --epsilon"),
        (["--records", "10", "--subsample", "3", "--teachers", "250"], "subsample=3 for 250 models draws each"),
        (["--records", "10", "--subsample", "3", "--classes", "2"], "No such option: --classes"),
        (["--records", "10", "--subsample", "3", "--accounting", "exact"], "No such option: --accounting"),
        (["--records", "10", "--subsample", "3", "--vanish-at-end"], "No such option: --vanish-at-end"),
        (["--records", "10", "--subsample", "3", "--plot", "plan.svg"], "No such option: --plot"),
        (
            ["--method", "saa", "--records", "10"],
            "No such option: --records; it belongs to the methods bagged-pate, bagging.",
        ),
        (
            ["--method", "gnmax", "--subsample", "0"],
            "No such option: --subsample; it belongs to the methods bagged-pate, bagging.",
        ),
        (
            ["--method", "weighting-pate", "--models", "3"],
            "No such option: --models; it belongs to the method bagging.",
        ),
        (["--method", "optimal", "--scheme", "subsets"], "No such option: --scheme"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_line_on_stderr_and_exit_code_2(run, arguments, message):
    code, out, errors = run(*(() if "--method" in arguments else ("--method", "bagging")), *arguments)
    assert (code, out) == (2, "")
    assert errors.startswith("dpensemble: ")
    assert errors.count("\n") == 1
    assert message in errors


def test_other_methods_keep_their_delta(run):
    code, out, _ = run("--teachers", 50, "--accounting", "published", "--json")
    assert code == 0
    assert json.loads(out)["delta"] == 1e-5


def test_train_does_not_run_it(run, tmp_path):
    arguments = ("--dataset", "adult", "--method", "bagging", "--out", tmp_path / "run")
    code, out, errors = run(*arguments, command="train")
    assert (code, out) == (2, "")
    assert "BaggingPrivacyClassifier in Python" in errors
    assert errors.count("\n") == 1
    assert not (tmp_path / "run").exists()
