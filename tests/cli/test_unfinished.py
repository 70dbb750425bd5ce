"""A run that fails after its charge is finished from what it has drawn. What can fail is tried before the charge."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpensemble.cli.train
import dpensemble.moments.learning  # noqa: F401 - patched by name
from dpensemble.cli import main
from dpensemble.errors import LedgerError
from dpensemble.server import Ledger
from dpensemble.workflow.disk import DrawnFile

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")

TEACHERS = ["--teachers", "12"]
METHODS = {
    "label-moments": [],
    "discriminant": ["--fill"],
    "soft-votes": [*TEACHERS, "--fill"],
    "pate": [*TEACHERS, "--fill"],
    "private-majority": [*TEACHERS, "--fill"],
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=500), "c": rng.choice(["a", "b", "any other"], size=500)})
    table["y"] = (table["x"] > 0).astype(int)
    table[:300].to_csv(tmp_path / "private.csv", index=False)
    table[300:].drop(columns="y").to_csv(tmp_path / "public.csv", index=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPENSEMBLE_STATE", str(tmp_path / "state"))
    return tmp_path


def command(method, *more):
    line = f"train {method} --private private.csv --public public.csv --target y --classes 0,1 --epsilon 3 --delta 1e-3"
    return [*line.split(), *METHODS[method], "--quiet", "--out", "run", *more]


def drawn(folder):
    lines = (folder / ".dpensemble-run" / "drawn.jsonl").read_text().splitlines()
    groups = [one if isinstance(one, list) else [one] for one in map(json.loads, lines)]
    return [(one["name"], one["value"]) for group in groups for one in group]


def fail(*_, **__):
    raise ZeroDivisionError("Zaphod, 1942")


def break_step(put, step):
    """Let a function fail, or a method. Here `dpensemble.workflow.train` is a module, not the function.

    `put` is the fixture `plant`, or `setattr` of monkeypatch.
    """
    where, name = step.rsplit(".", 1)
    if where not in sys.modules:
        module, kind = where.rsplit(".", 1)
        put(getattr(sys.modules[module], kind), name, fail)
    else:
        put(sys.modules[where], name, fail)


@pytest.mark.parametrize(
    ("method", "more", "step"),
    [
        ("label-moments", [], "dpensemble.cli.train.write_outcome"),
        ("label-moments", ["--holdout-score", "0.2"], "dpensemble.workflow.train.scored"),
        ("label-moments", [], "dpensemble.moments.learning._Rounds.fit"),
        ("soft-votes", ["--holdout-score", "0.2"], "dpensemble.workflow.train._certified"),
        ("pate", ["--holdout-score", "0.2"], "dpensemble.workflow.outputs.render"),
        ("pate", [], "dpensemble.student.Learner.fit"),
        ("private-majority", [], "dpensemble.workflow.train.label_shares"),
    ],
)
def test_a_run_is_finished_without_a_second_charge(folder, capsys, monkeypatch, method, more, step):
    ledger = Ledger.create(folder / "ledger.db")
    account = ledger.open_account("people", epsilon=9.0, delta=1e-2)
    more = [*more, "--ledger", "ledger.db", "--data-set", "people"]
    with monkeypatch.context() as patched:
        patched.setattr("dpensemble.cli.train.rehearse", lambda *_, **__: None)
        break_step(patched.setattr, step)
        assert main(command(method, *more)) == 1
    errors = capsys.readouterr().err
    assert "finishes the run from what it has drawn" in errors
    assert "Zaphod" not in errors
    spent, before = account.state().spent, drawn(folder)
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    with monkeypatch.context() as patched:
        values = []
        once = DrawnFile.once

        def watched(self, name, draw):
            values.append((name, once(self, name, draw)))
            return values[-1][1]

        patched.setattr(DrawnFile, "once", watched)
        assert main(["recover", "../run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["placed"], found["account"]) == (True, None)
    assert [name for name, _ in values[: len(before)]] == [name for name, _ in before]
    for (_, kept), (_, used) in zip(before, values, strict=False):
        assert (used.ravel().tolist() if isinstance(used, np.ndarray) else used) == (
            kept["array"] if isinstance(kept, dict) else kept
        )
    assert account.state().spent == spent
    assert json.loads((folder / "run" / "run.json").read_text())["guarantee"]["epsilon"] <= 3.0
    assert (folder / "run" / "student.skops").exists()
    assert not (folder / ".dpensemble-run").exists()


def unreachable(*_):
    raise LedgerError("the ledger cannot be read.")


def fail_at(patched, name):
    """Let the ledger's first transaction fail at a step."""
    failed = []

    def step(reached):
        if reached == name and not failed:
            failed.append(name)
            raise ZeroDivisionError

    patched.setattr("dpensemble.server.store.step", step)


@pytest.mark.parametrize(("step", "charged"), [("begun", False), ("added", False), ("committed", True)])
@pytest.mark.parametrize("can_look", [True, False])
def test_the_journal_tells_of_a_charge_before_the_ledger_is_charged(
    folder, capsys, monkeypatch, step, charged, can_look
):
    ledger = Ledger.create(folder / "ledger.db")
    account = ledger.open_account("people", epsilon=9.0, delta=1e-2)
    more = ["--ledger", "ledger.db", "--data-set", "people"]
    with monkeypatch.context() as patched:
        fail_at(patched, step)
        if not can_look:
            patched.setattr("dpensemble.server.account.LedgerAccount.has_release", unreachable)
        code = main(command("label-moments", *more))
    errors = capsys.readouterr().err
    # Where no user could look, recover does.
    assert code == 1
    assert ("nothing was written" in errors) != (charged or not can_look)
    assert ("may be charged to the ledger" in errors) == (charged or not can_look)
    assert (folder / ".dpensemble-run").exists() == (charged or not can_look)
    assert len(account.history()) == charged
    if not (charged or not can_look):
        return
    assert main(command("label-moments", *more)) == 2
    assert "checks the ledger" in capsys.readouterr().err
    assert main(["recover", "run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["placed"], found["account"]) == (charged, None)
    assert len(account.history()) == charged
    assert (folder / "run" / "run.json").exists() == charged
    assert not (folder / ".dpensemble-run").exists()


def test_a_ledger_that_refuses_leaves_no_journal(folder, capsys):
    account = Ledger.create(folder / "ledger.db").open_account("people", epsilon=1.0, delta=1e-2)
    assert main(command("label-moments", "--ledger", "ledger.db", "--data-set", "people")) == 2
    assert "nothing was charged" in capsys.readouterr().err
    assert account.history() == []
    assert not (folder / ".dpensemble-run").exists()


def test_the_charge_that_nobody_can_look_up_is_filed_as_one_that_may_be_spent(folder, capsys, monkeypatch):
    Ledger.create(folder / "ledger.db").open_account("people", epsilon=9.0, delta=1e-2)
    with monkeypatch.context() as patched:
        fail_at(patched, "committed")
        assert main(command("label-moments", "--ledger", "ledger.db", "--data-set", "people")) == 1
    capsys.readouterr()
    (folder / "ledger.db").rename(folder / "elsewhere.db")
    assert main(["recover", "run"]) == 2
    assert "there is no ledger" in capsys.readouterr().err
    assert main(["recover", "run", "--give-up", "--json"]) == 0
    assert "may be spent without a release" in json.loads(capsys.readouterr().out)["what"]
    assert not (folder / ".dpensemble-run").exists()


BAD_STEPS = [
    ("pate", ["--baseline"]),
    ("soft-votes", ["--baseline", "--holdout-score", "0.2"]),
    ("label-moments", ["--holdout-score", "0.2"]),
]


@pytest.mark.parametrize(("method", "more"), BAD_STEPS)
def test_blanks_of_private_records_stop_no_step_after_the_charge(folder, method, more):
    """Neither a baseline nor a score meets what the student does not take."""
    table = pd.read_csv("private.csv", dtype={"x": object})
    table[:50].to_csv("test.csv", index=False)
    table.loc[::9, "x"] = ""
    table.loc[4::9, "x"] = "much"
    table.to_csv("private.csv", index=False)
    without_fill = [
        one for one in command(method, "--student", "naive-bayes", "--test", "test.csv", *more) if one != "--fill"
    ]
    assert main(without_fill) == 0
    assert (folder / "run" / "run.json").exists()


@pytest.mark.parametrize("step", ["dpensemble.workflow.train.scored", "dpensemble.workflow.train._baseline_scores"])
def test_what_fails_for_a_bad_record_fails_in_the_rehearsal(folder, capsys, plant, step):
    """Stand-in records are as bad as private ones may be, so that a step that cannot take them costs nothing."""
    where, name = step.rsplit(".", 1)
    real = getattr(sys.modules[where], name)

    def takes_no_blanks(*given):
        private = next(one for one in given if hasattr(one, "X") or hasattr(one, "X_private"))
        rows = getattr(private, "X", None) if hasattr(private, "X") else private.X_private
        if rows.isna().to_numpy().any():
            raise ZeroDivisionError
        return real(*given)

    plant(sys.modules[where], name, takes_no_blanks)
    assert main(command("pate", "--baseline", "--holdout-score", "0.2")) == 1
    assert "nothing was written" in capsys.readouterr().err
    assert not (folder / ".dpensemble-run").exists()


def test_changed_inputs_are_refused_and_the_account_can_be_filed(folder, capsys, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("dpensemble.cli.train.write_outcome", fail)
        assert main(command("label-moments")) == 1
    with (folder / "private.csv").open("a") as file:
        file.write("1.0,a,1\n")
    capsys.readouterr()
    assert main(["recover", "run"]) == 2
    assert "private.csv has changed since the run" in capsys.readouterr().err
    # Nor does another content of the same size and time pass.
    data, times = (folder / "private.csv").read_bytes(), (folder / "private.csv").stat()
    (folder / "private.csv").write_bytes(data.replace(b"1.0,a,1\n", b""))
    (folder / "private.csv").write_bytes((folder / "private.csv").read_bytes().replace(b",a,", b",b,", 1))
    os.utime(folder / "private.csv", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert main(["recover", "run"]) == 2
    assert "private.csv has changed since the run" in capsys.readouterr().err
    assert main(["recover", "run", "--give-up", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["placed"], found["budgets"][0]["epsilon"]) == (False, 3.0)
    assert not (folder / ".dpensemble-run").exists()
    # Digests of private tables do not outlive the run, and nothing is left to finish.
    account = json.loads(Path(found["account"]).read_text())
    assert not {"command", "inputs", "working_folder"} & set(account["about"])
    assert "finishes the run" not in account["what"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "step",
    [
        "dpensemble.report.page._quality_view",
        "dpensemble.workflow.rehearsal.save_classifier",
        "dpensemble.workflow.run_record.RunRecord",
    ],
)
def test_steps_after_the_charge_are_rehearsed_before_it(folder, capsys, plant, method, step):
    """A page or a file that cannot be made costs nothing."""
    ledger = Ledger.create(folder / "ledger.db")
    account = ledger.open_account("people", epsilon=9.0, delta=1e-2)
    break_step(plant, step)
    assert main(command(method, "--ledger", "ledger.db", "--data-set", "people")) == 1
    assert "nothing was written" in capsys.readouterr().err
    assert account.state().spent.loss == 0
    assert not (folder / ".dpensemble-run").exists()
