"""Verification in the background. If it fails, everything after it is stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable

from dpensemble.errors import LedgerError, TamperedLedgerError


class Watch:
    """Runs the verification `work` once in a thread, and remembers the `TamperedLedgerError` that it raised."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._problem: str | None = None
        self._thread: threading.Thread | None = None
        self._is_wanted = False

    def start(self) -> None:
        """Start the verification."""
        self._is_wanted = True
        self._thread = threading.Thread(target=self._verify, name="dpensemble ledger", daemon=True)
        self._thread.start()

    def resume(self) -> None:
        """Start again if the database was unavailable before, or if this is a fork, which has no such thread."""
        if self._is_wanted and (self._thread is None or not self._thread.is_alive()):
            self.start()

    def wait(self) -> None:
        """Return when the work is done, or at once if it was not started."""
        if self._thread is not None:
            self._thread.join()

    def require(self) -> None:
        """Raise if the verification found a problem, with the same error each time."""
        if self._problem is not None:
            raise TamperedLedgerError(self._problem)

    def _verify(self) -> None:
        try:
            self._work()
        except TamperedLedgerError as error:
            self._problem = str(error)
        except LedgerError:
            # The database is unavailable. The next check starts again.
            return
        self._is_wanted = False
