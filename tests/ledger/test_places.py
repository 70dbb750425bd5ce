"""A new ledger does not take the place of one that was charged, and only the key's owner charges."""

import json
import shutil

import pytest

from dpensemble.errors import LedgerError, ReplacedLedgerError
from dpensemble.server import Ledger, signatures

from .conftest import spend, votes


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """Return a ledger with the same account that was made elsewhere, without a key here."""
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("DPENSEMBLE_STATE", str(tmp_path / "elsewhere"))
        ledger = Ledger.create(tmp_path / "fresh.db")
        ledger.open_account("patients", epsilon=3, delta=1e-5)
    return ledger


def put(source, where):
    for name in (f"{where.name}-wal", f"{where.name}-shm"):
        where.with_name(name).unlink(missing_ok=True)
    shutil.copy(source, where)


def test_a_fresh_ledger_in_the_old_ones_place_is_refused(patients, where, fresh):
    spend(patients, 1.0)
    put(fresh.place, where)
    with pytest.raises(ReplacedLedgerError, match=rf"held ledger {patients.ledger.id} before.*ledger {fresh.id}"):
        Ledger(where)
    # Nor does a process that is still open take the new one for the old one.
    with pytest.raises(LedgerError, match="lacks entry"):
        spend(patients)


def test_a_ledger_without_its_key_can_be_read_and_not_charged(fresh):
    account = Ledger(fresh.place).account("patients")
    assert account.state().share_left == 1
    for charge in (lambda: spend(account), lambda: votes(account.grant("g")).answer(counts=[50, 50])):
        with pytest.raises(LedgerError, match=r"signing key .* cannot be read"):
            charge()
    with pytest.raises(LedgerError, match="signing key"):
        account.ledger.open_account("others", epsilon=3, delta=1e-5)
    assert account.state().share_left == 1


def test_another_ledgers_key_charges_nothing(patients, fresh):
    account = Ledger(fresh.place, signing_key=patients.ledger.key_path).account("patients")
    with pytest.raises(LedgerError, match="another ledger"):
        spend(account)


def test_a_place_that_was_emptied_takes_no_new_ledger_until_it_is_forgotten(patients, where):
    before = patients.ledger.id
    for name in ("ledger.db", "ledger.db-wal", "ledger.db-shm"):
        where.with_name(name).unlink(missing_ok=True)
    with pytest.raises(ReplacedLedgerError, match=f"'dpensemble ledger forget {where} --id {before}'"):
        Ledger.create(where)
    assert not where.exists()
    with pytest.raises(LedgerError, match="id='other' is not the ledger"):
        Ledger.forget(where, "other")
    Ledger.forget(where, before)
    new = Ledger.create(where)
    assert new.id != before
    with pytest.raises(LedgerError, match="is not the ledger"):
        Ledger.forget(where, before)


def test_a_link_and_a_relative_path_are_the_same_place(patients, where, tmp_path, monkeypatch, fresh):
    put(fresh.place, where)
    (tmp_path / "link").symlink_to(where.parent)
    monkeypatch.chdir(tmp_path)
    for name in (tmp_path / "link" / "ledger.db", "ledger.db", "./link/./ledger.db"):
        with pytest.raises(ReplacedLedgerError):
            Ledger(name)


def test_a_ledger_that_moved_goes_on_in_its_new_place(patients, where, tmp_path):
    spend(patients)
    moved = tmp_path / "moved.db"
    for name in ("ledger.db", "ledger.db-wal", "ledger.db-shm"):
        if where.with_name(name).exists():
            where.with_name(name).rename(tmp_path / name.replace("ledger", "moved"))
    account = Ledger(moved).account("patients")
    spend(account)
    assert account.ledger.verify().grants == 2


def test_the_folder_of_a_named_witness_remembers_and_the_error_names_it(tmp_path, where, fresh):
    kept = tmp_path / "kept" / "witness"
    ledger = Ledger.create(where, witness=kept)
    put(fresh.place, where)
    with pytest.raises(LedgerError):
        Ledger(where, witness=kept)
    kept.unlink()
    with pytest.raises(ReplacedLedgerError, match=f"--witness {kept.parent}"):
        Ledger(where, witness=kept)
    Ledger.forget(where, ledger.id, witness=kept)
    assert Ledger(where, witness=kept).id == fresh.id


@pytest.mark.parametrize("content", ["", "{", "[]"])
def test_a_damaged_memory_stops_charges(patients, content):
    path = patients.ledger.key_path.with_name("ledgers.json")
    assert json.loads(path.read_text()) == {patients.ledger.place: patients.ledger.id}
    path.write_text(content)
    with pytest.raises(LedgerError, match="remembers the ledger of each place, cannot be read"):
        spend(patients)


def test_a_start_reads_only_what_came_after_the_last_signed_checkpoint(patients, where, monkeypatch):
    monkeypatch.setattr(signatures, "INTERVAL", 5)
    for _ in range(8):
        spend(patients, 0.01)
    ledger = Ledger(where)
    checkpoint = ledger.key_path.with_suffix(".checkpoint")
    statement = json.loads(checkpoint.read_text())
    assert statement["number"] == 10
    assert ledger.verify([statement]).entries == 10
    assert ledger.account("patients").state() == patients.state()
    ledger._watch.wait()
    ledger._watch.require()
    # An unsigned checkpoint is not trusted, and costs nothing but time.
    statement["standing"]["accounts"][0][3] = 0
    checkpoint.write_text(json.dumps(statement))
    assert Ledger(where).account("patients").state() == patients.state()


def test_a_link_that_is_turned_to_a_fresh_ledger_is_refused(tmp_path):
    link, old, fresh = (tmp_path / name for name in ("ledger.db", "old.db", "fresh.db"))
    Ledger.create(old).open_account("patients", epsilon=3, delta=1e-5)
    link.symlink_to(old)
    spend(Ledger(link).account("patients"), 0.5)
    link.unlink()
    Ledger.create(fresh).open_account("patients", epsilon=3, delta=1e-5)
    link.symlink_to(fresh)
    with pytest.raises(ReplacedLedgerError, match="held ledger"):
        Ledger(link)
    Ledger.forget(link, Ledger(old).id)
    assert Ledger(link).id == Ledger(fresh).id
