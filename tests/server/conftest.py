import io
import json
import os
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from dpensemble import Aggregator, Budget
from dpensemble._spending import Spending
from dpensemble.laws import GaussianNoisyMax
from dpensemble.server import Ledger, create_app, read_settings
from dpensemble.server.sign_in import KeyFile


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


CONFIG = """
ledger = "ledger.db"
keys = "keys.json"

[[grants]]
name = "october"
data_set = "patients"
about = "Whether a patient comes back."
law = { name = "gnmax", sigma = 200.0 }
classes = ["no", "yes"]
voters = 100
epsilon = 2
delta = 1e-6
answers = 60
unit = "patient"
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Return the folder of a service with a ledger and keys."""
    monkeypatch.setenv("DPENSEMBLE_STATE", str(tmp_path / "state"))
    Ledger.create(tmp_path / "ledger.db").open_account("patients", epsilon=3, delta=1e-5)
    (tmp_path / "service.toml").write_text(CONFIG)
    tokens = {
        name: KeyFile(tmp_path / "keys.json").create(name, scopes)[1]
        for name, scopes in {
            "alice": ["read", "predict"],
            "bob": ["predict"],
            "owner": ["own"],
            "prometheus": ["metrics"],
        }.items()
    }
    (tmp_path / "tokens.json").write_text(json.dumps(tokens))
    return tmp_path


class Served:
    """A service, what it logged, and who may ask it."""

    def __init__(self, home: Path) -> None:
        from starlette.testclient import TestClient

        self.home, self.log = home, io.StringIO()
        self.tokens = json.loads((home / "tokens.json").read_text())
        self.app = create_app(read_settings(home / "service.toml"), self.log)
        self.client = TestClient(self.app, base_url="https://testserver", raise_server_exceptions=True)

    def as_(self, who, key=None):
        """Return headers of a holder of a key."""
        return {"Authorization": f"Bearer {self.tokens[who]}"} | ({} if key is None else {"Idempotency-Key": key})

    def ask(self, key="row 1", who="alice", grant="october", **body):
        """Ask for answers."""
        body = body or {"counts": [[50, 50]]}
        return self.client.post(f"/v1/grants/{grant}/predictions", json=body, headers=self.as_(who, key))

    def get(self, path, who="alice"):
        """Get something."""
        return self.client.get(path, headers=self.as_(who) if who else {})

    @property
    def ledger(self):
        return Ledger(self.home / "ledger.db")

    def login(self, who="alice"):
        """Log in on the page."""
        found = self.client.post("/login", data={"key": self.tokens[who]}, follow_redirects=False)
        assert found.status_code == 303
        return found


@pytest.fixture
def two_grants(home):
    """Return a service of the grants october and december of one data set, and keys that are for october alone."""
    grant = CONFIG[CONFIG.index("[[grants]]") :].replace("epsilon = 2", "epsilon = 0.8")
    text = CONFIG.replace("epsilon = 2", "epsilon = 0.8") + grant.replace('"october"', '"december"')
    (home / "service.toml").write_text(text.replace("200.0", "400.0"))
    tokens = json.loads((home / "tokens.json").read_text())
    for name, scope in {"some": "read", "some_owner": "own", "counter": "metrics"}.items():
        tokens[name] = KeyFile(home / "keys.json").create(name, [scope], ["october"])[1]
    (home / "tokens.json").write_text(json.dumps(tokens))
    found = Served(home)
    with found.client:
        yield found


@pytest.fixture
def served(home):
    found = Served(home)
    with found.client:
        yield found
