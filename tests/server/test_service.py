"""Pools of threads: bounded queues, deadlines that end no work, and attacks that stop nobody else.

What must stay secret is planted, and looked for everywhere.
"""

import asyncio
import json
import sqlite3
import threading
from types import SimpleNamespace

import pytest

from dpensemble.errors import InvalidParameterError
from dpensemble.server import read_settings
from dpensemble.server.http import Problem
from dpensemble.server.service import GrantHandler, _Pool, _SharedCheck

from ..deadline import GUARD, until
from .conftest import Served
from .test_hosted_teachers import ROW, hospital  # noqa: F401 - a fixture


class Gate:
    """Work that ends when the test lets it."""

    def __init__(self):
        self.begun, self.ended, self.go = 0, 0, threading.Event()

    def __call__(self):
        self.begun += 1
        assert self.go.wait(GUARD)
        self.ended += 1
        return "done"


@pytest.fixture
def gate():
    found = Gate()
    yield found
    found.go.set()


def test_a_full_queue_refuses_at_once(gate):
    async def ask():
        pool = _Pool("reads", threads=2, queued=3, seconds=10 * GUARD)
        tasks = [asyncio.create_task(pool.run(gate)) for _ in range(5)]
        await asyncio.sleep(0)
        with pytest.raises(Problem) as refused:
            await pool.run(gate)
        assert (refused.value.status, refused.value.headers["Retry-After"]) == (503, "1")
        gate.go.set()
        return await asyncio.gather(*tasks)

    assert asyncio.run(ask()) == ["done"] * 5


def test_a_deadline_ends_the_wait_and_not_the_work(gate):
    async def ask():
        pool = _Pool("writes", threads=1, queued=3, seconds=0.05)
        found = await asyncio.gather(*[pool.run(gate) for _ in range(3)], return_exceptions=True)
        assert [one.status for one in found] == [503] * 3
        gate.go.set()
        # The thread is free again when its work has ended.
        while not gate.ended:
            await asyncio.sleep(0.01)
        while pool._free.locked():
            await asyncio.sleep(0.01)

    asyncio.run(ask())
    # What still waited for a thread never began.
    assert (gate.begun, gate.ended) == (1, 1)


def test_errors_of_the_work_are_raised():
    def failing():
        raise TimeoutError("of the work")

    async def ask():
        await _Pool("reads", threads=1, queued=1, seconds=10 * GUARD).run(failing)

    with pytest.raises(TimeoutError, match="of the work"):
        asyncio.run(ask())


def test_simultaneous_checks_are_one_check(gate):
    async def ask():
        check = _SharedCheck(_Pool("checks", threads=1, queued=1, seconds=10 * GUARD))
        tasks = [asyncio.create_task(check.run(gate)) for _ in range(100)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        gate.go.set()
        await asyncio.gather(*tasks[1:])

    asyncio.run(ask())
    assert gate.begun == 1


@pytest.mark.parametrize("value", ["0", "61", "nan", "true"])
def test_waits_are_bounded(home, value):
    with (home / "service.toml").open("a") as file:
        file.write(f"\n[waits]\nwrite = {value}\n")
    with pytest.raises(InvalidParameterError, match="waits: write"):
        read_settings(home / "service.toml")


@pytest.fixture
def impatient(home):
    """Return a service whose writes wait a moment."""
    with (home / "service.toml").open("a") as file:
        file.write("\n[waits]\nwrite = 0.5\n")
    found = Served(home)
    with found.client:
        yield found


@pytest.fixture
def held(home):
    """Return a connection of another program that holds the ledger's lock on demand."""
    found = sqlite3.connect(home / "ledger.db", isolation_level=None, check_same_thread=False)
    yield found
    found.close()


@pytest.mark.parametrize("is_open", [False, True], ids=["first answer", "later answers"])
def test_a_held_lock_stops_writes_only(impatient, held, is_open):
    if is_open:
        assert impatient.ask(key="before").status_code == 200
    held.execute("BEGIN IMMEDIATE")
    found = []
    asked = [threading.Thread(target=lambda n=n: found.append(impatient.ask(key=f"k{n}"))) for n in range(45)]
    for one in asked:
        one.start()
    for path, who in (("/health", None), ("/v1/grants", "alice"), ("/v1/budgets", "alice"), ("/metrics", "prometheus")):
        assert impatient.get(path, who).status_code == 200
    for one in asked:
        one.join()
    # Each was refused while the lock was held, because it is still held.
    assert {one.status_code for one in found} == {503}
    assert all("retry-after" in one.headers for one in found)
    held.execute("ROLLBACK")
    assert until(lambda: impatient.ask(key="k0").status_code == 200)


def test_an_answer_that_was_charged_waits_for_the_lock(impatient, held, monkeypatch):
    """The client gets 503, and a retry gets the stored answer at no further cost."""
    assert impatient.ask(key="before").status_code == 200
    ledger = impatient.app._app.state.service.ledger
    together, tries = ledger.together, []

    def charged(work, *, is_charged=False):
        if is_charged and True not in tries:
            held.execute("BEGIN IMMEDIATE")
        tries.append(is_charged)
        return together(work, is_charged=is_charged)

    monkeypatch.setattr(type(ledger), "together", lambda _, work, **given: charged(work, **given))
    refused = impatient.ask(key="k")
    assert refused.status_code == 503
    count = held.execute("SELECT count(*) FROM dpensemble_answers").fetchone()
    held.execute("ROLLBACK")
    # The work under way stores the answer without another request.
    until(lambda: held.execute("SELECT count(*) FROM dpensemble_answers").fetchone() != count)
    again = impatient.ask(key="k")
    assert again.status_code == 200
    assert again.headers["idempotent-replayed"] == "true"
    assert impatient.get("/v1/grants/october").json()["answered"] == 2


def test_quotes_have_a_thread_of_their_own(served, gate, monkeypatch):
    handler = served.app._app.state.service.handlers["october"]
    monkeypatch.setattr(
        handler, "_quote", lambda _: gate() and SimpleNamespace(answers=1, epsilon=1.0, delta=0.0, fits=True)
    )
    asked = [threading.Thread(target=served.get, args=(f"/v1/grants/october/quote?answers={n}",)) for n in range(1, 45)]
    for one in asked:
        one.start()
    until(lambda: gate.begun)
    for path, who in (("/health", None), ("/v1/grants", "alice")):
        assert served.get(path, who).status_code == 200
    assert served.ask().status_code == 200
    assert gate.begun == 1
    gate.go.set()
    for one in asked:
        one.join()


SECRET = "Zq7vSECRETx9"  # noqa: S105


def everything(served, responses):
    """Return all output so far, on every channel."""
    said = [served.log.getvalue(), served.get("/metrics", who="prometheus").text]
    said += [json.dumps(entry.to_dict()) for entry in served.ledger.entries()]
    return "\n".join([*said, *(f"{one.headers} {one.text}" for one in responses)])


def test_what_was_sent_is_in_no_log_metric_error_or_page(served):
    token = served.tokens["alice"]
    forms = [
        {"counts": [[SECRET, 3]]},
        {"counts": SECRET},
        {SECRET: 3},
        {"ballots": [[SECRET] * 100]},
        {"rows": [{SECRET: SECRET}]},
        {"log_probs": [[[SECRET]]]},
        SECRET,
    ]
    found = [
        served.client.post("/v1/grants/october/predictions", json=one, headers=served.as_("alice", "k"))
        for one in forms
    ]
    odd = served.as_("alice", "k")
    found += [
        served.client.post("/v1/grants/october/predictions", content=f'{{"counts": {SECRET}', headers=odd),
        served.client.post(f"/v1/grants/{SECRET}/predictions", json={}, headers=odd),
        served.client.get(f"/{SECRET}?{SECRET}={SECRET}", headers=odd),
        served.client.get(f"/v1/grants/october/quote?answers={SECRET}", headers=odd),
        served.client.get("/v1/grants", headers={"Authorization": f"Bearer dpe_{SECRET}"}),
        served.client.get("/v1/grants", headers={"Authorization": f"Basic {SECRET}"}),
        served.client.request(SECRET[:6], "/v1/grants", headers=odd),
        served.client.post("/login", data={"key": SECRET}),
        served.client.post("/login", data={SECRET: SECRET}),
        served.client.get("/", headers={"Cookie": f"dpensemble={SECRET}.1.{SECRET}"}),
        served.client.get("/grants/october", headers={"X-Forwarded-For": SECRET, "User-Agent": SECRET}),
        served.ask(key=SECRET + "\t", counts=[[50, 50]]),
    ]
    assert all(400 <= one.status_code < 500 or one.status_code == 200 for one in found)
    served.login()
    found.append(served.client.get("/"))
    assert SECRET not in everything(served, found)
    assert token not in everything(served, found)
    assert token.split("_", 2)[2] not in (served.home / "keys.json").read_text()


def test_votes_and_holders_requests_are_in_no_log(served):
    found = [served.ask(key="quiet name", counts=[[37, 63]]), served.ask(key="other", counts=[[37, 64]])]
    assert [one.status_code for one in found] == [200, 422]
    said = everything(served, found)
    assert "[37" not in said
    assert "63]" not in said
    assert "quiet name" not in served.log.getvalue()
    assert all("seconds" not in line and "duration" not in line for line in served.log.getvalue().splitlines())


def test_an_error_that_nobody_foresaw_is_not_quoted(served, monkeypatch):
    def broken(*given):
        raise RuntimeError(SECRET)

    monkeypatch.setattr(GrantHandler, "predict", broken)
    found = served.ask()
    assert found.status_code == 500
    assert found.json()["type"].endswith("unexpected")
    served.login()
    pages = [served.client.get("/grants/october")]
    assert SECRET not in everything(served, [found, *pages])
    assert '"error": "RuntimeError"' in served.log.getvalue()


def test_the_private_table_is_nowhere(hospital, capfd):  # noqa: F811
    with open(hospital / "patients.csv", "a") as table:
        table.write(f"44,{SECRET},no,{SECRET}\n")
    served = Served(hospital)
    found = [served.ask(rows=[ROW]), served.get("/v1/grants"), served.get("/openapi.json")]
    assert found[0].status_code == 200
    assert SECRET not in everything(served, found) + str(capfd.readouterr())
