"""A number on the command line: from ``train --range`` to ``predict``, ``report``, ``check`` and ``verify``."""

import json

import numpy as np
import pandas as pd
import pytest

from dpensemble import load_classifier
from dpensemble.cli import main

N = 400
RNG = np.random.default_rng(7)
TABLE = pd.DataFrame({"size": RNG.normal(50, 15, N + 160).round(1), "town": RNG.choice(["a", "b"], N + 160)})
TABLE["price"] = (1000 + 20 * TABLE["size"] + 300 * (TABLE["town"] == "a") + 60 * RNG.normal(size=N + 160)).round(1)
RUN = "train --private private.csv --public public.csv --target price --range 0,10000 --epsilon 5 --delta 1e-4 --quiet"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write tables, and train once."""
    place = tmp_path_factory.mktemp("numbers")
    TABLE[:N].to_csv(place / "private.csv", index=False)
    TABLE[N : N + 80].drop(columns="price").to_csv(place / "public.csv", index=False)
    TABLE[N + 80 :].to_csv(place / "test.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        assert main([*RUN.split(), "--test", "test.csv", "--proven-coverage", "0.5", "--out", "run"]) == 0
    return place


@pytest.fixture
def said(folder, monkeypatch, capsys):
    """Return a function that runs a command there, and returns its exit code and what it printed."""
    monkeypatch.chdir(folder)

    def run(line, *more):
        code = main([*line.split(), *more])
        return code, *capsys.readouterr()

    return run


def test_a_run_writes_all_files_and_its_certificate_is_confirmed(said, folder):
    names = {"report.html", "student.skops", "labels.csv", "card.json", "card.md", "certificate.json", "run.json"}
    assert {path.name for path in (folder / "run").iterdir()} == names
    code, out, _ = said("verify run")
    assert code == 0, out
    record = json.loads((folder / "run" / "run.json").read_text(encoding="utf-8"))
    assert record["method"] == "label-moments-regressor"
    assert record["data"]["classes"] == []
    facts = record["data"]["number"]
    assert (facts["low"], facts["high"], facts["coverage"]) == (0, 10_000, 0.9)
    assert 0 < facts["error"] < facts["error_of_median"] < 1000
    labels = pd.read_csv(folder / "run" / "labels.csv")
    assert list(labels) == ["row", "mean", "median", "low", "high"]
    assert (len(labels), (labels["low"] <= labels["high"]).all()) == (80, True)


def test_predict_gives_columns_of_a_number_that_the_student_gives_too(said, folder):
    code, _, err = said("predict run test.csv --coverage 0.5 --quantiles 0.1,0.75 --keep price --out numbers.csv")
    assert (code, err) == (0, "")
    table = pd.read_csv(folder / "numbers.csv")
    assert list(table) == ["row", "price", "mean", "median", "low", "high", "quantile 0.1", "quantile 0.75"]
    student, rows = load_classifier(folder / "run" / "student.skops"), TABLE[N + 80 :].reset_index(drop=True)
    np.testing.assert_allclose(table["mean"], student.predict(rows))
    np.testing.assert_allclose(table[["low", "high"]], student.predict_interval(rows, 0.5))
    np.testing.assert_allclose(table["quantile 0.1"], student.predict_quantile(rows, 0.1))
    assert (table["quantile 0.1"] < table["median"]).all()
    assert (table["median"] < table["quantile 0.75"]).all()


def test_a_number_is_explained(said, folder):
    code, _, err = said("predict run test.csv --explain --explain-plot row.svg --explain-row 3 --out reasons.csv")
    assert (code, err) == (0, "")
    table = pd.read_csv(folder / "reasons.csv")
    names = ["explained mean", "base", "contribution of size", "contribution of town"]
    assert list(table) == ["row", "mean", "median", "low", "high", *names]
    np.testing.assert_allclose(table[names[1:]].sum(axis=1), table["explained mean"])
    np.testing.assert_allclose(table["explained mean"], table["mean"])
    assert "expected number" in (folder / "row.svg").read_text(encoding="utf-8")
    code, out, _ = said("predict run test.csv --explain --json")
    reason = json.loads(out)[3]["explanation"]
    assert (code, reason["mean"]) == (0, pytest.approx(table["mean"][3]))
    assert {"class", "logit"}.isdisjoint(reason)


def test_the_page_shows_what_moves_a_number(said, folder):
    effects = {one["column"]: one for one in json.loads((folder / "run" / "run.json").read_text())["effects"]}
    assert {one["output"] for one in effects.values()} == {"mean"}
    ends = effects["size"]["points"]
    assert ends[0][1][0] < 0 < ends[-1][1][0]
    page = (folder / "run" / "report.html").read_text()
    assert "What pushes which way" in page
    assert "what it adds to the expected number" in page


def test_a_range_that_most_numbers_are_beyond_shows_on_page_and_terminal(said, folder):
    code, out, _ = said(f"{RUN} --range 0,1200 --out narrow --overwrite".replace("--range 0,10000 ", ""))
    assert code == 0
    assert "of the numbers are beyond the declared range and count as its end" in out
    page = (folder / "narrow" / "report.html").read_text()
    first = page[: page.index("What it must not be used for")]
    assert "so true errors are larger" in first
    assert "so true errors are larger" not in (folder / "run" / "report.html").read_text()


def test_an_open_end_of_a_proven_interval_is_null_in_json(said):
    code, out, _ = said("predict run test.csv --coverage 0.5 --proven --json")
    rows = json.loads(out)
    assert (code, len(rows)) == (0, 80)
    assert all({"row", "mean", "median", "low", "high"} == set(row) for row in rows)
    assert all(row["low"] is None or row["low"] > 0 for row in rows)


def test_report_shows_a_run_again(said, folder):
    code, out, _ = said("report run --out page.html")
    assert code == 0
    assert "By released counts of training records: mean absolute error" in out
    assert "Intervals with a proven coverage of 50%" in out
    assert "80 test rows, without noise: R2" in out
    page = (folder / "page.html").read_text(encoding="utf-8")
    # The test rows were not declared public.
    assert "80 test rows" not in page
    for text in ("Predicted and true numbers", "How close it is", "below low of the range", "the number “price”"):
        assert text in page
    for text in ("a class", "AUROC", "labels"):
        assert text not in page.split("What was released")[0]


def test_the_card_is_of_a_regression_and_withholds_private_test_rows(folder):
    card = json.loads((folder / "run" / "card.json").read_text(encoding="utf-8"))
    assert card["model"]["range"] == [0, 10_000]
    assert card["quality"]["measures"]["mae"] > 0
    assert "on_test_rows" not in card["quality"]
    text = (folder / "run" / "card.md").read_text(encoding="utf-8")
    assert "tabular-regression" in text
    assert "classification" not in text
    shared = "".join((folder / "run" / name).read_text(encoding="utf-8") for name in ("card.json", "report.html"))
    record = json.loads((folder / "run" / "run.json").read_text(encoding="utf-8"))
    for value in record["data"]["test_number"].values():
        assert repr(value) not in shared or value == 80


def test_check_counts_targets_that_are_no_numbers_or_beyond_the_range(said, folder):
    odd = TABLE[:N].astype({"price": object})
    odd.loc[:3, "price"] = ["", "high", "inf", "$1,200"]
    odd.to_csv(folder / "odd.csv", index=False)
    line = "check --private odd.csv --public public.csv --target price --range 1500,2000"
    code, out, _ = said(line, "--json")
    counts = json.loads(out)
    prices = odd["price"][4:].astype(float)
    assert (code, counts["without_class"], counts["bad"]) == (0, 4, 4)
    assert (counts["below_range"], counts["above_range"]) == (int((prices < 1500).sum()), int((prices > 2000).sum()))
    assert "4 have no finite number" in said(line)[1]
    declared = said(line, "--column", "price=money:$1,234.5", "--json")[1]
    assert json.loads(declared)["without_class"] == 3
    assert "money in $" in json.loads(declared)["columns"]["price"]


REFUSED = {
    "--range 5": "range='5' must be two numbers",
    "--range 9,5": "range='9,5' must be two numbers, first the smallest",
    "--range 5,5": "range='5,5' must be two numbers",
    "--range nan,5": "range='nan,5' must be two numbers",
    "--range 0,inf": "range='0,inf' must be two numbers",
    "--range 0,5 --classes a,b": "--range is for a number and --classes for labels",
    "--range 0,5 --holdout-score 0.2": "--holdout-score is about labels",
    "--range 0,5 --groups town": "--groups is about labels",
    "--range 0,5 --baseline": "--baseline is about labels",
    "--range 0,5 --dataset adult": "--dataset is about labels",
    "--range 0,5 --private-report": "--private-report is about labels",
    "--range 0,5 --cost-false-negative 2": "--cost-false-negative is about labels",
    "--range 0,5 --fill": "leave out --fill",
    "--range 0,5 --rounds 2": "No such option: --rounds",
    "--range 0,5 --method pate": "it belongs to the method label-moments-regressor",
    "--range 0,5 --column price=category": "declared to hold category, but a number is predicted",
    "--range 0,5 --unit price": "unit='price' is also the target",
    "--range 0,10000 --proven-coverage 0.99": "proven_coverage=0.99 cannot be proven",
    "--method label-moments-regressor": "--range must be given",
}


@pytest.mark.parametrize("options", REFUSED)
def test_what_cannot_apply_to_a_number_is_refused_in_one_sentence(said, folder, options):
    code, out, err = said(
        "train --private private.csv --public public.csv --target price --quiet --out no", *options.split()
    )
    assert (code, out, (folder / "no").exists()) == (2, "", False)
    assert REFUSED[options] in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("predict run test.csv --proba", "is about labels, and this student predicts a number"),
        ("predict run test.csv --threshold 0.4", "threshold is about labels"),
        ("predict run test.csv --coverage 1.5", "coverage=1.5 is not a number from 0.01 to 0.999"),
        ("predict run test.csv --quantiles 0.5,x", "must be numbers from 0.001 to 0.999"),
        ("predict run test.csv --quantiles 0.5,0.5", "names one twice"),
        ("predict run test.csv --keep mean", "keep='mean' is not a column of test.csv"),
        ("predict run test.csv --coverage 0.999 --proven", "cannot be proven"),
        ("export run --format sql", "(it predicts a number)"),
        ("export run --format python", "(it predicts a number)"),
        ("export run --format onnx --out x.onnx", "(it predicts a number)"),
        ("plan label-moments-regressor", "has no plan yet"),
        ("check --private private.csv --public public.csv --target price --range 5,1", "range='5,1' must be two"),
        (
            "check --private private.csv --public public.csv --target price --range 1,5 --classes a,b",
            "only one of them",
        ),
    ],
)
def test_other_commands_refuse_what_a_number_has_not(said, line, sentence):
    code, out, err = said(line)
    assert (code, out) == (2, "")
    assert sentence in err
    assert len(err.strip().splitlines()) == 1


def test_an_interrupted_run_is_finished_with_the_noise_that_it_drew(said, folder, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("dpensemble.workflow.outputs.save_classifier", full)
        code, _, err = said(RUN, "--unit", "town", "--relation", "add-or-remove-one", "--out", "later")
    assert code == 1, err
    code, _, err = said("recover later")
    assert (code, (folder / "later" / "student.skops").exists()) == (0, True), err
    record = json.loads((folder / "later" / "run.json").read_text(encoding="utf-8"))
    assert (record["guarantee"]["relation"], record["guarantee"]["unit"]) == ("add-or-remove-one", "unit")
    assert record["data"]["unit_column"] == "town"


def test_a_ledger_charges_a_run_once_and_refuses_what_is_too_much(said, folder):
    assert said("ledger create accounts.db")[0] == 0
    assert said("ledger open accounts.db prices --epsilon 6 --delta 1e-3")[0] == 0
    account = ("--ledger", "accounts.db", "--data-set", "prices")
    assert said(RUN, *account, "--out", "charged")[0] == 0
    assert "1 releases" in said("ledger verify accounts.db")[1]
    code, _, err = said(RUN, *account, "--out", "refused")
    assert (code, (folder / "refused").exists()) == (2, False)
    assert "prices" in err
