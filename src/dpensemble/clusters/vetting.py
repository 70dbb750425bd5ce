"""Checks of a scheduler and its workers before anything runs there, and tasks that stay out of logs."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from dpensemble._same_code import other_versions
from dpensemble.errors import InvalidParameterError

_PROBE_SECONDS = 3.0


def probe_scheduler(scheduler: str, *, speaks: bool) -> None:
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


def require_encrypted(scheduler: str, workers: Iterable[str]) -> None:
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


def check_worker(wanted: dict[str, str], dask_worker: Any) -> None:
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


class OpaqueTask:
    """A function and its arguments, which neither a dashboard nor a worker's log can show.

    They are pickled, so that the scheduler passes them on as they are, and a worker of other versions never loads them.
    """

    def __init__(self, payload: bytes, wanted: dict[str, str]) -> None:
        self._payload, self._wanted = payload, wanted

    def __call__(self) -> Any:
        """Call the function, unless this worker joined late and must not."""
        from distributed import get_worker  # noqa: PLC0415  an optional extra
        from distributed.protocol.pickle import loads  # noqa: PLC0415  an optional extra

        check_worker(self._wanted, get_worker())
        # Written by the client.
        work, arguments = loads(self._payload)
        return work(*arguments)

    def __repr__(self) -> str:
        """Return a text without the arguments."""
        return "OpaqueTask()"
