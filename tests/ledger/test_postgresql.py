"""The same ledger in PostgreSQL, on a server of the tests' own."""

import json
import shutil
import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from dpensemble._spending import Spending
from dpensemble.errors import BudgetError, LedgerError, TamperedLedgerError
from dpensemble.ledger import Ledger, store
from dpensemble.ledger.tables import METADATA

from .conftest import votes

DATA = Path(__file__).parent / "data"


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


@pytest.fixture
def writer(address, engine):
    """Return an engine with the rights that the documentation gives to the service's role."""

    def of(ledger):
        assert ledger.place
        with engine.begin() as raw:
            raw.exec_driver_sql("DROP ROLE IF EXISTS writer")
            raw.exec_driver_sql("CREATE ROLE writer LOGIN")
            raw.exec_driver_sql("GRANT USAGE ON SCHEMA public TO writer")
            raw.exec_driver_sql("GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA public TO writer")
        return sa.create_engine(
            address.replace("postgresql://postgres@", "postgresql+psycopg://writer@"), poolclass=NullPool
        )

    yield of
    with engine.begin() as raw:
        raw.exec_driver_sql("DROP OWNED BY writer")
        raw.exec_driver_sql("DROP ROLE writer")


def test_the_documented_role_buys_no_second_release(address, writer):
    ledger = Ledger.create(address)
    account = ledger.open_account("patients", epsilon=1, delta=1e-5, filter="basic")
    release = [Spending(name="everyone", epsilon=0.9, delta=1e-9)]
    account.one_release("fit")(release)
    role = writer(ledger)
    for statement, match in [
        ("INSERT INTO dpensemble_charges VALUES (3, 'patients', 'x', -900000, 0)", "not negative"),
        ("INSERT INTO dpensemble_charges VALUES (3, 'patients', 'everyone', 0, 0)", "row with this key"),
        ("INSERT INTO dpensemble_charges VALUES (3, 'patients', 'everyone', 0, 0) ON CONFLICT DO NOTHING", "this key"),
        ("INSERT INTO dpensemble_entries VALUES (9, 'grant', '{}', 'x', 'y')", "follows the newest"),
        ("DELETE FROM dpensemble_charges", "permission denied"),
    ]:
        with role.connect() as raw, pytest.raises(sa.exc.DatabaseError, match=match):
            raw.exec_driver_sql(statement)
    assert ledger.check() == []
    # A row that the triggers let pass decides nothing, and is reported.
    with role.begin() as raw:
        raw.exec_driver_sql("INSERT INTO dpensemble_charges VALUES (4, 'patients', 'everyone', 0, 0)")
    with pytest.raises(TamperedLedgerError, match="dpensemble_charges"):
        ledger.check()
    with pytest.raises(TamperedLedgerError, match="dpensemble_charges"):
        Ledger(address).account("patients").one_release("fit")(release)
    assert account.state().left.loss == 100_000


def test_dropped_triggers_are_reported_and_made_again(address, engine):
    ledger = Ledger.create(address)
    with engine.begin() as raw:
        raw.exec_driver_sql("ALTER TABLE dpensemble_charges DISABLE TRIGGER dpensemble_charges_added")
        raw.exec_driver_sql("DROP TRIGGER dpensemble_entries_kept ON dpensemble_entries")
    with pytest.raises(TamperedLedgerError, match="dpensemble_charges_added, dpensemble_entries_kept"):
        ledger.check()
    ledger.protect()
    assert ledger.check() == []


def test_a_ledger_of_the_first_version_opens_and_goes_on(address, engine, tmp_path):
    expected = json.loads((DATA / "version1.json").read_text())
    with engine.begin() as raw, sqlite3.connect(DATA / "version1.db") as old:
        for table in METADATA.sorted_tables:
            columns = ", ".join(f"{column.name} {column.type.compile(raw.dialect)}" for column in table.columns)
            raw.exec_driver_sql(f"CREATE TABLE {table.name} ({columns})")
            rows = old.execute(str(sa.select(table))).fetchall()
            names = [column.name for column in table.columns]
            if rows:
                raw.execute(sa.insert(table), [dict(zip(names, row, strict=True)) for row in rows])
    old.close()
    (tmp_path / "state").mkdir()
    shutil.copy(DATA / "version1.key", tmp_path / "state" / f"{expected['id']}.key")
    ledger = Ledger(address)
    assert [state.to_dict() for account in ledger.accounts() for state in account.states()] == expected["states"]
    ledger.account("buildings").one_release("fit")([Spending(name="everyone", epsilon=0.1, delta=1e-9)])
    assert ledger.verify().entries == expected["entries"] + 1
    ledger.protect()
    assert ledger.check() == []


def test_a_held_lock_stops_writes_only(address, engine):
    ledger = Ledger.create(address)
    ledger.open_account("patients", epsilon=3, delta=1e-5)
    with engine.connect() as other:
        other.exec_driver_sql(f"SELECT pg_advisory_xact_lock({store._LOCK})")
        with ledger.kept_open(0.2):
            with pytest.raises(store.LockedLedgerError, match="another program holds its lock"):
                ledger.together(lambda transaction: transaction.last())
            assert ledger.account("patients").state().share_left == 1
            assert ledger.check() == []
        other.rollback()
    assert ledger.together(lambda transaction: transaction.last()).number == 2
