"""Where ``train`` fits teachers and sums up records: in this process, in other processes, or on a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from dpensemble.clusters import on_cluster
from dpensemble.datasets.arrow_sources import ArrowSource, names_source, opened_source
from dpensemble.datasets.partitions import spark_session
from dpensemble.errors import InvalidParameterError
from dpensemble.workflow.table_files import Workers


def opened_private(private: str | None) -> AbstractContextManager[ArrowSource | None]:
    """Return the context of a private table that is streamed from a database or an Arrow file, or an empty one."""
    return opened_source(private) if private is not None and names_source(private) else nullcontext()


@contextmanager
def opened_workers(
    private: Path | None,
    source: ArrowSource | None,
    jobs: int | None = None,
    cluster: str | None = None,
    scheduler: str | None = None,
) -> Iterator[Workers | None]:
    """Yield who sums up private records, or None if this process does. A session of Spark ends with the block."""
    if source is not None:
        if jobs is not None or cluster is not None:
            parameter = "cluster" if jobs is None else "jobs"
            raise InvalidParameterError(
                f"{parameter} cannot be used with a private table that this process streams: leave {parameter} out, or "
                "write the table as .parquet.",
                parameter=parameter,
            )
        yield Workers(source=source)
    elif cluster == "spark":
        with spark_session(scheduler) as session:
            yield Workers(1 if jobs is None else jobs, cluster, session)
    elif cluster is None and jobs is None:
        if private is not None:
            Workers().require_session(private)
        yield None
    else:
        yield Workers(1 if jobs is None else jobs, cluster)


def cluster_of(backend: str | None, cluster: str | None, scheduler: str | None) -> AbstractContextManager[None]:
    """Return the context of a Dask cluster for teachers (``--backend``) or sums (``--cluster``), or an empty one."""
    if cluster == "spark":
        return nullcontext()
    if backend is None and cluster is None and scheduler is None:
        return nullcontext()
    if cluster == "dask" and scheduler is None:
        raise InvalidParameterError(
            "--cluster dask requires the address of a scheduler: give --scheduler tls://HOST:PORT.",
            parameter="scheduler",
        )
    if scheduler is None or (backend is None and cluster is None):
        raise InvalidParameterError(
            "--backend and --scheduler belong together, as do --cluster and --scheduler: give both, or neither.",
            parameter="scheduler",
        )
    return on_cluster(str(backend or cluster), scheduler)
