"""A deadline for tests that wait for worker processes, which the system may end where memory is short."""

import signal
from contextlib import contextmanager

from joblib.externals.loky import get_reusable_executor

#: Seconds. Such a test takes two or three.
DEADLINE = 120.0


class DeadlineError(Exception):
    """Workers did not answer in time."""


@contextmanager
def deadline(seconds=DEADLINE):
    """Raise in the main thread once the time is over, and end the workers. Windows has no alarm, and waits."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def late(_number, _frame):
        raise DeadlineError(f"worker processes did not answer within {seconds:g} s; is memory short?")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except DeadlineError:
        # The next test gets workers that work.
        get_reusable_executor().shutdown(wait=False, kill_workers=True)
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
