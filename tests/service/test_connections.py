"""Half requests, idle connections and hostile bodies against a service on a port: no other client waits for them."""

import http.client
import json
import socket
import threading
from contextlib import ExitStack, closing, contextmanager

import pytest
import uvicorn

from dpensemble.service import api, bodies, connections
from dpensemble.service.serve import how_to_listen

from ..deadline import GUARD, until

MOST = 20
PREDICT = "/v1/grants/october/predictions"


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Let no limit in seconds end anything, except those that a test makes short."""
    for module, name in (
        (connections, "_HEAD"),
        (connections, "_READER"),
        (bodies, "_PATIENCE"),
        (bodies, "_DROPPING"),
    ):
        monkeypatch.setattr(module, name, 10 * GUARD)


@contextmanager
def on_a_port(app, most=MOST):
    """Serve an application in a thread, and give the port."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, lifespan="off", **how_to_listen(most)))
    thread = threading.Thread(target=server.run)
    thread.start()
    until(lambda: server.started)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture
def port(served):
    with on_a_port(served.app) as found:
        yield found


def connected(port, sent=b""):
    found = socket.create_connection(("127.0.0.1", port), timeout=GUARD)
    found.sendall(sent)
    return found


def is_closed(connection):
    """Return whether the other side closed a connection, after its response."""
    try:
        while connection.recv(4096):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return True


def asked(port, headers=(), path="/health", body=None):
    """Return the status of a request."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=GUARD)) as connection:
        connection.request("GET" if body is None else "POST", path, body, dict(headers))
        answer = connection.getresponse()
        answer.read()
        return answer.status


HALVES = [
    b"",
    b"GET /health HT",
    b"GET /health HTTP/1.1\r\nHost: a\r\n",
    b"GET /health HTTP/1.1\r\nHost: a\r\n\r\nGET /health",
]


@pytest.mark.parametrize("sent", HALVES, ids=["nothing", "a line", "a head", "a second request"])
def test_a_connection_without_a_whole_head_ends(served, monkeypatch, sent):
    monkeypatch.setattr(connections, "_HEAD", 0.3)
    with on_a_port(served.app) as port, connected(port, sent) as connection:
        assert is_closed(connection)


def test_a_head_that_comes_byte_by_byte_has_no_more_time(served, monkeypatch):
    monkeypatch.setattr(connections, "_HEAD", 0.5)
    with on_a_port(served.app) as port, connected(port, b"GET /health HTTP/1.1\r\n") as connection:

        def ended():
            try:
                connection.sendall(b"a")
            except ConnectionError:
                return True
            return False

        until(ended)


def test_a_body_that_does_not_come_is_refused(served, monkeypatch):
    monkeypatch.setattr(bodies, "_PATIENCE", 0.3)
    head = b"POST /login HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n"
    with on_a_port(served.app) as port, connected(port, head) as connection:
        assert connection.recv(4096).startswith(b"HTTP/1.1 408")
        assert is_closed(connection)


def test_a_request_that_takes_long_is_not_cut_off(monkeypatch):
    import asyncio

    async def slow(scope, receive, send):
        # This timer of the loop comes after the one of the head, however late both are.
        await asyncio.sleep(0.6)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    monkeypatch.setattr(connections, "_HEAD", 0.2)
    with on_a_port(slow) as port:
        assert asked(port) == 200


def test_a_reader_that_takes_nothing_is_cut_off(monkeypatch):
    ended = threading.Event()

    async def large(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(200):
            await send({"type": "http.response.body", "body": b"x" * 1_000_000, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        ended.set()

    monkeypatch.setattr(connections, "_READER", 0.3)
    with on_a_port(large) as port, connected(port, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") as connection:
        assert ended.wait(GUARD)
        assert is_closed(connection)


@pytest.mark.parametrize(
    "half",
    [HALVES[1], b"POST /login HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n"],
    ids=["heads", "bodies"],
)
def test_half_requests_keep_nobody_out(port, half):
    with ExitStack() as open_ones:
        first, *_ = [open_ones.enter_context(connected(port, half)) for _ in range(4 * MOST)]
        for _ in range(5):
            assert asked(port) == 200
        # The one that waited longest made room.
        assert is_closed(first)


def test_large_bodies_need_a_key_and_come_a_few_at_a_time(served, port, monkeypatch):
    large = json.dumps({"counts": [[50, 50]] * 900}).encode() + b" " * 20_000
    json_type = ("Content-Type", "application/json")
    known = [*served.as_("alice", "large").items(), json_type]
    # Of a grant with 60 answers: refused for want of budget, and so it was read.
    assert asked(port, known, PREDICT, large) == 403
    for unknown in ([json_type], [("Authorization", "Bearer dpe_x"), json_type], [("Cookie", "dpensemble=x")]):
        assert asked(port, unknown, PREDICT, large) == 413
    assert asked(port, [("Content-Type", "application/x-www-form-urlencoded")], "/login", b"key=" + large) == 413
    head = "".join(f"{name}: {value}\r\n" for name, value in known)
    half = f"POST {PREDICT} HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n{head}\r\n".encode() + b" " * 30_000
    with ExitStack() as open_ones:
        for _ in range(2):
            open_ones.enter_context(connected(port, half))
        until(lambda: asked(port, known, PREDICT, large) == 429)
        # Others, and small requests, go on.
        others = [*served.as_("bob", "large").items(), json_type]
        assert asked(port, others, PREDICT, large) == 403
        small = [*served.as_("alice", "small").items(), json_type]
        assert asked(port, small, PREDICT, b'{"counts": [[50, 50]]}') == 200
    assert until(lambda: (status := asked(port, known, PREDICT, large)) != 429 and status) == 403


def test_a_body_of_many_objects_keeps_nobody_waiting(served, port, monkeypatch):
    """Another request is answered while the body is being read. How little of it is read, `test_asked.py` counts."""
    read, answered = api.read_prediction, threading.Event()

    def reading(*given):
        assert answered.wait(GUARD)
        return read(*given)

    monkeypatch.setattr(api, "read_prediction", reading)
    body = b'{"counts":[' + b",".join([b"{}"] * 600_000) + b"]}"
    headers = {**served.as_("alice", "k"), "Content-Type": "application/json"}
    found = []
    hostile = threading.Thread(target=lambda: found.append(asked(port, headers.items(), PREDICT, body)))
    hostile.start()
    assert asked(port) == 200
    answered.set()
    hostile.join()
    assert found == [422]
