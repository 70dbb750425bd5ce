"""``dpensemble compare`` on the command line."""

import json

import numpy as np
import pandas as pd
import pytest

from dpensemble.cli import main

QUICK = ("--dataset", "digits", "--classes", "3,8", "--repeats", "1", "--seed", "0")


@pytest.fixture
def run(capsys):
    def run(*options):
        code = main(["compare", *map(str, options)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_the_table_says_what_was_compared(run):
    code, out, err = run(*QUICK, "--methods", "bagging,pate", "--delta", 0.1)
    assert code == 0
    assert err == ""
    assert "119 private, 119 public and 119 test rows" in out
    assert "epsilon 1, delta 0.1, add-or-remove-one" in out
    assert "subsample of 12" in out
    assert "no privacy" in out
    assert "commonest class" in out
    assert "pate cannot run: epsilon=1" in out
    assert "pate: ran at delta=0.008395, just below one over the records" in out
    assert "Compare on public data" in out


def test_json_goes_to_the_screen_and_to_a_file(run, tmp_path):
    file = tmp_path / "found.json"
    code, out, _ = run(*QUICK, "--methods", "bagging", "--delta", 0.1, "--out", file, "--json")
    assert code == 0
    found = json.loads(out)
    assert json.loads(file.read_text()) == found
    assert found["methods"][0]["bought"]["subsample"] == 12
    assert found["methods"][0]["error"] is None


def test_a_seeded_comparison_says_so(run):
    code, out, _ = run(*QUICK, "--methods", "bagging", "--delta", 0.1, "--insecure-release-seed", 1)
    assert code == 0
    assert "NOT FOR RELEASE" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--epsilon", 0), "epsilon=0"),
        (("--delta", 1), "delta=1"),
        (("--methods", "pate,knn"), "methods='knn' cannot be compared"),
        (("--methods", ""), "methods='' cannot be compared"),
        (("--learner", "knn"), "learner='knn' is unknown"),
        (("--classes", "a,b"), "classes must be labels of images, numbers from 0 to 9, e.g. 3,8; got 'a,b'"),
        (("--classes", "3"), "at least two distinct labels"),
        (("--teachers", 0), "--teachers: n_teachers=0 is not an integer"),
        (("--teachers", 1000), "--teachers: n_teachers=1000 is not an integer from 1 to 119"),
        (("--public-rows", 0), "public_rows=0 is not an integer"),
        (("--repeats", 0), "repeats=0"),
        (("--seed", -1), "--seed: random_state=-1"),
        (("--insecure-release-seed", -1), "insecure_release_seed=-1"),
        (("--dataset", "cifar"), "cifar"),
        (("--relation", "swap"), "swap"),
        (("--dataset", "adult", "--classes", "3,8"), "is for images"),
    ],
)
def test_bad_input_is_refused_in_one_sentence_with_nothing_written(run, tmp_path, options, message):
    file = tmp_path / "found.json"
    code, out, err = run(*QUICK, *options, "--out", file)
    assert code == 2
    assert out == ""
    assert message in err
    assert len(err.splitlines()) == 1
    assert not file.exists()


def test_a_cnn_is_for_images(run):
    code, _, err = run("--dataset", "adult", "--learner", "cnn", "--repeats", 1)
    assert code == 2
    assert "learner='cnn' is for images" in err


def test_files_are_not_replaced(run, tmp_path):
    file = tmp_path / "found.json"
    file.write_text("mine")
    code, _, err = run(*QUICK, "--out", file)
    assert (code, file.read_text()) == (2, "mine")
    assert "must be a new file in an existing folder: choose another file" in err
    code, _, err = run(*QUICK, "--out", tmp_path / "none" / "found.json")
    assert code == 2
    assert "must be a new file in an existing folder" in err


def test_missing_images_are_the_loaders_own_message(run, tmp_path, monkeypatch):
    monkeypatch.setenv("DPENSEMBLE_DATA", str(tmp_path / "nothing"))
    code, out, err = run("--dataset", "mnist", "--repeats", 1)
    assert code == 2
    assert out == ""
    assert "nothing" in err


def test_the_help_names_every_method(run):
    code, out, _ = run("--help")
    assert code == 0
    assert "[label-moments,bagging,pate,bagged-pate,private-majority,darrm,dp-sgd]" in "".join(out.split())


@pytest.fixture
def own(tmp_path):
    """A public table with a text, a blank and labels."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=900), "kind": rng.choice(["a", "b"], size=900)})
    table["y"] = np.where(table["x"] + (table["kind"] == "a") > 0.5, "yes", "no")
    table.loc[7, "x"] = np.nan
    table.to_csv(tmp_path / "own.csv", index=False)
    return tmp_path / "own.csv"


def test_a_public_table_of_ones_own(run, own):
    asked = ("--table", own, "--target", "y", "--repeats", 1, "--seed", 0, "--delta", 1e-3, "--epsilon", 3)
    code, out, err = run(*asked, "--methods", "label-moments,private-majority", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["dataset"] == "own.csv"
    assert found["rows"] == {"private": 300, "public": 300, "test": 300}
    assert found["classes"] == ["no", "yes"]
    assert min(row["accuracy"] for row in found["methods"]) > 0.6


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--table", "own.csv"], "requires --target"),
        (["--table", "own.csv", "--target", "z"], "target must be a column of"),
        (["--table", "own.csv", "--target", "y", "--dataset", "adult"], "excludes --dataset"),
        (["--table", "own.csv", "--target", "y", "--classes", "no,yes"], "excludes --dataset and --classes"),
        (["--table", "own.csv", "--target", "x"], "without a label"),
        (["--table", "none.csv", "--target", "y"], "there is no such file"),
        (["--table", "own.csv", "--target", "y", "--public-rows", "301"], "public_rows=301"),
        (["--target", "y"], "--table"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_tables_that_cannot_be_compared_on_are_refused(run, own, monkeypatch, options, words):
    monkeypatch.chdir(own.parent)
    code, out, err = run(*options)
    assert (code, out) == (2, "")
    assert words in err.replace("\n", " ")


def test_short_tables_are_refused(run, own):
    own.write_text("x,y\n1,a\n2,b\n")
    code, _, err = run("--table", own, "--target", "y")
    assert code == 2
    assert "at least 30 rows" in err


@pytest.fixture
def ugly(tmp_path):
    """A public table with amounts, dates of other countries, limits, ids and e-mail addresses."""
    rng = np.random.default_rng(0)
    values = rng.integers(10, 80, 600)
    table = pd.DataFrame(
        {
            "pay": [f"{value},200" for value in values],
            "lab": ["<5" if value < 20 else "." if value % 9 == 0 else f"{value}.5" for value in values],
            "zip": rng.integers(1, 4, 600),
            "email": [f"p{row}@example.org" for row in range(600)],
            "y": np.where(values > 45, "yes", "no"),
        }
    )
    table.to_csv(tmp_path / "ugly.csv", index=False)
    return tmp_path / "ugly.csv"


def test_entries_are_read_as_in_a_run(run, ugly):
    asked = ("--table", ugly, "--target", "y", "--repeats", 1, "--seed", 0, "--delta", 1e-3, "--epsilon", 3)
    asked += ("--methods", "label-moments", "--json", "--quiet")
    code, _, err = run(*asked)
    assert code == 2
    assert "'--column' 'pay=number:1,234.5'" in err or "--column pay=number:1,234.5" in err
    declared = ("--column", "pay=number:1,234.5", "--column", "zip=category", "--below-limit", "half", "--blank", "80")
    code, out, _ = run(*asked, *declared)
    assert code == 0
    (row,) = json.loads(out)["methods"]
    assert row["accuracy"] > 0.9


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--column", "pay=money"], "give --table too"),
        (["--below-limit", "half"], "give --table too"),
        (["--table", "ugly.csv", "--target", "y", "--column", "y=category"], "is the target"),
        (["--table", "ugly.csv", "--target", "y", "--column", "pya=drop"], "pya"),
        (["--table", "ugly.csv", "--target", "y", "--blank", "x=1"], "not a column of the public table"),
        (["--table", "ugly.csv", "--target", "y", "--column", "pay=euros"], "is not a kind of column"),
        (["--table", "ugly.csv", "--target", "y", "--below-limit", "third"], "use 'limit' or 'half'"),
    ],
)
def test_wrong_declarations_are_refused(run, ugly, monkeypatch, options, words):
    monkeypatch.chdir(ugly.parent)
    code, out, err = run(*options)
    assert (code, out) == (2, "")
    assert words in err
