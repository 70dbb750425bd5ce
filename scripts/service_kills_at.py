"""Kill the service at every step of an answer, again and again, and check its answers and charges.

Usage: ``python scripts/service_kills_at.py [--kills 200] [--ledger postgresql://...]``, with that many kills at each
step. After each kill the service starts again and gets the same request under the same name. No noise may have been
drawn without a charge. No name may get two answers or be charged twice. The new service must answer at once.
"""

from __future__ import annotations

import argparse
import io
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from dpensemble.releases import answers
from dpensemble.server import Ledger, create_app, http, read_settings, store
from dpensemble.server.sign_in import KeyFile
from dpensemble.server.witness import Witness

STEPS = (
    *("body read", "charge begun", "charge added", "charge committed", "charge witnessed", "drawn"),
    *("answer begun", "answer added", "answer committed", "answer witnessed", "replied"),
)
#: Steps after which an answer is on the disk, so that it is replayed and not drawn again.
STORED = ("answer committed", "answer witnessed", "replied")
#: Steps after which the charge is on the disk.
CHARGED = STEPS[STEPS.index("charge committed") :]
FORKS = multiprocessing.get_context("fork")
CONFIG = """
ledger = "{ledger}"
keys = "keys.json"
[[grants]]
name = "kills"
data_set = "people"
law = {{ name = "gnmax", sigma = {sigma} }}
classes = ["no", "yes"]
voters = 100
epsilon = 2
delta = 1e-6
answers = {answers}
"""


def main() -> None:
    """Run the requested number of kills, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--ledger")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DPENSEMBLE_STATE"] = f"{folder}/state"
        trial = Trial(Path(folder), asked.kills, asked.ledger or f"{folder}/ledger.db")
        for step in STEPS:
            print(f"{step}: {trial.kills_at(step)}", flush=True)
        verified = Ledger(trial.ledger).verify()
    print(f"{asked.kills * len(STEPS):,} kills. The ledger holds {verified.requests:,} requests, and its chain holds.")


class Trial:
    """One ledger, and services of it that are killed.

    Parameters
    ----------
    folder : path
        For everything.
    kills : int
        At each step.
    ledger : str
        File or address.
    """

    def __init__(self, folder: Path, kills: int, ledger: str) -> None:
        self.folder, self.kills, self.ledger = folder, kills, ledger
        Ledger.create(ledger).open_account("people", epsilon=3, delta=1e-5)
        _, self.token = KeyFile(folder / "keys.json").create("client", ["read", "predict"])
        answers = kills * len(STEPS) + 1
        # Answers that are nearly coins, so that a repeated answer proves something.
        text = CONFIG.format(ledger=ledger, answers=answers, sigma=3 * answers**0.5 + 60)
        (folder / "service.toml").write_text(text)
        # The grant itself is charged by the first answer.
        client = self.client()
        ask(client, self.token, "first")
        self.before = self.left(client)

    def client(self) -> TestClient:
        """Begin a service, and return what asks it."""
        return TestClient(create_app(read_settings(self.folder / "service.toml"), io.StringIO()))

    def kills_at(self, step: str) -> str:
        """Kill at one step again and again, and return a report. Raise at the first fault."""
        slowest, drawn = 0.0, 0
        for number in range(self.kills):
            key = f"{step} {number}"
            child = FORKS.Process(target=self.ask_and_die, args=(step, key))
            child.start()
            child.join()
            require(child.exitcode == -signal.SIGKILL, f"{key}: the service ended with {child.exitcode}")
            said = self.said(key)
            charged = self.is_charged(key)
            require(charged == (step in CHARGED), f"{key}: charged is {charged}")
            require(charged or "drawing" not in said, f"{key}: drawn uncharged")
            drawn += "drawing" in said
            start = time.perf_counter()
            client = self.client()
            again = ask(client, self.token, key)
            slowest = max(slowest, time.perf_counter() - start)
            label = again.json()["labels"][0]
            require(said.get("told", label) == label, f"{key}: the answer differs from the one before the kill")
            require(ask(client, self.token, key).content == again.content, f"{key}: two versions of an answer")
            replayed = again.headers["idempotent-replayed"] == "true"
            require(replayed == (step in STORED), f"{key}: replayed is {replayed}")
            left, before = self.left(client), self.before
            require(before - left == 1, f"{key}: {before - left} answers were charged")
            self.before = left
        Ledger(self.ledger).verify()
        return (
            f"{self.kills} kills, {drawn} after noise was drawn, none uncharged, none told in two ways; begun anew and "
            f"answered within {slowest:.2f} s"
        )

    def left(self, client: TestClient) -> int:
        """Return how many answers are left."""
        response = client.get("/v1/grants/kills", headers=headers(self.token))
        return int(response.json()["remaining"])

    def is_charged(self, key: str) -> bool:
        """Return whether a request is in the ledger."""
        with Ledger(self.ledger).reading() as transaction:
            return transaction.request(request=f"client:{key}") is not None

    def said(self, key: str) -> dict[str, str]:
        """Return what a killed service reported: that it was drawing, and its answer."""
        path = self.folder / "said"
        lines = [line.split("\t") for line in path.read_text().splitlines()] if path.exists() else []
        return {what: value for what, at, value in lines if at == key}

    def ask_and_die(self, step: str, key: str) -> None:
        """Ask a service that kills itself at a step."""
        file = (self.folder / "said").open("w", buffering=1)
        transactions = 0

        def die(name: str) -> None:
            if name == step:
                os.kill(os.getpid(), signal.SIGKILL)

        def at(name: str) -> None:
            nonlocal transactions
            transactions += name == "begun"
            die(f"{'charge' if transactions == 1 else 'answer'} {name}")

        sample, note, body = answers.sample, Witness.note, http._Bodies.taken

        def drawing(*given: Any) -> Any:
            file.write(f"drawing\t{key}\t\n")
            found = sample(*given)
            die("drawn")
            return found

        def noting(self: Witness, entry: Any) -> None:
            note(self, entry)
            die(f"{'charge' if transactions == 1 else 'answer'} witnessed")

        @asynccontextmanager
        async def reading(self: http._Bodies, scope: Any, receive: Any) -> AsyncIterator[bytes]:
            async with body(self, scope, receive) as found:
                die("body read")
                yield found

        client = self.client()
        store.step, answers.sample, Witness.note, http._Bodies.taken = at, drawing, noting, reading
        found = ask(client, self.token, key)
        file.write(f"told\t{key}\t{found.json()['labels'][0]}\n")
        die("replied")


def ask(client: TestClient, token: str, key: str) -> Any:
    """Ask once. Any response except an answer is a fault."""
    path, body = "/v1/grants/kills/predictions", {"counts": [[50, 50]]}
    response = client.post(path, json=body, headers=headers(token) | {"Idempotency-Key": key})
    require(response.status_code == 200, f"{key}: {response.text}")
    return response


def headers(token: str) -> dict[str, str]:
    """Return who asks."""
    return {"Authorization": f"Bearer {token}"}


def require(holds: bool, what: str) -> None:
    """End everything where something does not hold."""
    if not holds:
        sys.exit(what)


if __name__ == "__main__":
    main()
