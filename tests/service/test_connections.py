"""Half requests, idle connections and hostile bodies against a service on a port: no other client waits for them."""

import http.client
import json
import socket
import threading
import time
from contextlib import ExitStack, closing, contextmanager, suppress

import pytest
import uvicorn

from dpensemble.service import bodies, connections
from dpensemble.service.serve import how_to_listen

MOST = 20
PREDICT = "/v1/grants/october/predictions"


@contextmanager
def on_a_port(app, most=MOST):
    """Serve an application in a thread, and give the port."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, lifespan="off", **how_to_listen(most)))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
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
    found = socket.create_connection(("127.0.0.1", port), timeout=20)
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
    """Return the status of a request, and how long it took."""
    start = time.perf_counter()
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET" if body is None else "POST", path, body, dict(headers))
        answer = connection.getresponse()
        answer.read()
        return answer.status, time.perf_counter() - start


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
        start = time.monotonic()
        with suppress(ConnectionError):
            while time.monotonic() < start + 10:
                connection.sendall(b"a")
                time.sleep(0.05)
        assert time.monotonic() < start + 10


def test_a_body_that_does_not_come_is_refused(served, monkeypatch):
    monkeypatch.setattr(bodies, "_PATIENCE", 0.3)
    head = b"POST /login HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n"
    with on_a_port(served.app) as port, connected(port, head) as connection:
        assert connection.recv(4096).startswith(b"HTTP/1.1 408")
        assert is_closed(connection)


def test_a_request_that_takes_long_is_not_cut_off(monkeypatch):
    import asyncio

    async def slow(scope, receive, send):
        await asyncio.sleep(0.6)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    monkeypatch.setattr(connections, "_HEAD", 0.2)
    with on_a_port(slow) as port:
        assert asked(port)[0] == 200


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
        assert ended.wait(20)
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
            status, seconds = asked(port)
            assert status == 200
            assert seconds < 5
        # The one that waited longest made room.
        assert is_closed(first)


def test_large_bodies_need_a_key_and_come_a_few_at_a_time(served, port, monkeypatch):
    large = json.dumps({"counts": [[50, 50]] * 900}).encode() + b" " * 20_000
    json_type = ("Content-Type", "application/json")
    known = [*served.as_("alice", "large").items(), json_type]
    # Of a grant with 60 answers: refused for want of budget, and so it was read.
    assert asked(port, known, PREDICT, large)[0] == 403
    for unknown in ([json_type], [("Authorization", "Bearer dpe_x"), json_type], [("Cookie", "dpensemble=x")]):
        assert asked(port, unknown, PREDICT, large)[0] == 413
    assert asked(port, [("Content-Type", "application/x-www-form-urlencoded")], "/login", b"key=" + large)[0] == 413
    head = "".join(f"{name}: {value}\r\n" for name, value in known)
    half = f"POST {PREDICT} HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n{head}\r\n".encode() + b" " * 30_000
    with ExitStack() as open_ones:
        for _ in range(2):
            open_ones.enter_context(connected(port, half))
        until = time.monotonic() + 20
        while (status := asked(port, known, PREDICT, large)[0]) != 429 and time.monotonic() < until:
            time.sleep(0.05)
        assert status == 429
        # Others, and small requests, go on.
        others = [*served.as_("bob", "large").items(), json_type]
        assert asked(port, others, PREDICT, large)[0] == 403
        small = [*served.as_("alice", "small").items(), json_type]
        assert asked(port, small, PREDICT, b'{"counts": [[50, 50]]}')[0] == 200
    until = time.monotonic() + 20
    while (status := asked(port, known, PREDICT, large)[0]) == 429 and time.monotonic() < until:
        time.sleep(0.05)
    assert status == 403


def test_a_body_of_many_objects_keeps_nobody_waiting(served, port):
    body = b'{"counts":[' + b",".join([b"{}"] * 600_000) + b"]}"
    headers = {**served.as_("alice", "k"), "Content-Type": "application/json"}
    found = []
    hostile = threading.Thread(target=lambda: found.append(asked(port, headers.items(), PREDICT, body)))
    hostile.start()
    waits = []
    while hostile.is_alive() or not waits:
        waits.append(asked(port)[1])
    hostile.join()
    assert found[0][0] == 422
    # It was 16 s and more. A quiet machine takes a tenth of a second.
    assert max([found[0][1], *waits]) < 5
