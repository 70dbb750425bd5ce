import io
import json
from pathlib import Path

import pytest

from dpensemble.server import Ledger, create_app, read_settings
from dpensemble.server.sign_in import create_key

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
        name: create_key(tmp_path / "keys.json", name, scopes)[1]
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
        tokens[name] = create_key(home / "keys.json", name, [scope], ["october"])[1]
    (home / "tokens.json").write_text(json.dumps(tokens))
    found = Served(home)
    with found.client:
        yield found


@pytest.fixture
def served(home):
    found = Served(home)
    with found.client:
        yield found
