"""Rivals of other environments and other checkouts: a worker process each, and the folder for rows and answers."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from multiprocessing.util import Finalize
from pathlib import Path
from select import select
from tempfile import TemporaryDirectory

import numpy as np

from arena.encoding import Encoded
from arena.environments import Environment
from arena.limits import CPU_SECONDS, TooSlowError

_PARTS = ("private", "public", "test")
_BENCHMARKS = Path(__file__).parents[1]
#: A worker that does not stop at the limit of CPU time by itself is ended after this many seconds by the clock.
_PATIENCE = 10 * CPU_SECONDS


class RivalError(RuntimeError):
    """What went wrong in a worker."""


class Worker:
    """One process in an environment of rivals; another one is started after it has died."""

    def __init__(self, python: Path, *sources: Path) -> None:
        self.python = python
        # What is imported from these folders wins over what is installed.
        self.path = os.pathsep.join(map(str, (*sources, _BENCHMARKS)))
        self.process: subprocess.Popen | None = None
        # Unlike atexit, this is done at the end of a pool's process too.
        Finalize(None, self.stop, exitpriority=1)

    def ask(self, request: dict) -> dict:
        """Return the answer to a request."""
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(  # noqa: S603
                [str(self.python), "-m", "arena.rival_side.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": self.path},
            )
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        if not select([self.process.stdout], [], [], _PATIENCE)[0]:
            self.process.kill()
            self.process.wait()
            raise TooSlowError(f"the worker gave no answer within {_PATIENCE:g} seconds")
        line = self.process.stdout.readline()
        if not line:
            raise RivalError(f"the worker ended with exit status {self.process.wait()}")
        return json.loads(line)

    def stop(self) -> None:
        """End the process, if there is one."""
        if self.process is not None and self.process.poll() is None:
            self.process.stdin.close()
            self.process.wait()


@cache
def worker(environment: Environment, home: Path) -> Worker:
    """Return this process's worker in an environment."""
    return Worker(environment.python(home))


@cache
def checkout_worker(checkout: Path) -> Worker:
    """Return this process's worker that imports the library from a checkout."""
    return Worker(Path(sys.executable), checkout / "src")


def of_checkout(checkout: Path, contestant: str, encoded: Encoded, **settings: float) -> tuple[np.ndarray, float]:
    """Return what `rival` returns, by the library of a checkout."""
    return _asked(checkout_worker(checkout), _handed_over(encoded, _as_they_are), contestant, encoded, **settings)


def rival(
    contestant: str, environment: Environment, encoded: Encoded, home: Path, **settings: float
) -> tuple[np.ndarray, float]:
    """Return a rival's class probabilities of test rows, and the CPU seconds that its fit and prediction took."""
    return _asked(worker(environment, home), _handed_over(encoded, _in_all_forms), contestant, encoded, **settings)


def _asked(
    answering: Worker, folder: TemporaryDirectory, contestant: str, encoded: Encoded, **settings: float
) -> tuple[np.ndarray, float]:
    request = {
        "folder": folder.name,
        "contestant": contestant,
        "classes": len(encoded.rows.classes),
        "limit": CPU_SECONDS,
        **settings,
    }
    answer = answering.ask(request)
    if "error" in answer:
        raise (TooSlowError if answer["slow"] else RivalError)(answer["error"])
    return np.load(Path(folder.name) / "answer.npy"), answer["seconds"]


#: The last split that was handed over, in the forms that were asked for. Its folder goes when another one comes.
_held: list[tuple[Encoded, Callable, TemporaryDirectory]] = []


def _handed_over(encoded: Encoded, write: Callable[[Encoded, Path], None]) -> TemporaryDirectory:
    if _held and _held[0][0] is encoded and _held[0][1] is write:
        return _held[0][2]
    for *_, old in _held:
        old.cleanup()
    folder = TemporaryDirectory(prefix="arena-")
    Finalize(None, folder.cleanup, exitpriority=0)
    path = Path(folder.name)
    np.save(path / "labels.npy", encoded.rows.y_private)
    write(encoded, path)
    _held[:] = [(encoded, write, folder)]
    return folder


def _in_all_forms(encoded: Encoded, path: Path) -> None:
    for kind in ("matrices", "numbers"):
        np.savez(path / f"{kind}.npz", **dict(zip(_PARTS, getattr(encoded, kind), strict=True)))
    np.savez(path / "codes.npz", **vars(encoded.codes))
    for part, frame in zip(_PARTS, encoded.filled, strict=True):
        frame.to_parquet(path / f"{part}.parquet")


def _as_they_are(encoded: Encoded, path: Path) -> None:
    rows = encoded.rows
    held = (rows.X_private, rows.y_private, rows.X_public, rows.X_test, rows.classes)
    (path / "rows.pkl").write_bytes(pickle.dumps(held))
