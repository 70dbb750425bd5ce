"""Private tables in parts that processes, Dask or Spark read where the parts are.

Spark gets its parts by `mapInArrow`: one job a round, and one row back a partition. The plan has no shuffle and no
cache, and results come back by `collect`. So a task that is repeated, or runs twice in a race, counts once: Spark
returns one result a partition, and a second one is refused. Spark must have started with settings that encrypt what
its tasks exchange.
"""

from __future__ import annotations

import os
import pickle
import shutil
import sys
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import copy_context
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Protocol, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble._checks import number_of_workers
from dpensemble._entries import Integers, Rows
from dpensemble._hide_private_rows import guarded_rows
from dpensemble._same_code import other_versions, require_unchanged, versions
from dpensemble._units import require_id_type
from dpensemble._work import bars_are_shown, pass_bar, private_workers
from dpensemble.clusters.cluster import active_cluster, is_here
from dpensemble.datasets.arrow import (
    ROWS_AT_ONCE,
    Columns,
    ParquetTable,
    names_in,
    require_columns,
    rows_without,
)
from dpensemble.datasets.frames import exact_frame
from dpensemble.errors import DataError, FileError, InvalidParameterError

Report = TypeVar("Report")


# Smaller row groups are read as one part.
_ROWS_OF_A_PART = 2**17


@dataclass(frozen=True, eq=False, repr=False)
class RowGroups:
    """Some row groups of a Parquet file. `held` has the places of rows to leave out, counted within the part."""

    path: Path
    groups: tuple[int, ...]
    columns: tuple[str, ...]
    n_bytes: int
    n_rows: int
    held: Integers | None = None

    def tables(self) -> Iterator[pd.DataFrame]:
        """Return the rows in tables. Raise if the file has another size than before."""
        if self.held is None:
            return self._tables()
        held = np.zeros(self.n_rows, dtype=bool)
        held[self.held] = True
        return rows_without(self._tables(), held)

    @guarded_rows
    def _tables(self) -> Iterator[pd.DataFrame]:
        from pyarrow.parquet import ParquetFile  # noqa: PLC0415  takes long to import

        with ParquetFile(self.path) as file:
            for batch in file.iter_batches(
                batch_size=ROWS_AT_ONCE, row_groups=list(self.groups), columns=list(self.columns), use_threads=False
            ):
                yield exact_frame(batch)[list(self.columns)]
        if self.path.stat().st_size != self.n_bytes:
            raise FileError("a part of the private table was changed while it was read.")


class ParquetParts:
    """Private records of a Parquet file or folder in parts, for `LabelMomentsClassifier.fit_blocks`.

    Parts are row groups. They are read by `n_jobs` processes of this machine or, within `dpensemble.on_cluster`, by the
    workers of a cluster, which must see the files under the same path.

    Parameters
    ----------
    path : path
        As for `dpensemble.datasets.read_table`. Private.
    target : str or sequence of str
        Column of the labels, or columns that are read together: the event, and then its time.
    unit : str, optional
        Column that identifies whose record it is. A unit's records may be in any parts.
    columns : sequence of str, optional
        Columns to read besides these two. By default, all.
    n_jobs : int, default=1
        Number of processes. -1 takes all cores.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> pd.DataFrame({"size": [1.0, 2.0], "y": [0, 1]}).to_parquet(folder / "1.parquet")
    >>> pd.DataFrame({"size": [3.0], "y": [1]}).to_parquet(folder / "2.parquet")
    >>> parts = ParquetParts(folder, "y")
    >>> list(parts.results(lambda tables: sum(len(table) for table in tables)))
    [2, 1]
    """

    #: Files keep their order. `RowSource` describes what a source states.
    fixed_places = True

    def __init__(
        self,
        path: Path | str,
        target: Columns,
        *,
        unit: str | None = None,
        columns: tuple[str, ...] | None = None,
        n_jobs: int = 1,
    ) -> None:
        table = ParquetTable(path)
        self.target, self.unit, self.n_jobs = target, unit, number_of_workers("n_jobs", n_jobs)
        table.require_columns(target, unit)
        if unit is not None:
            table.require_unit(unit)
        others = [name for name in _those(columns, table.columns) if name not in (*names_in(target), unit)]
        named = (*others, *names_in(target), *(() if unit is None else (unit,)))
        self.parts = [part for file in table.files for part in _parts_of(file.absolute(), named)]
        self.n_rows = table.n_rows

    def results(self, work: Callable[[Iterator[Rows]], Report]) -> Iterator[Report]:
        """Yield what `work` returns for the tables of each part, once a part."""
        return results_of(work, self.parts, self.n_jobs)

    def without(self, held: NDArray[np.bool_]) -> ParquetParts:
        """Return the same table without the rows at some places. `held` has an entry for each row, in order."""
        ends = np.cumsum([part.n_rows for part in self.parts])
        if len(held) != ends[-1]:
            raise DataError(f"held has {len(held):,} entries for {ends[-1]:,} rows: give one entry for each row.")
        marks = np.split(held, ends[:-1])
        rest = copy(self)
        rest.parts = [replace(part, held=np.flatnonzero(own)) for part, own in zip(self.parts, marks, strict=True)]
        return rest


def _those(columns: Sequence[str] | None, of_table: Sequence[str]) -> Sequence[str]:
    return of_table if columns is None else columns


def _parts_of(path: Path, columns: tuple[str, ...]) -> Iterator[RowGroups]:
    from pyarrow.parquet import ParquetFile  # noqa: PLC0415  takes long to import

    with ParquetFile(path) as file:
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
    n_bytes, groups, rows = path.stat().st_size, [], 0
    for group, size in enumerate(sizes):
        groups.append(group)
        rows += size
        if rows >= _ROWS_OF_A_PART or group == len(sizes) - 1:
            yield RowGroups(path, tuple(groups), columns, n_bytes, rows)
            groups, rows = [], 0


@dataclass(frozen=True, eq=False, repr=False)
class _Partition:
    """A partition of a Dask collection, which is computed where it is read."""

    frame: Rows

    @guarded_rows
    def tables(self) -> Iterator[pd.DataFrame]:
        # In this thread, because a worker that waits for other tasks could wait for itself.
        yield self.frame.compute(scheduler="synchronous")


class DaskParts:
    """Private records of a `dask.dataframe` in parts, for `LabelMomentsClassifier.fit_blocks`.

    Each partition is computed by the task that sums it up. So a frame should be read from files and changed row by row.
    A frame that joins or sorts computes its inputs again for every partition.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
        Private.
    target, unit
        As for `ParquetParts`.
    """

    def __init__(self, frame: Rows, target: Columns, *, unit: str | None = None) -> None:
        require_columns("the frame", dict(frame.dtypes), target, unit)
        if unit is not None:
            # The declared type. A partition of another type is refused when it is read.
            require_id_type(f"unit={unit!r}", frame.dtypes[unit])
        self.target, self.unit = target, unit
        self.parts = [_Partition(frame.partitions[place]) for place in range(frame.npartitions)]

    def results(self, work: Callable[[Iterator[Rows]], Report]) -> Iterator[Report]:
        """Yield what `work` returns for the table of each partition, once a partition."""
        return results_of(work, self.parts)


# What must be on, so that no private row crosses a network or reaches a disk in the clear.
_OF_DISKS = "spark.io.encryption.enabled"
_ENCRYPTION = ("spark.authenticate", "spark.network.crypto.enabled", _OF_DISKS)
_MASTER = "spark.master"


def _require_encryption(session: Rows, *, has_units: bool) -> None:
    """Raise if private rows, or what identifies units, could cross a network or reach a disk in the clear."""
    settings = _settings(session)
    master = settings[_MASTER]
    names: tuple[str, ...] = _ENCRYPTION
    if master == "local" or master.startswith("local["):
        # Spark writes tasks of more than a megabyte to a file, and tasks hold hashes of units and their key.
        names = (_OF_DISKS,) if has_units else ()
    for name in names:
        if settings[name].lower() != "true":
            raise InvalidParameterError(
                f"{name} must be true, or private rows or units could be read on a network or a disk: set it where "
                "Spark starts, and start Spark again.",
                parameter="frame",
            )


def _settings(session: Rows) -> dict[str, str]:
    """Return the settings with which Spark started. Those of a session may be changed later, without any effect."""
    try:
        settings = session.sparkContext.getConf()
    except AttributeError:
        return _settings_of_server(session)
    return _named(settings)


def _named(settings: Rows) -> dict[str, str]:
    return {name: str(settings.get(name, "")) for name in (_MASTER, *_ENCRYPTION)}


def _settings_of_server(session: Rows) -> dict[str, str]:
    """Return the settings of a server of Spark Connect, which a new session has before a client changes any."""
    try:
        client = session.client
        host, builder = client.host, client._builder
        encrypted = builder.getDefault("use_ssl", "").lower() == "true"
    except Exception:
        raise InvalidParameterError(
            "frame must be of a session of Spark that shows its address and whether its channel is encrypted: open "
            "the session by SparkSession.builder.remote('sc://HOST:15002/;use_ssl=true').",
            parameter="frame",
        ) from None
    if not (encrypted or is_here(f"sc://{host}")):
        raise InvalidParameterError(
            f"frame is of Spark Connect at {host!r}, and sums without noise would cross a network in the clear: open "
            "the session with sc://HOST:15002/;use_ssl=true.",
            parameter="frame",
        )
    try:
        fresh = type(session)(connection=builder)
        # An address may name a session, which can have settings of its own.
        fresh.client._session_id = str(uuid.uuid4())
        settings = _named(fresh.conf)
    except Exception as error:
        kind = type(error).__name__
    else:
        with suppress(Exception):
            fresh.client.release_session()
            fresh.client.close()
        return settings
    raise InvalidParameterError(
        f"the settings of the server of Spark Connect at {host!r} could not be read ({kind}): check that the server "
        "runs, and that its version is that of pyspark here.",
        parameter="frame",
    )


_CONNECT = "sc://"


@contextmanager
def spark_session(address: str | None = None) -> Iterator[Rows]:
    """Yield a session of Spark, and stop it after the block. A session that runs already is used and kept.

    Parameters
    ----------
    address : str, optional
        A master such as ``"local[4]"`` or ``"spark://HOST:7077"``, or a server of Spark Connect (``"sc://HOST"``). By
        default what ``spark-submit`` or Spark's own settings name, else this machine.

    Raises
    ------
    InvalidParameterError
        If pyspark or Java is missing, or Spark does not start. Also if an address of Spark Connect holds a token, or if
        its server is on another machine and the address does not ask for encryption.
    """
    connects = address is not None and address.startswith(_CONNECT)
    if address is not None and connects:
        _require_safe(address)
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415  an optional extra
    except ImportError:
        raise InvalidParameterError(
            "cluster='spark' needs pyspark, which is not installed: install dpensemble[spark].", parameter="cluster"
        ) from None
    if not (connects or os.environ.get("JAVA_HOME") or shutil.which("java")):
        raise InvalidParameterError(
            "cluster='spark' needs Java, which is not on this machine: install Java 17 (Debian: "
            "default-jre-headless), or set JAVA_HOME.",
            parameter="cluster",
        )
    # Workers on this machine need the environment of this process.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    runs_already = SparkSession.getActiveSession() is not None
    builder = SparkSession.builder.appName("dpensemble")
    if address is not None:
        builder = builder.remote(address) if connects else builder.master(address)
    if not (connects or runs_already):
        # Spark writes large tasks to files, also on this machine.
        builder = builder.config("spark.io.encryption.enabled", "true")
    try:
        session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    except Exception as error:
        kind = type(error).__name__
    else:
        try:
            yield session
        finally:
            if not runs_already:
                session.stop()
        return
    raise InvalidParameterError(
        f"scheduler={address!r} did not start a session of Spark ({kind}): check the address, Java and Spark's logs.",
        parameter="scheduler",
    )


def _require_safe(address: str) -> None:
    """Raise if others could read a token, or sums without noise on their way from a server of Spark Connect to here."""
    settings = address.lower().split(";")
    if any(one.strip().startswith("token") for one in settings):
        raise InvalidParameterError(
            "scheduler must not hold a token, because other users can see it in the list of processes: leave it out, "
            "and set SPARK_CONNECT_AUTHENTICATE_TOKEN.",
            parameter="scheduler",
        )
    if not ("use_ssl=true" in settings or is_here(address)):
        raise InvalidParameterError(
            f"scheduler={address!r} would send sums without noise over a network in the clear: write "
            "sc://HOST:15002/;use_ssl=true.",
            parameter="scheduler",
        )


_SECONDS = 0.5


@contextmanager
def _partitions_shown(frame: Rows) -> Iterator[None]:
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
    target : str or sequence of str
        Column of the labels, or columns that are read together: the event, and then its time.
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

    def __init__(
        self, frame: Rows, target: Columns, *, unit: str | None = None, columns: tuple[str, ...] | None = None
    ) -> None:
        require_columns("the DataFrame", dict(frame.dtypes), target, unit)
        if unit is not None:
            require_id_type(f"unit={unit!r}", dict(frame.dtypes)[unit])
        _require_encryption(frame.sparkSession, has_units=unit is not None)
        others = [name for name in _those(columns, frame.columns) if name not in (*names_in(target), unit)]
        self.target, self.unit = target, unit
        self._frame = frame.select(
            *[_quoted(name) for name in (*others, *names_in(target), *(() if unit is None else (unit,)))]
        )

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
        As for `dpensemble.datasets.partitions.ParquetParts`.

    Raises
    ------
    InvalidParameterError
        As for `SparkParts`.
    """

    fixed_places = True

    def __init__(
        self,
        session: Rows,
        path: Path | str,
        target: Columns,
        *,
        unit: str | None = None,
        columns: tuple[str, ...] | None = None,
    ) -> None:
        self._files = ParquetParts(path, target, unit=unit, columns=columns)
        _require_encryption(session, has_units=unit is not None)
        self.target, self.unit, self._session = target, unit, session

    def results(self, work: Callable[[Iterator[Rows]], Report]) -> Iterator[Report]:
        """Yield what `work` returns for the tables of each part, once a part."""
        # A partition of the range holds one number: the place of a part.
        parts = self._files.parts
        places = self._session.range(0, len(parts), 1, len(parts))
        reports = list(_results(places, partial(_on_numbered_part, work, parts)))
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


def _on_numbered_part(
    work: Callable[[Iterator[Rows]], Report], parts: Sequence[RowGroups], batches: Iterator[Rows]
) -> Report:
    (place,) = (place for batch in batches for place in batch.column(0).to_pylist())
    return work(parts[place].tables())


def _results(frame: Rows, work: Callable[[Iterator[Rows]], Report]) -> Iterator[Report]:
    """Yield what `work` returns for the batches of each partition of a DataFrame, once a partition."""
    from pyspark import cloudpickle  # noqa: PLC0415  an optional extra

    require_unchanged("cluster")
    task = _task(cloudpickle.dumps(work), versions())
    try:
        with _partitions_shown(frame):
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


class _Part(Protocol):
    """A part of a table that can be read where it is needed. It holds a place, and no rows."""

    def tables(self) -> Iterator[Rows]:
        """Yield the rows of the part in tables, the same at every call."""
        ...


def results_of(work: Callable[[Iterator[Rows]], Report], parts: Sequence[_Part], n_jobs: int = 1) -> Iterator[Report]:
    """Yield what `work` returns for each part, on the cluster in use, else in `n_jobs` processes of this machine."""
    with pass_bar(len(parts), "parts") as advance:
        for result in _results_of(work, parts, n_jobs):
            advance(1)
            yield result


def _results_of(work: Callable[[Iterator[Rows]], Report], parts: Sequence[_Part], n_jobs: int) -> Iterator[Report]:
    cluster = active_cluster()
    if cluster is not None:
        yield from cluster.results(_on_part, ((work, part) for part in parts))
    elif n_jobs == 1:
        yield from (work(part.tables()) for part in parts)
    else:
        from joblib import Parallel, delayed  # noqa: PLC0415  takes long to import

        require_unchanged("n_jobs")
        parallel = Parallel(n_jobs=n_jobs, return_as="generator", **private_workers())
        reports = parallel(delayed(_on_part)(work, part) for part in parts)
        try:
            # "yield from" would end joblib's generator before the block below.
            for report in reports:  # noqa: UP028
                yield report
        finally:
            # If a run is interrupted, joblib warns of as many tasks as are under way in that moment.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                reports.close()


def _on_part(work: Callable[[Iterator[Rows]], Report], part: _Part) -> Report:
    return work(part.tables())
