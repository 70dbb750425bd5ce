"""The same ledger in PostgreSQL; needs an empty database, as ``DPENSEMBLE_TEST_POSTGRESQL=postgresql://...``."""

import os

import pytest
import sqlalchemy as sa

from dpensemble._spending import Spending
from dpensemble.errors import BudgetError, LedgerError
from dpensemble.ledger import Ledger
from dpensemble.ledger.store import _METADATA

from .conftest import votes

ADDRESS = os.environ.get("DPENSEMBLE_TEST_POSTGRESQL", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not ADDRESS, reason="DPENSEMBLE_TEST_POSTGRESQL names no empty PostgreSQL database"),
]


@pytest.fixture
def engine():
    engine = sa.create_engine(ADDRESS.replace("postgresql://", "postgresql+psycopg://"))
    _METADATA.drop_all(engine)
    yield engine
    _METADATA.drop_all(engine)
    engine.dispose()


def test_a_budget_from_its_opening_to_its_end(engine):
    ledger = Ledger.create(ADDRESS)
    account = ledger.open_account("patients", epsilon=1, delta=1e-5, filter="basic")
    one = [Spending(name="everyone", epsilon=0.6, delta=1e-9)]
    account.one_release("fit")(one)
    with pytest.raises(BudgetError, match=r"0.4 of 1 is left"):
        Ledger(ADDRESS).account("patients").one_release("fit")(one)
    with pytest.raises(LedgerError, match="already"):
        Ledger.create(ADDRESS)
    assert ledger.verify([ledger.checkpoint()]).grants == 1
    for statement in ("DELETE FROM dpensemble_charges", "UPDATE dpensemble_entries SET kind = 'x'"):
        with engine.connect() as raw, pytest.raises(sa.exc.DatabaseError, match="never changed"):
            raw.exec_driver_sql(statement)


def test_answers_are_told_again(engine):
    account = Ledger.create(ADDRESS).open_account("patients", epsilon=3, delta=1e-5)
    told = [votes(account.grant("g")).answer(counts=[50, 50], key=str(key)).label for key in range(8)]
    again = votes(Ledger(ADDRESS).account("patients").grant("g"))
    assert [again.answer(counts=[50, 50], key=str(key)).label for key in range(8)] == told
    assert again.remaining() == 22


def test_what_was_cut_off_is_noticed(engine):
    ledger = Ledger.create(ADDRESS)
    ledger.open_account("patients", epsilon=3, delta=1e-5)
    with engine.begin() as raw:
        raw.exec_driver_sql("DROP TRIGGER dpensemble_entries_kept ON dpensemble_entries")
        raw.exec_driver_sql("DELETE FROM dpensemble_entries WHERE number = 2")
    with pytest.raises(LedgerError, match="lacks entry 2"):
        Ledger(ADDRESS)
