"""Command lines that scripts rely on: each must go on working, with the numbers that it always had."""

import csv
import hashlib
import json

import numpy as np
import pandas as pd
import pytest

from dpensemble.cli import main

SEEDED = "--insecure-release-seed 1 --seed 0 --quiet --json --jobs 1 --out out"
ADULT = f"train --dataset adult {SEEDED}"
OWN = f"train --private private.csv --public public.csv --target y --classes 0,1 --delta 1e-4 {SEEDED}"

PLANS = {
    "--method saa --teachers 250 --epsilon 1 --delta 1e-5": {"labels": 1122, "epsilon_spent": 0.9999677921296097},
    "--method saa --teachers 250 --scale 125 --epsilon 1 --delta 1e-5 --accounting exact": {"labels": 1122},
    "--teachers 250 --epsilon 1 --delta 1e-5 --accounting published": {
        "labels": 162,
        "epsilon": 1.0,
        "epsilon_spent": 0.9981052277071925,
        "labels_in_paper_convention": 163,
    },
    "--method gnmax --teachers 250 --sigma 40 --epsilon 1 --delta 1e-5": {
        "labels": 88,
        "epsilon_spent": 0.9977199235581793,
    },
    "--method gnmax --teachers 100 --sigma 16 --epsilon 1 --delta 1e-5 --accounting published": {
        "labels": 5,
        "epsilon_spent": 0.9679864777071895,
    },
    "--method saa --teachers 100 --epsilon 1 --labels 100 --accounting published": {
        "labels": 100,
        "epsilon_spent": 0.9998659659212705,
        "scale": 98.0429156214905,
    },
    "--method bagging --records 60000 --subsample 1000 --models 3": {
        "epsilon": 0.0,
        "delta": 0.04877097184920103,
        "published": {"epsilon": 0.04999958333796309, "delta": 0.04877097184920103},
    },
    "--method bagging --records 60000 --delta 0.01": {"delta": 0.009999750418423376, "subsample": 603},
    "--method dpbag --teachers 50 --partitions 10 --epsilon 1": {"labels": 46, "epsilon_spent": 0.9993335878825746},
    "--method optimal --teachers 100 --reach 120 --epsilon 1": {"labels": 32, "epsilon_spent": 0.9882823075167835},
    "--method confident-gnmax --teachers 100 --threshold 80 --threshold-sigma 60 --sigma 16 --epsilon 1": {
        "labels": 12,
    },
    "--method bagged-pate --teachers 100 --sigma 16 --records 6000 --subsample 30 --epsilon 1": {
        "labels": 30,
        "epsilon_spent": 0.9848158620297909,
    },
    "--method weighting-pate --teachers 100 --sigma 16 --budgets high=0.7:50%,low=1.4:50% --accounting published": {
        "labels": 5,
        "epsilon_spent": 1.2993291924984758,
    },
}

# Options, then labels, epsilon of the guarantee, right labels, accuracy and AUROC of the student, digest of labels.csv.
TRAINED = {
    f"{ADULT} --method saa --teachers 50 --epsilon 1 --delta 1e-5": (
        *(46, 0.9991437715943903, 0.7391304347826086, 0.7909705159705159, 0.8271675926833533),
        "259562059e5ed4ae",
    ),
    f"{ADULT} --method dpbag --teachers 50 --partitions 4 --epsilon 1 --delta 1e-5": (
        *(46, 0.9998023385414854, 0.7391304347826086, 0.7909705159705159, 0.8271675926833533),
        "259562059e5ed4ae",
    ),
    f"{ADULT} --method gnmax --teachers 50 --sigma 20 --epsilon 1 --delta 1e-5": (
        *(21, 0.9969065102632158, 0.8095238095238095, 0.7709459459459459, 0.7931161755764727),
        "91fcf41d3bed8518",
    ),
    f"{ADULT} --method optimal --teachers 50 --reach 60 --epsilon 1": (
        *(3, 0.947401144891046, 0.6666666666666666, 0.2398034398034398, 0.5),
        "13c4bb1746383586",
    ),
    f"{ADULT} --method private-majority --teachers 5 --epsilon 1": (
        *(16_281, 0.9999999999994508, 0.8513604815429028, 0.8453931203931204, 0.8971239366648298),
        "389ba3f87d2bfbb5",
    ),
    f"{OWN} --drop unit --teachers 20 --scale 10 --epsilon 2": (
        *(34, 1.9895779283251613, None, None, None),
        "d730ad68f4a56c0e",
    ),
    f"{OWN} --unit unit --method gnmax --teachers 20 --sigma 10 --epsilon 2": (
        *(24, 1.9665928250178695, None, None, None),
        "390ad74d17bb8b35",
    ),
    f"{OWN} --drop unit --method dpbag --teachers 20 --partitions 3 --scale 40 --epsilon 2 --overwrite": (
        *(60, 1.9998582041589543, None, None, None),
        "42b15779c0bbbf9e",
    ),
}

GAMMA = "--teachers 11 --epsilon 0.1 --m 3"
GAMMAS = {
    GAMMA: (0.7231691519368123, 0.7078150095599165, 0.0),
    f"{GAMMA} --Delta 1e-5 --delta 3e-5": (0.7231950390734921, 0.7076683032813724, 3e-5),
}

BAD = {
    f"{OWN} --teachers 20 --scale 10 --epsilon 2": "columns that the public table lacks: 'unit'; drop",
    "train --out out": "no data are given: give --dataset adult",
    "train --dataset adult --private private.csv --out out": "brings its own tables: drop --private",
    "train --private private.csv --out out": "--public and --target and --classes must be given",
    "train --private missing.csv --public public.csv --target y --classes 0,1 --out out": "missing.csv",
    f"{OWN} --drop unit --classes 0 --teachers 20": "at least two",
    f"{OWN} --drop unit --teachers 20 --epsilon 0.0001": "the smallest epsilon that would do is 0.1481",
    f"{OWN} --drop unit --teachers 20 --delta 0.1": "not below 1/N",
    f"{OWN} --drop unit --teachers 5000": "5000 is more than the 600 private records (or units): use at most 600",
    f"{OWN} --target z --teachers 20": "target='z' is not a column",
    "train --dataset adult --method saa --sigma 20 --out out": "No such option: --sigma; it belongs to the laws",
    "train --dataset adult --method gnmax --partitions 4 --out out": "it belongs to the method dpbag",
    "train --dataset adult --method bagging --out out": "publishes models instead of labels",
    "train --dataset adult --epsilon nonsense --out out": "--epsilon 'nonsense' is not a number.",
    "train --dataset adult --method nonsense --out out": "method='nonsense' is unknown: use ",
    "plan --method gnmax --scale 20 --epsilon 1": "No such option: --scale; it belongs to the law",
    "plan --epsilon -1": "epsilon=-1.0 is not a number",
    "plan --epsilon 1e-9 --json": "the smallest epsilon that would do is 0.01192",
    "plan --method bagging --records 1000": "requires either --subsample, to find delta, or --delta",
    "plan --method gnmax --records 1000": "No such option: --records; it belongs to the methods",
    "gamma --teachers 11 --epsilon 0.1": "Missing option '--m'",
    "gamma --teachers 11 --epsilon 0.1 --m 0 --json": "m=0.0 is not a number above 0",
    "nonsense": "No such command 'nonsense'",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with 600 private records, of which a column names the unit, and 200 public rows."""
    rng = np.random.default_rng(0)
    X, X_public = rng.normal(size=(600, 4)), rng.normal(size=(200, 4))
    y = X[:, 0] + 0.5 * X[:, 1] + 0.5 * rng.normal(size=600) > 0
    units = rng.integers(0, 200, size=600)
    private = [[*map(repr, x.tolist()), int(label), int(unit)] for x, label, unit in zip(X, y, units, strict=True)]
    for name, more, rows in (("private", ["y", "unit"], private), ("public", [], X_public.tolist())):
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["x0", "x1", "x2", "x3", *more], *rows])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def answer(capsys):
    """Run a command line and return the JSON that it prints."""

    def answer(line):
        code = main(line.split())
        out, errors = capsys.readouterr()
        assert (code, errors) == (0, "")
        return json.loads(out)

    return answer


@pytest.mark.parametrize("line", PLANS)
def test_plans(answer, line):
    found = answer(f"plan {line} --json")
    for key, value in PLANS[line].items():
        assert found[key] == (value if isinstance(value, dict | int) else pytest.approx(value, rel=1e-9))


@pytest.mark.parametrize("line", GAMMAS)
def test_majorities_of_private_teachers(answer, line):
    found = answer(f"gamma {line} --json")
    objective, least, delta = GAMMAS[line]
    assert found["objective"] == pytest.approx(objective, rel=1e-9)
    assert min(found["gamma"]) == pytest.approx(least, rel=1e-9)
    assert (len(found["gamma"]), found["epsilon"], found["delta"]) == (12, 0.1, delta)


@pytest.mark.parametrize("line", TRAINED)
def test_training(answer, folder, line):
    labels, epsilon, right, accuracy, auroc, digest = TRAINED[line]
    found = answer(line)
    assert set(found) >= {"labels", "guarantee", "student", "label_accuracy", "seconds", "method"}
    assert found["labels"] == labels
    assert found["label_accuracy"] == right
    assert found["guarantee"]["epsilon"] == pytest.approx(epsilon, rel=1e-9)
    assert found["guarantee"]["delta"] == (1e-5 if "adult" in line else 1e-4)
    if accuracy is None:
        assert found["student"] is None
    else:
        student = [found["student"][key] for key in ("accuracy", "auroc")]
        assert student == pytest.approx([accuracy, auroc], rel=1e-6)
    # Rows that were chosen, and each label. The mark of an experiment stands beside them.
    table = pd.read_csv(folder / "out" / "labels.csv", dtype=str)
    assert set(table.pop("for_release")) == {"false"}
    assert hashlib.sha256(table.to_csv(index=False).encode()).hexdigest()[:16] == digest


@pytest.mark.parametrize("line", BAD)
def test_bad_input_is_one_sentence_and_exit_code_2_with_nothing_written(folder, capsys, line):
    assert main(line.split()) == 2
    out, errors = capsys.readouterr()
    assert out == ""
    assert errors.startswith("dpensemble: ")
    assert errors.count("\n") == 1
    assert BAD[line] in errors
    assert sorted(path.name for path in folder.iterdir()) == ["private.csv", "public.csv"]


def test_functions_that_scripts_import():
    from dpensemble.accounting import gnmax_rdp, lnmax_rdp, threshold_rdp

    assert all(map(callable, (gnmax_rdp, lnmax_rdp, threshold_rdp)))
