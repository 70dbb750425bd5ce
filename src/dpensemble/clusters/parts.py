"""Work on the parts of a table: one after the other, in processes of this machine, or on a cluster."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from dpensemble._arrays import Rows
from dpensemble._processes import private_workers
from dpensemble._progress import pass_bar
from dpensemble.clusters.base import active_cluster
from dpensemble.clusters.vetting import require_unchanged

Report = TypeVar("Report")


class Part(Protocol):
    """A part of a table that can be read where it is needed. It holds a place, and no rows."""

    def tables(self) -> Iterator[Rows]:
        """Yield the rows of the part in tables, the same at every call."""
        ...


def results_of(work: Callable[[Iterator[Rows]], Report], parts: Sequence[Part], n_jobs: int = 1) -> Iterator[Report]:
    """Yield what `work` returns for each part, on the cluster in use, else in `n_jobs` processes of this machine."""
    with pass_bar(len(parts), "parts") as advance:
        for result in _results_of(work, parts, n_jobs):
            advance(1)
            yield result


def _results_of(work: Callable[[Iterator[Rows]], Report], parts: Sequence[Part], n_jobs: int) -> Iterator[Report]:
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


def _on_part(work: Callable[[Iterator[Rows]], Report], part: Part) -> Report:
    return work(part.tables())
