"""SIGKILL at every step of a request: nothing drawn uncharged, one answer a key, and a service that goes on at once."""

import os
import signal

import pytest

from dpensemble.aggregation import aggregator
from dpensemble.ledger import Ledger, store
from dpensemble.ledger.witness import Witness
from dpensemble.service import guard

from .conftest import Served

# Newer Pythons warn of forks of a process that has threads; those of linear algebra are idle here.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")]

STEPS = [
    "body read", "charge begun", "charge added", "charge committed", "charge witnessed", "drawn",
    "answer begun", "answer added", "answer committed", "answer witnessed", "replied",
]  # fmt: skip


def asked_in_child(home, step, key):
    """Ask in a fork that kills itself at a step; return how it ended. What was drawn and told is in files."""

    def say(line):
        with open(home / "said", "a") as file:
            file.write(f"{line} {key}\n")

    def work():
        transactions = 0

        def die(name):
            if name == step:
                os.kill(os.getpid(), signal.SIGKILL)

        def at(name):
            nonlocal transactions
            transactions += name == "begun"
            die(f"{'charge' if transactions == 1 else 'answer'} {name}")

        sample, note, body = aggregator.sample, Witness.note, guard.Guard._body

        def drawing(*given):
            say("drawing")
            found = sample(*given)
            die("drawn")
            return found

        def noting(self, entry):
            note(self, entry)
            die(f"{'charge' if transactions == 1 else 'answer'} witnessed")

        async def reading(self, scope, receive):
            found = await body(self, scope, receive)
            die("body read")
            return found

        store.step, aggregator.sample, Witness.note, guard.Guard._body = at, drawing, noting, reading
        found = Served(home).ask(key=key)
        assert found.status_code == 200
        die("replied")
        say(f"told {found.json()['labels'][0]}")

    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_kill_at_any_step_costs_an_answer_at_most(home):
    # The grant itself is charged by the first answer.
    assert asked_in_child(home, "never", "first") == 0
    for number, step in enumerate(STEPS):
        key = f"{number}"
        before = Served(home).get("/v1/grants/october").json()["remaining"]
        assert asked_in_child(home, step, key) == -signal.SIGKILL
        ledger = Ledger(home / "ledger.db")
        ledger.verify()
        charged = {entry.fields["request"] for entry in ledger.entries() if entry.kind == "request"}
        drawn = {line.split()[1] for line in (home / "said").read_text().splitlines() if line.startswith("drawing")}
        assert {f"alice:{one}" for one in drawn} <= charged
        served = Served(home)
        told = served.ask(key=key)
        assert told.status_code == 200
        assert served.ask(key=key).content == told.content
        assert before - served.get("/v1/grants/october").json()["remaining"] == 1
        # What was on the disk before the kill is what is told after it.
        stored = step in ("answer committed", "answer witnessed", "replied")
        assert told.headers["idempotent-replayed"] == ("true" if stored else "false")
