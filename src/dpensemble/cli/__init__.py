"""The command ``dpensemble``: parse, call, print."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

__all__ = ["main"]

_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        Arguments without the program's name; ``sys.argv`` by default.

    Returns
    -------
    int
        0 done, 1 unforeseen error, 2 bad input, 130 interrupted.
    """
    try:
        # Imported here, so that an interrupt meanwhile ends like any other.
        code = import_module("dpensemble.cli.app").run(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:
        code = _INTERRUPTED
    if code == _INTERRUPTED:
        sys.stderr.write("dpensemble: interrupted; nothing was written.\n")
    return int(code)
