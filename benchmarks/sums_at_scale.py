"""One release of Adult by one process, two processes, Dask and Spark: bit for bit the same, and their CPU time.

Every route runs in this script, one after the other. CPU seconds include those of child processes, if the engine ends
its processes here. Ratios are against one process in the same run. Dask and Spark are left out if they are missing.
"""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from dpensemble import LabelMomentsClassifier, load_adult, on_cluster, three_way_split
from dpensemble.datasets.parts import DaskParts, ParquetParts
from dpensemble.datasets.spark_parts import SparkParts

PARTS = 4


def cpu_seconds():
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def main():
    adult = load_adult()
    split = three_way_split(len(adult.X), 0)
    private = adult.X.iloc[split.private].assign(_label=adult.y.iloc[split.private], _person=range(len(split.private)))
    private["_person"] //= 2
    public = adult.X.iloc[split.public]
    settings = {"classes": adult.classes, "epsilon": 1.0, "delta": 1e-5, "insecure_release_seed": 7}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "adult"
        folder.mkdir()
        for number in range(PARTS):
            private.iloc[number::PARTS].to_parquet(folder / f"{number}.parquet", index=False)

        def release(make):
            start, spent = time.perf_counter(), cpu_seconds()
            model = LabelMomentsClassifier(**settings).fit_blocks(make(), X_public=public)
            seconds = time.perf_counter() - start, cpu_seconds() - spent
            return [one.values.tobytes() for one in model.moments_], seconds

        def whole():
            start, spent = time.perf_counter(), cpu_seconds()
            X = private.drop(columns=["_label", "_person"])
            model = LabelMomentsClassifier(**settings).fit(
                X, private["_label"], X_public=public, units=private["_person"]
            )
            seconds = time.perf_counter() - start, cpu_seconds() - spent
            return [one.values.tobytes() for one in model.moments_], seconds

        expected, in_memory = whole()
        rows = [("fit, in memory", True, in_memory)]

        def add(name: str, make: Callable) -> None:
            moments, seconds = release(make)
            rows.append((name, moments == expected, seconds))

        columns = {"target": "_label", "unit": "_person"}
        add("one process", lambda: ParquetParts(folder, **columns))
        add("two processes", lambda: ParquetParts(folder, **columns, n_jobs=2))
        for name, begin in (("Dask, two workers", _dask), ("Spark, local[2]", _spark)):
            try:
                begin(folder, columns, Path(place), add, name)
            except ImportError:
                print(f"{name}: not installed")
        one = rows[1][2]
        print(f"{'route':32}{'same bits':>10}{'seconds':>9}{'CPU s':>8}{'seconds, ratio':>16}")
        for name, same, (seconds, spent) in rows:
            print(f"{name:32}{'yes' if same else 'NO':>10}{seconds:9.1f}{spent:8.1f}{seconds / one[0]:16.2f}")
        return 0 if all(same for _, same, _ in rows) else 1


def _dask(folder, columns, place, add, name):
    import dask.dataframe  # noqa: PLC0415  an optional extra
    from distributed import Client  # noqa: PLC0415  an optional extra

    address = str(place / "scheduler.json")
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    processes = [subprocess.Popen([*command, "--no-dashboard", "--scheduler-file", address], **quiet)]  # noqa: S603
    command = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", address, "--nthreads", "1"]
    more = ["--no-nanny", "--no-dashboard", "--memory-limit", "0", "--host", "127.0.0.1"]
    try:
        processes += [subprocess.Popen([*command, *more], **quiet) for _ in range(2)]  # noqa: S603
        with Client(scheduler_file=address, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
            where = client.scheduler.address
        with on_cluster("dask", where):
            add(f"{name}, Parquet", lambda: ParquetParts(folder, **columns))
            add(f"{name}, frame", lambda: DaskParts(dask.dataframe.read_parquet(str(folder)), **columns))
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


def _spark(folder, columns, place, add, name):
    from pyspark.sql import SparkSession  # noqa: PLC0415  an optional extra

    if shutil.which("java") is None:
        print(f"{name}: there is no Java")
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
    session = session.config("spark.driver.host", "127.0.0.1").config("spark.local.dir", str(place))
    session = session.config("spark.io.encryption.enabled", "true").getOrCreate()
    try:
        add(name, lambda: SparkParts(session.read.parquet(str(folder)), **columns))
    finally:
        session.stop()


if __name__ == "__main__":
    sys.exit(main())
