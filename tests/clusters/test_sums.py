"""Sums on real clusters: the release of one process, to the last bit, through faults, and with nothing left behind."""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpensemble import LabelMomentsClassifier, on_cluster
from dpensemble.datasets.parts import DaskParts, ParquetParts
from dpensemble.datasets.spark_parts import SparkParts
from dpensemble.errors import DataError

pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("ignore")]

COLUMNS = ["a", "b", "c"]
# Looked for in all files that an engine leaves.
PLANTED = "Zq7planted"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    rng = np.random.default_rng(0)
    n = 1500
    table = pd.DataFrame({"a": rng.normal(size=n), "b": rng.choice(["x", "y"], n), "c": rng.integers(0, 9, n)})
    table["y"], table["who"] = (table["a"] + 0.3 * rng.normal(size=n) > 0).astype(int), rng.integers(0, 900, n)
    public, private = table.iloc[:300][COLUMNS], table.iloc[300:].copy()
    private.iloc[5, 1] = PLANTED
    folder = tmp_path_factory.mktemp("parts")
    for place, part in enumerate(np.array_split(np.arange(len(private)), 4)):
        private.iloc[part].to_parquet(folder / f"{place}.parquet", index=False)
    return public, folder


def fitted(parts, public, **settings):
    model = LabelMomentsClassifier(classes=[0, 1], delta=1e-4, insecure_release_seed=5, **settings)
    return model.fit_blocks(parts, X_public=public)


def values(*arguments, **settings):
    return [one.values.tolist() for one in fitted(*arguments, **settings).moments_]


@pytest.fixture(scope="module")
def expected(world):
    public, folder = world
    return values(ParquetParts(folder, "y", unit="who"), public)


@pytest.fixture(scope="module")
def java():
    if shutil.which("java") is None:
        pytest.skip("there is no Java, which Spark needs; Debian's package default-jre-headless has one")


@pytest.fixture(scope="module")
def spark(java, tmp_path_factory):
    sql = pytest.importorskip("pyspark.sql")
    place = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        sql.SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.io.encryption.enabled", "true")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.dir", str(place))
        .config("spark.local.dir", str(place))
        .config("spark.sql.warehouse.dir", str(place / "warehouse"))
        .getOrCreate()
    )
    session.place = place
    yield session
    session.stop()


def test_spark_releases_what_one_process_releases(world, expected, spark):
    public, folder = world
    assert values(SparkParts(spark.read.parquet(str(folder)), "y", unit="who"), public) == expected
    left = [file for file in Path(spark.place).rglob("*") if file.is_file() and PLANTED.encode() in file.read_bytes()]
    assert left == []
    # More partitions than texts in column b, so that some are empty.
    assert values(SparkParts(spark.read.parquet(str(folder)).repartition(5, "b"), "y", unit="who"), public) == expected


def test_a_task_that_fails_once_changes_nothing(world, expected, spark, tmp_path):
    public, folder = world

    class Failing(SparkParts):
        def results(self, work):
            return super().results(Failed(work, str(tmp_path)))

    assert values(Failing(spark.read.parquet(str(folder)), "y", unit="who"), public) == expected
    assert list(tmp_path.iterdir())


class Failed:
    """Work that ends its worker at the first try of a partition."""

    def __init__(self, work, place):
        self.work, self.place = work, place

    def __call__(self, tables):
        import os

        from pyspark import TaskContext

        context = TaskContext.get()
        if context.attemptNumber() == 0 and context.partitionId() == 0:
            open(f"{self.place}/{context.taskAttemptId()}", "w").close()
            os._exit(7)
        return self.work(tables)


@pytest.mark.parametrize("how", ["other entries", "other rows"])
def test_rows_that_change_are_refused(world, spark, how):
    from pyspark.sql import functions

    public, folder = world
    frame = spark.read.parquet(str(folder))
    draw = functions.udf(lambda: random.SystemRandom().random(), "double").asNondeterministic()
    changing = frame.withColumn("a", draw()) if how == "other entries" else frame.filter(draw() < 0.9)
    with pytest.raises(DataError, match="changed between two passes") as found:
        fitted(SparkParts(changing, "y", unit="who"), public)
    assert not any(letter.isdigit() for letter in str(found.value))


def test_a_column_that_is_missing_is_refused(world, spark):
    with pytest.raises(DataError, match="not a column"):
        SparkParts(spark.read.parquet(str(world[1])), "z")


@pytest.fixture(scope="module")
def dask_cluster(tmp_path_factory):
    distributed = pytest.importorskip("distributed")
    place, processes = tmp_path_factory.mktemp("dask"), []

    def begin(what, *flags):
        log = (place / f"{len(processes)}.log").open("w")
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *flags]
        processes.append(subprocess.Popen(command, cwd=place, stdout=log, stderr=log))

    begin("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", "s.json", "--no-dashboard")
    for _ in range(2):
        own = ("--nthreads", "1", "--no-dashboard", "--no-nanny", "--memory-limit", "0", "--host", "127.0.0.1")
        begin("worker", "--scheduler-file", "s.json", *own)
    with distributed.Client(scheduler_file=str(place / "s.json"), timeout=60, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
        yield client.scheduler.address, place
    for process in processes:
        process.kill()
        process.wait()


def test_dask_releases_what_one_process_releases(world, expected, dask_cluster):
    public, folder = world
    address, place = dask_cluster
    with on_cluster("dask", address):
        assert values(ParquetParts(folder, "y", unit="who"), public) == expected
        frame = pytest.importorskip("dask.dataframe").read_parquet(str(folder))
        assert values(DaskParts(frame, "y", unit="who"), public) == expected
    left = [file for file in place.rglob("*") if file.is_file() and PLANTED.encode() in file.read_bytes()]
    assert left == []


def test_dask_refuses_parts_that_change(world, dask_cluster):
    public, folder = world
    frame = pytest.importorskip("dask.dataframe").read_parquet(str(folder))
    changing = frame.map_partitions(lambda part: part.sample(frac=0.9))
    with on_cluster("dask", dask_cluster[0]), pytest.raises(DataError, match="changed between two passes"):
        fitted(DaskParts(changing, "y", unit="who"), public)
