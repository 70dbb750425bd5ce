"""Risks by a time on the command line: ``train --time --event --bins``, and what other commands make of the run."""

import json
import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from dpensemble import LabelMomentsSurvival, load_classifier
from dpensemble._random import Stream, seed_sequence
from dpensemble.cli import main
from dpensemble.errors import NotForReleaseWarning
from dpensemble.quality.times import NoisyTimes, TimesLayout
from dpensemble.releases import SumReleaser
from dpensemble.server import Ledger
from dpensemble.workflow import scoring

from ..workbooks import write

N = 400
RNG = np.random.default_rng(5)
ROWS = pd.DataFrame({"age": RNG.normal(60, 10, N + 160).round(), "town": RNG.choice(["a", "b"], N + 160)})
HAZARD = np.exp(0.06 * (ROWS["age"] - 60) + 0.6 * (ROWS["town"] == "a"))
DIED, LEFT = RNG.exponential(400 / HAZARD), RNG.uniform(100, 900, N + 160)
ROWS["pid"] = [f"p{place // 2}" for place in range(N + 160)]
ROWS["days"], ROWS["status"] = np.minimum(DIED, LEFT).round(1), (DIED <= LEFT).astype(int)
PRIVATE = ROWS[:N].drop(columns="pid")
PUBLIC = ROWS[N : N + 80][["age", "town"]]
BINS = [90.0, 180.0, 365.0, 540.0]
FILES = "train --private private.csv --public public.csv"
TIMES = "--time days --event status=1 --bins 90,180,365,540"
RUN = f"{FILES} {TIMES} --epsilon 5 --delta 1e-4 --quiet"
SEEDED = ("--insecure-release-seed", "3")

pytestmark = pytest.mark.filterwarnings("ignore:public rows do not look:UserWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write tables, and train once."""
    place = tmp_path_factory.mktemp("risks")
    PRIVATE.to_csv(place / "private.csv", index=False)
    ROWS[:N].to_csv(place / "people.csv", index=False)
    PUBLIC.to_csv(place / "public.csv", index=False)
    ROWS[N + 80 :].to_csv(place / "new.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        assert main([*RUN.split(), "--time-unit", "days", "--at", "90,540", "--out", "run"]) == 0
    return place


@pytest.fixture
def said(folder, monkeypatch, capsys):
    """Return a function that runs a command there, and returns its exit code and what it printed."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("DPENSEMBLE_STATE_HOME", str(folder / "state"))

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
    assert record["method"] == "label-moments-survival"
    facts = record["data"]["risk"]
    assert (facts["bins"], facts["at"], facts["what"]) == (BINS, [90.0, 540.0], "status is 1")
    rows = facts["public"]
    assert all(low < middle < high for low, middle, high in zip(rows["low"], rows["median"], rows["high"], strict=True))
    labels = pd.read_csv(folder / "run" / "labels.csv")
    assert list(labels) == ["row", "risk by 90", "risk by 180", "risk by 365", "risk by 540"]
    assert len(labels) == 80
    np.testing.assert_allclose(labels.drop(columns="row").mean(), rows["mean"])
    assert (np.diff(labels.drop(columns="row"), axis=1) >= 0).all()


def test_page_card_and_terminal_state_what_is_known_and_what_nobody_measured(said, folder):
    code, out, _ = said("report run --out page.html")
    assert code == 0
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert "<h1>Time until status is 1</h1>" in page
    for text in ("What it gives", "Everybody together", "Released number at risk", "without their times", "540 days"):
        assert text in page
    first = page.split("What was released")[0]
    for text in (out, page, (folder / "run" / "card.md").read_text(encoding="utf-8")):
        assert re.search("[Nn]obody measured how well (these )?risks order people", text)
    for text in ("AUROC", "labels", "number “"):
        assert text not in first
    # Lines of three public rows have colours.
    assert page.count('class="line group-') == 3
    assert ".line.group-3" in page
    card = json.loads((folder / "run" / "card.json").read_text(encoding="utf-8"))
    assert (card["model"]["bins"], card["model"]["predicts"]) == (BINS, "the risk that status is 1")
    assert "tabular-regression" in (folder / "run" / "card.md").read_text(encoding="utf-8")
    assert "By 540 days:" in out
    assert "By 180 days:" not in out


def test_predict_gives_the_risks_of_the_student(said, folder):
    code, _, err = said("predict run new.csv --at 45,540,0 --keep pid --out risks.csv")
    assert (code, err) == (0, "")
    table = pd.read_csv(folder / "risks.csv")
    assert list(table) == ["row", "pid", "risk by 45", "risk by 540", "risk by 0"]
    student, rows = load_classifier(folder / "run" / "student.skops"), ROWS[N + 80 :].reset_index(drop=True)
    expected = student.predict_risk(rows, [45.0, 540.0, 0.0])
    np.testing.assert_allclose(table[["risk by 45", "risk by 540", "risk by 0"]], expected)
    assert (table["risk by 0"] == 0).all()
    shown = json.loads(said("predict run new.csv --json")[1])
    assert list(shown[0]) == ["row", "risk by 90", "risk by 180", "risk by 365", "risk by 540"]
    # Of two people, the one whose event comes first has the higher risk.
    later = np.argsort(table["risk by 540"])
    assert ROWS["days"][N + 80 :].to_numpy()[later[:20]].mean() > ROWS["days"][N + 80 :].to_numpy()[later[-20:]].mean()


def test_risks_are_explained_and_the_page_shows_what_moves_them(said, folder):
    code, _, err = said("predict run new.csv --explain --explain-plot row.svg --out reasons.csv")
    assert (code, err) == (0, "")
    table = pd.read_csv(folder / "reasons.csv")
    names = ["base", "contribution of age", "contribution of town"]
    np.testing.assert_allclose(table[names].sum(axis=1), table["explained log hazard"])
    # Without competing events, a risk is one less the survival, whose logarithm is proportional to the hazard.
    hazard = -np.log1p(-table["risk by 540"])
    explained = table["explained log hazard"]
    np.testing.assert_allclose(np.log(hazard / hazard[0]), explained - explained[0], atol=1e-3)
    drawn = (folder / "row.svg").read_text(encoding="utf-8")
    assert "come sooner and later" in drawn
    assert re.search(r"This row: −?[0-9.]+ \(hazard [×÷][0-9.]+\)", drawn)
    effects = {one["column"]: one for one in json.loads((folder / "run" / "run.json").read_text())["effects"]}
    ages, towns = effects["age"]["points"], {name: value for name, (value,) in effects["town"]["points"]}
    assert {one["output"] for one in effects.values()} == {"log hazard"}
    assert ages[0][1][0] < 0 < ages[-1][1][0]
    assert towns["b"] < 0 < towns["a"]
    assert "What pushes which way" in (folder / "run" / "report.html").read_text()


def written_in_parts(folder, *, dates=False):
    """Write the people in Parquet, in parts between which a person's records are divided, and in Arrow."""
    people = ROWS[:N].sample(frac=1, random_state=0).reset_index(drop=True)
    if dates:
        people["days"] = pd.Timestamp("2026-01-01")
    folder.mkdir()
    for place, rows in enumerate(np.array_split(np.arange(N), 3)):
        people.iloc[rows].to_parquet(folder / f"{place}.parquet", index=False)
    people.to_feather(folder.with_suffix(".arrow"))
    return people


def test_people_in_blocks_in_parts_and_in_streams_have_the_risks_of_those_in_memory(said, folder):
    written_in_parts(folder / "parts")
    run = f"train --public public.csv {TIMES} --unit pid --epsilon 5 --delta 1e-4 --quiet"
    private = {"memory": "people.csv", "blocks": "parts", "parts": "parts --jobs 1", "stream": "parts.arrow"}
    for name, given in private.items():
        code, _, err = said(f"{run} --private {given} --out by-{name}", *SEEDED)
        assert code == 0, err
    tables = {name: (folder / f"by-{name}" / "labels.csv").read_text(encoding="utf-8") for name in private}
    assert len(set(tables.values())) == 1, [name for name in tables if tables[name] != tables["memory"]]
    assert json.loads((folder / "by-parts" / "run.json").read_text(encoding="utf-8"))["data"]["private_units"] == 200


def test_dates_in_parts_are_refused_by_the_type_of_the_column(said, folder):
    written_in_parts(folder / "dated", dates=True)
    for given in ("dated", "dated --jobs 1", "dated.arrow"):
        code, out, err = said(f"train --public public.csv {TIMES} --unit pid --quiet --private {given} --out dates")
        assert (code, out, (folder / "dates").exists()) == (2, "", False)
        assert "holds dates or durations: write numbers" in err


@pytest.mark.parametrize("whose", ["records", "people"])
def test_the_command_releases_what_python_releases(said, folder, whose):
    more = ("--unit", "pid", "--relation", "add-or-remove-one") if whose == "people" else ()
    line = RUN.replace("private.csv", "people.csv" if more else "private.csv")
    assert said(line, *SEEDED, *more, "--out", whose)[0] == 0
    model = LabelMomentsSurvival(BINS, epsilon=5, delta=1e-4, insecure_release_seed=3)
    model.set_params(relation="add-or-remove-one" if more else "replace-one")
    units = ROWS["pid"][:N].to_numpy() if more else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(PRIVATE[["age", "town"]], PRIVATE[["status", "days"]], X_public=PUBLIC, units=units)
    labels = pd.read_csv(folder / whose / "labels.csv")
    risks = labels[[f"risk by {time:g}" for time in BINS]]
    np.testing.assert_allclose(risks, model.predict_risk(PUBLIC, t=BINS), rtol=1e-12)
    assert labels["for_release"].eq(False).all()
    assert "EXPERIMENT" in (folder / whose / "report.html").read_text(encoding="utf-8")
    # Under add-or-remove-one the number of people is private.
    assert ("400" in (folder / whose / "card.md").read_text(encoding="utf-8")) == (not more)


def test_competing_events_have_a_chance_of_their_own(said, folder):
    # Some censorings were deaths.
    died = PRIVATE.assign(status=np.where((PRIVATE["status"] == 0) & (RNG.uniform(size=N) < 0.7), 2, PRIVATE["status"]))
    died.to_csv(folder / "died.csv", index=False)
    line = RUN.replace("private.csv", "died.csv")
    assert said(line, *SEEDED, "--competing", "2", "--out", "died")[0] == 0
    assert said(line, *SEEDED, "--censored", "0,2", "--out", "trap")[0] == 0
    right, trap = (pd.read_csv(folder / out / "labels.csv")["risk by 540"].mean() for out in ("died", "trap"))
    assert right < trap - 0.05
    page = (folder / "died" / "report.html").read_text(encoding="utf-8")
    for words in ("Chance of each kind of event", "comes, and before any other", "free of any event"):
        assert words in page
        assert words not in (folder / "trap" / "report.html").read_text(encoding="utf-8")
    table = json.loads((folder / "died" / "run.json").read_text(encoding="utf-8"))["data"]["risk"]
    assert table["public"]["mean"][-1] == pytest.approx(table["curves"][0]["incidence"][0]["chance"][-1], abs=0.03)
    assert said("verify trap")[0] == 1
    model = LabelMomentsSurvival(BINS, competing=[2], epsilon=5, delta=1e-4, insecure_release_seed=3)
    model.fit(died[["age", "town"]], died[["status", "days"]], X_public=PUBLIC)
    with pytest.warns(NotForReleaseWarning):
        student = load_classifier(folder / "died" / "student.skops")
    np.testing.assert_array_equal(
        student.predict_risk(PUBLIC, [45.0, 400.0]), model.predict_risk(PUBLIC, [45.0, 400.0])
    )
    assert json.loads(said(f"check --private died.csv --public public.csv {TIMES} --competing 2 --json")[1])["bad"] == 0


def test_what_noise_hides_is_stated_and_no_failure(said, folder):
    # Dates in a text file are bad records, and no curve is left.
    PRIVATE.assign(days="2024-02-01").to_csv(folder / "dates.csv", index=False)
    for more in ((), ("--competing", "2")):
        line = RUN.replace("private.csv", "dates.csv").replace("--epsilon 5", "--epsilon 0.5")
        code, out, err = said(line, *SEEDED, *more, "--out", "hidden", "--overwrite")
        assert code == 0, err
        assert "noise hides how many of all had the event" in out
        assert "a time must be a number, not a date" in out
        page = (folder / "hidden" / "report.html").read_text(encoding="utf-8")
        assert "hidden by noise" in page
        assert "is not shown at all" in page
        assert ("comes, and before any other" in page) == bool(more)


def commas(table):
    return table.assign(days=[str(one).replace(".", ",") for one in table["days"]])


WRITTEN = {
    "decimal commas": (lambda folder: commas(PRIVATE).to_csv(folder / "w.csv", index=False, sep=";"), "w.csv"),
    "a declared example": (lambda folder: commas(PRIVATE).to_csv(folder / "e.csv", index=False), "e.csv"),
    "parquet": (lambda folder: PRIVATE.to_parquet(folder / "w.parquet"), "w.parquet"),
    "a workbook": (
        lambda folder: write(folder / "w.xlsx", list(PRIVATE), *PRIVATE.astype(object).to_numpy().tolist()),
        "w.xlsx",
    ),
    "codes as truth values": (
        lambda folder: PRIVATE.assign(status=PRIVATE["status"] == 1).to_csv(folder / "t.csv", index=False),
        "t.csv",
    ),
}


@pytest.mark.parametrize("kind", WRITTEN)
def test_times_are_the_same_however_they_are_written(said, folder, kind):
    make, name = WRITTEN[kind]
    make(folder)
    more = {"a declared example": ("--column", "days=number:1.234,5"), "decimal commas": ("--decimal", ",")}
    line = RUN.replace("private.csv", name)
    if kind == "decimal commas":
        PUBLIC.to_csv(folder / "semicolons.csv", index=False, sep=";")
        line = line.replace("public.csv", "semicolons.csv")
    out = kind.replace(" ", "-")
    code, _, err = said(line, *SEEDED, *more.get(kind, ()), "--out", out)
    assert code == 0, err
    if not (folder / "usual").exists():
        assert said(RUN, *SEEDED, "--out", "usual")[0] == 0
    assert (folder / out / "labels.csv").read_bytes() == (folder / "usual" / "labels.csv").read_bytes()


# Records that add nothing, as days and status.
BAD = [
    *(("", "1"), ("-3", "1"), ("abc", "0"), ("inf", "1"), ("nan", "0"), ("1e400", "1"), ("2024-02-01", "1")),
    *(("1,5", "1"), ("=1+1", "0"), ("$30", "1"), ("30", ""), ("30", "7"), ("30", "dead"), ("30", "1.5"), ("", "")),
]
# Records that may add something, as age, town, days and status.
ODD = [("inf", "a", "30", "1"), ("", "", "30", "1"), ("old", "new town", "0", "0"), ("60", "a", "99999", "1")]


def seen(said, folder, record, out):
    """Return what others see of a run with another fourth record, and what it released."""
    lines = PRIVATE.to_csv(index=False).splitlines()
    lines[4] = ",".join(record)
    (folder / "odd.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "log.jsonl").unlink(missing_ok=True)
    line = RUN.replace("private.csv", "odd.csv")
    code, printed, err = said(line, *SEEDED, "--out", out, "--overwrite", "--log-json", "log.jsonl")
    events = [json.loads(event) for event in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    logged = [{name: value for name, value in one.items() if name not in ("time", "seconds")} for one in events]
    files = sorted(path.name for path in (folder / out).iterdir())
    return (code, re.sub(r"[\d.,]+", "#", printed), err, logged, files), (folder / out / "labels.csv").read_bytes()


@pytest.mark.parametrize("step", [5, 1], ids=["some", "all"])
def test_no_record_shows_in_exit_codes_outputs_and_logs(said, folder, monkeypatch, step):
    # No rehearsal reads private records.
    monkeypatch.setattr("dpensemble.cli.train.rehearse", lambda *_: None)
    usual, released = seen(said, folder, ("60", "a", "30", "1"), "neighbour")
    assert usual[0] == 0
    zeros = {}
    for days, status in BAD[::step]:
        record = ("60", "a", f'"{days}"', status)
        shown, zeros[record] = seen(said, folder, record, "neighbour")
        assert shown == usual, record
    # All of them add zeros, so their releases are one.
    assert len(set(zeros.values())) == 1
    assert released not in zeros.values()
    for record in ODD[::step]:
        assert seen(said, folder, record, "neighbour")[0] == usual, record


def test_check_counts_records_without_a_code_or_a_time(said, folder):
    odd = PRIVATE.astype(object)
    odd.loc[: len(BAD) - 1, ["days", "status"]] = BAD
    odd.to_csv(folder / "bad.csv", index=False)
    line = f"check --private bad.csv --public public.csv {TIMES}"
    counts = json.loads(said(line, "--json")[1])
    assert (counts["without_class"], counts["bad"], counts["classes"]) == (len(BAD), len(BAD), [])
    assert counts["columns"]["days"] == "the time, plain numbers"
    assert counts["columns"]["status"] == "codes: event 1; censored 0"
    out = said(line)[1]
    codes = int(re.search(r"(\d+) have no declared code", out).group(1))
    times = int(re.search(r"(\d+) have no time from 0 \(", out).group(1))
    # A record may lack both.
    assert max(codes, times) < len(BAD) <= codes + times
    out = said(line.replace("status=1", "status=8"), "--censored", "9")[1]
    assert "Every record is bad: compare --event, --time" in out
    assert "is blank or has other codes than --event, --censored and --competing declare" in out
    for wrong in (line.replace("--bins 90,180,365,540", ""), f"{line} --target status"):
        code, _, err = said(wrong)
        assert (code, err.count("\n")) == (2, 1)
        assert "give --target, or --time, --event and --bins in place of it.\n" in err


REFUSED = {
    "--bins 90": "has 1 entries",
    "--bins 180,90": "must ascend",
    "--bins 30d": "all in the one unit",
    "--event status": "must be COLUMN=VALUE",
    "--event status=0": "must not share a code",
    "--censored 1": "must not share a code",
    "--competing 0": "must not share a code",
    "--competing 3,4,5,6,7,8": "at most 5",
    "--at 45": "must be ends of bins",
    "--at soon": "must be numbers",
    "--time-unit d4": "must be a word",
    "--time age": "lacks: 'days'; drop them",
    "--event town=a --censored b": "lacks: 'status'; drop them",
    "--time status": "time='status' is also the event",
    "--time hours": "time='hours' is not a column of the private table",
    "--event left=1": "event='left' is not a column of the private table",
    "--unit days": "unit='days' is also the time",
    "--unit status": "unit='status' is also the event",
    "--drop days": "drop='days' is also the time",
    "--drop status": "drop='status' is also the event",
    "--column days=date:%d.%m.%Y": "but a time is a number",
    "--unit-name patient": "requires a unit column",
    "--ledger l.db": "go together",
    "--private private.csv": "names one file twice",
    "--private postgresql://host/name": "several private tables must be files",
    "--epsilon -1": "epsilon=-1",
    "--delta 0.9": "delta",
    "--range 0,9": "--range has no meaning for times",
    "--classes 0,1": "--classes has no meaning for times",
    "--target status": "--target has no meaning for times",
    "--test new.csv": "--test has no meaning for times",
    "--test-is-public": "--test-is-public has no meaning for times",
    "--on-bad-record raise": "--on-bad-record has no meaning for times",
    "--holdout-score 0.2 --relation add-or-remove-one": "requires relation='replace-one'",
    "--holdout-score 0.06": "24 held-back units are too few for 21 cells",
    "--holdout-score 0.7": "holdout_score=0.7",
    "--cost-false-negative 3": "--cost-false-negative has no meaning for times",
    "--groups town": "--groups has no meaning for times",
    "--baseline": "--baseline has no meaning for times",
    "--dataset adult": "--dataset has no meaning for times",
    "--private-report": "--private-report has no meaning for times",
    "--fill": "leave out --fill",
    "--budgets pid": "No such option: --budgets",
    "--cluster dask": "requires a private table in Parquet",
    "--jobs 2": "requires a private table in Parquet",
    "--in-blocks": "requires a private table in Parquet",
    "--declared-columns c.json": "No such option: --declared-columns",
    "--seed 3": "No such option: --seed",
    "--method pate": "it belongs to the method label-moments-survival",
}


@pytest.mark.parametrize("options", REFUSED)
def test_what_declarations_show_is_refused_in_one_sentence_before_the_charge(said, folder, monkeypatch, options):
    monkeypatch.setattr(SumReleaser, "charge_and_draw", lambda *_, **__: pytest.fail("charged"))
    code, out, err = said(RUN, "--out", "no", *options.split())
    assert (code, out, (folder / "no").exists()) == (2, "", False)
    assert REFUSED[options] in err
    assert len(err.strip().splitlines()) == 1


def test_what_is_missing_is_named(said, folder):
    for name in ("--public", "--time", "--event", "--bins"):
        line = re.sub(rf"{name} \S+ ", "", RUN)
        method = () if {"--time", "--event", "--bins"} & set(line.split()) else ("--method", "label-moments-survival")
        code, _, err = said(line, *method, "--out", "no")
        assert code == 2
        assert f"{name} must be given to train on times" in err


def test_public_rows_with_times_of_their_own_lend_only_their_features(said, folder):
    ROWS[N : N + 80].drop(columns="pid").to_csv(folder / "timed.csv", index=False)
    assert said(RUN.replace("public.csv", "timed.csv"), *SEEDED, "--out", "timed")[0] == 0
    if not (folder / "usual").exists():
        assert said(RUN, *SEEDED, "--out", "usual")[0] == 0
    assert (folder / "timed" / "labels.csv").read_bytes() == (folder / "usual" / "labels.csv").read_bytes()


def test_dates_by_the_type_of_a_column_and_public_rows_that_are_alike_are_refused(said, folder):
    PRIVATE.assign(days=pd.Timestamp("2024-02-01")).to_parquet(folder / "dates.parquet")
    code, _, err = said(RUN.replace("private.csv", "dates.parquet"), "--out", "no")
    assert (code, "holds dates or durations: write numbers" in err) == (2, True)
    PUBLIC.assign(age=60, town="a").to_csv(folder / "alike.csv", index=False)
    code, _, err = said(RUN.replace("public.csv", "alike.csv"), "--out", "no")
    assert (code, "no column can show a risk" in err) == (2, True)
    assert not (folder / "no").exists()


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("predict run new.csv --proba", "is about labels, and this student predicts a number or a risk"),
        ("predict run new.csv --threshold 0.4", "threshold is about labels"),
        ("predict run new.csv --coverage 0.5", "are for students of a number"),
        ("predict run new.csv --at 541", "at=541.0 is not a number from 0 to 540"),
        ("predict run new.csv --at -1", "at=-1.0 is not a number"),
        ("predict run new.csv --at 90,90", "names one twice"),
        ("predict run new.csv --at soon", "must be numbers"),
        ("export run --format sql", "it predicts when an event happens"),
        ("plan label-moments-survival", "has no plan yet"),
        ("compare --methods label-moments-survival", "label-moments-survival"),
    ],
)
def test_other_commands_refuse_what_risks_have_not(said, line, sentence):
    code, out, err = said(line)
    assert (code, out) == (2, "")
    assert sentence in err
    assert len(err.strip().splitlines()) == 1


def test_an_interrupted_run_is_finished_without_a_second_charge(said, folder, monkeypatch):
    account = Ledger.create(folder / "ledger.db").open_account("people", epsilon=6.0, delta=1e-2)
    own = ("--ledger", "ledger.db", "--data-set", "people")
    with monkeypatch.context() as patch:
        patch.setattr("dpensemble.workflow.outputs.save_classifier", lambda *_: 1 / 0)
        assert said(RUN, *own, "--out", "later")[0] == 1
    spent = account.state().spent
    assert spent.loss
    assert said("recover later")[0] == 0
    assert account.state().spent == spent
    assert said("verify later")[0] == 0
    code, _, err = said(RUN, *own, "--out", "second")
    assert (code, (folder / "second").exists()) == (2, False)
    assert "people" in err


SCORED = ("--holdout-score", "0.3")


def numbers_in(value):
    """Yield all numbers within lists and dictionaries, in order."""
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from numbers_in(one)
    if isinstance(value, (int, float)):
        yield float(value)


@pytest.mark.parametrize("competing", [False, True])
def test_a_run_scores_itself_on_held_back_people(said, folder, competing):
    """All figures follow from released cells, the student and public rows, and the certificate covers the cells."""
    table, more = ROWS[:N].copy(), ("--competing", "2") if competing else ()
    table.loc[table.index % 9 == 0, "status"] *= 1 + competing
    table.to_csv(folder / "ended.csv", index=False)
    line = RUN.replace("private.csv", "ended.csv")
    code, out, err = said(line, *SCORED, *more, "--unit", "pid", "--time-unit", "days", "--out", f"scored-{competing}")
    assert code == 0, err
    assert "Quality of the risks: 60 people are held back for one noisy histogram" in err
    place = folder / f"scored-{competing}"
    code, verified, _ = said(f"verify scored-{competing}")
    assert (code, "part 2 of 2, for other records" in verified) == (0, True)
    record = json.loads((place / "run.json").read_text(encoding="utf-8"))
    facts = record["data"]["risk"]
    score = facts["score"]
    assert score["units"] == record["data"]["held_back"] == 60
    assert score["epsilon"] <= record["guarantee"]["epsilon"] <= 5
    assert sum("held back" in one for one in record["guarantee"]["assumptions"]) == 1
    student = load_classifier(place / "student.skops")
    risks = student.predict_risk(PUBLIC, score["ends"])
    chances = student.steps[-1][1].predict_cells(student[:-1].transform(PUBLIC), score["ends"])
    assert np.allclose(chances.sum(axis=1), 1)
    layout = TimesLayout.planned(BINS, facts["at"], 1 + competing, 60, 5.0, 1e-4)
    groups = layout.groups(risks, chances)
    assert (list(layout.ends), groups.edges.tolist()) == (score["ends"], pytest.approx(score["edges"]))
    noisy = NoisyTimes(
        layout=replace(layout, n_groups=len(score["cells"])),
        groups=groups,
        cells=np.array(score["cells"]),
        sigma=score["sigma"],
        epsilon=score["epsilon"],
    )
    again = noisy.figures()
    assert again.keys() == score.keys()
    np.testing.assert_allclose(list(numbers_in(again)), list(numbers_in(score)), atol=1e-9)
    assert said(f"report scored-{competing} --out page.html")[0] == 0
    page = (folder / "page.html").read_text(encoding="utf-8")
    card = (place / "card.md").read_text(encoding="utf-8")
    for text in (page, card, out):
        assert "obody measured how well" not in text
    for text in (page, out):
        assert "the one with the earlier event has the higher" in text
    assert 'id="calibration-of-risks-title"' in page
    assert "Concordance" in card
    measures = json.loads((place / "card.json").read_text(encoding="utf-8"))["quality"]["measures"]
    assert measures["concordance"] == score["concordance"]["value"]


def test_people_in_blocks_and_in_parts_are_held_back_as_in_memory(said, folder, monkeypatch):
    monkeypatch.setattr(scoring, "public_entropy", lambda _: 7)
    (folder / "ordered").mkdir()
    for place, rows in enumerate(np.array_split(np.arange(N), 3)):
        ROWS.iloc[rows].to_parquet(folder / "ordered" / f"{place}.parquet", index=False)
    private = {"memory": "people.csv", "blocks": "ordered", "parts": "ordered --jobs 1"}
    shown = {}
    for name, given in private.items():
        line = f"train --public public.csv {TIMES} --unit pid --epsilon 5 --delta 1e-4 --quiet --private {given}"
        code, _, err = said(f"{line} --out held-{name}", *SEEDED, *SCORED)
        assert code == 0, err
        record = json.loads((folder / f"held-{name}" / "run.json").read_text(encoding="utf-8"))
        risks = (folder / f"held-{name}" / "labels.csv").read_text(encoding="utf-8")
        shown[name] = risks, record["data"]["risk"]["score"], record["data"]["held_back"]
    assert shown["memory"] == shown["blocks"] == shown["parts"]
    assert shown["parts"][2] == 60


def test_figures_that_censoring_hides_are_named(said, folder):
    assert said(RUN, *SEEDED, *SCORED, "--out", "hidden")[0] == 0
    place = folder / "hidden" / "run.json"
    record = json.loads(place.read_text(encoding="utf-8"))
    score = record["data"]["risk"]["score"]
    score["integrated"], score["until"], score["times"][-1]["brier"] = None, None, None
    place.write_text(json.dumps(record), encoding="utf-8")
    assert said("report hidden --out hidden.html")[0] == 0
    page = (folder / "hidden.html").read_text(encoding="utf-8")
    assert "Censoring hides the Brier score." in page
    assert page.count("hidden by censoring") == 2


def test_no_held_back_record_shows_in_exit_codes_outputs_and_logs(said, folder, monkeypatch):
    """A bad record that is held back adds zeros, for any reason."""
    monkeypatch.setattr("dpensemble.cli.train.rehearse", lambda *_: None)
    seed = np.random.default_rng(seed_sequence(7, Stream.SPLIT))
    monkeypatch.setattr("dpensemble.workflow.scoring.public_entropy", lambda _: 7)
    held = np.zeros(N, dtype=bool)
    held[seed.permutation(N)[: int(0.3 * N)]] = True
    place = int(np.flatnonzero(held)[0])
    lines, found, cells = PRIVATE.to_csv(index=False).splitlines(), {}, {}
    good = ("60", "a", "30", "1")
    records = [good, *(("60", "a", f'"{days}"', status) for days, status in BAD[::4]), *ODD[::4]]
    for record in records:
        lines[place + 1] = ",".join(record)
        (folder / "held.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (folder / "log.jsonl").unlink(missing_ok=True)
        line = RUN.replace("private.csv", "held.csv")
        code, out, err = said(line, *SEEDED, *SCORED, "--out", "held", "--overwrite", "--log-json", "log.jsonl")
        events = [json.loads(event) for event in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]
        logged = [{name: value for name, value in one.items() if name not in ("time", "seconds")} for one in events]
        found[record] = (code, re.sub(r"[\d.,]+", "#", out), err, logged)
        record_of_run = json.loads((folder / "held" / "run.json").read_text(encoding="utf-8"))
        cells[record] = (
            json.dumps(record_of_run["data"]["risk"]["score"]["cells"]),
            (folder / "held" / "labels.csv").read_bytes(),
        )
    assert all(one == found[good] for one in found.values())
    assert found[good][0] == 0
    # The record teaches nothing, so the student is the same for all.
    assert len({labels for _, labels in cells.values()}) == 1
    bad = {cells[record][0] for record in records[1 : 1 + len(BAD[::4])]}
    assert len(bad) == 1
    assert cells[good][0] not in bad


def test_an_interrupted_run_and_its_score_are_one_charge(said, folder, monkeypatch):
    spent = []
    for name, more in (("alone", ()), ("both", SCORED)):
        account = Ledger.create(folder / f"{name}.db").open_account("people", epsilon=6.0, delta=1e-2)
        own = ("--ledger", f"{name}.db", "--data-set", "people", *more, "--out", f"later-{name}")
        with monkeypatch.context() as patch:
            patch.setattr("dpensemble.workflow.outputs.save_classifier", lambda *_: 1 / 0)
            assert said(RUN, *own)[0] == 1
        spent.append(account.state().spent)
        assert spent[-1].loss
        assert said(f"recover later-{name}")[0] == 0
        assert account.state().spent == spent[-1]
        assert said(f"verify later-{name}")[0] == 0
    # A person teaches or scores, so the larger of both is paid.
    assert spent[0] == spent[1]
    assert "and its score" in account.history()[0].what


@pytest.mark.parametrize("step", ["workflow.outputs.render", "report.page.risk_section"])
def test_what_can_fail_later_fails_before_the_charge(said, folder, monkeypatch, step):
    monkeypatch.setattr(f"dpensemble.{step}", lambda *_, **__: 1 / 0)
    code, _, err = said(RUN, "--out", "no")
    assert (code, (folder / "no").exists()) == (1, False)
    assert "nothing was written" in err
