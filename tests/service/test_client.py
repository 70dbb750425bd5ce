"""The client against a service on a port, killed and started under it."""

import json
import os
import signal
import socket
import sys
import threading
import time

import pytest

from dpensemble.cli import main, serve  # noqa: F401 - imported once for all forks
from dpensemble.client import Client
from dpensemble.errors import BudgetError, DataError, DPEnsembleError, InvalidParameterError


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Forked:
    """A service in a fork, made before there are threads, which begins when it is told to."""

    def __init__(self, home, port):
        waiting, self.go = os.pipe()
        self.port, self.pid = port, os.fork()
        if self.pid == 0:
            code = 1
            try:
                os.close(self.go)
                os.read(waiting, 1)
                with open(home / "serve.log", "a") as sys.stderr:
                    code = main(["serve", str(home / "service.toml"), "--port", str(port)])
            finally:
                os._exit(code)
        os.close(waiting)

    def begin(self):
        os.write(self.go, b".")
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                time.sleep(0.05)

    def end(self, number):
        os.kill(self.pid, number)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_keys_are_not_sent_in_the_open():
    for url in ("http://example.org", "ftp://localhost", "example.org"):
        with pytest.raises(InvalidParameterError, match="https"):
            Client(url, "dpe_x")


def test_nobody_there_is_said_after_some_tries(port):
    with pytest.raises(DPEnsembleError, match="no answer in 2 tries"):
        Client(f"http://127.0.0.1:{port}", "dpe_x", tries=2).grants()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_answers_outlive_a_kill_of_the_service(home, port):
    tokens = json.loads((home / "tokens.json").read_text())
    url = f"http://127.0.0.1:{port}"
    services = [Forked(home, port), Forked(home, port)]
    services[0].begin()
    try:
        alice = Client(url, tokens["alice"], tries=12)
        assert alice.grants()[0]["remaining"] == 60
        assert alice.quote("october", 3)["fits"]
        assert alice.budgets()[0]["share_left"] == 1
        told = alice.predict("october", key="a", counts=[[50, 50]])
        with pytest.raises(DataError, match="another request"):
            alice.predict("october", key="a", counts=[[49, 51]])
        with pytest.raises(BudgetError) as caught:
            alice.predict("october", counts=[[50, 50]] * 70)
        assert caught.value.figures["fits"] == 59
        with pytest.raises(DPEnsembleError, match="scope 'own'"):
            alice.checkpoint()
        assert Client(url, tokens["owner"]).checkpoint()["number"] >= 4
        with pytest.raises(DPEnsembleError, match="valid API key"):
            Client(url, "dpe_x").grants()

        found = {}

        def ask(number):
            found[number] = alice.predict("october", key=str(number), counts=[[50, 50]])

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        time.sleep(0.02)
        assert services.pop(0).end(signal.SIGKILL) == -signal.SIGKILL
        services[0].begin()
        for thread in threads:
            thread.join()
        assert len(found) == 6
        again = alice.predict("october", key="a", counts=[[50, 50]])
        assert (again.labels, again.replayed) == (told.labels, True)
        assert alice.grant("october")["remaining"] == 53
    finally:
        codes = [service.end(signal.SIGTERM) for service in services]
    assert codes == [143]
    assert (home / "serve.log").read_text().endswith("terminated; every answer that was told is in the ledger.\n")
