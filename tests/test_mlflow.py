"""Only what may be shared of a run is logged, also if its folder holds more, and only of runs that may be shared."""

import json
import re
import shutil
import sys
import types
from itertools import count

import numpy as np
import pytest

from dpensemble import Ledger, load_classifier
from dpensemble.cli import main
from dpensemble.errors import DPEnsembleError, FileError
from dpensemble.mlflow import log_run
from dpensemble.workflow.outputs import RunFile

# An odd number of records, which no other number in a document of the run is likely to equal.
N_RECORDS = 877
CANARY = "KANARIE"
SCORES = {"accuracy": 0.7351829, "auroc": 0.8351829, "auprc": 0.9351829, "brier": 0.1351829}
PUBLIC_FILES = {"card.json", "card.md", "certificate.json", "labels.csv", "report.html", "student.skops"}
TRAIN = (
    "train saa --private private.csv --public public.csv --test test.csv --target y --classes no,yes --delta 1e-4 "
    "--teachers 40 --jobs 1 --seed 0 --certificate --private-report --relation add-or-remove-one --log-json log --quiet"
)


class Client:
    """A client of MLflow that remembers what it was given."""

    def __init__(self, uri=None):
        self.logged = {"uri": uri, "metrics": {}, "tags": {}, "files": {}, "runs": [], "ended": []}
        Client.last = self

    def get_experiment_by_name(self, name):
        return None

    def create_experiment(self, name):
        self.logged["experiment"] = name
        return "7"

    def create_run(self, experiment_id, run_name):
        self.logged["runs"].append(run_name)
        return types.SimpleNamespace(info=types.SimpleNamespace(run_id="new"))

    def log_metric(self, run_id, name, value):
        self.logged["metrics"][name] = value

    def set_tag(self, run_id, name, text):
        self.logged["tags"][name] = text

    def log_artifacts(self, run_id, folder):
        from pathlib import Path

        self.logged["files"] = {path.name: path.read_bytes() for path in Path(folder).rglob("*")}

    def set_terminated(self, run_id, status="FINISHED"):
        self.logged["ended"].append((run_id, status))


@pytest.fixture
def client(monkeypatch):
    """Stand in for MLflow, which takes seconds to import."""
    monkeypatch.setitem(sys.modules, "mlflow", types.SimpleNamespace(MlflowClient=Client, active_run=lambda: None))
    Client.last = None


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Train once, charged to a ledger, with private test rows, in a folder whose name is secret."""
    folder = tmp_path_factory.mktemp(CANARY)
    rng = np.random.default_rng(0)
    for name, columns, rows in (("private", "a,b,y", N_RECORDS), ("public", "a,b", 300), ("test", "a,b,y", 331)):
        table = rng.normal(size=(rows, 2))
        lines = [",".join(f"{x:.3f}" for x in row) for row in table]
        if columns.endswith("y"):
            lines = [f"{line},{'yes' if row[0] > 0 else 'no'}" for line, row in zip(lines, table, strict=True)]
        (folder / f"{name}.csv").write_text("\n".join([columns, *lines]))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("DPENSEMBLE_STATE", str(folder / "state"))
        # The id of a ledger is random, and is on the page. It must not have the number of records among its digits.
        paths = (folder / f"{CANARY}{number}.ledger" for number in count())
        made = ((Ledger.create(path), path) for path in paths)
        ledger, path = next(one for one in made if str(N_RECORDS) not in one[0].id)
        ledger.open_account(f"{CANARY} patients", epsilon=10, delta=1e-3, relation="add-or-remove-one")
        charged = ["--ledger", str(path), "--data-set", f"{CANARY} patients"]
        assert main([*TRAIN.split(), *charged, "--out", "run"]) == 0
    return folder / "run", ledger.id


@pytest.fixture
def run(trained, tmp_path):
    """Return a copy of the run, with canaries in every place that is private."""
    shutil.copytree(trained[0], tmp_path / f"{CANARY}-run")
    return plant(tmp_path / f"{CANARY}-run")


def plant(folder):
    record = json.loads((folder / "run.json").read_text())
    assert record["data"]["test_is_public"] is False
    record["student"] |= SCORES
    record["data"]["most_common_label"] = 0.5351829
    record["for_owner"] = {CANARY: 5351829}
    record["seconds"] |= {CANARY: 5351829.0}
    (folder / "run.json").write_text(json.dumps(record))
    for name in ("private.json", "private-report.html", "report.html", "card.json", "card.md", "notes.txt"):
        (folder / name).write_text(f"{CANARY} password=5351829")
    (folder / "report").mkdir()
    (folder / "report" / "run.json").write_text(CANARY)
    beside = folder.with_name(f".dpensemble-{folder.name}")
    beside.mkdir()
    (beside / "journal.json").write_text(CANARY)
    return folder


def edited(folder, change):
    record = json.loads((folder / "run.json").read_text())
    change(record)
    (folder / "run.json").write_text(json.dumps(record))
    return folder


def require_nothing_private(texts):
    """Raise if a canary, the exact scores or the number of records occurs in what was logged."""
    for where, text in texts.items():
        assert CANARY not in text, where
        assert "5351829" not in text, where
        # Pages round scores to three decimals.
        assert not re.search(r"0\.[7891]35\b|73\.5 ?%", text), where
        assert not re.search(rf"(?<![\d.]){N_RECORDS}(?!\d)", text), where


def test_what_may_be_shared_is_logged_and_nothing_else(client, run, trained):
    assert log_run(run, tracking_uri="http://mlflow") == "new"
    logged = Client.last.logged
    files = logged.pop("files")
    assert set(files) == PUBLIC_FILES
    assert files["student.skops"] == (run / "student.skops").read_bytes()
    assert files["labels.csv"] == (run / "labels.csv").read_bytes()
    assert json.loads(files["card.json"])["privacy"]["epsilon"] == logged["metrics"]["epsilon"]
    # Letters are searched in the archive of the student, too.
    require_nothing_private({name: content.decode("latin-1") for name, content in files.items()})
    assert logged["metrics"] == {"epsilon": 0.9983, "delta": 1e-4}
    assert set(logged["tags"]) == {"dpensemble.guarantee", "dpensemble.for_release", "dpensemble.ledger_id"}
    assert logged["tags"]["dpensemble.ledger_id"] == trained[1]
    assert logged["tags"]["dpensemble.for_release"] == "true"
    assert logged["tags"]["dpensemble.guarantee"].startswith("Differential privacy with epsilon = 0.9983 ")
    assert logged["ended"] == [("new", "FINISHED")]
    assert (logged["uri"], logged["experiment"]) == ("http://mlflow", "dpensemble")
    require_nothing_private({"all": json.dumps(logged)})


def test_the_check_for_private_content_can_fail(run):
    for text in ("0.735", "73.5 %", f"of {N_RECORDS} records", CANARY):
        with pytest.raises(AssertionError):
            require_nothing_private({"here": text})
    require_nothing_private({"here": f"1.{N_RECORDS} and 0.7352 and {N_RECORDS}1"})
    assert {path.name for path in run.iterdir()} > set(RunFile) - {RunFile.LIFE_TABLE}


def test_exact_scores_are_logged_when_the_test_rows_are_public(client, run):
    log_run(edited(run, lambda record: record["data"].update(test_is_public=True)))
    assert Client.last.logged["metrics"] == SCORES | {"epsilon": 0.9983, "delta": 1e-4}


def test_a_given_run_or_the_active_run_is_used_and_stays_open(client, run, monkeypatch):
    assert log_run(run, run_id="mine") == "mine"
    active = types.SimpleNamespace(info=types.SimpleNamespace(run_id="active"))
    monkeypatch.setattr(sys.modules["mlflow"], "active_run", lambda: active)
    assert log_run(run) == "active"
    assert Client.last.logged["runs"] == Client.last.logged["ended"] == []
    # An active run is in the storage of the program, and not in another one.
    assert log_run(run, tracking_uri="http://mlflow") == "new"


def test_a_new_run_that_could_not_be_filled_is_marked_as_failed(client, run, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Client, "log_artifacts", full)
    with pytest.raises(OSError, match="space"):
        log_run(run)
    assert Client.last.logged["ended"] == [("new", "FAILED")]


def seeded(record):
    record["guarantee"]["for_release"] = False


def until_spent(record):
    record["guarantee"] |= {"basis": "data-dependent", "fixed_number": False}


def with_baseline(record):
    record["baseline"] = dict(record["student"])


@pytest.mark.parametrize(
    ("change", "reason"),
    [(seeded, "came from a seed"), (until_spent, "until-spent"), (with_baseline, "baseline without privacy")],
)
def test_a_run_that_may_not_be_shared_is_refused(client, run, change, reason):
    with pytest.raises(FileError, match=f"may not be shared.*{reason}"):
        log_run(edited(run, change))
    assert Client.last is None


def test_an_experiment_is_logged_on_request_but_never_a_secret_number_of_labels(client, run):
    log_run(edited(run, with_baseline), allow_experiment=True)
    require_nothing_private({name: text.decode("latin-1") for name, text in Client.last.logged["files"].items()})
    Client.last = None
    with pytest.raises(FileError, match="until-spent"):
        log_run(edited(run, until_spent), allow_experiment=True)
    assert Client.last is None


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("labels.csv", None, "cannot be read"),
        ("labels.csv", "row,label,age\n", "labels and no more"),
        ("labels.csv", f"row,label\n0,no\n{CANARY},no\n", "labels and no more"),
        ("labels.csv", b"\xff\xfe\x00", "labels and no more"),
        ("certificate.json", "[]", "is not a certificate"),
        ("certificate.json", "{", "is not a certificate"),
        ("certificate.json", None, "cannot be read"),
        ("student.skops", "no archive", "student.skops"),
        ("student.skops", None, "student.skops"),
        ("run.json", "{}", "run.json|run record"),
        ("run.json", None, "holds no run"),
    ],
)
def test_a_folder_with_a_broken_file_is_refused_before_anything_is_logged(client, run, name, content, reason):
    (run / name).unlink()
    if content is not None:
        (run / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DPEnsembleError, match=reason):
        log_run(run)
    assert Client.last is None


@pytest.mark.parametrize("line", [f"{{}},{CANARY}", "{},", f"{{}},no,{CANARY}", "{},no,true"])
def test_only_declared_labels_are_logged(client, run, line):
    lines = (run / "labels.csv").read_text().splitlines()
    head = "row,label,for_release" if line.count(",") == 2 else "row,label"
    usual = [f"{one},false" if line.count(",") == 2 else one for one in lines[1:]]
    (run / "labels.csv").write_text("\n".join([head, *usual]))
    log_run(run)
    Client.last = None
    (run / "labels.csv").write_text("\n".join([head, line.format(0), *usual[1:]]))
    with pytest.raises(FileError, match="labels and no more"):
        log_run(run)
    assert Client.last is None


def test_a_link_to_a_private_file_is_not_followed(client, run):
    (run / "labels.csv").unlink()
    (run / "labels.csv").symlink_to(run / "run.json")
    with pytest.raises(FileError, match="it is a link"):
        log_run(run)
    assert Client.last is None


def test_a_student_of_a_seeded_run_is_not_logged_as_one_for_release(client, run):
    from dpensemble import save_classifier
    from dpensemble.student import marked

    save_classifier(marked(load_classifier(run / "student.skops"), for_release=False), run / "student.skops")
    with pytest.raises(FileError, match="is of another run"):
        log_run(run)
    assert Client.last is None


def test_without_mlflow_the_error_names_what_to_install(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(DPEnsembleError, match=re.escape('pip install "dpensemble[mlflow]"')):
        log_run(run)


def test_a_real_storage_holds_no_path_no_user_and_nothing_private(run, tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("USER", CANARY)
    monkeypatch.setenv("LOGNAME", CANARY)
    storage = tmp_path / "storage"
    there = log_run(run, tracking_uri=storage.as_uri())
    (folder,) = storage.glob(f"*/{there}")
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    tags = {"guarantee", "for_release", "ledger_id"}
    assert set(files) == (
        {f"artifacts/{name}" for name in PUBLIC_FILES}
        | {"meta.yaml", "metrics/epsilon", "metrics/delta", "tags/mlflow.runName"}
        | {f"tags/dpensemble.{name}" for name in tags}
    )
    # The storage writes its own place there.
    about = files.pop("meta.yaml").decode().replace(storage.as_uri(), "")
    assert "run_name: Predicting y" in about
    require_nothing_private({"meta.yaml": about} | {name: text.decode("latin-1") for name, text in files.items()})
    assert "status: 3" in about
