"""Private records on Spark in parts, by `mapInArrow`: one job a round, and one row back a partition.

The plan has no shuffle and no cache, and results come back by `collect`. So a task that is repeated, or runs twice in a
race, counts once: Spark returns one result a partition, and a second one is refused.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import copy_context
from copy import copy
from functools import partial
from pathlib import Path
from threading import Event, Thread

import numpy as np
from numpy.typing import NDArray

from dpensemble._arrays import Rows
from dpensemble._identity import require_id_type
from dpensemble._progress import bars_are_shown, pass_bar
from dpensemble.clusters.base import Report
from dpensemble.clusters.spark_settings import require_encryption
from dpensemble.clusters.vetting import other_versions, require_unchanged, versions
from dpensemble.datasets.parquet_columns import exact_frame
from dpensemble.datasets.parts import ParquetParts, RowGroups
from dpensemble.errors import DataError

_SECONDS = 0.5


@contextmanager
def partitions_shown(frame: Rows) -> Iterator[None]:
    """Show how many partitions the jobs of the block have done. Spark Connect does not report it."""
    over, watch = Event(), None
    if bars_are_shown():
        with suppress(Exception):
            # A session of Spark Connect has no context.
            tracker = frame.sparkSession.sparkContext.statusTracker()
            # The job blocks this thread.
            watch = Thread(target=copy_context().run, args=(_watch, tracker, over), daemon=True)
            watch.start()
    try:
        yield
    finally:
        over.set()
        if watch is not None:
            watch.join()


def _watch(tracker: Rows, over: Event) -> None:
    with suppress(Exception):
        while not over.wait(_SECONDS):
            stages = sorted(tracker.getActiveStageIds())
            if stages:
                # Earlier stages are shuffles of the plan itself.
                _follow(tracker, stages[-1], over)


def _follow(tracker: Rows, stage: int, over: Event) -> None:
    about, n_done = tracker.getStageInfo(stage), 0
    with pass_bar(about.numTasks, "parts") as advance:
        while stage in tracker.getActiveStageIds():
            about = tracker.getStageInfo(stage)
            advance(about.numCompletedTasks - n_done)
            n_done = about.numCompletedTasks
            if over.wait(_SECONDS):
                break
        about = tracker.getStageInfo(stage)
        advance(about.numCompletedTasks - n_done)


class SparkParts:
    """Private records of a Spark DataFrame in parts, for `LabelMomentsClassifier.fit_blocks`.

    Executors sum up their partitions. Charge, noise and fit stay in this process. The plan of the DataFrame must return
    the same rows every time. If a `limit` without an order or a random column returns other rows, the run is refused.
    Needs ``dpensemble[spark]`` here, and the same source files of this library on every worker. Sums without noise are
    in the results of jobs only. Spark's own logs and pages show exact numbers of rows, and are private.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        Private. With the public columns, `target` and `unit`.
    target : str
        Column of the labels.
    unit : str, optional
        Column that identifies whose record it is. Records with the same entry are one unit.
    columns : sequence of str, optional
        Columns to read besides these two. By default, all.

    Raises
    ------
    InvalidParameterError
        If the cluster is not on this machine (``local``), and does not encrypt its network and its disks. Also if it is
        on this machine, a unit is named, and Spark does not encrypt its disks. Settings with which Spark started count,
        not those of a session. A server of Spark Connect on another machine must be reached with ``;use_ssl=true``.
    """

    def __init__(self, frame: Rows, target: str, *, unit: str | None = None, columns: tuple[str, ...] = ()) -> None:
        for parameter, name in (("target", target), ("unit", unit)):
            if name is not None and name not in frame.columns:
                raise DataError(f"{parameter}={name!r} is not a column of the DataFrame: name one of its columns.")
        if unit is not None:
            require_id_type(f"unit={unit!r}", dict(frame.dtypes)[unit])
        require_encryption(frame.sparkSession, has_units=unit is not None)
        others = [name for name in (columns or frame.columns) if name not in (target, unit)]
        self.target, self.unit = target, unit
        self._frame = frame.select(*[_quoted(name) for name in (*others, target, *(() if unit is None else (unit,)))])

    def results(self, work: Callable[[Iterator[Rows]], Report]) -> Iterator[Report]:
        """Yield what `work` returns for the rows of each partition, once a partition."""
        return _results(self._frame, partial(_on_rows, work))


class ParquetOnSpark:
    """Private records of a Parquet file or folder in parts, which Spark's executors read by pyarrow.

    This takes less time than `SparkParts`, because Java neither reads nor passes on rows. Both this process and the
    executors must see the files under the same path, as on a shared disk. `SparkParts` states what is private.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        Classic or Connect.
    path, target, unit, columns
        As for `dpensemble.datasets.parts.ParquetParts`.

    Raises
    ------
    InvalidParameterError
        As for `SparkParts`.
    """

    fixed_places = True

    def __init__(
        self, session: Rows, path: Path | str, target: str, *, unit: str | None = None, columns: tuple[str, ...] = ()
    ) -> None:
        self._files = ParquetParts(path, target, unit=unit, columns=columns)
        require_encryption(session, has_units=unit is not None)
        self.target, self.unit, self._session = target, unit, session

    def results(self, work: Callable[[Iterator[Rows]], Report]) -> Iterator[Report]:
        """Yield what `work` returns for the tables of each part, once a part."""
        # A partition of the range holds one number: the place of a part.
        parts = self._files.parts
        places = self._session.range(0, len(parts), 1, len(parts))
        reports = list(_results(places, partial(_on_part, work, parts)))
        if len(reports) != len(parts):
            raise DataError("Spark lost a part of the private records, so nothing more was released.")
        yield from reports

    def without(self, held: NDArray[np.bool_]) -> ParquetOnSpark:
        """Return the same table without the rows at some places. `held` has an entry for each row, in order."""
        rest = copy(self)
        rest._files = self._files.without(held)
        return rest


def _on_rows(work: Callable[[Iterator[Rows]], Report], batches: Iterator[Rows]) -> Report:
    return work(exact_frame(batch) for batch in batches)


def _on_part(work: Callable[[Iterator[Rows]], Report], parts: Sequence[RowGroups], batches: Iterator[Rows]) -> Report:
    (place,) = (place for batch in batches for place in batch.column(0).to_pylist())
    return work(parts[place].tables())


def _results(frame: Rows, work: Callable[[Iterator[Rows]], Report]) -> Iterator[Report]:
    """Yield what `work` returns for the batches of each partition of a DataFrame, once a partition."""
    from pyspark import cloudpickle  # noqa: PLC0415  an optional extra

    require_unchanged("cluster")
    task = _task(cloudpickle.dumps(work), versions())
    try:
        with partitions_shown(frame):
            rows = frame.mapInArrow(task, "part int, difference string, report binary").collect()
    except Exception as error:
        kind = type(error).__name__
    else:
        yield from _reports(rows)
        return
    # Raised outside the handler, because the text of the error may quote rows.
    raise DataError(
        f"a job of Spark failed ({kind}), so nothing more was released: see the logs of Spark, and install "
        "dpensemble and its libraries for every worker, whose Python PYSPARK_PYTHON names."
    )


def _reports(rows: Rows) -> Iterator[Report]:
    """Yield the reports in the rows of a job. Raise if a part comes twice, or a worker has other versions."""
    parts = [row["part"] for row in rows]
    if len(set(parts)) < len(parts):
        raise DataError("Spark returned a part of the private records twice, so nothing more was released.")
    for row in rows:
        if row["difference"]:
            raise DataError(
                f"Spark has a worker with {row['difference']}, so that sums could differ: install the same version "
                "there, and start Spark again."
            )
    # Written by this library on workers that hold the private rows already.
    yield from (pickle.loads(bytes(row["report"])) for row in rows)  # noqa: S301


def _task(payload: bytes, wanted: dict[str, str]) -> Callable[[Iterator[Rows]], Iterator[Rows]]:
    """Return the function that a worker calls with the batches of a partition."""

    def task(batches: Iterator[Rows]) -> Iterator[Rows]:
        import pyarrow as pa  # noqa: PLC0415  takes long to import
        from pyspark import TaskContext  # noqa: PLC0415  an optional extra

        context = TaskContext.get()
        part = -1 if context is None else context.partitionId()
        difference, report = other_versions(wanted), None
        if not difference:
            # Written by the driver. The work returns the code of a problem, and raises nothing that quotes a row.
            report = pickle.dumps(pickle.loads(payload)(batches))  # noqa: S301
        columns = [pa.array([part], pa.int32()), pa.array([difference]), pa.array([report], pa.binary())]
        yield pa.RecordBatch.from_arrays(columns, names=["part", "difference", "report"])

    return task


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
