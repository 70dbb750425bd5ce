"""A disk that is full or read-only, a database that is restarted, a clock set back: all seen through HTTP."""

import os
import shutil
import subprocess
from datetime import UTC, datetime

import pytest

from dpensemble.releases import answers
from dpensemble.server import Ledger, entries, sign_in, store

from ..deadline import until
from .conftest import Served


@pytest.fixture
def draws(monkeypatch):
    """Return a list that grows with every draw of noise."""
    found, sample = [], answers.sample

    def drawing(*given):
        found.append(given)
        return sample(*given)

    monkeypatch.setattr(answers, "sample", drawing)
    return found


def require_unavailable(found):
    assert found.status_code == 503
    assert found.headers["content-type"] == "application/problem+json"
    assert found.headers["retry-after"] == "5"
    assert found.json()["type"] == "urn:dpensemble:problem:unavailable"
    assert "Traceback" not in found.text
    assert "ledger.db" not in found.text


def fill(folder):
    """Take all room on a disk, to the last byte."""
    file = os.open(folder / "filler", os.O_WRONLY | os.O_CREAT)
    size = 1 << 16
    while size:
        try:
            os.write(file, b"x" * size)
        except OSError:
            size //= 2
    os.close(file)


@pytest.fixture
def small_disk(tmp_path):
    """Mount two megabytes of memory as a disk."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount")
    if mount is None or not hasattr(os, "geteuid") or os.geteuid() != 0:
        pytest.skip("a small disk can be mounted by root only")
    mounting = [mount, "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
    refused = subprocess.run(mounting, check=False, capture_output=True, text=True)
    if refused.returncode:
        pytest.skip(f"the system mounts no small disk: {refused.stderr.strip()}")
    yield place
    subprocess.run([shutil.which("umount"), "--lazy", str(place)], check=True)


def test_a_full_disk_costs_nothing_and_nothing_is_drawn(home, small_disk, draws):
    Ledger.create(small_disk / "ledger.db").open_account("patients", epsilon=3, delta=1e-5)
    text = (home / "service.toml").read_text().replace('"ledger.db"', f'"{small_disk / "ledger.db"}"')
    (home / "service.toml").write_text(text)
    served = Served(home)
    with served.client:
        first = served.ask(key="first")
        assert first.status_code == 200
        fill(small_disk)
        before = len(draws)
        for number in range(3):
            require_unavailable(served.ask(key=f"full {number}"))
        assert len(draws) == before
        # A stored answer needs a transaction to be returned, too.
        assert served.ask(key="first").status_code in (200, 503)
        (small_disk / "filler").unlink()
        assert served.ask(key="first").content == first.content
        assert served.ask(key="full 0").status_code == 200
        assert served.get("/v1/grants/october").json()["remaining"] == 58
    assert Ledger(small_disk / "ledger.db").verify().requests == 2


def test_a_disk_that_fills_up_between_charge_and_answer_keeps_the_charge(home, small_disk, draws, monkeypatch):
    Ledger.create(small_disk / "ledger.db").open_account("patients", epsilon=3, delta=1e-5)
    text = (home / "service.toml").read_text().replace('"ledger.db"', f'"{small_disk / "ledger.db"}"')
    (home / "service.toml").write_text(text)
    served = Served(home)
    with served.client:
        served.ask(key="first")
        charging = []

        def at(name):
            charging.append(name)
            # The charge is on the disk, and the answer is not yet.
            if charging == ["begun", "added", "committed", "begun"]:
                fill(small_disk)

        monkeypatch.setattr(store, "step", at)
        require_unavailable(served.ask(key="second"))
        assert len(draws) == 2
        (small_disk / "filler").unlink()
        told = served.ask(key="second")
        assert told.status_code == 200
        assert served.ask(key="second").content == told.content
        assert served.get("/v1/grants/october").json()["remaining"] == 58


def test_a_ledger_that_is_read_only_draws_nothing(home, draws, monkeypatch):
    durable = store._durable_sqlite

    def read_only(connection, record):
        durable(connection, record)
        connection.execute("PRAGMA query_only = ON")

    with monkeypatch.context() as patch:
        patch.setattr(store, "_durable_sqlite", read_only)
        served = Served(home)
        with served.client:
            require_unavailable(served.ask(key="a"))
            # What only reads goes on.
            assert served.get("/v1/grants").status_code == 200
            assert served.get("/health", who=None).status_code == 200
    assert not draws
    served = Served(home)
    assert served.ask(key="a").status_code == 200
    assert served.get("/v1/grants/october").json()["remaining"] == 59


@pytest.fixture
def on_postgresql(home, postgresql):
    """Return a service whose ledger is in a PostgreSQL server of its own."""
    Ledger.create(postgresql.address).open_account("patients", epsilon=3, delta=1e-5)
    text = (home / "service.toml").read_text().replace('"ledger.db"', f'"{postgresql.address}"')
    (home / "service.toml").write_text(text)
    served = Served(home)
    with served.client:
        yield served


def test_a_database_restarted_between_two_requests_is_not_noticed(on_postgresql, postgresql):
    first = on_postgresql.ask(key="first")
    assert first.status_code == 200
    postgresql.stop()
    require_unavailable(on_postgresql.ask(key="second"))
    require_unavailable(on_postgresql.get("/health", who=None))
    require_unavailable(on_postgresql.get("/v1/grants"))
    postgresql.start()
    assert on_postgresql.ask(key="first").content == first.content
    postgresql.stop()
    postgresql.start()
    assert on_postgresql.ask(key="second").status_code == 200
    assert on_postgresql.get("/v1/grants/october").json()["remaining"] == 58


@pytest.mark.parametrize(
    ("moment", "stands"),
    [
        (["begun"], False),
        (["begun", "added"], False),
        (["begun", "added", "committed"], True),
        (["begun", "added", "committed", "begun", "added"], True),
    ],
    ids=["charging", "before the charge", "after the charge", "before the answer"],
)
def test_a_database_restarted_in_mid_request(on_postgresql, postgresql, draws, monkeypatch, moment, stands):
    on_postgresql.ask(key="first")
    passed = []

    def at(name):
        passed.append(name)
        if passed == moment:
            postgresql.stop()
            postgresql.start()

    with monkeypatch.context() as patch:
        patch.setattr(store, "step", at)
        before = len(draws)
        found = on_postgresql.ask(key="second")
    # On a busy machine a database takes a while before it lets anybody in.
    left = until(lambda: on_postgresql.get("/v1/grants/october").json().get("remaining"))
    assert left == (58 if stands else 59)
    assert stands or len(draws) == before
    if moment[-1] == "committed":
        # Nothing was under way, and the next connection is a new one.
        assert found.status_code == 200
    else:
        require_unavailable(found)
    told = on_postgresql.ask(key="second")
    assert told.status_code == 200
    assert on_postgresql.ask(key="second").content == told.content
    assert on_postgresql.get("/v1/grants/october").json()["remaining"] == 58


class LongAgo(datetime):
    """A clock that was set back to 1999."""

    @classmethod
    def now(cls, tz=None):
        return datetime(1999, 12, 31, 23, 59, tzinfo=tz)


def test_a_clock_set_back_changes_neither_charges_nor_answers(served, monkeypatch):
    told = served.ask(key="first")
    served.login()
    monkeypatch.setattr(entries, "_now", lambda: LongAgo.now(UTC).isoformat())
    monkeypatch.setattr(sign_in, "datetime", LongAgo)
    monkeypatch.setattr(sign_in.time, "time", lambda: LongAgo.now(UTC).timestamp())
    assert served.ask(key="first").content == told.content
    assert served.ask(key="second").status_code == 200
    assert served.get("/v1/grants/october").json()["remaining"] == 58
    assert served.client.get("/").status_code == 200
    found = served.ledger.verify()
    assert found.requests == 2
    times = [entry.fields["time"] for entry in served.ledger.entries() if entry.kind == "request"]
    assert times[0] > times[1]
    assert times[1].startswith("1999")
