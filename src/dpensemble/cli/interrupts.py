"""How the program ends when it is told to: with one sentence that is true."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from dpensemble._start import end_at_once

INTERRUPTED, TERMINATED = 130, 143
_WORDS = {INTERRUPTED: "interrupted", TERMINATED: "terminated"}


class Terminated(BaseException):
    """SIGTERM came. No `Exception`, so that nobody takes it for an error of theirs."""


class Interrupts:
    """What stands if the program ends now, and whether it was told to."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Forget an earlier command."""
        self.code = 0
        self._at_once = False
        self._standing: Callable[[], str] | None = None
        self._spent: Callable[[], bool] | None = None

    def follow(self, standing: Callable[[], str], spent: Callable[[], bool]) -> None:
        """Ask these from now on what there is, and whether a budget is spent."""
        self._standing, self._spent = standing, spent

    @property
    def standing(self) -> str:
        """What there is, as a sentence without an end."""
        return "nothing was written" if self._standing is None else self._standing()

    @property
    def spent(self) -> bool:
        """Whether a budget is spent."""
        return self._spent is not None and self._spent()

    def sentence(self, code: int) -> str:
        """Return the line that goes with an exit code."""
        return f"dpensemble: {_WORDS[code]}; {self.standing}.\n"

    def check(self) -> None:
        """Raise again what came and was swallowed by some library, before anything more is done."""
        if self.code == INTERRUPTED:
            raise KeyboardInterrupt
        if self.code == TERMINATED:
            raise Terminated

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """End the process on the spot when told to: imports, which half done leave anything behind, are no loss."""
        before, self._at_once = self._at_once, True
        try:
            yield
        finally:
            self._at_once = before

    def _handle_signal(self, number: int, _frame: FrameType | None) -> None:
        self.code = INTERRUPTED if number == signal.SIGINT else TERMINATED
        if self._at_once:
            os.write(2, self.sentence(self.code).encode())
            os._exit(self.code)
        self.check()

    @contextmanager
    def listening(self, *, for_good: bool) -> Iterator[None]:
        """Heed SIGINT and SIGTERM in the block, unless whoever started the program had them ignored."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        kept: dict[signal.Signals, Any] = {}
        for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
            if signal.getsignal(number) in (usual, end_at_once):
                signal.signal(number, self._handle_signal)
                kept[number] = usual
        try:
            yield
        finally:
            for number, handler in kept.items():
                # For good: all is done but the interpreter's own end, which nobody has to hear about.
                signal.signal(number, signal.SIG_IGN if for_good else handler)


INTERRUPTS = Interrupts()
