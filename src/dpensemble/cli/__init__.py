"""The command ``dpensemble``: parse, call, print."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from dpensemble.cli.interrupts import INTERRUPTED, INTERRUPTS, TERMINATED, Terminated

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None, *, app: str | None = None) -> int:
    """Run the command line and return the exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        Arguments without the program's name. By default those of ``sys.argv``.
    app : str, optional
        Module whose function ``run`` takes the arguments and returns the exit code. By default `dpensemble.cli.app`.

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
                run = _run_of(app)
            code = int(run(list(sys.argv[1:] if arguments is None else arguments)))
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Terminated:
        code = TERMINATED
    if code in (INTERRUPTED, TERMINATED):
        sys.stderr.write(INTERRUPTS.sentence(code))
    return code


def _run_of(app: str | None) -> Callable[[Sequence[str]], int]:
    if app is not None:
        named: Callable[[Sequence[str]], int] = import_module(app).run
        return named
    from dpensemble.cli.app import run  # noqa: PLC0415  takes long to import

    return run
