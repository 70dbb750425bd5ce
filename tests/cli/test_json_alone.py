"""``--json`` of every command: standard output is one JSON document, with what compiled libraries print too."""

import ctypes
import json
import os
import shutil
import sys

import numpy as np
import pytest

from dpensemble.cli import main
from dpensemble.cli.app import methods_of
from dpensemble.cli.options import METHODS
from dpensemble.cli.static_commands import (
    KEYS,
    LEDGER,
    check,
    compare,
    gamma,
    predict,
    recover,
    report,
    serve,
    verify,
)

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")

TABLES = "--private private.csv --public public.csv --target y --classes 0,1 --delta 1e-4 --jobs 1 --seed 0"
SERVICE = """
ledger = "ledger.db"
keys = "keys.json"
[[grants]]
name = "october"
data_set = "patients"
law = "gnmax"
classes = ["no", "yes"]
voters = 100
epsilon = 2
delta = 1e-6
"""
# What a method needs beyond the tables, in `train` and in `plan`.
TRAINED = {
    "bagged-pate": "--teachers 40 --subsample 10",
    "dpbag": "--teachers 20 --partitions 1",
    "pate": "--teachers 40",
    "private-majority": "",
    "random-subspace": "--teachers 40",
    "saa": "--teachers 40 --certificate --private-report",
    "discriminant": "",
    "soft-votes": "--teachers 40",
    "upsampling-pate": "--teachers 40 --budgets 2:50%,4:50%",
    "vanishing-pate": "--teachers 40 --budgets 2:50%,4:50%",
    "weighting-pate": "--teachers 40 --budgets 2:50%,4:50%",
}
PLANNED = {"bagged-pate": "--records 6000", "bagging": "--records 6000 --delta 0.01"} | dict.fromkeys(
    ("upsampling-pate", "vanishing-pate", "weighting-pate"), "--teachers 60 --budgets high=1:50%,low=2:50%"
)
# Each after those above it.
LINES = {
    "gamma": "gamma --teachers 5 --epsilon 0.1 --m 2 --certificate gamma.json --plot gamma.svg",
    "verify": "verify gamma.json",
    "compare": "compare --table private.csv --target y --methods bagging --delta 0.1 --repeats 1 --seed 0 --jobs 1",
    "check": "check --private private.csv --public public.csv --target y --classes 0,1",
    "report": "report run --out page.html --registry entry.yaml",
    "predict": "predict run public.csv --proba --keep a",
    "recover": "recover killed",
    "ledger create": "ledger create ledger.db",
    "ledger open": "ledger open ledger.db patients --epsilon 3 --delta 1e-5",
    "ledger show": "ledger show ledger.db",
    "ledger verify": "ledger verify ledger.db",
    "ledger export": "ledger export ledger.db --out entries.jsonl",
    "ledger checkpoint": "ledger checkpoint ledger.db --out checkpoint.json",
    "ledger protect": "ledger protect ledger.db",
    "ledger charge": "ledger charge ledger.db patients --epsilon 0.1 --delta 1e-8 --what table",
    "ledger restored": "ledger restored ledger.db --checkpoint checkpoint.json --nothing-released",
    "ledger move": "ledger move ledger.db --to {to}",
    "ledger forget": "ledger forget ledger.db --id {id}",
    "keys create": "keys create keys.json alice --scope read",
    "keys list": "keys list keys.json",
    "keys revoke": "keys revoke keys.json {id}",
    "serve": "serve service.toml --check",
}


@pytest.fixture
def document(tmp_path, monkeypatch, capfd):
    """Run a command line, and return the one JSON document that it prints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPENSEMBLE_STATE", str(tmp_path / "state"))
    rng = np.random.default_rng(0)
    for name, columns, rows in (("private", "a,b,y", 800), ("public", "a,b", 300)):
        table = rng.normal(size=(rows, 2))
        labels = (table[:, :1] > 0).astype(int)
        table = np.hstack([table, labels]) if columns.endswith("y") else table
        np.savetxt(f"{name}.csv", table, delimiter=",", header=columns, comments="", fmt="%g")

    def document(line):
        code = main([*line.split(), "--json"])
        if sys.platform != "win32":
            # What a compiled library printed may wait in its own buffer.
            ctypes.CDLL(None).fflush(None)
        printed, errors = capfd.readouterr()
        assert code == 0, errors
        return json.loads(printed)

    return document


def test_every_command_has_a_line():
    others = {one.__name__ for one in (check, compare, gamma, report, recover, predict, verify, serve)}
    grouped = {f"{group} {name}" for group, names in (("ledger", LEDGER), ("keys", KEYS)) for name in names}
    assert set(LINES) == others | grouped
    assert set(TRAINED) | {"auto", "label-moments"} == set(methods_of("train"))
    assert set(PLANNED) <= set(methods_of("plan")) <= set(METHODS)


def test_gamma_and_verify(document):
    assert document(LINES["gamma"])["gamma"]
    assert document(LINES["verify"])["confirmed"] is True


def test_check(document):
    assert document(LINES["check"])["records"] == 800


@pytest.mark.parametrize("method", methods_of("plan"))
def test_plan(document, method):
    found = document(f"plan {method} {PLANNED.get(method, '--teachers 60')}")
    assert "delta" in found


def test_train_report_and_predict(document, tmp_path):
    assert document(f"train label-moments {TABLES.replace('--jobs 1 ', '')} --out run")["method"] == "label-moments"
    assert document(LINES["report"])
    assert len(document(LINES["predict"])) == 300
    (tmp_path / ".dpensemble-killed").mkdir()
    assert document(LINES["recover"])["placed"] is False


@pytest.mark.parametrize("method", [*TRAINED, "auto"])
@pytest.mark.filterwarnings("ignore:public rows do not look:UserWarning")
def test_train(document, method):
    options = TRAINED.get(method, "")
    found = document(f"train {method} {TABLES if options else TABLES.replace('--jobs 1 ', '')} {options} --out run")
    assert found["settings"]


def test_ledger_keys_and_service(document, tmp_path):
    ledger = document(LINES["ledger create"])
    for name in ("open", "charge", "show", "verify", "export", "checkpoint", "protect"):
        assert document(LINES[f"ledger {name}"]) is not None
    # A copy of the state folder knows no ledger.
    (witness,) = (tmp_path / "state").glob("*.witness")
    shutil.copy(witness, "copy")
    os.replace("copy", witness)
    assert document(LINES["ledger restored"])
    made = document(LINES["keys create"])
    assert document(LINES["keys list"])
    (tmp_path / "service.toml").write_text(SERVICE)
    assert document(LINES["serve"])
    assert document(LINES["keys revoke"].format(**made)) is not None
    assert document(LINES["ledger forget"].format(**ledger)) is not None


def test_a_ledger_moves(document, postgresql):
    assert document(LINES["ledger create"])
    assert document(LINES["ledger move"].format(to=postgresql.address))


def test_compare(document):
    assert document(LINES["compare"])["methods"]
