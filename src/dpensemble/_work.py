"""Long work on this machine: its worker processes, its threads, its memory, and how far it is.

Worker processes do not write private records to files, and end with their parent process. Libraries of linear algebra
use one thread where more threads would only wait for each other.

A rehearsal of a run takes the decisions of the real run, and repeats its arithmetic less often.

Progress on stderr is for people, and events are for programs. A terminal shows bars. Elsewhere a command writes a line
every ten seconds, with its stages and their public steps. Events and lines count only public things, and so do bars,
except those of passes over private records. Where the numbers of records are public, these count parts or records. They
are for the screen of the owner of the records. Under add-or-remove-one and until-spent no bar shows these numbers or
the time that is left. How long a stage takes depends on the records, and no guarantee covers it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path, PurePosixPath
from time import perf_counter
from typing import Any, Protocol, TypeVar

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
        # What is available depends on the private table in memory, and is not stated.
        raise MemoryShortageError(
            f"this run may need up to {needed / 2**30:.2f} GB of memory, which is more than there is, so nothing was "
            f"charged: {remedy}, or use a machine with more memory."
        )


def _free_on_machine() -> Iterator[int]:
    with suppress(OSError, ValueError):
        lines = (_SYSTEM / "proc/meminfo").read_text(encoding="ascii").splitlines()
        kilobytes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
        if "MemAvailable" in kilobytes:
            yield 1024 * (kilobytes["MemAvailable"] + kilobytes.get("SwapFree", 0))


def _left_by_groups() -> Iterator[int]:
    """Yield what each control group of this process leaves, and what each of the groups around it leaves."""
    with suppress(OSError, ValueError):
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


class Way(Enum):
    """Ways that a run can take after released sums: as planned, or by what they show."""

    AS_PLANNED = "as planned"
    UNLIKE_ROWS = "public rows are unlike private ones"
    RARE_CASES = "one of two classes is rare"


_WAY: ContextVar[Way | None] = ContextVar("the way that a rehearsal takes, None in a real run", default=None)


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
def rehearsing(way: Way) -> Iterator[None]:
    """Let `fewer` return the fewest in the block, and let every run take this `way`."""
    token = _WAY.set(way)
    try:
        yield
    finally:
        _WAY.reset(token)


def is_rehearsal() -> bool:
    """Return whether this is a rehearsal, whose outcome is not used."""
    return _WAY.get() is not None


def fewer(count: int, fewest: int = 1) -> int:
    """Return a number of rows or repetitions: `count`, or no more than the `fewest` in a rehearsal."""
    return min(count, fewest) if is_rehearsal() else count


def goes(way: Way, shown: bool) -> bool:
    """Return whether a run takes a way, which released sums have `shown`. A rehearsal takes its own way."""
    rehearsed = _WAY.get()
    return shown if rehearsed is None else rehearsed == way


_SHOWN: ContextVar[bool] = ContextVar("progress is shown", default=False)
Hear = Callable[[str, dict[str, Any]], None]
_HEARD: ContextVar[Hear | None] = ContextVar("who hears of progress", default=None)
# Bars that are on the screen. More bars are added to them.
_LIVE: ContextVar[Rows] = ContextVar("bars on the screen", default=None)
_LINES: ContextVar[_Lines | None] = ContextVar("lines instead of bars", default=None)
_PASS: ContextVar[str] = ContextVar("what a pass is for", default="Checking records")
# None outside of a fit, where nobody has stated what is public.
_COUNTED: ContextVar[bool | None] = ContextVar("numbers of private records are public", default=None)
# Largest number of events for one piece of work in a log.
_STEPS = 20
_SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def show_progress(shown: bool = True) -> Iterator[None]:
    """Show progress bars on stderr for all fits in the block. By default there are none.

    Under replace-one, some bars count parts or records of private tables, so keep what they print to yourself. Under
    add-or-remove-one and ``analysis="until-spent"`` no bar shows such a number.

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
def progress_on_stderr(
    title: str | None = None,
    *,
    quiet: bool = False,
    over: _Over | None = None,
    clock: Callable[[], float] = perf_counter,
) -> Iterator[None]:
    """Show what a command does: bars on a terminal, elsewhere a line every ten seconds, and nothing if `quiet`.

    A `title` names the whole block as one stage of unknown length.

    `over` ends the thread that writes the lines, and its `wait` measures the time between them.
    """
    # A program may be started with stderr closed.
    hidden = quiet or sys.stderr is None
    if hidden or sys.stderr.isatty() or _LINES.get() is not None:
        with show_progress(not hidden), nullcontext() if title is None else progress_bar(title, None):
            yield
        return
    lines, over = _Lines(clock), threading.Event() if over is None else over
    # A forked process has only the thread that forked.
    thread = threading.Thread(target=lines.write_until, args=(over,), name="lines of progress", daemon=True)
    thread.start()
    token = _LINES.set(lines)
    try:
        with show_progress(), nullcontext() if title is None else progress_bar(title, None):
            yield
    finally:
        _LINES.reset(token)
        over.set()
        thread.join()


class _Over(Protocol):
    """What `progress_on_stderr` uses of `threading.Event`."""

    def wait(self, timeout: float) -> bool:
        """Wait, and return whether the work is over."""
        ...

    def set(self) -> None:
        """State that the work is over."""
        ...


@dataclass(eq=False)
class _Stage:
    """A piece of work that goes on, and its public steps."""

    title: str
    total: float | None
    begun: float
    n_done: float = 0.0

    def advance(self, steps: float) -> None:
        self.n_done += steps

    def words(self) -> str:
        return self.title if not self.total else f"{self.title}, {self.n_done:,.0f} of {self.total:,.0f}"


class _Lines:
    """What goes on now, as lines on stderr: the stages, with public steps and the seconds of the innermost one."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._begun = clock, clock()
        self._stages: list[_Stage] = []

    @contextmanager
    def stage(self, title: str, total: float | None) -> Iterator[Callable[[float], None]]:
        """Add a stage for the block, and yield its advance function."""
        stage = _Stage(title, total, self._clock())
        self._stages.append(stage)
        try:
            yield stage.advance
        finally:
            self._stages.remove(stage)

    def line(self) -> str:
        """Return what goes on now."""
        stages = self._stages.copy()
        words = ": ".join(stage.words() for stage in stages) or "Working"
        begun = stages[-1].begun if stages else self._begun
        return f"dpensemble: {words} ({self._clock() - begun:.0f} s)"

    def write_until(self, over: _Over) -> None:
        """Write a line every ten seconds until the work is over."""
        while not over.wait(_SECONDS_BETWEEN_LINES):
            # The reader of stderr may have gone.
            with suppress(OSError, ValueError):
                sys.stderr.write(f"{self.line()}\n")
                sys.stderr.flush()


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
    with _on_screen(title, total, _SHOWN.get() if shown is None else shown) as move:

        def advance(steps: float) -> None:
            move(steps)
            tell(steps)

        yield advance
    if hear is not None:
        hear("ends", {"work": title, "seconds": round(perf_counter() - start, 3)})


@contextmanager
def _on_screen(title: str, total: float | None, shown: bool) -> Iterator[Callable[[float], None]]:
    """Show a stage as a bar or in lines, and yield its advance function."""
    lines = _LINES.get()
    if not shown:
        yield _ignore
    elif lines is not None:
        with lines.stage(title, total) as move:
            yield move
    else:
        # The time left of a release is that of its passes over private records.
        left = _COUNTED.get() is not False
        with _added_bar(title, total, left=left, stays=total is not None) as (live, task):
            yield lambda steps: live.advance(task, steps)


def bars_are_shown() -> bool:
    """Return whether progress bars are shown."""
    return _SHOWN.get()


@contextmanager
def passes_counted(public: bool) -> Iterator[None]:
    """State whether the numbers of private records and of their parts are public in the block.

    Bars of passes show numbers and the time left only if they are. Without a statement they show neither.
    """
    token = _COUNTED.set(public)
    try:
        yield
    finally:
        _COUNTED.reset(token)


@contextmanager
def pass_named(title: str) -> Iterator[None]:
    """Name what the passes over private records in the block are for. By default, records are checked."""
    token = _PASS.set(title)
    try:
        yield
    finally:
        _PASS.reset(token)


@contextmanager
def pass_bar(total: int | None, noun: str, *, counts: bool = True) -> Iterator[Callable[[float], None]]:
    """Show a pass over private records, and yield the advance function. No event and no line reports how far it is.

    A bar counts parts or records if `counts`, and if their numbers are public.
    """
    title, n_done, counted = _PASS.get(), 0, counts and _COUNTED.get() is True
    if not _SHOWN.get():
        yield _ignore
        return
    if _LINES.get() is not None or not counted:
        with _on_screen(title, None, shown=True):
            yield _ignore
        return
    with _added_bar(title, total) as (live, task):

        def advance(steps: float) -> None:
            nonlocal n_done
            n_done += int(steps)
            of_all = "" if total is None else f" of {total:,}"
            live.update(task, advance=steps, description=f"{title}: {n_done:,}{of_all} {noun}")

        yield advance


class ShownPasses:
    """Passes over the same blocks of records, each with a bar. The first pass counts the records.

    With `counts=False` no bar shows their number, for example because a unit may have any number of records.
    """

    def __init__(self, *, counts: bool = True) -> None:
        self._counts = counts
        self._n_records: int | None = None

    def over(self, blocks: Iterator[tuple[Rows, Rows]]) -> Iterator[tuple[Rows, Rows]]:
        """Yield blocks of rows and labels, and move the bar."""
        n_read = 0
        with pass_bar(self._n_records, "records", counts=self._counts) as advance:
            for rows, labels in blocks:
                yield rows, labels
                n_read += len(labels)
                advance(len(labels))
        self._n_records = n_read


@contextmanager
def _added_bar(title: str, total: float | None, *, left: bool = True, stays: bool = True) -> Iterator[tuple[Rows, int]]:
    """Add a bar to those on the screen for the block, or show the first one, which `stays`, and yield both."""
    live = _LIVE.get()
    if live is not None:
        task = live.add_task(title, total=total, left=left)
        try:
            yield live, task
        finally:
            live.remove_task(task)
        return
    with _bars(stays) as alone:
        task, token = alone.add_task(title, total=total, left=left), _LIVE.set(alone)
        try:
            yield alone, task
        finally:
            _LIVE.reset(token)


def _bars(stay: bool) -> Rows:
    """Return bars on stderr, which are shown in a block, and `stay` afterwards."""
    # Takes long to import, and most programs show no bar.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        Progress,
        ProgressColumn,
        Task,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text  # noqa: PLC0415

    class OfKnownTotal(ProgressColumn):
        """Leave a column out for a bar without a total."""

        def __init__(
            self, column: TextColumn | TimeRemainingColumn, before: str = "", *, if_left: bool = False
        ) -> None:
            super().__init__()
            self._column, self._before, self._if_left = column, before, if_left

        def render(self, task: Task) -> Text:
            if task.total is None or (self._if_left and not task.fields["left"]):
                return Text()
            return Text(self._before).append(self._column.render(task))

    share, remaining = OfKnownTotal(TaskProgressColumn()), OfKnownTotal(TimeRemainingColumn(), "left: ", if_left=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), share, TimeElapsedColumn(), remaining)
    # What is printed meanwhile must not leave standard output.
    return Progress(*columns, console=Console(stderr=True), redirect_stdout=False, transient=not stay)


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
