"""Many processes on one budget: never more than it allows, and nothing lost.

Several services on one SQLite file, and many threads in each.
"""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from dpensemble import Budget
from dpensemble._spending import Spending
from dpensemble.errors import BudgetError
from dpensemble.server import Ledger

from .conftest import Served, votes

# Newer Pythons warn of forks of a process with threads. Those of linear algebra are idle here.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")


def together(n, work):
    """Run `work(i)` in a number of forks that begin at one moment, and return the exit codes."""
    ready, go = os.pipe(), os.pipe()
    children = []
    for number in range(n):
        child = os.fork()
        if child == 0:
            code = 99
            try:
                os.write(ready[1], b".")
                os.close(go[1])
                os.read(go[0], 1)
                code = work(number)
            finally:
                os._exit(code)
        children.append(child)
    got = 0
    while got < n:
        got += len(os.read(ready[0], n))
    os.close(go[1])
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    for pipe in (*ready, go[0]):
        os.close(pipe)
    return codes


def race(where, name, parts):
    """Charge one part of an account, and return 0, or 3 where the account refuses."""
    try:
        Ledger(where).account(name).one_release("race")([Spending(name="everyone", epsilon=1 / parts, delta=1e-9)])
    except BudgetError:
        return 3
    return 0


def test_four_processes_never_pass_one_budget(ledger, where):
    for number in range(3):
        name = f"round {number}"
        account = ledger.open_account(name, epsilon=1, delta=1e-5, filter="basic")
        codes = together(4, lambda _, name=name: race(where, name, 2))
        assert sorted(codes) == [0, 0, 3, 3]
        assert account.state().left.loss == 0
    assert ledger.verify().grants == 6


def test_a_ledger_that_was_open_before_the_forks_never_passes_the_budget(ledger):
    account = ledger.open_account("patients", epsilon=1, delta=1e-5, filter="basic")

    def charge(_):
        try:
            account.charge_budget("a table", Budget(epsilon=0.5, delta=1e-9))
        except BudgetError:
            return 3
        return 0

    assert sorted(together(4, charge)) == [0, 0, 3, 3]
    assert account.state().left.loss == 0
    assert ledger.verify().grants == 2


def test_24_processes_never_pass_one_budget_in_40_rounds(ledger, where):
    """`scripts/ledger_races.py` runs a thousand rounds."""
    for number in range(40):
        name = f"round {number}"
        account = ledger.open_account(name, epsilon=1, delta=1e-5, filter="basic")
        # Eighths are exact, so eight fit, in any order.
        codes = together(24, lambda _, name=name: race(where, name, 8))
        assert sorted(codes) == [0] * 8 + [3] * 16
        assert account.state().left.loss == 0
    assert ledger.verify().grants == 320


def test_12_processes_share_one_grant_and_agree_on_every_key(patients, where, tmp_path):
    def ask(number):
        asked = votes(Ledger(where).account("patients").grant("g"), answers=6)
        labels = []
        for key in range(4):
            labels.append(asked.answer(counts=[50, 50], key=str(key)).label)
        (tmp_path / f"told{number}").write_text(" ".join(labels))
        return 0

    assert together(12, ask) == [0] * 12
    assert len({(tmp_path / f"told{number}").read_text() for number in range(12)}) == 1
    assert votes(patients.grant("g"), answers=6).remaining() == 2
    found = patients.ledger.verify()
    assert (found.grants, found.requests) == (1, 4)


# Newer Pythons warn of forks of a process with threads. Those of linear algebra are idle here.


def test_services_share_a_budget_and_agree_on_every_key(home):
    served = Served(home)
    assert served.ask(key="first").status_code == 200
    children = []
    for number in range(4):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                mine = Served(home)
                ask = partial(mine.ask, counts=[[50, 50]] * 4)
                with mine.client, ThreadPoolExecutor(6) as pool:
                    found = list(pool.map(ask, map(str, range(24))))
                told = {str(key): [one.status_code, one.json().get("labels")] for key, one in enumerate(found)}
                (home / f"told{number}").write_text(json.dumps(told))
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 4
    told = [json.loads((home / f"told{number}").read_text()) for number in range(4)]
    # 59 are left, so fourteen requests for four each fit, whichever came first.
    answered = {key for one in told for key, (status, _) in one.items() if status == 200}
    assert len(answered) == 14
    for key in answered:
        assert len({json.dumps(one[key][1]) for one in told if one[key][0] == 200}) == 1
    assert {status for one in told for status, _ in one.values()} <= {200, 403}
    assert served.get("/v1/grants/october").json()["remaining"] == 3
    assert served.ledger.verify().requests == 15
