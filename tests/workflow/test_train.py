"""Blanks are filled in where they must be, kept where they may be, and refused without a rule.

What a run reports about itself, and what its owner sees of the teachers.
"""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from dpensemble import LabelMomentsClassifier, PATEClassifier, PrivateMajorityClassifier, SubsampleAggregateClassifier
from dpensemble.cli import main
from dpensemble.engine.voting import PrivateDiagnostics
from dpensemble.errors import InvalidParameterError
from dpensemble.workflow import TableFiles, file_tables
from dpensemble.workflow import train as run_training
from dpensemble.workflow.train import RowConversion, _about_teachers

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


RNG = np.random.default_rng(0)


def labelled_table(n):
    x = RNG.normal(size=n)
    return pd.DataFrame({"x": x, "c": RNG.choice(["a", "b"], n), "y": np.where(x > 0, "yes", "no")})


@pytest.fixture
def train(tmp_path, capsys):
    def train(private, *more, classes="no,yes", public=None):
        private.to_csv(tmp_path / "private.csv", index=False)
        (labelled_table(200) if public is None else public).to_csv(tmp_path / "public.csv", index=False)
        files = [f"--{name}={tmp_path / name}.csv" for name in ("private", "public")]
        more = [*more, "--target=y", f"--classes={classes}", "--delta=1e-4", "--overwrite", "--jobs=1", "--quiet"]
        code = main(["train", "pate", "--teachers=30", *files, *more, f"--out={tmp_path / 'out'}"])
        out, errors = capsys.readouterr()
        return code, out, errors

    return train


def test_a_student_of_one_answer_is_called_one(train):
    code, out, errors = train(labelled_table(600).assign(y="no"), "--epsilon=8")
    assert code == 0
    assert "Hint: the student answers 'no' for every public row, so these labels carry no information" in out
    # All labels are of one class, so that no verdict rests on accuracy.
    assert "is no better" not in out
    assert "for you only: 30 of 30 teachers saw records of only one label" in errors


def test_a_good_run_is_not_talked_down(train):
    public = labelled_table(200).drop(columns="y")
    code, out, errors = train(labelled_table(1200), "--epsilon=30", "--max-labels=60", public=public)
    assert (code, errors) == (0, "")
    assert "Hint" not in out
    assert "Title:   none; 'dpensemble report " in out


def test_few_labels_are_said_to_be_few(train):
    code, out, _ = train(labelled_table(600), "--epsilon=1")
    assert code == 0
    assert "few to learn from" in out
    assert "30 teachers for 600 records are about 20 records each" in out


def test_public_labels_alone_may_do(train):
    """Two hundred labelled public rows beat a private student of a tiny budget."""
    code, out, _ = train(labelled_table(600), "--epsilon=1", "--max-labels=3")
    assert code == 0
    assert "Hint: a model of only the 200 public labels is right for" in out
    assert (
        "Hint: a model"
        not in train(
            labelled_table(600), "--epsilon=1", "--max-labels=3", public=labelled_table(200).drop(columns="y")
        )[1]
    )


def test_failed_teachers_are_told_to_the_owner():
    (told,) = _about_teachers(PrivateDiagnostics(n_failed=170), 200)
    assert told.startswith("170 of 200 teachers could not be fitted")
    assert _about_teachers(PrivateDiagnostics(n_failed=20, n_constant=100), 200) == ()
    assert _about_teachers(PrivateDiagnostics(n_constant=101), None) == ()


def test_a_student_that_cannot_be_saved_is_refused_before_training(tmp_path):
    labelled_table(300).to_csv(tmp_path / "private.csv", index=False)
    labelled_table(100).to_csv(tmp_path / "public.csv", index=False)
    tables = file_tables(
        TableFiles(private=tmp_path / "private.csv", public=tmp_path / "public.csv", target="y", classes=["no", "yes"])
    )
    for student in (KNeighborsClassifier(), make_pipeline(StandardScaler(), KNeighborsClassifier())):
        with pytest.raises(InvalidParameterError, match=r"student cannot be saved: .* is not vetted; use a logistic"):
            run_training(tables, PATEClassifier(teacher=object(), student=student))


TRUTH = [("True", "False"), ("TRUE", "FALSE"), ("true", "false"), ("1", "0"), ("1.0", "0.0")]


@pytest.mark.parametrize(
    ("classes", "spellings"), [("0,1", TRUTH), ("True,False", TRUTH[:3]), ("TRUE,FALSE", TRUTH[:3])]
)
def test_truth_values_are_labels_however_they_are_written(train, classes, spellings):
    for true, false in spellings:
        rows = labelled_table(300)
        code, _, errors = train(
            rows.assign(y=np.where(rows["x"] > 0, true, false)),
            "--epsilon=30",
            "--max-labels=5",
            classes=classes,
            public=labelled_table(200).drop(columns="y"),
        )
        assert (code, errors) == (0, "")


NEAR = "only in capitals or spaces (the first in row 0, counting from 0): write them alike"


@pytest.mark.parametrize(
    ("labels", "classes", "said"),
    [
        (("Yes", "no"), "yes,no", NEAR),
        (("True", "maybe"), "0,1", "labels that are not numbers"),
        (("yes", None), "yes,no", "rows without a target in column 'y' (the first in row"),
        (("yes", "no"), "yes,Yes", "names a label twice, or two that differ only in capitals"),
        (("yes", "no"), "yes,yes", "names a label twice"),
    ],
)
def test_labels_that_cannot_be(train, tmp_path, labels, classes, said):
    rows = labelled_table(300)
    values = np.where(rows["x"] > 0, *labels)
    values[0] = labels[0]
    code, out, errors = train(
        rows.assign(y=values), "--on-bad-record=raise", classes=classes, public=labelled_table(200).drop(columns="y")
    )
    assert (code, out, errors.count("\n")) == (2, "", 1)
    assert said in errors
    assert not (tmp_path / "out").exists()


def test_columns_in_another_order_are_the_same_columns(train):
    public = labelled_table(200)[["c", "y", "x"]]
    assert train(labelled_table(600), "--epsilon=30", "--max-labels=5", public=public)[0] == 0
    for other, said in (
        (public.rename(columns={"x": "z"}), "lacks the columns z"),
        (public.drop(columns="x"), "columns that the public table lacks: 'x'; drop"),
    ):
        code, _, errors = train(labelled_table(600), public=other)
        assert code == 2
        assert said in errors


def test_a_unit_of_thousands_of_rows_is_one_unit(train):
    rows = labelled_table(3000).assign(person=[0] * 2000 + list(range(1, 1001)))
    code, out, errors = train(rows, "--epsilon=30", "--max-labels=5", "--unit=person")
    assert (code, errors) == (0, "")
    assert "Replacing any one person" in out
