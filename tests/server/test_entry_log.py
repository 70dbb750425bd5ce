"""Work of many threads in few transactions, while another program holds the lock.

Write access to the database buys no budget: triggers refuse, entries decide, chain and witness notice.

A ledger that the first release of the format made: it opens, goes on, and decides by its entries.
"""

import json
import shutil
import sqlite3
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from dpensemble import Aggregator, Budget
from dpensemble.errors import BudgetError, DataError, LedgerError, TamperedLedgerError
from dpensemble.laws import GaussianNoisyMax
from dpensemble.server import Ledger, LedgerAccount, witness
from dpensemble.server.entries import METADATA, _entry_hash, canonical
from dpensemble.server.entry_log import _GroupCommit
from dpensemble.server.store import LockedLedgerError

from ..deadline import GUARD, until
from .conftest import buy_back, change, spend, votes


class Database:
    """A database whose lock the test holds and frees."""

    def __init__(self):
        self.is_locked, self.go, self.begun, self.done = False, threading.Event(), 0, []
        self.go.set()

    @contextmanager
    def writing(self):
        self.begun += 1
        assert self.go.wait(GUARD)
        if self.is_locked:
            raise LockedLedgerError("held")
        yield self

    @contextmanager
    def apart(self):
        yield


@pytest.fixture
def database():
    return Database()


def test_a_held_lock_fails_the_whole_group(database):
    database.is_locked = True
    commits = _GroupCommit(database.writing, lambda: GUARD)
    with pytest.raises(LockedLedgerError, match="held"):
        commits.run(lambda one: one.done.append(1))
    assert database.done == []


def test_work_that_must_be_done_is_tried_again(database):
    database.is_locked = True

    def again():
        database.is_locked = database.begun < 3
        return True

    assert _GroupCommit(database.writing, lambda: GUARD).run(lambda one: one.done.append(1), again) is None
    assert (database.begun, database.done) == (4, [1])


def test_other_errors_are_not_tried_again(database):
    def failing(_):
        raise LedgerError("other")

    with pytest.raises(LedgerError, match="other"):
        _GroupCommit(database.writing, lambda: GUARD).run(failing, lambda: True)
    assert database.begun == 1


def test_work_that_waits_too_long_for_its_turn_is_withdrawn(database):
    database.go.clear()
    commits = _GroupCommit(database.writing, lambda: 0.05)
    first = threading.Thread(target=commits.run, args=(lambda one: one.done.append("first"),))
    first.start()
    until(lambda: database.begun)
    with pytest.raises(LockedLedgerError, match="busy with other requests"):
        commits.run(lambda one: one.done.append("second"))
    database.go.set()
    first.join()
    commits.run(lambda one: one.done.append("third"))
    assert database.done == ["first", "third"]


NEGATIVE = "INSERT INTO dpensemble_charges VALUES (3, 'patients', 'nobody', -5000000, 0)"


def forged(where, kind, fields):
    """Return a statement that puts a consistent entry at the end of the chain."""
    with sqlite3.connect(where) as raw:
        number, previous = raw.execute("SELECT number, hash FROM dpensemble_entries ORDER BY number DESC").fetchone()
    raw.close()
    body = canonical(fields)
    row = (number + 1, kind, body, previous, _entry_hash(number + 1, kind, body, previous))
    return ("INSERT INTO dpensemble_entries VALUES (?, ?, ?, ?, ?)", row)


def grant(loss, total, **rest):
    charges, totals = ([{"whom": "everyone", "loss": one, "delta": 0}] for one in (loss, total))
    return {"data_set": "patients", "charges": charges, "totals": totals, "time": "", "what": "fit"} | rest


@pytest.mark.parametrize(
    "statement",
    [
        NEGATIVE,
        "INSERT INTO dpensemble_charges VALUES (3, 'patients', 'nobody', 0, -1)",
        "INSERT INTO dpensemble_charges VALUES (3, 'patients', 'nobody', 'x', 0)",
        "INSERT INTO dpensemble_charges VALUES (3, 'patients', 'nobody', 0.5, 0)",
        "INSERT INTO dpensemble_grants VALUES ('patients', 'g', '{}', -1)",
        "INSERT INTO dpensemble_entries VALUES (9, 'grant', '{}', 'x', 'y')",
        "INSERT INTO dpensemble_entries VALUES (5, 'grant', '{}', 'x', 'y')",
    ],
)
def test_triggers_refuse_negative_numbers_and_entries_out_of_order(ledger, patients, where, statement):
    spend(patients)
    with pytest.raises(sqlite3.IntegrityError, match=r"not negative|follows the newest|CHECK"):
        change(where, statement, drop=False)
    assert ledger.verify().grants == 1


def test_every_unique_key_is_protected_from_a_replacement(patients, where):
    asked = votes(patients.grant("g"))
    asked.answer(counts=[50, 50], key="row 1")
    asked.answer(counts=[50, 50], key="row 2")
    with sqlite3.connect(where) as raw:
        # This is how another program connects.
        assert raw.execute("PRAGMA recursive_triggers").fetchone() == (0,)
        for name in METADATA.tables:
            with pytest.raises(sqlite3.IntegrityError, match="row with this key"):
                raw.execute(f"INSERT OR REPLACE INTO {name} SELECT * FROM {name} LIMIT 1")  # noqa: S608
        with pytest.raises(sqlite3.IntegrityError, match="row with this key"):
            raw.execute(
                "INSERT OR REPLACE INTO dpensemble_requests SELECT data_set, grant_name, 'row 9', votes, total "
                "FROM dpensemble_requests WHERE request = 'row 2'"
            )
    raw.close()
    assert patients.ledger.verify().requests == 2


def test_a_negative_charge_buys_nothing_even_where_the_triggers_were_dropped(ledger, where):
    patients = ledger.open_account("patients", epsilon=1, delta=1e-5, filter="basic")
    spend(patients, 0.9)
    buy_back(where)
    assert patients.state().left.loss == 100_000
    for refused in (lambda: spend(patients, 0.9), lambda: spend(patients, 0.1), ledger.check, Ledger(where).verify):
        with pytest.raises(TamperedLedgerError, match="dpensemble_charges of the ledger does not follow"):
            refused()


def test_charges_that_cancel_are_noticed(ledger, patients, where):
    spend(patients)
    with sqlite3.connect(where) as raw:
        raw.execute("PRAGMA ignore_check_constraints = ON")
        raw.execute("DROP TRIGGER dpensemble_charges_INSERT")
        for number, loss in ((1, -5), (2, 5)):
            raw.execute("INSERT INTO dpensemble_charges VALUES (?, 'patients', 'everyone', ?, 0)", (number, loss))
    raw.close()
    with pytest.raises(TamperedLedgerError, match="dpensemble_charges"):
        ledger.check()


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("grant", grant(-500_000, 0)),
        ("grant", grant(0, 0)),
        ("grant", grant(5, 4)),
        ("grant", grant(True, 1)),
        ("grant", grant(0.5, 1)),
        ("grant", {"data_set": "patients", "charges": []}),
        ("grant", {"data_set": "nobody", "charges": [{"whom": "everyone", "loss": 0, "delta": 0}]}),
        ("account", {"data_set": "patients", "whom": "everyone", "terms": {"epsilon": 99}}),
        ("account", {"data_set": "others", "whom": "A", "terms": {}}),
        ("account", {"data_set": "others", "whom": "everyone", "terms": {"epsilon": 99}}),
        ("request", {"data_set": "patients", "grant_name": "g", "request": "k", "votes": "", "total": 1}),
        ("answer", {"data_set": "patients", "grant_name": "g", "request": "k", "told": ""}),
        ("ledger", {"schema": 2}),
        ("refund", {}),
    ],
)
def test_an_entry_that_no_release_writes_is_refused_at_once(ledger, patients, where, kind, fields):
    spend(patients)
    change(where, forged(where, kind, fields), drop=False)
    for refused in (patients.state, lambda: spend(patients), ledger.verify, lambda: Ledger(where)):
        with pytest.raises(TamperedLedgerError, match="entry 4 of the ledger"):
            refused()


def test_a_request_beyond_what_was_paid_for_is_refused(patients, where):
    votes(patients.grant("g"), answers=3).answer(counts=[50, 50])
    for total in (1, 4):
        fields = {"data_set": "patients", "grant_name": "g", "request": "k", "votes": "", "total": total}
        change(where, forged(where, "request", fields), drop=False)
        with pytest.raises(TamperedLedgerError, match="does not follow"):
            patients.state()
        change(where, "DELETE FROM dpensemble_entries WHERE number = 6")


def test_a_row_of_a_grant_alone_buys_no_answers(patients, where):
    settings = votes(patients.grant("g")).design.settings()
    change(
        where,
        ("INSERT INTO dpensemble_grants VALUES ('patients', 'g', ?, 30)", (canonical(settings),)),
        drop=False,
    )
    asked = votes(Ledger(where).account("patients").grant("g"))
    with pytest.raises(TamperedLedgerError, match="dpensemble_grants"):
        asked.answer(counts=[50, 50])


def test_a_copied_request_gives_no_second_answer_for_one_charge(patients, where):
    asked = votes(patients.grant("g"))
    asked.answer(counts=[50, 50], key="row 1")
    change(
        where,
        "INSERT INTO dpensemble_requests SELECT data_set, grant_name, 'row 9', votes, 9 FROM dpensemble_requests",
        drop=False,
    )
    with pytest.raises(DataError, match="was used with other votes"):
        asked.answer(counts=[50, 50], key="row 9")
    assert asked.remaining() == 29


def test_a_changed_account_allows_no_more(ledger, where):
    patients = ledger.open_account("patients", epsilon=1, delta=1e-5, filter="basic")
    spend(patients, 0.9)
    change(where, "UPDATE dpensemble_accounts SET terms = replace(terms, '\"epsilon\":1', '\"epsilon\":9')")
    assert Ledger(where).account("patients").state().left.loss == 100_000
    with pytest.raises(TamperedLedgerError, match="dpensemble_accounts"):
        spend(Ledger(where).account("patients"))


@pytest.mark.parametrize("name", ["dpensemble_charges_INSERT", "dpensemble_entries_DELETE"])
def test_dropped_triggers_are_reported_and_made_again(ledger, patients, where, name):
    assert ledger.check() == []
    with sqlite3.connect(where) as raw:
        raw.execute(f"DROP TRIGGER {name}")
    raw.close()
    with pytest.raises(TamperedLedgerError, match=f"triggers {name} of the ledger were removed"):
        ledger.check()
    ledger.protect()
    assert ledger.check() == []


def test_an_old_entry_that_was_changed_is_found_in_the_background_and_stops_everything(patients, where, monkeypatch):
    monkeypatch.setattr(witness, "_INTERVAL", 3)
    for _ in range(6):
        spend(patients, 0.01)
    change(where, "UPDATE dpensemble_entries SET body = replace(body, 'test', 'tost') WHERE number = 3")
    # What the checkpoint signed decides, so that nothing is gained before the change is found.
    account = LedgerAccount(Ledger(where), "patients")
    account.ledger._watch.wait()
    for refused in (account.state, lambda: spend(account), account.ledger.check, account.ledger.verify):
        with pytest.raises(TamperedLedgerError, match="entry 3 of the ledger was changed"):
            refused()


def test_a_database_that_is_away_during_the_background_work_is_tried_again(patients, where, monkeypatch):
    monkeypatch.setattr(witness, "_INTERVAL", 3)
    for _ in range(4):
        spend(patients, 0.01)
    ledger, outcomes = Ledger(where), [LedgerError("away"), None]
    ledger._watch.wait()

    def work():
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome

    ledger._watch._work = work
    ledger._watch.start()
    ledger._watch.wait()
    assert ledger.check() == []
    ledger._watch.wait()
    assert outcomes == []
    assert ledger.check() == []


def test_running_totals_are_in_the_entries(ledger):
    account = ledger.open_account("people", epsilon=1, delta=1e-5, filter="basic")
    for _ in range(3):
        spend(account, 0.25)
    totals = [entry.fields["totals"][0]["loss"] for entry in ledger.entries() if entry.kind == "grant"]
    assert totals == [250_000, 500_000, 750_000]
    assert [one.amount.loss for one in account.history()] == [250_000] * 3
    with pytest.raises(BudgetError):
        spend(account, 0.26)
    assert json.loads(json.dumps(account.state().to_dict()))["share_left"] == 0.25


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
