"""Sums on real clusters: the release of one process, to the last bit, through faults, and with nothing left behind."""

import json
import os
import random
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from dpensemble import LabelMomentsSurvival, LifeTable, on_cluster
from dpensemble.cli import main
from dpensemble.datasets.partitions import DaskParts, ParquetOnSpark, ParquetParts, SparkParts
from dpensemble.errors import DataError, InvalidParameterError

from ..deadline import GUARD

pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("ignore")]


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
        # A text in a compressed file would not be found.
        .config("spark.eventLog.compress", "false")
        .config("spark.eventLog.dir", str(place))
        .config("spark.local.dir", str(place))
        .config("spark.sql.warehouse.dir", str(place / "warehouse"))
        .getOrCreate()
    )
    session.place = place
    yield session
    session.stop()


def read_by_spark(session, folder, kind=SparkParts):
    return kind(session.read.parquet(str(folder)), "y", unit="who")


def read_by_python(session, folder, kind=ParquetOnSpark):
    return kind(session, folder, "y", unit="who")


@pytest.mark.parametrize("reader", [read_by_spark, read_by_python])
def test_spark_releases_what_one_process_releases(records, spark, reader):
    assert records.values(reader(spark, records.folder)) == records.expected
    assert records.left_in(spark.place) == []


def test_empty_partitions_change_nothing(records, spark):
    # More partitions than texts in column b.
    frame = spark.read.parquet(str(records.folder)).repartition(5, "b")
    assert records.values(SparkParts(frame, "y", unit="who")) == records.expected


@pytest.mark.parametrize(("reader", "kind"), [(read_by_spark, SparkParts), (read_by_python, ParquetOnSpark)])
def test_a_task_that_fails_once_changes_nothing(records, spark, tmp_path, reader, kind):
    class Failing(kind):
        def results(self, work):
            return super().results(Failed(work, str(tmp_path)))

    assert records.values(reader(spark, records.folder, Failing)) == records.expected
    assert list(tmp_path.iterdir())


@pytest.mark.parametrize("place", [-1, 1])
def test_a_part_that_spark_loses_or_repeats_is_refused(records, spark, place):
    """A session that runs other numbers of tasks than parts."""

    class Other:
        sparkContext = spark.sparkContext  # noqa: N815

        def range(self, start, end, step, n_partitions):
            return spark.range(start, end + place, step, n_partitions + place)

    with pytest.raises(DataError, match=r"of the private records|a job of Spark failed"):
        records.fitted(read_by_python(Other(), records.folder))


def test_a_file_that_an_executor_does_not_see_is_refused(records, spark, tmp_path):
    folder = shutil.copytree(records.folder, tmp_path / "table")
    parts = read_by_python(spark, folder)
    (folder / "1.parquet").unlink()
    with pytest.raises(DataError, match="changed or removed") as refusal:
        records.fitted(parts)
    assert str(folder) not in str(refusal.value)


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


def drawn_entries(frame, functions):
    draw = functions.udf(lambda: random.SystemRandom().random(), "double").asNondeterministic()
    return frame.withColumn("a", draw())


def drawn_rows(frame, functions):
    draw = functions.udf(lambda: random.SystemRandom().random(), "double").asNondeterministic()
    return frame.filter(draw() < 0.9)


class OfThisPass(SparkParts):
    """A table whose plan is planned again for every pass, by a function."""

    def plan(self, draw):
        self.draw, self.frame = draw, self._frame
        return self

    def results(self, work):
        self._frame = self.draw(self.frame)
        return super().results(work)


@pytest.mark.parametrize("change", [drawn_entries, drawn_rows])
def test_rows_that_change_are_refused(records, spark, change):
    from pyspark.sql import functions

    changing = change(spark.read.parquet(str(records.folder)), functions)
    with pytest.raises(DataError, match="changed between two passes") as found:
        records.fitted(SparkParts(changing, "y", unit="who"))
    assert not any(letter.isdigit() for letter in str(found.value))


def test_rand_is_the_same_in_every_pass_of_a_plan(records, spark):
    """Spark draws the seed of `rand()` when the plan is made, and each partition draws its rows from it."""
    from pyspark.sql import functions

    frame = spark.read.parquet(str(records.folder)).withColumn("a", functions.rand())
    first = records.values(SparkParts(frame, "y", unit="who"))
    assert first == records.values(SparkParts(frame, "y", unit="who"))


def test_a_limit_without_an_order_is_refused_where_other_rows_come(records, spark):
    """Here the order of the files changes between passes, as on a cluster whose tasks end in another order."""
    parts = OfThisPass(spark.read.parquet(str(records.folder)), "y", unit="who")
    orders = iter([1, -1, 1, -1])
    files = sorted(str(file) for file in records.folder.iterdir())
    parts.plan(lambda _: spark.read.parquet(files[:: next(orders)][0]).limit(200))
    with pytest.raises(DataError, match="changed between two passes"):
        records.fitted(parts)


def test_a_table_that_is_written_is_refused(records, spark, tmp_path):
    """A file that is added between two passes, to a table that Spark reads again."""
    folder = shutil.copytree(records.folder, tmp_path / "table")

    def plan(_):
        frame = spark.read.parquet(str(folder))
        shutil.copy(folder / "1.parquet", folder / "9.parquet")
        return frame

    with pytest.raises(DataError, match="changed between two passes"):
        records.fitted(OfThisPass(spark.read.parquet(str(folder)), "y", unit="who").plan(plan))
    # A plan keeps its list of files.
    folder = shutil.copytree(records.folder, tmp_path / "other")
    parts = SparkParts(spark.read.parquet(str(folder)), "y", unit="who")
    shutil.copy(folder / "1.parquet", folder / "9.parquet")
    assert records.values(parts) == records.expected


def test_workers_of_another_version_are_refused(records, spark, monkeypatch):
    from dpensemble import _same_code
    from dpensemble.datasets import partitions

    monkeypatch.setattr(partitions, "versions", lambda: _same_code.versions() | {"python": "3.2"})
    with pytest.raises(DataError, match=r"a worker with python \S+, but must have 3\.2"):
        records.fitted(SparkParts(spark.read.parquet(str(records.folder)), "y", unit="who"))


def test_a_repeated_id_is_one_unit(records, spark, tmp_path):
    """All records of one person weigh as much as one record."""
    table = pd.concat([pd.read_parquet(file) for file in sorted(records.folder.iterdir())], ignore_index=True)
    once = table.drop_duplicates("who")
    again = pd.concat([once, once], ignore_index=True)
    (tmp_path / "once").mkdir()
    (tmp_path / "twice").mkdir()
    once.to_parquet(tmp_path / "once" / "0.parquet", index=False)
    for number, part in enumerate(np.array_split(np.arange(len(again)), 3)):
        again.iloc[part].to_parquet(tmp_path / "twice" / f"{number}.parquet", index=False)
    single = records.fitted(ParquetParts(tmp_path / "once", "y", unit="who"))
    double = records.fitted(SparkParts(spark.read.parquet(str(tmp_path / "twice")), "y", unit="who"))
    # The rounding of half a record differs, by less than a thousandth of the noise.
    for one, two in zip(single.moments_, double.moments_, strict=True):
        np.testing.assert_allclose(one.values, two.values, atol=1e-2)


def test_a_column_that_is_missing_is_refused(records, spark):
    with pytest.raises(DataError, match="not a column"):
        SparkParts(spark.read.parquet(str(records.folder)), "z")


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
        begin("worker", "--scheduler-file", "s.json", "--local-directory", str(place / "workers"), *own)
    with distributed.Client(scheduler_file=str(place / "s.json"), timeout=GUARD, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=GUARD)
        yield client.scheduler.address, place
    for process in processes:
        process.kill()
        process.wait()


def test_dask_releases_what_one_process_releases(records, dask_cluster):
    address, place = dask_cluster
    with on_cluster("dask", address):
        assert records.values(ParquetParts(records.folder, "y", unit="who")) == records.expected
        frame = pytest.importorskip("dask.dataframe").read_parquet(str(records.folder))
        assert records.values(DaskParts(frame, "y", unit="who")) == records.expected
    assert records.left_in(place) == []


def test_dask_refuses_parts_that_change(records, dask_cluster):
    frame = pytest.importorskip("dask.dataframe").read_parquet(str(records.folder))
    changing = frame.map_partitions(lambda part: part.sample(frac=0.9))
    with on_cluster("dask", dask_cluster[0]), pytest.raises(DataError, match="changed between two passes"):
        records.fitted(DaskParts(changing, "y", unit="who"))


def test_a_part_without_rows_changes_nothing_on_dask(records, dask_cluster, tmp_path):
    folder = shutil.copytree(records.folder, tmp_path / "table")
    pd.read_parquet(folder / "1.parquet")[:0].to_parquet(folder / "7.parquet", index=False)
    with on_cluster("dask", dask_cluster[0]):
        assert records.values(ParquetParts(folder, "y", unit="who")) == records.expected


def test_files_that_change_between_passes_are_refused_on_dask(records, dask_cluster, tmp_path):
    folder = shutil.copytree(records.folder, tmp_path / "table")

    class Written(ParquetParts):
        passes = 0

        def results(self, work):
            self.passes += 1
            if self.passes == 3:
                table = pd.read_parquet(folder / "2.parquet")
                table.loc[0, "a"] += 1
                table.to_parquet(folder / "2.parquet", index=False)
            return super().results(work)

    with on_cluster("dask", dask_cluster[0]), pytest.raises(DataError):
        records.fitted(Written(folder, "y", unit="who"))


def test_a_library_that_changes_under_the_workers_is_refused(records, dask_cluster, monkeypatch):
    from dpensemble import _same_code
    from dpensemble.clusters import cluster

    other = _same_code.versions() | {"the source of dpensemble": "0123456789abcdef"}
    with on_cluster("dask", dask_cluster[0]):
        pass
    monkeypatch.setattr(cluster, "versions", lambda: other)
    refused = pytest.raises(InvalidParameterError, match="a worker with other source files of dpensemble")
    with refused, on_cluster("dask", dask_cluster[0]):
        pass


def test_the_command_line_releases_the_score_of_one_process(records, spark, dask_cluster, tmp_path, capsys):
    """Held-back units of files, on both engines: labels, score and guarantee are the same to the last bit."""
    records.public.to_parquet(tmp_path / "public.parquet", index=False)

    def trained(*more):
        tables = ["--private", str(records.folder), "--public", str(tmp_path / "public.parquet"), "--unit", "who"]
        settings = "--target y --classes 0,1 --delta 1e-4 --epsilon 4 --seed 1 --insecure-release-seed 5"
        given = [*tables, *settings.split(), "--holdout-score", "0.3", "--groups", "b=x|y", "--overwrite", *more]
        assert main(["train", "label-moments", *given, "--out", str(tmp_path / "run"), "--json", "--quiet"]) == 0
        record = json.loads(capsys.readouterr().out)
        return (tmp_path / "run" / "labels.csv").read_bytes(), record["data"]["released_score"], record["guarantee"]

    expected = trained()
    assert trained("--cluster", "spark") == expected
    assert trained("--cluster", "dask", "--scheduler", dask_cluster[0]) == expected
    assert expected[1]["units"] > 100


# Times until an event.


@pytest.fixture(scope="session")
def times(records, tmp_path_factory):
    """Return a folder of records with times, in which a person's records are in several parts."""
    folder, rng = tmp_path_factory.mktemp("times"), np.random.default_rng(1)
    for place in range(4):
        part = pd.read_parquet(records.folder / f"{place}.parquet").drop(columns="y")
        part["days"], part["status"] = rng.integers(0, 10, len(part)).astype(float), rng.integers(0, 4, len(part))
        part.loc[::13, "days"] = np.nan
        part.to_parquet(folder / f"{place}.parquet", index=False)
    return folder


def released_times(records, parts):
    """Return what a life table and risks release of records in parts. Status 3 makes a bad record."""
    settings = {"competing": [2], "delta": 1e-4, "insecure_release_seed": 5}
    table = LifeTable([2, 4, 8], strata={"b": ["x", "y"]}, **settings).fit_blocks(parts)
    risks = LabelMomentsSurvival([2, 4, 8], epsilon=3.0, **settings).fit_blocks(parts, X_public=records.public)
    return table.life_table_.noisy.tolist(), risks.predict_risk(records.public, [2, 4, 8]).tolist()


TIMES = ("status", "days")


@pytest.mark.filterwarnings("ignore:public rows do not look:UserWarning")
def test_dask_releases_the_times_of_one_process(records, times, dask_cluster):
    address, place = dask_cluster
    expected = released_times(records, ParquetParts(times, TIMES, unit="who"))
    with on_cluster("dask", address):
        assert released_times(records, ParquetParts(times, TIMES, unit="who")) == expected
        frame = pytest.importorskip("dask.dataframe").read_parquet(str(times))
        assert released_times(records, DaskParts(frame, TIMES, unit="who")) == expected
    assert records.left_in(place) == []


@pytest.mark.filterwarnings("ignore:public rows do not look:UserWarning")
def test_spark_releases_the_times_of_one_process(records, times, spark):
    expected = released_times(records, ParquetParts(times, TIMES, unit="who"))
    assert released_times(records, ParquetOnSpark(spark, times, TIMES, unit="who")) == expected
    frame = spark.read.parquet(str(times))
    assert released_times(records, SparkParts(frame, TIMES, unit="who")) == expected
    # Rows of a person come in another order and in other parts.
    assert released_times(records, SparkParts(frame.repartition(3, "days"), TIMES, unit="who")) == expected
    assert records.left_in(spark.place) == []
    dated = frame.selectExpr("status", "who", "b", "date '2026-01-01' as days")
    with pytest.raises(DataError, match="column 'days' of the DataFrame holds dates or durations"):
        SparkParts(dated, TIMES)


@pytest.mark.parametrize("command", ["lifetable --strata b=x,y", "train"])
def test_the_command_line_releases_the_times_of_one_process(
    records, times, spark, dask_cluster, tmp_path, capsys, command
):
    name, *more = command.split()
    if name == "train":
        records.public.to_parquet(tmp_path / "public.parquet", index=False)
        more += ["--public", str(tmp_path / "public.parquet")]
    settings = "--time days --event status=1 --bins 2,4,8 --competing 2 --delta 1e-4 --insecure-release-seed 5 --quiet"

    def released(*where):
        given = ["--private", str(times), "--unit", "who", *more, *settings.split(), "--overwrite", *where]
        assert main([name, *given, "--out", str(tmp_path / "run"), "--json"]) == 0, capsys.readouterr().err
        file = "labels.csv" if name == "train" else "life-table.csv"
        return (tmp_path / "run" / file).read_bytes(), json.loads(capsys.readouterr().out)["guarantee"]

    expected = released()
    assert released("--cluster", "spark") == expected
    assert released("--cluster", "dask", "--scheduler", dask_cluster[0]) == expected
