"""The client against a service on a port, killed and started under it."""

import json
import os
import signal
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from dpensemble.cli import main
from dpensemble.errors import BudgetError, DataError, DPEnsembleError, InvalidParameterError
from dpensemble.server import service_commands  # noqa: F401 - imported once for all forks
from dpensemble.server.client import Client

from ..deadline import until


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Forked:
    """A service in a fork, made before there are threads, which begins on a signal."""

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
        until(self.listens)

    def listens(self):
        try:
            socket.create_connection(("127.0.0.1", self.port)).close()
        except OSError:
            return False
        return True

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


@pytest.fixture
def elsewhere():
    """Return a server that sends what it is asked elsewhere, or answers with no JSON, and what it was asked."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            moved = self.path == "/v1/grants"
            self.send_response(307 if moved else 200)
            self.send_header("Location", f"http://localhost:{self.server.server_port}/stolen")
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{x" if not moved else b"[]")

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join()


def test_a_key_is_not_sent_where_the_service_points_to(elsewhere):
    url, asked = elsewhere
    with pytest.raises(DPEnsembleError, match="status 307"):
        Client(url, "dpe_x").grants()
    assert asked == ["/v1/grants"]


@pytest.fixture
def proxied(monkeypatch):
    """Return a proxy that the environment names, and the first lines and keys of what it was sent."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def note(self):
            asked.append((self.command, self.path, self.headers.get("Authorization")))
            self.send_error(502)

        do_GET = do_CONNECT = note  # noqa: N815 - names that http.server looks for

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, url)
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        yield url, asked
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_key_for_this_machine_is_not_sent_to_a_proxy_of_the_environment(proxied, elsewhere, host):
    (_, to_proxy), (url, asked) = proxied, elsewhere
    with pytest.raises(DPEnsembleError, match="status 307"):
        Client(url.replace("127.0.0.1", host), "dpe_x").grants()
    assert asked == ["/v1/grants"]
    assert to_proxy == []


def test_a_proxy_is_used_when_it_is_named(proxied):
    url, to_proxy = proxied
    # Nothing listens on port 9, and the environment's proxy is not asked.
    with pytest.raises(DPEnsembleError, match="no answer"):
        Client("https://127.0.0.1:9", "dpe_x", tries=1).grants()
    assert to_proxy == []
    with pytest.raises(DPEnsembleError, match="no answer"):
        Client("https://service.invalid", "dpe_x", tries=1, proxy=url).grants()
    assert to_proxy == [("CONNECT", "service.invalid:443", None)]


def test_a_proxy_that_would_read_the_key_is_refused():
    with pytest.raises(InvalidParameterError, match="read the key"):
        Client("http://127.0.0.1:8000", "dpe_x", proxy="http://127.0.0.1:3128")
    for proxy in ("proxy.example.org:3128", "ftp://proxy.example.org", "http://", 3):
        with pytest.raises(InvalidParameterError, match="proxy cannot be used with"):
            Client("https://example.org", "dpe_x", proxy=proxy)
    with pytest.raises(InvalidParameterError) as caught:
        Client("http://localhost", "dpe_x", proxy="http://me:SECRET@proxy.example.org")
    assert "SECRET" not in str(caught.value)


def test_what_is_no_json_is_asked_for_again(elsewhere):
    url, asked = elsewhere
    with pytest.raises(DPEnsembleError, match="no answer in 2 tries"):
        Client(url, "dpe_x", tries=2).budgets()
    assert asked == ["/v1/budgets"] * 2


def test_keys_and_names_that_cannot_be_sent_are_refused_before_they_are(elsewhere):
    url, asked = elsewhere
    for key in ("", " ", "dpe_\nx", "dpe_x y", "dpe_\u20ac", "dpe_\x7f", None):
        with pytest.raises(InvalidParameterError, match="key must be an API key"):
            Client(url, key)
    service = Client(url, "dpe_x\r\n")
    for key in ("", "a\n", " a", "a\rb", "\u20ac", "\ud800", 3):
        with pytest.raises(InvalidParameterError, match="key must be printable Latin characters"):
            service.predict("october", key=key, counts=[[50, 50]])
    for ask in (service.grant, lambda name: service.quote(name, 3), lambda name: service.predict(name, counts=[])):
        with pytest.raises(InvalidParameterError, match=r"grant must be the name of a grant, as .*; got ''"):
            ask("")
    assert asked == []
    # The white space around a key is left out.
    with pytest.raises(DPEnsembleError, match="status 307"):
        service.grants()


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
        # In the middle: some are answered, and others are not.
        until(lambda: found)
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
    assert (home / "serve.log").read_text().endswith("terminated; every answer that was sent is in the ledger.\n")


def test_a_body_that_is_too_large_is_refused_so_that_its_sender_reads_why(home, port):
    service, token = Forked(home, port), json.loads((home / "tokens.json").read_text())["alice"]
    service.begin()
    try:
        client = Client(f"http://127.0.0.1:{port}", token, tries=1)
        with pytest.raises(DataError, match="too large"):
            client.predict("october", key="big", counts=[[50, 50]] * 1_200_000)
    finally:
        service.end(signal.SIGTERM)
