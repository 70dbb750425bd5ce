"""The cluster in use, and clusters of Dask, whose scheduler and workers are checked before anything runs there.

A task is one of Dask's own, since joblib's Dask backend waits for ever if a task ends its worker. Tasks stay out of
logs.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from ipaddress import ip_address
from typing import Any, Protocol
from urllib.parse import urlsplit

from dpensemble._same_code import other_versions, require_unchanged, versions
from dpensemble.errors import InvalidParameterError, TeacherError

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


_PROBE_SECONDS = 3.0


def _probe_scheduler(scheduler: str, *, speaks: bool) -> None:
    """Raise if no scheduler answers at the address within seconds. A scheduler that `speaks` sends the first byte."""
    try:
        parts = urlsplit(scheduler)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port:
        raise InvalidParameterError(
            f"scheduler={scheduler!r} must be an address: write it as tcp://HOST:PORT.", parameter="scheduler"
        )
    try:
        with socket.create_connection((host, port), _PROBE_SECONDS) as connection:
            answer = connection.recv(1) if speaks else b" "
    except TimeoutError:
        answer = b""
    except OSError:
        raise InvalidParameterError(
            f"scheduler={scheduler!r} does not answer: start one there, or give the address of one that runs.",
            parameter="scheduler",
        ) from None
    if not answer:
        raise InvalidParameterError(
            f"scheduler={scheduler!r} must be a scheduler, but something else listens there: check the address.",
            parameter="scheduler",
        )


def _require_encrypted(scheduler: str, workers: Iterable[str]) -> None:
    """Raise if private rows or what was computed from them would cross a network in the clear.

    ``tls://`` encrypts, and Dask then requires certificates of the scheduler, of workers and of this client. Any other
    address must be one of this host.
    """
    for address in (scheduler, *workers):
        if not (address.startswith("tls://") or (address.startswith("tcp://") and is_here(address))):
            raise InvalidParameterError(
                f"scheduler={scheduler!r} would send private rows over a network without encryption: start the "
                "scheduler and all workers with tls:// and certificates, or all of them on this host.",
                parameter="scheduler",
            )


def is_here(address: str) -> bool:
    """Return whether an address such as ``tcp://HOST:PORT`` is one of this host."""
    try:
        host = urlsplit(address).hostname
        addresses = {entry[4][0] for entry in socket.getaddrinfo(host, None)}
    except (OSError, ValueError):
        return False
    return bool(addresses) and all(_is_own(str(one)) for one in addresses)


def _is_own(number: str) -> bool:
    """Return whether this host has a network interface with an address, by binding a port to the address."""
    family = socket.AF_INET6 if ":" in number else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((number, 0))
    except OSError:
        return False
    # Address 0.0.0.0 stands for all interfaces, and may be reached as any host.
    return not ip_address(number).is_unspecified


def _check_worker(wanted: dict[str, str], dask_worker: Any) -> None:
    """Raise if a worker has other versions, or may write its memory to a disk."""
    difference = other_versions(wanted)
    if difference:
        raise InvalidParameterError(
            f"the cluster has a worker with {difference}, so that teachers and sums could differ: install the same "
            "version there, and start the workers again.",
            parameter="scheduler",
        )
    memory = dask_worker.memory_manager
    if memory.memory_limit is not None and (memory.memory_target_fraction or memory.memory_spill_fraction):
        raise InvalidParameterError(
            "the cluster has a worker that may write private rows to its disk: start it with --memory-limit 0, or with "
            "distributed.worker.memory.target and spill set to False.",
            parameter="scheduler",
        )


class _OpaqueTask:
    """A function and its arguments, which neither a dashboard nor a worker's log can show.

    They are pickled, so that the scheduler passes them on as they are, and a worker of other versions never loads them.
    """

    def __init__(self, payload: bytes, wanted: dict[str, str]) -> None:
        self._payload, self._wanted = payload, wanted

    def __call__(self) -> Any:
        """Call the function, unless this worker joined late and must not."""
        from distributed import get_worker  # noqa: PLC0415  an optional extra
        from distributed.protocol.pickle import loads  # noqa: PLC0415  an optional extra

        _check_worker(self._wanted, get_worker())
        # Written by the client.
        work, arguments = loads(self._payload)
        return work(*arguments)

    def __repr__(self) -> str:
        """Return a text without the arguments."""
        return "OpaqueTask()"


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
            _require_encrypted(scheduler, ())
        tls = [dask.config.get(f"distributed.comm.tls.{name}", None) for name in _CERTIFICATES]
        if scheduler.startswith("tls:") and None in tls:
            raise InvalidParameterError(
                f"scheduler={scheduler!r} requires a certificate of this client: set distributed.comm.tls "
                f"({', '.join(_CERTIFICATES)}) in the settings of Dask.",
                parameter="scheduler",
            )
        _probe_scheduler(scheduler, speaks=scheduler.startswith("tcp:"))
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
        _require_encrypted(self._scheduler, self._client.nthreads())
        require_unchanged("scheduler")
        self._wanted = versions()
        where = "the scheduler"
        try:
            # The scheduler loads tasks, though not what is in them.
            self._client.run_on_scheduler(repr, _OpaqueTask(b"", {}))
            where = "the workers"
            self._client.run(_check_worker, self._wanted)
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
                _require_encrypted(self._scheduler, self._client.nthreads())
                for call in _first(waiting, room):
                    under_way.append(self._client.submit(_OpaqueTask(dumps((work, call)), self._wanted), pure=False))
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
