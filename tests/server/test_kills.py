"""SIGKILL at every step of an answer: no noise that was not charged, no second answer for one key, no dead ledger."""

import os
import signal

import pytest

from dpensemble.releases import answers
from dpensemble.server import Ledger, store
from dpensemble.server.witness import Witness

from .conftest import in_child, votes

# Newer Pythons warn of forks of a process with threads. Those of linear algebra are idle here.
pytestmark = [pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")]

STEPS = [
    "charge begun", "charge added", "charge committed", "witnessed", "drawn",
    "answer begun", "answer added", "answer committed", "told",
]  # fmt: skip


def killed_at(step, where, log, key):
    """Ask for an answer in a child that kills itself at a step. The log holds what it saw, one line each."""

    def say(line):
        with open(log, "a") as file:
            file.write(line + "\n")

    def work():
        transactions = 0

        def at(name):
            nonlocal transactions
            transactions += name == "begun"
            die(f"{'charge' if transactions == 1 else 'answer'} {name}")

        def die(name):
            if name == step:
                os.kill(os.getpid(), signal.SIGKILL)

        asked = votes(Ledger(where).account("patients").grant("g"), answers=200, sigma=200.0)
        sample, note = answers.sample, Witness.note

        def drawing(*given):
            # The charge has to stand before the noise is there.
            say(f"drawing {key}")
            found = sample(*given)
            die("drawn")
            return found

        def noting(self, entry):
            note(self, entry)
            die("witnessed")

        store.step, answers.sample, Witness.note = at, drawing, noting
        say(f"told {key} {asked.answer(counts=[50, 50], key=key).label}")
        die("told")

    return in_child(work)


def check(where, log):
    """Return the lines of the log after a check that they agree with the ledger."""
    ledger = Ledger(where)
    ledger.verify()
    lines = log.read_text().splitlines() if log.exists() else []
    charged = {entry.fields["request"] for entry in ledger.entries() if entry.kind == "request"}
    assert {line.split()[1] for line in lines if line.startswith("drawing")} <= charged
    told = {}
    for line in lines:
        if line.startswith("told"):
            _, key, label = line.split()
            assert told.setdefault(key, label) == label
    return told


def test_a_kill_at_any_step_costs_an_answer_at_most(patients, where, tmp_path):
    log = tmp_path / "log"
    votes(patients.grant("g"), answers=200, sigma=200.0).answer(counts=[50, 50], key="first")
    for turn in range(3):
        for number, step in enumerate(STEPS):
            key = f"{turn}-{number}"
            assert killed_at(step, where, log, key) == -signal.SIGKILL
            check(where, log)
            before = votes(Ledger(where).account("patients").grant("g"), answers=200, sigma=200.0).remaining()
            assert killed_at("never", where, log, key) == 0
            asked = votes(Ledger(where).account("patients").grant("g"), answers=200, sigma=200.0)
            told = check(where, log)
            assert asked.answer(counts=[50, 50], key=key).label == told[key]
            # One answer was paid for, whether by the first attempt or by the second.
            assert before - asked.remaining() == (1 if step in ("charge begun", "charge added") else 0)
    assert asked.remaining() == 200 - 1 - 3 * len(STEPS)
