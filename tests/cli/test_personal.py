"""Budgets of records on the command line: training and planning."""

import json
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from dpensemble.cli import main
from dpensemble.cli.app import methods_of
from dpensemble.cli.options import LAWS, described_method

PERSONALISED = [name for name in methods_of("train") if "budgets" in described_method(name).fit]


@pytest.fixture
def run(capsys):
    def run(*arguments):
        code = main([str(a) for a in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def tables(tmp_path):
    rng = np.random.default_rng(0)

    def table(n):
        frame = pd.DataFrame({"age": rng.integers(20, 80, n), "city": rng.choice(["rome", "oslo"], n)})
        frame["sick"] = np.where(frame["age"] + rng.normal(0, 8, n) > 50, "yes", "no")
        return frame

    private = table(800).assign(consent=rng.choice(["high", "low"], 800, p=[0.4, 0.6]))
    private["budget"] = private["consent"].map({"high": 2, "low": 4})
    private["person"] = np.arange(800)
    private.to_csv(tmp_path / "private.csv", index=False)
    table(300).drop(columns="sick").to_csv(tmp_path / "public.csv", index=False)
    return tmp_path


def arguments(tables, out, **changes):
    given = {
        "--private": tables / "private.csv",
        "--public": tables / "public.csv",
        "--target": "sick",
        "--classes": "no,yes",
        "--method": "weighting-pate",
        "--budgets": "budget",
        "--drop": "consent,person",
        "--teachers": 20,
        "--sigma": 12,
        "--accounting": "published",
        "--seed": 0,
        "--out": out,
    } | {f"--{name.replace('_', '-')}": value for name, value in changes.items()}
    return ["train", *(str(x) for pair in given.items() if pair[1] is not None for x in pair)]


def test_the_methods_are_those_of_the_library():
    assert set(PERSONALISED) == {"upsampling-pate", "vanishing-pate", "weighting-pate"}
    assert {"lnmax", "gnmax", "confident-gnmax", "interactive-gnmax", "optimal"} <= set(LAWS)


@pytest.mark.parametrize("method", PERSONALISED)
def test_every_personalised_method_trains_and_reports(run, tables, tmp_path, method):
    out = tmp_path / "out"
    code, printed, errors = run(*arguments(tables, out, method=method), "--json")
    assert (code, errors) == (0, "")
    record = json.loads(printed)
    assert record["method"] == method
    assert [group["name"] for group in record["groups"]] == ["2", "4"]
    assert all(0 < group["epsilon"] <= group["budget"] for group in record["groups"])
    assert record["data"]["kinds_of_columns"].startswith("age (number), city")
    assert record["experiment"] == []
    page = (out / "report.html").read_text()
    assert "Groups of records by budget" in page
    assert page.count('<path class="line group-') == 2
    code, shown, _ = run("report", out)
    assert code == 0
    assert "for group 2" in shown
    assert "One budget for all, with the same noise" in shown
    assert run("predict", out / "student.skops", tables / "public.csv")[0] == 0


@pytest.mark.parametrize("law", ["lnmax", "confident-gnmax", "interactive-gnmax"])
def test_every_law_serves_personal_budgets(run, tables, tmp_path, law):
    noise = {"scale": 12, "sigma": None} if law == "lnmax" else {"threshold": 11, "threshold_sigma": 15}
    changes = {"law": law, "budgets": "consent", "levels": "high=4,low=8", "drop": "budget,person"}
    code, printed, errors = run(*arguments(tables, tmp_path / "out", **changes, **noise), "--json")
    assert (code, errors) == (0, "")
    record = json.loads(printed)
    assert [group["name"] for group in record["groups"]] == ["high", "low"]
    assert record["settings"]["law_name"] == law
    assert [group["budget"] for group in record["groups"]] == [4, 8]
    page = (tmp_path / "out" / "report.html").read_text()
    assert ("Queries that one budget" in page) == (law != "lnmax")


def test_settings_reach_the_estimator(run, tables, tmp_path):
    changes = {"rule": "published", "precision": 0.1}
    code, printed, _ = run(*arguments(tables, tmp_path / "out", **changes), "--vanish-at-end", "--json")
    assert code == 0
    settings = json.loads(printed)["settings"]
    assert (settings["rule"], settings["precision"], settings["vanish_at_end"]) == ("published", 0.1, True)


def test_packaged_data_gets_budgets_at_random_and_is_an_experiment(run, tmp_path):
    command = ["train", "--dataset", "adult", "--method", "upsampling-pate", "--accounting", "published"]
    command += ["--budgets", "high=0.7:50%,low=1.4:50%", "--teachers", "60", "--seed", "0", "--json"]
    records = []
    for name in ("a", "b"):
        code, printed, _ = run(*command, "--max-labels", "5", "--sigma", "40", "--out", tmp_path / name)
        assert code == 0
        records.append(json.loads(printed))
    assert "Budgets were assigned to records at random, not by consent." in records[0]["experiment"]
    sizes = [[group["records"] for group in record["groups"]] for record in records]
    assert sizes[0] == sizes[1]
    assert sum(sizes[0]) == 16_281
    assert abs(sizes[0][0] - sizes[0][1]) <= 1


def test_add_or_remove_one_takes_declared_shares_and_hides_the_counted_ones(run, tables, tmp_path):
    changes = {"budgets": "consent", "levels": "high=4:40%,low=8:60%", "drop": "budget,person"}
    changes |= {"relation": "add-or-remove-one"}
    code, printed, errors = run(*arguments(tables, tmp_path / "out", **changes), "--json")
    assert (code, errors) == (0, "")
    record = json.loads(printed)
    assert [group["teachers"] for group in record["groups"]] == [8, 12]
    assert record["settings"]["group_shares"] == {"high": 0.4, "low": 0.6}
    page = (tmp_path / "out" / "report.html").read_text()
    assert not any(f"<td>{group['records']}</td>" in page for group in record["groups"])
    assert "withheld" in page


def test_units_keep_their_budget_together(run, tables, tmp_path):
    changes = {"unit": "person", "drop": "consent"}
    code, printed, _ = run(*arguments(tables, tmp_path / "out", **changes), "--json")
    assert code == 0
    assert json.loads(printed)["guarantee"]["unit"] == "unit"


def test_a_data_dependent_run_shares_no_spend_and_keeps_it_for_its_owner(run, tables, tmp_path):
    out = tmp_path / "out"
    changes = {"analysis": "until-spent", "accounting": "exact", "sigma": 8}
    flags = ("--private-report", "--json")
    code, printed, _ = run(*arguments(tables, out, **changes), *flags)
    assert code == 0
    record = json.loads(printed)
    private = json.loads((out / "private.json").read_text())
    page, own = (out / "report.html").read_text(), (out / "private-report.html").read_text()
    assert record["group_spend"] == []
    assert '<path class="line group-' not in page
    assert "at most 2" in page
    for spent in private["group_spent"]:
        assert f"{spent:.3f}" not in page
    assert f"<td>{record['labels']}</td>" not in page
    assert "largest spent" in own
    assert "largest spent" not in page


BAD = [
    ({"budgets": None}, (), "--method weighting-pate without budgets would be plain PATE: give --budgets COLUMN"),
    ({"method": "gnmax"}, (), "No such option: --budgets; it belongs to the methods upsampling-pate"),
    ({"method": "gnmax", "budgets": None, "rule": "solved"}, (), "No such option: --rule; it belongs to"),
    ({"method": "private-majority", "budgets": None, "sigma": None, "law": "lnmax"}, (), "of private-majority must be"),
    ({"method": "gnmax", "budgets": None}, ("--vanish-at-end",), "--vanish-at-end; it belongs to"),
    ({"epsilon": 1}, (), "No such option: --epsilon; it belongs to"),
    ({"budgets": "nothing"}, (), "budgets='nothing' is not a column of the private table"),
    ({"budgets": None, "levels": "a=1"}, (), "name the column by --budgets COLUMN"),
    ({"budgets": "consent", "drop": "budget,person"}, (), "budgets is not an epsilon in row 0"),
    ({"budgets": "consent", "drop": "budget,person", "levels": "high=1,lo=2"}, (), "which is not in levels=['high',"),
    ({"levels": "high=x"}, (), "the part 'high=x'"),
    ({"levels": "high=1:50%,low=2:60%"}, (), "add up to 110%"),
    ({"budgets": "high=2:50%,low=4:40%"}, (), "add up to 90%"),
    ({"relation": "add-or-remove-one"}, (), "give --levels with shares"),
    ({"dataset": "adult", "private": None, "public": None, "target": None, "classes": None, "drop": None}, (),
     "packaged data have no column of budgets"),
    ({"method": "upsampling-pate"}, ("--vanish-at-end",), "use weighting or vanishing"),
    ({"method": "vanishing-pate", "precision": 0.1}, (), "precision=0.1 is not a setting of vanishing"),
    ({"method": "upsampling-pate", "precision": 1}, (), "precision=1.0"),
    ({"rule": "guessed"}, (), "guessed"),
    ({"law": "saa"}, (), "law of weighting-pate must be one of"),
    ({"partitions": 3}, (), "it belongs to the method dpbag"),
    ({"sigma": 0.5}, (), "too small for one label"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "flags", "message"), BAD, ids=[case[2][:40] for case in BAD])
def test_bad_input_is_one_sentence_and_leaves_nothing(run, tables, tmp_path, changes, flags, message):
    before = sorted(tmp_path.rglob("*"))
    code, out, errors = run(*arguments(tables, tmp_path / "out", **changes), *flags)
    assert (code, out) == (2, "")
    assert message in errors
    assert errors.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


PLAN = ["plan", "--budgets", "high=0.69:50%,low=1.39:50%", "--accounting", "published"]


@pytest.mark.parametrize("method", PERSONALISED)
def test_plans_of_groups(run, method):
    code, printed, errors = run(*PLAN, "--method", method, "--json")
    assert (code, errors) == (0, "")
    found = json.loads(printed)
    assert (found["method"], found["basis"], found["law_name"]) == (method, "worst-case", "gnmax")
    assert [group["name"] for group in found["groups"]] == ["high", "low"]
    assert all(0 < group["epsilon"] <= group["budget"] for group in found["groups"])
    baselines = {entry["name"]: entry["labels"] for entry in found["baselines"]}
    assert baselines["minimum"] < found["labels"] < baselines["maximum"]
    code, alone, _ = run("plan", "--method", "gnmax", "--epsilon", "0.69", "--accounting", "published", "--json")
    assert baselines["minimum"] == json.loads(alone)["labels"]


def test_a_plan_finds_the_noise_for_labels(run):
    code, printed, _ = run(*PLAN, "--method", "weighting-pate", "--labels", 100, "--json")
    found = json.loads(printed)
    assert code == 0
    assert found["labels"] >= 100
    assert found["sigma"] > 40
    less = [*PLAN, "--method", "weighting-pate", "--sigma", 0.95 * found["sigma"], "--json"]
    assert json.loads(run(*less)[1])["labels"] < 100


def test_a_plan_for_people_and_its_plot(run, tmp_path):
    plot = tmp_path / "plan.svg"
    code, shown, errors = run(*PLAN, "--method", "weighting-pate", "--plot", plot)
    assert (code, errors) == (0, "")
    for words in ("within everybody's budget", "Groups by budget", "high", "low", "weight", "One budget for all"):
        assert words in shown
    root = ElementTree.fromstring(plot.read_text())  # noqa: S314
    names = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"high: 0.69", "low: 1.39", "one for all"} <= names


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "weighting-pate", "--epsilon", "1"], "No such option: --epsilon"),
        (["--method", "weighting-pate", "--partitions", "3"], "No such option: --partitions"),
        (["--method", "weighting-pate", "--label-accuracy", "0.9"], "No such option: --label-accuracy"),
        (["--method", "weighting-pate", "--agreement", "0.9"], "No such option: --agreement"),
        (["--method", "weighting-pate", "--labels", "9", "--sigma", "40"], "be given: leave one out"),
        (["--method", "weighting-pate", "--teachers", "1"], "--teachers: n_teachers=1 "),
        (["--method", "gnmax"], "No such option: --budgets"),
        (["--method", "weighting-pate", "--scale", "3"], "No such option: --scale"),
    ],
)
def test_plans_that_make_no_sense(run, arguments, message):
    code, out, errors = run(*PLAN, *arguments)
    assert (code, out) == (2, "")
    assert message in errors
    assert errors.count("\n") == 1


@pytest.mark.parametrize("budgets", [None, "consent"])
def test_a_plan_needs_budgets_with_shares(run, budgets):
    given = [] if budgets is None else ["--budgets", budgets]
    code, _, errors = run("plan", "--method", "weighting-pate", *given)
    assert code == 2
    assert ("for example --budgets" if budgets is None else "give budgets and shares, such as") in errors


def test_budgets_dealt_by_position_are_for_replace_one(run, tables, tmp_path):
    changes = {"budgets": "1:50%,2:50%", "drop": "consent,person,budget", "relation": "add-or-remove-one"}
    code, _, errors = run(*arguments(tables, tmp_path / "out", **changes))
    assert code == 2
    assert "dealt by position" in errors
    assert not (tmp_path / "out").exists()


def test_a_plan_that_is_worse_than_one_budget_for_all_says_so(run):
    planned = (
        "plan",
        "--budgets",
        "1.25:30%,1:50%,2:20%",
        "--teachers",
        100,
        "--accounting",
        "published",
        "--method",
    )
    assert "Hint: one budget for all" in run(*planned, "vanishing-pate")[1].replace("\n", " ")
    assert "Hint" not in run(*planned, "weighting-pate")[1]
