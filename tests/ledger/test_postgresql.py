"""The same ledger in PostgreSQL, on a server of the tests' own."""

import pytest
import sqlalchemy as sa

from dpensemble._spending import Spending
from dpensemble.errors import BudgetError, LedgerError
from dpensemble.ledger import Ledger

from .conftest import votes

pytestmark = pytest.mark.slow


@pytest.fixture
def address(postgresql):
    return postgresql.address


@pytest.fixture
def engine(address):
    engine = sa.create_engine(address.replace("postgresql://", "postgresql+psycopg://"))
    yield engine
    engine.dispose()


def test_a_budget_from_its_opening_to_its_end(address, engine):
    ledger = Ledger.create(address)
    account = ledger.open_account("patients", epsilon=1, delta=1e-5, filter="basic")
    one = [Spending(name="everyone", epsilon=0.6, delta=1e-9)]
    account.one_release("fit")(one)
    with pytest.raises(BudgetError, match=r"0.4 of 1 is left"):
        Ledger(address).account("patients").one_release("fit")(one)
    with pytest.raises(LedgerError, match="already"):
        Ledger.create(address)
    assert ledger.verify([ledger.checkpoint()]).grants == 1
    for statement in ("DELETE FROM dpensemble_charges", "UPDATE dpensemble_entries SET kind = 'x'"):
        with engine.connect() as raw, pytest.raises(sa.exc.DatabaseError, match="never changed"):
            raw.exec_driver_sql(statement)


def test_answers_are_told_again(address):
    account = Ledger.create(address).open_account("patients", epsilon=3, delta=1e-5)
    told = [votes(account.grant("g")).answer(counts=[50, 50], key=str(key)).label for key in range(8)]
    again = votes(Ledger(address).account("patients").grant("g"))
    assert [again.answer(counts=[50, 50], key=str(key)).label for key in range(8)] == told
    assert again.remaining() == 22


def test_what_was_cut_off_is_noticed(address, engine):
    ledger = Ledger.create(address)
    ledger.open_account("patients", epsilon=3, delta=1e-5)
    with engine.begin() as raw:
        raw.exec_driver_sql("DROP TRIGGER dpensemble_entries_kept ON dpensemble_entries")
        raw.exec_driver_sql("DELETE FROM dpensemble_entries WHERE number = 2")
    with pytest.raises(LedgerError, match="lacks entry 2"):
        Ledger(address)
