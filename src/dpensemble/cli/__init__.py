"""The command ``dpensemble``: parse, call, print."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from dpensemble.cli.interrupts import INTERRUPTED, INTERRUPTS, TERMINATED, Terminated

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None, *, app: str = "dpensemble.cli.app") -> int:
    """Run the command line and return the exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        Arguments without the program's name. By default those of ``sys.argv``.
    app : str
        Module whose function ``run`` takes the arguments and returns the exit code.

    Returns
    -------
    int
        0 success, 1 an unexpected error or one after a budget was spent, 2 bad input, 130 interrupted, 143 terminated.
    """
    INTERRUPTS.begin()
    try:
        with INTERRUPTS.listening(for_good=arguments is None):
            # Imported inside the block, so that an interrupt during the import is handled like any other.
            with INTERRUPTS.at_once():
                module = import_module(app)
            code = int(module.run(list(sys.argv[1:] if arguments is None else arguments)))
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Terminated:
        code = TERMINATED
    if code in (INTERRUPTED, TERMINATED):
        sys.stderr.write(INTERRUPTS.sentence(code))
    return code
