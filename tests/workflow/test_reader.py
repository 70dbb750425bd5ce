"""Blanks are filled in where they must be, kept where they may be, and refused without a rule."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from dpensemble import LabelMomentsClassifier, PrivateMajorityClassifier, SubsampleAggregateClassifier
from dpensemble.cli import main
from dpensemble.errors import InvalidParameterError
from dpensemble.workflow.train import RowConversion

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")

PUBLIC = pd.DataFrame({"x": [1.0, None, 3.0], "c": ["a", None, "b"]})
TREES = {"teacher": DecisionTreeClassifier(), "student": RandomForestClassifier()}


@pytest.mark.parametrize(
    ("model", "fill", "blanks", "n_nan"),
    [
        (SubsampleAggregateClassifier(), True, "filled in from public rows", 0),
        (SubsampleAggregateClassifier(**TREES), True, "filled in from public rows, NaN in numbers", 1),
        (SubsampleAggregateClassifier(TREES["teacher"]), True, "filled in from public rows", 0),
        (PrivateMajorityClassifier(**TREES), True, "filled in from public rows", 0),
        (SubsampleAggregateClassifier(), False, "refused", 1),
        (LabelMomentsClassifier(), False, "taken as they are", 2),
        (LabelMomentsClassifier(student=TREES["student"]), True, "filled in from public rows", 0),
    ],
)
def test_who_sees_blanks(model, fill, blanks, n_nan):
    reader = RowConversion(PUBLIC, model, fill=fill)
    assert reader.blanks == blanks
    assert pd.DataFrame(reader.transform(PUBLIC)).isna().to_numpy().sum() == n_nan


def test_blanks_are_not_filled_in_where_they_are_worth_more():
    with pytest.raises(InvalidParameterError, match="label-moments accepts blanks"):
        RowConversion(PUBLIC, LabelMomentsClassifier(), fill=True)


def table(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    known = np.where(rng.random(n) < 0.3, np.nan, x)
    return pd.DataFrame({"x": known, "c": rng.choice(["a", "b"], n), "y": (x > 0).astype(int)})


@pytest.fixture
def command(tmp_path):
    for name, n, seed in (("private", 600, 0), ("public", 200, 1), ("new", 50, 2)):
        table(n, seed).drop(columns=["y"] * (name == "new")).to_csv(tmp_path / f"{name}.csv", index=False)
    files = [f"--{name}={tmp_path / name}.csv" for name in ("private", "public")]
    more = ["--classes=0,1", "--target=y", "--epsilon=8", "--delta=1e-4", "--quiet", f"--out={tmp_path / 'out'}"]
    return ["train", "saa", "--teachers=20", "--jobs=1", *files, *more]


@pytest.mark.parametrize("trees", [False, True])
def test_train_and_predict_with_blanks(command, tmp_path, capsys, trees):
    learners = ["--teacher=decision-tree", "--student=decision-tree"] if trees else []
    assert main([*command, "--fill", *learners]) == 0
    assert capsys.readouterr().err == ""
    assert main(["predict", str(tmp_path / "out"), str(tmp_path / "new.csv")]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 51


def test_blanks_are_refused_with_the_way_out(command, capsys):
    assert main(command) == 2
    errors = capsys.readouterr().err
    assert "missing (NaN) or infinite values in x (the first in row" in errors
    assert "fill them in from public rows (--fill)" in errors


def test_strict_refuses_before_anything_is_spent(command, tmp_path, capsys):
    public = pd.read_csv(tmp_path / "public.csv").assign(site="north", customer_id=np.arange(200) // 2)
    public.to_csv(tmp_path / "public.csv", index=False)
    private = pd.read_csv(tmp_path / "private.csv").assign(site="north", customer_id=np.arange(600) // 2)
    private.to_csv(tmp_path / "private.csv", index=False)
    assert main([*command, "--fill", "--strict"]) == 2
    errors = capsys.readouterr().err
    assert "--unit customer_id" in errors
    assert "--drop site" in errors
    assert not (tmp_path / "out").exists()
    assert main([*command, "--fill", "--strict", "--unit", "customer_id", "--drop", "site"]) == 0
    assert main([*command[:-1], f"--out={tmp_path / 'second'}", "--fill"]) == 0
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 2
    assert all(line.startswith("dpensemble: note: column ") for line in told)
