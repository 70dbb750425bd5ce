"""Progress bars on stderr for long work, and progress events for programs. They count only public things."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter
from typing import Any

_SHOWN: ContextVar[bool] = ContextVar("progress bars are shown", default=False)
Hear = Callable[[str, dict[str, Any]], None]
_HEARD: ContextVar[Hear | None] = ContextVar("who hears of progress", default=None)
# Largest number of events for one piece of work in a log.
_STEPS = 20


@contextmanager
def show_progress(shown: bool = True) -> Iterator[None]:
    """Show progress bars on stderr for all fits in the block. By default there are none.

    Parameters
    ----------
    shown : bool, default=True
        False hides them.

    Examples
    --------
    >>> with show_progress(False):
    ...     pass  # model.fit(X, y, X_public=rows)
    """
    token = _SHOWN.set(shown)
    try:
        yield
    finally:
        _SHOWN.reset(token)


@contextmanager
def progress_heard_by(hear: Hear | None) -> Iterator[None]:
    """Call `hear` with the name of an event and its facts for all work in the block."""
    token = _HEARD.set(hear)
    try:
        yield
    finally:
        _HEARD.reset(token)


@contextmanager
def progress_bar(title: str, total: float | None, *, shown: bool | None = None) -> Iterator[Callable[[float], None]]:
    """Show a bar during the block if `shown`, and yield its advance function. A `total` (or None) must be public."""
    hear, start = _HEARD.get(), perf_counter()
    tell = _ignore if hear is None else _teller(hear, title, total)
    if hear is not None:
        hear("begins", {"work": title, "steps": total})
    if not (_SHOWN.get() if shown is None else shown):
        yield tell
    else:
        with _bar(title, total) as move:

            def advance(steps: float) -> None:
                move(steps)
                tell(steps)

            yield advance
    if hear is not None:
        hear("ends", {"work": title, "seconds": round(perf_counter() - start, 3)})


@contextmanager
def _bar(title: str, total: float | None) -> Iterator[Callable[[float], None]]:
    """Show a bar on stderr, and yield its advance function."""
    # Takes long to import, and most programs show no bar.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    remaining = () if total is None else (TextColumn("left:"), TimeRemainingColumn())
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), *remaining)
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(title, total=total)
        yield lambda steps: progress.advance(task, steps)


def _teller(hear: Hear, title: str, total: float | None) -> Callable[[float], None]:
    """Return a function that reports steps in a limited number of events, and none without a public total."""
    if not total:
        return _ignore
    n_done, n_events = 0.0, 0

    def tell(steps: float) -> None:
        nonlocal n_done, n_events
        n_done += steps
        if int(_STEPS * n_done / total) > n_events:
            n_events = int(_STEPS * n_done / total)
            hear("goes on", {"work": title, "done": int(n_done), "steps": total})

    return tell


def _ignore(_steps: float) -> None:
    return
