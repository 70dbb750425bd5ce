"""Ctrl-C in the first moments of the command, before the code that prints a sentence is imported."""

# The compiled module is always loaded. Importing `signal` would be one more import that could be interrupted.
import _signal  # type: ignore[import-not-found]
import os
import sys

_WORDS = b"dpensemble: interrupted; nothing was written.\n"


def end_at_once(_number: int, _frame: object) -> None:
    """End the process. Nothing has been done yet."""
    os.write(2, _WORDS)
    os._exit(130)


def is_the_command() -> bool:
    """Return whether this process is ``dpensemble`` or ``python -m dpensemble``, and not one that imports it."""
    if os.path.basename(sys.argv[0] if sys.argv else "") in ("dpensemble", "dpensemble.exe"):
        return True
    arguments = sys.orig_argv
    return "-m" in arguments and arguments[arguments.index("-m") + 1 :][:1] == ["dpensemble"]


def heed_interrupts() -> None:
    """End on Ctrl-C from now on, unless the parent process had it ignored."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, end_at_once)
