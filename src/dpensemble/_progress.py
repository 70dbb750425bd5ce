"""Progress bars on stderr for long work; they count public things only."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn


@contextmanager
def progress_bar(title: str, total: int | None, *, shown: bool) -> Iterator[Callable[[float], None]]:
    """Show a bar while the block runs, and yield the function that advances it.

    Parameters
    ----------
    title : str
        What is being done.
    total : int or None
        Number of steps; must be public. None shows a bar that only moves.
    shown : bool
        False yields a function that does nothing.
    """
    if not shown:
        yield _ignore
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(title, total=total)
        yield lambda steps: progress.advance(task, steps)


def _ignore(_steps: float) -> None:
    return
