"""The interface of a cluster, the cluster in use, and work on the parts of a table.

Parts are read one after the other, in processes of this machine, or on a cluster.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

from dpensemble._entries import Rows
from dpensemble._processes import private_workers
from dpensemble._progress import pass_bar
from dpensemble.clusters.vetting import require_unchanged
from dpensemble.errors import InvalidParameterError

_BACKENDS = ("dask",)


class Cluster(Protocol):
    """Workers that a scheduler reaches."""

    @property
    def n_workers(self) -> int:
        """Tasks that can run at the same time."""
        ...

    def results(self, work: Callable[..., Any], calls: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """Yield what `work` returns for each tuple of arguments, in order."""
        ...

    def close(self) -> None:
        """Leave the cluster as it was."""
        ...


_ACTIVE: ContextVar[Cluster | None] = ContextVar("where teachers are fitted", default=None)


def active_cluster() -> Cluster | None:
    """Return the cluster on which to fit teachers, or None for this machine."""
    return _ACTIVE.get()


@contextmanager
def on_cluster(backend: str, scheduler: str) -> Iterator[None]:
    """Fit the teachers of all estimators in the block, and let them vote, on a cluster that already runs.

    Teachers are the same as on one machine, for the same seeds. Noise is drawn here, and only here. A cluster is for
    teachers that are fitted one by one. Private rows go to the scheduler and to one worker each. Workers return the
    teachers, which are private, too. "More than one machine" in the documentation describes what must be switched off
    there.

    Parameters
    ----------
    backend : {"dask"}
        Engine. Needs ``dpensemble[dask]``.
    scheduler : str
        Address of the scheduler, such as ``"tls://10.0.0.5:8786"``. Private rows must not cross a network in the clear.
        So ``tcp://`` is refused unless the scheduler and all workers are on this host. Certificates come from Dask's
        own settings (``distributed.comm.tls``).

    Raises
    ------
    InvalidParameterError
        If the engine is not installed, no scheduler listens at the address, or a network is not encrypted. Also if
        workers have other versions of the libraries that fit teachers, or may write their memory to a disk.
    TeacherError
        In `fit`, if the scheduler or all workers are lost. Nothing more is spent then.

    Examples
    --------
    >>> with on_cluster("dask", "tcp://127.0.0.1:1"):  # doctest: +IGNORE_EXCEPTION_DETAIL
    ...     pass  # model.fit(X, y, X_public=rows)
    Traceback (most recent call last):
    InvalidParameterError: scheduler='tcp://127.0.0.1:1' does not answer.
    """
    if backend not in _BACKENDS:
        raise InvalidParameterError(f"backend={backend!r} is unknown: use 'dask'.", parameter="backend")
    from dpensemble.clusters.on_dask import DaskCluster  # noqa: PLC0415  an optional extra

    cluster = DaskCluster(scheduler)
    token = _ACTIVE.set(cluster)
    try:
        yield
    finally:
        _ACTIVE.reset(token)
        cluster.close()


def refuse_cluster(why: str) -> None:
    """Refuse a cluster for work that does not gain from it, or must not leave this machine."""
    if active_cluster() is not None:
        raise InvalidParameterError(f"backend does not help here: {why}; leave the backend out.", parameter="backend")


Report = TypeVar("Report")


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
