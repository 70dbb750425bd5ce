"""Random operations on copies of a ledger and of its state folder, against a model that knows what was truly spent.

Ten sequences in each case. After each operation, no confirmed charge is missing in the ledger that goes on, and the sum
of all confirmed charges is within the budget.
"""

import os
import random
import shutil

import pytest

from dpensemble import Budget
from dpensemble.errors import BudgetError, LedgerError
from dpensemble.server import Ledger, StatedRelease, store
from dpensemble.server import witness as witnesses
from dpensemble.server.witness import Witness

from .test_witness import copied, fails

SEQUENCES, OPERATIONS, DELTA = 10, 14, 1e-9


class Killed(BaseException):
    """Stands for the end of a process at a step."""


class World:
    """Up to three copies of a ledger, one state folder, back-ups of either, and the truth."""

    def __init__(self, folder, draw, monkeypatch):
        self.folder, self.draw, self.patch = folder, draw, monkeypatch
        self.state = folder / "state"
        monkeypatch.setenv("DPENSEMBLE_STATE", str(self.state))
        self.copies = [folder / "0" / "ledger.db"]
        self.copies[0].parent.mkdir(parents=True)
        Ledger.create(self.copies[0]).open_account("p", epsilon=1, delta=1e-5, filter="basic")
        self.ledger_backups, self.state_backups, self.checkpoints = [], [], []
        self.confirmed, self.names = [], 0
        self.refused = 0

    def charge(self):
        """Charge a copy, perhaps killed, or with a state folder that cannot be written."""
        fault = self.draw.choice(["none"] * 5 + ["killed", "read-only", "unlocked"])
        name, where = self.named(), self.one()
        epsilon = self.draw.choice([0.05, 0.1, 0.3])
        with self.patch.context() as patch:
            if fault == "killed":
                step = self.draw.choice(["begun", "added", "committed"])
                patch.setattr(store, "step", lambda at: self.die() if at == step else None)
            elif fault == "read-only":
                patch.setattr(Witness, "_write_over", fails)
                patch.setattr(witnesses, "_replace_file", self.draw.choice([fails, witnesses._replace_file]))
            elif fault == "unlocked":
                patch.setattr(witnesses, "FileLock", fails)
            try:
                ledger = Ledger(where)
                ledger.account("p").charge_budget(name, Budget(epsilon=epsilon, delta=DELTA))
            except (BudgetError, LedgerError, Killed):
                self.refused += 1
                return
        self.confirmed.append((name, epsilon))
        self.check(where)

    def die(self):
        raise Killed

    def named(self):
        self.names += 1
        return f"charge {self.names}"

    def one(self):
        return self.draw.choice(self.copies)

    def check(self, where):
        """Compare the ledger that confirmed a charge with the truth."""
        ledger = Ledger(where)
        spent = sum(round(epsilon * 10**6) for _, epsilon in self.confirmed)
        assert spent <= 10**6
        assert ledger.account("p").state().spent.loss >= spent
        if not any(entry.kind == "restored" for entry in ledger.entries()):
            assert {name for name, _ in self.confirmed} <= {one.what for one in ledger.account("p").history()}
        ledger.verify()

    def copy(self):
        """Copy a ledger to a place of its own."""
        if len(self.copies) < 3:
            to = self.folder / str(len(self.copies)) / "ledger.db"
            to.parent.mkdir()
            copied(self.one(), to)
            self.copies.append(to)

    def back_up(self):
        """Keep a copy of a ledger, of the state folder, or both, and perhaps a checkpoint elsewhere."""
        number = self.named()
        if self.draw.random() < 0.7:
            self.ledger_backups.append(self.folder / f"{number}.db")
            copied(self.one(), self.ledger_backups[-1])
        if self.draw.random() < 0.7:
            self.state_backups.append(self.folder / f"{number} state")
            shutil.copytree(self.state, self.state_backups[-1])

    def checkpoint(self):
        """Store a checkpoint of the ledger that goes on, and how much was confirmed by then."""
        try:
            # A copy that nobody knows does not sign, since its checkpoint would state too little.
            self.checkpoints.append((Ledger(self.one()).checkpoint(), len(self.confirmed)))
        except LedgerError:
            self.refused += 1

    def put_back(self):
        """Put an old ledger, an old state folder, or both in the place of the present ones."""
        if self.ledger_backups and self.draw.random() < 0.7:
            where = self.one()
            for end in ("", "-wal", "-shm"):
                where.with_name(where.name + end).unlink(missing_ok=True)
            shutil.copy(self.draw.choice(self.ledger_backups), where)
        if self.state_backups and self.draw.random() < 0.6:
            backup = self.draw.choice(self.state_backups)
            if self.draw.random() < 0.5:
                shutil.rmtree(self.state)
            # Otherwise files are written over in place.
            shutil.copytree(backup, self.state, dirs_exist_ok=True)

    def link(self):
        """Give a ledger a second name, use both, and perhaps remove one."""
        where = self.one()
        other = where.with_name("link.db")
        if not other.exists():
            os.link(where, other)
        for place in (where, other):
            with pytest.raises(LedgerError):
                Ledger(place).account("p").charge_budget("linked", Budget(epsilon=0.1, delta=DELTA))
        other.unlink()

    def lose_witness(self):
        """Remove the witness."""
        for path in self.state.glob("*.witness"):
            path.unlink()

    def restore(self):
        """Restore a copy, with the newest checkpoint, and state the truth or nothing."""
        if not self.checkpoints:
            return
        checkpoint, known = self.checkpoints[-1]
        released = [
            StatedRelease(data_set=None, what=name, epsilon=epsilon, delta=DELTA)
            for name, epsilon in self.confirmed[known:]
        ]
        try:
            Ledger.restored(self.one(), [checkpoint], released=released if self.draw.random() < 0.8 else None)
        except LedgerError:
            self.refused += 1


@pytest.mark.parametrize("case", range(50))
def test_no_confirmed_charge_is_missing_and_the_budget_is_never_passed(tmp_path, monkeypatch, case):
    confirmed = refused = 0
    for number in range(SEQUENCES):
        draw = random.Random(f"{case} {number}")
        world = World(tmp_path / str(number), draw, monkeypatch)
        operations = [world.charge] * 5 + [world.copy, world.back_up, world.checkpoint, world.put_back, world.restore]
        operations += [world.link, world.lose_witness]
        for _ in range(OPERATIONS):
            draw.choice(operations)()
        for where in world.copies:
            # One more charge, if any copy still goes on.
            world.one = lambda where=where: where
            world.charge()
        confirmed, refused = confirmed + len(world.confirmed), refused + world.refused
    # The sequences try what they are for.
    assert confirmed >= SEQUENCES // 2
    assert refused >= SEQUENCES // 2
