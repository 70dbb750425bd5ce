"""Worker processes, and threads within a process.

Worker processes do not write private records to files, and end with their parent process. Libraries of linear algebra
use one thread where more threads would only wait for each other.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController

_LOOK_SECONDS = 0.2


def private_workers() -> dict[str, Any]:
    """Return arguments of `joblib.Parallel` that send arguments and results through pipes, never through files."""
    _start_silent_tracker()
    # Without this, arrays above a megabyte become files in shared memory or a temporary folder, which outlive a kill.
    return {"max_nbytes": None, "initializer": end_with_parent}


def _start_silent_tracker() -> None:
    """Start joblib's process that removes locks which an interrupted program leaves behind, without its warnings.

    How many locks are left depends on the moment of the interrupt, and the process removes them in any case.
    """
    from joblib.externals.loky.backend.resource_tracker import ensure_running  # noqa: PLC0415  only with workers

    # The process gets the options of this interpreter when it starts.
    sys.warnoptions.append("ignore")
    try:
        ensure_running()
    finally:
        sys.warnoptions.remove("ignore")


def end_with_parent() -> None:
    """Make this worker process end as soon as its parent process has ended, for any reason."""
    import multiprocessing  # noqa: PLC0415  loaded in every worker, and not by a plan

    parent = multiprocessing.parent_process()
    if parent is None or parent.pid is None:
        return
    # A keyboard interrupt reaches all processes, but only the parent decides what follows.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_after, args=(parent.pid,), name="end with parent", daemon=True).start()


def _end_after(parent: int) -> None:
    # The kernel's own signal at a parent's death comes when the thread that started the worker ends, which is too soon.
    if sys.platform == "linux":
        _wait_for_end(parent)
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os._exit(1)


def _wait_for_end(parent: int) -> None:
    """Sleep until a process has ended, if the system can report it."""
    import select  # noqa: PLC0415  polls processes on Linux only

    try:
        handle = os.pidfd_open(parent)
    except (AttributeError, OSError):
        return
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        # The process number may have been reused before it was opened.
        while os.getppid() == parent and not poll.poll(1000):
            pass
    finally:
        os.close(handle)


def one_thread(user_api: str | None = "blas") -> AbstractContextManager[object]:
    """Return a context in which such libraries, by default those of linear algebra, use one thread.

    Parameters
    ----------
    user_api : {"blas", "openmp"} or None
        Kind of libraries, or None for all kinds.
    """
    return _controller(len(sys.modules)).limit(limits=1, user_api=user_api)


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> ThreadpoolController:  # noqa: ARG001
    """Return the libraries' threads. Looking them up takes milliseconds, and only an import loads another library."""
    return ThreadpoolController()
