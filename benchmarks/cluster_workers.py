"""Teachers on a local Dask cluster of 1, 2 and 4 worker processes, beside joblib's own workers on the same machine.

Needs dpensemble[dask]. Prints the seconds for fitting and asking all teachers, which are the same in every row. Also
prints the CPU seconds of all processes together, scheduler and workers with their starts included, which a busy machine
changes least.
"""

from __future__ import annotations

import argparse
import os
import resource
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

import numpy as np
from joblib.externals.loky import get_reusable_executor
from sklearn.ensemble import RandomForestClassifier

from dpensemble import SubsampleAggregateClassifier, on_cluster


@contextmanager
def local_cluster(n_workers: int) -> Iterator[str]:
    """Yield the address of a scheduler with workers as processes of their own."""
    from distributed import Client  # noqa: PLC0415  an optional extra

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    worker = ["worker", address, "--nthreads", "1", "--no-nanny", "--memory-limit", "0", "--no-dashboard"]
    commands = [["scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"], *[worker] * n_workers]
    with tempfile.TemporaryDirectory() as folder:
        processes = [
            subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", f"distributed.cli.dask_{what}", *flags],
                cwd=folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for what, *flags in commands
        ]
        try:
            with Client(address, timeout=60, set_as_default=False) as client:
                client.wait_for_workers(n_workers, timeout=60)
            yield address
        finally:
            for process in processes:
                process.kill()
                process.wait()


def cpu_seconds() -> float:
    """Return what this process and all that have ended below it have used."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--teachers", type=int, default=64)
    parser.add_argument("--records", type=int, default=32_000)
    parser.add_argument("--trees", type=int, default=50)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    X, public = rng.normal(size=(options.records, 20)), rng.normal(size=(2_000, 20))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)

    def seconds(n_jobs: int) -> tuple[float, list[int]]:
        model = SubsampleAggregateClassifier(
            RandomForestClassifier(options.trees, n_jobs=1), classes=[0, 1], n_teachers=options.teachers,
            max_labels=200, random_state=0, insecure_release_seed=0, n_jobs=n_jobs,
        )  # fmt: skip
        start = perf_counter()
        model.fit(X, y, X_public=public)
        return perf_counter() - start, model.labels_.labels.tolist()

    def show(name: str, took: float, cpu: float) -> None:
        print(f"{name:24s} {took:7.1f} s   {one / took:5.2f} x   {cpu:7.1f} CPU s", flush=True)

    print(f"{options.teachers} forests of {options.trees} trees, {options.records:,} records, {os.cpu_count()} cores")
    before = cpu_seconds()
    one, labels = seconds(1)
    show("one process", one, cpu_seconds() - before)
    for n_jobs in (2, 4):
        before = cpu_seconds()
        took, votes = seconds(n_jobs)
        # Their CPU time is known once they have ended.
        get_reusable_executor().shutdown(wait=True)
        assert votes == labels  # noqa: S101
        show(f"joblib, {n_jobs} workers", took, cpu_seconds() - before)
    for n_workers in (1, 2, 4):
        before = cpu_seconds()
        with local_cluster(n_workers) as address, on_cluster("dask", address):
            took, votes = seconds(1)
        assert votes == labels  # noqa: S101
        show(f"dask, {n_workers} workers", took, cpu_seconds() - before)


if __name__ == "__main__":
    main()
