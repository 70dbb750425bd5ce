"""Counts in the place of seconds: what a call does is the same on any machine, however busy."""

import sys
import tracemalloc
from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """What a call returned, how many lines of Python it ran, and the most bytes it held at once."""

    found: object
    lines: int
    bytes: int


def work_of(call):
    """Run a call, and count."""
    n_lines = 0

    def ran(frame, event, argument):
        nonlocal n_lines
        n_lines += event == "line"
        return ran

    # Coverage counts in the same way, and goes on afterwards.
    before = sys.gettrace()
    tracemalloc.start()
    sys.settrace(ran)
    try:
        found = call()
    finally:
        sys.settrace(before)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return Work(found, n_lines, peak)
