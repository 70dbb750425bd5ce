"""Exact counts of bad records for the owner, and runs of the command line that bad records do not stop."""

import json

import numpy as np
import pandas as pd
import pytest

from dpensemble.cli import main

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=600), "c": rng.choice(["a", "b"], size=600)}).astype(object)
    table["y"], table["who"] = np.where(table["x"] > 0, "yes", "no"), np.arange(600) // 2
    table[400:].drop(columns=["y", "who"]).to_csv(tmp_path / "public.csv", index=False)
    private = table[:400].copy()
    private.loc[3, "x"], private.loc[4, "y"], private.loc[5, "x"] = "inf", "perhaps", "zaphod"
    private.loc[6, "who"], private.loc[7, "c"], private.loc[8, "y"] = None, None, None
    private.to_csv(tmp_path / "private.csv", index=False)
    with (tmp_path / "private.csv").open("a") as file:
        file.write('1.0,"a,yes,7\n1.0,a,yes,7,more\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


DATA = "--private private.csv --public public.csv --target y --classes no,yes --unit who"


def test_counts_are_exact(folder, capsys):
    assert main(["check", *DATA.split(), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["records"] == 402
    assert found["without_class"] == 4
    assert found["infinite"] == 1
    assert found["without_unit"] == 3
    assert found["incomplete"] == 4
    assert found["missing_entries"] == {"x": 3, "c": 3}
    assert found["bad"] == 6
    assert main(["check", *DATA.split(), "--no-blanks", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bad"] == 8
    assert main(["check", *DATA.split()]) == 0
    shown = capsys.readouterr().out
    assert "do not publish them" in shown
    assert "402 records: 6 of them are bad" in shown


def test_counts_of_a_parquet_folder(folder, capsys):
    table = pd.read_csv("public.csv").assign(y="yes", who=1)
    table["who"] = table["who"].astype("Int64")
    table.loc[3, "who"], table.loc[4, "y"], table.loc[5, "x"] = pd.NA, "perhaps", np.inf
    (folder / "parts").mkdir()
    table.to_parquet(folder / "parts" / "1.parquet")
    assert main(["check", *DATA.replace("private.csv", "parts").split(), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [found[name] for name in ("records", "bad", "without_class", "infinite", "without_unit")] == [
        200,
        3,
        1,
        1,
        1,
    ]


def test_entries_unlike_public_rows_and_declarations_are_counted(folder, capsys):
    private = pd.DataFrame({"x": np.arange(300.0), "c": "a", "y": "yes", "who": 1})
    private.loc[:9, "c"] = "z"
    private.to_csv("other.csv", index=False)
    largest = pd.read_csv("public.csv")["x"].max()
    beyond = int((private["x"] > largest).sum())
    other = DATA.replace("private.csv", "other.csv").split()
    assert main(["check", *other, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["unlike_entries"] == {"x": beyond, "c": 10}
    assert main(["check", *other]) == 0
    shown = capsys.readouterr().out
    assert f"{beyond:,} have an entry of x beyond the public range or categories, SO A MODEL CAN LEARN LITTLE" in shown
    assert "10 have an entry of c beyond the public range or categories\n" in shown
    (folder / "columns.json").write_text(json.dumps({"x": [0, 200], "c": ["a", "b"]}))
    declared = "--private other.csv --declared-columns columns.json --target y --classes no,yes --unit who"
    assert main(["check", *declared.split(), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["unlike_entries"] == {"x": 99, "c": 10}
    assert main(["check", *declared.split()]) == 0
    assert "99 have an entry of x beyond the declared range or categories\n" in capsys.readouterr().out


def test_entries_of_dates_and_money_are_compared_as_they_are_read(folder, capsys):
    table = pd.DataFrame({"seen": [f"2024-0{1 + day % 6}-11" for day in range(200)], "pay": "$1,200.50"})
    table["pay"] = [f"${1000 + place:,}.50" for place in range(200)]
    table.to_csv("public.csv", index=False)
    table["y"] = "yes"
    table.loc[:4, ["seen", "pay"]] = ["2024-12-11", "$9,000.00"]
    table.to_csv("private.csv", index=False)
    options = "--private private.csv --public public.csv --target y --classes no,yes --column pay=money:$1,234.50"
    assert main(["check", *options.split(), "--json"]) == 0
    unlike = json.loads(capsys.readouterr().out)["unlike_entries"]
    assert {name: unlike[name] for name in ("pay", "seen: month")} == {"pay": 5, "seen: month": 5}


def test_all_bad_is_said(folder, capsys):
    assert main(["check", *DATA.replace("no,yes", "0,1").split()]) == 0
    assert "Every record is bad: compare --classes" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [["--target", "z"], ["--private", "none.csv"], ["--classes", "a"]])
def test_bad_input_is_one_sentence(folder, capsys, wrong):
    assert main(["check", *DATA.split(), *wrong]) == 2
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1


RUNS = [
    ("label-moments", []),
    ("label-moments", ["--holdout-score", "0.2"]),
    ("soft-votes", ["--teachers", "10", "--fill"]),
    ("pate", ["--teachers", "10", "--holdout-score", "0.2"]),
    ("private-majority", ["--teachers", "5", "--fill"]),
]


@pytest.mark.parametrize(("method", "more"), RUNS)
def test_bad_records_stop_no_run_and_are_told_to_nobody(folder, capsys, method, more):
    line = ["train", method, *DATA.split(), "--epsilon", "5", "--delta", "1e-3", "--quiet", "--out", "run", *more]
    assert main([*line, "--on-bad-record", "raise"]) == 2
    assert "cannot be read: a quotation mark in line 402" in capsys.readouterr().err
    assert main(line) == 0
    shown = capsys.readouterr()
    assert shown.err == "" or "note:" in shown.err
    assert all(word not in shown.out + shown.err for word in ("bad record", "perhaps", "zaphod"))
    record = json.loads((folder / "run" / "run.json").read_text())
    assert record["data"]["private_records"] == 402
    assert "perhaps" not in (folder / "run" / "report.html").read_text()


@pytest.mark.parametrize("method", ["label-moments", "pate --teachers 5"])
def test_a_folder_with_bad_records_is_learned_from(folder, capsys, method):
    table = pd.read_csv("public.csv").assign(y="yes", who=pd.array(np.arange(200), dtype="Int64"))
    table.loc[table["x"] > 0, "y"] = "no"
    table.loc[3, "who"], table.loc[4, "y"], table.loc[5, "x"], table.loc[6, "x"] = pd.NA, "perhaps", np.inf, np.nan
    (folder / "parts").mkdir()
    table.to_parquet(folder / "parts" / "1.parquet")
    line = f"train {method} {DATA.replace('private.csv', 'parts')} --epsilon 9 --delta 1e-3 --quiet --out run"
    assert main(line.split()) == 0, capsys.readouterr().err
    assert main([*line.split(), "--overwrite", "--on-bad-record", "raise"]) == 2


UGLY = pd.DataFrame(
    {
        "pay": [f"${x * 1001:,.2f}" for x in range(10, 130)],
        "lab": ["." if x % 9 == 0 else f"<{x}" if x < 30 else f"{x}.5" for x in range(10, 130)],
        "share": [f"{x}.5 %" for x in range(10, 130)],
        "seen": [f"{x % 28 + 1}. März {x % 60 + 10}" for x in range(10, 130)],
        "y": ["no", "yes"] * 60,
    }
)


def as_files(folder, table, *, private=None):
    (table if private is None else private).to_csv(folder / "private.csv", index=False)
    table.drop(columns="y").to_csv(folder / "public.csv", index=False)
    return ["--private", "private.csv", "--public", "public.csv", "--target", "y", "--classes", "no,yes"]


def test_ugly_columns_are_read_by_train_and_predict(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    files = as_files(tmp_path, UGLY)
    seeds = ["--insecure-release-seed", "1", "--delta", "1e-3", "--quiet", "--json"]
    assert main(["train", "label-moments", *files, *seeds, "--out", "run", "--blank", "lab=50.5"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert "pay (money in $, as 1,234.5), lab (number, as 1234.5, <5 as 5), share (percent, as 1234.5)" in str(record)
    new = UGLY.head(8).drop(columns="y")
    new.loc[3] = ["5 €", "12 kg", "12", "today"]
    new.to_csv("new.csv", index=False)
    new.drop(index=3).to_csv("others.csv", index=False)
    labels = []
    for rows in ("new.csv", "others.csv"):
        assert main(["predict", "run", rows, "--proba", "--out", f"labels-{rows}"]) == 0
        labels.append(pd.read_csv(f"labels-{rows}").drop(columns="row"))
    note = capsys.readouterr().err
    assert "'seen' (1), which counts as blank" in note
    assert "not written as in the public rows in 'pay' (1), 'lab' (1), 'share' (1)" in note
    pd.testing.assert_frame_equal(labels[0].drop(index=3).reset_index(drop=True), labels[1], check_exact=True)


def test_a_run_shows_the_same_for_any_ugly_record(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shown = []
    for odd in (None, ["1,234", "?!", "50%", "32. Mai 24", "no"], ["", "1e999", "(5", "\x07", "perhaps"]):
        private = UGLY.copy()
        if odd is not None:
            private.loc[7] = odd
        files = as_files(tmp_path, UGLY, private=private)
        code = main(
            ["train", "label-moments", *files, "--rounds", "1", "--delta", "1e-3", "--out", "run", "--overwrite"]
        )
        captured = capsys.readouterr()
        shown.append(
            (code, captured.err, [line for line in captured.out.splitlines() if "read as" in line or "Columns" in line])
        )
    assert shown[0] == shown[1] == shown[2]


def test_two_readings_end_a_run_before_it_is_charged(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    table = UGLY.assign(size=[f"{x},234" for x in range(10, 130)])
    files = as_files(tmp_path, table)
    assert main(["train", "label-moments", *files, "--out", "run"]) == 2
    error = capsys.readouterr().err
    assert "--column size=number:1,234.5" in error
    assert "--column size=number:1.234,5" in error
    assert not (tmp_path / "run").exists()
    for how, kind in (("size=number:1.234,5", "size (number, as 1.234,5)"), ("size=drop", "")):
        assert main(["check", *files, "--column", how]) == 0
        shown = capsys.readouterr().out
        assert kind in shown
        assert ("size" in shown) == (kind != "")
    for option in (
        ["--column", "size"],
        ["--column", "size=numbers"],
        ["--column", "sise=number"],
        ["--blank", "sise=9"],
    ):
        assert main(["check", *files, *option]) == 2
    assert main(["check", *files, "--below-limit", "third", "--column", "size=id"]) == 2


OF_TIMES = "--time days --event status=1 --censored 0 --competing 2 --bins 30,90 --strata arm=drug,placebo --unit pid"
TIMES = pd.DataFrame(
    {
        "days": ["10", "20", "20", "30", "31", "90", "90", "500", "44 d", "-1", "", "5", "6", "7"],
        "status": ["1", "1", "0", "1", "2", "0", "1", "1", "1", "1", "1", "5", "", "1"],
        "arm": [*(["drug"] * 7), *(["placebo"] * 6), "none"],
        "pid": ["a", "a", *"bcdefghijkl", ""],
    }
)
# By hand: of each person the first event counts, and who is censored at the end of a bin is in the next one.
BY_HAND = {
    ("arm=drug", 30.0): ([2, 0], 1),
    ("arm=drug", 90.0): ([1, 1], 0),
    ("arm=drug", None): ([0, 0], 1),
    ("arm=placebo", 30.0): ([0, 0], 0),
    ("arm=placebo", 90.0): ([0, 0], 0),
    ("arm=placebo", None): ([0, 0], 1),
}


@pytest.fixture
def times(tmp_path, monkeypatch):
    TIMES.to_csv(tmp_path / "times.csv", index=False)
    (tmp_path / "parts").mkdir()
    for place in range(2):
        part = TIMES[7 * place : 7 * (place + 1)].copy()
        part["days"] = pd.to_numeric(part["days"], errors="coerce")
        part.replace("", None).to_parquet(tmp_path / "parts" / f"{place}.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("private", ["times.csv", "parts"])
def test_counts_of_a_life_table_need_no_public_rows(times, capsys, private):
    assert main(["check", "--private", private, *OF_TIMES.split(), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [found[name] for name in ("records", "bad", "without_class", "without_unit")] == [14, 6, 6, 1]
    seen = found["times"]
    assert [seen[name] for name in ("without_code", "without_time", "negative_times")] == [2, 2, 1]
    assert seen["without_stratum"] == {"arm": 1}
    assert (seen["readable_times"], seen["after_last_bin"]) == (11, 1)
    assert seen["quantiles"] == pytest.approx(
        np.quantile([10, 20, 20, 30, 31, 90, 90, 500, 5, 6, 7], [0.05, 0.5, 0.95])
    )
    assert {(one["stratum"], one["until"]): (one["events"], one["censored"]) for one in seen["bins"]} == BY_HAND


def test_loud_remarks_about_times_quote_no_entry(times, capsys):
    assert main(["check", "--private", "times.csv", *OF_TIMES.split()]) == 0
    shown = capsys.readouterr().out
    assert "2 have no declared code: 14.3 % of all, WHICH A RUN WOULD PAY FOR WITHOUT LEARNING FROM THEM" in shown
    assert "3 have no time from 0 (2 missing or not a number, 1 negative): 21.4 % of all, WHICH A RUN" in shown
    assert "1 have no declared value of arm: 7.14 % of all, WHICH" in shown
    assert "1 times (9.09 %) are after the last bin, 90." in shown
    assert "NO EVENT" not in shown
    assert "none" not in shown
    years = OF_TIMES.replace("30,90", "0.01,0.1,1")
    assert main(["check", "--private", "times.csv", *years.split()]) == 0
    shown = capsys.readouterr().out
    assert "11 times (100 %) are after the last bin, 1: ARE TIMES IN THE UNIT OF --bins?" in shown
    assert "NO EVENT IS IN 3 OF 3 BINS, such as the one until 0.01" in shown


def test_a_few_bad_times_make_no_loud_remark(times, capsys):
    rows = pd.DataFrame({"days": np.arange(100.0), "status": np.arange(100) % 2})
    rows.loc[:3, "status"], rows.loc[4:7, "days"] = 9, np.nan
    rows.to_csv("times.csv", index=False)
    assert main(["check", "--private", "times.csv", "--time", "days", "--event", "status=1", "--bins", "30,90"]) == 0
    shown = capsys.readouterr().out
    assert "4 have no declared code\n" in shown
    assert "4 have no time from 0 (4 missing or not a number, 0 negative)\n" in shown
    assert "after the last bin, 90.\n" in shown
    assert "stratum" not in shown


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--target status --classes 0,1", "--public or --declared-columns must be given"),
        ("--time days --event status=1 --bins 30,90 --classes 0,1", "--classes is not for a life table"),
        ("--time days --event status=1 --bins 30,90 --no-blanks", "--no-blanks is not for a life table"),
        ("--time days --event status=1 --bins 30,90 --strata arm=drug,placebo --public times.csv", "--strata is for"),
        ("--time days --event status=1 --bins 30,90 --strata arm=drug", "two or more different values"),
        ("--time days --event status=1", "give --target, or --time, --event and --bins"),
        ("--target status --classes 0,1 --strata arm=drug,placebo", "--time exclude each other"),
        ("--time weeks --event status=1 --bins 30,90", "not a column of the private table"),
    ],
)
def test_what_a_check_of_times_refuses_is_one_sentence(times, capsys, options, words):
    assert main(["check", "--private", "times.csv", *options.split()]) == 2
    errors = capsys.readouterr().err
    assert words in errors
    assert errors.count("\n") == 1


def test_times_with_public_rows_are_counted_apart_from_codes(times, capsys):
    rows = pd.DataFrame({"days": np.arange(100.0), "status": np.arange(100) % 2, "x": np.arange(100.0)})
    rows[["x"]].add(0.5).to_csv("public.csv", index=False)
    rows.loc[:9, "status"], rows.loc[95:, "days"] = 7, -1
    rows.to_csv("times.csv", index=False)
    line = "check --private times.csv --public public.csv --time days --event status=1 --bins 30,90"
    assert main(line.split()) == 0
    shown = capsys.readouterr().out
    assert "10 have no declared code: 10 % of all" in shown
    assert "5 have no time from 0 (0 missing or not a number, 5 negative): 5 % of all" in shown
    assert "15 of them are bad" in shown


def test_a_number_has_quantiles_and_mostly_unreadable_columns_a_loud_remark(folder, capsys):
    numbers = pd.DataFrame({"x": np.arange(300.0), "w": [f"{place} lb" for place in range(300)], "c": "a"})
    numbers["y"] = np.arange(300.0)
    numbers.assign(w=np.arange(300.0)).drop(columns="y").to_csv("public.csv", index=False)
    numbers.loc[:9, "x"] = np.nan
    numbers.to_csv("private.csv", index=False)
    line = "check --private private.csv --public public.csv --target y --range 0,299"
    assert main([*line.split(), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["quantiles"] == pytest.approx([14.95, 149.5, 284.05])
    assert main(line.split()) == 0
    shown = capsys.readouterr().out
    assert "5 % of the numbers are up to 14.95, half are up to 149.5, and 95 % are up to 284.05." in shown
    assert "w: 300 missing or unreadable, SO A MODEL CAN LEARN LITTLE FROM THE COLUMN: compare" in shown
    assert "x: 10 missing or unreadable\n" in shown
