"""How long honest clients wait while a service is attacked in four ways at once.

Usage: ``python benchmarks/service_attacks.py [--seconds 600] [--quiet]``. The attacks are connections without a TLS
handshake, tokens of an OpenID Connect provider that hangs, a ledger whose lock another program holds for most of the
time, and quotes that were not asked before. ``--quiet`` measures the same clients without attacks. Exits with 1 if
reads or ``/health`` wait more than a second (99th percentile), or if a write waits more than six.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import itertools
import json
import os
import socket
import sqlite3
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from dpensemble.server import Ledger
from dpensemble.server.sign_in import KeyFile

CONFIG = """
ledger = "ledger.db"
keys = "keys.json"
[oidc]
issuer = "https://login.example.org"
audience = "dpensemble"
jwks_url = "http://127.0.0.1:{provider}/keys"
[[grants]]
name = "load"
data_set = "people"
law = {{ name = "gnmax", sigma = 2000.0 }}
classes = ["no", "yes"]
voters = 250
epsilon = 2
delta = 1e-6
answers = 200000
"""
HELD, FREE = 8.0, 2.0
HANDSHAKES = 600
MOST_WAITS = {"read": 1.0, "health": 1.0, "write": 6.0}


class Clients:
    """Honest clients and attackers of one service, and how long each honest request took."""

    def __init__(self, port: int, token: str, until: float) -> None:
        self.port, self.token, self.until = port, token, until
        self.context = ssl.create_default_context()
        self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE
        self.waits: dict[str, list[float]] = {name: [] for name in MOST_WAITS}
        self.statuses: dict[str, Counter[str]] = {name: Counter() for name in MOST_WAITS}
        self.attacks: Counter[str] = Counter()
        self.numbers = itertools.count(1)

    def ask(self, method: str, path: str, token: str | None, body: str | None = None, wait: float = 60.0) -> str:
        """Return the status of a request over a new connection, or the name of its error."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        if body is not None:
            headers |= {"Content-Type": "application/json", "Idempotency-Key": f"k{next(self.numbers)}"}
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=wait, context=self.context)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            answer.read()
            return str(answer.status)
        except OSError as error:
            return type(error).__name__
        finally:
            connection.close()

    def honest(self, name: str, *request: str | None) -> None:
        """Ask again and again, and note how long each request takes."""
        while time.monotonic() < self.until:
            start = time.monotonic()
            status = self.ask(*request)
            self.waits[name].append(time.monotonic() - start)
            self.statuses[name][status] += 1
            time.sleep(0.05)

    def handshakes(self) -> None:
        """Keep many connections without a handshake, and open new ones for those that end."""
        held: list[socket.socket] = []
        while time.monotonic() < self.until:
            try:
                held.append(socket.create_connection(("127.0.0.1", self.port), timeout=3))
                self.attacks["handshakes"] += 1
            except OSError:
                time.sleep(0.1)
            if len(held) > HANDSHAKES:
                held.pop(0).close()
            time.sleep(0.002)

    def tokens(self) -> None:
        """Send tokens that nobody has signed, each with another key."""
        while time.monotonic() < self.until:
            header = json.dumps({"alg": "RS256", "kid": f"k{next(self.numbers)}"}).encode()
            junk = base64.urlsafe_b64encode(header).rstrip(b"=").decode() + ".e30.AAAA"
            self.attacks[f"tokens {self.ask('GET', '/v1/grants', junk)}"] += 1
            time.sleep(0.02)

    def quotes(self) -> None:
        """Ask for quotes that nobody has asked for."""
        while time.monotonic() < self.until:
            path = f"/v1/grants/load/quote?answers={7919 * next(self.numbers) % 1_999_993 + 1}"
            self.attacks[f"quotes {self.ask('GET', path, self.token)}"] += 1

    def lock(self, place: Path) -> None:
        """Hold the ledger's lock for most of the time."""
        holder = sqlite3.connect(place, isolation_level=None, timeout=60)
        while time.monotonic() < self.until:
            holder.execute("BEGIN IMMEDIATE")
            time.sleep(HELD)
            holder.execute("ROLLBACK")
            self.attacks["locks"] += 1
            time.sleep(FREE)
        holder.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--quiet", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, socket.socket() as provider:
        # Accepts connections, and never answers.
        provider.bind(("127.0.0.1", 0))
        provider.listen(300)
        os.environ["DPENSEMBLE_STATE"] = f"{folder}/state"
        sys.exit(measure(Path(folder), provider.getsockname()[1], options.seconds, is_quiet=options.quiet))


def measure(folder: Path, provider: int, seconds: float, *, is_quiet: bool) -> int:
    """Run a service with its clients. Return how many limits were exceeded."""
    Ledger.create(folder / "ledger.db").open_account("people", epsilon=3, delta=1e-5)
    _, token = KeyFile(folder / "keys.json").create("load", ["read", "predict"])
    (folder / "service.toml").write_text(CONFIG.format(provider=provider))
    make_certificate(folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "dpensemble", "serve", "service.toml", "--port", str(port)]
    command += ["--certificate", "c.pem", "--certificate-key", "k.pem"]
    with (folder / "log").open("w") as log:
        service = subprocess.Popen(command, cwd=folder, stderr=log)  # noqa: S603
    try:
        clients = Clients(port, token, 0.0)
        while clients.ask("GET", "/health", None, wait=3) != "200":
            time.sleep(0.2)
        clients.until = time.monotonic() + seconds
        body = json.dumps({"counts": [[120, 130]]})
        honest: list[Callable[[], None]] = [
            lambda: clients.honest("read", "GET", "/v1/grants", token),
            lambda: clients.honest("read", "GET", "/v1/grants/load", token),
            lambda: clients.honest("health", "GET", "/health", None),
            *[lambda: clients.honest("write", "POST", "/v1/grants/load/predictions", token, body)] * 8,
        ]
        attacks = [clients.handshakes, lambda: clients.lock(folder / "ledger.db")]
        attacks += [clients.tokens] * 8 + [clients.quotes] * 8
        threads = [threading.Thread(target=work) for work in honest + ([] if is_quiet else attacks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        service.terminate()
        service.wait()
    print(f"attacks: {dict(clients.attacks)}; lines in the log: {len((folder / 'log').read_text().splitlines()):,}")
    logged = [json.loads(line) for line in (folder / "log").read_text().splitlines() if line.startswith("{")]
    reasons = Counter(f"{one['route']}: {one['error']}, {one.get('reason')}" for one in logged if "error" in one)
    print(f"errors in the log: {dict(reasons.most_common(8))}")
    verified = Ledger(folder / "ledger.db").verify()
    print(f"the ledger holds: {verified.entries:,} entries, {verified.requests:,} requests")
    return sum(shown(clients, name) for name in MOST_WAITS)


def shown(clients: Clients, name: str) -> bool:
    """Print the waits of one kind of request. Return whether they exceed the limit."""
    median, high, longest = np.percentile(clients.waits[name], [50, 99, 100])
    print(f"{name}: {dict(clients.statuses[name])}, median {median:.3f} s, p99 {high:.3f} s, longest {longest:.3f} s")
    return bool((longest if name == "write" else high) > MOST_WAITS[name])


def make_certificate(folder: Path) -> None:
    """Make a certificate for this machine."""
    command = "openssl req -x509 -newkey rsa:2048 -nodes -keyout k.pem -out c.pem -days 2 -subj /CN=localhost"
    subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)  # noqa: S603


if __name__ == "__main__":
    main()
