"""Rivals of other environments: a worker process each, and the folder through which rows and answers pass."""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from multiprocessing.util import Finalize
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from arena.encoding import Encoded
from arena.environments import rival_python

_PARTS = ("private", "public", "test")


class RivalError(RuntimeError):
    """What went wrong in a worker."""


class Worker:
    """One process in the rivals' environment; started anew after it has died."""

    def __init__(self, python: Path) -> None:
        self.python = python
        self.process: subprocess.Popen | None = None
        # Unlike atexit, this is done at the end of a pool's process too.
        Finalize(None, self.stop, exitpriority=1)

    def ask(self, request: dict) -> dict:
        """Return the answer to a request."""
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(  # noqa: S603
                [str(self.python), str(Path(__file__).with_name("worker.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": ""},
            )
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
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
def worker(home: Path) -> Worker:
    """Return this process's worker."""
    return Worker(rival_python(home))


def rival(contestant: str, encoded: Encoded, home: Path, **settings: float) -> tuple[np.ndarray, float]:
    """Return a rival's class probabilities of test rows, and the seconds that its fit and prediction took."""
    folder = _handed_over(encoded)
    request = {"folder": folder.name, "contestant": contestant, "classes": len(encoded.rows.classes), **settings}
    found = worker(home).ask(request)
    if "error" in found:
        raise RivalError(found["error"])
    return np.load(Path(folder.name) / "answer.npy"), found["seconds"]


#: The last split handed over; its folder goes when another one comes.
_held: list[tuple[Encoded, TemporaryDirectory]] = []


def _handed_over(encoded: Encoded) -> TemporaryDirectory:
    if _held and _held[0][0] is encoded:
        return _held[0][1]
    for _, old in _held:
        old.cleanup()
    folder = TemporaryDirectory(prefix="arena-")
    Finalize(None, folder.cleanup, exitpriority=0)
    path = Path(folder.name)
    np.save(path / "labels.npy", encoded.rows.y_private)
    for kind in ("matrices", "numbers"):
        np.savez(path / f"{kind}.npz", **dict(zip(_PARTS, getattr(encoded, kind), strict=True)))
    for part, frame in zip(_PARTS, encoded.filled, strict=True):
        frame.to_parquet(path / f"{part}.parquet")
    _held[:] = [(encoded, folder)]
    return folder
