"""``serve --check``, ``keys``, ``ledger`` and ``train --ledger``, and the extras that they name.

``--json`` of every command: standard output is one JSON document, with what compiled libraries print too.
"""

import ctypes
import json
import os
import shutil
import sys
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest

from dpensemble.cli import main
from dpensemble.cli.app import methods_of
from dpensemble.cli.options import METHODS
from dpensemble.cli.static_commands import (
    KEYS,
    LEDGER,
    check,
    compare,
    doctor,
    gamma,
    predict,
    recover,
    report,
    serve,
    verify,
)

from ..server.conftest import buy_back

CONFIG = """
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


@pytest.fixture
def _here(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPENSEMBLE_STATE", str(tmp_path / "state"))
    assert main(["ledger", "create", "ledger.db"]) == 0
    assert main(["ledger", "open", "ledger.db", "patients", "--epsilon", "3", "--delta", "1e-5"]) == 0
    (tmp_path / "service.toml").write_text(CONFIG)
    capsys.readouterr()


@pytest.mark.usefixtures("_here")
def test_what_would_be_served_is_told(capsys):
    assert main(["keys", "create", "keys.json", "alice", "--scope", "read"]) == 0
    capsys.readouterr()
    assert main(["serve", "service.toml", "--check"]) == 0
    words = capsys.readouterr().out
    assert words.startswith("october: ")
    assert main(["serve", "service.toml", "--check", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert f"{found['remaining']:,} of {found['answers']:,} answers left" in words


@pytest.mark.usefixtures("_here")
def test_a_ledger_that_was_changed_is_not_served(capsys, tmp_path):
    assert main(["keys", "create", "keys.json", "alice", "--scope", "read"]) == 0
    buy_back(tmp_path / "ledger.db")
    capsys.readouterr()
    assert main(["serve", "service.toml", "--check"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "table dpensemble_charges of the ledger does not follow from its entries" in shown.err


@pytest.mark.usefixtures("_here")
def test_keys_are_made_listed_and_revoked(capsys):
    made = ["keys", "create", "keys.json", "alice", "--scope", "read", "--scope", "predict", "--grant", "october"]
    assert main([*made, "--days", "30", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["key"].startswith(f"dpe_{found['id']}_")
    assert (found["scopes"], found["grants"]) == (["predict", "read"], ["october"])
    assert main(["keys", "list", "keys.json"]) == 0
    assert "alice, may predict, read, for october, until " in capsys.readouterr().out
    assert main(["keys", "revoke", "keys.json", found["id"]]) == 0
    assert main(["keys", "list", "keys.json"]) == 0
    assert capsys.readouterr().out.endswith("keys.json has no keys.\n")
    assert main(["keys", "revoke", "keys.json", "x"]) == 2


@pytest.mark.usefixtures("_here")
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("voters = 100", "", "grant 'october' lacks voters: add it."),
        ("voters = 100", "voters = 100\nsigma = 3", "'sigma' is unknown"),
        ("voters = 100", "voters = 0", "voters=0 is not an integer"),
        ('"gnmax"', '"magic"', "law='magic' is unknown"),
        ('"gnmax"', '{ name = "gnmax", scale = 3 }', "is not a setting of law='gnmax'"),
        ('"gnmax"', '{ name = "sparse-gnmax", sigma = 3 }', "takes sigma, threshold"),
        ('"gnmax"', "3", "law must be a name, or a table"),
        ('"patients"', '"doctors"', "data_set='doctors' has no account"),
        ('name = "october"', 'name = "a b"', "name must be 1 to 60 letters"),
        ('keys = "keys.json"', "keys = 3", "keys must be a text; got 3"),
        ('keys = "keys.json"', 'keys = "other.json"', "dpensemble keys create"),
        ("[[grants]]", "[grants]", "has no [[grants]]"),
        ("[[grants]]", "[[grants", "must be TOML"),
        ("epsilon = 2", "epsilon = 1e-6", "answers need"),
        ('"ledger.db"', '"none.db"', "there is no ledger in"),
    ],
)
def test_a_wrong_configuration_is_refused_in_one_sentence(capsys, tmp_path, old, new, message):
    main(["keys", "create", "keys.json", "alice", "--scope", "read"])
    text = CONFIG.replace(old, new, 1)
    assert text != CONFIG
    (tmp_path / "service.toml").write_text(text)
    capsys.readouterr()
    assert main(["serve", "service.toml", "--check"]) == 2
    errors = capsys.readouterr().err
    assert message in errors
    assert errors.count("\n") == 1


@pytest.mark.usefixtures("_here")
def test_a_missing_configuration_and_half_of_tls_are_refused(capsys):
    main(["keys", "create", "keys.json", "alice", "--scope", "read"])
    assert main(["serve", "none.toml"]) == 2
    assert main(["serve", "service.toml", "--certificate", "x.pem"]) == 2
    assert "give both, or neither" in capsys.readouterr().err


@pytest.fixture
def _ledger_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPENSEMBLE_STATE", str(tmp_path / "state"))


def run(capsys, line):
    code = main(line.split())
    shown = capsys.readouterr()
    return code, shown.out, shown.err


@pytest.mark.usefixtures("_ledger_here")
def test_an_account_from_its_opening_to_a_checkpoint(capsys, tmp_path):
    assert run(capsys, "ledger create ledger.db")[0] == 0
    code, out, _ = run(capsys, "ledger open ledger.db patients --epsilon 3 --delta 1e-5 --order 16")
    assert code == 0
    assert "100.0% left" in out
    code, out, _ = run(capsys, "ledger show ledger.db --json")
    assert [one["whom"] for one in json.loads(out)] == ["everyone"]
    assert run(capsys, "ledger checkpoint ledger.db --out kept.json")[0] == 0
    code, out, _ = run(capsys, "ledger verify ledger.db --checkpoint kept.json")
    assert (code, "The ledger holds: 2 entries, 1 accounts" in out) == (0, True)
    assert run(capsys, "ledger export ledger.db --out all.jsonl")[0] == 0
    lines = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["ledger", "account"]


@pytest.mark.usefixtures("_ledger_here")
@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("ledger show none.db", "there is no ledger"),
        ("ledger create ledger.db", "already"),
        ("ledger open ledger.db patients --epsilon 1 --delta 1e-5", "is already open"),
        ("ledger open ledger.db others --epsilon 1", "--delta is missing"),
        ("ledger open ledger.db patients --epsilon 1 --group few", "whom='few' cannot have a separate account"),
        ("ledger forget ledger.db --id other", "id='other' is not the ledger"),
        ("ledger open ledger.db others --epsilon nan --delta 1e-5", "epsilon=nan"),
        ("ledger open ledger.db others --epsilon 1 --delta 1e-5 --filter none", "filter='none'"),
        ("ledger verify ledger.db --checkpoint none.json", "cannot be read as a checkpoint"),
        ("ledger export ledger.db --out none/all.jsonl", "cannot be written"),
        ("ledger", "Missing command"),
        ("train --dataset adult --out out --ledger ledger.db", "--ledger and --data-set go together"),
        ("train --dataset adult --out out --ledger ledger.db --data-set others", "there are 'patients'"),
        ("train --dataset adult --out out --ledger none.db --data-set others", "there is no ledger"),
    ],
)
def test_bad_input_ends_with_code_2_and_a_sentence(capsys, line, told):
    run(capsys, "ledger create ledger.db")
    run(capsys, "ledger open ledger.db patients --epsilon 3 --delta 1e-5")
    code, _, err = run(capsys, line)
    assert code == 2
    assert told in err


@pytest.mark.usefixtures("_ledger_here")
def test_a_ledger_that_was_changed_shows_no_figures(capsys, tmp_path):
    run(capsys, "ledger create ledger.db")
    run(capsys, "ledger open ledger.db patients --epsilon 3 --delta 1e-5")
    buy_back(tmp_path / "ledger.db")
    for command in ("show", "verify", "protect"):
        code, out, err = run(capsys, f"ledger {command} ledger.db")
        assert (code, out) == (2, "")
        assert "table dpensemble_charges of the ledger does not follow from its entries" in err


@pytest.mark.usefixtures("_ledger_here")
def test_a_ledger_is_given_up_by_its_id(capsys, tmp_path):
    found = json.loads(run(capsys, "ledger create ledger.db --json")[1])
    for path in tmp_path.glob("ledger.db*"):
        path.unlink()
    code, _, err = run(capsys, "ledger create ledger.db")
    assert (code, f"--id {found['id']}" in err) == (2, True)
    assert run(capsys, f"ledger forget ledger.db --id {found['id']}")[0] == 0
    assert run(capsys, "ledger create ledger.db")[0] == 0
    assert run(capsys, "ledger protect ledger.db")[0] == 0


@pytest.mark.usefixtures("_ledger_here")
def test_train_pays_and_is_refused_when_the_budget_is_gone(capsys, tmp_path):
    run(capsys, "ledger create ledger.db")
    run(capsys, "ledger open ledger.db patients --epsilon 1.5 --delta 1e-5")
    rng = np.random.default_rng(0)
    for name in ("private", "public"):
        table = pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "b"])
        table["y"] = (table["a"] > 0).astype(int)
        table.to_csv(f"{name}.csv", index=False)
    train = (
        "train label-moments --private private.csv --public public.csv --target y --classes 0,1 --epsilon 1 --quiet "
        "--ledger ledger.db --data-set patients --out"
    )
    assert run(capsys, f"{train} first")[0] == 0
    code, _, err = run(capsys, f"{train} second")
    assert code == 2
    assert "ledger: this release takes 0.467038" in err
    # Nothing was spent, so no account of a spend exists either.
    assert not (tmp_path / "second").exists()
    assert not list(tmp_path.glob(".dpensemble-*"))
    assert "43.4% left" in run(capsys, "ledger show ledger.db")[1]


TRAIN = "train --dataset adult --epsilon 1 --out out --ledger ledger.db --data-set people"


class Hidden:
    """A finder that no import of one package gets past."""

    def __init__(self, package):
        self.package = package

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == self.package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@contextmanager
def hidden(package):
    """Hide a package in the block. Afterwards every module of ours is the one that other tests know."""
    before = dict(sys.modules)
    # An import binds a module as an attribute of its package, too.
    ours = {name: vars(module).copy() for name, module in before.items() if name.split(".")[0] == "dpensemble"}
    # Both the hidden package and modules of ours that have imported it are imported again.
    for name in before:
        if name.partition(".")[0] == package or name.startswith("dpensemble.server"):
            del sys.modules[name]
    finders = sys.meta_path
    sys.meta_path = [Hidden(package), *finders]
    try:
        yield
    finally:
        sys.meta_path = finders
        for name in [name for name, module in sys.modules.items() if before.get(name) is not module]:
            parent, _, child = name.rpartition(".")
            if parent in ours:
                vars(before[parent]).pop(child, None)
            del sys.modules[name]
        sys.modules.update(before)
        for name, attributes in ours.items():
            vars(before[name]).update(
                {child: module for child, module in attributes.items() if f"{name}.{child}" in before}
            )


def test_modules_are_afterwards_what_they_were():
    """Otherwise tests that follow would plant faults in modules that no command uses."""
    from dpensemble import server
    from dpensemble.server import store

    with hidden("a package that nobody needs"):
        assert "dpensemble.server.store" not in sys.modules
        from dpensemble.server import store as another
    assert another is not store
    assert sys.modules["dpensemble.server.store"] is store
    assert (sys.modules["dpensemble"].server, server.store) == (server, store)


@pytest.mark.parametrize("package", ["sqlalchemy", "filelock", "cryptography"])
@pytest.mark.parametrize("command", ["ledger create ledger.db", "ledger show ledger.db", TRAIN])
def test_a_ledger_names_its_extra(package, command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with hidden(package):
        assert main(command.split()) == 2
    sentence = f'a ledger needs {package}, which is not installed: run pip install "dpensemble[ledger]".'
    assert capsys.readouterr().err == f"dpensemble: {sentence}\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("package", ["fastapi", "jwt", "prometheus_client", "uvicorn"])
@pytest.mark.parametrize("command", ["serve service.toml", "keys list keys.json"])
def test_the_service_names_its_extra(package, command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with hidden(package):
        assert main(command.split()) == 2
    sentence = f'the service needs {package}, which is not installed: run pip install "dpensemble[service]".'
    assert capsys.readouterr().err == f"dpensemble: {sentence}\n"


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
PLANNED = {
    "bagged-pate": "--records 6000",
    "bagging": "--records 6000 --delta 0.01",
    "label-moments": "--records 500 --columns 4 --public-rows 300",
} | dict.fromkeys(
    ("upsampling-pate", "vanishing-pate", "weighting-pate"), "--teachers 60 --budgets high=1:50%,low=2:50%"
)
# Each after those above it.
LINES = {
    "gamma": "gamma --teachers 5 --epsilon 0.1 --m 2 --certificate gamma.json --plot gamma.svg",
    "verify": "verify gamma.json",
    "compare": "compare --table private.csv --target y --methods bagging --delta 0.1 --repeats 1 --seed 0 --jobs 1",
    "doctor": "doctor",
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
    others = {one.__name__ for one in (check, compare, gamma, report, recover, predict, verify, doctor, serve)}
    grouped = {f"{group} {name}" for group, names in (("ledger", LEDGER), ("keys", KEYS)) for name in names}
    assert set(LINES) == others | grouped
    others = {"auto", "label-moments", "label-moments-regressor", "label-moments-survival"}
    assert set(TRAINED) | others == set(methods_of("train"))
    assert set(PLANNED) <= set(methods_of("plan")) <= set(METHODS)


def test_gamma_and_verify(document):
    assert document(LINES["gamma"])["gamma"]
    assert document(LINES["verify"])["confirmed"] is True


def test_doctor(document):
    assert document(LINES["doctor"])["problems"] == []


def test_check(document):
    assert document(LINES["check"])["records"] == 800


@pytest.mark.parametrize("method", methods_of("plan"))
def test_plan(document, method):
    found = document(f"plan {method} {PLANNED.get(method, '--teachers 60')}")
    assert "delta" in (found["sizes"][0] if method == "label-moments" else found)


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
