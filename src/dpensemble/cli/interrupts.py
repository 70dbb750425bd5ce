"""End the program on a signal, and print one true sentence about what was done."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from dpensemble._early_interrupts import end_at_once

INTERRUPTED, TERMINATED = 130, 143
_Hook = Callable[[threading.ExceptHookArgs], object]
_WORDS = {INTERRUPTED: "interrupted", TERMINATED: "terminated"}


class Terminated(BaseException):
    """Raised on SIGTERM. Not an `Exception`, so that no handler mistakes it for an error."""


class Interrupts:
    """What remains if the program ends now, and which signal has arrived."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Forget the previous command."""
        self.code = 0
        self._at_once = self._for_good = False
        self._standing: Callable[[], str] | None = None
        self._spent: Callable[[], bool] | None = None

    def follow(self, standing: Callable[[], str], spent: Callable[[], bool]) -> None:
        """Use these functions from now on to learn what was written, and whether a budget was spent."""
        self._standing, self._spent = standing, spent

    @property
    def standing(self) -> str:
        """What was written and spent, as a sentence without its full stop."""
        return "nothing was written" if self._standing is None else self._standing()

    @property
    def spent(self) -> bool:
        """Whether a budget is spent."""
        return self._spent is not None and self._spent()

    def sentence(self, code: int) -> str:
        """Return the line that belongs to an exit code."""
        return f"dpensemble: {_WORDS[code]}; {self.standing}.\n"

    def check(self) -> None:
        """Raise the signal again if a library swallowed it, before more work begins."""
        if self.code == INTERRUPTED:
            raise KeyboardInterrupt
        if self.code == TERMINATED:
            raise Terminated

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """End the process at once on a signal. Only for imports: an unfinished import leaves nothing behind."""
        before, self._at_once = self._at_once, True
        collects = gc.isenabled()
        # Imports make many objects and hardly any garbage, and each search for garbage looks at all objects.
        gc.disable()
        try:
            yield
        finally:
            self._at_once = before
            if self._for_good:
                # No later search looks at what stays until the process ends.
                gc.freeze()
            if collects:
                gc.enable()

    def _handle_signal(self, number: int, _frame: FrameType | None) -> None:
        self.code = INTERRUPTED if number == signal.SIGINT else TERMINATED
        if self._at_once:
            os.write(2, self.sentence(self.code).encode())
            os._exit(self.code)
        self.check()

    def _or_silence(self, usual: _Hook) -> _Hook:
        """Return a hook for threads that fail, which prints nothing once a signal has arrived."""

        def hook(failed: threading.ExceptHookArgs) -> None:
            # What fails then is a thread of joblib, between the tasks that it has and those that an interrupt removed.
            if not self.code:
                usual(failed)

        return hook

    @contextmanager
    def listening(self, *, for_good: bool) -> Iterator[None]:
        """Handle SIGINT and SIGTERM in the block, unless the parent process had them ignored."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._for_good = for_good
        handlers: dict[signal.Signals, Any] = {}
        for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
            if signal.getsignal(number) in (usual, end_at_once):
                signal.signal(number, self._handle_signal)
                handlers[number] = usual
        hook = threading.excepthook
        threading.excepthook = self._or_silence(hook)
        try:
            yield
        finally:
            if not for_good:
                threading.excepthook = hook
            for number, handler in handlers.items():
                # For good: only the interpreter's own exit is left, and an interrupt of it needs no message.
                signal.signal(number, signal.SIG_IGN if for_good else handler)


INTERRUPTS = Interrupts()
