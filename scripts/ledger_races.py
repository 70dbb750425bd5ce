"""Let many processes charge one budget at one moment, again and again: never more than it allows, and none lost.

Run ``python scripts/ledger_races.py LEDGER [--rounds 1000] [--processes 24]``, where LEDGER is a file or a PostgreSQL
address without a ledger. In every round each process asks for an eighth of a new budget, and exactly eight get it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from time import perf_counter

from dpensemble._spending import Spending
from dpensemble.errors import BudgetError
from dpensemble.server import Ledger

FITTING = 8


def charge(where: str, barrier: Barrier, told: Connection) -> None:
    """Ask for a share of every account that is named, at the same moment as the others."""
    ledger = Ledger(where)
    while name := told.recv():
        account = ledger.account(name)
        barrier.wait()
        try:
            account.one_release("race")([Spending(name="everyone", epsilon=1 / FITTING, delta=1e-9)])
        except BudgetError:
            told.send(False)
        else:
            told.send(True)


def main() -> None:
    """Run the rounds and print the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("ledger")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=24)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as state:
        os.environ.setdefault("DPENSEMBLE_STATE", state)
        ledger = Ledger.create(asked.ledger)
        fork = multiprocessing.get_context("fork")
        barrier, pipes = fork.Barrier(asked.processes), [fork.Pipe() for _ in range(asked.processes)]
        workers = [fork.Process(target=charge, args=(asked.ledger, barrier, theirs)) for _, theirs in pipes]
        for worker in workers:
            worker.start()
        start = perf_counter()
        for number in range(asked.rounds):
            account = ledger.open_account(f"round {number}", epsilon=1, delta=1e-5, filter="basic")
            for ours, _ in pipes:
                ours.send(f"round {number}")
            granted = sum(ours.recv() for ours, _ in pipes)
            left = account.state().left.loss
            if (granted, left) != (min(FITTING, asked.processes), max(0, FITTING - asked.processes) * 10**6 // FITTING):
                raise SystemExit(f"round {number}: {granted} were granted, and {left} millionths are left")
        seconds = perf_counter() - start
        for ours, _ in pipes:
            ours.send("")
        for worker in workers:
            worker.join()
        verified = ledger.verify()
    print(
        f"{asked.rounds:,} rounds of {asked.processes} processes in {seconds:.0f} s: {verified.grants:,} charges, none "
        "too many, none lost. The chain holds."
    )


if __name__ == "__main__":
    main()
