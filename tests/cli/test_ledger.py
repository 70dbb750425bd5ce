"""``dpensemble ledger`` and ``train --ledger``."""

import json

import numpy as np
import pandas as pd
import pytest

from dpensemble.cli import main

from ..server.conftest import buy_back


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPENSEMBLE_STATE", str(tmp_path / "state"))


def run(capsys, line):
    code = main(line.split())
    shown = capsys.readouterr()
    return code, shown.out, shown.err


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


def test_a_ledger_that_was_changed_shows_no_figures(capsys, tmp_path):
    run(capsys, "ledger create ledger.db")
    run(capsys, "ledger open ledger.db patients --epsilon 3 --delta 1e-5")
    buy_back(tmp_path / "ledger.db")
    for command in ("show", "verify", "protect"):
        code, out, err = run(capsys, f"ledger {command} ledger.db")
        assert (code, out) == (2, "")
        assert "table dpensemble_charges of the ledger does not follow from its entries" in err


def test_a_ledger_is_given_up_by_its_id(capsys, tmp_path):
    found = json.loads(run(capsys, "ledger create ledger.db --json")[1])
    for path in tmp_path.glob("ledger.db*"):
        path.unlink()
    code, _, err = run(capsys, "ledger create ledger.db")
    assert (code, f"--id {found['id']}" in err) == (2, True)
    assert run(capsys, f"ledger forget ledger.db --id {found['id']}")[0] == 0
    assert run(capsys, "ledger create ledger.db")[0] == 0
    assert run(capsys, "ledger protect ledger.db")[0] == 0


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
