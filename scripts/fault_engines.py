"""Engines of local processes for `sum_faults.py`, with all their files in one folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

from dpensemble import on_cluster
from dpensemble.datasets.partitions import ParquetOnSpark, ParquetParts, SparkParts

TARGET, UNIT = "y", "who"
_DAEMON = "warm_daemon"
_DAEMON_SOURCE = """
from contextlib import suppress
from importlib import import_module
for name in {names}:
    with suppress(Exception):
        import_module(name)
from pyspark.daemon import manager
manager()
"""
# Libraries that the work loads.
_LOADED = {"dpensemble", "numpy", "pandas", "pyarrow", "scipy", "sklearn", "threadpoolctl"}


class DaskEngine:
    """A scheduler and two workers that come back after a kill."""

    def __init__(self, place: Path) -> None:
        self.place, self.processes, self.client = place, [], None

    def begin(self) -> None:
        """Begin all processes, and wait for the workers."""
        from distributed import Client  # noqa: PLC0415  an optional extra

        file = self.place / "scheduler.json"
        file.unlink(missing_ok=True)
        here = ("--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(file))
        worker = ("worker", "--nthreads", "1", "--memory-limit", "0", "--nworkers", "1")
        for what, *more in (("scheduler", "--port", "0"), worker, worker):
            own = ("--local-directory", str(self.place / "workers")) if what == "worker" else ()
            command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *more, *here, *own]
            with (self.place / "dask.log").open("a") as log:
                self.processes.append(subprocess.Popen(command, cwd=self.place, stdout=log, stderr=log))
        self.client = Client(scheduler_file=str(file), timeout=60, set_as_default=False)

    @contextmanager
    def table(self, folder: Path):
        """Yield the table of a folder on the cluster."""
        self.client.wait_for_workers(2, timeout=60)
        with on_cluster("dask", self.client.scheduler.address):
            yield ParquetParts(folder, TARGET, unit=UNIT)

    def lose(self) -> None:
        """Kill the scheduler."""
        self.processes[0].send_signal(signal.SIGKILL)

    def end(self) -> None:
        """End all processes."""
        with suppress(Exception):
            self.client.close(timeout=2)
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                # A worker that is about to come back waits for the scheduler that has gone.
                process.kill()
                process.wait()
        self.processes = []


class SparkEngine:
    """A local cluster of Spark with two executors, encryption and speculation."""

    def __init__(self, place: Path) -> None:
        self.place, self.session, self.n_tables = place, None, 0
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["JAVA_TOOL_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        names = sorted(name for name in sys.modules if name.split(".")[0] in _LOADED)
        daemon = Path(os.environ["PYTHONPATH"].split(os.pathsep)[0], f"{_DAEMON}.py")
        daemon.write_text(_DAEMON_SOURCE.format(names=names))
        os.environ["SPARK_HOME"] = str(_home_of_spark(place / "spark"))

    def begin(self) -> None:
        """Begin the session."""
        from pyspark.sql import SparkSession  # noqa: PLC0415  an optional extra

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
            "spark.speculation.multiplier": "1.1",
            "spark.speculation.efficiency.enabled": "false",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": str(self.place),
            "spark.local.dir": str(self.place),
            "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "spark.deploy.maxExecutorRetries": "-1",
            "spark.sql.files.minPartitionNum": "4",
            # Small jobs take longer to compile than to run.
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.sql.adaptive.enabled": "false",
            # Workers are forks of a process that has loaded the library, so that a killed one is back at once.
            "spark.python.daemon.module": _DAEMON,
            # A text in a compressed file would not be found.
            **dict.fromkeys(("spark.eventLog.compress", "spark.broadcast.compress", "spark.rdd.compress"), "false"),
            **dict.fromkeys(("spark.shuffle.compress", "spark.shuffle.spill.compress"), "false"),
        }
        builder = SparkSession.builder.master("local-cluster[2,1,1024]")
        for name, value in settings.items():
            builder = builder.config(name, value)
        self.session = builder.getOrCreate()

    @contextmanager
    def table(self, folder: Path):
        """Yield the table of a folder, which Spark and the executors' Python read in turns."""
        self.n_tables += 1
        if self.n_tables % 2:
            yield ParquetOnSpark(self.session, folder, TARGET, unit=UNIT)
        else:
            yield SparkParts(self.session.read.parquet(str(folder)), TARGET, unit=UNIT)

    def lose(self) -> None:
        """Stop the session."""
        self.session.stop()

    def end(self) -> None:
        """Stop the session."""
        with suppress(Exception):
            self.session.stop()


def _home_of_spark(place: Path) -> Path:
    """Return a folder with links to Spark, because executors write their logs to a folder in Spark's own."""
    import pyspark  # noqa: PLC0415  an optional extra

    place.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        if entry.name != "work":
            (place / entry.name).symlink_to(entry)
    return place


ENGINES = {"dask": DaskEngine, "spark": SparkEngine}
