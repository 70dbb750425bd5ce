"""The ledger: what it admits and refuses, and that nothing in it can be changed, cut off or put back unnoticed.

A restored back-up: what was released since is charged, and an ordinary restart needs no restore.
"""

import json
import os
import shutil
import signal
import socket
import sqlite3
import threading
from pathlib import Path

import pytest

from dpensemble import Budget
from dpensemble._spending import Spending
from dpensemble.cli import main
from dpensemble.cost import GaussianCost, gaussian_mu
from dpensemble.errors import BudgetError, InvalidParameterError, LedgerError, TamperedLedgerError, UnknownLedgerError
from dpensemble.relations import Relation
from dpensemble.server import Ledger, StatedRelease, store, witness
from dpensemble.server import witness as signatures
from dpensemble.server.entries import METADATA, _entry_hash
from dpensemble.server.store import _vetted_url
from dpensemble.server.witness import KnownLedgers, Witness

from .conftest import change, in_child, open_group_as_before, spend, votes
from .test_witness import copied


def test_what_fits_is_charged_and_what_would_pass_the_budget_is_refused_and_charged_nothing(ledger):
    account = ledger.open_account("patients", epsilon=1, delta=1e-5, filter="basic")
    spend(account, 0.6)
    before = account.state()
    assert before.spent.loss == 600_000
    with pytest.raises(BudgetError, match=r"takes 0.5 of epsilon, but 0.4 of 1 is left.*up to 0.3999 .*would fit"):
        spend(account, 0.5)
    with pytest.raises(BudgetError, match=r"takes a delta of 1e-05"):
        spend(account, 0.1, 1e-5)
    assert account.state() == before
    # An oversized request bricks nothing.
    spend(account, 0.4)
    assert account.state().fitting_epsilon == 0
    with pytest.raises(BudgetError, match="no further release fits"):
        spend(account, 1e-6)


def test_it_lasts(ledger, patients, where):
    spend(patients)
    again = Ledger(where).account("patients")
    assert again.state() == patients.state()
    assert again.state().spent.loss > 0
    assert [one.data_set for one in Ledger(where).accounts()] == ["patients"]


def test_one_release_is_charged_once_however_often_it_is_announced(patients):
    one = patients.one_release("fit")
    spending = Spending(name="everyone", epsilon=0.5, delta=1e-9)
    one([spending])
    spent = patients.state().spent
    one([spending])
    assert patients.state().spent == spent
    one([Spending(name="everyone", epsilon=0.4, delta=1e-9)])
    assert patients.state().spent.loss > spent.loss


def test_a_release_with_a_key_is_charged_once_also_after_a_restart(where, patients):
    first, second = (Spending(name="everyone", epsilon=epsilon, delta=1e-9) for epsilon in (0.5, 0.4))
    assert not patients.has_release("k1")
    one = patients.one_release("fit", release="k1")
    one([first])
    spent = patients.state().spent
    again = Ledger(where).account("patients")
    again.one_release("fit", release="k1")([first])
    assert again.has_release("k1")
    assert again.state().spent == spent
    # The first process that comes to the second part charges it.
    rest = again.one_release("fit", release="k1")
    rest([first])
    rest([second])
    both = again.state().spent
    assert both.loss > spent.loss
    one([second])
    assert patients.state().spent == both
    patients.one_release("fit", release="k2")([first])
    assert patients.state().spent.loss == both.loss + spent.loss
    assert len(patients.history()) == 3
    assert Ledger(where).verify().grants == 3


def test_a_key_of_another_data_set_or_of_a_larger_release_pays_for_nothing(ledger, patients):
    small, large = (Spending(name="everyone", epsilon=epsilon, delta=1e-9) for epsilon in (0.1, 0.5))
    patients.one_release("fit", release="k")([small])
    other = ledger.open_account("others", epsilon=3, delta=1e-5)
    assert not other.has_release("k")
    other.one_release("fit", release="k")([small])
    assert other.state().spent == patients.state().spent
    before = patients.state()
    with pytest.raises(LedgerError, match="was charged less than it takes now"):
        patients.one_release("fit", release="k")([large])
    assert patients.state() == before


def test_losses_under_another_relation_do_not_add_up(patients):
    spend(patients, relation=Relation.REPLACE_ONE)
    before = patients.state()
    with pytest.raises(BudgetError, match=r"for relation='replace-one', but this release is for 'add-or-remove-one'"):
        spend(patients, relation=Relation.ADD_OR_REMOVE_ONE)
    assert patients.state() == before


def test_a_guarantee_for_the_data_at_hand_only_is_refused(patients):
    with pytest.raises(BudgetError, match="use 'worst-case'"):
        spend(patients, worst_case=False)
    assert patients.state().spent.loss == 0


@pytest.mark.parametrize("table", ["entries", "accounts", "charges"])
def test_rows_are_never_changed(ledger, patients, where, table):
    spend(patients)
    with sqlite3.connect(where) as raw:
        for statement in ("DELETE FROM dpensemble_{}", "UPDATE dpensemble_{} SET rowid = rowid + 50"):
            with pytest.raises(sqlite3.IntegrityError, match="never changed"):
                raw.execute(statement.format(table))
    raw.close()


@pytest.mark.parametrize(
    ("statement", "match"),
    [
        ("UPDATE dpensemble_entries SET body = replace(body, 'test', 'tost') WHERE number = 3", "entry 3"),
        ("DELETE FROM dpensemble_entries WHERE number = 3", "entry 3"),
        ("UPDATE dpensemble_entries SET kind = 'answer' WHERE number = 3", "entry 3"),
        ("UPDATE dpensemble_charges SET loss = 1", "dpensemble_charges of the ledger"),
        ("DELETE FROM dpensemble_charges WHERE number = 3", "dpensemble_charges of the ledger"),
        ("UPDATE dpensemble_accounts SET terms = replace(terms, '3.0', '9.0')", "dpensemble_accounts of the ledger"),
        ("INSERT INTO dpensemble_answers VALUES ('patients', 'g', 'k', 't')", "dpensemble_answers of the ledger"),
    ],
)
def test_verify_finds_what_was_changed(ledger, patients, where, statement, match):
    spend(patients)
    spend(patients)
    assert ledger.verify().grants == 2
    change(where, statement)
    with pytest.raises(LedgerError, match=match):
        ledger.verify()


def test_an_old_copy_that_is_put_back_gives_no_budget_back(ledger, patients, where, tmp_path):
    spend(patients)
    shutil.copy(where, tmp_path / "backup.db")
    spend(patients)
    for name in ("ledger.db-wal", "ledger.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    shutil.copy(tmp_path / "backup.db", where)
    with pytest.raises(LedgerError, match=r"lacks entry 4.*old copy"):
        spend(patients)
    with pytest.raises(LedgerError, match="old copy"):
        Ledger(where)


def test_an_old_copy_is_noticed_by_a_ledger_that_is_kept_open(ledger, patients, where, tmp_path):
    spend(patients)
    with sqlite3.connect(where) as old, sqlite3.connect(tmp_path / "old.db") as copy:
        old.backup(copy)
    old.close()
    copy.close()
    with ledger.kept_open():
        spend(patients)
        # The open file would take charges that are lost with it.
        (tmp_path / "old.db").replace(where)
        for name in ("ledger.db-wal", "ledger.db-shm"):
            (tmp_path / name).unlink(missing_ok=True)
        with pytest.raises(LedgerError, match=r"lacks entry 4.*old copy"):
            spend(patients)
        where.unlink()
        with pytest.raises(LedgerError, match="no noise is drawn"):
            spend(patients)


def tables(where):
    with sqlite3.connect(where) as raw:
        names = {name for (name,) in raw.execute("SELECT name FROM sqlite_master")}
    raw.close()
    return names


@pytest.mark.parametrize("step", ["tables", "key", "witness", "created"])
def test_a_killed_create_leaves_nothing_that_cannot_be_made_again(where, tmp_path, monkeypatch, step):
    """At the last step the ledger is there, and can be charged."""

    def killed(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    if step == "tables":
        # Earlier versions made the tables in a transaction of their own.
        with sqlite3.connect(where) as raw:
            raw.execute("CREATE TABLE dpensemble_entries (number BIGINT PRIMARY KEY, kind, body, previous, hash)")
        raw.close()
    else:
        place, name = {
            "key": (METADATA, "create_all"),
            "witness": (Witness, "begin"),
            "created": (KnownLedgers, "remember"),
        }[step]
        with monkeypatch.context() as patch:
            patch.setattr(place, name, killed)
            assert in_child(lambda: Ledger.create(where)) == -signal.SIGKILL
    if step != "created":
        assert not where.exists() or "dpensemble_entries" not in tables(where) or step == "tables"
        Ledger.create(where)
    ledger = Ledger(where)
    spend(ledger.open_account("patients", epsilon=3, delta=1e-5))
    assert ledger.check() == []
    assert ledger.verify().grants == 1


def test_a_missing_file_is_not_made_by_an_open_ledger(ledger, patients, where, tmp_path):
    with ledger.kept_open():
        spend(patients)
        where.rename(tmp_path / "away.db")
        for use in (lambda: spend(patients), patients.state, ledger.check, lambda: Ledger(where)):
            with pytest.raises(LedgerError, match=r"the file is missing|there is no ledger"):
                use()
        assert not where.exists()
        (tmp_path / "away.db").rename(where)
        spend(patients)
    assert len(patients.history()) == 2


@pytest.mark.parametrize("name", ["a ledger.db", "what?.db", "50%25.db", "#1.db", "é.db", "a&b=c.db"])
def test_a_file_may_have_any_name(tmp_path, name):
    spend(Ledger.create(tmp_path / name).open_account("patients", epsilon=3, delta=1e-5))
    assert [one.name for one in tmp_path.iterdir() if one.is_file()] == [name]
    assert Ledger(tmp_path / name).verify().grants == 1


def test_a_chain_that_is_cut_off_and_written_anew_is_told_by_a_checkpoint(ledger, patients, where):
    spend(patients)
    spend(patients)
    checkpoint = json.loads(json.dumps(ledger.checkpoint()))
    assert ledger.verify([checkpoint]).entries == 4
    ledger.witness_path.unlink()
    # The owner of the file can make it consistent, but cannot change what was signed.
    with sqlite3.connect(where) as raw:
        number, kind, body, previous, _ = raw.execute("SELECT * FROM dpensemble_entries WHERE number = 4").fetchone()
    raw.close()
    body = body.replace("test", "tost")
    new = (body, _entry_hash(number, kind, body, previous))
    change(
        where,
        ("UPDATE dpensemble_entries SET body = ?, hash = ? WHERE number = 4", new),
    )
    # A process that has read the old entry notices.
    with pytest.raises(TamperedLedgerError, match="entry 4 of the ledger is missing or different"):
        ledger.verify()
    assert Ledger(where).verify().entries == 4
    with pytest.raises(TamperedLedgerError, match="lacks entry 4 of a signed checkpoint"):
        Ledger(where).verify([checkpoint])
    change(where, "DELETE FROM dpensemble_entries WHERE number = 4", "DELETE FROM dpensemble_charges WHERE number = 4")
    assert Ledger(where).verify().entries == 3
    with pytest.raises(TamperedLedgerError, match="lacks entry 4"):
        Ledger(where).verify([checkpoint])


@pytest.mark.parametrize("change", [{"number": 1}, {"signature": "00"}, {"ledger": "other"}, {"hash": None}])
def test_a_checkpoint_that_was_changed_is_refused(ledger, patients, change):
    with pytest.raises(LedgerError, match="not signed by the ledger's key"):
        ledger.verify([ledger.checkpoint() | change])


def test_the_key_is_its_owners_alone_and_nothing_secret_is_in_the_ledger(ledger, patients, where):
    spend(patients)
    assert ledger.key_path.stat().st_mode & 0o077 == 0
    secret = ledger.key_path.read_text().strip()
    assert secret not in where.read_bytes().hex()
    assert secret not in json.dumps([entry.to_dict() for entry in ledger.entries()])


def test_bad_ledgers_are_refused_in_a_sentence(ledger, where, tmp_path):
    with pytest.raises(LedgerError, match="there is no ledger"):
        Ledger(tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()
    with pytest.raises(LedgerError, match="already"):
        Ledger.create(where)
    (tmp_path / "text.db").write_text("not a database" * 100)
    with pytest.raises(LedgerError, match="cannot be read"):
        Ledger(tmp_path / "text.db")
    with pytest.raises(LedgerError, match="cannot be made"):
        Ledger.create(tmp_path / "missing" / "ledger.db")
    for address in ("mysql://root:hidden@host/name", "nothing://"):
        with pytest.raises(LedgerError) as error:
            Ledger(address)
        assert "hidden" not in str(error.value)
    with pytest.raises(LedgerError, match="cannot be read"):
        Ledger("postgresql://me@127.0.0.1:1/name")


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("postgresql://me:hidden@127.0.0.1:1/name", "must not hold a password"),
        ("postgresql://me@127.0.0.1:1/name?password=hidden", "must not hold a password"),
        ("postgresql://me@127.0.0.1:1/name?PASSWORD=hidden", "must not set PASSWORD"),
        ("postgresql://me@127.0.0.1:1/name?sslpassword=hidden", "must not hold a password"),
        ("postgresql://me@127.0.0.1:1/name?passwd=hidden", "must not set passwd"),
        ("postgresql://me:hid@den@127.0.0.1:1/name", "must not hold a password"),
        ("postgresql://me@hidden/@127.0.0.1:1/name", "must be an address"),
        ("postgresql://a.example,b.example/name", "must be an address"),
        ("postgresql://me@a.example/name?sslmode=prefer", "cross a network in the clear"),
        ("postgresql+psycopg://me:hidden@127.0.0.1:1/name", "must be a file or an address"),
        ("postgres://me:hidden@127.0.0.1:1/name", "must be a file or an address"),
    ],
)
def test_no_address_holds_a_password_or_crosses_a_network_in_the_clear(address, why, tmp_path):
    for use in (Ledger, Ledger.create, lambda place: Ledger.forget(place, "id")):
        with pytest.raises(LedgerError, match=why) as error:
            use(address)
        assert "hidden" not in str(error.value)
        assert "den@" not in str(error.value)
    assert not (tmp_path / "state").exists()


def test_a_ledger_on_another_machine_is_reached_by_tls(monkeypatch):
    monkeypatch.delenv("PGSSLMODE", raising=False)
    url, shown = _vetted_url("postgresql://me@ledger.example/name?options=-csearch_path%3Dledgers")
    assert url.query == {"options": "-csearch_path=ledgers", "sslmode": "require"}
    assert shown == "postgresql://me@ledger.example/name?options=-csearch_path%3Dledgers"
    assert "sslmode" not in _vetted_url("postgresql://me@/name?host=/run/postgresql")[0].query
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    assert "sslmode" not in _vetted_url("postgresql://me@ledger.example/name")[0].query


def test_a_ledger_of_another_version_or_key_is_refused(ledger, where, tmp_path):
    other = Ledger.create(tmp_path / "other.db")
    with pytest.raises(LedgerError, match="another ledger"):
        _ = Ledger(where, signing_key=other.key_path).key
    with pytest.raises(LedgerError, match="cannot be read"):
        _ = Ledger(where, signing_key=tmp_path / "no.key").key
    (tmp_path / "bad.key").write_text("zz")
    with pytest.raises(LedgerError, match="damaged"):
        _ = Ledger(where, signing_key=tmp_path / "bad.key").key
    change(where, "UPDATE dpensemble_entries SET body = replace(body, '\"schema\":2', '\"schema\":3')")
    with pytest.raises(LedgerError, match="no ledger of version 1 or 2"):
        Ledger(where)


def test_a_disk_that_takes_nothing_more_charges_nothing(ledger, patients, monkeypatch):
    before = patients.state()
    from dpensemble.server import store

    def full(connection, record):
        connection.execute("PRAGMA query_only = ON")

    monkeypatch.setattr(store, "_durable_sqlite", full)
    ledger._store.__init__(ledger.place)
    with pytest.raises(LedgerError, match="no noise is drawn"):
        spend(patients)
    monkeypatch.undo()
    monkeypatch.setenv("DPENSEMBLE_STATE", str(ledger.key_path.parent))
    assert Ledger(ledger.place).account("patients").state() == before


def test_a_witness_that_cannot_be_kept_stops_the_release(ledger, patients):
    ledger.witness_path.write_text("{")
    with pytest.raises(LedgerError, match="cannot be read"):
        spend(patients)
    ledger.witness_path.unlink()
    ledger.witness_path.mkdir()
    with pytest.raises(LedgerError, match="old copy"):
        spend(patients)


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({"data_set": ""}, InvalidParameterError, "data_set=''"),
        ({"data_set": " patients"}, InvalidParameterError, "blanks"),
        ({"data_set": "a" * 201}, InvalidParameterError, "data_set='aaa"),
        ({"data_set": 5}, InvalidParameterError, "data_set=5"),
        ({"epsilon": -1}, InvalidParameterError, "epsilon=-1"),
        ({"delta": 0}, InvalidParameterError, "delta=0"),
        ({"relation": "swap"}, InvalidParameterError, "relation='swap'"),
        ({"filter": "none"}, InvalidParameterError, "filter='none'"),
        ({"data_set": "patients"}, LedgerError, "is already open"),
    ],
    ids=str,
)
def test_bad_accounts_are_refused(ledger, patients, given, error, match):
    with pytest.raises(error, match=match):
        ledger.open_account(**{"data_set": "others", "epsilon": 1, "delta": 1e-5} | given)
    assert len(ledger.accounts()) == 1


def test_an_account_that_is_not_open_is_named(ledger, patients):
    with pytest.raises(LedgerError, match="there are 'patients'"):
        ledger.account("patient")
    with pytest.raises(LedgerError, match="has no account"):
        patients.state("nobody")


def test_a_release_of_ones_own_is_charged(patients):
    patients.charge_budget("a histogram", Budget(epsilon=0.5, delta=1e-9))
    last = patients.ledger.entries()[-1]
    assert last.fields["what"] == "a histogram"
    assert last.fields["charges"][0]["loss"] == patients.state().spent.loss


def gaussian(epsilon):
    """Return a release of label moments."""
    mu = gaussian_mu(epsilon, 1e-5)
    cost = GaussianCost(mu**2, slack=1e-6)
    return Spending(name="everyone", epsilon=epsilon, delta=1e-5, find_cost=lambda: cost)


@pytest.mark.parametrize("kind", ["renyi", "zcdp", "gdp"])
def test_what_is_said_to_fit_fits_and_hardly_more(ledger, kind):
    patients = ledger.open_account("patients", epsilon=3, delta=1e-5, filter=kind)
    for spent in (0.5, 1.0, 2.0):
        patients.one_release("some")([gaussian(spent)])
        state = patients.state()
        fits = state.fitting_gaussian
        assert fits > 1.3 * state.fitting_epsilon
        assert state.terms.price(gaussian(fits)).within(state.left)
        with pytest.raises(
            BudgetError, match=f"Gaussian noise of epsilon up to {fits:.4g} at delta 1e-05, or any release of"
        ):
            patients.one_release("too much")([gaussian(fits + 0.003)])
    patients.one_release("all of it")([gaussian(fits)])
    assert patients.state().fitting_gaussian < 0.02


def test_a_read_is_not_disturbed_by_a_charge_in_the_middle(ledger, monkeypatch):
    """The snapshot of the read is older than the entry that the process knows meanwhile."""
    check, names = ledger._witness.check, ["patients"]

    def checking(transaction, seen):
        check(transaction, seen)
        transaction.last()
        if names:
            writer = threading.Thread(
                target=ledger.open_account, args=(names.pop(),), kwargs={"epsilon": 1, "delta": 0.1}
            )
            writer.start()
            writer.join()

    monkeypatch.setattr(ledger._witness, "check", checking)
    assert ledger.head().number == 1
    assert ledger.head().number == 2


@pytest.mark.parametrize("act", [Ledger, Ledger.create])
def test_a_path_that_the_system_refuses_is_one_sentence(tmp_path, act):
    with pytest.raises(LedgerError, match="cannot be a ledger \\(File name too long\\): correct the path"):
        act(tmp_path / ("x" * 5_000))


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return a function that makes a machine of its own, with a folder for the ledger and one for the state."""

    def of(name, backup=None):
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.setenv("DPENSEMBLE_STATE", str(folder / "state"))
        if backup is not None:
            shutil.copy(backup / "ledger.db", folder / "ledger.db")
            shutil.copytree(backup / "state", folder / "state")
        return folder / "ledger.db"

    return of


def backed_up(where, tmp_path, name="backup"):
    """Make a back-up as the documentation says."""
    (tmp_path / name).mkdir()
    copied(where, tmp_path / name / "ledger.db")
    shutil.copytree(where.parent / "state", tmp_path / name / "state")
    return tmp_path / name


def answer(ledger, key):
    return votes(ledger.account("patients").grant("g"), answers=10).answer(counts=[50, 50], key=key)


@pytest.fixture
def lost(machine, tmp_path):
    """Three answers, a back-up, two more answers, a checkpoint, one more answer. Then everything but those is lost."""
    where = machine("first")
    ledger = Ledger.create(where)
    ledger.open_account("patients", epsilon=3, delta=1e-5)
    told = {key: answer(ledger, key).label for key in "abc"}
    old, backup = ledger.checkpoint(), backed_up(where, tmp_path)
    for key in "de":
        answer(ledger, key)
    spend(ledger.account("patients"), 0.1)
    ledger.open_account("visitors", epsilon=1, delta=1e-5, filter="basic").charge_budget(
        "x", Budget(epsilon=0.25, delta=1e-6)
    )
    newest = json.loads(json.dumps(ledger.checkpoint()))
    states = {account.data_set: account.state() for account in ledger.accounts()}
    answer(ledger, "f")
    shutil.rmtree(where.parent)
    return backup, old, newest, told, states


def test_a_restored_machine_charges_and_signs_nothing_before_its_owner_states_the_loss(lost, machine, tmp_path):
    backup, old, *_ = lost
    ledger = Ledger(machine("second", backup))
    # Its checkpoint would count as the newest one, though nobody knows what was released since.
    for use in (
        lambda: answer(ledger, "x"),
        lambda: spend(ledger.account("patients")),
        ledger.check,
        ledger.checkpoint,
    ):
        with pytest.raises(UnknownLedgerError, match=r"is a copy.*'dpensemble ledger restored"):
            use()
    assert main(["ledger", "verify", ledger.place]) == 2
    assert main(["ledger", "checkpoint", ledger.place, "--out", str(tmp_path / "checkpoint.json")]) == 2
    assert not (tmp_path / "checkpoint.json").exists()
    assert ledger.verify([old]).requests == 3


def test_by_default_the_rest_of_every_account_is_charged_and_grants_are_closed(lost, machine):
    backup, old, newest, told, _ = lost
    where = machine("second", backup)
    outcome = Ledger.restored(where, [old, newest])
    assert (outcome.is_newer, outcome.spends_rest, outcome.closed) == (True, True, ["g"])
    ledger = Ledger(where)
    assert {account.data_set: account.state().share_left for account in ledger.accounts()} == {
        "patients": 0.0,
        "visitors": 0.0,
    }
    assert ledger.check() == []
    # What was stored before is told again. What was lost is never drawn again.
    assert {key: answer(ledger, key).label for key in "abc"} == told
    for key in "defx":
        with pytest.raises(BudgetError, match="closed when the ledger was restored"):
            answer(ledger, key)
    with pytest.raises(BudgetError, match="no further release fits"):
        spend(ledger.account("patients"), 0.01)
    assert ledger.verify([old, ledger.checkpoint()]).requests == 3
    with pytest.raises(LedgerError, match="there is nothing to restore"):
        Ledger.restored(where, [newest])


def test_charges_up_to_the_checkpoint_are_exact_and_later_ones_as_the_owner_states(lost, machine):
    backup, _, newest, _, states = lost
    where = machine("second", backup)
    Ledger.restored(where, [newest], released=[])
    ledger = Ledger(where)
    assert {account.data_set: account.state() for account in ledger.accounts()} == states
    with pytest.raises(BudgetError, match="closed"):
        answer(ledger, "x")
    entry = next(one for one in ledger.entries() if one.kind == "restored")
    assert (entry.fields["released"], entry.fields["checkpoint"]["number"]) == ([], newest["number"])
    ledger.verify()
    # Another loss, after which a release is stated that does not fit.
    checkpoint = ledger.checkpoint()
    ledger.witness_path.unlink()
    stated = [
        StatedRelease(data_set="patients", what="a table", epsilon=0.1, delta=1e-9),
        StatedRelease(data_set="visitors", what="a map", epsilon=9, delta=1e-9),
        StatedRelease(data_set="visitors", what="another", epsilon=float("inf"), delta=0),
    ]
    Ledger.restored(where, [checkpoint], released=stated)
    account = Ledger(where).account("patients")
    assert account.history()[-1].what == "a table"
    assert account.state().spent.loss > states["patients"].spent.loss
    assert Ledger(where).account("visitors").state().share_left == 0
    entry = [one for one in Ledger(where).entries() if one.kind == "restored"][-1]
    assert [one["what"] for one in entry.fields["released"]] == ["a table", "a map", "another"]


@pytest.mark.parametrize("lack", ["witness", "all but the key"])
def test_a_state_folder_that_does_not_know_the_ledger_needs_a_restore(lost, machine, lack):
    backup, old, *_ = lost
    where = machine("second", backup)
    for path in list((where.parent / "state").iterdir()):
        if path.suffix == ".witness" or (lack != "witness" and path.suffix != ".key"):
            path.unlink()
    with pytest.raises(UnknownLedgerError, match="is missing"):
        answer(Ledger(where), "x")
    assert not Ledger.restored(where, [old]).is_newer
    assert Ledger(where).account("patients").state().share_left == 0


def test_a_lost_newest_copy_on_the_same_machine_is_restored(machine, tmp_path, monkeypatch):
    where = machine("first")
    monkeypatch.setattr(signatures, "_INTERVAL", 2)
    ledger = Ledger.create(where)
    ledger.open_account("patients", epsilon=3, delta=1e-5)
    copied(where, tmp_path / "backup.db")
    checkpoint = ledger.checkpoint()
    for _ in range(4):
        spend(ledger.account("patients"), 0.1)
    where.unlink()
    shutil.copy(tmp_path / "backup.db", where)
    with pytest.raises(LedgerError, match="lacks entry"):
        Ledger(where)
    Ledger.restored(where, [checkpoint])
    assert Ledger(where).account("patients").state().share_left == 0
    assert Ledger(where).verify().entries == 4


def test_an_account_of_a_group_keeps_what_it_spent(machine, tmp_path):
    where = machine("first")
    ledger = Ledger.create(where)
    account = ledger.open_account("patients", epsilon=3, delta=1e-5)
    open_group_as_before(ledger, "patients", "few", 2)
    backup = backed_up(where, tmp_path)
    with ledger.writing() as transaction:
        from dpensemble.server.filters import Amount

        account.add_charge(transaction, Amount(5, 7), {"what": "x"}, "few")
    newest, states = ledger.checkpoint(), account.states()
    second = machine("second", backup)
    Ledger.restored(second, [newest], released=[])
    assert Ledger(second).account("patients").states() == states


def test_bad_restores_change_nothing(lost, machine, tmp_path, monkeypatch):
    backup, old, newest, *_ = lost
    where = machine("second", backup)
    other = Ledger.create(tmp_path / "other.db").checkpoint()
    earlier = Ledger(where).key.signed({name: newest[name] for name in ("ledger", "number", "hash", "time")})
    rewritten = Ledger(where).key.signed({**earlier, "number": 2} | {"signature": None})
    for checkpoints, rest, why in [
        ([], {"released": []}, "checkpoint is missing"),
        ([], {"joins": True}, "joins=True"),
        ([other], {}, "is not signed by the ledger's key"),
        ([newest | {"accounts": []}], {}, "is not signed"),
        ([rewritten], {}, "is not signed|lacks entry 2"),
        ([earlier], {"released": []}, "made by an earlier version"),
        ([newest], {"joins": True}, "joins=True"),
        ([newest], {"released": [StatedRelease(data_set=None, what="x", epsilon=1, delta=0)]}, "none of the ledger's"),
        ([newest], {"released": [StatedRelease(data_set="y", what="x", epsilon=1, delta=0)]}, "none of the ledger's"),
    ]:
        with pytest.raises(LedgerError, match=why):
            Ledger.restored(where, checkpoints, **rest)
        assert Ledger(where).head().number == old["number"]
    Ledger.restored(where, [earlier])
    assert Ledger(where).account("patients").state().share_left == 0


def test_without_any_checkpoint_all_that_is_left_is_charged(lost, machine, capsys):
    backup, *_ = lost
    where = machine("second", backup)
    assert main(["ledger", "restored", str(where), "--nothing-released"]) == 2
    assert "checkpoint is missing" in capsys.readouterr().err
    assert main(["ledger", "restored", str(where)]) == 0
    assert "accounts that were opened after this copy are unknown" in capsys.readouterr().out
    ledger = Ledger(where)
    assert ledger.account("patients").state().share_left == 0
    with pytest.raises(BudgetError, match="closed"):
        answer(ledger, "x")
    assert ledger.verify([ledger.checkpoint()]).requests == 3


def test_a_checkpoint_of_another_branch_is_refused(lost, machine):
    backup, _, newest, *_ = lost
    where = machine("second", backup)
    Ledger.restored(where, [newest], released=[])
    ledger = Ledger(where)
    while ledger.head().number < newest["number"]:
        spend(ledger.account("patients"), 0.001)
    ledger.witness_path.unlink()
    with pytest.raises(TamperedLedgerError, match="another branch"):
        Ledger.restored(where, [newest])


def test_restarts_containers_host_names_and_upgrades_need_no_restore(machine, monkeypatch):
    where = machine("first")
    Ledger.create(where).open_account("patients", epsilon=3, delta=1e-5)
    state = where.parent / "state"

    def restart():
        spend(Ledger(where).account("patients"), 0.01)
        assert Ledger(where).check() == []

    restart()
    monkeypatch.setattr(socket, "gethostname", lambda: "another")
    monkeypatch.setenv("HOSTNAME", "another")
    restart()
    # A container that mounts the same volumes elsewhere, with another owner.
    (where.parent).rename(where.parent.with_name("mounted"))
    where = where.parent.with_name("mounted") / "ledger.db"
    monkeypatch.setenv("DPENSEMBLE_STATE", str(where.parent / "state"))
    for path in (where.parent / "state").iterdir():
        os.chmod(path, 0o640)
    restart()
    # An earlier version wrote the witness without a mark.
    witness = Ledger(where).witness_path
    lines = [json.loads(line) for line in witness.read_text().splitlines()]
    witness.write_text(
        "".join(json.dumps({k: v for k, v in one.items() if k != "file"}).ljust(4095) + "\n" for one in lines)
    )
    restart()
    assert not state.exists()


def test_the_commands(lost, machine, tmp_path, capsys):
    backup, old, newest, *_ = lost
    where = machine("second", backup)
    for name, one in (("old", old), ("newest", newest)):
        (tmp_path / f"{name}.json").write_text(json.dumps(one))
    assert main(["ledger", "charge", str(where), "patients", "--epsilon", "0.1", "--delta", "1e-9", "--what", "x"]) == 2
    assert "ledger restored" in capsys.readouterr().err
    run = str(Path(__file__).parents[1] / "compatibility" / "earlier_files" / "votes-run")
    arguments = ["ledger", "restored", str(where), "--checkpoint", str(tmp_path / "newest.json"), "--released"]
    assert main([*arguments, run]) == 2
    assert "'patients', 'visitors'" in capsys.readouterr().err
    assert main([*arguments, f"patients={run}"]) == 0
    out = capsys.readouterr().out
    assert "Charged: patients: run votes-run." in out
    assert "Closed: g." in out
    assert "not newer" not in out
    line = ["ledger", "charge", str(where), "visitors", "--epsilon", "0.1", "--delta", "1e-9", "--what", "a map"]
    assert main(line) == 0
    assert "Charged: a map." in capsys.readouterr().out
    head = Ledger(where).checkpoint()
    Ledger(where).witness_path.unlink()
    (tmp_path / "head.json").write_text(json.dumps(head))
    assert main(["ledger", "restored", str(where), "--checkpoint", str(tmp_path / "head.json")]) == 0
    out = capsys.readouterr().out
    assert "proves nothing about later answers" in out
    assert "no account has anything left" in out


def test_nothing_released_cannot_hold_after_entries_that_this_machine_has_seen(ledger, patients, tmp_path):
    checkpoint, where = ledger.checkpoint(), Path(ledger.place)
    shutil.copy(where, tmp_path / "copy.db")
    spend(patients)
    for left in where.parent.glob(f"{where.name}*"):
        left.unlink()
    shutil.copy(tmp_path / "copy.db", where)
    with pytest.raises(LedgerError, match="nothing_released cannot hold: this machine has seen entry"):
        Ledger.restored(where, [checkpoint], released=[])
    assert Ledger.restored(where, [checkpoint]).spends_rest


@pytest.mark.parametrize("step", ["added", "committed"])
def test_an_interrupted_restore_can_be_repeated_with_the_same_statement(ledger, patients, monkeypatch, step):
    spend(patients)
    left, checkpoint = patients.state().left, ledger.checkpoint()
    ledger.witness_path.unlink()

    def interrupt(name):
        if name == step:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(store, "step", interrupt)
        with pytest.raises(KeyboardInterrupt):
            Ledger.restored(ledger.place, [checkpoint], released=[])
    with pytest.raises(UnknownLedgerError):
        spend(Ledger(ledger.place).account("patients"))
    assert not Ledger.restored(ledger.place, [checkpoint], released=[]).charged
    assert Ledger(ledger.place).account("patients").state().left == left
    Ledger(ledger.place).verify()


def test_a_restore_whose_witness_cannot_be_written_charges_nothing_until_it_is_repeated(ledger, patients, monkeypatch):
    checkpoint = ledger.checkpoint()
    ledger.witness_path.unlink()

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(witness, "_replace_file", full)
        with pytest.raises(LedgerError, match="so the ledger is not restored yet; what was charged stays charged"):
            Ledger.restored(ledger.place, [checkpoint], released=[])
    with pytest.raises(UnknownLedgerError):
        spend(Ledger(ledger.place).account("patients"))
    Ledger.restored(ledger.place, [checkpoint], released=[])
    spend(Ledger(ledger.place).account("patients"))
