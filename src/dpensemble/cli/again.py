"""The arguments of the current command, and whether the command finishes an interrupted run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

ARGUMENTS: ContextVar[tuple[str, ...]] = ContextVar("arguments of the command", default=())


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A run that is being finished: its folder, and whether it may replace files of a later run there."""

    overwrite: bool
    folder: Path


_UNFINISHED: ContextVar[Unfinished | None] = ContextVar("the run that is being finished", default=None)


def unfinished() -> Unfinished | None:
    """Return the run that this command finishes, or None if the command begins a new run."""
    return _UNFINISHED.get()


@contextmanager
def command(arguments: Sequence[str]) -> Iterator[None]:
    """Remember the arguments of the command that the block runs."""
    token = ARGUMENTS.set(tuple(arguments))
    try:
        yield
    finally:
        ARGUMENTS.reset(token)


@contextmanager
def finishing(run: Unfinished) -> Iterator[None]:
    """Let the command that the block runs finish `run`."""
    token = _UNFINISHED.set(run)
    try:
        yield
    finally:
        _UNFINISHED.reset(token)
