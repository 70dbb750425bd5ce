"""Progress bars on stderr for long work; they count public things only."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

_SHOWN: ContextVar[bool] = ContextVar("progress bars are shown", default=False)


@contextmanager
def show_progress(shown: bool = True) -> Iterator[None]:
    """Show progress bars on stderr for all that is fitted in the block; by default there are none.

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
def progress_bar(
    title: str, total: float | None, *, shown: bool | None = None, remaining: bool = False
) -> Iterator[Callable[[float], None]]:
    """Show a bar while the block runs if `shown`; yield its advance. A `total` (None: only moves) must be public."""
    if not (_SHOWN.get() if shown is None else shown):
        yield _ignore
        return
    time = TimeRemainingColumn(elapsed_when_finished=True) if remaining else TimeElapsedColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), time)
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(title, total=total)
        yield lambda steps: progress.advance(task, steps)


def _ignore(_steps: float) -> None:
    return
