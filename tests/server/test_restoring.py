"""A restored back-up: what was released since is charged, and an ordinary restart needs no restore."""

import json
import os
import shutil
import socket
from pathlib import Path

import pytest

from dpensemble import Budget
from dpensemble.cli import main
from dpensemble.errors import BudgetError, LedgerError, TamperedLedgerError, UnknownLedgerError
from dpensemble.server import Ledger, StatedRelease, store, witness
from dpensemble.server import witness as signatures

from .conftest import open_group_as_before, spend, votes
from .test_witness import copied


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
