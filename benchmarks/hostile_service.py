"""How long others wait, and how much memory a service takes, during hostile requests.

Usage: ``python benchmarks/hostile_service.py [--seconds 10] [--senders 8] [--connections 1100] [SCENARIO...]``.
A real server runs in a process of its own. In each scenario hostile threads of another process send one kind of request
as fast as they can, or hold connections with half a request, while two honest clients ask: one for the health of the
service, one for an answer. Each opens a new connection for each request. Printed are the longest that an honest client
waited, from opening the connection to the last byte, the number of its requests, those that failed by status, and the
most memory that the server had.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from dpensemble.server import Ledger
from dpensemble.server.sign_in import KeyFile
from service import wait

CONFIG = """
ledger = "ledger.db"
keys = "keys.json"
[[grants]]
name = "load"
data_set = "people"
law = { name = "gnmax", sigma = 1000.0 }
classes = ["no", "yes"]
voters = 250
epsilon = 2
delta = 1e-6
answers = 100000
"""
PREDICT = "/v1/grants/load/predictions"
SMALL = json.dumps({"counts": [[120, 130]]}).encode()
N = 600_000


def repeated(opening: bytes, one: bytes, number: int, closing: bytes) -> bytes:
    return opening + b",".join([one] * number) + closing


def bodies() -> dict[str, bytes]:
    """Return hostile bodies of about 1.8 MB by name."""
    names = b",".join(b'"%x":[]' % one for one in range(150_000))
    return {
        "600,000 empty objects as votes": repeated(b'{"counts":[', b"{}", N, b"]}"),
        "600,000 empty objects as rows": repeated(b'{"rows":[', b"{}", N, b"]}"),
        "600,000 empty lists": repeated(b'{"log_probs":[', b"[]", N, b"]}"),
        "900,000 votes of one query": repeated(b'{"ballots":[[', b"1", 900_000, b"]]}"),
        "450,000 texts": repeated(b'{"ballots":[[', b'"a"', 450_000, b"]]}"),
        "1,000 queries of 700 votes": repeated(b'{"ballots":[', repeated(b"[", b'"no"', 350, b"]"), 1_000, b"]}"),
        "150,000 unknown names": b"{" + names + b"}",
        "a row of 150,000 columns": b'{"rows":[{' + names + b"}]}",
        "nested 900,000 deep": b'{"counts":' + b"[" * 900_000 + b"]" * 900_000 + b"}",
        "nested 150 deep, again and again": repeated(b'{"rows":[{"a":[', b"[" * 150 + b"]" * 150, 5_900, b"]}]}"),
        "a number of 1,800,000 digits": b'{"counts":[[' + b"9" * 1_800_000 + b"]]}",
        "numbers of 4,000 digits": repeated(b'{"counts":[[', b"9" * 4_000, 450, b"]]}"),
        "a name of 1,800,000 letters": b'{"' + b"a" * 1_800_000 + b'":1}',
        "no JSON": b"\xff" * 1_800_000,
    }


@dataclass
class Service:
    """A server in a process of its own."""

    pid: int
    port: int
    tokens: dict[str, str]
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def head(self, who: str | None, length: int | None, path: str = PREDICT, kind: str = "application/json") -> bytes:
        """Return the head of a request."""
        lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Type: {kind}"]
        lines += [] if who is None else [f"Authorization: Bearer {self.tokens[who]}"]
        lines += [f"Idempotency-Key: {next(self.numbers)}"]
        lines += ["Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"]
        return "\r\n".join([*lines, "", ""]).encode()

    def connected(self, sent: bytes = b"") -> socket.socket:
        """Return a new connection on which something was sent."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        connection.sendall(sent)
        return connection

    def say(self, sent: bytes) -> int:
        """Send a whole request and return the status of the answer, or 0 without an answer."""
        with suppress(OSError, ValueError, IndexError), self.connected(sent) as connection:
            answer = connection.recv(65_536)
            return int(answer.split()[1])
        return 0

    def ask(self, path: str, who: str, body: bytes | None = None) -> int:
        """Ask as an honest client does, and return the status."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            headers = {"Authorization": f"Bearer {self.tokens[who]}", "Content-Type": "application/json"}
            headers["Idempotency-Key"] = f"honest {next(self.numbers)}"
            connection.request("GET" if body is None else "POST", path, body, headers)
            answer = connection.getresponse()
            answer.read()
            return answer.status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()


Attack = Callable[[Service, Any], None]


def flood(body: bytes, who: str | None, path: str = PREDICT, kind: str = "application/json") -> Attack:
    """Return what sends a body again and again."""

    def work(service: Service, over: Any) -> None:
        while not over.is_set():
            service.say(service.head(who, len(body), path, kind) + body)

    return work


def chunks(who: str | None) -> Attack:
    """Return what sends a body in chunks of one byte."""

    def work(service: Service, over: Any) -> None:
        while not over.is_set():
            with suppress(OSError), service.connected(service.head(who, None)) as connection:
                while not over.is_set():
                    connection.sendall(b"1\r\n \r\n" * 10_000)

    return work


def hold(half: Callable[[Service], bytes], connections: int) -> Attack:
    """Return what holds connections with half a request, and once a second replaces those that were closed."""

    def work(service: Service, over: Any) -> None:
        with ExitStack() as stack:
            held: list[socket.socket] = []
            while not over.is_set():
                with suppress(OSError):
                    while len(held) < connections and not over.is_set():
                        held.append(stack.enter_context(service.connected(half(service))))
                        held[-1].setblocking(False)
                held = [one for one in held if is_open(one)]
                over.wait(1)

    return work


def is_open(connection: socket.socket) -> bool:
    """Return whether the other side has not closed a connection."""
    try:
        return bool(connection.recv(4096))
    except BlockingIOError:
        return True
    except OSError:
        return False


def scenarios(senders: int, connections: int) -> dict[str, list[Attack]]:
    """Return hostile threads by the name of what they do."""
    attacks: dict[str, list[Attack]] = {"nobody hostile": []}
    for name, body in bodies().items():
        attacks[name] = [flood(body, "mallory")] * senders
    first = next(iter(bodies().values()))
    attacks["600,000 empty objects, 4 holders"] = [flood(first, f"mallory{one % 4}") for one in range(2 * senders)]
    attacks["600,000 empty objects, no key"] = [flood(first, None)] * senders
    form = b"key=" + b"%61" * 600_000
    attacks["a form of 1.8 MB, no key"] = [flood(form, None, "/login", "application/x-www-form-urlencoded")] * senders
    attacks["chunks of one byte"] = [chunks("mallory")] * senders
    attacks["chunks of one byte, no key"] = [chunks(None)] * senders
    halves: dict[str, Callable[[Service], bytes]] = {
        "nothing": lambda _: b"",
        "half a head": lambda _: b"GET /health HTTP/1.1\r\nHost: a\r\n",
        "15 kB of a head": lambda _: b"GET /health HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 15_000,
        "half a body": lambda service: service.head(None, 10_000) + b" " * 5_000,
        "half a body of 1.8 MB, with a key": lambda service: service.head("mallory", 1_800_000) + b" " * 900_000,
    }
    for name, half in halves.items():
        attacks[f"{connections:,} connections with {name}"] = [hold(half, connections // 4)] * 4
    return attacks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--senders", type=int, default=8)
    parser.add_argument("--connections", type=int, default=1_100)
    parser.add_argument("only", nargs="*", help="parts of the names of scenarios")
    asked = parser.parse_args()
    worst, most = 0.0, 0
    for name, attacks in scenarios(asked.senders, asked.connections).items():
        if asked.only and not any(one in name for one in asked.only):
            continue
        with running() as service:
            waits, failed = measure(service, attacks, asked.seconds)
            peak = peak_memory(service.pid)
        worst, most = max(worst, *waits), max(most, peak)
        print(
            f"{name:56} longest wait {max(waits):6.3f} s of {len(waits):5,} honest requests, failed {failed}, "
            f"peak memory {peak:5,} MB",
            flush=True,
        )
    print(f"longest wait {worst:.3f} s, peak memory {most:,} MB")


@contextmanager
def running() -> Iterator[Service]:
    """Run a server with a new ledger, and keys of honest and hostile holders."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["DPENSEMBLE_STATE"] = f"{folder}/state"
        Ledger.create(folder / "ledger.db").open_account("people", epsilon=3, delta=1e-5)
        holders = ["honest", "mallory", *(f"mallory{one}" for one in range(4))]
        tokens = {one: KeyFile(folder / "keys.json").create(one, ["read", "predict"])[1] for one in holders}
        (folder / "service.toml").write_text(CONFIG)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [sys.executable, "-m", "dpensemble", "serve", str(folder / "service.toml"), "--port", str(port)]
        with (folder / "log").open("w") as log:
            process = subprocess.Popen(command, stderr=log)  # noqa: S603
        try:
            wait(port)
            yield Service(process.pid, port, tokens)
        finally:
            process.kill()
            process.wait()


def measure(service: Service, attacks: list[Attack], seconds: float) -> tuple[list[float], dict[int, int]]:
    """Return how long each honest request waited while the attacks went on, and how many failed."""
    processes = multiprocessing.get_context("fork")
    over, waits, statuses = processes.Event(), [], []

    def honest(path: str, body: bytes | None) -> None:
        while not over.is_set():
            start = time.perf_counter()
            statuses.append(service.ask(path, "honest", body))
            waits.append(time.perf_counter() - start)
            time.sleep(0.02)

    service.ask(PREDICT, "honest", SMALL)
    hostile = processes.Process(target=together, args=([partial(attack, service, over) for attack in attacks],))
    hostile.start()
    ending = threading.Timer(seconds, over.set)
    ending.start()
    together([partial(honest, "/health", None), partial(honest, PREDICT, SMALL)])
    hostile.join(10)
    hostile.kill()
    return waits, dict(Counter(one for one in statuses if one != 200))


def together(works: list[Callable[[], None]]) -> None:
    """Do all of this at once, each in a thread."""
    threads = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def peak_memory(pid: int) -> int:
    """Return the most memory that a process had, in megabytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) // 1024
    raise OSError("the system does not say how much memory a process had")


if __name__ == "__main__":
    main()
