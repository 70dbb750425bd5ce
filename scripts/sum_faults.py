"""Random faults of sums on a cluster: every run ends in the release of one process, or in a refusal before noise.

`python scripts/sum_faults.py dask --runs 200` (or `spark`) begins a cluster of local processes, and lets one fault
happen in a random pass of every run. At the end all files of the engine are searched for a text of the private rows.
It needs the extras `dask` or `spark`, and Java for Spark. The exit code is 1 if a run ended in any other way.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from dpensemble import LabelMomentsClassifier, on_cluster
from dpensemble.datasets.parts import ParquetParts
from dpensemble.datasets.spark_parts import SparkParts
from dpensemble.errors import DPEnsembleError
from dpensemble.releases import SumReleaser

PLANTED, COLUMNS, PARTS, PASSES = "Zq7planted", ["a", "b", "c"], 4, 4
# What happens once, in one part of one pass. An engine repeats the part, or the run is refused.
ON_WORKERS = (
    "a task fails",
    "a worker is killed",
    "a straggler",
    "a row is repeated",
    "a row is lost",
    "other versions",
)
IN_DRIVER = ("a part comes twice", "a part is lost", "a file changes")
FAULTS = {"dask": (*ON_WORKERS, *IN_DRIVER), "spark": (*ON_WORKERS, "an executor is killed", *IN_DRIVER)}
HARMLESS = {"a straggler"}


@dataclass
class Fault:
    """A fault in one pass. `place` is a folder for a mark, so that the fault happens once."""

    kind: str
    number: int
    place: str

    def happens(self) -> bool:
        """Return whether this is the part that fails, which is the first one to come here."""
        try:
            os.close(os.open(f"{self.place}/mark", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


@dataclass
class FaultyWork:
    """Work on parts, one of which has a fault."""

    work: object
    fault: Fault

    def __call__(self, tables):
        """Return what the work returns, unless the fault prevents it."""
        if not self.fault.happens():
            return self.work(tables)
        kind = self.fault.kind
        if kind == "a task fails":
            raise RuntimeError("a fault")
        if kind == "a worker is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "an executor is killed":
            # The parent of Spark's daemon of Python workers is the executor.
            stat = Path(f"/proc/{os.getppid()}/stat").read_text()
            os.kill(int(stat.rsplit(")", 1)[1].split()[1]), signal.SIGKILL)
            time.sleep(5)
        if kind == "a straggler":
            time.sleep(3)
        if kind == "other versions":
            return replace(self.work, wanted={**self.work.wanted, "numpy": "0.1"})(tables)
        if kind == "a row is repeated":
            tables = (pd.concat([table, table[:1]]) for table in tables)
        if kind == "a row is lost":
            tables = (table[1:] for table in tables)
        return self.work(tables)


class FaultyTable:
    """A table in parts with a fault in one of its passes."""

    def __init__(self, table, fault, folder):
        self.table, self.fault, self.folder, self.passes = table, fault, folder, 0
        self.target, self.unit = table.target, table.unit

    def results(self, work):
        """Yield the reports of a pass."""
        self.passes += 1
        now = self.passes == self.fault.number
        kind = self.fault.kind
        if now and kind == "a file changes":
            path = self.folder / "1.parquet"
            table = pd.read_parquet(path)
            table.loc[table.index[3], "c"] += 1
            table.to_parquet(path, index=False)
        reports = list(self.table.results(FaultyWork(work, self.fault) if now and kind not in IN_DRIVER else work))
        if now and kind == "a part comes twice":
            reports.append(reports[0])
        if now and kind == "a part is lost":
            reports.pop()
        yield from reports


def begin_world(place: Path) -> pd.DataFrame:
    """Write private rows to a folder, and return public rows."""
    rng, n = np.random.default_rng(0), 1000
    table = pd.DataFrame({"a": rng.normal(size=n), "b": rng.choice(["x", "y"], n), "c": rng.integers(0, 9, n)})
    table["y"], table["who"] = (table["a"] + 0.3 * rng.normal(size=n) > 0).astype(int), rng.integers(0, 500, n)
    private = table.iloc[300:].copy()
    private["b"] = np.where(np.arange(len(private)) % 50 == 0, PLANTED, private["b"])
    place.mkdir()
    for number, part in enumerate(np.array_split(np.arange(len(private)), PARTS)):
        private.iloc[part].to_parquet(place / f"{number}.parquet", index=False)
    return table.iloc[:300][COLUMNS]


@contextmanager
def begun_dask(place: Path):
    """Begin a scheduler and two workers that come back after a kill, and yield a reader of folders."""
    from distributed import Client  # noqa: PLC0415  an optional extra

    file, log = str(place / "scheduler.json"), (place / "dask.log").open("w")
    here = ("--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", file)
    commands = [
        ("scheduler", "--port", "0"),
        *(("worker", "--nthreads", "1", "--memory-limit", "0", "--nworkers", "1"),) * 2,
    ]
    processes = []
    try:
        for what, *more in commands:
            command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *more, *here]
            processes.append(subprocess.Popen(command, cwd=place, stdout=log, stderr=log))
        with Client(scheduler_file=file, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
            address = client.scheduler.address

            @contextmanager
            def reader(folder):
                client.wait_for_workers(2, timeout=60)
                with on_cluster("dask", address):
                    yield ParquetParts(folder, "y", unit="who")

            yield reader
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


@contextmanager
def begun_spark(place: Path):
    """Begin a local cluster of Spark with two executors, encryption and speculation, and yield a reader of folders."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  an optional extra

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.authenticate": "true",
        "spark.authenticate.secret": "of this run",
        "spark.network.crypto.enabled": "true",
        "spark.io.encryption.enabled": "true",
        "spark.speculation": "true",
        "spark.speculation.interval": "200ms",
        "spark.speculation.quantile": "0.5",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(place),
        "spark.local.dir": str(place),
        "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "spark.deploy.maxExecutorRetries": "-1",
    }
    builder = SparkSession.builder.master("local-cluster[2,1,1024]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()

    @contextmanager
    def reader(folder):
        yield SparkParts(session.read.parquet(str(folder)), "y", unit="who")

    try:
        yield reader
    finally:
        session.stop()


def main() -> int:
    """Run the faults, and print how runs ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=("dask", "spark"))
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=np.inf, help="begin no run after this time")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    drawn, release = [], SumReleaser.release
    SumReleaser.release = lambda *one, **more: drawn.append(0) or release(*one, **more)
    settings = {"classes": [0, 1], "delta": 1e-4, "insecure_release_seed": 5}
    rng, start, ends, wrong, runs = np.random.default_rng(options.seed), time.monotonic(), Counter(), 0, 0
    with tempfile.TemporaryDirectory() as home, ExitStack() as running:
        source, engine_place = Path(home) / "source", Path(home) / "engine"
        public = begin_world(source)
        engine_place.mkdir()

        def values(parts):
            fitted = LabelMomentsClassifier(**settings).fit_blocks(parts, X_public=public)
            return [one.values.tolist() for one in fitted.moments_]

        expected = values(ParquetParts(source, "y", unit="who"))
        begun = {"dask": begun_dask, "spark": begun_spark}[options.engine]
        reader = running.enter_context(begun(engine_place))
        while runs < options.runs and time.monotonic() - start < options.seconds:
            runs += 1
            kinds = FAULTS[options.engine]
            # Every kind comes first once, then kinds are random.
            kind = kinds[runs - 1] if runs <= len(kinds) else str(rng.choice(kinds))
            folder = Path(shutil.copytree(source, Path(home) / f"run{runs}"))
            mark = Path(tempfile.mkdtemp(dir=home))
            fault = Fault(kind, int(rng.integers(1, PASSES + 1)), str(mark))
            drawn.clear()
            try:
                with reader(folder) as table:
                    same = values(FaultyTable(table, fault, folder)) == expected
                # A file that changed before the first pass is another table.
                other = kind == "a file changes" and fault.number == 1
                end = "same release" if same else "another table" if other else "ANOTHER RELEASE"
            except DPEnsembleError as error:
                first = max(fault.number, 2)
                end = "refused before noise" if len(drawn) <= first - 2 else "REFUSED AFTER NOISE"
                end = end if kind not in HARMLESS else f"REFUSED ({error})"
            except Exception as error:
                end = f"ERROR {type(error).__name__}"
            wrong += end[:3].isupper()
            ends[kind, end] += 1
            shutil.rmtree(folder)
        running.close()
        left = [file for file in engine_place.rglob("*") if file.is_file() and PLANTED.encode() in file.read_bytes()]
    for (kind, end), number in sorted(ends.items()):
        print(f"{kind:24}{end:24}{number:5}")
    print(f"{options.engine}: {runs} faults, {wrong} wrong ends, {len(left)} files of the engine with private text")
    return 1 if wrong or left else 0


if __name__ == "__main__":
    sys.exit(main())
