"""``dpensemble lifetable``: what it writes, how rows are read, what is refused before the charge, and recovery."""

import csv
import json
import sqlite3
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpensemble import LifeTable
from dpensemble.cli import main
from dpensemble.releases import SumReleaser
from dpensemble.server import Ledger

from ..workbooks import write

RNG = np.random.default_rng(0)
N = 400
DIED, LEFT = RNG.exponential(400, N), RNG.uniform(100, 900, N)
ROWS = pd.DataFrame(
    {
        "pid": [f"p{place}" for place in range(N)],
        "days": np.minimum(DIED, LEFT).round(1),
        "status": (DIED <= LEFT) * RNG.integers(1, 3, N),
        "arm": RNG.choice(["drug", "placebo"], N),
    }
)
BINS = [90.0, 180.0, 365.0, 540.0]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPENSEMBLE_STATE_HOME", str(tmp_path / "state"))
    ROWS.to_csv("p.csv", index=False)
    return tmp_path


def command(*more, private=("p.csv",), event="status=1,2", out="run"):
    files = [part for one in private for part in ("--private", one)]
    line = ["lifetable", *files, "--time", "days", "--event", event, "--bins", "90,180,365,540", "--out", out]
    return [*line, "--epsilon", "3", "--delta", "1e-3", "--quiet", *more]


def sum_of(folder, out="run"):
    return np.array(json.loads((folder / out / "run.json").read_text())["data"]["life_table"]["sum"])


SEEDED = ("--insecure-release-seed", "1")
STRATA = ("--strata", "arm=drug,placebo")


def test_the_command_releases_what_python_releases(folder, capsys):
    assert main(command(*SEEDED, *STRATA, "--json")) == 0
    shown = json.loads(capsys.readouterr().out)
    table = LifeTable(
        BINS,
        events=[1, 2],
        strata={"arm": ["drug", "placebo"]},
        epsilon=3.0,
        delta=1e-3,
        insecure_release_seed=1,
    ).fit(ROWS["days"], ROWS["status"], strata=ROWS)
    assert (sum_of(folder) == table.life_table_.noisy).all()
    assert shown["data"]["life_table"]["curves"] == table.life_table_.to_dict()["curves"]
    assert shown["guarantee"]["epsilon"] == table.guarantee_.epsilon
    assert "student" not in str(table.result_)
    assert "5 bins" not in str(table.result_)
    assert "4 bins and 2 curves" in str(table.result_)
    assert "1 noisy sum," in str(table.result_)


def test_a_release_has_page_card_table_and_a_certificate_that_is_confirmed(folder, capsys):
    assert main(command(*STRATA, "--time-unit", "days", "--unit", "pid", "--unit-name", "patient")) == 0
    printed = capsys.readouterr().out
    assert sorted(one.name for one in (folder / "run").iterdir()) == [
        *("card.json", "card.md", "certificate.json", "life-table.csv", "report.html", "run.json")
    ]
    assert (folder / "run" / "run.json").stat().st_mode & 0o077 == 0
    for words in ("arm=drug: free of the event", "Log-rank test", "95% bands", "dpensemble verify"):
        assert words in printed
    assert "predict" not in printed
    assert main(["verify", "run"]) == 0
    page = (folder / "run" / "report.html").read_text()
    for words in ("Released number at risk", "400 private patients", "What must not be concluded", "95% bands"):
        assert words in page
    assert "student" not in page
    card = json.loads((folder / "run" / "card.json").read_text())
    assert card["for_release"]
    assert len(card["life_table"]["curves"]) == 2
    text = (folder / "run" / "card.md").read_text()
    assert text.startswith("---\nlibrary_name")
    assert "tabular-classification" not in text
    with (folder / "run" / "life-table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["stratum"] for row in rows} == {"arm=drug", "arm=placebo"}
    assert "for_release" not in rows[0]
    capsys.readouterr()
    assert main(["report", "run", "--title", "Two arms", "--json"]) == 0
    assert "<h1>Two arms</h1>" in (folder / "run" / "report.html").read_text()


def test_a_seeded_release_is_marked_in_every_file(folder, capsys):
    assert main(command(*SEEDED)) == 0
    assert "Experiment" in capsys.readouterr().out
    assert "EXPERIMENT" in (folder / "run" / "report.html").read_text()
    assert (folder / "run" / "life-table.csv").read_text().splitlines()[1].endswith(",false")
    assert main(["verify", "run"]) == 1


class _Open(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)


def test_names_cannot_inject_markup_and_add_or_remove_publishes_no_number(folder):
    odd = ROWS.rename(columns={"status": "<img src=x>"}).assign(arm=np.where(ROWS["arm"] == "drug", "<b>&", "b"))
    odd.to_csv("p.csv", index=False)
    line = command(
        "--strata", "arm=<b>&,b", "--relation", "add-or-remove-one", "--unit", "pid", event="<img src=x>=1,2"
    )
    assert main([*line, *SEEDED]) == 0
    page = (folder / "run" / "report.html").read_text()
    parser = _Open()
    parser.feed(page)
    assert not {"img", "b"} & (set(parser.tags) - {"b"} if "<b>&" not in page else set(parser.tags))
    assert "400 private" not in page
    assert "number of private people is not published" in page.replace("persons", "people")
    record = json.loads((folder / "run" / "run.json").read_text())
    assert "readable_share" not in record["data"]


def written_as(folder, kind):  # noqa: PLR0911  one way of writing each
    rows = ROWS.copy()
    if kind == "decimal commas":
        rows["days"] = [str(one).replace(".", ",") for one in rows["days"]]
        rows.to_csv("p.csv", index=False, sep=";")
        return ["p.csv"], ["--decimal", ",", "--sep", ";"]
    if kind == "a declared example":
        rows["days"] = [str(one).replace(".", ",") for one in rows["days"]]
        rows.to_csv("p.csv", index=False)
        return ["p.csv"], ["--column", "days=number:1.234,5"]
    if kind == "parquet":
        rows.to_parquet("p.parquet")
        return ["p.parquet"], []
    if kind == "a folder":
        (folder / "parts").mkdir()
        rows[:100].to_parquet("parts/1.parquet")
        rows[100:].to_parquet("parts/2.parquet")
        return ["parts"], []
    if kind == "several files":
        rows[:100].to_csv("p.csv", index=False)
        rows[100:].to_csv("q.csv", index=False)
        return ["p.csv", "q.csv"], []
    if kind == "a workbook":
        lines = [[pid, float(days), int(status), arm] for pid, days, status, arm in rows.itertuples(index=False)]
        write(folder / "p.xlsx", ["pid", "days", "status", "arm"], *lines)
        return ["p.xlsx"], []
    if kind == "other columns and capitals":
        rows.assign(remark="x", arm=rows["arm"].str.upper(), status=rows["status"].astype(float)).to_csv("p.csv")
        return ["p.csv"], []

    return ["p.csv"], ["--unit", "pid"]


KINDS = ["decimal commas", "a declared example", "parquet", "a folder", "several files", "a workbook"]


@pytest.mark.parametrize("kind", [*KINDS, "other columns and capitals", "units of one row"])
def test_rows_are_the_same_however_they_are_written(folder, kind):
    strata = {"arm": ["drug", "placebo"]}
    table = LifeTable(BINS, events=[1, 2], strata=strata, epsilon=3.0, delta=1e-3, insecure_release_seed=1)
    usual = table.fit(ROWS["days"], ROWS["status"], strata=ROWS).life_table_.noisy
    private, more = written_as(folder, kind)
    assert main(command(*SEEDED, *STRATA, *more, private=private)) == 0
    assert (sum_of(folder) == usual).all()


def in_parts(table, folder="parts"):
    """Write a table as one file of Parquet, in Arrow and in parts, between which records of a person are divided."""
    Path(folder).mkdir()
    for place, rows in enumerate(np.array_split(np.arange(len(table)), 3)):
        table.iloc[rows].to_parquet(f"{folder}/{place}.parquet", index=False)
    table.to_parquet(f"{folder}.parquet", index=False)
    table.to_feather(f"{folder}.arrow")


@pytest.mark.parametrize("written", ["as numbers", "as texts"])
def test_people_in_blocks_in_parts_and_in_streams_have_the_table_of_those_in_memory(folder, capsys, written):
    people = ROWS.assign(pid=[f"p{place % 150}" for place in range(N)]).sample(frac=1, random_state=1)
    people = people.reset_index(drop=True)
    people.loc[::11, "arm"] = None
    people.loc[3::11, "days"] = -2.0
    more = [*SEEDED, *STRATA, "--unit", "pid"]
    if written == "as texts":
        texts = people["days"].map(lambda days: f"{days:,.1f}".replace(",", ";").replace(".", ",").replace(";", "."))
        people = people.assign(days=texts, status=people["status"].map({0: "left", 1: "died", 2: " Died "}))
        people.loc[5, "days"] = "soon"
        more += ["--column", "days=number:1.234,5", "--censored", "left"]
    in_parts(people)
    event = "status=1,2" if written == "as numbers" else "status=died"
    private = {"memory": "parts.parquet", "blocks": "parts", "parts": "parts", "stream": "parts.arrow"}
    for out, one in private.items():
        jobs = ["--jobs", "1"] if out == "parts" else []
        assert main(command(*more, *jobs, private=[one], event=event, out=out)) == 0, capsys.readouterr().err
    assert np.abs(sum_of(folder, "memory")).max() > 10
    assert [out for out in private if (sum_of(folder, out) != sum_of(folder, "memory")).any()] == []
    data = [json.loads((folder / out / "run.json").read_text())["data"] for out in private]
    assert [one.pop("name") for one in data] == [*private.values()]
    assert [one for one in data if one != data[0]] == []


@pytest.mark.parametrize("name", ["lifetable", "train"])
def test_a_database_gives_the_numbers_of_a_file(folder, capsys, name):
    pytest.importorskip("adbc_driver_sqlite")
    people = ROWS.assign(pid=[f"p{place % 150}" for place in range(N)], age=np.arange(N) % 71)
    people.to_csv("people.csv", index=False)
    with sqlite3.connect("clinic.db") as connection:
        people.to_sql("visits", connection, index=False)
    connection.close()
    people[["age", "arm"]].sample(60, random_state=0).to_csv("public.csv", index=False)
    more = [*SEEDED, "--unit", "pid", *(["--public", "public.csv"] if name == "train" else STRATA)]
    found = []
    for place, private in enumerate(("people.csv", "sqlite:clinic.db:visits")):
        given = [name, *command(*more, private=[private], out=f"run-{place}")[1:]]
        assert main(given) == 0, capsys.readouterr().err
        file = "labels.csv" if name == "train" else "life-table.csv"
        found.append((folder / f"run-{place}" / file).read_text(encoding="utf-8"))
    assert found[0] == found[1]
    assert main([name, *command(*more, private=["sqlite:clinic.db:nobody"], out="no")[1:]]) == 2


def test_bad_rows_of_parts_change_no_message(folder, capsys):
    """Another table, in which nothing of one person can be read, ends in the same way and prints the same."""
    printed = []
    for out, bad in (("one", 4.0), ("two", np.nan)):
        in_parts(ROWS.assign(days=ROWS["days"].mask(ROWS.index == 7, bad)), out)
        assert main(command("--jobs", "1", "--unit", "pid", private=[out], out=f"run-{out}")) == 0
        assert main(command("--bins", "90,540", "--at", "7", private=[out], out="no")) == 2
        printed.append(capsys.readouterr().err.replace(out, ""))
    assert printed[0] == printed[1]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--strata", "sex=f,m"], "strata='sex' is not a column of the private table"),
        (["--unit", "person"], "unit='person' is not a column of the private table"),
        (["--cluster", "dask"], "--cluster dask requires the address of a scheduler"),
        (["--cluster", "dask", "--jobs", "2"], "leave jobs out"),
        (["--cluster", "hadoop"], "'hadoop' is not one of"),
        (["--jobs", "0"], "jobs=0 is not a number of workers"),
    ],
)
def test_what_parts_cannot_be_used_for_is_refused_before_the_charge(folder, capsys, monkeypatch, more, words):
    monkeypatch.setattr(SumReleaser, "charge_and_draw", lambda *_, **__: pytest.fail("charged"))
    in_parts(ROWS)
    assert main(command(*more, private=["parts"])) == 2
    assert words in capsys.readouterr().err
    assert not (folder / "run").exists()


def test_competing_events_have_incidences_that_add_up(folder):
    assert main(command(*SEEDED, "--competing", "2", event="status=1")) == 0
    table = json.loads((folder / "run" / "run.json").read_text())["data"]["life_table"]
    (curve,) = table["curves"]
    first, second = (np.array(kind["chance"]) for kind in curve["incidence"])
    assert np.allclose(first + second, 1 - np.array(curve["survival"]), atol=0.02)
    page = (folder / "run" / "report.html").read_text()
    assert "Chance of each kind of event" in page
    assert "free of any event" in page
    # The first screen is about the event of interest.
    chance = f"{100 * first[-1]:.1f}%"
    assert "Had “status is 1” by" in page
    assert chance in page[: page.index("What must not be concluded")]
    assert "incidence 2 chance" in (folder / "run" / "life-table.csv").read_text()


def test_what_no_curve_can_be_made_of_is_stated_and_not_a_failure(folder, capsys):
    # Dates in a text file are bad records, whose released share shows this.
    ROWS.assign(days="2024-02-01").to_csv("p.csv", index=False)
    assert main(command(*STRATA)) == 0
    printed = capsys.readouterr().out
    assert "not shown at all" in printed
    assert "a time must be a number, not a date" in printed
    assert "not shown at all" in (folder / "run" / "report.html").read_text()
    assert (folder / "run" / "life-table.csv").read_text().startswith("stratum,time,")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--bins", "90"], "has 1 entries"),
        (["--bins", "90,30"], "must ascend"),
        (["--bins", "90,90"], "must ascend"),
        (["--bins", "-1,90"], "the first bin begins at 0"),
        (["--bins", "30d,12m"], "all in the one unit"),
        (["--bins", "30,inf"], "must be numbers"),
        (["--bins", ""], "must be numbers"),
        (["--event", "status"], "must be COLUMN=VALUE"),
        (["--event", "status="], "must be COLUMN=VALUE"),
        (["--event", "status=0"], "must not share a code"),
        (["--censored", "1"], "must not share a code"),
        (["--competing", "2"], "must not share a code"),
        (["--competing", "3,4,5,6,7,8"], "at most 5"),
        (["--strata", "arm"], "must be COLUMN=VALUE"),
        (["--strata", "arm=drug"], "two or more"),
        (["--strata", "arm=a,b", "--strata", "arm=c,d"], "twice"),
        (["--strata", "arm=1,2,3,4,5,6,7,8,9,10,11", "--strata", "sex=f,m"], "22 strata"),
        (["--strata", "days=a,b"], "column of time, too"),
        (["--unit", "status"], "column of event, too"),
        (["--time", "start"], "left truncation"),
        (["--entry", "start"], "left truncation"),
        (["--strata", "sex=f,m"], "not a column of the private table"),
        (["--at", "45"], "must be ends of bins"),
        (["--at", "soon"], "must be numbers"),
        (["--time-unit", "d4"], "must be a word"),
        (["--column", "days=date:%Y-%m-%d"], "only as a number"),
        (["--column", "arm=category"], "only the time can be declared"),
        (["--blank", "sex=x"], "which no option names"),
        (["--unit-name", "patient"], "requires a unit column"),
        (["--ledger", "l.db"], "go together"),
        (["--private", "p.csv"], "names one file twice"),
        (["--private", "postgresql://host/name"], "several private tables must be files"),
        (["--epsilon", "-1"], "epsilon=-1"),
        (["--delta", "2"], "delta=2"),
        (["--delta", "0.9"], "delta"),
        (["--relation", "none"], "relation"),
    ],
)
def test_what_declarations_show_is_refused_in_one_sentence_before_the_charge(folder, capsys, monkeypatch, more, words):
    monkeypatch.setattr(SumReleaser, "charge_and_draw", lambda *_, **__: pytest.fail("charged"))
    assert main(command(*more)) == 2
    shown = capsys.readouterr()
    assert words in shown.err
    # The header has a column of people. A note about that is no refusal.
    lines = [line for line in shown.err.splitlines() if "dpensemble: note:" not in line]
    assert len(lines) == 1
    assert not shown.out
    assert sorted(one.name for one in folder.iterdir()) in (["p.csv"], ["p.csv", "state"])


def test_dates_by_the_type_of_a_column_are_refused(folder, capsys):
    ROWS.assign(days=pd.Timestamp("2024-02-01")).to_parquet("p.parquet")
    assert main(command(private=["p.parquet"])) == 2
    assert "holds dates or durations: write numbers" in capsys.readouterr().err


def test_a_run_is_finished_without_a_second_charge(folder, capsys, monkeypatch):
    ledger = Ledger.create(folder / "ledger.db")
    account = ledger.open_account("people", epsilon=9.0, delta=1e-2)
    own = ["--ledger", "ledger.db", "--data-set", "people"]
    with monkeypatch.context() as patched:
        patched.setattr("dpensemble.cli.train.write_outcome", lambda *_: 1 / 0)
        assert main(command(*own)) == 1
    errors = capsys.readouterr().err
    assert "finishes the run from what it has drawn" in errors
    spent = account.state().spent
    assert spent
    assert main(["recover", "run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["placed"]
    assert account.state().spent == spent
    first = sum_of(folder)
    assert main(["verify", "run"]) == 0
    assert json.loads((folder / "run" / "run.json").read_text())["data"]["ledger"]
    # Another run draws other noise.
    assert main(command(*own, out="other")) == 0
    assert (sum_of(folder, "other") != first).any()
    assert account.state().spent != spent


def test_a_ledger_that_does_not_allow_it_leaves_nothing(folder, capsys):
    Ledger.create(folder / "ledger.db").open_account("people", epsilon=1.0, delta=1e-2)
    assert main(command("--ledger", "ledger.db", "--data-set", "people")) == 2
    assert "people" in capsys.readouterr().err
    assert not (folder / "run").exists()


@pytest.mark.parametrize("step", ["dpensemble.workflow.outputs.render", "dpensemble.workflow.life_tables.run_record"])
def test_what_can_fail_later_fails_before_the_charge(folder, capsys, monkeypatch, step):
    Ledger.create(folder / "ledger.db").open_account("people", epsilon=9.0, delta=1e-2)
    monkeypatch.setattr(step, lambda *_, **__: 1 / 0)
    assert main(command("--ledger", "ledger.db", "--data-set", "people")) == 1
    assert "nothing was written" in capsys.readouterr().err
    assert not Ledger(folder / "ledger.db").account("people").state().spent.loss


def test_an_earlier_run_is_replaced_only_on_request(folder, capsys):
    assert main(command()) == 0
    first = sum_of(folder)
    assert main(command()) == 2
    assert "holds files of an earlier run" in capsys.readouterr().err
    assert main(command("--overwrite", "--log-json", "log.jsonl")) == 0
    assert (sum_of(folder) != first).any()
    events = [json.loads(line)["event"] for line in (folder / "log.jsonl").read_text().splitlines()]
    assert events[0] == "run begins"
    assert {"tables read", "budget spent", "release placed", "run ends"} <= set(events)


def test_a_note_says_that_a_column_names_people_if_no_unit_is_given(folder, capsys):
    assert main(command(*SEEDED)) == 0
    assert "Several rows of a person would count as several people" in capsys.readouterr().err
    (note,) = json.loads((folder / "run" / "run.json").read_text())["data"]["notes"]
    assert "pid" not in note
    ROWS.to_parquet("p.parquet")
    assert main(command(*SEEDED, private=("p.parquet",), out="of-parquet")) == 0
    assert "Several rows of a person" in capsys.readouterr().err
    assert main(command(*SEEDED, "--unit", "pid", out="with-unit")) == 0
    ROWS.drop(columns="pid").to_csv("p.csv", index=False)
    assert main(command(*SEEDED, out="without-people")) == 0
    assert "Several rows" not in capsys.readouterr().err
