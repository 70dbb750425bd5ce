import os

import pytest

from dpensemble import Aggregator, Budget
from dpensemble.laws import GaussianNoisyMax
from dpensemble.ledger import Ledger


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
