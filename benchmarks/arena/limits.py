"""A limit on the CPU time of one fit."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

#: CPU seconds of one fit and its prediction.
CPU_SECONDS = 120.0


class TooSlowError(RuntimeError):
    """A fit that took longer than the limit."""


@contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """Raise TooSlowError in the block once this process has used so much CPU time; for the main thread only."""

    def stop(*_: object) -> None:
        raise TooSlowError(f"the fit took longer than {seconds:g} CPU seconds")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
