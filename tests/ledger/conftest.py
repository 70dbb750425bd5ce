import os
import sqlite3
from dataclasses import replace

import pytest

from dpensemble import Aggregator, Budget
from dpensemble._spending import Spending
from dpensemble.laws import GaussianNoisyMax
from dpensemble.server import Ledger
from dpensemble.server.balances import canonical
from dpensemble.server.store import accounts


@pytest.fixture(autouse=True)
def _state(tmp_path, monkeypatch):
    monkeypatch.setenv("DPENSEMBLE_STATE", str(tmp_path / "state"))


@pytest.fixture
def where(tmp_path):
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(where):
    return Ledger.create(where)


@pytest.fixture
def patients(ledger):
    return ledger.open_account("patients", epsilon=3, delta=1e-5)


def open_group_as_before(ledger, data_set, whom, epsilon):
    """Open a group's account as earlier releases did. Their ledgers still have such accounts."""
    own = replace(ledger.account(data_set).state().terms, budget=Budget(epsilon=epsilon, delta=1e-5)).to_dict()
    with ledger.writing() as transaction:
        transaction.append("account", {"data_set": data_set, "whom": whom, "terms": own, "time": ""})
        transaction.add(accounts, data_set=data_set, whom=whom, terms=canonical(own))


def spend(account, epsilon=0.5, delta=1e-9, name="everyone", **rest):
    """Charge a release."""
    account.one_release("test")([Spending(name=name, epsilon=epsilon, delta=delta, **rest)])


def change(where, *statements, drop=True):
    """Change a ledger as any program that can write the file can."""
    with sqlite3.connect(where) as raw:
        triggers = raw.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers if drop else ():
            raw.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            raw.execute(*([statement] if isinstance(statement, str) else statement))
        for _, sql in triggers if drop else ():
            raw.execute(sql)
    raw.close()


def buy_back(where):
    """Insert a negative charge, as the owner of the file can."""
    with sqlite3.connect(where) as raw:
        raw.execute("PRAGMA ignore_check_constraints = ON")
        raw.execute("DROP TRIGGER dpensemble_charges_INSERT")
        raw.execute("INSERT INTO dpensemble_charges VALUES (1, 'patients', 'everyone', -5000000, 0)")
    raw.close()


def votes(grant, answers=30, sigma=60.0, seed=None):
    """Return an aggregator whose answers are nearly coins, so that a replay proves something."""
    return Aggregator(
        GaussianNoisyMax(sigma),
        ["no", "yes"],
        100,
        relation="replace-one",
        budget=Budget(epsilon=2, delta=1e-6),
        ledger=grant,
        answers=answers,
        insecure_release_seed=seed,
    )


def in_child(work):
    """Run `work` in a fork and return how it ended: an exit code, or minus a signal."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
