"""The file that reveals an old copy: one line of charges, written over in place, and known by its own mark.

A new ledger does not take the place of one that was charged, and only the key's owner charges.
"""

import json
import os
import shutil
import sqlite3
import threading

import pytest

from dpensemble.errors import LedgerError, ReplacedLedgerError, UnknownLedgerError
from dpensemble.server import Ledger, store
from dpensemble.server import witness as files
from dpensemble.server import witness as signatures
from dpensemble.server import witness as witnesses
from dpensemble.server.entries import Entry
from dpensemble.server.witness import Witness

from ..deadline import GUARD
from .conftest import spend, votes


def entry(number):
    return Entry(number, "request", "{}", "0" * 64, f"{number:064x}")


@pytest.fixture
def witness(tmp_path):
    witness = Witness(tmp_path / "state" / "witness")
    with witness.locked():
        witness.begin(entry(1))
    return witness


def noted(witness, number):
    with witness.held() as seen:
        witness.note(entry(number))
    return seen


def test_the_newest_entry_is_kept(witness):
    assert [noted(witness, number) for number in (2, 5, 6)] == [(each, f"{each:064x}") for each in (1, 2, 5)]
    assert witness.seen() == (6, f"{6:064x}")
    # Two places, each a line, so that it can be read by people.
    assert [json.loads(line)["number"] for line in witness.path.read_text().splitlines()] == [5, 6]


def test_a_write_cut_short_anywhere_leaves_what_was_seen_before(witness):
    for number in (2, 3):
        noted(witness, number)
    before = witness.path.read_bytes()
    noted(witness, 4)
    after = witness.path.read_bytes()
    changed = [place for place, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    for cut in range(changed[0], changed[-1] + 2):
        witness.path.write_bytes(after[:cut] + before[cut:])
        assert witness.seen() == ((4, f"{4:064x}") if cut > changed[-1] else (3, f"{3:064x}"))
        # The next one goes where nothing is lost.
    witness.path.write_bytes(after[: changed[0] + 3] + before[changed[0] + 3 :])
    noted(witness, 5)
    assert witness.seen() == (5, f"{5:064x}")


def test_a_file_of_an_earlier_version_is_read_and_gets_a_mark(tmp_path):
    path = tmp_path / "witness"
    one = {"number": 8, "hash": f"{8:064x}"}
    slot = json.dumps(one | {"check": witnesses._check(8, one["hash"])}).ljust(4095) + "\n"
    for content in (json.dumps(one), slot * 2):
        path.write_text(content)
        witness = Witness(path)
        assert witness.seen() == (8, f"{8:064x}")
        witness.require_known()
        noted(witness, 9)
        noted(witness, 10)
        assert witness.seen() == (10, f"{10:064x}")
        assert all("/" in json.loads(line)["file"] for line in path.read_text().splitlines())


@pytest.mark.parametrize("content", ["", "{", "[]", "x" * 8192, " " * 8192])
def test_a_damaged_file_is_refused(witness, content):
    witness.path.write_text(content)
    for use in (witness.seen, witness.require_known, witness.renew):
        with pytest.raises(LedgerError, match="cannot be read"):
            use()
    assert witness.path.read_text() == content


@pytest.mark.parametrize("birth", [True, False])
def test_a_copy_is_unknown_and_what_keeps_the_file_is_not(witness, tmp_path, monkeypatch, birth):
    if not birth:
        # A system that does not tell when a file was made numbers its files.
        monkeypatch.setattr(files, "_STATX", None)
        witness.renew()
    noted(witness, 2)
    # A restart, a renamed folder, a new owner, another host name.
    folder = witness.path.parent.rename(tmp_path / "moved")
    os.chmod(folder / "witness", 0o640)
    moved = Witness(folder / "witness")
    moved.require_known()
    assert noted(moved, 3) == (2, f"{2:064x}")
    # The mark of a newer system, or of an older one, is compared by what both know.
    monkeypatch.setattr(files, "_STATX", files._statx())
    Witness(folder / "witness").require_known()
    # A back-up that is put back, into the same folder or another one.
    shutil.copytree(folder, tmp_path / "backup")
    if birth:
        shutil.rmtree(folder)
    else:
        # A number may be given to another file as soon as the first file is gone.
        folder.rename(tmp_path / "lost")
    shutil.copytree(tmp_path / "backup", folder)
    for place in (folder, tmp_path / "backup"):
        copy = Witness(place / "witness")
        before = copy.path.read_bytes()
        for use in (copy.require_known, copy.renew, lambda copy=copy: noted(copy, 4)):
            with pytest.raises(UnknownLedgerError, match=r"is a copy.*'dpensemble ledger restored LEDGER --checkpoint"):
                use()
        assert copy.path.read_bytes() == before


def test_each_start_and_the_timer_make_a_new_mark_so_that_an_earlier_copy_is_noticed(witness, tmp_path):
    shutil.copy(witness.path, tmp_path / "backup")
    witness.renew()
    # Written over in place, as 'cp' does.
    shutil.copy(tmp_path / "backup", witness.path)
    with pytest.raises(UnknownLedgerError):
        Witness(witness.path).require_known()


def test_links_lead_to_one_file_with_one_lock(witness, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "witness").symlink_to(witness.path)
    linked = Witness(tmp_path / "other" / "witness")
    linked.renew()
    noted(linked, 2)
    assert (tmp_path / "other" / "witness").is_symlink()
    assert noted(witness, 3) == (2, f"{2:064x}")
    assert noted(linked, 4) == (3, f"{3:064x}")


def test_a_charge_after_ten_seconds_makes_a_new_mark(witness, tmp_path, monkeypatch):
    seconds = [1000.0]
    monkeypatch.setattr(witnesses, "_clock", lambda: seconds[0])
    witness.renew()
    shutil.copy(witness.path, tmp_path / "backup")
    seconds[0] += 11
    noted(witness, 2)
    shutil.copy(tmp_path / "backup", witness.path)
    with pytest.raises(UnknownLedgerError):
        Witness(witness.path).require_known()


def test_a_missing_file_is_unknown_and_makes_no_folder(tmp_path):
    witness = Witness(tmp_path / "none" / "witness", "ledger.db")
    for use in (witness.require_known, witness.renew):
        with pytest.raises(UnknownLedgerError, match=r"is missing.*ledger restored ledger.db"):
            use()
    assert not (tmp_path / "none").exists()


def test_a_ledger_that_this_folder_does_not_know_can_be_read_and_not_charged(ledger, patients):
    spend(patients)
    ledger.witness_path.unlink()
    account = Ledger(ledger.place).account("patients")
    assert account.state() == patients.state()
    for use in (lambda: spend(account), account.ledger.check, account.ledger.require_known):
        with pytest.raises(UnknownLedgerError, match="nobody knows what was released"):
            use()
    assert account.ledger.head().number == 3


def copied(where, to):
    with sqlite3.connect(where) as raw:
        raw.execute("VACUUM INTO ?", (str(to),))
    raw.close()


def test_of_two_copies_one_alone_charges_while_the_other_is_under_way(ledger, patients, where, tmp_path, monkeypatch):
    """A charge that is on the disk, and not witnessed yet, keeps a copy of the ledger waiting."""
    copied(where, tmp_path / "copy.db")
    first, second, copy = (Ledger(path).account("patients") for path in (where, where, tmp_path / "copy.db"))
    is_on_disk, goes_on, charged, refused = threading.Event(), threading.Event(), [], []

    def step(name):
        if name == "committed" and threading.current_thread().name == "first":
            is_on_disk.set()
            assert goes_on.wait(GUARD)

    def charge(name, account):
        try:
            account.charge_budget(name, patients_budget())
            charged.append(name)
        except LedgerError as error:
            refused.append(str(error))

    monkeypatch.setattr(store, "step", step)
    threads = [
        threading.Thread(target=charge, args=(name, account), name=name)
        for name, account in [("first", first), ("second", second), ("copy", copy)]
    ]
    threads[0].start()
    assert is_on_disk.wait(GUARD)
    for thread in threads[1:]:
        thread.start()
    goes_on.set()
    for thread in threads:
        thread.join(GUARD)
    assert sorted(charged) == ["first", "second"]
    assert "another copy of it is in use" in refused[0]
    assert sorted(one.what for one in Ledger(where).account("patients").history()) == ["first", "second"]


def patients_budget():
    from dpensemble import Budget

    return Budget(epsilon=0.1, delta=1e-9)


@pytest.mark.parametrize("step", [False, True])
def test_a_copy_that_charged_alone_makes_the_other_one_useless(ledger, patients, where, tmp_path, step):
    copied(where, tmp_path / "copy.db")
    still_open = Ledger(where).account("patients")
    spend(Ledger(tmp_path / "copy.db").account("patients"), 0.1)
    with pytest.raises(LedgerError, match="another copy of it is in use"):
        spend(still_open if step else Ledger(where).account("patients"), 0.1)


def test_a_ledger_with_two_names_is_refused_before_and_while_it_is_open(ledger, patients, where, tmp_path):
    with ledger.kept_open():
        spend(patients, 0.1)
        os.link(where, tmp_path / "backup.db")
        for use in (lambda: spend(patients, 0.1), lambda: Ledger(where), lambda: Ledger(tmp_path / "backup.db")):
            with pytest.raises(LedgerError, match=r"hard link.*cp -al.*\.backup"):
                use()
        os.unlink(tmp_path / "backup.db")
        spend(patients, 0.1)
    os.link(ledger.witness_path, tmp_path / "witness")
    with pytest.raises(LedgerError, match="second name"):
        spend(patients, 0.1)
    assert len(patients.history()) == 2


def fails(*_, **__):
    raise OSError(30, "Read-only file system")


def test_no_retry_is_answered_while_the_witness_cannot_be_written(ledger, patients, where, monkeypatch):
    """The entry is charged. Its answer is not told until the witness has the entry, however often it is asked for."""
    asked = votes(patients.grant("g"))
    asked.answer(counts=[50, 50], key="first")
    with monkeypatch.context() as readonly:
        readonly.setattr(Witness, "_write_over", fails)
        readonly.setattr(witnesses, "_replace_file", fails)
        for _ in range(4):
            with pytest.raises(LedgerError, match="cannot be written"):
                asked.answer(counts=[50, 50], key="second")
            with pytest.raises(LedgerError, match="cannot be written"):
                votes(Ledger(where).account("patients").grant("g")).answer(counts=[50, 50], key="second")
            with pytest.raises(LedgerError, match="cannot be written"):
                Ledger(where).entries()
        with pytest.raises(LedgerError, match="could not be written"):
            ledger.check()
        # Only the first attempt was charged. Nothing was drawn.
        assert asked.remaining() == 28
        assert [one.kind for one in transaction_entries(ledger)][-1] == "request"
    told = asked.answer(counts=[50, 50], key="second")
    assert (told.replayed, asked.remaining()) == (False, 28)
    assert ledger._witness.seen()[0] == ledger.head().number
    assert ledger.check() == []
    assert len(ledger.entries()) == ledger.head().number


def transaction_entries(ledger):
    with ledger.reading() as transaction:
        return list(transaction.all_entries())


def test_nothing_is_charged_while_the_state_folder_cannot_be_written(ledger, patients, monkeypatch):
    monkeypatch.setattr(witnesses, "FileLock", fails)
    for _ in range(2):
        with pytest.raises(LedgerError, match="Nothing was charged"):
            spend(patients, 0.1)
    assert patients.history() == []


def test_a_service_writes_the_witness_at_its_start_and_by_a_timer(ledger, monkeypatch):
    from dpensemble.server import entry_log

    written, enough, renew = [], threading.Event(), Witness.renew

    def renewing(self):
        if len(written) == 3:
            monkeypatch.setattr(witnesses, "_replace_file", fails)
        written.append(self.path.read_bytes())
        renew(self)
        if len(written) >= 3:
            enough.set()

    monkeypatch.setattr(entry_log, "_RENEWED_EVERY", 0.001)
    monkeypatch.setattr(Witness, "renew", renewing)
    with ledger.kept_open():
        assert enough.wait(GUARD)
        while ledger._witness.problem is None:
            pass
        before = ledger.witness_path.read_bytes()
        with pytest.raises(LedgerError, match="could not be written"):
            ledger.check()
        assert ledger.witness_path.read_bytes() == before
    assert len({json.loads(one[:4096])["file"] for one in written}) >= 3
    assert {json.loads(one[:4096])["number"] for one in written} == {1}


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
    monkeypatch.setattr(signatures, "_INTERVAL", 5)
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
