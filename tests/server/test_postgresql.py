"""The same ledger in PostgreSQL, on a server of the tests' own."""

import json
import shutil
import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from dpensemble._spending import Spending
from dpensemble.cli import main
from dpensemble.errors import BudgetError, LedgerError, ReplacedLedgerError, TamperedLedgerError
from dpensemble.server import Ledger, store
from dpensemble.server.entries import METADATA
from dpensemble.server.store import Store
from dpensemble.server.witness import KnownLedgers

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
    for name in ("key", "witness"):
        shutil.copy(DATA / f"version1.{name}", tmp_path / "state" / f"{expected['id']}.{name}")
    ledger = Ledger(address)
    assert [state.to_dict() for account in ledger.accounts() for state in account.states()] == expected["states"]
    ledger.account("buildings").one_release("fit")([Spending(name="everyone", epsilon=0.1, delta=1e-9)])
    assert ledger.verify().entries == expected["entries"] + 1
    ledger.protect()
    assert ledger.check() == []


def lost(engine):
    with engine.begin() as raw:
        for table in reversed(METADATA.sorted_tables):
            raw.exec_driver_sql(f"DROP TABLE IF EXISTS {table.name} CASCADE")


def spellings(address):
    return [
        address,
        address.replace("127.0.0.1", "localhost"),
        address + "?connect_timeout=5",
        address.replace("127.0.0.1", "") + "?host=127.0.0.1",
        address + "?options=-csearch_path%3Dpublic",
    ]


@pytest.mark.parametrize("is_allowed", [True, False], ids=["the server states its identity", "the provider forbids it"])
@pytest.mark.parametrize("is_earlier", [False, True], ids=["", "made by an earlier version"])
def test_no_spelling_of_an_address_opens_a_fresh_ledger(address, engine, tmp_path, is_allowed, is_earlier):
    if not is_allowed:
        with engine.begin() as raw:
            raw.exec_driver_sql("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
            raw.exec_driver_sql("DROP ROLE IF EXISTS owner")
            raw.exec_driver_sql("CREATE ROLE owner LOGIN")
            raw.exec_driver_sql("GRANT ALL ON SCHEMA public TO owner")
        address = address.replace("postgres@", "owner@")
    try:
        ledger = Ledger.create(address)
        account = ledger.open_account("patients", epsilon=1, delta=1e-5, filter="basic")
        memory = tmp_path / "state" / "ledgers.json"
        if is_earlier:
            memory.write_text(json.dumps({address.replace("postgres@", "").replace("owner@", ""): ledger.id}))
        for other in spellings(address):
            # The ledger itself goes on under each of them.
            account = Ledger(other).account("patients")
            account.one_release("fit")([Spending(name="everyone", epsilon=0.1, delta=1e-9)])
        if is_earlier:
            memory.write_text(json.dumps({address.replace("postgres@", "").replace("owner@", ""): ledger.id}))
        before = memory.read_text()
        lost(engine)
        for other in spellings(address):
            with pytest.raises(ReplacedLedgerError, match=f"'dpensemble ledger forget .* --id {ledger.id}'"):
                Ledger.create(other)
        assert memory.read_text() == before
        # Another database, or another schema, is another place.
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as raw:
            raw.exec_driver_sql(f"CREATE DATABASE others OWNER {address.partition('@')[0].rpartition('/')[2]}")
        try:
            Ledger.create(address.rpartition("/")[0] + "/others")
        finally:
            with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as raw:
                raw.exec_driver_sql("DROP DATABASE others WITH (FORCE)")
        Ledger.forget(spellings(address)[1], ledger.id)
        assert Ledger.create(address).id != ledger.id
    finally:
        if not is_allowed:
            lost(engine)
            with engine.begin() as raw:
                raw.exec_driver_sql("GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC")
                raw.exec_driver_sql("DROP OWNED BY owner")
                raw.exec_driver_sql("DROP ROLE owner")


def test_the_documented_role_charges(address, writer):
    ledger = Ledger.create(address)
    ledger.open_account("patients", epsilon=3, delta=1e-5)
    writer(ledger)
    role = Ledger(address.replace("postgres@", "writer@"))
    told = votes(role.account("patients").grant("g")).answer(counts=[50, 50], key="1")
    assert votes(ledger.account("patients").grant("g")).answer(counts=[50, 50], key="1").label == told.label
    assert role.check() == []


@pytest.fixture
def in_a_file(tmp_path):
    """Return a ledger in a file with charges, an open grant and answers."""
    ledger = Ledger.create(tmp_path / "ledger.db")
    account = ledger.open_account("patients", epsilon=3, delta=1e-5)
    asked = votes(account.grant("g"))
    return ledger, {key: asked.answer(counts=[50, 50], key=key).label for key in "abc"}


@pytest.mark.parametrize("killed", [None, "closed", "copied"])
def test_a_ledger_moves_from_a_file_and_both_are_never_charged(address, in_a_file, tmp_path, monkeypatch, killed):
    ledger, told = in_a_file
    shutil.copy(ledger.place, tmp_path / "copy.db")
    checkpoint, states = ledger.checkpoint(), ledger.account("patients").states()
    if killed is not None:
        with monkeypatch.context() as patch:
            steps = {"closed": (Store, "create", died), "copied": (KnownLedgers, "remember", remembers_no_database())}
            patch.setattr(*steps[killed])
            with pytest.raises(KeyboardInterrupt):
                Ledger.moved(ledger.place, address)
        with pytest.raises(LedgerError, match="was closed when it moved to PostgreSQL system"):
            votes(ledger.account("patients").grant("g")).answer(counts=[50, 50], key="x")
    for _ in range(2):
        # Done again, it changes nothing.
        new = Ledger.moved(ledger.place, address)
    assert (new.id, new.head().kind, new.head().number) == (ledger.id, "moved", checkpoint["number"] + 1)
    assert new.verify([checkpoint]).requests == 3
    assert new.account("patients").states() == states
    asked = votes(new.account("patients").grant("g"))
    assert {key: asked.answer(counts=[50, 50], key=key).label for key in "abc"} == told
    asked.answer(counts=[50, 50], key="d")
    assert new.check() == []
    for place in (ledger.place, tmp_path / "copy.db"):
        with pytest.raises(LedgerError, match=r"closed when it moved|lacks entry"):
            votes(Ledger(place).account("patients").grant("g")).answer(counts=[50, 50], key="e")
    with pytest.raises(LedgerError, match=r"lacks entry|moved to PostgreSQL"):
        Ledger.moved(ledger.place, address.rpartition("/")[0] + "/template1")
    for bad in ((new.place, tmp_path / "x.db"), (tmp_path / "copy.db", tmp_path / "y.db")):
        with pytest.raises(LedgerError):
            Ledger.moved(*bad)


def died(*_):
    raise KeyboardInterrupt


def remembers_no_database():
    remember = KnownLedgers.remember

    def remembering(self, store, ledger):
        if store.file is None:
            raise KeyboardInterrupt
        remember(self, store, ledger)

    return remembering


def test_a_moved_file_is_shown_as_closed_and_moves_into_an_empty_database_only(address, in_a_file, capsys, tmp_path):
    ledger, _ = in_a_file
    other = Ledger.create(address)
    assert main(["ledger", "move", ledger.place, "--to", address]) == 2
    assert "give an empty database" in capsys.readouterr().err
    assert ledger.head().kind == "answer"
    engine = sa.create_engine(address.replace("postgresql://", "postgresql+psycopg://"), poolclass=NullPool)
    lost(engine)
    assert main(["ledger", "move", ledger.place, "--to", address]) == 2
    assert f"held ledger {other.id} before" in capsys.readouterr().err
    assert ledger.head().kind == "answer"
    Ledger.forget(address, other.id)
    assert main(["ledger", "move", ledger.place, "--to", address]) == 0
    assert "is closed by its last entry" in capsys.readouterr().out
    assert main(["ledger", "show", ledger.place]) == 0
    assert "This ledger is closed: it moved to" in capsys.readouterr().out


def test_another_machine_joins_without_a_charge(address, tmp_path, monkeypatch):
    first = Ledger.create(address)
    account = first.open_account("patients", epsilon=3, delta=1e-5)
    votes(account.grant("g")).answer(counts=[50, 50], key="1")
    checkpoint = first.checkpoint()
    votes(account.grant("g")).answer(counts=[50, 50], key="2")
    (tmp_path / "second").mkdir()
    shutil.copy(first.key_path, tmp_path / "second")
    with monkeypatch.context() as second:
        second.setenv("DPENSEMBLE_STATE", str(tmp_path / "second"))
        with pytest.raises(LedgerError, match="is missing"):
            votes(Ledger(address).account("patients").grant("g")).answer(counts=[50, 50], key="3")
        outcome = Ledger.restored(address, [checkpoint], joins=True)
        assert (outcome.closed, outcome.charged) == ([], [])
        votes(Ledger(address).account("patients").grant("g")).answer(counts=[50, 50], key="3")
    asked = votes(account.grant("g"))
    asked.answer(counts=[50, 50], key="4")
    assert asked.remaining() == 26


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
