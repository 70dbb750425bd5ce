"""Long work on this machine: its worker processes, its threads, its memory, and how far it is.

Worker processes do not write private records to files, and end with their parent process. Libraries of linear algebra
use one thread where more threads would only wait for each other.

A rehearsal of a run takes the decisions of the real run, and repeats its arithmetic less often.

Progress bars on stderr are for people, and events are for programs. Events count only public things, and so do bars,
except those of passes over private records. These count parts or records. They are for the screen of the owner of the
records, and no event or file holds these numbers.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path, PurePosixPath
from time import perf_counter
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from dpensemble._entries import Rows
from dpensemble.errors import MemoryShortageError

_LOOK_SECONDS = 0.2


def private_workers() -> dict[str, Any]:
    """Return arguments of `joblib.Parallel` that send arguments and results through pipes, never through files."""
    _start_silent_tracker()
    # Without this, arrays above a megabyte become files in shared memory or a temporary folder, which outlive a kill.
    return {"max_nbytes": None, "initializer": end_with_parent}


def _start_silent_tracker() -> None:
    """Start joblib's process that removes locks which an interrupted program leaves behind, without its warnings.

    How many locks are left depends on the moment of the interrupt, and the process removes them in any case.
    """
    from joblib.externals.loky.backend.resource_tracker import ensure_running  # noqa: PLC0415  only with workers

    # The process gets the options of this interpreter when it starts.
    sys.warnoptions.append("ignore")
    try:
        ensure_running()
    finally:
        sys.warnoptions.remove("ignore")


def end_with_parent() -> None:
    """Make this worker process end as soon as its parent process has ended, for any reason."""
    import multiprocessing  # noqa: PLC0415  loaded in every worker, and not by a plan

    parent = multiprocessing.parent_process()
    if parent is None or parent.pid is None:
        return
    # A keyboard interrupt reaches all processes, but only the parent decides what follows.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_after, args=(parent.pid,), name="end with parent", daemon=True).start()


def _end_after(parent: int) -> None:
    # The kernel's own signal at a parent's death comes when the thread that started the worker ends, which is too soon.
    if sys.platform == "linux":
        _wait_for_end(parent)
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os._exit(1)


def _wait_for_end(parent: int) -> None:
    """Sleep until a process has ended, if the system can report it."""
    import select  # noqa: PLC0415  polls processes on Linux only

    try:
        handle = os.pidfd_open(parent)
    except (AttributeError, OSError):
        return
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        # The process number may have been reused before it was opened.
        while os.getppid() == parent and not poll.poll(1000):
            pass
    finally:
        os.close(handle)


def one_thread(user_api: str | None = "blas") -> AbstractContextManager[object]:
    """Return a context in which such libraries, by default those of linear algebra, use one thread.

    Parameters
    ----------
    user_api : {"blas", "openmp"} or None
        Kind of libraries, or None for all kinds.
    """
    return _controller(len(sys.modules)).limit(limits=1, user_api=user_api)


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> ThreadpoolController:  # noqa: ARG001
    """Return the libraries' threads. Looking them up takes milliseconds, and only an import loads another library."""
    return ThreadpoolController()


# Where Linux states memory, and the files of a group's limit and usage there, of both versions of control groups.
_SYSTEM = Path("/")
_GROUPS = (
    ("sys/fs/cgroup", "", "memory.max", "memory.current", "inactive_file"),
    ("sys/fs/cgroup/memory", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def available_memory() -> int | None:
    """Return the bytes of memory that this process can still get, or None if the system does not state it.

    The least of what the machine has free, what its control groups leave, and what the limits of the process leave.
    """
    known = [*_free_on_machine(), *_left_by_groups(), *_left_by_limits()]
    return max(min(known), 0) if known else None


def require_memory(needed: int, remedy: str) -> None:
    """Raise if a run needs more bytes of memory than are available. Without known figures nothing is refused."""
    available = available_memory()
    if available is not None and needed > available:
        raise MemoryShortageError(
            f"this run needs about {_gigabytes(needed)} of memory, but only {_gigabytes(available)} are available, so "
            f"nothing was charged: {remedy}, or use a machine with more memory."
        )


def _gigabytes(count: int) -> str:
    return f"{count / 2**30:.2f} GB"


def _free_on_machine() -> Iterator[int]:
    with suppress(OSError, ValueError):
        lines = (_SYSTEM / "proc/meminfo").read_text(encoding="ascii").splitlines()
        kilobytes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
        if "MemAvailable" in kilobytes:
            yield 1024 * (kilobytes["MemAvailable"] + kilobytes.get("SwapFree", 0))


def _left_by_groups() -> Iterator[int]:
    """Yield what each control group of this process leaves, and what each of the groups around it leaves."""
    with suppress(OSError):
        lines = (_SYSTEM / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        for root, controller, *files in _GROUPS:
            for _, controllers, path in (line.split(":", 2) for line in lines):
                if controller in controllers.split(","):
                    group = PurePosixPath(path.lstrip("/"))
                    # In a container, the root is the group itself.
                    for folder in {group, *group.parents}:
                        yield from _left_by_group(_SYSTEM / root / folder, *files)


def _left_by_group(folder: Path, limit: str, usage: str, reclaimable: str) -> Iterator[int]:
    # A group without a limit states "max", or has no such files.
    with suppress(OSError, ValueError):
        left = int((folder / limit).read_text()) - int((folder / usage).read_text())
        lines = (line.split() for line in (folder / "memory.stat").read_text().splitlines())
        yield left + next((int(count) for name, count in lines if name == reclaimable), 0)


def _left_by_limits() -> Iterator[int]:
    """Yield what the limits of this process leave of its address space and of its data."""
    with suppress(ImportError, OSError, ValueError):
        import resource  # noqa: PLC0415  not on Windows

        pages = (_SYSTEM / "proc/self/statm").read_text(encoding="ascii").split()
        for kind, used in ((resource.RLIMIT_AS, pages[0]), (resource.RLIMIT_DATA, pages[5])):
            limit, _ = resource.getrlimit(kind)
            if limit != resource.RLIM_INFINITY:
                yield limit - int(used) * resource.getpagesize()


Decision = TypeVar("Decision")
# What the real run decided from public facts, by name.
_DECISIONS: ContextVar[dict[str, Any] | None] = ContextVar("decisions of the real run", default=None)
_ALARMED: ContextVar[bool | None] = ContextVar("whether a rehearsal sees an alarm, None in a real run", default=None)


@contextmanager
def decisions_kept() -> Iterator[None]:
    """Keep what the block decides from public facts, so that a rehearsal in the block decides the same."""
    token = _DECISIONS.set({})
    try:
        yield
    finally:
        _DECISIONS.reset(token)


def decided(name: str, decide: Callable[[], Decision]) -> Decision:
    """Return a decision from public facts. A rehearsal returns the decision of the real run."""
    known = _DECISIONS.get()
    if known is None:
        return decide()
    if name not in known:
        known[name] = decide()
    decision: Decision = known[name]
    return decision


@contextmanager
def rehearsing(*, alarmed: bool) -> Iterator[None]:
    """Let `fewer` return the fewest in the block. `alarmed` states whether public rows seem unlike private ones."""
    token = _ALARMED.set(alarmed)
    try:
        yield
    finally:
        _ALARMED.reset(token)


def is_rehearsal() -> bool:
    """Return whether this is a rehearsal, whose outcome is not used."""
    return _ALARMED.get() is not None


def fewer(count: int, fewest: int = 1) -> int:
    """Return a number of rows or repetitions: `count`, or no more than the `fewest` in a rehearsal."""
    return min(count, fewest) if is_rehearsal() else count


def alarm_or_rehearsed(alarm: bool) -> bool:
    """Return whether a run goes on as after an alarm. A rehearsal decides for itself, since it takes both ways."""
    rehearsed = _ALARMED.get()
    return alarm if rehearsed is None else rehearsed


_SHOWN: ContextVar[bool] = ContextVar("progress bars are shown", default=False)
Hear = Callable[[str, dict[str, Any]], None]
_HEARD: ContextVar[Hear | None] = ContextVar("who hears of progress", default=None)
# Bars that are on the screen. More bars are added to them.
_LIVE: ContextVar[Rows] = ContextVar("bars on the screen", default=None)
_PASS: ContextVar[str] = ContextVar("what a pass is for", default="Checking records")
# Largest number of events for one piece of work in a log.
_STEPS = 20


@contextmanager
def show_progress(shown: bool = True) -> Iterator[None]:
    """Show progress bars on stderr for all fits in the block. By default there are none.

    Some bars count parts or records of private tables, so keep what they print to yourself.

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


def bars_are_shown() -> bool:
    """Return whether progress bars are shown."""
    return _SHOWN.get()


@contextmanager
def pass_named(title: str) -> Iterator[None]:
    """Name what the passes over private records in the block are for. By default, records are checked."""
    token = _PASS.set(title)
    try:
        yield
    finally:
        _PASS.reset(token)


@contextmanager
def pass_bar(total: int | None, noun: str) -> Iterator[Callable[[float], None]]:
    """Show how far a pass over private records is, and yield the advance function. No event reports it."""
    if not _SHOWN.get():
        yield _ignore
        return
    title, n_done = _PASS.get(), 0
    with _added_bar(title, total) as (live, task):

        def advance(steps: float) -> None:
            nonlocal n_done
            n_done += int(steps)
            of_all = "" if total is None else f" of {total:,}"
            live.update(task, advance=steps, description=f"{title}: {n_done:,}{of_all} {noun}")

        yield advance


class ShownPasses:
    """Passes over the same blocks of records, each with a bar. The first pass counts the records."""

    def __init__(self) -> None:
        self._n_records: int | None = None

    def over(self, blocks: Iterator[tuple[Rows, Rows]]) -> Iterator[tuple[Rows, Rows]]:
        """Yield blocks of rows and labels, and move the bar."""
        n_read = 0
        with pass_bar(self._n_records, "records") as advance:
            for rows, labels in blocks:
                yield rows, labels
                n_read += len(labels)
                advance(len(labels))
        self._n_records = n_read


@contextmanager
def _added_bar(title: str, total: float | None) -> Iterator[tuple[Rows, int]]:
    """Add a bar to those on the screen for the block, and yield both."""
    live = _LIVE.get()
    if live is None:
        with _bars(total) as alone:
            yield alone, alone.add_task(title, total=total)
        return
    task = live.add_task(title, total=total)
    try:
        yield live, task
    finally:
        live.remove_task(task)


@contextmanager
def _bar(title: str, total: float | None) -> Iterator[Callable[[float], None]]:
    """Show a bar on stderr, and yield its advance function. Bars within the block are added below it."""
    with _bars(total) as live:
        task, token = live.add_task(title, total=total), _LIVE.set(live)
        try:
            yield lambda steps: live.advance(task, steps)
        finally:
            _LIVE.reset(token)


def _bars(total: float | None) -> Rows:
    """Return bars on stderr, which are shown in a block."""
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
    return Progress(*columns, console=Console(stderr=True))


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
