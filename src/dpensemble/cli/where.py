"""Where ``train`` fits teachers and sums up records: in this process, in other processes, or on a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from dpensemble.clusters import on_cluster
from dpensemble.datasets.spark_session import spark_session
from dpensemble.errors import InvalidParameterError
from dpensemble.workflow.workers import Workers


@contextmanager
def opened_workers(own: Mapping[str, Any]) -> Iterator[Workers | None]:
    """Yield who sums up private records, or None if this process does. A session of Spark ends with the block."""
    jobs, cluster = own.get("jobs"), own.get("cluster")
    if cluster == "spark":
        with spark_session(own.get("scheduler")) as session:
            yield Workers(1 if jobs is None else jobs, cluster, session)
    elif cluster is None and jobs is None:
        if own["private"] is not None:
            Workers().require_session(own["private"])
        yield None
    else:
        yield Workers(1 if jobs is None else jobs, cluster)


def cluster_of(own: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Return the context of a Dask cluster for teachers (``--backend``) or sums (``--cluster``), or an empty one."""
    backend, cluster, scheduler = own.get("backend"), own.get("cluster"), own.get("scheduler")
    if cluster == "spark":
        return nullcontext()
    if backend is None and cluster is None and scheduler is None:
        return nullcontext()
    if cluster == "dask" and scheduler is None:
        raise InvalidParameterError(
            "--cluster dask requires the address of a scheduler; give --scheduler tls://HOST:PORT.",
            parameter="scheduler",
        )
    if scheduler is not None and backend is None and cluster is None:
        which = "--cluster" if "cluster" in own else "--backend"
        raise InvalidParameterError(f"{which} and --scheduler belong together; give both, or neither.")
    if scheduler is None:
        raise InvalidParameterError("--backend and --scheduler belong together; give both, or neither.")
    return on_cluster(str(backend or cluster), scheduler)
