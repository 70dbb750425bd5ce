"""``dpensemble serve --check`` and ``dpensemble keys``."""

import json

import pytest

from dpensemble.cli import main

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


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPENSEMBLE_STATE", str(tmp_path / "state"))
    assert main(["ledger", "create", "ledger.db"]) == 0
    assert main(["ledger", "open", "ledger.db", "patients", "--epsilon", "3", "--delta", "1e-5"]) == 0
    (tmp_path / "service.toml").write_text(CONFIG)
    capsys.readouterr()


def test_what_would_be_served_is_told(capsys):
    assert main(["keys", "create", "keys.json", "alice", "--scope", "read"]) == 0
    capsys.readouterr()
    assert main(["serve", "service.toml", "--check"]) == 0
    words = capsys.readouterr().out
    assert words.startswith("october: ")
    assert main(["serve", "service.toml", "--check", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert f"{found['remaining']:,} of {found['answers']:,} answers left" in words


def test_a_ledger_that_was_changed_is_not_served(capsys, tmp_path):
    assert main(["keys", "create", "keys.json", "alice", "--scope", "read"]) == 0
    buy_back(tmp_path / "ledger.db")
    capsys.readouterr()
    assert main(["serve", "service.toml", "--check"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "table dpensemble_charges of the ledger does not follow from its entries" in shown.err


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


def test_a_missing_configuration_and_half_of_tls_are_refused(capsys):
    main(["keys", "create", "keys.json", "alice", "--scope", "read"])
    assert main(["serve", "none.toml"]) == 2
    assert main(["serve", "service.toml", "--certificate", "x.pem"]) == 2
    assert "give both, or neither" in capsys.readouterr().err
