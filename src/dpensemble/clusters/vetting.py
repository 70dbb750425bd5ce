"""What Dask's workers run of ours: a look at themselves before they do anything, in tasks that tell nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpensemble.clusters.base import versions
from dpensemble.errors import InvalidParameterError


def look(wanted: dict[str, str], dask_worker: Any) -> None:
    """Refuse a worker that has other versions, or may write what it holds to a disk."""
    found = versions()
    for package, needed in wanted.items():
        if found[package] != needed:
            raise InvalidParameterError(
                f"the cluster has a worker with {package} {found[package]}, and {needed} is needed, or teachers could "
                "be others; install the same version there.",
                parameter="scheduler",
            )
    memory = dask_worker.memory_manager
    if memory.memory_limit is not None and (memory.memory_target_fraction or memory.memory_spill_fraction):
        raise InvalidParameterError(
            "the cluster has a worker that may write private rows to its disk; start it with --memory-limit 0, or with "
            "distributed.worker.memory.target and spill set to False.",
            parameter="scheduler",
        )


class Sealed:
    """A function and its arguments, which neither a dashboard nor a worker's log can show."""

    def __init__(self, work: Callable[..., Any], arguments: tuple[Any, ...], wanted: dict[str, str]) -> None:
        self._work, self._arguments, self._wanted = work, arguments, wanted

    def __call__(self) -> Any:
        """Do it, unless this worker joined late and must not."""
        from distributed import get_worker  # noqa: PLC0415  an optional extra

        look(self._wanted, get_worker())
        return self._work(*self._arguments)

    def __repr__(self) -> str:
        """Say nothing."""
        return "Sealed()"
