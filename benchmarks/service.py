"""How many answers a second a service gives, how late the latest are, and whether its memory grows.

Usage: ``python benchmarks/service.py [--answers 100000] [--batch 10] [--clients 8] [--ledger postgresql://...]``.
Clients are threads of this process, each with a connection of its own. Every request is charged, drawn, stored and on
the disk twice before it is answered.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from dpensemble.server import Ledger
from dpensemble.server.sign_in import KeyFile

CONFIG = """
ledger = "{ledger}"
keys = "keys.json"
[[grants]]
name = "load"
data_set = "people"
law = {{ name = "gnmax", sigma = {sigma} }}
classes = ["no", "yes"]
voters = 250
epsilon = 2
delta = 1e-6
answers = {answers}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--ledger")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DPENSEMBLE_STATE"] = f"{folder}/state"
        measure(Path(folder), asked.answers, asked.batch, asked.clients, asked.ledger or f"{folder}/ledger.db")


def measure(folder: Path, answers: int, batch: int, clients: int, ledger: str) -> None:
    Ledger.create(ledger).open_account("people", epsilon=3, delta=1e-5)
    _, token = KeyFile(folder / "keys.json").create("load", ["read", "predict"])
    # Noise for this many answers within epsilon 2.
    sigma = 3.0 * answers**0.5
    (folder / "service.toml").write_text(CONFIG.format(ledger=ledger, answers=answers, sigma=sigma))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "dpensemble", "serve", str(folder / "service.toml"), "--port", str(port)]
    with (folder / "log").open("w") as log:
        service = subprocess.Popen(command, stderr=log)  # noqa: S603
    try:
        wait(port)
        load(service.pid, port, token, answers // batch, batch, clients)
    finally:
        service.terminate()
        service.wait()
    verified = Ledger(ledger).verify()
    print(f"the ledger holds: {verified.entries:,} entries, {verified.requests:,} requests")


def wait(port: int) -> None:
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.1)
    sys.exit("the service did not start")


def load(pid: int, port: int, token: str, requests: int, batch: int, clients: int) -> None:
    numbers, lock = iter(range(requests)), threading.Lock()
    seconds: list[float] = []
    memory: list[int] = []
    body = json.dumps({"counts": [[120, 130]] * batch})

    def work() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            headers = {
                "Authorization": f"Bearer {token}",
                "Idempotency-Key": str(number),
                "Content-Type": "application/json",
            }
            start = time.perf_counter()
            connection.request("POST", "/v1/grants/load/predictions", body, headers)
            answer = connection.getresponse()
            told = answer.read()
            seconds.append(time.perf_counter() - start)
            if answer.status != 200:
                sys.exit(told.decode())
            if number % max(1, requests // 10) == 0:
                memory.append(resident(pid))

    threads = [threading.Thread(target=work) for _ in range(clients)]
    start, spent = time.perf_counter(), processor(pid)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wall = time.perf_counter() - start
    spent = 1e3 * (processor(pid) - spent) / requests
    at = np.percentile(np.array(seconds) * 1e3, [50, 99, 100])
    print(f"{requests * batch / wall:,.0f} answers a second ({requests:,} requests of {batch}, {clients} clients)")
    print(f"milliseconds a request: median {at[0]:.0f}, p99 {at[1]:.0f}, longest {at[2]:.0f}")
    print(f"processor time of the service: {spent:.1f} ms a request, or {batch * 1e3 / spent:,.0f} answers a second")
    print("memory in MB, after each tenth: " + ", ".join(map(str, memory)))


def processor(pid: int) -> float:
    """Return the seconds of processor time that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> int:
    """Return the resident memory of a process in megabytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20


if __name__ == "__main__":
    main()
