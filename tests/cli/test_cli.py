"""The command line as people and programs use it."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from dpensemble import load_classifier
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
        "target='ill' is not a column of the private table; of the public table's columns it has age, city.",
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
