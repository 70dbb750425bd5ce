"""Kill a running service at random moments, start it again, and check that no answer was lost or sent in two versions.

Usage: ``python scripts/service_kills.py [--kills 200] [--ledger postgresql://...]``. Eight clients ask without a pause.
Each client repeats a request under its name until it is answered, and repeats some requests later. Afterwards the
ledger must hold one charge and one answer for each request, and every answer sent must be the stored one.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from dpensemble.errors import DPEnsembleError
from dpensemble.server import Client, Ledger, read_settings
from dpensemble.server.app import serve
from dpensemble.server.sign_in import KeyFile

CONFIG = """
ledger = "{ledger}"
keys = "keys.json"
[[grants]]
name = "kills"
data_set = "people"
law = {{ name = "gnmax", sigma = 900.0 }}
classes = ["no", "yes"]
voters = 100
epsilon = 2
delta = 1e-6
answers = 60000
"""
CLIENTS = 8
FORKS = multiprocessing.get_context("forkserver")


def main() -> None:
    """Run the requested number of kills, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--ledger")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DPENSEMBLE_STATE"] = f"{folder}/state"
        FORKS.set_forkserver_preload(["dpensemble.server.app"])
        Trial(Path(folder), asked.ledger or f"{folder}/ledger.db", asked.seed).run(asked.kills)


def serving(folder: Path, port: int) -> None:
    """Serve, with the log in a file."""
    sys.stderr = (folder / "log").open("a")
    serve(read_settings(folder / "service.toml"), port=port)


class Trial:
    """One service that is killed again and again."""

    def __init__(self, folder: Path, ledger: str, seed: int) -> None:
        self.folder, self.ledger, self.random = folder, ledger, random.Random(seed)  # noqa: S311
        Ledger.create(ledger).open_account("people", epsilon=3, delta=1e-5)
        _, self.token = KeyFile(folder / "keys.json").create("client", ["read", "predict"])
        (folder / "service.toml").write_text(CONFIG.format(ledger=ledger))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.told: dict[str, list[str]] = {}
        self.different: list[str] = []
        self.over = threading.Event()

    def start(self) -> Any:
        """Start the service, and return once it answers."""
        # From a process that has imported everything, so that it is there at once.
        service = FORKS.Process(target=serving, args=(self.folder, self.port))
        service.start()
        while service.is_alive():
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return service
            except OSError:
                time.sleep(0.02)
        sys.exit("the service does not start:\n" + (self.folder / "log").read_text()[-2000:])

    def ask(self, number: int) -> None:
        """Ask until it is over, each request until it is answered, and some again."""
        client = Client(f"http://127.0.0.1:{self.port}", self.token, tries=1)
        choose, count = random.Random(number), 0  # noqa: S311
        while not self.over.is_set():
            again = count and choose.random() < 0.2
            key = f"{number}-{choose.randrange(count) if again else count}"
            while True:
                try:
                    labels = client.predict("kills", key=key, counts=[[50, 50]] * 3).labels
                    break
                except DPEnsembleError:
                    time.sleep(0.05)
            if self.told.setdefault(key, labels) != labels:
                self.different.append(key)
            count += not again

    def run(self, kills: int) -> None:
        """Kill the service `kills` times, and check the result."""
        service = self.start()
        threads = [threading.Thread(target=self.ask, args=(number,)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for done in range(kills):
            time.sleep(self.random.uniform(0.05, 0.6))
            service.kill()
            service.join()
            service = self.start()
            if done % 20 == 19:
                print(f"{done + 1} kills, {len(self.told):,} requests answered", flush=True)
        self.over.set()
        for thread in threads:
            thread.join()
        service.terminate()
        service.join()
        self.check(kills)

    def check(self, kills: int) -> None:
        """Compare the answers sent with those in the ledger."""
        ledger = Ledger(self.ledger)
        ledger.verify()
        charged: dict[str, int] = {}
        stored: dict[str, list[str]] = {}
        for entry in ledger.entries():
            if entry.kind == "request":
                name = entry.fields["request"].removeprefix("client:")
                charged[name] = charged.get(name, 0) + 1
            elif entry.kind == "answer":
                outcomes = json.loads(entry.fields["told"])["outcomes"]
                stored[entry.fields["request"].removeprefix("client:")] = [["no", "yes"][one] for one in outcomes]
        twice = [name for name, times in charged.items() if times > 1]
        lost = [name for name, labels in self.told.items() if stored.get(name) != labels]
        free = [name for name in stored if name not in charged]
        print(
            f"{kills} kills: {len(self.told):,} requests answered, {len(charged):,} charged, {len(stored):,} stored; "
            f"{len(twice)} charged twice, {len(lost)} answered otherwise than stored, {len(free)} uncharged, "
            f"{len(self.different)} answered in two versions."
        )
        sys.exit(1 if twice or lost or free or self.different else 0)


if __name__ == "__main__":
    main()
