"""A Dask cluster, by Dask's own tasks, since joblib's Dask backend waits for ever if a task ends its worker."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from contextlib import suppress
from typing import Any

from dpensemble._same_code import require_unchanged, versions
from dpensemble.clusters.vetting import OpaqueTask, check_worker, probe_scheduler, require_encrypted
from dpensemble.errors import InvalidParameterError, TeacherError

_CONNECT_SECONDS = 10
# Settings of Dask for tls:// addresses.
_CERTIFICATES = ("ca-file", "client.cert", "client.key")
# How long a cluster may be without any worker, since killed workers come back.
_PATIENCE_SECONDS = 30.0
_LOOK_SECONDS = 0.5
# Tasks in progress for each worker. Their rows are in the scheduler's memory.
_TASKS_A_WORKER = 2
_CANCELLED = (futures.CancelledError, asyncio.CancelledError)


class DaskCluster:
    """Workers of a Dask scheduler that already runs, at ``tcp://HOST:PORT`` or ``tls://HOST:PORT``."""

    def __init__(self, scheduler: str) -> None:
        try:
            import dask  # noqa: PLC0415  an optional extra
            from distributed import Client  # noqa: PLC0415  an optional extra
        except ImportError:
            raise InvalidParameterError(
                'backend="dask" needs Dask, which is not installed: run pip install "dpensemble[dask]".',
                parameter="backend",
            ) from None
        if "://" in scheduler:
            require_encrypted(scheduler, ())
        tls = [dask.config.get(f"distributed.comm.tls.{name}", None) for name in _CERTIFICATES]
        if scheduler.startswith("tls:") and None in tls:
            raise InvalidParameterError(
                f"scheduler={scheduler!r} requires a certificate of this client: set distributed.comm.tls "
                f"({', '.join(_CERTIFICATES)}) in the settings of Dask.",
                parameter="scheduler",
            )
        probe_scheduler(scheduler, speaks=scheduler.startswith("tcp:"))
        self._scheduler = scheduler
        # A task is meant to carry rows here.
        self._settings = dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"})
        try:
            self._client = Client(scheduler, timeout=_CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, ImportError):
            raise InvalidParameterError(
                f"scheduler={scheduler!r} must be a Dask scheduler of a version that this one supports: check the "
                "address and that Dask is of the same version there.",
                parameter="scheduler",
            ) from None
        try:
            if not self.n_workers:
                raise InvalidParameterError(
                    f"scheduler={scheduler!r} must have at least one worker: start some.", parameter="scheduler"
                )
            self._vet()
        except (OSError, *_CANCELLED):
            self.close()
            raise TeacherError(self._lost("the scheduler was lost")) from None
        except BaseException:
            self.close()
            raise

    @property
    def n_workers(self) -> int:
        """Tasks that can run at the same time."""
        return sum(self._client.nthreads().values())

    def _vet(self) -> None:
        """Refuse workers with other versions, that may write to disks, or that are reached without encryption."""
        require_encrypted(self._scheduler, self._client.nthreads())
        require_unchanged("scheduler")
        self._wanted = versions()
        where = "the scheduler"
        try:
            # The scheduler loads tasks, though not what is in them.
            self._client.run_on_scheduler(repr, OpaqueTask(b"", {}))
            where = "the workers"
            self._client.run(check_worker, self._wanted)
        except InvalidParameterError:
            raise
        except Exception as error:
            raise InvalidParameterError(
                f"{where} of scheduler={self._scheduler!r} cannot load dpensemble {self._wanted['dpensemble']} "
                f"({type(error).__name__}): install the same version there.",
                parameter="scheduler",
            ) from None

    def results(self, work: Callable[..., Any], calls: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """Yield what `work` returns for each tuple of arguments, in order, with a few tasks per worker in progress."""
        from distributed.protocol.pickle import dumps  # noqa: PLC0415  an optional extra

        waiting, under_way = iter(calls), deque[Any]()
        try:
            while True:
                room = _TASKS_A_WORKER * max(1, self.n_workers) - len(under_way)
                # A worker may have joined since.
                require_encrypted(self._scheduler, self._client.nthreads())
                for call in _first(waiting, room):
                    under_way.append(self._client.submit(OpaqueTask(dumps((work, call)), self._wanted), pure=False))
                if not under_way:
                    return
                yield self._result(under_way.popleft())
        except (TeacherError, InvalidParameterError, GeneratorExit):
            raise
        except (OSError, *_CANCELLED):
            raise TeacherError(self._lost("the scheduler was lost")) from None
        except Exception as error:
            # The error's own text may quote rows.
            raise TeacherError(self._lost(f"a task raised {type(error).__name__}")) from None
        finally:
            with suppress(Exception):
                self._client.cancel(list(under_way))

    def _result(self, future: Any) -> Any:
        """Return a task's result, as long as a worker is left to compute it."""
        alone_since: float | None = None
        while True:
            try:
                return future.result(timeout=_LOOK_SECONDS)
            except TimeoutError:
                if self._client.status != "running":
                    raise TeacherError(self._lost("the scheduler was lost")) from None
            workers = self.n_workers
            alone_since = None if workers else alone_since or time.monotonic()
            if alone_since is not None and time.monotonic() - alone_since > _PATIENCE_SECONDS:
                raise TeacherError(self._lost(f"it was without a worker for {_PATIENCE_SECONDS:g} seconds"))

    def _lost(self, what: str) -> str:
        return f"the work on the cluster of scheduler={self._scheduler!r} was not finished: {what}; see its logs."

    def close(self) -> None:
        """Leave the cluster. Workers forget their tasks."""
        with suppress(Exception):
            self._client.close(timeout=2)
        self._settings.__exit__(None, None, None)


def _first(calls: Iterator[Any], number: int) -> Iterator[Any]:
    for _, call in zip(range(number), calls, strict=False):
        yield call
