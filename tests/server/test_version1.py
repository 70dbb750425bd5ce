"""A ledger that the first release of the format made: it opens, goes on, and decides by its entries."""

import json
import shutil
from pathlib import Path

import pytest

from dpensemble import Aggregator, Budget
from dpensemble.errors import BudgetError, DataError, TamperedLedgerError
from dpensemble.laws import GaussianNoisyMax
from dpensemble.server import Ledger

from .conftest import change

DATA = Path(__file__).parent / "data"
EXPECTED = json.loads((DATA / "version1.json").read_text())


@pytest.fixture
def old(tmp_path):
    """Return a copy of the file, with its key and its witness where they were."""
    state = tmp_path / "state"
    state.mkdir()
    shutil.copy(DATA / "version1.db", tmp_path / "ledger.db")
    for name in ("key", "witness"):
        shutil.copy(DATA / f"version1.{name}", state / f"{EXPECTED['id']}.{name}")
    return tmp_path / "ledger.db"


def october(ledger):
    return Aggregator(
        GaussianNoisyMax(80.0),
        ["no", "yes"],
        100,
        relation="replace-one",
        budget=Budget(epsilon=1, delta=1e-6),
        ledger=ledger.account("patients").grant("october"),
        answers=20,
    )


def test_it_opens_with_every_figure_as_it_was(old):
    ledger = Ledger(old)
    assert ledger.id == EXPECTED["id"]
    assert ledger.verify().entries == EXPECTED["entries"]
    assert [state.to_dict() for account in ledger.accounts() for state in account.states()] == EXPECTED["states"]


def test_answers_are_the_same_and_cost_nothing(old):
    votes = october(Ledger(old))
    for key, label in EXPECTED["labels"].items():
        again = votes.answer(counts=[50, 50], key=key)
        assert (again.label, again.replayed) == (label, True)
    with pytest.raises(DataError, match="other votes"):
        votes.answer(counts=[51, 49], key="row 1")
    assert votes.remaining() == 13
    votes.answer(counts=[50, 50], key="new")
    assert october(Ledger(old)).answer(counts=[50, 50], key="new").replayed
    assert october(Ledger(old)).remaining() == 12


def test_it_is_charged_and_refuses_as_before(old):
    ledger = Ledger(old)
    buildings = ledger.account("buildings")
    buildings.charge_budget("another table", Budget(epsilon=0.75, delta=1e-6))
    with pytest.raises(BudgetError, match="no further release fits"):
        buildings.charge_budget("a third", Budget(epsilon=0.01, delta=1e-9))
    assert Ledger(old).verify().entries == EXPECTED["entries"] + 1


def test_it_gets_the_triggers_of_this_release(old):
    ledger = Ledger(old)
    assert "'dpensemble ledger protect' adds the triggers" in ledger.check()[0]
    ledger.protect()
    assert ledger.check() == []
    ledger.protect()
    assert Ledger(old).verify().entries == EXPECTED["entries"]


def test_a_copied_request_of_version_1_gives_no_second_answer(old):
    change(
        old,
        "INSERT INTO dpensemble_requests SELECT data_set, grant_name, 'row 9', votes, 19 FROM dpensemble_requests "
        "WHERE request = 'row 1'",
    )
    with pytest.raises(TamperedLedgerError, match=r"'row 9'.*in no entry"):
        october(Ledger(old)).answer(counts=[50, 50], key="row 9")
    with pytest.raises(TamperedLedgerError, match="dpensemble_requests"):
        Ledger(old).verify()
