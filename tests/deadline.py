"""Guards against tests that hang. They decide no outcome: a test asserts counts and orders, never seconds."""

import signal
import time
from contextlib import contextmanager

from joblib.externals.loky import get_reusable_executor

#: Seconds after which a test that waits is taken to hang. Such a test takes two or three on a quiet machine.
GUARD = 300.0


class DeadlineError(Exception):
    """Workers did not answer in time."""


def until(condition):
    """Wait for something that is bound to come, and return it. How soon depends on how busy the machine is."""
    end = time.monotonic() + GUARD
    while not (found := condition()):
        assert time.monotonic() < end, f"waited in vain for {GUARD:g} s"
        time.sleep(0.02)
    return found


@contextmanager
def deadline(seconds=GUARD):
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
