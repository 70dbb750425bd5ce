"""Half requests, idle connections and hostile bodies against a service on a port: no other client waits for them."""

import datetime
import http.client
import json
import logging
import socket
import ssl
import threading
from contextlib import ExitStack, closing, contextmanager

import pytest
import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from dpensemble.errors import FileError
from dpensemble.server import app as connections
from dpensemble.server import http as bodies
from dpensemble.server.app import _how_to_listen, _tls_context

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
def on_a_port(app, most=MOST, *tls):
    """Serve an application in a thread, and give the port."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, lifespan="off", **_how_to_listen(most, *tls)))
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
    """Another request is answered while the body is being read. How little of it is read, `test_http.py` counts."""
    read, answered = bodies._queries_of_body, threading.Event()

    def reading(*given):
        assert answered.wait(GUARD)
        return read(*given)

    monkeypatch.setattr(bodies, "_queries_of_body", reading)
    body = b'{"counts":[' + b",".join([b"{}"] * 600_000) + b"]}"
    headers = {**served.as_("alice", "k"), "Content-Type": "application/json"}
    found = []
    hostile = threading.Thread(target=lambda: found.append(asked(port, headers.items(), PREDICT, body)))
    hostile.start()
    assert asked(port) == 200
    answered.set()
    hostile.join()
    assert found == [422]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Return the files of a certificate for this machine, and of its key."""
    folder, key = tmp_path_factory.mktemp("tls"), ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(datetime.datetime(2020, 1, 1))
    made = made.not_valid_after(datetime.datetime(2200, 1, 1)).sign(key, hashes.SHA256())
    (folder / "c.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "k.pem").write_bytes(key.private_bytes(*form))
    return folder / "c.pem", folder / "k.pem"


def asked_by_tls(port):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with closing(http.client.HTTPSConnection("127.0.0.1", port, timeout=GUARD, context=context)) as connection:
        connection.request("GET", "/health")
        answer = connection.getresponse()
        answer.read()
        return answer.status


def test_handshakes_that_do_not_end_keep_nobody_out(served, certificate, caplog):
    caplog.set_level(logging.WARNING)
    with on_a_port(served.app, MOST, _tls_context(*certificate), 10 * GUARD) as port, ExitStack() as open_ones:
        first, *_ = [open_ones.enter_context(connected(port)) for _ in range(2 * MOST)]
        for _ in range(5):
            assert asked_by_tls(port) == 200
        assert is_closed(first)
    assert not caplog.records


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01"], ids=["nothing", "no TLS", "half"])
def test_a_handshake_has_a_deadline(served, certificate, sent, caplog):
    with on_a_port(served.app, MOST, _tls_context(*certificate), 0.3) as port, connected(port, sent) as connection:
        assert is_closed(connection)
        assert asked_by_tls(port) == 200
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


def test_files_without_a_certificate_are_named(tmp_path, certificate):
    (tmp_path / "empty.pem").write_text("")
    for files in ((tmp_path / "empty.pem", certificate[1]), (tmp_path / "missing.pem", certificate[1])):
        with pytest.raises(FileError, match=r"cannot be used .*: give a certificate in PEM format"):
            _tls_context(*files)


class Socket:
    """A transport that counts whether it was ended."""

    is_ended = False

    def abort(self):
        self.is_ended = True


def opened(half_open, address, number, now):
    found = [Socket() for _ in range(number)]
    for one in found:
        half_open.add(address, one, now)
    return found


def test_old_handshakes_of_an_address_end_first():
    half_open = connections._HalfOpen(80)
    old, other = opened(half_open, "a", 10, 0.0), opened(half_open, "b", 1, 0.0)
    new = opened(half_open, "a", 3, 5.0)
    assert [one.is_ended for one in old] == [True] * 3 + [False] * 7
    assert not any(one.is_ended for one in new + other)


def test_fresh_handshakes_may_be_many_for_a_moment():
    half_open = connections._HalfOpen(80)
    fresh = opened(half_open, "a", 45, 0.0)
    assert [one.is_ended for one in fresh] == [True] * 5 + [False] * 40


def test_the_busiest_address_makes_room():
    half_open = connections._HalfOpen(80)
    busy, few = opened(half_open, "a", 40, 0.0), opened(half_open, "b", 5, 0.0)
    many = [opened(half_open, f"c{number}", 1, 0.0)[0] for number in range(50)]
    assert sum(one.is_ended for one in busy) == 15
    assert not any(one.is_ended for one in few + many)


def test_finished_handshakes_do_not_count():
    half_open = connections._HalfOpen(80)
    for _ in range(500):
        (one,) = opened(half_open, "proxy", 1, 0.0)
        half_open.remove("proxy", one)
        assert not one.is_ended
    assert half_open._number == 0
    assert not half_open._of
