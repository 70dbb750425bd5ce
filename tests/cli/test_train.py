"""``dpensemble train`` as people and programs use it: options, methods, files, events for programs, and refusals.

Any text is the name of a column: keywords, parameters of the library, markup, and characters of all kinds.
"""

import inspect
import json
import keyword
import random
import subprocess
import sys
import unicodedata
import xml.dom.minidom

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import dpensemble
from dpensemble import load_classifier
from dpensemble._work import progress_bar, progress_heard_by
from dpensemble.cli import main
from dpensemble.workflow.learners import LEARNERS, STUDENTS

from ..deadline import GUARD, until


@pytest.fixture
def run(capsys):
    def run(*arguments):
        code = main([str(a) for a in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def tables(tmp_path):
    """A private, a public and a test table, of numbers and text, as CSV and Parquet."""
    rng = np.random.default_rng(0)

    def table(n):
        frame = pd.DataFrame({"age": rng.integers(20, 80, n), "city": rng.choice(["rome", "oslo", "bern"], n)})
        frame["sick"] = np.where(frame["age"] + rng.normal(0, 8, n) > 50, "yes", "no")
        frame["person"] = np.arange(n) // 2
        return frame

    table(800).to_csv(tmp_path / "private.csv", index=False)
    table(300).drop(columns=["sick", "person"]).to_parquet(tmp_path / "public.parquet")
    table(200).drop(columns="person").to_csv(tmp_path / "test.csv", index=False)
    return tmp_path


def arguments(tables, out, **changes):
    given = {
        "--private": tables / "private.csv",
        "--public": tables / "public.parquet",
        "--target": "sick",
        "--unit": "person",
        "--classes": "no,yes",
        "--teachers": 40,
        "--epsilon": 4,
        "--seed": 0,
        "--out": out,
    } | {f"--{name.replace('_', '-')}": value for name, value in changes.items()}
    return ["train", *(str(x) for pair in given.items() if pair[1] is not None for x in pair)]


def test_train_on_files_then_report_then_predict(run, tables, tmp_path):
    out = tmp_path / "deep" / "out"
    code, printed, errors = run(*arguments(tables, out, test=tables / "test.csv"), "--json", "--baseline")
    assert (code, errors) == (0, "")
    record = json.loads(printed)
    assert record["method"] == "saa"
    assert set(record["guarantee"]) >= {"epsilon", "delta", "basis", "relation"}
    assert record["guarantee"]["epsilon"] <= 4
    assert record["guarantee"]["unit"] == "unit"
    assert record["labels"] > 10
    assert record["label_accuracy"] is None
    for who in ("student", "baseline"):
        assert set(record[who]) == {"accuracy", "auroc", "auprc", "brier"}
    assert set(record["seconds"]) >= {"reading", "encoding", "teachers", "labels", "student", "total"}
    assert "baseline without privacy" in record["experiment"][0]
    assert sorted(p.name for p in out.iterdir()) == [
        "card.json",
        "card.md",
        "labels.csv",
        "report.html",
        "run.json",
        "student.skops",
    ]
    labels = pd.read_csv(out / "labels.csv")
    assert len(labels) == record["labels"]
    assert set(labels["label"]) <= {"no", "yes"}

    code, printed, _ = run("report", out, "--json", "--out", tmp_path / "again.html")
    assert code == 0
    assert json.loads(printed)["labels"] == record["labels"]
    assert (tmp_path / "again.html").read_text() == (out / "report.html").read_text()

    new = tables / "test.csv"
    code, printed, _ = run("predict", out / "student.skops", new, "--json")
    student = load_classifier(out / "student.skops")
    assert json.loads(printed) == student.predict(pd.read_csv(new)[["age", "city"]]).tolist()
    code, printed, _ = run("predict", out / "student.skops", new, "--out", tmp_path / "p.csv")
    assert (code, printed) == (0, "")
    assert len(pd.read_csv(tmp_path / "p.csv")) == 200


def test_train_for_people(run, tables, tmp_path):
    command = arguments(tables, tmp_path / "out", method="dpbag", partitions=3, analysis="until-spent")
    code, out, _ = run(*command)
    assert code == 0
    assert "Replacing any one person" in out
    assert "publish neither" in out
    assert "\nNoise: Laplace noisy-max, scale 60 votes (usual)\n" in out
    assert "report.html" in out


@pytest.mark.parametrize(
    "method", ["saa", "dpbag", "lnmax", "gnmax", "confident-gnmax", "interactive-gnmax", "optimal"]
)
def test_every_method_trains_and_reports(run, tables, tmp_path, method):
    out = tmp_path / "out"
    noise = {} if method in ("saa", "dpbag", "lnmax") else {"sigma": 12}
    if method == "optimal":
        noise = {"reach": 60}
    if "-" in method:
        noise |= {"threshold": 22, "threshold_sigma": 15}
    code, printed, errors = run(*arguments(tables, out, method=method, scale=None, **noise), "--json")
    assert (code, errors) == (0, "")
    record = json.loads(printed)
    # The name of a law stands for the method that it is read in.
    assert record["method"] == (method if method in ("saa", "dpbag") else "pate")
    assert record["settings"]["law_name"] == ("lnmax" if method in ("saa", "dpbag") else method)
    assert record["guarantee"]["basis"] == "worst-case"
    assert record["settings"]["accounting"] == "exact"
    assert 0 < record["labels"] <= record["asked"]
    assert record["labels"] == len(pd.read_csv(out / "labels.csv"))
    page = (out / "report.html").read_text()
    assert ("Public rows queried" in page) == (record["asked"] > record["labels"])


def test_several_partitions_of_the_optimal_vote_are_bagging(run, tables, tmp_path):
    wanted = {"method": "optimal", "partitions": 3, "max_labels": 20, "scale": None}
    code, printed, errors = run(*arguments(tables, tmp_path / "out", **wanted), "--json")
    assert (code, errors) == (0, "")
    record = json.loads(printed)
    assert (record["method"], record["labels"]) == ("dpbag", 20)
    assert record["settings"]["law_name"] == "optimal"
    assert 3.9 < record["guarantee"]["epsilon"] <= 4
    for method in ("gnmax", "saa"):
        code, _, errors = run(*arguments(tables, tmp_path / "other", method=method, reach=9))
        assert code == 2
        assert "No such option: --reach; it belongs to the law optimal" in errors


def test_a_fixed_number_of_labels_under_data_dependent_accounting_may_be_shown(run, tables, tmp_path):
    out = tmp_path / "out"
    changes = {"method": "gnmax", "sigma": 8, "analysis": "data-dependent", "max_labels": 4}
    code, printed, _ = run(*arguments(tables, out, **changes), "--json")
    assert code == 0
    record = json.loads(printed)
    assert record["labels"] == 4
    assert record["guarantee"]["basis"] == "data-dependent"
    assert "epsilon_spent" not in printed
    assert "withheld: depends on secret votes" not in (out / "report.html").read_text()


def test_private_statistics_are_written_only_when_asked_for(run, tables, tmp_path):
    out = tmp_path / "out"
    assert run(*arguments(tables, out, method="dpbag"), "--private-report")[0] == 0
    assert (out / "private-report.html").exists()
    assert json.loads((out / "private.json").read_text())["epsilon_spent"] <= 4
    assert run("report", out, "--private", "--json")[0] == 0
    # A later run without them does not leave the old ones lying about.
    code, _, errors = run(*arguments(tables, out, method="dpbag"))
    assert code == 2
    assert "holds files of an earlier run (private.json)" in errors
    assert run(*arguments(tables, out, method="dpbag"), "--overwrite")[0] == 0
    assert not (out / "private-report.html").exists()
    code, _, errors = run("report", out, "--private")
    assert code == 2
    assert "no secret statistics" in errors


def test_the_same_seeds_give_the_same_student(run, tables, tmp_path):
    for name in ("a", "b"):
        assert run(*arguments(tables, tmp_path / name, insecure_release_seed=1))[0] == 0
    a, b = ((tmp_path / name / "labels.csv").read_text() for name in ("a", "b"))
    assert a == b
    assert "came from a seed" in json.loads((tmp_path / "a" / "run.json").read_text())["experiment"][0]


def spoil(tables, name, change):
    path = tables / name
    table = pd.read_csv(path) if name.endswith("csv") else pd.read_parquet(path)
    table = change(table)
    table.to_csv(path, index=False) if name.endswith("csv") else table.to_parquet(path)


BAD = [
    ({"epsilon": 0}, None, "epsilon=0.0"),
    ({"epsilon": "nan"}, None, "epsilon=nan"),
    ({"epsilon": 0.001}, None, "the smallest epsilon that would do is"),
    ({"delta": 0}, None, "delta=0.0"),
    ({"delta": 0.01}, None, "not below 1/N = 0.0025 for N=400"),
    ({"teachers": 401}, None, "use at most 400"),
    ({"classes": None}, None, "must be declared"),
    ({"classes": "no,maybe"}, None, "not among classes"),
    ({"classes": "no"}, None, "at least two"),
    (
        {"target": "ill"},
        None,
        "target='ill' is not a column of the private table; of the columns of the public table it has age, city.",
    ),
    ({"unit": "who"}, None, "unit='who' is not a column"),
    ({"public": None}, None, "--public must be given"),
    ({"unit": "sick"}, None, "unit='sick' is also the target"),
    ({"unit": None}, None, "name the column that identifies whose record it is (--unit)"),
    ({"jobs": 0}, None, "--jobs: n_jobs=0 is not a number of workers"),
    ({"dataset": "adult"}, None, "brings its own tables"),
    ({"dataset": "iris"}, None, "iris"),
    ({"method": "magic"}, None, "magic"),
    ({"student": "boosting"}, None, "student='boosting' is unknown"),
    ({"teacher": "oracle"}, None, "teacher='oracle' is unknown"),
    ({"classes": "no,yes,"}, None, "names an empty label"),
    ({"drop": "cty"}, None, "drop='cty' is not a column"),
    ({"partitions": 5}, None, "--partitions; it belongs to the method dpbag"),
    ({"analysis": "personalised"}, None, "--analysis; it belongs to the methods dpbag, pate"),
    ({"method": "dpbag", "analysis": "personalised"}, None, "'data-dependent', 'until-spent'"),
    ({"method": "dpbag", "analysis": "data-dependent"}, None, "max_labels"),
    ({"sigma": 3}, None, "--sigma; it belongs to the laws"),
    ({"method": "gnmax", "scale": 3}, None, "No such option: --scale; it belongs to the"),
    ({"method": "gnmax", "sigma": 0}, None, "sigma=0"),
    ({"accounting": "generous"}, None, "generous"),
    ({"max_labels": 0}, None, "max_labels=0"),
    ({"scale": -1}, None, "scale=-1"),
    ({"test": "missing.csv"}, None, "missing.csv"),
    ({}, ("private.csv", lambda t: t.assign(age=[np.nan, *t["age"][1:]])), "missing (NaN) or infinite"),
    ({}, ("private.csv", lambda t: t.assign(age=[np.inf, *t["age"][1:]])), "missing (NaN) or infinite"),
    (
        {},
        ("private.csv", lambda t: t.assign(sick=[None, *t["sick"][1:]])),
        "rows without a target in column 'sick'",
    ),
    ({}, ("private.csv", lambda t: t.assign(shoe=1)), "columns that the public table lacks: 'shoe'; drop"),
    ({}, ("private.csv", lambda t: t.drop(columns="city")), "lacks the columns city"),
    (
        {},
        ("private.csv", lambda t: t.rename(columns={"city": "town"})),
        "lacks the columns city, which the public table has, and has columns that the public table lacks: 'town'; give "
        "both tables the same columns, leave some out (--drop)",
    ),
    ({}, ("public.parquet", lambda t: t.iloc[:0]), "has no rows"),
    ({}, ("public.parquet", lambda t: t.assign(age=np.inf)), "the public table has missing (NaN) or infinite"),
    ({}, ("public.parquet", lambda t: t.assign(city=1.0)), "column 'city' is numbers in the public table but"),
]


@pytest.mark.parametrize(("changes", "spoiled", "message"), BAD, ids=[case[2][:30] for case in BAD])
def test_bad_input_is_one_sentence_and_leaves_nothing(run, tables, tmp_path, changes, spoiled, message):
    if spoiled is not None:
        spoil(tables, *spoiled)
    before = sorted(p for p in tmp_path.rglob("*"))
    code, out, errors = run(*arguments(tables, tmp_path / "out", **changes), "--on-bad-record", "raise")
    assert code == 2
    assert out == ""
    assert message in errors
    assert errors.count("\n") == 1
    assert sorted(p for p in tmp_path.rglob("*")) == before


@pytest.mark.parametrize("role", ["public", "test"])
def test_the_private_table_may_not_play_another_part(run, tables, tmp_path, role):
    code, _, errors = run(*arguments(tables, tmp_path / "out", **{role: tables / "private.csv"}))
    assert code == 2
    assert f"the {role} table is the private table itself" in errors


def test_columns_can_be_dropped_and_test_scores_declared_public(run, tables, tmp_path):
    changes = {"test": tables / "test.csv", "drop": "city"}
    code, printed, _ = run(*arguments(tables, tmp_path / "a", **changes), "--json")
    assert code == 0
    record = json.loads(printed)
    assert record["data"]["kinds_of_columns"] == "age (number)"
    assert record["data"]["most_common_label"] >= 0.5
    shared = (tmp_path / "a" / "report.html").read_text()
    assert "Measured on test rows that were not declared public" in shared
    assert f"{record['student']['accuracy']:.3f}" not in shared
    assert run(*arguments(tables, tmp_path / "b", **changes), "--test-is-public")[0] == 0
    assert "were not declared public" not in (tmp_path / "b" / "report.html").read_text()


def test_an_interrupt_says_so_and_leaves_nothing(tables, tmp_path):
    import signal

    # A shell that runs the tests in the background ignores interrupts.
    listening = (
        "import signal, sys, dpensemble.cli; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "sys.exit(dpensemble.cli.main())"
    )
    command = [sys.executable, "-c", listening, *arguments(tables, tmp_path / "out", teacher="random-forest")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    # However busy the machine is: either the folder is claimed in the end, or the run has ended too soon.
    until(lambda: process.poll() is not None or list(tmp_path.glob(".dpensemble-*")))
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=GUARD)
    assert process.returncode == 130
    assert "interrupted; nothing was written" in errors
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".dpensemble-*"))


@pytest.mark.parametrize("out", ["file", "file/below", "/proc/nothing/here"])
def test_an_unwritable_folder_is_refused_before_training(run, tables, tmp_path, out, monkeypatch):
    (tmp_path / "file").write_text("precious")
    monkeypatch.setattr("dpensemble.cli.train.run_training", lambda *_, **__: pytest.fail("trained"))
    target = out if out.startswith("/") else tmp_path / out
    code, _, errors = run(*arguments(tables, target))
    assert code == 2
    assert "cannot be written" in errors
    assert (tmp_path / "file").read_text() == "precious"


def test_a_failure_half_way_leaves_an_earlier_run_alone(run, tables, tmp_path, monkeypatch):
    out = tmp_path / "out"
    assert run(*arguments(tables, out))[0] == 0
    before = {p.name: p.read_bytes() for p in out.iterdir()}
    monkeypatch.setattr("dpensemble.workflow.outputs.save_classifier", lambda *_: 1 / 0)
    code, _, errors = run(*arguments(tables, out), "--overwrite")
    assert code == 1
    assert errors.startswith("dpensemble: unexpected ZeroDivisionError")
    assert errors.count("\n") == 1
    assert {p.name: p.read_bytes() for p in out.iterdir()} == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["train"],
        ["report"],
        ["report", "/nowhere"],
        ["predict", "/nowhere", "/nowhere"],
        ["--nonsense"],
    ],
    ids=" ".join,
)
def test_misuse_is_one_line_on_stderr_and_exit_code_2(run, arguments):
    code, out, errors = run(*arguments)
    assert (code, out) == (2, "")
    assert errors.startswith("dpensemble: ")
    assert errors.count("\n") == 1


def test_a_value_as_long_as_its_file_does_not_make_a_message_as_long(run, tables, tmp_path):
    (tmp_path / "declared.json").write_text(json.dumps({"age": {"low": "x" * 10**6, "high": 1}}))
    line = ["check", "--private", tables / "private.csv", "--target", "sick", "--classes", "no,yes"]
    code, out, errors = run(*line, "--declared-columns", tmp_path / "declared.json")
    assert (code, out) == (2, "")
    assert len(errors) < 2_100
    assert errors.startswith("dpensemble: ")
    assert errors.endswith("or the categories.\n")


@pytest.mark.parametrize("role", ["private", "public"])
def test_a_table_that_is_a_link_to_itself_is_one_sentence(run, tables, tmp_path, role):
    places = {"private": tables / "private.csv", "public": tables / "public.parquet"} | {role: tmp_path / "loop.csv"}
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    line = ["check", "--private", places["private"], "--public", places["public"]]
    code, out, errors = run(*line, "--target", "sick", "--classes", "no,yes")
    assert (code, out, errors.count("\n")) == (2, "", 1)
    assert "loop.csv" in errors


def test_a_tampered_record_is_refused(run, tmp_path):
    (tmp_path / "run.json").write_text('{"schema": 1, "epsilon": 0}')
    code, _, errors = run("report", tmp_path)
    assert code == 2
    assert "schema" in errors


def test_help_names_every_command_and_the_version_is_told():
    shown = subprocess.run([sys.executable, "-m", "dpensemble", "--help"], capture_output=True, text=True, check=True)
    for command in ("train", "plan", "report", "predict"):
        assert command in shown.stdout
    shown = subprocess.run(
        [sys.executable, "-m", "dpensemble", "--version"], capture_output=True, text=True, check=True
    )
    assert shown.stdout.startswith("dpensemble 0.")


@pytest.mark.parametrize("name", LEARNERS)
def test_every_named_learner_teaches_and_studies(run, tables, tmp_path, name):
    out = tmp_path / "out"
    student = name if name in STUDENTS else "random-forest"
    changes = {"teacher": name, "student": student, "teachers": 20, "jobs": 1, "epsilon": 20}
    code, printed, errors = run(*arguments(tables, out, **changes), "--json")
    assert (code, errors) == (0, "")
    assert json.loads(printed)["settings"]["teacher"]
    assert run("predict", out / "student.skops", tables / "test.csv")[0] == 0


def test_the_command_of_the_issue_on_packaged_data(run, tmp_path):
    code, out, _ = run(
        *["train", "--dataset", "adult", "--method", "dpbag", "--teachers", "100", "--partitions", "10"],
        *["--epsilon", "1", "--delta", "1e-5", "--seed", "0", "--json", "--out"],
        tmp_path / "out",
    )
    record = json.loads(out)
    assert code == 0
    assert record["guarantee"]["basis"] == "worst-case"
    assert record["labels"] > 150
    assert record["label_accuracy"] > 0.5
    assert record["baseline"] is None
    assert record["data"]["private_records"] == 16_281


def test_numpy_settings_reach_the_record(tables):
    from dpensemble import SubsampleAggregateClassifier
    from dpensemble.workflow import TableFiles, file_tables
    from dpensemble.workflow import train as run_training

    found = file_tables(
        TableFiles(
            private=tables / "private.csv",
            public=tables / "public.parquet",
            target="sick",
            classes=["no", "yes"],
            unit="person",
        )
    )
    model = SubsampleAggregateClassifier(
        n_teachers=np.int64(40),
        epsilon=np.float32(4),
        max_labels=np.int64(3),
        random_state=np.random.RandomState(0),
    )
    record = run_training(found, model).record
    assert json.loads(json.dumps(record.to_dict()))["settings"]["max_labels"] == 3
    assert record.data["private_units"] == 400


def test_numeric_and_true_or_false_labels(run, tables, tmp_path):
    for name, classes, values in (("numbers", "0,1", ["0", "1.0"]), ("truth", "True,False", ["False", "True"])):
        table = pd.read_csv(tables / "private.csv")
        table["sick"] = np.where(table["sick"] == "yes", values[1], values[0])
        table.to_csv(tables / f"{name}.csv", index=False)
        out = tmp_path / name
        assert run(*arguments(tables, out, private=tables / f"{name}.csv", classes=classes))[0] == 0
        assert set(pd.read_csv(out / "labels.csv")["label"].astype(str)) <= {"0", "1", "True", "False"}


def test_predict_gives_probabilities_and_never_overwrites_its_input(run, tables, tmp_path):
    out = tmp_path / "out"
    assert run(*arguments(tables, out))[0] == 0
    rows = tables / "test.csv"
    code, printed, _ = run("predict", out / "student.skops", rows, "--probabilities", "--json")
    assert code == 0
    first = json.loads(printed)[0]
    assert first["probability of no"] + first["probability of yes"] == pytest.approx(1)
    before = rows.read_bytes()
    code, _, errors = run("predict", out / "student.skops", rows, "--out", rows)
    assert code == 2
    assert "holds the rows to classify" in errors
    assert rows.read_bytes() == before


@pytest.mark.parametrize("flags", [(), ("--overwrite",)])
def test_files_that_are_not_of_a_run_are_not_replaced(run, tables, tmp_path, flags):
    out = tmp_path / "out"
    out.mkdir()
    (tables / "private.csv").rename(out / "labels.csv")
    before = (out / "labels.csv").read_bytes()
    code, _, errors = run(*arguments(tables, out, private=out / "labels.csv"), *flags)
    assert code == 2
    assert "labels.csv" in errors
    assert [p.name for p in out.iterdir()] == ["labels.csv"]
    assert (out / "labels.csv").read_bytes() == before


def test_a_folder_in_the_place_of_a_file_is_noticed_before_anything_moves(run, tables, tmp_path):
    out = tmp_path / "out"
    assert run(*arguments(tables, out))[0] == 0
    record = (out / "run.json").read_bytes()
    (out / "student.skops").unlink()
    (out / "student.skops").mkdir()
    assert run(*arguments(tables, out), "--overwrite")[0] == 2
    assert (out / "run.json").read_bytes() == record


def test_a_data_dependent_page_does_not_tell_how_many_labels_by_their_accuracy(run, tables, tmp_path):
    out = tmp_path / "out"
    changes = {"method": "dpbag", "partitions": 3, "public": tables / "test.csv", "analysis": "until-spent"}
    code, printed, _ = run(*arguments(tables, out, **changes), "--json")
    assert code == 0
    accuracy = json.loads(printed)["label_accuracy"]
    page = (out / "report.html").read_text()
    assert accuracy is not None
    assert f"{100 * accuracy:.0f}%" not in page.replace("100%", "")
    assert page.count("withheld: depends on secret votes") == 2


def test_a_baseline_on_labels_of_one_class_does_not_lose_the_release(run, tables, tmp_path):
    table = pd.read_csv(tables / "private.csv")
    table.assign(sick="no").to_csv(tables / "private.csv", index=False)
    code, _, errors = run(*arguments(tables, tmp_path / "out", test=tables / "test.csv"), "--baseline", "--json")
    assert (code, errors.count("\n")) == (0, 1)
    assert "for you only: 40 of 40 teachers saw records of only one label" in errors
    assert (tmp_path / "out" / "labels.csv").exists()


def test_a_record_without_what_the_summary_shows_is_refused(run, tables, tmp_path):
    out = tmp_path / "out"
    assert run(*arguments(tables, out))[0] == 0
    record = json.loads((out / "run.json").read_text())
    del record["data"]["kinds_of_columns"]
    (out / "run.json").write_text(json.dumps(record))
    code, _, errors = run("report", out)
    assert code == 2
    assert "lacks entries" in errors


ASKED = "train saa --private private.csv --public public.csv --target y --classes no,yes --teachers 12 --epsilon 3"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=400), "site": rng.choice(["A", "B"], 400)})
    table["y"] = np.where(table["x"] > 0, "yes", "no")
    table[:300].to_csv(tmp_path / "private.csv", index=False)
    table[300:].drop(columns="y").to_csv(tmp_path / "public.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def events(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_run_from_its_beginning_to_its_end(folder, capsys):
    assert main([*ASKED.split(), "--out", "run", "--teacher", "decision-tree", "--jobs", "1", "--log-json", "log"]) == 0
    found = events(folder / "log")
    assert [one["event"] for one in found if one["event"] not in ("begins", "goes on", "ends")] == [
        "run begins", "tables read", "budget spent", "release placed", "run ends",
    ]  # fmt: skip
    assert found[0]["method"] == "saa"
    steps = [one["done"] for one in found if one["event"] == "goes on" and one["work"] == "Fitting teachers"]
    assert steps[-1] == 12
    assert len(steps) > 5
    assert next(one["budgets"] for one in found if one["event"] == "budget spent")[0]["epsilon"] == 3.0
    assert (folder / "log").stat().st_mode & 0o777 == 0o600
    # The progress of labelling may be secret, so only its beginning and its end are reported.
    assert {one["event"] for one in found if one.get("work") == "Labelling public rows"} == {"begins", "ends"}


def test_a_refusal_is_told_without_its_words(folder, capsys):
    pd.read_csv("private.csv").assign(x="Zaphod").to_csv("private.csv", index=False)
    for _ in range(2):
        assert main([*ASKED.split(), "--out", "run", "--log-json", "log", "--on-bad-record", "raise"]) == 2
    found = events(folder / "log")
    assert [one["event"] for one in found] == ["run begins", "begins", "run failed"] * 2
    assert found[2]["error"] == "DataError"
    assert "Zaphod" not in (folder / "log").read_text()


def test_a_log_that_cannot_be_written_is_refused_at_once(folder, capsys):
    assert main([*ASKED.split(), "--out", "run", "--log-json", "none/log"]) == 2
    assert "cannot be written" in capsys.readouterr().err
    assert not (folder / "run").exists()


def test_of_many_steps_some_are_told():
    told = []
    with progress_heard_by(lambda event, about: told.append((event, about))), progress_bar("Work", 1000) as advance:
        for _ in range(1000):
            advance(1)
    assert [event for event, _ in told] == ["begins", *["goes on"] * 20, "ends"]
    assert told[-2][1] == {"work": "Work", "done": 1000, "steps": 1000}


DECLARED = "train --private private.csv --declared-columns columns.json --target y --classes no,yes --seed 0"
ODD = "Zaphod"


@pytest.fixture
def declared_folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=900), "code": rng.choice([7, 8], size=900), "who": np.arange(900) // 3})
    table["y"] = np.where(table["x"] + (table["code"] == 7) > 0.5, "yes", "no")
    table.loc[3, "x"] = np.nan
    table[:700].to_csv(tmp_path / "private.csv", index=False)
    table[700:].drop(columns="who").to_csv(tmp_path / "test.csv", index=False)
    table[700:].drop(columns=["who", "y"]).to_parquet(tmp_path / "new.parquet")
    (tmp_path / "columns.json").write_text('{"x": [-3, 3], "code": ["7", "8"]}')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_train_report_and_predict(declared_folder, capsys):
    assert main(f"{DECLARED} --unit who --epsilon 3 --delta 1e-3 --test test.csv --out run".split()) == 0
    shown = capsys.readouterr().out
    assert "labelled" not in shown
    record = json.loads((declared_folder / "run" / "run.json").read_text())
    assert "The report lists them and their noise." in shown
    assert record["settings"]["synthetic_rows"] is True
    assert (record["labels"], record["data"]["public_rows"]) == (0, 0)
    assert record["student"]["accuracy"] > 0.75
    assert record["guarantee"]["unit"] == "unit"
    page = (declared_folder / "run" / "report.html").read_text()
    noise = {one["description"]: one["noise"] for one in record["releases"]}
    for description in ("how common each value of a column is", "which values go together"):
        assert f"{description}</th><td>{noise[description]:.4g}<" in page
    assert "synthetic rows that were drawn from what was released" in page
    assert "and to public rows" not in page
    assert "dpensemble verify certificate.json" in page
    assert main(["verify", "run/certificate.json"]) == 0
    assert main(["predict", "run", "new.parquet", "--out", "labels.csv"]) == 0
    assert set(pd.read_csv("labels.csv")["label"]) == {"no", "yes"}
    assert main(["report", "run", "--out", "again.html"]) == 0


@pytest.mark.parametrize(
    ("columns", "more", "words"),
    [
        ("no json", "", "is not JSON"),
        ("[1, 2]", "", "declares nothing"),
        ("{}", "", "declares nothing"),
        ('{"x": [3, -3]}', "", "must be a range"),
        ('{"x": [0, 1], "x": [0, 2]}', "", "names 'x' twice"),
        ('{"x": [0, NaN]}', "", "must be a range"),
        ('{"x": [-3, 3], "code": ["7"], "y": ["no"]}', "--unit who", "'y', which is not a feature"),
        ('{"x": [-3, 3]}', "--drop x", "no feature"),
        ('{"x": [-3, 3]}', "--unit who", "has columns that --declared-columns lacks: 'code'"),
        (
            '{"x": [-3, 3], "code": ["7"], "z": ["a"]}',
            "--unit who",
            "lacks the columns z, which",
        ),
        ('{"x": [-3, 3], "code": ["7"]}', "--unit who --public test.csv", "give one of them"),
        ('{"x": [-3, 3], "code": ["7"]}', "--unit who --baseline", "baseline=True requires public rows"),
        ('{"x": [-3, 3], "code": ["7"]}', "--unit who --method pate", "No such option: --declared-columns"),
    ],
)
def test_what_cannot_be_declared_is_refused(declared_folder, capsys, columns, more, words):
    (declared_folder / "columns.json").write_text(columns)
    assert main(f"{DECLARED} {more} --out run".split()) == 2
    errors = capsys.readouterr().err
    assert words in errors.replace("\n", " ")
    assert not (declared_folder / "run").exists()


def test_neither_public_rows_nor_a_declaration(declared_folder, capsys):
    line = "train --private private.csv --target y --classes no,yes --out run"
    assert main(line.split()) == 2
    assert "--declared-columns" in capsys.readouterr().err
    (declared_folder / "columns.json").unlink()
    assert main(f"{DECLARED} --unit who --out run".split()) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_private_entries_are_not_quoted(declared_folder, capsys):
    table = pd.read_csv("private.csv").astype({"x": object})
    table.loc[5, "x"] = ODD
    table.to_csv("private.csv", index=False)
    assert main(f"{DECLARED} --unit who --on-bad-record raise --out run".split()) == 2
    errors = capsys.readouterr().err
    assert ODD not in errors
    assert "numbers in --declared-columns" in errors.replace("\n", " ")


@pytest.mark.parametrize("classes", ["no,yes", "yes,no"])
def test_effects_on_the_page_are_those_of_the_model(declared_folder, classes):
    """For every order of declared classes, a large x means yes."""
    line = "train label-moments --private private.csv --declared-columns columns.json --target y --seed 0 --epsilon 5"
    assert main([*line.split(), "--delta", "1e-3", "--classes", classes, "--unit", "who", "--out", "run"]) == 0
    record = json.loads((declared_folder / "run" / "run.json").read_text())
    (effect,) = [one for one in record["effects"] if one["column"] == "x"]
    rising = effect["points"][-1][1][0] - effect["points"][0][1][0]
    second = record["data"]["classes"][1]
    assert (rising > 0) is (second == "yes")


def test_a_folder_with_integer_codes_is_read_as_a_file_is(declared_folder):
    """Codes that are declared as categories are integers in Parquet."""
    table = pd.read_csv("private.csv")
    table.to_parquet("private.parquet")
    (declared_folder / "parts").mkdir()
    table[:300].to_parquet("parts/1.parquet")
    table[300:].to_parquet("parts/2.parquet")
    line = "train --declared-columns columns.json --target y --classes no,yes --unit who --epsilon 1 --delta 1e-3"
    coefficients = []
    for name in ("private.parquet", "parts"):
        assert main([*line.split(), "--insecure-release-seed", "1", "--private", name, "--out", f"run-{name}"]) == 0
        coefficients.append(json.loads((declared_folder / f"run-{name}" / "run.json").read_text())["effects"])
    assert coefficients[0] == coefficients[1]


MARKUP = [
    *("{x}", "{{", "%s", "{0}", "<b>", "</script><script>", "<!--", "]]>", "&amp;", '"', "'", "`", "|", "\\", "---"),
    *("# a", "a: b", "- x", "[a](b)", "${HOME}", "\n", "\r\n", "\t", "\x00", "\x1b[31m", "\u2028", "\u202e", "\ufeff"),
    *("é", "e\u0301", "É", "ß", "a" * 12_000, "", " ", "Unnamed: 3", "None", "nan", "true", "0", "-1", "1.0", "index"),
    *("date: year", "(date: year)", "date: weekday", "row", "label", "probability of yes", "constant", "(blank)"),
    *("any other", "a, b", "--drop", "=1+1", "a = b", "a is missing", "x0", "self", "cls", "rows", "y"),
]


def parameters():
    """Return the names of all parameters of what the library exports."""
    names = set()
    for exported in map(vars(dpensemble).get, dpensemble.__all__):
        members = vars(exported).values() if inspect.isclass(exported) else [exported]
        for member in filter(inspect.isfunction, members):
            names |= set(inspect.signature(member).parameters)
    return sorted(names)


def random_texts(n):
    generator = random.Random(0)
    signs = [chr(code) for code in (*range(0x600), *range(0x2000, 0x2070), *range(0x1F600, 0x1F640))]
    signs = [sign for sign in signs if unicodedata.category(sign) != "Cs"] + MARKUP[:20]
    return ["".join(generator.choices(signs, k=generator.randint(1, 25))) for _ in range(n)]


def table(names, n_rows, seed):
    rng = np.random.default_rng(seed)
    columns = {
        name: rng.choice(["p", "q"], n_rows) if i % 3 else rng.normal(size=n_rows) for i, name in enumerate(names)
    }
    days = pd.date_range("2020-01-01", periods=n_rows, freq="37D").strftime("%Y-%m-%d")
    return pa.table({**columns, "date": rng.permutation(days.to_numpy()), "size": rng.normal(size=n_rows)})


def labelled(rows):
    return rows.append_column("the target", pa.array(np.where(rows["size"].to_numpy() > 0, "yes", "no")))


@pytest.mark.parametrize(
    "names",
    [MARKUP, list(dict.fromkeys([*keyword.kwlist, *keyword.softkwlist, *parameters(), *MARKUP, *random_texts(200)]))],
    ids=["markup", "all"],
)
@pytest.mark.filterwarnings("ignore")
def test_any_text_names_a_column(tmp_path, monkeypatch, names, capsys):
    monkeypatch.chdir(tmp_path)
    names = [name for name in names if name not in ("date", "size")]
    private, public, new = (table(names, n, n) for n in (300, 250, 5))
    for file, rows in (("private", labelled(private)), ("public", public), ("new", new)):
        pq.write_table(rows, f"{file}.parquet")
    tables = [
        "--private",
        "private.parquet",
        "--public",
        "public.parquet",
        "--target",
        "the target",
        "--classes",
        "no,yes",
    ]
    assert main(["check", *tables]) == 0
    settings = ["--epsilon", "4", "--delta", "1e-4", "--insecure-release-seed", "0"]
    assert main(["train", "label-moments", *tables, *settings, "--out", "run"]) == 0, capsys.readouterr().err[-500:]
    assert main(["report", "run"]) == 0
    assert main(["predict", "run", "new.parquet", "--explain", "--explain-plot", "row.svg", "--out", "new.csv"]) == 0
    xml.dom.minidom.parse("row.svg")  # noqa: S318  the library wrote it
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert not [sign for sign in page if sign < " " and sign not in "\t\n\r"]
    card = (tmp_path / "run" / "card.md").read_text(encoding="utf-8")
    assert yaml.safe_load(card.split("---\n")[1])["library_name"] == "dpensemble"
    json.loads((tmp_path / "run" / "card.json").read_text(encoding="utf-8"))
    student = dpensemble.load_classifier(tmp_path / "run" / "student.skops")
    chances = student.predict_proba(new)
    assert np.array_equal(
        student.predict_proba(new.select(new.schema.names[::-1]).append_column("a further column", new["size"])),
        chances,
    )
    parts = student.explain(new).parts(0)
    assert {part.column for part in parts} <= set(new.schema.names)
    frame = public.to_pandas()
    model = dpensemble.LabelMomentsClassifier(classes=["no", "yes"], epsilon=4, delta=1e-4, insecure_release_seed=0)
    model.fit(private, labelled(private)["the target"], X_public=frame)
    assert np.array_equal(model.predict(new), model.predict(new.to_pandas()))


@pytest.fixture
def train(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 2))
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "sick": np.where(X[:, 0] > 0, "yes", "no")})
    frame[:600].to_csv(tmp_path / "private.csv", index=False)
    frame[600:].drop(columns="sick").to_csv(tmp_path / "public.csv", index=False)

    def train(*options, method="private-majority", teachers=("--teachers", 5)):
        given = ["train", "--private", tmp_path / "private.csv", "--public", tmp_path / "public.csv"]
        given += ["--target", "sick", "--classes", "no,yes", "--method", method, *teachers, "--delta", 1e-4]
        code = main([str(a) for a in [*given, "--out", tmp_path / "out", "--json", *options]])
        captured = capsys.readouterr()
        return code, captured.out, captured.err, tmp_path / "out"

    return train


def test_models_label_every_public_row_and_say_so(train, capsys):
    code, out, _, folder = train("--sharing", "partition", "--private-report")
    assert code == 0
    record = json.loads(out)
    assert record["method"] == "private-majority"
    assert record["labels"] == 300
    assert record["guarantee"]["epsilon"] == 1
    assert record["worst_case_spend"] == [[1, 1.0], [300, 1.0]]
    assert record["settings"]["teacher"] == "private logistic regression"
    assert (record["settings"]["law_name"], record["settings"]["noise_chosen"]) == ("majority", "none")
    assert "Majority of private teachers" in (folder / "report.html").read_text()
    assert main(["report", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert "Noise: none on the votes" in shown
    assert "use the rest of the budget" not in shown


def test_it_has_eleven_teachers_unless_told_otherwise(train, capsys):
    code, out, _, folder = train(teachers=())
    assert code == 0
    record = json.loads(out)
    assert record["settings"]["n_teachers"] == 11
    assert 0.999 < record["guarantee"]["epsilon"] <= 1
    # All of them learn all 600 records.
    assert main(["report", str(folder)]) == 0
    assert "use fewer teachers" not in capsys.readouterr().out


@pytest.mark.parametrize("teachers", ["ballots", "fresh-models"])
def test_noisy_answers_spend_the_budget(train, teachers):
    code, out, _, _ = train(
        "--private-teachers", teachers, "--teacher-epsilon", 0.5, "--max-labels", 10, "--law", "sub"
    )
    assert code == 0
    record = json.loads(out)
    assert record["labels"] == 10
    assert (record["settings"]["law_name"], record["settings"]["noise_chosen"]) == ("sub", "fitted")
    assert 0.99 < record["guarantee"]["epsilon"] <= 1
    assert len(record["worst_case_spend"]) == 10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--sigma", 3), "No such option: --sigma"),
        (("--analysis", "data-dependent"), "No such option: --analysis"),
        (("--law", "darrm"), "does not compose over answers"),
        (("--private-teachers", "ballots"), "max_labels=None"),
        (
            ("--private-teachers", "ballots", "--max-labels", 5, "--teacher-epsilon", 0),
            "--teacher-epsilon: teacher_privacy=0.0 is not a number",
        ),
        (("--rule", "solved"), "it belongs to the methods upsampling-pate"),
        (("--partitions", 3), "it belongs to the method dpbag"),
    ],
)
def test_options_that_contradict_it(train, options, message):
    code, _, err, folder = train(*options)
    assert code == 2
    assert message in " ".join(err.split())
    assert not folder.exists()


@pytest.mark.parametrize("option", ["--sharing=partition", "--private-teachers=ballots", "--teacher-epsilon=1"])
def test_its_options_are_for_it_alone(train, option):
    code, _, err, _ = train(option, method="gnmax")
    assert code == 2
    assert f"{option.split('=')[0]}; it belongs to the method private-majority" in err


def test_there_is_no_plan_for_it(capsys):
    assert main(["plan", "--method", "private-majority"]) == 2
    assert "has no plan" in capsys.readouterr().err


@pytest.fixture
def train_soft_votes(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 2))
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "sick": np.where(X[:, 0] > 0, "yes", "no")})
    frame["who"] = np.arange(900) // 2
    frame[:700].to_csv(tmp_path / "private.csv", index=False)
    frame[700:].drop(columns=["sick", "who"]).to_csv(tmp_path / "public.csv", index=False)

    def train_soft_votes(*options):
        given = ["train", "soft-votes", "--private", tmp_path / "private.csv", "--public", tmp_path / "public.csv"]
        given += ["--target", "sick", "--classes", "no,yes", "--unit", "who", "--teachers", 50, "--delta", 1e-4]
        code = main([str(a) for a in [*given, "--out", tmp_path / "out", *options]])
        captured = capsys.readouterr()
        return code, captured.out, captured.err, tmp_path / "out"

    return train_soft_votes


@pytest.mark.parametrize("answers", ["probabilities", "parameters"])
def test_a_run_says_what_was_released(train_soft_votes, capsys, answers):
    code, out, _, folder = train_soft_votes("--answers", answers, "--seed", 1, "--json")
    assert code == 0
    record = json.loads(out)
    assert record["method"] == "soft-votes"
    assert (record["labels"], record["worst_case_spend"]) == (200, [])
    assert 0.999 < record["guarantee"]["epsilon"] <= 1
    assert record["guarantee"]["unit"] == "unit"
    settings = record["settings"]
    assert (settings["answers"], settings["n_teachers"], settings["rounds"]) == (answers, 50, 1)
    page = (folder / "report.html").read_text()
    assert "Every teacher" in page
    assert ("divided by the number of teachers" in page) == (answers == "parameters")
    assert "No unit was asked" not in page
    assert (folder / "certificate.json").exists()
    assert pd.read_csv(folder / "labels.csv").columns.tolist() == ["row", "label"]
    assert main(["report", str(folder)]) == 0
    assert "each of 50 teachers adds one vector" in capsys.readouterr().out


def test_what_it_has_not_is_refused(train_soft_votes, capsys):
    for options in (["--private-report"], ["--law", "gnmax"], ["--answers", "votes"]):
        code, _, err, folder = train_soft_votes(*options)
        assert code == 2
        assert err
        assert not folder.exists()
    assert main(["plan", "soft-votes"]) == 2
    assert "has no plan" in capsys.readouterr().err


@pytest.mark.parametrize("classes", [[], ["--classes", "no"]])
def test_missing_or_wrong_classes_are_refused_before_the_folder_is_claimed(tmp_path, monkeypatch, capsys, classes):
    monkeypatch.setattr("dpensemble.workflow.disk.step", pytest.fail)
    files = ["--private", str(tmp_path / "private.csv"), "--public", str(tmp_path / "public.csv"), "--target", "y"]
    assert main(["train", *files, *classes, "--out", str(tmp_path / "new" / "run")]) == 2
    assert "classes" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
