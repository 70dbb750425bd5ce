"""Tables of one run, as they are read from files.

Budgets are read as they were written, dealt out as they were shared, and refused in one sentence.
"""

import datetime
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpensemble import PATEClassifier, WeightingPATEClassifier
from dpensemble._checks import declared_labels
from dpensemble.allocation.budget_groups import parse_budgets
from dpensemble.cli import main
from dpensemble.errors import BudgetError, DataError, InvalidParameterError
from dpensemble.laws import GaussianNoisyMax
from dpensemble.workflow import ReadOptions, TableFiles, file_tables, train
from dpensemble.workflow.tables import _assign_at_random, adult_tables

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")


@pytest.fixture
def files(tmp_path):
    rows = pd.DataFrame({"age": [20.0, 30.0, 40.0, 50.0], "who": list("abcd"), "sick": ["no", "yes, badly"] * 2})
    rows.to_csv(tmp_path / "private.csv", index=False)
    rows.drop(columns="who").to_csv(tmp_path / "public.csv", index=False)
    return {"private": tmp_path / "private.csv", "public": tmp_path / "public.csv", "target": "sick", "unit": "who"}


def test_classes_are_a_list_whose_labels_may_hold_commas(files):
    tables = file_tables(TableFiles(**files, classes=["no", "yes, badly"]))
    assert tables.classes == ["no", "yes, badly"]
    assert tables.y_private.tolist() == ["no", "yes, badly"] * 2
    assert list(tables.X_private) == ["age"]
    assert tables.units.tolist() == list("abcd")


@pytest.mark.parametrize(
    ("classes", "labels"), [([0, 1], [0, 1]), (["0", "1.5"], [0, 1.5]), ([True, False], ["True", "False"])]
)
def test_classes_are_numbers_if_all_of_them_can_be_read_as_numbers(classes, labels):
    assert declared_labels(classes) == labels


@pytest.mark.parametrize(
    ("classes", "message"), [("no,yes", "must be a list"), (["a", "A"], "twice"), (["a", ""], "empty label")]
)
def test_classes_that_are_no_labels_raise(files, classes, message):
    with pytest.raises(InvalidParameterError, match=message):
        file_tables(TableFiles(**files, classes=classes))


DAYS = [datetime.datetime(2024, 1, day, tzinfo=datetime.UTC) for day in (1, 2, 3, 1)]
COLUMNS = {
    "list": pa.array([[1, 2], [3], [], [1, 2]]),
    "struct": pa.array([{"a": 1}, {"a": 2}, {"a": 3}, {"a": 1}]),
    "map": pa.array([[("a", 1)], [("b", 2)], [], [("a", 1)]], pa.map_(pa.string(), pa.int64())),
    "date": pa.array([day.date() for day in DAYS]),
    "dictionary of times": pa.array(DAYS).dictionary_encode(),
    "float": pa.array([0.5, 1.5, 2.5, 0.5]),
}


@pytest.mark.parametrize("in_blocks", [False, True])
@pytest.mark.parametrize("kind", COLUMNS)
def test_features_of_any_type_in_parquet_are_read_and_units_of_few(tmp_path, kind, in_blocks):
    columns = {"size": pa.array([1.0, 2.0, 3.0, 4.0]), "y": pa.array([0, 1, 0, 1]), "odd": COLUMNS[kind]}
    pq.write_table(pa.table(columns), tmp_path / "public.parquet")
    ids = pa.array(["p", "q", "r", "p"]).dictionary_encode()
    pq.write_table(pa.table(columns | {"who": ids, "when": COLUMNS[kind]}), tmp_path / "private.parquet")
    files = TableFiles(
        private=tmp_path / "private.parquet",
        public=tmp_path / "public.parquet",
        target="y",
        classes=[0, 1],
        unit="who",
        drop=["when"],
    )
    options = ReadOptions(takes_blocks=True, in_blocks=in_blocks)
    with pytest.raises(DataError, match=r"unit='when' has the type .*, in which one id may have several forms"):
        file_tables(replace(files, unit="when", drop=["who"]), options)
    tables = file_tables(files, options)
    units = tables.units if tables.stream is None else tables.stream.units
    assert tables.n_units == 3
    assert units[0] == units[3]
    rows = tables.X_private if tables.stream is None else next(tables.stream.read())[0]
    assert list(rows) == ["size", "odd"]
    assert rows["odd"][0] == rows["odd"][3] != rows["odd"][1]


ENTRIES = [(["p", "p", "q", "r"], ["p", "p", "q", "r"]), ([7, 7, 8, 9], ["7", "7", "8", "9"]), ([""] * 4, None)]


@pytest.mark.parametrize(("entries", "units"), ENTRIES)
def test_public_units_are_read_where_the_public_table_has_the_column(files, entries, units):
    public = pd.read_csv(files["public"]).assign(who=entries)
    public.to_csv(files["public"], index=False)
    tables = file_tables(TableFiles(**files, classes=["no", "yes, badly"]))
    assert list(tables.X_public) == ["age"]
    assert tables.public_units == units


def test_public_units_are_unknown_where_the_public_table_lacks_the_column(files):
    assert file_tables(TableFiles(**files, classes=["no", "yes, badly"])).public_units is None


def test_public_rows_of_which_some_have_no_unit_are_refused(files):
    pd.read_csv(files["public"]).assign(who=["p", "", "q", "r"]).to_csv(files["public"], index=False)
    with pytest.raises(DataError, match=r"the public table has rows without a unit in column 'who' \(first in row 1"):
        file_tables(TableFiles(**files, classes=["no", "yes, badly"]))


@pytest.fixture
def visits(tmp_path, monkeypatch):
    """Alike visits, 5 of each of 100 private and 80 public people."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, n_people in (("private", 100), ("public", 80)):
        x = np.repeat(rng.normal(size=n_people), 5)
        sick = np.where(x + rng.normal(size=len(x)) > 0, "yes", "no")
        pd.DataFrame({"x": x, "who": np.repeat(np.arange(n_people), 5), "sick": sick}).to_csv(
            f"{name}.csv", index=False
        )
    line = "train label-moments --private private.csv --public public.csv --target sick --classes no,yes --unit who"
    return f"{line} --delta 1e-3 --epsilon 3 --rounds 1 --quiet --out run --overwrite".split()


def test_a_run_states_whether_public_rows_look_like_the_private_ones(visits, capsys):
    assert main(visits) == 0
    data = json.loads(Path("run/run.json").read_text())["data"]
    assert (data["public_units"], data["public_rows_unlike"]) == (80, "no sign of it")
    assert "unlike" not in data
    assert data["columns"] == 1
    pd.read_csv("public.csv").drop(columns="who").to_csv("public.csv", index=False)
    capsys.readouterr()
    assert main(visits) == 0
    data = json.loads(Path("run/run.json").read_text())["data"]
    assert (data.get("public_units"), data["public_rows_unlike"]) == (None, "cannot be decided")
    assert "the test cannot decide whether public rows look like the private ones" in data["unlike"]
    assert "the test cannot decide" in " ".join(capsys.readouterr().out.split())
    assert "the test cannot decide" in Path("run/report.html").read_text().lower()


def test_methods_that_compare_nothing_take_a_public_table_with_units(visits):
    assert main([*visits[:1], "pate", *visits[2:-6], "--teachers", "10", "--quiet", "--out", "voted"]) == 0


@pytest.mark.parametrize(
    ("budgets", "levels", "column", "found", "shares"),
    [
        ("budget", None, "budget", None, None),
        ("consent", "high=0.5, medium = 1,low=2", "consent", {"high": 0.5, "medium": 1.0, "low": 2.0}, None),
        ("0.69:50%,1.39:50%", None, None, None, {0.69: 0.5, 1.39: 0.5}),
        ("high=0.69:0.25,low=1.39:0.75", None, None, {"high": 0.69, "low": 1.39}, {"high": 0.25, "low": 0.75}),
        ("consent", "high=0.5:20%,low=2:80%", "consent", {"high": 0.5, "low": 2.0}, {"high": 0.2, "low": 0.8}),
        ("budget", "0.5:20%,2:80%", "budget", None, {0.5: 0.2, 2.0: 0.8}),
    ],
)
def test_both_options_are_read(budgets, levels, column, found, shares):
    request = parse_budgets(budgets, levels)
    assert (request.column, request.levels) == (column, found)
    assert request.shares == (None if shares is None else pytest.approx(shares))


@pytest.mark.parametrize(
    ("budgets", "levels", "message"),
    [
        (None, "high=1,low=2", "name the column by --budgets COLUMN"),
        ("a=1:50%,b=2:50%", "a=1,b=2", "drop --levels"),
        ("a=1,b=2", None, "must name a column, or give the share"),
        ("a=1:50%,b=2:40%", None, "add up to 90%"),
        ("a=1:50%,2:50%", None, "must name all of its groups or none"),
        ("c", "a=1:50%,b=2", "a share for all or none"),
        ("c", "0.5,2", "lacks names"),
        ("a=1:50%,a=2:50%", None, "twice"),
        ("1:50%,1.0:50%", None, "twice"),
        ("a=x:50%,b=2:50%", None, "the part 'a=x:50%'"),
        ("=1:50%,b=2:50%", None, "the part '=1:50%'"),
        ("a=1:-50%,b=2:150%", None, "the part 'a=1:-50%'"),
        ("a=1:50%,", None, "the part ''"),
        ("a=0:50%,b=2:50%", None, "budgets=0.0 is not a number from 1e-09"),
        ("a=inf:50%,b=2:50%", None, "budgets=inf"),
    ],
)
def test_options_that_cannot_be_read_are_refused(budgets, levels, message):
    with pytest.raises(InvalidParameterError) as error:
        parse_budgets(budgets, levels)
    assert message in str(error.value)


def test_levels_of_one_epsilon_are_one_group():
    census = parse_budgets("a=1:20%,b=2:50%,c=1:30%").census(1e-5)
    assert census.names == ("a, c", "b")
    assert census.shares == pytest.approx((0.5, 0.5))


def test_dealing_follows_the_shares_the_units_and_the_seed():
    units = [number // 3 for number in range(300)]
    found = _assign_at_random({"high": 0.25, "low": 0.75}, 300, units, seed=1)
    assert Counter(found) == {"high": 75, "low": 225}
    assert all(len(set(found[3 * number : 3 * number + 3])) == 1 for number in range(100))
    again = _assign_at_random({"high": 0.25, "low": 0.75}, 300, units, seed=1)
    assert found.tolist() == again.tolist()
    other = _assign_at_random({"high": 0.25, "low": 0.75}, 300, units, seed=2)
    assert found.tolist() != other.tolist()
    assert sum(entry == 0.5 for entry in _assign_at_random({0.5: 1 / 3, 2.0: 2 / 3}, 10, None, seed=0)) == 3


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)

    def table(n):
        frame = pd.DataFrame({"age": rng.integers(20, 80, n), "height": rng.normal(170, 10, n)})
        frame["sick"] = np.where(frame["age"] + rng.normal(0, 8, n) > 50, "yes", "no")
        frame["consent"] = rng.choice(["high", "low"], n)
        return frame

    private = table(600)
    private.assign(budget=private["consent"].map({"high": 2, "low": 4})).to_csv(tmp_path / "private.csv", index=False)
    table(300).to_csv(tmp_path / "public.csv", index=False)
    table(50).to_csv(tmp_path / "test.csv", index=False)
    return tmp_path


def read(folder, **changes):
    given = {"drop": ["budget"], "test": folder / "test.csv"} | changes
    request = parse_budgets(given.pop("budgets", None), given.pop("levels", None))
    seed = given.pop("seed", None)
    tables = {"private": folder / "private.csv", "public": folder / "public.csv", "target": "sick"}
    return file_tables(TableFiles(**tables, classes=["no", "yes"], **given), budgets=request, seed=seed)


def test_a_column_of_levels_leaves_the_features_of_every_table(folder):
    tables = read(folder, budgets="consent", levels="high=2,low=4")
    for rows in (tables.X_private, tables.X_public, tables.X_test):
        assert list(rows.columns) == ["age", "height"]
    assert set(tables.budgets) == {"high", "low"}
    assert tables.levels == {"high": 2.0, "low": 4.0}
    assert not tables.budgets_at_random


def test_a_column_of_numbers_is_read_as_numbers(folder):
    tables = read(folder, budgets="budget", drop=["consent"])
    assert set(tables.budgets) == {2.0, 4.0}
    assert tables.levels is None


@pytest.mark.parametrize(
    ("entry", "message"),
    [("", "missing in row 3"), ("0", "not an epsilon in row 3"), ("-1", "not an epsilon in row 3"),
     ("inf", "not an epsilon in row 3"), ("much", "not an epsilon in row 3")],
)  # fmt: skip
def test_a_bad_budget_is_named_with_its_row(folder, entry, message):
    table = pd.read_csv(folder / "private.csv", dtype=str)
    table.loc[3, "budget"] = entry
    table.to_csv(folder / "private.csv", index=False)
    tables = read(folder, budgets="budget", drop=["consent"])
    with pytest.raises(BudgetError, match=message):
        train(tables, WeightingPATEClassifier(n_teachers=20))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"budgets": "nothing"}, DataError, "budgets='nothing' is not a column of the private table"),
        ({"budgets": "sick"}, InvalidParameterError, "is also the target"),
        ({"budgets": "consent", "unit": "consent"}, InvalidParameterError, "is also the unit"),
    ],
)
def test_columns_that_cannot_hold_budgets(folder, changes, error, message):
    with pytest.raises(error, match=message):
        read(folder, **changes)


def test_packaged_data_has_no_column_of_budgets():
    with pytest.raises(InvalidParameterError, match="packaged data have no column of budgets"):
        adult_tables(0, budgets="age")


def test_budgets_and_methods_must_fit(folder):
    with pytest.raises(InvalidParameterError, match="only for the personalised methods"):
        train(read(folder, budgets="consent", levels="high=2,low=4"), PATEClassifier(n_teachers=20))
    with pytest.raises(InvalidParameterError, match="budgets are missing"):
        train(read(folder), WeightingPATEClassifier(n_teachers=20))


def test_the_record_says_what_was_spent_and_what_one_budget_would_have_bought(folder):
    tables = read(folder, budgets="consent", levels="high=2,low=4")
    model = WeightingPATEClassifier(n_teachers=20, accounting="published", law=GaussianNoisyMax(12), random_state=0)
    record = train(tables, model).record
    assert record.method == "weighting-pate"
    assert [group["name"] for group in record.groups] == ["high", "low"]
    assert [group["records"] for group in record.groups] == [
        int(np.count_nonzero(tables.budgets == name)) for name in ("high", "low")
    ]
    assert record.budget["epsilon"] == 4
    assert record.worst_case_spend == []
    count, spent = record.group_spend[-1]
    assert count == record.labels
    assert spent == pytest.approx([group["epsilon"] for group in record.groups])
    assert "epsilon" not in record.settings
    plain = {entry["name"]: entry for entry in record.plain_labels}
    assert plain["average"]["epsilon"] == pytest.approx(np.mean([{"high": 2, "low": 4}[b] for b in tables.budgets]))
    for entry in plain.values():
        budget = PATEClassifier(
            n_teachers=20,
            accounting="published",
            law=GaussianNoisyMax(12),
            epsilon=entry["epsilon"],
            random_state=0,
        )
        bare = read(folder, drop=["budget", "consent"])
        assert len(train(bare, budget).labels) == min(entry["labels"], 300)
    assert plain["minimum"]["labels"] < record.labels < plain["maximum"]["labels"]
    assert record.plain_spend[-1][0] > plain["maximum"]["labels"]


def test_one_budget_for_all_is_a_run_of_one_group(folder):
    tables = read(folder, budgets="consent", levels="high=3,low=3")
    model = WeightingPATEClassifier(n_teachers=20, accounting="published", law=GaussianNoisyMax(12), random_state=0)
    record = train(tables, model).record
    assert [(group["name"], group["budget"]) for group in record.groups] == [("high, low", 3)]
    assert record.budget["epsilon"] == 3
    assert 2.5 < record.group_spend[-1][1][0] <= 3
    assert [entry["labels"] for entry in record.plain_labels] == [record.labels] * 3


def test_a_private_number_of_labels_leaves_no_trace_in_the_curves(folder):
    tables = read(folder, budgets="consent", levels="high=2,low=4")
    model = WeightingPATEClassifier(n_teachers=20, law=GaussianNoisyMax(8), random_state=0, analysis="until-spent")
    outcome = train(tables, model, private_report=True)
    record, private = outcome.record, outcome.private
    assert record.group_spend == []
    assert [group["epsilon"] for group in record.groups] == [2, 4]
    most = max(entry["labels"] for entry in record.plain_labels)
    assert record.plain_spend[-1][0] == int(1.05 * most) + 1
    assert all(0 < spent <= budget for spent, budget in zip(private.group_spent, (2, 4), strict=True))


def test_another_person_in_a_place_moves_nobody_elses_budget():
    units = [f"person {number}" for number in range(100)]
    shares = {"high": 0.25, "low": 0.75}
    before = _assign_at_random(shares, 100, units, seed=1)
    # Sorted by name this person would come first.
    after = _assign_at_random(shares, 100, [*units[:40], "a person", *units[41:]], seed=1)
    assert before.tolist() == after.tolist()


@pytest.mark.parametrize("blank", ["", "NA"])
def test_public_test_rows_without_a_label_are_not_scored(folder, blank):
    test = pd.read_csv(folder / "test.csv", dtype=str)
    test.loc[[0, 7], "sick"] = blank
    test.to_csv(folder / "blank.csv", index=False)
    tables = read(folder, test=folder / "blank.csv", test_is_public=True, groups={"consent": None})
    assert tables.notes[-1].text == "2 of 50 test rows have a blank 'sick': not scored."
    known = test.drop([0, 7])
    assert tables.y_test.tolist() == known["sick"].tolist()
    assert tables.X_test["age"].tolist() == known["age"].astype(float).tolist()
    assert tables.X_test.index.equals(tables.y_test.index)
    assert len(tables.X_test) == 48
    assert tables.test_groups is None or len(tables.test_groups) == 48


def test_test_rows_that_cannot_be_scored_are_refused(folder):
    test = pd.read_csv(folder / "test.csv", dtype=str)
    for name, label, public in (("private.csv", "", False), ("odd.csv", "maybe", True), ("all.csv", "", True)):
        test.loc[slice(None) if name == "all.csv" else [0, 7], "sick"] = label
        test.to_csv(folder / f"test-{name}", index=False)
        with pytest.raises(DataError, match="the test table's target has missing labels or labels outside"):
            read(folder, test=folder / f"test-{name}", test_is_public=public)


def test_a_title_as_public_header_is_answered_with_skip_lines(folder):
    lines = (folder / "public.csv").read_text().splitlines()[1:]
    for name, own in (("private", lines[:9]), ("public", lines[9:18])):
        (folder / f"{name}.csv").write_text("\n".join(["Patients,,,", *own]) + "\n")
    with pytest.raises(DataError, match="have no name: give --skip-lines with the number of lines above its header"):
        read(folder, drop=(), test=None)
